"""The questions of `trackside show`: one function each, from a reader and a window to an answer."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import polars as pl

from app import advice, results
from app.errors import UsageError
from app.node_reasons import last_reasons
from app.runs_apart import why_apart
from app.showing import Answer, Question
from metrics.mfu import CONVENTIONS
from metrics.restarts import restart_summary
from metrics.run_rules import APART
from metrics.runs import by_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.results import Window
    from queries.warehouse import Reader

LEDGER_DIMENSIONS = ("cluster", "day", "node", "user", "account", "partition", "run")


def goodput(source: Reader, window: Window, question: Question) -> Answer:
    """Goodput, occupancy and availability."""
    dimension = _dimension(question.by, LEDGER_DIMENSIONS, "cluster")
    return Answer(
        "Goodput",
        results.goodput_rows(source, window, dimension),
        {
            "subject": (dimension, "text"),
            "metric": ("metric", "text"),
            "value": ("value", "ratio"),
            "bound_low": ("at least", "ratio"),
            "bound_high": ("at most", "ratio"),
            "numerator": ("numerator GPU-h", "gpu_h"),
            "denominator": ("denominator GPU-h", "gpu_h"),
            "note": ("note", "text"),
        },
        metrics=("goodput_allocated", "goodput_capacity", "occupancy", "availability"),
        queries=("ledger_sums", "inventoried"),
        notes=("at least / at most: all unseen time counted unproductive / productive. Accounting alone does not see "
               "what allocated GPUs did: add telemetry or a run log to narrow the bounds.",),
        parameters={"dimension": dimension},
        when_empty="No GPU-time in this window: is it within what `trackside status` says is covered?",
    )  # fmt: skip


def ettr(source: Reader, window: Window, question: Question) -> Answer:
    """ETTR in total, per run, or of one run with its arithmetic."""
    if question.run is not None:
        return _ettr_of_run(source, window, question.run)
    if _dimension(question.by, ("cluster", "run"), "cluster") == "run":
        rows = results.ettr_run_rows(source, window)
        queries = ("ledger_sums", "runs")
        return Answer("ETTR by run", rows, _ETTR_COLUMNS, metrics=("ettr",), queries=queries, parts=_ETTR_PARTS)
    rows = pl.concat(
        [
            results.ettr_rows(source, window),
            results.ettr_rows(source, window, min_run_s=86_400).with_columns(pl.col("metric") + " (runs >= 24 h)"),
        ]
    )
    return Answer(
        "ETTR, GPU-time weighted over runs",
        rows,
        {
            "metric": ("metric", "text"),
            "value": ("value", "ratio"),
            "bound_low": ("at least", "ratio"),
            "bound_high": ("at most", "ratio"),
            "n": ("runs", "count"),
            "numerator": ("numerator GPU-h", "gpu_h"),
            "denominator": ("denominator GPU-h", "gpu_h"),
            "note": ("note", "text"),
        },
        metrics=("ettr", "ettr_without_initial_queue", "ettr_imputed"),
        queries=("ledger_sums", "attempts", "run_attempts", "runs"),
        when_empty="No run held GPUs in this window.",
    )


_ETTR_COLUMNS = {
    "run_id": ("run", "text"),
    "n_attempts": ("attempts", "count"),
    "ettr": ("ETTR", "ratio"),
    "ettr_low": ("at least", "ratio"),
    "ettr_high": ("at most", "ratio"),
    "ettr_imputed": ("imputed (assumed)", "ratio"),
    "queued_initial": ("first queue GPU-h", "gpu_h"),
    "queued_requeue": ("requeue GPU-h", "gpu_h"),
    "allocated": ("allocated GPU-h", "gpu_h"),
    "unseen": ("unseen GPU-h", "gpu_h"),
}


_ETTR_PARTS = {
    "subject": "run_id",
    "value": "ettr",
    "numerator": "productive",
    "denominator": "wall_gpu_s",
    "n": "n_attempts",
    "bound_low": "ettr_low",
    "bound_high": "ettr_high",
    "log_gpu_s": "by_log",
    "telemetry_gpu_s": "by_telemetry",
    "accounting_gpu_s": "by_accounting",
    "assumed_gpu_s": "by_assumed",
}


def _ettr_of_run(source: Reader, window: Window, run: str) -> Answer:
    meant = _runs(source, window, run)
    found = _only(results.ettr_run_rows(source, window), meant)
    if found.is_empty():
        raise UsageError(f"{window.cluster}: run {run!r} held no GPUs in this window; take a longer one (--since)")
    said = (*_several(run, meant), *(_arithmetic(found.row(0, named=True)) if found.height == 1 else ()))
    return Answer(
        "ETTR of a run" if found.height == 1 else f"ETTR of the runs that {run} may mean, the newest first",
        found,
        _ETTR_COLUMNS,
        ("ettr",),
        ("ledger_sums", "runs"),
        said,
        parts=_ETTR_PARTS,
    )


def _arithmetic(row: dict[str, Any]) -> tuple[str, ...]:
    """How the ETTR of one run comes about."""
    return (
        f"ETTR of run {row['run_id']} = productive / (first queue + requeue waits + allocated), in GPU-seconds",
        f"  at least {row['productive']:,.0f} / ({row['queued_initial']:,.0f} + {row['queued_requeue']:,.0f} + "
        f"{row['allocated']:,.0f}) = {row['ettr_low']:.4f}",
        f"  at most ({row['productive']:,.0f} + {row['unseen']:,.0f} unseen) / {row['wall_gpu_s']:,.0f} = "
        f"{row['ettr_high']:.4f}",
    )


def mttf(source: Reader, window: Window, question: Question) -> Answer:
    """Failure rates and MTTF."""
    _dimension(question.by, ("size",), "size")
    per_gpu = pl.col("size").is_in(["pooled", "over 128"])
    rows = results.failure_rate_rows(source, window, claimed_gpus=question.at_gpus).with_columns(
        numerator=pl.when(per_gpu).then("exposure_gpu_days").otherwise("exposure_job_days"),
        denominator=pl.col("n_failures"),
    )
    pooled = rows.filter(
        (pl.col("size") == "pooled") & (pl.col("class") == "infrastructure") & (pl.col("counted") == "attempts")
    ).row(0, named=True)
    return Answer(
        "MTTF by job size",
        rows,
        {
            "class": ("class", "text"),
            "counted": ("counted", "text"),
            "size": ("GPUs", "text"),
            "n_failures": ("failures", "count"),
            "n_attempts": ("attempts", "count"),
            "exposure_gpu_days": ("GPU-days", "number"),
            "rate_per_gpu_day": ("per GPU-day", "number"),
            "mttf_d": ("MTTF d", "number"),
            "mttf_low_d": ("95 % from", "number"),
            "mttf_high_d": ("to", "number_or_open"),
            "note": ("note", "text"),
        },
        metrics=("mttf",),
        queries=("attempts", "interruptions"),
        notes=(_scaled(pooled, question.at_gpus),),
        worth_showing=(pl.col("n_attempts") > 0) | (pl.col("n_failures") > 0),
        parts={
            "metric": "class",
            "counted": "counted",
            "subject": "size",
            "value": "mttf_d",
            "numerator": "numerator",
            "denominator": "denominator",
            "n": "n_attempts",
            "ci_low": "mttf_low_d",
            "ci_high": "mttf_high_d",
        },
        when_empty="No attempt held GPUs in this window.",
    )


def _scaled(pooled: dict[str, Any], gpus: float) -> str:
    """The pooled estimate for a job of a given size, said with its assumption."""
    if not pooled["exposure_gpu_days"]:
        return "No exposure yet: no attempt held GPUs in this window."
    low = pooled["mttf_low_d"] / gpus
    high = "no upper limit" if pooled["mttf_high_d"] is None else f"{pooled['mttf_high_d'] / gpus:.4g} d"
    value = "no failure yet" if pooled["mttf_d"] is None else f"{pooled['mttf_d'] / gpus:.4g} d"
    return (
        f"At {gpus:g} GPUs, pooled over all sizes (assumes that the rate grows with the number of GPUs): MTTF {value}, "
        f"95 % interval {low:.4g} d to {high}."
    )


def mfu(source: Reader, window: Window, question: Question) -> Answer:
    """Model FLOP utilisation, of all logged runs or by run, by convention."""
    if question.run is not None or _dimension(question.by, ("cluster", "run"), "cluster") == "run":
        rows, said = _asked(results.mfu_run_rows(source, window), source, window, question.run)
        return Answer(
            "MFU by run and FLOP convention",
            rows,
            {"run_id": ("run", "text"), **_MFU_COLUMNS, "median": ("median step", "ratio"), "note": ("note", "text")},
            metrics=("mfu",),
            queries=("steps", "run_sessions", "run_events"),
            notes=said,
            parts={"subject": "run_id", **_MFU_PARTS},
            when_empty=_NO_STEPS,
        )
    found = [
        results.mfu_rows(source, window, convention).with_columns(convention=pl.lit(convention))
        for convention in CONVENTIONS
    ]
    rows = pl.concat(found).filter(pl.col("n") > 0)
    return Answer(
        "MFU over the kept steps of all logged runs, by FLOP convention",
        rows,
        {**_MFU_COLUMNS, "note": ("note", "text")},
        metrics=("mfu",),
        queries=("steps", "run_sessions", "run_events"),
        parts={"subject": "convention", **_MFU_PARTS},
        when_empty=_NO_STEPS,
        notes=(
            "The peak is dense, for the data type of the log. A vendor's figure means little without its convention.",
        ),
    )


_NO_STEPS = (
    "No run of a known job logged steps in this window (logs that match no job: see trackside status).\n"
    "The recorder does it in three lines: trackside recorder --help"
)
_MFU_COLUMNS = {
    "convention": ("convention", "text"),
    "value": ("MFU", "ratio"),
    "ci_low": ("95 % from", "ratio"),
    "ci_high": ("to", "ratio"),
    "n": ("steps", "count"),
    "numerator": ("FLOP", "number"),
    "denominator": ("peak FLOP", "number"),
}
_MFU_PARTS = {
    "convention": "convention",
    "value": "value",
    "numerator": "numerator",
    "denominator": "denominator",
    "n": "n",
    "ci_low": "ci_low",
    "ci_high": "ci_high",
}


def restarts(source: Reader, window: Window, question: Question) -> Answer:
    """Time to job restart: summed up by class and cause, or each."""
    rows = results.restart_rows(source, window)
    if _dimension(question.by, ("cause", "event"), "cause") == "event":
        return Answer(
            "Restarts",
            rows,
            {
                "run_id": ("run", "text"),
                "attempt_no": ("attempt", "count"),
                "class": ("class", "text"),
                "cause": ("cause", "text"),
                "n_gpus": ("GPUs", "count"),
                "interrupted_at": ("interrupted", "time"),
                "restarted_at": ("restarted", "time"),
                "time_to_requeue_s": ("Slurm's hold", "seconds"),
                "queue_s": ("queue", "seconds"),
                "time_to_job_restart_s": ("to restart", "seconds"),
            },
            ("time_to_job_restart",),
            ("restarts",),
            when_empty=_NO_RESTARTS,
        )
    return Answer(
        "Time to job restart (end of the interrupted attempt to start of the next)",
        restart_summary(rows),
        {
            "class": ("class", "text"),
            "cause": ("cause", "text"),
            "n": ("n", "count"),
            "n_waiting": ("waiting", "count"),
            "median_s": ("median", "seconds"),
            "median_low_s": ("95 % from", "seconds"),
            "median_high_s": ("to", "seconds"),
            "p90_s": ("p90", "seconds"),
            "mean_s": ("mean", "seconds"),
            "hold_median_s": ("Slurm's hold", "seconds"),
            "queue_median_s": ("queue", "seconds"),
        },
        ("time_to_job_restart",),
        ("restarts",),
        notes=_still_waiting(rows),
        when_empty=_NO_RESTARTS,
        parts={
            "metric": "class",
            "subject": "cause",
            "value": "median_s",
            "n": "n",
            "n_waiting": "n_waiting",
            "ci_low": "median_low_s",
            "ci_high": "median_high_s",
        },
    )


def _still_waiting(rows: pl.DataFrame) -> tuple[str, ...]:
    """A sample that leaves out what has not ended yet flatters; say so."""
    waiting = rows["time_to_job_restart_s"].null_count()
    if not waiting:
        return ()
    return (f"{waiting} restart(s) still wait and are in no statistic, so the true times are longer.",)


_NO_RESTARTS = "No interrupted run was restarted in this window."


def lost(source: Reader, window: Window, question: Question) -> Answer:
    """Where all GPU-time went."""
    dimension = _dimension(question.by, (*LEDGER_DIMENSIONS, "cause"), "cause")
    subject = "cluster" if dimension == "cause" else dimension
    rows = results.lost_rows(source, window, subject)
    guess = results.lost_imputed_rows(source, window).row(0, named=True)
    shown = {} if subject == "cluster" else {"subject": (subject, "text")}
    return Answer(
        "Where the GPU-time went",
        rows,
        shown
        | {
            "state": ("state", "text"),
            "category": ("category", "text"),
            "cause": ("cause", "text"),
            "evidence": ("evidence", "text"),
            "gpu_hours": ("GPU-h", "number"),
            "share": ("share", "ratio"),
        },
        metrics=("lost_imputed",),
        queries=("ledger_sums", "interruptions"),
        notes=(
            f"Assumed, beside the ledger: {guess['n']} infrastructure interruptions cost "
            f"{guess['value'] / 3600:,.2f} GPU-h if half an hourly checkpoint interval was lost each time.",
        ),
        parameters={"dimension": subject},
        parts={
            "metric": "state",
            "subject": "category",
            "cause": "cause",
            "evidence": "evidence",
            "numerator_gpu_s": "gpu_seconds",
            "value": "share",
        },
        when_empty="No GPU-time in this window: is it within what `trackside status` says is covered?",
    )


def _runs(source: Reader, window: Window, text: str) -> list[str]:
    """The runs that a run id or a job id means.

    Raises:
        UsageError: there is none.
    """
    found = results.resolve_run(source, window.cluster, text)
    if not found:
        raise UsageError(
            f"{window.cluster}: no run and no job is called {text!r}; `trackside show runs` lists the runs"
        )
    return found


def _only(rows: pl.DataFrame, meant: list[str]) -> pl.DataFrame:
    """The rows of these runs, in the order in which the runs are given."""
    order = pl.DataFrame({"run_id": meant}).with_row_index("_order")
    return rows.join(order, on="run_id", maintain_order="left").sort("_order", maintain_order=True).drop("_order")


def _asked(
    rows: pl.DataFrame, source: Reader, window: Window, asked: str | None
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The rows of the runs that `--run` means, the newest first, and what must be said of them; else all rows."""
    if asked is None:
        return rows, ()
    meant = _runs(source, window, asked)
    return _only(rows, meant), _several(asked, meant)


def _several(asked: str, meant: list[str]) -> tuple[str, ...]:
    """That a job id or a name means more than one run, which, and how to ask for one of them."""
    if len(meant) < 2:
        return ()
    named = ", ".join(meant[:MOST_NAMED]) + (f" and {len(meant) - MOST_NAMED:,} more" if meant[MOST_NAMED:] else "")
    by_job = f"{len(meant):,} runs have a job {asked} (Slurm uses job ids again, and jobs of an array share one)"
    by_name = f"{asked} is the name of {len(meant):,} runs"
    return (
        f"{by_name if all(each.startswith(asked + APART) for each in meant) else by_job}, the newest first: {named}.",
        f"To choose one, give its run id: --run {shlex.quote(meant[0])}",
    )


MOST_NAMED = 10
"""Runs of a job id or of a name that a note names."""


def interruptions(source: Reader, window: Window, question: Question) -> Answer:
    """Attempts that ended otherwise than by completing, the newest first, each with what it cost."""
    _dimension(question.by, ("event",), "event")
    return Answer(
        "Interruptions, the newest first",
        results.priced_interruptions(source, window).drop("milli_gpus"),
        {
            "ended_at": ("ended", "time"),
            "run_id": ("run", "text"),
            "attempt_no": ("attempt", "count"),
            "state": ("state", "text"),
            "class": ("class", "text"),
            "cause": ("cause", "text"),
            "node": ("node", "text"),
            "n_gpus": ("GPUs", "count"),
            "runtime_s": ("ran", "seconds"),
            "cost_gpu_s": ("cost GPU-h", "gpu_h"),
            "detail": ("evidence", "text"),
        },
        queries=("interruptions", "interruption_costs"),
        notes=("cost: GPU-time that the attempt lost or stood still, and the startup of the one that followed.",),
        when_empty="No attempt ended otherwise than by completing in this window.",
    )


def runs(source: Reader, window: Window, question: Question) -> Answer:
    """Training runs with their attempts and bounds."""
    _dimension(question.by, ("run",), "run")
    found = source.query("runs", cluster=window.cluster, since=window.since, until=window.until)
    ratios = results.ettr_run_rows(source, window).select(
        "cluster", "run_id", "ettr", "ettr_low", "ettr_high", "allocated"
    )
    rows, said = _asked(found.join(ratios, on=["cluster", "run_id"], how="left"), source, window, question.run)
    if question.run is not None and rows.is_empty():
        raise UsageError(
            f"{window.cluster}: run {question.run!r} had no time in this window; take a longer one (--since)"
        )
    apart = () if question.run is None else why_apart(source, window, rows["run_id"].to_list())
    said = (*said, *_how_joined(source, window, rows), *apart, *_runaways(rows))
    return Answer(
        "Runs",
        rows,
        {
            "run_id": ("run", "text"),
            "user": ("user", "text"),
            "name": ("name", "text"),
            "n_gpus": ("GPUs", "count"),
            "n_attempts": ("attempts", "count"),
            "joined_by": ("joined by", "text"),
            "state": ("state", "text"),
            "started_at": ("started", "time"),
            "ended_at": ("ended", "time"),
            "allocated": ("GPU-h", "gpu_h"),
            "ettr_low": ("ETTR at least", "ratio"),
            "ettr_high": ("at most", "ratio"),
        },
        metrics=("ettr",),
        queries=("runs", "run_attempts", "ledger_sums"),
        notes=said,
        parts={"subject": "run_id", "bound_low": "ettr_low", "bound_high": "ettr_high", "allocated_gpu_s": "allocated"},
        when_empty="No run in this window.",
    )


def _how_joined(source: Reader, window: Window, rows: pl.DataFrame) -> tuple[str, ...]:
    """Of a single run of several attempts: which jobs they are, and by which rule each was joined to the run."""
    if rows.height != 1 or rows["n_attempts"].item() < 2:
        return ()
    found = source.query("run_attempts", cluster=window.cluster).filter(pl.col("run_id") == rows["run_id"].item())
    told = found.sort("attempt_no", *by_id()).select("attempt_no", "job_id", "joined_by").rows()
    named = [
        f"{number}: job {job}, {'first' if word == 'single' else word.replace('_', ' ')}"
        for number, job, word in told[:MOST_NAMED]
    ]
    more = f"; and {len(told) - MOST_NAMED:,} more" if told[MOST_NAMED:] else ""
    return (f"its attempts and how each was joined: {'; '.join(named)}{more}.",)


def _runaways(rows: pl.DataFrame) -> tuple[str, ...]:
    """That some runs' ends are not known."""
    count = rows.filter(pl.col("state") == "RUNAWAY").height
    if not count:
        return ()
    return (
        f"RUNAWAY: accounting never closed {count:,} of these runs, though Slurm no longer knew their jobs. They ended "
        "when they are shown to have ended at the latest; their time is unattributed and assumed.",
    )


def nodes(source: Reader, window: Window, question: Question) -> Answer:
    """Nodes: GPUs, where their time went, the interruptions they are to blame for, and why they were last out."""
    _dimension(question.by, ("node",), "node")
    sums = results.ledger_sums(source, window, "node")
    hours = pl.col("gpu_seconds").cast(pl.Float64) / 3600
    parts = sums.group_by("cluster", pl.col("subject").alias("node")).agg(
        hours.sum().alias("gpu_hours"),
        *(hours.filter(pl.col("state") == state).sum().alias(f"{state}_gpu_hours") for state in _STATES),
        hours.filter(pl.col("category") == "stalled").sum().alias("stalled_gpu_hours"),
    )
    blamed = results.node_failures(source, window)
    available = (
        results.goodput_rows(source, window, "node")
        .filter(pl.col("metric") == "availability")
        .select("cluster", pl.col("subject").alias("node"), pl.col("value").alias("availability"))
    )
    newest = (
        source.query("nodes", cluster=window.cluster)
        .sort("valid_from")
        .group_by("cluster", "node")
        .agg((pl.col("milli_gpus").last() / 1000).alias("n_gpus"), pl.col("gpu_model").last())
    )
    rows = (
        parts.join(newest, on=["cluster", "node"], how="left")
        .join(blamed, on=["cluster", "node"], how="left")
        .join(available, on=["cluster", "node"], how="left")
        .join(last_reasons(source, window), on=["cluster", "node"], how="left")
        .with_columns(
            cost_gpu_s=pl.when(pl.col("interruptions").is_null()).then(0.0).otherwise("cost_gpu_s"),
            interruptions=pl.col("interruptions").fill_null(0),
            unpriced=pl.col("unpriced").fill_null(0),
        )
        .sort(
            pl.col("cost_gpu_s").fill_null(0.0),
            "interruptions",
            "unavailable_gpu_hours",
            "node",
            descending=[True, True, True, False],
        )
    )
    return Answer(
        "Nodes, those that cost most first",
        rows,
        {
            "node": ("node", "text"),
            "gpu_model": ("model", "text"),
            "n_gpus": ("GPUs", "count"),
            "interruptions": ("interruptions", "count"),
            "cause": ("mostly", "text"),
            "cost_gpu_s": ("they cost GPU-h", "gpu_h"),
            "unpriced": ("cost not seen", "count"),
            "availability": ("availability", "ratio"),
            "gpu_hours": ("GPU-h", "number"),
            "allocated_gpu_hours": ("allocated", "number"),
            "idle_gpu_hours": ("idle", "number"),
            "unavailable_gpu_hours": ("unavailable", "number"),
            "stalled_gpu_hours": ("stalled", "number"),
            "last_reason": ("last out of service", "text"),
            "driven_by": ("by", "text"),
        },
        metrics=("availability",),
        queries=("ledger_sums", "interruption_costs", "nodes", "node_states"),
        notes=_to_do(blamed),
        parameters={"dimension": "node"},
        parts={
            "subject": "node",
            "value": "availability",
            "unavailable_gpu_h": "unavailable_gpu_hours",
            "denominator_gpu_h": "gpu_hours",
            "n": "interruptions",
        },
        when_empty="No node with GPUs in this window.",
    )


def _to_do(blamed: pl.DataFrame) -> tuple[str, ...]:
    found = advice.drain(blamed)
    return () if found is None else (found[0], f"  {found[1]}")


_STATES = ("allocated", "idle", "unavailable")

QUESTIONS: dict[str, Callable[[Reader, Window, Question], Answer]] = {
    "goodput": goodput,
    "ettr": ettr,
    "mttf": mttf,
    "mfu": mfu,
    "restarts": restarts,
    "lost": lost,
    "interruptions": interruptions,
    "runs": runs,
    "nodes": nodes,
}


def _dimension(asked: str | None, allowed: tuple[str, ...], default: str) -> str:
    if asked is None:
        return default
    if asked not in allowed:
        raise UsageError(f"--by {asked} is not for this question; it takes: {', '.join(allowed)}")
    return asked
