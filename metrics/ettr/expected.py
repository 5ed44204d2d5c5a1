"""Expected ETTR of a run from measured inputs: how often it fails, and the cost of each failure.

The closed forms are those of tests/metrics/oracles/theory.py, as expressions for many runs at once. The inputs are
measured where logs and accounting hold them; where they do not, they are the cluster's, and else Meta's assumptions.
Source: Kokolis et al. (HPCA 2025), expected ETTR.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from metrics.ettr.ettr import IMPUTED_CHECKPOINT_S, IMPUTED_RESTART_S
from metrics.exact import exact_mean, exact_sum
from metrics.joins import left_join
from metrics.metric import Metric, Parts
from metrics.units import DAY_S
from metrics.unknown import total

LARGE_LOSS = 0.1
"""Share of scheduled time lost to failures, `lambda (u0 + dt/2)`, above which the approximations read low."""

FORMS = ("closed_form", "with_queue", "finite", "exact")
"""Meta's v2 closed form; with queue, long run; of a run of that much training; exact under exponential failures."""

_RUN = ["cluster", "run_id"]


def starts(executed: pl.DataFrame, logged: pl.DataFrame | None = None) -> pl.DataFrame:
    """Number of starts of each run, and its GPUs.

    Args:
        executed: as `metrics.ettr.ettr.ordered` returns it, of the starts that count. A resize is no start.
        logged: `cluster`, `run_id`, `gpus`: the starts whose startup is logged, those in place among them.

    Returns:
        `cluster`, `run_id`, `n_starts`, `started_gpus` (the sum of their GPUs, null where one's are unknown), and
        `seen_gpus`: the GPUs of the logged ones; null for runs without a log.
    """
    began = executed.filter(pl.col("started_at").is_not_null() & (pl.col("joined_by") != "resize"))
    every = began.group_by(_RUN).agg(
        pl.len().cast(pl.Int64).alias("n_starts"), (total("milli_gpus") / 1000).alias("started_gpus")
    )
    if logged is None:
        return every.with_columns(seen_gpus=pl.lit(None, dtype=pl.Float64))
    return every.join(logged_gpus(logged), on=_RUN, how="left")


def logged_gpus(logged: pl.DataFrame) -> pl.DataFrame:
    """The GPUs of the logged starts of each run: `cluster`, `run_id`, `seen_gpus`; argument as of `starts`."""
    return logged.group_by(_RUN).agg(exact_sum(pl.col("gpus")).alias("seen_gpus"))


def inputs_of(table: pl.DataFrame, gpu_days_per_failure: float | None) -> pl.DataFrame:
    """Inputs of the expected ETTR of each run, and the source of each input.

    Args:
        table: as `own_inputs` returns it.
        gpu_days_per_failure: of the cluster; infinite if nothing failed, None where there was no exposure.

    Returns:
        `cluster`, `run_id`, `gpus`, `wall_gpu_s`, `mttf_s` (of a job of that size), `restart_s`, `interval_s`,
        `write_s`, `queue_s` (mean of the starts), `productive_s` (null where it is unknown), and `restart_from`,
        `interval_from`: measured, of the cluster, or assumed.
    """
    shared = shared_of(table)
    gpus = pl.col("milli_gpus") / 1000
    measured, paced = pl.col("own_restart").is_not_null(), pl.col("interval_s").is_not_null()
    return table.with_columns(
        gpus=gpus,
        mttf_s=_mttf_s(gpus, gpu_days_per_failure),
        restart_s=pl.coalesce("own_restart", pl.lit(shared.restart_s)),
        restart_from=_origin(measured),
        interval_from=_origin(paced),
        # One after the other: the interval of a run decides whether its writes go with it.
        write_s=pl.when(paced).then(pl.col("write_s").fill_null(0.0)).otherwise(pl.lit(shared.write_s)),
        interval_s=pl.coalesce("interval_s", pl.lit(shared.interval_s)),
        queue_s=pl.when(pl.col("started_gpus") > 0).then(_QUEUED / pl.col("started_gpus")).otherwise(0.0),
        productive_s=pl.when(pl.col("ettr").is_not_null()).then(pl.col("productive") / gpus),
    ).select(
        *_RUN, "gpus", "wall_gpu_s", "mttf_s", "restart_s", "interval_s", "write_s", "queue_s", "productive_s",
        "restart_from", "interval_from",
    )  # fmt: skip


_QUEUED = pl.col("queued_initial") + pl.col("queued_requeue")

_BEGUN = pl.coalesce("seen_gpus", "started_gpus")
"""Starts with a known startup: startup without a log is in no sum, so starts without a log must not count either."""


_OWN = ("milli_gpus", "wall_gpu_s", "startup", "queued_initial", "queued_requeue", "ettr", "productive")
"""Columns of a run that its expected ETTR depends on."""


def own_inputs(by_run: pl.DataFrame, started: pl.DataFrame, checkpoints: pl.DataFrame) -> pl.DataFrame:
    """Runs that held a known number of GPUs, with what was measured of each: `own_restart`, `interval_s`, `write_s`.

    Args:
        by_run: as `metrics.ettr.ettr.ettr_by_run` returns it, of one cluster.
        started: as `starts` returns it, of the starts in the window.
        checkpoints: as `metrics.checkpoints.advice.logged_saves` returns it.
    """
    held = by_run.select(*_RUN, *_OWN).filter(pl.col("milli_gpus") > 0)  # of some forty columns: a join copies each
    return own_inputs_of(held.join(started, on=_RUN, how="left"), checkpoints)


def own_inputs_of(begun: pl.DataFrame, checkpoints: pl.DataFrame) -> pl.DataFrame:
    """As `own_inputs`, of runs each with its starts (`n_starts`, `started_gpus`, `seen_gpus`) in its row."""
    return (
        begun.filter(pl.col("milli_gpus") > 0)
        .select(*_RUN, *_OWN, *_STARTS)
        .pipe(left_join, checkpoints.select(*_RUN, "interval_s", "write_s"), on=_RUN)
        .with_columns(own_restart=pl.when((pl.col("startup") > 0) & (_BEGUN > 0)).then(pl.col("startup") / _BEGUN))
    )


_STARTS = ("n_starts", "started_gpus", "seen_gpus")


class Shared(NamedTuple):
    """Replacements for a run's own inputs where it has no logs, in seconds.

    `restart_measured`, `interval_measured`: whether it was measured on any run of the cluster; else it is assumed.
    """

    restart_s: float
    interval_s: float
    write_s: float
    restart_measured: bool
    interval_measured: bool


def shared_of(table: pl.DataFrame) -> Shared:
    """Inputs that all runs of a cluster share, from the result of `own_inputs`."""
    measured, paced = pl.col("own_restart").is_not_null(), pl.col("interval_s").is_not_null()
    everyone = exact_sum(pl.col("startup").filter(measured)) / exact_sum(_BEGUN.filter(measured))
    row = table.select(
        restart_s=pl.when(measured.any()).then(everyone).otherwise(IMPUTED_RESTART_S),
        interval_s=pl.coalesce(pl.col("interval_s").median(), pl.lit(IMPUTED_CHECKPOINT_S)),
        write_s=exact_mean(pl.col("write_s").filter(paced)).fill_null(0.0),
        restart_measured=measured.any(),
        interval_measured=paced.any(),
    )
    return Shared(*row.row(0))


def at_failure_rate(run_inputs: pl.DataFrame, gpu_days_per_failure: float | None) -> pl.DataFrame:
    """The inputs of runs at another failure rate of the cluster; arguments as of `inputs_of`."""
    return run_inputs.with_columns(mttf_s=_mttf_s(pl.col("gpus"), gpu_days_per_failure))


def _mttf_s(gpus: pl.Expr, gpu_days_per_failure: float | None) -> pl.Expr:
    return pl.lit(gpu_days_per_failure, dtype=pl.Float64) * DAY_S / gpus


def _origin(own: pl.Expr) -> pl.Expr:
    return (
        pl.when(own)
        .then(pl.lit("measured"))
        .when(own.any())
        .then(pl.lit("of the cluster"))
        .otherwise(pl.lit("assumed"))
    )


def expected(run_inputs: pl.DataFrame) -> pl.DataFrame:
    """The expected ETTR of each run in every form, and the one that applies.

    - `closed_form`: `(1 - L) / (1 + w/dt)` with the lost share `L = (u0 + dt/2) / M`; queueing is not in it.
    - `with_queue`: that, over `1 + q/M`.
    - `finite`: `R / W` with `S = (R + u0) / (1 - L)`, `W = S (1 + q/M) + q`, over `1 + w/dt`; null without any `R`.
    - `exact`: `dt exp(-u0/M) / ((exp((dt + w)/M) - 1) (M + q))`.
    - `expected`: `exact` where L is above 0.1, else `finite`, and `with_queue` where R is not known; `regime` is its
      name.

    Args:
        run_inputs: as `inputs_of` returns it.

    Returns:
        Those columns and `lost_share`, 0-1 all; null without a failure rate. As the oracles for one run.
    """
    mttf, write, dt = pl.col("mttf_s"), pl.col("write_s"), pl.col("interval_s")
    restart, queue, productive = pl.col("restart_s"), pl.col("queue_s"), pl.col("productive_s")
    training = 1 / (1 + write / dt)
    left = (1 - pl.col("lost_share")).clip(0)
    scheduled = (productive + restart) / left
    wall = scheduled * (1 + queue / mttf) + queue
    period = (dt + write) / mttf
    # As in the oracle ettr_exact: nothing here can overflow, and without failures it is the training share.
    saved = dt / mttf * (-(restart / mttf) - period).exp() / (1 - (-period).exp())
    rare = mttf.is_infinite() | (period < _TOO_RARE)
    forms = run_inputs.with_columns(lost_share=(restart + dt / 2) / mttf).with_columns(
        closed_form=left * training,
        with_queue=left * training / (1 + queue / mttf),
        finite=pl.when((productive > 0) & mttf.is_not_null()).then(
            pl.when(left > 0).then(productive / wall * training).otherwise(0.0)
        ),
        exact=pl.when(rare).then(left * training / (1 + queue / mttf)).otherwise(saved / (1 + queue / mttf)),
    )
    large = pl.col("lost_share") > LARGE_LOSS
    return forms.with_columns(
        expected=pl.when(large).then("exact").otherwise(pl.coalesce("finite", "with_queue")),
        regime=pl.when(large)
        .then(pl.lit("exact"))
        .when(productive > 0)
        .then(pl.lit("finite"))
        .otherwise(pl.lit("with_queue")),
    )


_TOO_RARE = 1e-9
"""Checkpoint periods per failure below which 1 - exp(-x) has too few digits left, and the closed form has them all."""


def over_runs(expectations: pl.DataFrame) -> pl.DataFrame:
    """Each form's mean over the runs of a cluster, weighted by their wall time in GPU-seconds, as measured ETTR is.

    Args:
        expectations: as `expected` returns it.

    Returns:
        `cluster`, `n`, `wall_gpu_s`, `FORMS`, `expected`, the weighted means of the inputs, and the shares of the wall
        time whose inputs were measured (`restart_measured`, `interval_measured`) and that is in the exact `regime`
        (`exact_share`).
    """
    weight = pl.col("wall_gpu_s")
    names = [*FORMS, "expected", "restart_s", "interval_s", "write_s", "queue_s", "lost_share"]
    known = {name: pl.col(name).is_not_null() & pl.col(name).is_finite() for name in names}
    # Sums of a million runs are what takes time: where a column is known of all runs, their weight is summed once.
    everywhere = expectations.select(known[name].all().alias(name) for name in names).row(0, named=True)
    parts = {f"_of_{name}": exact_sum(pl.when(known[name]).then(pl.col(name) * weight)) for name in names} | {
        f"_below_{name}": exact_sum(pl.when(known[name]).then(weight)) for name in names if not everywhere[name]
    }
    shares = {
        "restart_measured": pl.col("restart_from") == "measured",
        "interval_measured": pl.col("interval_from") == "measured",
        "exact_share": pl.col("regime") == "exact",
    }
    parts |= {name: exact_sum(pl.when(which).then(weight)) for name, which in shares.items()}
    summed = expectations.group_by("cluster").agg(pl.len().cast(pl.Int64).alias("n"), exact_sum(weight), **parts)
    below = {name: weight if everywhere[name] else pl.col(f"_below_{name}") for name in names}
    means = {name: pl.when(below[name] > 0).then(pl.col(f"_of_{name}") / below[name]) for name in names}
    measured = {name: pl.col(name) / weight for name in shares}
    return summed.select("cluster", "n", weight, **means, **measured).sort("cluster")


# Published metrics --------------------------------------------------------------------------------------------------

_META = "Kokolis et al. (HPCA 2025), expected ETTR"

METRICS = (
    Metric(
        name="ettr_expected",
        unit="ratio",
        parts=Parts("gpu_h", "expected to be productive", "queued and scheduled GPU-h"),
        summary=(
            "ETTR that runs are to be expected to have at the measured failure rate, restart, checkpoint and queue "
            "times."
        ),
        formula=(
            "of each run: the exact form where lambda (u0 + dt/2) > 0.1, else that of a finite run; mean over runs, "
            "weighted by their queued + scheduled GPU-seconds"
        ),
        query="ledger_sums",
        function=expected,
        interval="at both ends of the exact 95 % interval of the cluster's failure rate",
        source=_META,
    ),
    Metric(
        name="ettr_expected_closed_form",
        unit="ratio",
        parts=Parts("gpu_h", "expected to be productive", "queued and scheduled GPU-h"),
        summary="Expected ETTR by the published closed form, in which queueing is not.",
        formula="(1 - lambda (u0 + dt/2)) / (1 + w/dt), weighted over runs as ettr_expected",
        query="ledger_sums",
        function=expected,
        interval="none: ettr_expected has one",
        source=f"{_META}, version 2",
    ),
    Metric(
        name="ettr_expected_with_queue",
        unit="ratio",
        parts=Parts("gpu_h", "expected to be productive", "queued and scheduled GPU-h"),
        summary="Expected ETTR of long runs that queue again after every failure.",
        formula="(1 - lambda (u0 + dt/2)) / ((1 + lambda q) (1 + w/dt)), weighted over runs as ettr_expected",
        query="ledger_sums",
        function=expected,
        interval="none: ettr_expected has one",
        source=f"derived from the definitions of {_META}, version 1",
    ),
    Metric(
        name="ettr_expected_finite",
        unit="ratio",
        parts=Parts("gpu_h", "expected to be productive", "queued and scheduled GPU-h"),
        summary="Expected ETTR of runs of the productive time that was measured, first start and first queue included.",
        formula=(
            "R / W / (1 + w/dt), S = (R + u0) / (1 - lambda (u0 + dt/2)), W = S (1 + lambda q) + q; weighted as "
            "ettr_expected"
        ),
        query="ledger_sums",
        function=expected,
        interval="none: ettr_expected has one",
        source=f"derived from the definitions of {_META}, version 1",
    ),
    Metric(
        name="ettr_expected_exact",
        unit="ratio",
        parts=Parts("gpu_h", "expected to be productive", "queued and scheduled GPU-h"),
        summary="Expected ETTR of long runs under exponential failures, at any failure rate.",
        formula="dt exp(-lambda u0) / ((exp(lambda (dt + w)) - 1) (1/lambda + q)), weighted over runs as ettr_expected",
        query="ledger_sums",
        function=expected,
        interval="none: ettr_expected has one",
        source="our derivation; checked by simulation in tests/metrics/test_theory.py",
    ),
)
