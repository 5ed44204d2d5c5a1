"""One run: which one is meant, what its GPUs did when, and its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app.results.runs.run_logs import computed_logs
from metrics import frames

if TYPE_CHECKING:
    from app.window import RowSource


def resolve_run(source: RowSource, cluster: str, text: str) -> list[str]:
    """Run ids that a person may mean: the run of that id, else those of the job with that id, the newest first."""
    if source.query("run_row", cluster=cluster, run_id=text).height:
        return [text]
    return [str(each) for each in source.query("runs_of_job", cluster=cluster, job_id=text)["run_id"]]


def similar_runs(source: RowSource, cluster: str, text: str) -> list[str]:
    """Ids, names and job ids of runs that read much like a text, the most alike first."""
    return [str(each) for each in source.query("similar_runs", cluster=cluster, text=text)["called"]]


def run_timeline(source: RowSource, cluster: str, run_id: str) -> pl.DataFrame:
    """What the GPUs of a run did when, and when it waited for them (category `queued`): one row per interval.

    Returns:
        `attempt_no`, `job_id`, `submitted_at`, `started_at`, `ended_at`, `category`, `cause`, `evidence`, `gpus`.
    """
    return source.query("run_timeline", cluster=cluster, run_id=run_id)


def run_steps(source: RowSource, cluster: str, run_id: str) -> pl.DataFrame:
    """Every execution of a step that a run logged.

    Returns:
        `attempt_no`, `step`, `ts`, `duration_s`, `tokens`, `loss`, `kept`; in the order of time.
    """
    _, executed = computed_logs(source, cluster)
    joined = source.query("run_attempts", cluster=cluster).select(*frames.ATTEMPT_KEY, "attempt_no")
    return (
        executed.filter(pl.col("run") == run_id)
        .join(joined, on=list(frames.ATTEMPT_KEY))
        .sort("ts", "step")
        .select("attempt_no", "step", "ts", "duration_s", "tokens", "loss", "kept")
    )
