"""`trackside verify`: read claims, measure what each is about, judge."""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, cast

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from app import results
from app.errors import REFUTED, UNDETERMINED, ClaimsError, UsageError
from app.results import Window
from app.times import iso
from metrics import frames
from metrics.capacity import coverage
from metrics.mfu import Convention
from metrics.verdicts import (
    Claim,
    Judged,
    Measurement,
    judge,
    measure_median,
    measure_mttf,
    measure_ratio,
    measure_ratio_capability,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from app.results import Source

    Stretch = tuple[datetime, datetime]

MIN_RESTARTS = 20
"""Fewest restarts behind a verdict on their median."""

SMALLEST_JOB, LARGEST_JOB = 0.001, 1e7
"""Sizes of jobs, in GPUs, that a claim can be about: accounting counts thousandths of a GPU."""

LONGEST_RUN_H = 1e6
"""Hours that no run has; so many are a slip of the pen."""

LONGEST_TARGET = 1e9
"""Days or seconds that nobody promises."""

MOST_UNSEEN = 0.1
"""A delivered MFU is not judged if more than this share of the logged steps' GPU-time has none."""


class ClaimEntry(BaseModel):
    """A `[[claim]]` of a claims file. What would be read and not applied is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    metric: Literal["goodput_allocated", "goodput_capacity", "occupancy", "availability", "ettr", "mfu", "mttf",
                    "ettr_without_initial_queue", "time_to_job_restart"]  # fmt: skip
    quoted: str
    read_as: str
    kind: Literal["delivered", "capability"]
    target: float
    direction: Literal["at_least", "at_most"]
    gpus: float | None = Field(default=None, ge=SMALLEST_JOB, lt=LARGEST_JOB, validate_default=True)
    min_run_hours: float = Field(default=0.0, ge=0, lt=LONGEST_RUN_H)
    flop_convention: Convention | None = None

    @field_validator("id")
    @classmethod
    def _is_its_own(cls, value: str, info: ValidationInfo) -> str:
        used = cast("set[str]", info.context)
        if value in used:
            raise ValueError(f"a claim before it is called {value!r} too; verdicts are told apart by it, so change one")
        used.add(value)
        return value

    @field_validator("target")
    @classmethod
    def _can_be_met(cls, value: float, info: ValidationInfo) -> float:
        metric = info.data.get("metric", "")
        if metric in _UNITS and not 0 < value < LONGEST_TARGET:
            unit = {"d": "days", "s": "seconds"}[_UNITS[metric]]
            raise ValueError(
                f"the target of {metric} is a number of {unit} above 0 and below {LONGEST_TARGET:g}, not {value:g}"
            )
        if metric not in _UNITS and 1 < value <= 100:
            raise ValueError(f"the target of {metric} is a ratio between 0 and 1; {value:g} % is {value / 100:g}")
        if metric not in _UNITS and not 0 <= value <= 1:
            raise ValueError(f"the target of {metric} is a ratio between 0 and 1, not {value:g}")
        return value

    @field_validator("gpus", "min_run_hours", "flop_convention")
    @classmethod
    def _applies(cls, value: object, info: ValidationInfo) -> object:
        field, metric = cast("str", info.field_name), info.data.get("metric")
        if field == "gpus" and metric == "mttf" and value is None:
            raise ValueError("an MTTF is that of jobs of a size: say of how many GPUs, such as gpus = 1024")
        if metric is not None and value is not None and metric not in _APPLIES[field]:
            of = " and ".join(_APPLIES[field])
            raise ValueError(f"it is for claims on {of}, and would change nothing for {metric}; leave it out")
        return value


_APPLIES = {
    "gpus": ("mttf",),
    "min_run_hours": ("ettr", "ettr_without_initial_queue"),
    "flop_convention": ("mfu",),
}
"""Fields that only claims on some metrics have."""

_UNITS = {"mttf": "d", "time_to_job_restart": "s"}
"""Units of the targets that are no ratios."""


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    claim: tuple[ClaimEntry, ...] = Field(min_length=1)


def _place(where: tuple[int | str, ...]) -> str:
    """Where in the file a mistake is: claims are counted as people count."""
    first, *rest = where
    number, *names = rest or [0]
    if first != "claim" or not isinstance(number, int) or not rest:
        return ".".join(map(str, where))
    return ".".join([f"claim {number + 1}", *map(str, names)])


def read_claims(path: Path | None) -> list[Claim]:
    """Claims of a file, or the vendor's headline claims that come with Trackside.

    Raises:
        ClaimsError: the file is not there, not TOML, or has mistakes; all are listed.
    """
    origin = "the default claims" if path is None else str(path)
    try:
        text = (resources.files("app") / "claims.toml").read_text("utf-8") if path is None else path.read_text("utf-8")
        entries = _File.model_validate(tomllib.loads(text), context=set()).claim
    except OSError as error:
        raise ClaimsError(f"{origin} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ClaimsError(f"{origin} is not TOML: {error}") from None
    except ValidationError as error:
        found = [m for m in error.errors() if m["loc"] != ("claim",) or error.error_count() == 1]
        mistakes = "\n".join(f"  {_place(m['loc'])}: {m['msg'].removeprefix('Value error, ')}" for m in found)
        raise ClaimsError(f"{origin} has {len(found)} mistake(s):\n{mistakes}") from None
    return [
        Claim(
            id=entry.id,
            metric=entry.metric,
            quoted=entry.quoted,
            read_as=entry.read_as,
            kind=entry.kind,
            target=entry.target,
            direction=entry.direction,
            unit=_UNITS.get(entry.metric, "ratio"),
            gpus=entry.gpus,
            min_run_s=entry.min_run_hours * 3600,
            flop_convention=entry.flop_convention,
        )
        for entry in entries
    ]


def verify(source: Source, asked: Window, claims: Sequence[Claim]) -> list[Judged]:
    """Judge each claim against the data of a period.

    A delivered claim is about the whole of the period, so it stays undetermined where the data do not speak for all
    of it: outside of what is computed, and in gaps between loads of accounting.

    Args:
        source: where the numbers come from.
        asked: the cluster, and the period that was asked for: as it was asked for, not cut to the data.
        claims: what to judge.

    Raises:
        UsageError: nothing is computed, or nothing is known of the period.
    """
    known = covered(source, asked)
    judged = [judge(claim, _MEASURES[claim.metric](source, known.window, claim)) for claim in claims]
    return [_of_whole_period(each, known.share) for each in judged]


def _of_whole_period(judged: Judged, share: float) -> Judged:
    if share >= 1 or judged.claim.kind == "capability":
        return judged
    needed = f"data for the whole period: {in_words(share)} of it is covered"
    return replace(judged, verdict="undetermined", measured=replace(judged.measured, needed=needed))


# What the data speak for -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Covered:
    """How much of a period the data speak for.

    Attributes:
        window: the part of it that the ledger reaches; gaps in it are not cut out.
        share: of the period: what is in no gap.
        gaps: stretches of the period that accounting does not speak for, in order.
    """

    window: Window
    share: float
    gaps: tuple[Stretch, ...]


def covered(source: Source, period: Window) -> Covered:
    """How much of a period the data speak for.

    Raises:
        UsageError: nothing is computed, or nothing is known of the period.
    """
    computed = source.query("computed", cluster=period.cluster)
    if computed.is_empty():
        raise UsageError(f"{period.cluster}: nothing has been computed yet. Run: trackside compute")
    row = computed.row(0, named=True)
    since, until = row["since"], row["until"]
    window = Window(period.cluster, max(period.since, since), min(period.until, until))
    if window.since >= window.until:
        when = f"between {iso(period.since)} and {iso(period.until)}"
        if period.since >= period.until:  # one of them was not told, and is an end of the data
            when = f"before {iso(since)}" if period.until <= since else f"from {iso(until)} on"
        raise UsageError(f"{period.cluster}: nothing is known {when}; the data speak for {iso(since)} to {iso(until)}")
    gaps = gaps_in(period, accounted(source, row))
    return Covered(window, share_without(period, gaps), gaps)


def accounted(source: Source, computed: Mapping[str, Any]) -> tuple[Stretch, ...]:
    """Stretches of time that accounting speaks for and the ledger reaches, in order.

    Args:
        source: where from.
        computed: the cluster's row of the named query `computed`.
    """
    since, until = computed["since"], computed["until"]
    gap_s = json.loads(computed["constants"])["coverage_gap_hours"] * 3600
    spoken = spoken_for(source, computed["cluster"], "slurm.accounting", gap_s)
    return tuple((max(low, since), min(high, until)) for low, high in spoken if low < until and high > since)


def spoken_for(source: Source, cluster: str, name: str, gap_s: float) -> tuple[Stretch, ...]:
    """Stretches of time that the loads of a source speak for, in order; gaps of at most `gap_s` seconds are closed."""
    loads = frames.conform(source.query("coverage", cluster=cluster, source=name), frames.COVERAGE)
    return tuple(coverage(loads, gap_s=gap_s).select("started_at", "ended_at").iter_rows())


def gaps_in(period: Window, spoken: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """The time of a period that is in none of the stretches; they are in order."""
    gaps, at = [], period.since
    for low, high in spoken:
        if min(low, period.until) > at:
            gaps.append((at, min(low, period.until)))
        at = max(at, high)
    if at < period.until:
        gaps.append((at, period.until))
    return tuple(gaps)


def share_without(period: Window, gaps: Iterable[Stretch]) -> float:
    """Share of a period that is in none of its gaps."""
    whole, missing = period.until - period.since, sum((high - low for low, high in gaps), timedelta())
    return (whole - missing) / whole


def in_words(share: float) -> str:
    """A share below 1, which never reads as all of it.

    >>> in_words(0.3226), in_words(0.99999)
    ('32.3%', 'all but less than 0.1 %')
    """
    return "all but less than 0.1 %" if share > 0.999 else f"{share:.1%}"


# Answers ---------------------------------------------------------------------------------------------------------


def exit_status(judged: list[Judged]) -> int:
    """3 if any claim is refuted, else 4 if any is undetermined, else 0."""
    verdicts = {each.verdict for each in judged}
    if "refuted" in verdicts:
        return REFUTED
    return UNDETERMINED if "undetermined" in verdicts else 0


def as_rows(judged: list[Judged], window: Window) -> pl.DataFrame:
    """The verdicts as rows of the table `verdicts`, with the method beside them; the window is what was measured."""
    rows = [
        {
            "cluster": window.cluster,
            "claim": each.claim.id,
            "window_from": window.since,
            "window_until": window.until,
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
        }
        for each in judged
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _no_limit(value: float | None) -> float | None:
    return None if value == float("inf") else value


def _goodput(source: Source, window: Window, claim: Claim) -> Measurement:
    found = results.goodput_rows(source, window).filter(pl.col("metric") == claim.metric)
    whole = _from_row(found, "allocations: there is no GPU-time yet")
    if claim.kind == "delivered" or whole.low is None:
        return whole
    days = results.goodput_rows(source, window, "day").filter(pl.col("metric") == claim.metric)
    bottom = pl.col("denominator")
    ends = days.select(low=pl.col("bound_low") * bottom, high=pl.col("bound_high") * bottom, bottom=bottom).drop_nulls()
    return measure_ratio_capability(whole.value, ends.rows(), seed=_seed(claim, window), what="days")


def _ettr(source: Source, window: Window, claim: Claim) -> Measurement:
    found = results.ettr_rows(source, window, min_run_s=claim.min_run_s).filter(pl.col("metric") == claim.metric)
    whole = _from_row(found, f"runs with at least {claim.min_run_s / 3600:g} h of training: there are none yet")
    if claim.kind == "delivered" or whole.low is None:
        return whole
    runs = results.ettr_run_rows(source, window).filter(results.long_enough(claim.min_run_s))
    bottom = pl.col("wall_gpu_s") - (0 if claim.metric == "ettr" else pl.col("queued_initial"))
    ends = runs.select(low="productive", high=pl.col("productive") + pl.col("unseen"), bottom=bottom)
    return measure_ratio_capability(whole.value, ends.rows(), seed=_seed(claim, window), what="runs")


def _seed(claim: Claim, window: Window) -> int:
    """The same question gets the same resampling, and so the same answer."""
    asked = f"{claim.id} {claim.metric} {window.cluster} {window.since.isoformat()} {window.until.isoformat()}"
    return int.from_bytes(hashlib.sha256(asked.encode()).digest()[:4], "big")


def _from_row(found: pl.DataFrame, nothing: str) -> Measurement:
    if found.is_empty() or found["denominator"][0] == 0:
        return Measurement(needed=nothing)
    row = found.row(0, named=True)
    if row["bound_low"] is None:
        return Measurement(row["value"], needed=row["note"])
    unseen = (row["bound_high"] - row["bound_low"]) * row["denominator"]
    return measure_ratio(row["value"], row["bound_low"], row["bound_high"], row["n"], unseen)


def _mttf(source: Source, window: Window, claim: Claim) -> Measurement:
    rates = results.failure_rate_rows(source, window)
    pooled = rates.filter(
        (pl.col("class") == "infrastructure") & (pl.col("counted") == "attempts") & (pl.col("size") == "pooled")
    ).row(0, named=True)
    return measure_mttf(pooled["n_failures"], pooled["exposure_gpu_days"], claim)


def _restart(source: Source, window: Window, claim: Claim) -> Measurement:
    found = results.restart_rows(source, window).filter(pl.col("class") == "infrastructure")
    # A restart that still waits, and has waited longer than the target, counts as longer than any.
    waited = (pl.lit(window.until) - pl.col("interrupted_at")).dt.total_microseconds() / 1e6
    missed = pl.when(waited > claim.target).then(float("inf"))
    times = found.select(pl.coalesce("time_to_job_restart_s", missed).alias("s")).drop_nulls()["s"]
    return measure_median(times.to_list(), claim, at_least=MIN_RESTARTS)


def _mfu(source: Source, window: Window, claim: Claim) -> Measurement:
    convention = cast("Convention | None", claim.flop_convention)
    found = results.mfu_rows(source, window, convention)
    if found.is_empty() or found["value"][0] is None:
        return Measurement(needed="a run log with steps and tokens: nothing else can tell MFU")
    row = found.row(0, named=True)
    unseen = results.steps_without_mfu(source, window, convention)
    if claim.kind == "delivered" and unseen > MOST_UNSEEN:
        missing = f"tokens, model sizes and GPU name of all logged steps: {unseen:.0%} of their time lack them"
        return Measurement(row["value"], None, None, row["n"], missing, row["note"])
    if claim.kind == "delivered":
        value = row["value"]
        return Measurement(value, value, value, row["n"], None, f"over logged steps; {row['note']}")
    needed = None if row["ci_low"] is not None else "more logged steps: 400 at least for an interval"
    return Measurement(
        row["value"], row["ci_low"], row["ci_high"], row["n"], needed, f"{row['ci_method']}; {row['note']}"
    )


_MEASURES: dict[str, Callable[[Source, Window, Claim], Measurement]] = {
    "goodput_allocated": _goodput,
    "goodput_capacity": _goodput,
    "occupancy": _goodput,
    "availability": _goodput,
    "ettr": _ettr,
    "ettr_without_initial_queue": _ettr,
    "mttf": _mttf,
    "time_to_job_restart": _restart,
    "mfu": _mfu,
}
