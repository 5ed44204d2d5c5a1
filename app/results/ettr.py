"""ETTR of runs and of all of them: as measured, as imputed, and as it is to be expected."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.checkpoints import pooled_rate
from app.results.constants import computed_constants
from app.results.failures.failure_rates import failure_rate_rows
from app.results.failures.interruptions import every_restart
from app.results.registry import result
from app.results.runs.run_logs import computed_logs
from app.results.source import memo_of_cache
from app.results.windows import as_results, ledger_sums, named, seed
from metrics import frames
from metrics.categories import EVIDENCE_KINDS
from metrics.checkpoints.advice import logged_saves
from metrics.ettr.confidence import interval_over_runs
from metrics.ettr.ettr import (
    FORMS,
    ettr_by_run,
    ettr_total,
    imputed_in,
    ordered,
    runs_of_other_work,
    wait_intervals,
    waited,
)
from metrics.ettr.expected import FORMS as EXPECTED_FORMS
from metrics.ettr.expected import at_failure_rate, expected, inputs_of, logged_gpus, over_runs, own_inputs, starts
from metrics.ettr.timeline import run_timeline
from metrics.exact import exact_sum
from metrics.joins import anti_join
from metrics.ledger.ledger import other_work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.window import RowSource, Window

LONG_RUNS: Final = "long_runs"
"""Dimension of stored rows that are about a cluster's long runs."""

LONG_RUN_S: Final = 86_400.0
"""Scheduled time in the window from which a run is a long one, in seconds."""

MEAN = "_mean_of_runs"
"""Ending of a metric's name: the mean of the runs' own ratios, each run with one vote."""

_RUN: Final = ["cluster", "run_id"]
_EVER: Final = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class RunTimes:
    """When the runs of a cluster were executed and when they waited: what every window's ETTR is cut out of.

    Attributes:
        executed: as `metrics.ettr.ettr.ordered` returns it.
        waits: as `metrics.ettr.ettr.wait_intervals` returns it; those that still last end in the year 9999.
    """

    executed: pl.DataFrame
    waits: pl.DataFrame


def run_times(source: RowSource, cluster: str) -> RunTimes:
    """Read them, once for all windows where the source keeps them."""
    return source.memo(("run_times", cluster), lambda: _run_times(source, cluster))


def _run_times(source: RowSource, cluster: str) -> RunTimes:
    executed = ordered(source.query("attempts", cluster=cluster), source.query("run_attempts", cluster=cluster))
    return RunTimes(executed, wait_intervals(executed, _EVER))


def ettr_run_rows(source: RowSource, window: Window) -> pl.DataFrame:
    """ETTR and its parts, one row per run."""
    return memo_of_cache(source, ("ettr_run_rows", window), lambda: _ettr_run_rows(source, window))


def keep_ettr_run_rows(source: RowSource, window: Window, by_run: pl.DataFrame) -> None:
    """Have `ettr_run_rows` return what a computation has made already, where the source keeps it."""
    memo_of_cache(source, ("ettr_run_rows", window), lambda: by_run)


def _ettr_run_rows(source: RowSource, window: Window) -> pl.DataFrame:
    runs = source.query("runs", cluster=window.cluster, since=window.since, until=window.until)
    return ettr_of_runs(run_times(source, window.cluster), ledger_sums(source, window, "run"), runs, window)


def ettr_of_runs(known: RunTimes, sums: pl.DataFrame, runs: pl.DataFrame, window: Window) -> pl.DataFrame:
    """ETTR and its parts of runs.

    Args:
        known: when they were executed and when they waited.
        sums: `frames.LEDGER_SUMS` within the window whose `subject` is the run.
        runs: columns of the table `runs`.
        window: cluster and time.
    """
    return ettr_by_run(
        waited(known.waits, window.since, window.until),
        sums,
        imputed_in(_held_in(known.executed, window), window.since, window.until),
        runs.with_columns(milli_gpus=(pl.col("n_gpus") * 1000).cast(pl.Int64)),
    )


def _held_in(executed: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Executions that held GPUs in a window: the others add nothing to what is imputed in it."""
    low, high = frames.instant(window.since), frames.instant(window.until)
    return executed.filter(pl.col("started_at") < high, pl.col("ended_at").is_null() | (pl.col("ended_at") > low))


def other_runs(source: RowSource, cluster: str) -> pl.DataFrame:
    """Runs of a cluster that never train, by the rules of its computation: `cluster`, `run_id`."""
    return source.memo(("other_runs", cluster), lambda: _other_runs(source, cluster))


def _other_runs(source: RowSource, cluster: str) -> pl.DataFrame:
    kinds = computed_constants(source, cluster).get("other_work", {})
    others = other_work(source.query("attempts", cluster=cluster), kinds)
    return runs_of_other_work(others, source.query("run_attempts", cluster=cluster))


def training_runs(source: RowSource, cluster: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of runs without those of `other_runs`: ETTR is of training runs.

    Args:
        source: where rows are read from; all of the cluster, whatever the scope of `rows`.
        cluster: of the rows.
        rows: `cluster`, `run_id`, and others.
    """
    return anti_join(rows, other_runs(source, cluster), on=_RUN)


def left_out(n: int) -> str | None:
    """How many runs are not in an ETTR since they do not train; None where all are."""
    if not n:
        return None
    return f"{n:,} {'run that does' if n == 1 else 'runs that do'} not train left out (config: rules.other_work)"


@result(
    "ettr",
    "ettr_without_initial_queue",
    "ettr_with_checkpoint_writes",
    "ettr_mean_of_runs",
    "ettr_without_initial_queue_mean_of_runs",
    "ettr_with_checkpoint_writes_mean_of_runs",
    "ettr_imputed",
    in_standard_windows=True,
)
def ettr_rows(
    source: RowSource, window: Window, *, min_run_s: float = 0.0, by_run: pl.DataFrame | None = None
) -> pl.DataFrame:
    """ETTR of the cluster's training runs as result rows: all measured forms and the imputed one.

    Args:
        source: where rows are read from.
        window: cluster and time.
        min_run_s: only runs with so much scheduled time in the window.
        by_run: as `ettr_run_rows` returns it, where it is at hand.
    """
    every = (ettr_run_rows(source, window) if by_run is None else by_run).filter(long_enough(min_run_s))
    runs = training_runs(source, window.cluster, every)
    total = ettr_total(runs)
    if total.is_empty():
        return frames.empty(frames.RESULT)
    seeded_by = (str(min_run_s), *named(window))
    rows = pl.concat([*_measured(total, runs, seeded_by), _imputed(total)], how="diagonal")
    if note := left_out(every.height - runs.height):
        rows = rows.with_columns(note=pl.concat_str("note", pl.lit(note), separator="; ", ignore_nulls=True))
    return as_results(rows, window, "cluster")


def long_run_rows(source: RowSource, window: Window, *, by_run: pl.DataFrame | None = None) -> pl.DataFrame:
    """As `ettr_rows`, of the runs of at least `LONG_RUN_S`, as rows of the dimension `LONG_RUNS`."""
    rows = ettr_rows(source, window, min_run_s=LONG_RUN_S, by_run=by_run)
    return rows.with_columns(dimension=pl.lit(LONG_RUNS))


def long_enough(min_run_s: float) -> pl.Expr:
    """Runs whose GPUs were allocated for at least so many seconds in the window."""
    return pl.col("allocated") * 1000 / pl.col("milli_gpus") >= min_run_s


def _measured(total: pl.DataFrame, runs: pl.DataFrame, seeded_by: tuple[str, ...]) -> Iterator[pl.DataFrame]:
    """Each form as a ratio of sums, and as the mean of the runs' ratios."""
    for name, (top, bottom) in FORMS.items():
        waited_gpu_s = bottom - pl.col("allocated")
        shares = [
            pl.when(bottom > 0)
            .then((pl.col(f"by_{kind}") + (waited_gpu_s if kind == "accounting" else 0.0)) / bottom)
            .alias(f"evidence_{kind}")  # accounting records waits
            for kind in EVIDENCE_KINDS
        ]
        bounds = [pl.col(f"{name}_{end}").alias(f"bound_{end}") for end in ("low", "high")]
        halves = (top.alias("numerator"), bottom.alias("denominator"))
        yield _with_interval(
            total.select(*_named(name), pl.col(name).alias("value"), *halves, "n", *bounds, *shares, _unseen("")),
            runs, name, seeded_by, weighted=True,
        )  # fmt: skip
        means = [pl.col(f"{name}_mean_{end}").alias(f"bound_{end}") for end in ("low", "high")]
        yield _with_interval(
            total.select(
                *_named(name + MEAN),
                pl.col(f"{name}_mean").alias("value"),
                (pl.col(f"{name}_mean") * pl.col(f"{name}_runs")).alias("numerator"),
                pl.col(f"{name}_runs").cast(pl.Float64).alias("denominator"),
                pl.col(f"{name}_runs").alias("n"),
                *means,
                _unseen("_mean"),
            ),
            runs, name, seeded_by, weighted=False,
        )  # fmt: skip


def _named(metric: str) -> tuple[pl.Expr, ...]:
    return (
        pl.col("cluster"),
        pl.col("cluster").alias("subject"),
        pl.lit(metric).alias("metric"),
        pl.lit("ratio").alias("unit"),
    )


def _unseen(which: str) -> pl.Expr:
    """Why there is no value, where there is none."""
    share = pl.col(f"unseen_share{which}")
    each = " of a run, on average" if which else ""
    note = pl.format(f"cannot tell: {{}} % of the allocated GPU-time{each} is unattributed", (share * 100).round(1))
    return pl.when(1 - share < 0.9).then(note).alias("note")


def _with_interval(
    row: pl.DataFrame, runs: pl.DataFrame, form: str, seeded_by: tuple[str, ...], *, weighted: bool
) -> pl.DataFrame:
    """With the interval over runs, where the value is known."""
    if row["value"].item() is None:
        return row
    found = interval_over_runs(runs, form, weighted=weighted, seed=seed(row["metric"].item(), *seeded_by))
    numbers = (pl.lit(end, dtype=pl.Float64) for end in (found.low, found.high))
    return row.with_columns(*(n.alias(f"ci_{end}") for n, end in zip(numbers, ("low", "high"), strict=True)),
                            ci_method=pl.lit(found.method))  # fmt: skip


def _imputed(total: pl.DataFrame) -> pl.DataFrame:
    return total.select(
        *_named("ettr_imputed"),
        pl.col("ettr_imputed").alias("value"),
        pl.col("imputed_gpu_s").alias("numerator"),
        pl.col("wall_gpu_s").alias("denominator"),
        "n",
        pl.lit(1.0).alias("evidence_assumed"),
        pl.lit("assumed: hourly checkpoints, 5 min to restart, every end an interruption").alias("note"),
    )


# --- expected ----------------------------------------------------------------------------------------


def run_inputs(source: RowSource, window: Window, by_run: pl.DataFrame) -> pl.DataFrame:
    """What was measured of each run that its expected ETTR depends on: `metrics.ettr.expected.own_inputs`.

    Args:
        source: where rows are read from.
        window: cluster and time.
        by_run: as `ettr_run_rows` returns it.
    """
    known = starts(started_in(run_times(source, window.cluster).executed, window))
    started = known.drop("seen_gpus").join(logged_starts(source, window), on=_RUN, how="left")
    return own_inputs(by_run, started, saves_in(source, window))


def saves_in(source: RowSource, window: Window) -> pl.DataFrame:
    """Checkpoints of runs in a window by their logs: as `metrics.checkpoints.advice.logged_saves`."""
    logs, executed = computed_logs(source, window.cluster)
    return logged_saves(logs.events, logs.sessions, executed, since=window.since, until=window.until)


def started_in(executed: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Executions, or sessions, that started in a window."""
    low, high = frames.instant(window.since), frames.instant(window.until)
    return executed.filter((pl.col("started_at") >= low) & (pl.col("started_at") < high))


def expected_run_rows(
    source: RowSource,
    window: Window,
    *,
    by_run: pl.DataFrame | None = None,
    rates: pl.DataFrame | None = None,
    own: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """The ETTR that each run is to be expected to have, in every form, with what it was worked out from.

    Args:
        source: where rows are read from.
        window: cluster and time.
        by_run: as `ettr_run_rows` returns it, where it is at hand.
        rates: rows of `failure_rate_rows` of the window, where they are at hand.
        own: as `run_inputs` returns it, where it is at hand.

    Returns:
        As `metrics.ettr.expected.expected`, with `expected_low` and `expected_high`: at both ends of the 95 %
        interval of the cluster's failure rate. `mttf_s` is null where there was no failure.
    """
    if own is None:
        runs = ettr_run_rows(source, window) if by_run is None else by_run
        own = run_inputs(source, window, runs)
    rate = pooled_rate(failure_rate_rows(source, window) if rates is None else rates)
    of_runs = inputs_of(own, gpu_days(rate.value))
    ends = {
        f"expected_{end}": expected(at_failure_rate(of_runs, gpu_days(each)))["expected"]
        for end, each in zip(_ENDS, (rate.high, rate.low), strict=True)
    }
    return expected(at_failure_rate(of_runs, gpu_days(rate.value))).with_columns(
        pl.col("mttf_s").replace(math.inf, None), **ends
    )


def logged_starts(source: RowSource, window: Window) -> pl.DataFrame:
    """GPUs (`seen_gpus`) of a run's starts in a window whose startup a log records: attempts, and restarts in place."""
    sessions = started_in(computed_logs(source, window.cluster)[0].sessions, window)
    attempts = sessions.filter("usable").unique(frames.ATTEMPT_KEY, keep="first", maintain_order=True)
    again = every_restart(source, window).filter("in_allocation")
    gpus = pl.concat(
        [
            attempts.select("cluster", pl.col("run").alias("run_id"), (pl.col("milli_gpus") / 1000).alias("gpus")),
            again.select("cluster", "run_id", pl.col("n_gpus").cast(pl.Float64).alias("gpus")),
        ]
    )
    return logged_gpus(gpus)


def gpu_days(per_gpu_day: float | None) -> float | None:
    """GPU-days per failure; infinite without failures, None without exposure."""
    if per_gpu_day is None:
        return None
    return 1 / per_gpu_day if per_gpu_day > 0 else float("inf")


@result(
    "ettr_expected",
    "ettr_expected_closed_form",
    "ettr_expected_with_queue",
    "ettr_expected_finite",
    "ettr_expected_exact",
    in_standard_windows=True,
)
def expected_rows(source: RowSource, window: Window, *, of_runs: pl.DataFrame | None = None) -> pl.DataFrame:
    """The expected ETTR of the cluster's training runs, weighted by the runs' wall time: one result row per form.

    Args:
        source: where rows are read from.
        window: cluster and time.
        of_runs: as `expected_run_rows` returns it, where it is at hand.
    """
    every = expected_run_rows(source, window) if of_runs is None else of_runs
    runs = training_runs(source, window.cluster, every)
    total = over_runs(runs)
    if total.is_empty():
        return frames.empty(frames.RESULT)
    row = total.row(0, named=True)
    ends = runs.select(exact_sum(pl.col(f"expected_{end}") * pl.col("wall_gpu_s")) / row["wall_gpu_s"] for end in _ENDS)
    known = row["expected"] is not None
    inputs_text = (
        f"u0 {row['restart_s']:,.0f} s ({row['restart_measured']:.0%} of the time measured), dt "
        f"{row['interval_s']:,.0f} s and w {row['write_s']:,.1f} s ({row['interval_measured']:.0%} measured, else the "
        f"cluster's or 60 min and 0 s), q {row['queue_s']:,.0f} s; infrastructure failures only"
    )
    regime = f"exact form for {row['exact_share']:.0%} of the time (lost share above 0.1), else finite; {inputs_text}"
    none = "cannot tell: no exposure to a failure rate in this window"
    forms = [("ettr_expected", "expected", regime), *((f"ettr_expected_{form}", form, note)
             for form, note in zip(EXPECTED_FORMS, _FORM_NOTES, strict=True))]  # fmt: skip
    rows = [
        {
            "cluster": row["cluster"],
            "subject": row["cluster"],
            "metric": metric,
            "unit": "ratio",
            "value": row[column],
            "numerator": None if row[column] is None else row[column] * row["wall_gpu_s"],
            "denominator": row["wall_gpu_s"],
            "n": row["n"],
            "ci_low": ends.item(0, 0) if known and column == "expected" else None,
            "ci_high": ends.item(0, 1) if known and column == "expected" else None,
            "ci_method": _AT_ENDS if known and column == "expected" else None,
            "note": note if row[column] is not None else none if not known else "cannot tell: no productive time seen",
        }
        for metric, column, note in forms
    ]
    return as_results(pl.DataFrame(rows, infer_schema_length=None), window, "cluster")


_ENDS = ("low", "high")
_AT_ENDS = "at both ends of the exact 95 % interval of the failure rate"
_FORM_NOTES = (
    "(1 - lambda (u0 + dt/2)) / (1 + w/dt): queueing is not in it",
    "the closed form over 1 + lambda q: a long run",
    "of runs of the productive time that was measured, first start and first queue included",
    "under exponential failures, at any failure rate: a long run",
)


# --- one run, second by second -----------------------------------------------------------------------


def run_stretches(source: RowSource, window: Window, run_id: str) -> pl.DataFrame:
    """What a run did with each second of its wall time within the window: as `metrics.ettr.timeline.run_timeline`."""
    spent = source.query("run_ledger", cluster=window.cluster, run_id=run_id)
    waits = run_times(source, window.cluster).waits.filter(pl.col("run_id") == run_id)
    return run_timeline(waits, spent, window.since, window.until)
