"""`trackside verify`: read claims, measure what each is about, judge."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Literal, Self, cast

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from app import results
from app.errors import REFUTED, UNDETERMINED, ClaimsError
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
    from collections.abc import Callable
    from pathlib import Path

    from app.results import Source, Window

MIN_RESTARTS = 20
"""Fewest restarts behind a verdict on their median."""


MOST_UNSEEN = 0.1
"""A delivered MFU is not judged if more than this share of the logged steps' GPU-time has none."""


class ClaimEntry(BaseModel):
    """A `[[claim]]` of a claims file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    metric: Literal["goodput_allocated", "goodput_capacity", "occupancy", "availability", "ettr", "mfu", "mttf",
                    "ettr_without_initial_queue", "time_to_job_restart"]  # fmt: skip
    quoted: str
    read_as: str
    kind: Literal["delivered", "capability"]
    target: float
    direction: Literal["at_least", "at_most"]
    gpus: float | None = Field(default=None, gt=0)
    min_run_hours: float = Field(default=0.0, ge=0)
    flop_convention: Convention | None = None

    @model_validator(mode="after")
    def _ratios_are_shares(self) -> Self:
        if self.metric not in _UNITS and not 0 <= self.target <= 1:
            message = (
                f"the target of {self.metric} is a ratio between 0 and 1; {self.target:g} % is {self.target / 100:g}"
            )
            raise ValueError(message)
        return self


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


_UNITS = {"mttf": "d", "time_to_job_restart": "s"}


def read_claims(path: Path | None) -> list[Claim]:
    """Claims of a file, or the vendor's headline claims that come with Trackside.

    Raises:
        ClaimsError: the file is not there, not TOML, or has mistakes; all are listed.
    """
    origin = "the default claims" if path is None else str(path)
    try:
        text = (resources.files("app") / "claims.toml").read_text("utf-8") if path is None else path.read_text("utf-8")
        entries = _File.model_validate(tomllib.loads(text)).claim
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


def verify(source: Source, window: Window, claims: list[Claim], *, covered: float = 1.0) -> list[Judged]:
    """Judge each claim against the data of a window.

    Args:
        source: where the numbers come from.
        window: the time that the data speak for.
        claims: what to judge.
        covered: share of the period that was asked for. A delivered claim is about the whole of it, so it stays
            undetermined below 1.
    """
    judged = [judge(claim, _MEASURES[claim.metric](source, window, claim)) for claim in claims]
    return [_of_whole_period(each, covered) for each in judged]


def _of_whole_period(judged: Judged, covered: float) -> Judged:
    if covered >= 1 or judged.claim.kind == "capability":
        return judged
    share = "all but less than 0.1 %" if covered > 0.999 else f"{covered:.1%}"
    needed = f"data for the whole period: {share} of it is covered"
    return replace(judged, verdict="undetermined", measured=replace(judged.measured, needed=needed))


def exit_status(judged: list[Judged]) -> int:
    """3 if any claim is refuted, else 4 if any is undetermined, else 0."""
    verdicts = {each.verdict for each in judged}
    if "refuted" in verdicts:
        return REFUTED
    return UNDETERMINED if "undetermined" in verdicts else 0


def as_rows(judged: list[Judged], window: Window) -> pl.DataFrame:
    """The verdicts as rows of the table `verdicts`, with the method beside them."""
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
