"""`trackside verify`: measure each claim in its period, and judge it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import polars as pl

from app.claims.entries import rolling_days
from app.claims.measure import measure
from app.claims.verdict_text import from_text
from app.corrections import records as adjudications
from app.errors import REFUTED, UNDETERMINED, UsageError
from app.results.coverage import covered, in_words
from app.times import parse_period, zone_of
from app.window import Window
from metrics.claims.verdict import Measurement, judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.results.coverage import CoveredPeriod
    from app.window import RowSource
    from metrics.claims.verdict import Claim, Exclusion, Judged

    _Periods = dict[tuple[str | None, str | None], tuple[CoveredPeriod, int]]
    """Periods of claims by their window and zone, with the corrections that count in them."""


def verify(source: RowSource, requested: Window, claims: Iterable[Claim]) -> list[Judged]:
    """Judge each claim against the data of its period.

    Verdicts that the last computation stored for the same claims and period are read where nothing was loaded since.

    A delivered claim is about the whole of the period, so it stays undetermined where the data do not cover all of it:
    outside of the computed window, and in gaps between loads of accounting.

    Args:
        source: where the numbers come from.
        requested: the cluster and the requested period, not cut to the data. Claims with a window of their own are
            judged by that instead.
        claims: what to judge.

    Raises:
        UsageError: nothing is computed, or the period has no data.
    """
    claims = tuple(_with_own_maintenance(source, requested, claim) for claim in claims)
    stored = source.query("stored_verdicts", cluster=requested.cluster)["verdicts"].to_list()
    judged = from_text(stored[0], requested, claims) if stored and claims else None
    return judge_claims(source, requested, claims) if judged is None else judged


def judge_claims(source: RowSource, requested: Window, claims: Iterable[Claim]) -> list[Judged]:
    """As `verify`, from the numbers of this moment, whatever is stored: what `compute` stores."""
    cache: _Periods = {(None, None): (covered(source, requested), len(adjudications.counting_in(source, requested)))}
    return [_judged(source, requested, _with_own_maintenance(source, requested, claim), cache) for claim in claims]


def _with_own_maintenance(source: RowSource, requested: Window, claim: Claim) -> Claim:
    """The claim with the agreed maintenance of its period only: a calendar has that of years."""
    if not any(each.calendar for each in claim.exclusions):
        return claim
    try:
        period = requested if claim.window is None else own_period(source, requested.cluster, claim)
    except UsageError:
        return claim
    return replace(claim, exclusions=tuple(each for each in claim.exclusions if _is_of(each, period)))


def _is_of(exclusion: Exclusion, period: Window) -> bool:
    """Whether it is written in the claims file itself, or is maintenance of the calendar in the period."""
    if exclusion.calendar is None or exclusion.since is None or exclusion.until is None:
        return True
    return exclusion.since < period.until and exclusion.until > period.since


def _judged(source: RowSource, requested: Window, claim: Claim, cache: _Periods) -> Judged:
    key = (claim.window, claim.window and claim.zone)
    if key not in cache:
        try:
            period = own_period(source, requested.cluster, claim)
            cache[key] = covered(source, period), len(adjudications.counting_in(source, period))
        except UsageError as error:  # others are judged all the same
            return judge(claim, Measurement(needed=f"data of its window: {error}"))
    coverage, corrections = cache[key]
    judged = judge(claim, measure(source, coverage.window, claim))
    judged = replace(judged, since=coverage.window.since, until=coverage.window.until, adjudications=corrections)
    return _of_whole_period(judged, coverage.share)


def own_period(source: RowSource, cluster: str, claim: Claim) -> Window:
    """The period of a claim that has one: of its zone's calendar, or a number of days before the end of the data."""
    window = claim.window or ""
    days = rolling_days(window)
    if days is None:
        return Window(cluster, *parse_period(window, zone_of(claim.zone or "UTC")))
    computed = source.query("computed", cluster=cluster)
    if computed.is_empty():
        raise UsageError(f"{cluster}: nothing has been computed yet. Run: trackside compute")
    until = computed["until"].item()
    return Window(cluster, until - timedelta(days=days), until)


def _of_whole_period(judged: Judged, share: float) -> Judged:
    judged = replace(judged, share=share)
    if share >= 1 or judged.claim.kind == "capability":
        return judged
    needed = f"data for the whole period: they cover {in_words(share)} of it"
    return replace(judged, verdict="undetermined", measured=replace(judged.measured, needed=needed))


# Answers ---------------------------------------------------------------------------------------------------------


def exit_status(judged: list[Judged]) -> int:
    """3 if any claim is refuted, else 4 if any is undetermined, else 0."""
    verdicts = {each.verdict for each in judged}
    if "refuted" in verdicts:
        return REFUTED
    return UNDETERMINED if "undetermined" in verdicts else 0


def as_rows(judged: Sequence[Judged], window: Window) -> pl.DataFrame:
    """The verdicts as rows of the table `verdicts`, with further columns such as the method.

    The window of a row is the measured one: that of the claim, if it has one.
    """
    rows = [
        {
            "cluster": window.cluster,
            "claim": each.claim.id,
            "window_from": each.since or window.since,
            "window_until": each.until or window.until,
            "quoted": each.claim.quoted,
            "read_as": each.claim.read_as,
            "kind": each.claim.kind,
            "metric": each.claim.metric,
            "unit": each.claim.unit,
            "target": each.claim.target,
            "direction": each.claim.direction,
            "value": each.measured.value,
            "low": each.measured.low,
            "high": _no_limit(each.measured.high),
            "n": each.measured.n,
            "verdict": each.verdict,
            "needed": each.measured.needed if each.verdict == "undetermined" else None,
            "method": each.measured.method,
            "numerator": each.measured.numerator,
            "denominator": each.measured.denominator,
            "level": each.measured.level,
            "beside": list(each.measured.beside),
            "scope": each.claim.scope.words(),
            "excluded_s": each.measured.excluded_s,
            "excluded_gpu_hours": None if each.measured.excluded_gpu_s is None else each.measured.excluded_gpu_s / 3600,
            "exclusions": [one.words() for one in each.claim.exclusions],
            "adjudications": each.adjudications,
            "gpus": each.claim.gpus,
            "failure_class": each.claim.failure_class if each.claim.metric == "mttf" else None,
            "population": each.claim.population if each.claim.metric == "mttf" else None,
        }
        for each in judged
    ]
    lists: dict[str, Any] = {"beside": pl.List(pl.String), "exclusions": pl.List(pl.String), "scope": pl.String}
    made = pl.DataFrame(rows, infer_schema_length=None)
    return made.with_columns(pl.col(name).cast(kind) for name, kind in lists.items()) if rows else made


def _no_limit(value: float | None) -> float | None:
    return None if value == float("inf") else value
