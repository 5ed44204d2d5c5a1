"""The question of `trackside show` about ETTR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.errors import UsageError
from app.formatting import CANNOT_TELL
from app.results.ettr import (
    LONG_RUNS,
    MEAN,
    ettr_rows,
    ettr_run_rows,
    expected_rows,
    expected_run_rows,
    left_out,
    long_run_rows,
    other_runs,
    run_stretches,
    training_runs,
)
from app.results.source import CachedSource
from app.results.stored import stored_rows
from app.show.answer import MOST_HELD, Answer, Brief, Details, Question
from app.show.registry import question
from app.show.selection import only, resolved_runs, several
from app.show.sentences import bounded, no_interval, percent, row_of
from ingest.counted import counted
from metrics.ettr import ettr as measured
from metrics.ettr import expected
from metrics.ettr.ettr import FORMS
from metrics.ettr.timeline import class_sums

if TYPE_CHECKING:
    from app.window import RowSource, Window
    from queries.warehouse import Reader

METRICS: Final = tuple(metric.name for metric in (*measured.METRICS, *expected.METRICS))

_QUERIES = ("ledger_sums", "attempts", "run_attempts", "runs", "exposures", "endings", "run_events", "run_sessions")
_LONG = " (runs >= 24 h)"
_RUNS_NAMED = 10
_RUN_METRICS = (*FORMS, "ettr_imputed", "ettr_expected")


@question(
    "ettr",
    "productive share of queued and scheduled time over runs",
    help="productive share of queued and scheduled time, over runs, measured and expected; --run R: the\n"
    "arithmetic of one\n"
    "--by run; with --run R: stretch (second by second), class",
    by=("cluster", "run"),
    takes=("run",),
    by_of_run=("run", "stretch", "class"),
    position=2,
)
def ettr(source: Reader, window: Window, question: Question) -> Answer:
    """ETTR in total, per run, or of one run with its arithmetic."""
    if question.run is not None:
        return _of_run(source, window, question.run, question.dimension)
    if question.dimension == "run":
        by_run = ettr_run_rows(source, window)
        rows = training_runs(source, window.cluster, _with_expected(by_run, source, window))
        note = left_out(by_run.height - rows.height)
        return Answer(
            "ETTR by run",
            rows,
            _COLUMNS,
            metrics=_RUN_METRICS,
            queries=_QUERIES,
            parts=_PARTS,
            ranked=_RANKS,
            headline=_largest(rows),
            notes=() if note is None else (f"{note}.",),
            order=MOST_HELD,
        )
    return _in_total(source, window, details=question.details)


def _largest(rows: pl.DataFrame) -> str:
    """How many runs there are, and the ETTR of the one that held most GPU-time."""
    if rows.is_empty():
        return ""
    first = rows.sort("allocated", "run_id", descending=[True, False]).row(0, named=True)
    value = bounded(first["ettr"], first["ettr_low"], first["ettr_high"])
    return f"{counted(rows.height, 'run')}; the largest, {first['run_id']}, spent {value} {_OF_WALL_TIME}"


_OF_WALL_TIME: Final = "of its queued and scheduled GPU-time productively."


def _headline_of_run(row: dict[str, Any]) -> str:
    value = bounded(row["ettr"], row["ettr_low"], row["ettr_high"])
    return f"Run {row['run_id']} spent {value} {_OF_WALL_TIME}"


# --- in total ----------------------------------------------------------------------------------------


def _in_total(source: Reader, window: Window, *, details: bool) -> Answer:
    stored = None if details else _stored_total(source, window)
    once = CachedSource(source, only=())
    rows = _computed_total(once, window) if stored is None else stored
    return Answer(
        "ETTR over runs, GPU-time weighted, and the mean of the runs' own beside it",
        rows,
        _TOTAL_COLUMNS,
        headline=_headline(rows),
        brief=_in_plain_words(rows),
        in_words=(_NOTE_IN_WORDS,),
        ranked=("value", "bound_low", "bound_high", "n", "ci_low", "ci_high", "numerator"),
        metrics=METRICS,
        queries=_QUERIES if stored is None else ("stored_cluster_metrics",),
        notes=_few_runs(rows, once, window),
        when_empty="No training run is known to have held GPUs in this window.",
        worth_showing=~pl.col("metric").str.contains(MEAN, literal=True),
    )


def _stored_total(source: RowSource, window: Window) -> pl.DataFrame | None:
    """The rows as `compute` stored them; None where none can be read."""
    measured_rows, expected_ones = (stored_rows(source, window, names) for names in (_MEASURED, _EXPECTED_FORMS))
    long = stored_rows(source, window, _MEASURED, dimension=LONG_RUNS)
    if measured_rows is None or expected_ones is None or long is None:
        return None
    return _together(measured_rows, long, expected_ones)


def _computed_total(source: RowSource, window: Window) -> pl.DataFrame:
    by_run = ettr_run_rows(source, window)
    expected_ones = expected_rows(source, window, of_runs=expected_run_rows(source, window, by_run=by_run))
    return _together(
        ettr_rows(source, window, by_run=by_run), long_run_rows(source, window, by_run=by_run), expected_ones
    )


def _together(measured_rows: pl.DataFrame, long: pl.DataFrame, expected_ones: pl.DataFrame) -> pl.DataFrame:
    """Rows of all runs, of the long ones, and of the expected ETTR, one below the other."""
    of_long = _side_by_side(long).with_columns(pl.col("metric") + _LONG, dimension=pl.lit("cluster"))
    return pl.concat([_side_by_side(measured_rows), of_long, expected_ones], how="diagonal")


_MEASURED: Final = (*(f"{form}{ending}" for form in FORMS for ending in ("", MEAN)), "ettr_imputed")
_EXPECTED_FORMS: Final = tuple(metric.name for metric in expected.METRICS)


def _headline(rows: pl.DataFrame) -> str:
    """The ETTR of all runs, of the long ones, and the expected one."""
    row, long, expected = (row_of(rows, "metric", name) for name in ("ettr", f"ettr{_LONG}", "ettr_expected"))
    if row is None:
        return ""
    value = bounded(row["value"], row["bound_low"], row["bound_high"])
    text = f"Runs spent {value} of their queued and scheduled GPU-time productively"
    if long is not None and long["bound_low"] is not None:
        text += f"; runs of at least 24 h {bounded(long['value'], long['bound_low'], long['bound_high'])}"
    if expected is not None and expected["value"] is not None:
        text += f"; expected at this failure rate: {percent(expected['value'])}"
    return f"{text}."


def _in_plain_words(rows: pl.DataFrame) -> Brief:
    """Without the forms of the expected ETTR, and with what it rests on in words; `--explain` has the arithmetic."""
    is_shown = ~pl.col("metric").str.starts_with("ettr_expected_") & ~pl.col("metric").str.contains(MEAN, literal=True)
    plain = rows.filter(is_shown)
    return Brief(
        plain.with_columns(_NOTE_IN_WORDS),
        _TOTAL_COLUMNS,
        "also: the forms of the expected ETTR (--wide)",
    )


_EXPECTED: Final = "by this cluster's rates of failures, restarts, checkpoints and queues: --explain"
_FORM: Final = "another form of it: --explain"
_NOTE_IN_WORDS: Final = (
    pl.when(pl.col("metric") == "ettr_expected")
    .then(pl.lit(_EXPECTED))
    .when(pl.col("metric").str.starts_with("ettr_expected_"))
    .then(pl.lit(_FORM))
    .otherwise("note")
    .alias("note")
)
"""Notes without the symbols of the formulas."""


def _side_by_side(rows: pl.DataFrame) -> pl.DataFrame:
    """The mean of the runs' ratios in the row of the ratio of sums, too, as `mean_of_runs`."""
    ending = MEAN
    means = rows.filter(pl.col("metric").str.ends_with(ending)).select(
        "cluster", pl.col("metric").str.strip_suffix(ending), pl.col("value").alias("mean_of_runs")
    )
    return rows.join(means, on=["cluster", "metric"], how="left", maintain_order="left")


def _few_runs(rows: pl.DataFrame, source: RowSource, window: Window) -> tuple[str, ...]:
    """How intervals were made; where the runs are too few for one, the runs that weigh most."""
    made = rows.filter(pl.col("metric") == "ettr")["ci_method"].drop_nulls().to_list()
    if not made or not made[0].startswith("too few"):
        return tuple(f"95 %: {method}." for method in made)
    by_run = training_runs(source, window.cluster, ettr_run_rows(source, window))
    heaviest = by_run.sort("wall_gpu_s", "run_id", descending=[True, False]).head(_RUNS_NAMED)
    whole = by_run["wall_gpu_s"].sum()
    named = [
        f"{row['run_id']} {_percent(row['ettr'])} ({percent(row['wall_gpu_s'] / whole, digits=0)} of the time)"
        for row in heaviest.iter_rows(named=True)
    ]
    more = f"; and {by_run.height - len(named):,} more (--by run)" if by_run.height > len(named) else ""
    return (f"{no_interval(made[0])}. The runs that weigh most: {'; '.join(named)}{more}.",)


def _percent(value: float | None) -> str:
    return CANNOT_TELL if value is None else percent(value)


_TOTAL_COLUMNS: Final = {
    "metric": ("metric", "text"),
    "value": ("value", "ratio"),
    "bound_low": ("at least", "ratio"),
    "bound_high": ("at most", "ratio"),
    "ci_low": ("95 % from", "ratio"),
    "ci_high": ("to", "ratio"),
    "mean_of_runs": ("mean of runs", "ratio"),
    "n": ("runs", "count"),
    "numerator": ("numerator GPU-h", "gpu_h"),
    "denominator": ("denominator GPU-h", "gpu_h"),
    "note": ("note", "text"),
}


# --- by run ------------------------------------------------------------------------------------------

_COLUMNS = {
    "run_id": ("run", "text"),
    "n_attempts": ("attempts", "count"),
    "ettr": ("ETTR", "ratio"),
    "ettr_low": ("at least", "ratio"),
    "ettr_high": ("at most", "ratio"),
    "ettr_without_initial_queue": ("without first queue", "ratio"),
    "ettr_with_checkpoint_writes": ("with checkpoint writes", "ratio"),
    "ettr_expected": ("expected", "ratio"),
    "ettr_imputed": ("imputed (assumed)", "ratio"),
    "queued_initial": ("first queue GPU-h", "gpu_h"),
    "queued_requeue": ("requeue GPU-h", "gpu_h"),
    "allocated": ("allocated GPU-h", "gpu_h"),
    "unseen": ("unobserved GPU-h", "gpu_h"),
    "beside_idle": ("active beside idle GPU-h", "gpu_h"),
}

_RANKS = ("ettr", "ettr_low", "ettr_high", "allocated", "ettr_expected", "n_attempts", "queued_initial")

_PARTS = {
    "subject": "run_id",
    "value": "ettr",
    "numerator": "productive",
    "numerator_sure": "productive_sure",
    "checkpoint_gpu_s": "checkpoint",
    "denominator": "wall_gpu_s",
    "n": "n_attempts",
    "bound_low": "ettr_low",
    "bound_high": "ettr_high",
    "without_initial_queue": "ettr_without_initial_queue",
    "with_checkpoint_writes": "ettr_with_checkpoint_writes",
    "imputed": "ettr_imputed",
    "expected": "ettr_expected",
    "expected_low": "ettr_expected_low",
    "expected_high": "ettr_expected_high",
    "log_gpu_s": "by_log",
    "telemetry_gpu_s": "by_telemetry",
    "accounting_gpu_s": "by_accounting",
    "assumed_gpu_s": "by_assumed",
}

_INPUTS = ("mttf_s", "restart_s", "interval_s", "write_s", "queue_s", "lost_share", "restart_from", "interval_from")


def _with_expected(by_run: pl.DataFrame, source: Reader, window: Window) -> pl.DataFrame:
    """The expected ETTR of each run and what it was worked out from next to the measured one."""
    expected_rows = expected_run_rows(source, window, by_run=by_run)
    names = {
        "expected": "ettr_expected",
        "expected_low": "ettr_expected_low",
        "expected_high": "ettr_expected_high",
        "regime": "expected_regime",
        **{name: f"ettr_expected_{name}" for name in ("closed_form", "with_queue", "finite", "exact")},
        **{name: f"expected_{name}" for name in _INPUTS},
    }
    renamed = expected_rows.select("cluster", "run_id", *(pl.col(name).alias(called) for name, called in names.items()))
    return by_run.join(renamed, on=["cluster", "run_id"], how="left", maintain_order="left")


# --- one run, second by second -----------------------------------------------------------------------

_INTERVALS = {
    "number": ("", "count"),
    "started_at": ("from", "time"),
    "ended_at": ("to", "time"),
    "class": ("class", "text"),
    "cause": ("cause", "text"),
    "evidence": ("evidence", "text"),
    "seconds": ("seconds", "number"),
    "gpus": ("GPUs", "number"),
    "gpu_seconds": ("GPU-seconds", "number"),
}

_CLASSES = {
    "class": ("class", "text"),
    "cause": ("cause", "text"),
    "n": ("stretches", "count"),
    "seconds": ("seconds", "number"),
    "gpu_seconds": ("GPU-seconds", "number"),
    "share": ("share", "ratio"),
}


def _of_run(source: Reader, window: Window, run: str, by: str) -> Answer:
    run_ids = resolved_runs(source, window, run)
    rows_of_run = only(ettr_run_rows(source, window), run_ids)
    if rows_of_run.is_empty():
        raise UsageError(f"{window.cluster}: run {run!r} held no GPUs in this window; take a longer one (--since)")
    timelines = {run_id: _intervals(source, window, run_id) for run_id in rows_of_run["run_id"]}
    if by != "run":
        return _spent(rows_of_run, timelines, by, several(run, run_ids))
    rows = _with_expected(rows_of_run, source, window)
    one = rows.height == 1
    arithmetic = _arithmetic(rows.row(0, named=True), next(iter(timelines.values()))) if one else ()
    return Answer(
        "ETTR of a run" if one else f"ETTR of the runs that {run} may mean, the newest first",
        rows,
        _COLUMNS,
        _RUN_METRICS,
        (*_QUERIES, "run_ledger"),
        (*several(run, run_ids), *_not_counted(source, window, rows), *arithmetic),
        parts=_PARTS,
        headline=_headline_of_run(rows.row(0, named=True)),
        ranked=_RANKS,
        details=tuple(
            Details(f"Run {run_id}: {title}", table, columns)
            for run_id, mine in timelines.items()
            for title, table, columns in (
                ("every second of its wall time, in order", mine, _INTERVALS),
                ("the sums", class_sums(mine), _CLASSES),
            )
        ),
    )


def _not_counted(source: Reader, window: Window, rows: pl.DataFrame) -> tuple[str, ...]:
    """Which of the runs are not in the cluster's ETTR."""
    others = rows.filter(pl.col("run_id").is_in(other_runs(source, window.cluster)["run_id"].implode()))
    return tuple(
        f"Run {run_id} does not train (config: rules.other_work): it is not in the cluster's ETTR."
        for run_id in others["run_id"]
    )


def _intervals(source: Reader, window: Window, run_id: str) -> pl.DataFrame:
    timeline = run_stretches(source, window, run_id)
    gpus = (pl.col("milli_gpus") / 1000).alias("gpus")
    return timeline.select(pl.lit(run_id).alias("run_id"), *(gpus if name == "gpus" else name for name in _INTERVALS))


def _spent(rows_of_run: pl.DataFrame, timelines: dict[str, pl.DataFrame], by: str, notes: tuple[str, ...]) -> Answer:
    """The intervals of a run, or their sums, as rows."""
    checks = tuple(_adds_up(row, timelines[row["run_id"]]) for row in rows_of_run.iter_rows(named=True))
    if by == "stretch":
        rows = pl.concat(list(timelines.values()))
        parts = {"subject": "run_id", "metric": "class", "value": "gpu_seconds", "evidence": "evidence"}
        title, columns = "Every second of the run's wall time, in order", _INTERVALS
    else:
        rows = pl.concat(
            [class_sums(mine).select(pl.lit(run_id).alias("run_id"), pl.all()) for run_id, mine in timelines.items()]
        )
        parts = {"subject": "run_id", "metric": "class", "value": "share", "numerator": "gpu_seconds", "n": "n"}
        title, columns = "What the run did with its wall time", _CLASSES
    many = {"run_id": ("run", "text")} if len(timelines) > 1 else {}
    return Answer(title, rows, many | columns, ("ettr",), ("run_ledger", "attempts"), (*notes, *checks), parts=parts,
                  headline=_headline_of_run(rows_of_run.row(0, named=True)))  # fmt: skip


def _arithmetic(row: dict[str, Any], mine: pl.DataFrame) -> tuple[str, ...]:
    """The arithmetic of the ETTR of one run: measured, and expected."""
    provisional = row["productive"] - row["productive_sure"]
    excluded = f" (of which {provisional:,.0f} provisional: left out below)" if provisional else ""
    beside_idle = f" + {row['beside_idle']:,.0f} active beside an idle GPU" if row["beside_idle"] else ""
    below = f"({row['queued_initial']:,.0f} + {row['queued_requeue']:,.0f} + {row['allocated']:,.0f})"
    measured = CANNOT_TELL if row["ettr"] is None else f"{row['ettr']:.4f}"
    return (
        f"ETTR of run {row['run_id']} = productive / (first queue + requeue waits + allocated), in GPU-seconds",
        f"  {row['productive']:,.0f}{excluded} / {below} = {measured}",
        f"  at least {row['productive_sure']:,.0f} / {row['wall_gpu_s']:,.0f} = {row['ettr_low']:.4f}",
        f"  at most ({row['productive']:,.0f} + {row['unseen']:,.0f} unobserved{beside_idle}) / "
        f"{row['wall_gpu_s']:,.0f} = {row['ettr_high']:.4f}",
        *_other_forms(row),
        *_expectation(row),
        _adds_up(row, mine),
        "Each stretch of it: --explain, or --by stretch (--by class for the sums).",
    )


def _other_forms(row: dict[str, Any]) -> tuple[str, ...]:
    if row["ettr"] is None:
        return ()
    first = row["ettr_without_initial_queue"]
    return (
        f"  from the first start on {row['productive']:,.0f} / {row['after_start_gpu_s']:,.0f} = {first:.4f}",
        f"  with checkpoint writes ({row['productive']:,.0f} + {row['checkpoint']:,.0f}) / {row['wall_gpu_s']:,.0f} = "
        f"{row['ettr_with_checkpoint_writes']:.4f}",
    )


def _expectation(row: dict[str, Any]) -> tuple[str, ...]:
    """The expected ETTR with its inputs, every form, and which of them applies."""
    if row["ettr_expected"] is None:
        return ("  expected: cannot tell, there was no exposure to a failure rate in this window",)
    mttf = row["expected_mttf_s"]
    lasts = "no failure in the cluster" if mttf is None else f"MTTF at this size {mttf / 3600:,.1f} h"
    interval = _between(row["ettr_expected_low"], row["ettr_expected_high"])
    forms = ", ".join(
        f"{name.replace('_', ' ')} {row[f'ettr_expected_{name}']:.4f}"
        for name in ("closed_form", "with_queue", "finite", "exact")
        if row[f"ettr_expected_{name}"] is not None
    )
    regime = row["expected_regime"].replace("_", " ")
    return (
        f"  expected {row['ettr_expected']:.4f}{interval} from: {lasts}, restart {row['expected_restart_s']:,.0f} s "
        f"({row['expected_restart_from']}), a checkpoint every {row['expected_interval_s']:,.0f} s that takes "
        f"{row['expected_write_s']:,.1f} s ({row['expected_interval_from']}), queue {row['expected_queue_s']:,.0f} s",
        f"  forms: {forms}; lost share {row['expected_lost_share']:.3f}, so the {regime} form applies",
    )


def _between(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return ""
    return f" ({low:.4f} to {high:.4f} at the ends of the failure rate's 95 % interval)"


def _adds_up(row: dict[str, Any], mine: pl.DataFrame) -> str:
    """Whether the classes add up to the denominator: each GPU-second in exactly one of them."""
    whole, seconds = (float(mine[name].sum()) for name in ("gpu_seconds", "seconds"))
    span = mine.select((pl.col("ended_at").max() - pl.col("started_at").min()).dt.total_microseconds()).item() or 0
    off = whole - row["wall_gpu_s"]
    exact = abs(off) <= _ROUNDING * max(1.0, whole)
    equal = "which is the denominator" if exact else f"{off:+,.6f} off the denominator"
    return (
        f"  the classes of run {row['run_id']} add up to {whole:,.3f} GPU-s, {equal}, and to {seconds:,.3f} s of the "
        f"{span / 1e6:,.3f} s from its first eligible moment to its last end"
    )


_ROUNDING = 1e-9
"""Relative difference that adding up floats may make."""
