"""The measurement of a claim's metric: its value, the ends that decide, and the kind of evidence.

A claim on the whole cluster is measured by the very functions of `app.results` that `trackside show` uses; one that is
narrowed (a scope, exclusions) by the same functions on a source limited to that part (`app.claims.scope`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import polars as pl

from app.claims.measure_scaling import scaling_efficiency, time_to_train
from app.claims.scope import EmptyScopeError, Scoped, scoped_to
from app.results.ettr import ettr_rows, ettr_run_rows, left_out, long_enough, training_runs
from app.results.failures.failure_rates import failure_history
from app.results.failures.interruptions import restart_rows
from app.results.goodput import goodput_rows
from app.results.mfu import fleet_row, flop_convention, mfu_rows, step_mfu_rows, steps_without_mfu
from app.results.nodes.capacity import nodes_by_accounting
from app.results.windows import named, seed
from metrics import frames
from metrics.catalog import CLAIMABLE
from metrics.categories import EVIDENCE_KINDS
from metrics.claims.verdict import (
    Claim,
    Measurement,
    measure_median,
    measure_mttf,
    measure_ratio,
    measure_ratio_capability,
)
from metrics.ettr.ettr import ettr_total, waits
from metrics.exact import exact_sum
from metrics.failures.exposure import POOLED, around
from metrics.failures.rates import failure_rates, law_in, rates_in
from metrics.mfu.remark import beyond_peak
from metrics.statistics import OVERDISPERSION_P

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from app.window import RowSource, Window
    from metrics.mfu.mfu import Convention

    _Method = Callable[[RowSource, Window, Claim, Scoped | None], Measurement]

MIN_RESTARTS = 20
"""Fewest restarts behind a verdict on their median."""

MIN_INTERRUPTED_RUNS = 10
"""Fewest runs with an interruption behind a verdict on ETTR as a capability."""

MOST_UNSEEN = 0.1
"""A delivered MFU is not judged if more than this share of the logged steps' GPU-time has none."""

ENOUGH_LOGGED = 0.9
"""Share of the GPU-time that logs must cover, for telemetry and accounting to go unnamed."""


METHODS: dict[str, _Method] = {}
"""Ways of measuring a claim, by the name that entries of metrics give them (`Claimable.method`)."""


def _method(name: str) -> Callable[[_Method], _Method]:
    """Register a way of measuring."""

    def register(function: _Method) -> _Method:
        METHODS[name] = function
        return function

    return register


def measure(source: RowSource, window: Window, claim: Claim) -> Measurement:
    """The measurement of a claim in a window."""
    try:
        scoped = scoped_to(source, window, claim)
    except EmptyScopeError as error:
        return Measurement(needed=str(error))
    measurement = METHODS[CLAIMABLE[claim.metric].method](source, window, claim, scoped)
    if scoped is None:
        return measurement
    counted = scoped.excluded_gpu_s() if CLAIMABLE[claim.metric].categories else None
    return replace(measurement, excluded_s=scoped.excluded_s, excluded_gpu_s=counted)


# Ratios of the ledger --------------------------------------------------------------------------------------------


@_method("ledger_ratio")
def _goodput(source: RowSource, window: Window, claim: Claim, scoped: Scoped | None) -> Measurement:
    rows_of = scoped or source
    row = goodput_rows(rows_of, window).filter(pl.col("metric") == claim.metric)
    whole = _from_row(claim, row, "allocations: there is no allocated GPU-time yet")
    if claim.metric != "goodput_allocated" and (note := nodes_by_accounting(source, window)):
        whole = replace(whole, beside=(*whole.beside, note))
    if claim.kind == "delivered" or whole.low is None:
        return whole
    days = goodput_rows(rows_of, window, "day").filter(pl.col("metric") == claim.metric)
    bottom = pl.col("denominator")
    ends = days.select(low=pl.col("bound_low") * bottom, high=pl.col("bound_high") * bottom, bottom=bottom).drop_nulls()
    judged = measure_ratio_capability(claim, whole.value, ends.rows(), seed=_seed(claim, window), what="days")
    return _with_evidence_of(judged, whole)


@_method("run_ratio")
def _ettr(source: RowSource, window: Window, claim: Claim, scoped: Scoped | None) -> Measurement:
    by_run = ettr_run_rows(scoped or source, window)
    if scoped is not None:
        by_run = _without_waits(by_run, scoped, window)
    every = by_run.filter(long_enough(claim.min_run_s))
    long = training_runs(source, window.cluster, every)
    if scoped is None:
        row = ettr_rows(source, window, min_run_s=claim.min_run_s, by_run=by_run).filter(
            pl.col("metric") == claim.metric
        )
    else:
        row = _ettr_row(ettr_total(long), claim.metric)
    nothing = f"runs with at least {claim.min_run_s / 3600:g} h of training: there are none yet"
    whole = _from_row(claim, row, nothing)
    if note := left_out(every.height - long.height):
        whole = replace(whole, beside=(*whole.beside, note))
    interrupted = _interrupted_runs(scoped or source, window, long)
    if interrupted < MIN_INTERRUPTED_RUNS:
        note = (
            f"{interrupted} of {long.height} runs were interrupted: fewer than {MIN_INTERRUPTED_RUNS} are no basis for "
            "an interval"
        )
        whole = replace(whole, beside=(*whole.beside, note))
    if claim.kind == "delivered" or whole.low is None:
        return whole
    bottom = pl.col("wall_gpu_s") - (0 if claim.metric == "ettr" else pl.col("queued_initial"))
    low = "productive_sure" if "productive_sure" in long.columns else "productive"
    ends = long.select(low=low, high=pl.col("productive") + pl.col("unseen") + pl.col("beside_idle"), bottom=bottom)
    judged = measure_ratio_capability(claim, whole.value, ends.rows(), seed=_seed(claim, window), what="runs")
    if judged.low is not None and interrupted < MIN_INTERRUPTED_RUNS:
        needed = f"at least {MIN_INTERRUPTED_RUNS - interrupted} more interrupted runs: {interrupted} so far"
        judged = replace(judged, low=None, high=None, needed=needed)
    return _with_evidence_of(judged, whole)


def _interrupted_runs(source: RowSource, window: Window, runs: pl.DataFrame) -> int:
    """How many of the runs were interrupted in the window."""
    rows = source.query("interruptions", **window.parameters)
    return rows.join(runs, on="run_id", how="semi")["run_id"].n_unique()


def _without_waits(by_run: pl.DataFrame, scoped: Scoped, window: Window) -> pl.DataFrame:
    """ETTR of runs without their queue time in intervals that exclude all nodes."""
    attempts = scoped.query("attempts", cluster=window.cluster)
    joined = scoped.query("run_attempts", cluster=window.cluster)
    all_excluded = [each for each in scoped.intervals if each.without is None]
    if not all_excluded:
        return by_run
    left_out = pl.concat([waits(attempts, joined, each.since, each.until) for each in all_excluded])
    gpu_s = pl.col("wait_s") * pl.col("milli_gpus") / 1000
    summed = left_out.group_by("cluster", "run_id").agg(
        exact_sum(gpu_s.filter(pl.col("initial"))).alias("_initial"),
        exact_sum(gpu_s.filter(~pl.col("initial"))).alias("_requeue"),
    )
    initial, requeue = pl.col("_initial").fill_null(0.0), pl.col("_requeue").fill_null(0.0)
    return (
        by_run.join(summed, on=["cluster", "run_id"], how="left", maintain_order="left")
        .with_columns(
            queued_initial=pl.max_horizontal(pl.col("queued_initial") - initial, pl.lit(0.0)),
            queued_requeue=pl.max_horizontal(pl.col("queued_requeue") - requeue, pl.lit(0.0)),
        )
        .with_columns(wall_gpu_s=pl.col("allocated") + pl.col("queued_initial") + pl.col("queued_requeue"))
        .drop("_initial", "_requeue")
        .filter(pl.col("wall_gpu_s") > 0)
    )


def _ettr_row(total: pl.DataFrame, metric: str) -> pl.DataFrame:
    """The total of runs in scope as `_from_row` reads it."""
    bottom = pl.col("wall_gpu_s") - (0 if metric == "ettr" else pl.col("queued_initial"))
    waited = bottom - pl.col("allocated")
    shares = [
        ((pl.col(f"by_{kind}") + (waited if kind == "accounting" else 0)) / bottom).alias(f"evidence_{kind}")
        for kind in EVIDENCE_KINDS
    ]
    return total.select(
        pl.col(metric).alias("value"),
        pl.col("productive").alias("numerator"),
        bottom.alias("denominator"),
        "n",
        pl.col(f"{metric}_low").alias("bound_low"),
        pl.col(f"{metric}_high").alias("bound_high"),
        pl.lit(None, dtype=pl.String).alias("note"),
        *shares,
    )


def _seed(claim: Claim, window: Window) -> int:
    """The seed of the resampling: the same claim and window give the same interval."""
    return seed("claim", claim.id, claim.metric, claim.narrowed or "", *named(window))


def _from_row(claim: Claim, rows: pl.DataFrame, nothing: str) -> Measurement:
    if rows.is_empty() or not rows["denominator"][0]:
        return Measurement(n=0, needed=nothing)
    row = rows.row(0, named=True)
    evidence = _shares(row)
    parts = {"numerator": row["numerator"], "denominator": row["denominator"]}
    if row["bound_low"] is None:
        return Measurement(row["value"], needed=row["note"], evidence=evidence, **parts)
    ends = (row["bound_low"], row["bound_high"])
    measured = measure_ratio(claim, row["value"], *ends, row["n"], row["denominator"])
    return replace(measured, evidence=evidence, level=level(dict(evidence)), **parts)


def _with_evidence_of(judged: Measurement, whole: Measurement) -> Measurement:
    """A capability with the parts and the evidence of its value."""
    return replace(
        judged,
        numerator=whole.numerator,
        denominator=whole.denominator,
        evidence=whole.evidence,
        level=whole.level,
        beside=whole.beside,
    )


def _shares(row: Mapping[str, float | None]) -> tuple[tuple[str, float], ...]:
    return tuple((kind, share) for kind in EVIDENCE_KINDS if (share := row[f"evidence_{kind}"]))


def level(shares: Mapping[str, float]) -> str:
    """The kind of evidence in words: accounting is named where logs and telemetry are not nine tenths of the time.

    >>> level({"log": 0.95, "accounting": 0.05}), level({"telemetry": 0.9, "log": 0.1}), level({"accounting": 1.0})
    ('logs for 95.0 %', 'logs for 10.0 %, telemetry for 90.0 %', 'accounting alone for 100.0 %')
    """
    log, telemetry = shares.get("log", 0.0), shares.get("telemetry", 0.0)
    if log >= ENOUGH_LOGGED:
        return f"logs for {100 * log:.1f} %"
    shares_of = [
        f"{name} for {100 * share:.1f} %" for name, share in (("logs", log), ("telemetry", telemetry)) if share
    ]
    rest = 1 - log - telemetry
    shares_of += [f"accounting alone for {100 * rest:.1f} %"] if log + telemetry < ENOUGH_LOGGED else []
    return ", ".join(shares_of)


# Events ----------------------------------------------------------------------------------------------------------


@_method("mttf")
def _mttf(source: RowSource, window: Window, claim: Claim, scoped: Scoped | None) -> Measurement:
    gpus = cast("float", claim.gpus)
    past = failure_history(source, window)
    bucket = claim.population == "bucket"
    rates = rates_in(past, window.since, window.until, [around(gpus) if bucket else POOLED])
    row = rates.filter((pl.col("class") == claim.failure_class) & (pl.col("counted") == "attempts")).row(0, named=True)
    phi = _divisor(row)
    law = "assumes 1/N"
    if scoped is not None:
        row = _in_scope(scoped, window, claim)
    elif claim.kind == "capability" and not bucket:
        law = law_in(past, window.since, window.until, claim.failure_class).words
    measured = measure_mttf(
        row["n_failures"],
        row["exposure_gpu_days"],
        claim,
        job_days=row["exposure_job_days"] if bucket else None,
        phi=phi,
        law=law,
    )
    return replace(measured, evidence=(("accounting", 1.0),) if measured.numerator else ())


def _divisor(row: Mapping[str, float | None]) -> float:
    """The overdispersion to allow for: 1 unless its test says that failures cluster (at the strongest, p is 0)."""
    phi, p_value = row["phi"], row["phi_p"]
    clustered = phi is not None and p_value is not None and p_value < OVERDISPERSION_P
    return max(cast("float", phi), 1.0) if clustered else 1.0


def _in_scope(scoped: Scoped, window: Window, claim: Claim) -> dict[str, float]:
    """Failures and exposure of the attempts in scope, added up over the time that is not left out."""
    attempts = frames.conform(scoped.query("attempts", cluster=window.cluster), frames.ATTEMPTS)
    window_params = window.parameters
    events = frames.conform(scoped.query("interruptions", **window_params), frames.INTERRUPTIONS)
    size = around(cast("float", claim.gpus)) if claim.population == "bucket" else POOLED
    sums = {"n_failures": 0, "exposure_gpu_days": 0.0, "exposure_job_days": 0.0}
    for interval in scoped.intervals:
        if interval.without is None:
            continue
        out = scoped.touched(interval, attempts).select(frames.ATTEMPT_KEY)
        key = list(frames.ATTEMPT_KEY)
        mine, ended = attempts.join(out, on=key, how="anti"), events.join(out, on=key, how="anti")
        row = failure_rates(mine, ended, interval.since, interval.until, [size]).filter(
            (pl.col("class") == claim.failure_class) & (pl.col("counted") == "attempts")
        )
        sums = {name: value + row[name][0] for name, value in sums.items()}
    return sums


@_method("restart_median")
def _restart(source: RowSource, window: Window, claim: Claim, scoped: Scoped | None) -> Measurement:
    restarts = restart_rows(scoped or source, window).filter(pl.col("class") == "infrastructure")
    if scoped is not None:
        restarts = scoped.events_in_scope(restarts, "interrupted_at", ends=True)
    # A restart that still waits, and has waited longer than the target, counts as longer than any.
    waited = (frames.instant(window.until) - pl.col("interrupted_at")).dt.total_microseconds() / 1e6
    missed = pl.when(waited > claim.target).then(float("inf"))
    times = restarts.select(pl.coalesce("time_to_job_restart_s", missed).alias("s")).drop_nulls()["s"]
    measured = measure_median(times.to_list(), claim, at_least=MIN_RESTARTS)
    return replace(measured, evidence=(("accounting", 1.0),) if measured.n else ())


# MFU -------------------------------------------------------------------------------------------------------------


@_method("mfu")
def _mfu(source: RowSource, window: Window, claim: Claim, scoped: Scoped | None) -> Measurement:
    convention = cast("Convention | None", claim.flop_convention) or flop_convention(source, window.cluster)
    if scoped is None:
        fleet = mfu_rows(source, window, convention, claim.dtype)
        unseen = steps_without_mfu(source, window, convention, claim.dtype)
    else:
        steps = step_mfu_rows(source, window, convention, dtype=claim.dtype).join(
            scoped.runs(), on="run_id", how="semi"
        )
        steps = scoped.events_in_scope(steps, "ts")
        fleet = steps if steps.is_empty() else fleet_row(steps, window, convention, "mfu")
        time = pl.col("wall_s") * pl.col("n_gpus").fill_null(1)
        whole, unknown = steps.select(time.sum(), time.filter(pl.col("mfu").is_null()).sum().alias("unknown")).row(0)
        unseen = unknown / whole if whole else 0.0
    if fleet.is_empty() or fleet["value"][0] is None:
        return Measurement(n=0, needed="a run log with steps and tokens: MFU has no other source")
    return mfu_measured(fleet, claim, unseen)


def mfu_measured(fleet: pl.DataFrame, claim: Claim, unseen: float) -> Measurement:
    """The pooled MFU as evidence; above 100 % of the peak in use it is none.

    Args:
        fleet: one row of `app.results.mfu.fleet_row`.
        claim: what is tested.
        unseen: the share of the logged time without an MFU.
    """
    row = fleet.row(0, named=True)
    value, n = row["value"], row["n"]
    parts = Measurement(
        value,
        n=n,
        numerator=row["numerator"],
        denominator=row["denominator"],
        level="logs",
        evidence=(("log", 1.0),),
    )
    if claim.dtype is None and (impossible := beyond_peak([value])):
        return replace(parts, needed=impossible[0], method=row["note"])
    if claim.kind == "delivered" and unseen > MOST_UNSEEN:
        missing = f"tokens, model sizes and GPU name of all logged steps: {unseen:.0%} of their time lack them"
        return replace(parts, needed=missing, method=row["note"])
    if claim.kind == "delivered":
        return replace(parts, low=value, high=value, method=f"over logged steps; {row['note']}")
    low, high = row["ci_low"], row["ci_high"]
    needed = "more logged steps: 400 at least for an interval"
    if low is not None and high is not None:
        near = value - low if value >= claim.target else high - value
        off = abs(value - claim.target)
        times = (near / off) ** 2 if off else float("inf")
        needed = f"about {n * (times - 1):,.0f} more steps like these" if 1 < times < _FAR else "more steps"
    return replace(parts, low=low, high=high, needed=needed, method=f"{row['ci_method']}; {row['note']}")


_FAR = 1e4
"""A larger multiple of the logged steps is printed without a number."""


# Scaling ---------------------------------------------------------------------------------------------------------


METHODS |= {"scaling_efficiency": scaling_efficiency, "time_to_train": time_to_train}
