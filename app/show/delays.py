"""The answer of `trackside show interruptions --by delay`: what failures kept waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.failures.delays import delay_rows
from app.show.answer import Answer, Details
from app.show.sentences import gpu_hours
from ingest.counted import counted
from metrics.placement.delays import BLOCK, OUTAGE, RESTART, summed

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader

MOST_LISTED: Final = 20
"""Jobs that `--explain` lists, those that were delayed longest."""

_METRICS: Final = {OUTAGE: "delayed_by_outages", BLOCK: "delayed_by_outages", RESTART: "delayed_by_restarts"}


def delays(source: Reader, window: Window) -> Answer:
    """Jobs that waited for nodes out of service, or after they were preempted for a run that came back."""
    rows, unjudged = delay_rows(source, window)
    table = summed(rows).with_columns(metric=pl.col("kind").replace_strict(_METRICS))
    return Answer(
        "What failures kept waiting",
        table,
        {
            "kind": ("delayed by", "text"),
            "n": ("jobs", "count"),
            "delayed_gpu_s": ("GPU-h waited", "gpu_h"),
            "median_s": ("median", "seconds"),
            "longest_s": ("longest", "seconds"),
            "n_open": ("still waiting", "count"),
            "n_unknown": ("not known", "count"),
        },
        headline=_headline(table),
        metrics=("delayed_by_outages", "delayed_by_restarts"),
        queries=(
            "attempts",
            "attempt_nodes",
            "node_states",
            "inventory_of",
            "node_places",
            "interruptions",
            "restarts",
        ),
        notes=(
            "GPU-hours that waiting jobs requested: no part of the ledger. Nodes or blocks out of service: at most, "
            "since each job is judged by itself and several may have waited for the same nodes; planned work is not "
            "counted. A job that was preempted for such a run and then waited for nodes is in both rows.",
            *_unjudged(unjudged),
        ),
        parameters=window.parameters,
        parts={"metric": "metric", "subject": "kind", "value": "delayed_gpu_s", "n": "n"},
        details=(_longest(rows),),
    )


def _unjudged(number: int) -> tuple[str, ...]:
    if not number:
        return ()
    return (f"{counted(number, 'job')} that waited not judged: GPUs, nodes or one partition unknown.",)


def _headline(table: pl.DataFrame) -> str:
    sums = {kind: (n, value) for kind, n, value in table.select("kind", "n", "delayed_gpu_s").rows()}
    jobs = sums[OUTAGE][0] + sums[BLOCK][0]
    waited = (sums[OUTAGE][1] or 0.0) + (sums[BLOCK][1] or 0.0)
    n, again = sums[RESTART]
    return (
        f"{counted(jobs, 'job')} waited at most {gpu_hours(waited)} for nodes that failures had taken out of service; "
        f"{counted(n, 'job')} preempted for runs that came back waited {gpu_hours(again or 0.0)} to run again."
    )


def _longest(rows: pl.DataFrame) -> Details:
    longest = rows.sort(pl.col("delayed_s") * pl.col("milli_gpus"), descending=True, nulls_last=True).head(MOST_LISTED)
    return Details(
        "Jobs that were delayed most",
        longest.with_columns(n_gpus=pl.col("milli_gpus") / 1000),
        {
            "job_id": ("job", "text"),
            "user": ("user", "text"),
            "partition": ("partition", "text"),
            "kind": ("delayed by", "text"),
            "began_at": ("from", "time"),
            "waited_s": ("waited", "seconds"),
            "delayed_s": ("of that delayed", "seconds"),
            "n_gpus": ("GPUs", "number"),
        },
    )
