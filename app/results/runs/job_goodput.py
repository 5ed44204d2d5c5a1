"""Job goodput by the step logs of runs, as Google's ml-goodput-measurement prints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.results.registry import result
from app.results.runs.run_logs import computed_logs
from app.results.windows import as_results
from ingest.counted import counted
from metrics import frames
from metrics.exact import exact_sum
from metrics.goodput.google_library import library_goodput
from metrics.goodput.job import job_goodput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.window import RowSource, Window
    from metrics.goodput.job import JobGoodput

_SESSION = ["cluster", "run_id", "scheduler", "job_id"]

STEP_START: Final = "step_start"
"""Kind of a run log's event: a step has begun. Only those of unfinished steps add information."""

_RUN_ROWS: frames.Schema = {
    "cluster": frames.TEXT,
    "run_id": frames.TEXT,
    "value": frames.NUMBER,
    "productive_s": frames.NUMBER,
    "total_s": frames.NUMBER,
    "account": frames.NUMBER,
    "disruptions": frames.COUNT,
    "max_step": frames.COUNT,
    "note": frames.TEXT,
}

_BUCKET_ROWS: frames.Schema = {
    "cluster": frames.TEXT,
    "run_id": frames.TEXT,
    "bucket": frames.TEXT,
    "seconds": frames.NUMBER,
}


@dataclass(frozen=True)
class JobAccounts:
    """The accounts of the runs whose steps were logged.

    Attributes:
        runs: `cluster`, `run_id`, `value` (0-1; null where the library refuses the log), `productive_s`, `total_s`,
            `account` (the share by our account of the same log, which always adds up), `disruptions`, `max_step`,
            `note`.
        buckets: `cluster`, `run_id`, `bucket`, `seconds`: the badput that the library names, and `productive`.
    """

    runs: pl.DataFrame
    buckets: pl.DataFrame


def job_accounts(source: RowSource, window: Window) -> JobAccounts:
    """The account of each logged run within the window.

    A run's clock begins with its first process (queueing before that does not count) or with the window, and stops
    with its last log line if its last attempt completed, else with the end of that attempt, the last moment that its
    log was read for, or the window's end: whichever is first. So a job that is down to the window's end is charged for
    it, where the library's rolling window is not. What happened after the window, such as a restart from an earlier
    step, is not known in it: the figure is what the library would have printed then.
    """
    accounted = list(_accounts(source, window))
    runs = [each for each, _ in accounted]
    buckets = [row for _, rows in accounted for row in rows]
    return JobAccounts(
        pl.DataFrame(runs, schema=_RUN_ROWS).sort("cluster", "run_id"),
        pl.DataFrame(buckets, schema=_BUCKET_ROWS).sort("cluster", "run_id", "bucket"),
    )


def _accounts(source: RowSource, window: Window) -> Iterator[tuple[dict[str, object], list[dict[str, object]]]]:
    low, high = frames.instant(window.since), frames.instant(window.until)
    logs, executed = computed_logs(source, window.cluster)
    sessions = logs.sessions.filter(pl.col("usable") & (pl.col("stream") == "") & (pl.col("started_at") < high))
    if sessions.is_empty():
        return
    inside = executed.filter((pl.col("stream") == "") & (pl.col("ts") >= low) & (pl.col("ts") < high))
    steps = inside.sort("run", "ts", "step").partition_by("run", as_dict=True)
    known = sessions.select(*_SESSION, "run").unique(_SESSION)
    logged = logs.events.filter(pl.col("ts") >= low).join(known, on=_SESSION)
    happened = logged.filter(pl.col("ended_at") <= high)
    events = happened.sort("run", "ts").partition_by("run", as_dict=True)
    begun = logged.filter((pl.col("kind") == STEP_START) & pl.col("step").is_not_null() & (pl.col("ts") < high))
    unfinished = begun.join(executed, on=["run", "step", "ts"], how="anti").sort("run", "ts")
    starts = unfinished.partition_by("run", as_dict=True)
    in_window = source.query("runs", cluster=window.cluster, since=window.since, until=window.until)
    ends = in_window.select("run_id", "state", "ended_at").filter(pl.col("run_id").is_in(sessions["run"].to_list()))
    over = {row["run_id"]: row for row in ends.iter_rows(named=True)}
    for (run,), own in sessions.sort("run", "started_at").partition_by("run", as_dict=True).items():
        if (run,) in steps and run in over:
            own_events, own_starts = (
                events.get((run,), happened.clear()),
                starts.get((run,), unfinished.clear()),
            )
            try:
                log = _WindowedLog(own, steps[run,], own_starts, own_events, over[run], window)
                rows = log.rows(str(run))
            except _FAULTS as error:  # one run's log must not cost the others their numbers
                rows = _left_out(window.cluster, str(run), error), []
            yield rows


_FAULTS: Final = (ArithmeticError, LookupError, TypeError, ValueError, pl.exceptions.PolarsError)


def _left_out(cluster: str, run: str, error: Exception) -> dict[str, object]:
    """The row of a run whose account could not be made."""
    reason = f"cannot tell: its log could not be computed ({type(error).__name__}: {error}); please report it"
    return dict.fromkeys(_RUN_ROWS) | {"cluster": cluster, "run_id": run, "note": reason}


class _WindowedLog:
    """The log of one run within a window, in seconds since the window's begin."""

    def __init__(  # noqa: PLR0917 - private, and every one of them is needed
        self,
        sessions: pl.DataFrame,
        steps: pl.DataFrame,
        unfinished: pl.DataFrame,
        events: pl.DataFrame,
        run: dict[str, Any],
        window: Window,
    ) -> None:
        self._cluster = window.cluster
        until = (window.until - window.since).total_seconds()

        def since(column: str) -> pl.Expr:
            return frames.seconds(pl.col(column) - frames.instant(window.since)).alias(column)

        moments = sessions.select(since("started_at"), since("ended_at"), since("read_at"))
        began = moments["started_at"].to_list()
        self._starts = sorted({max(0.0, min(began)), *(each for each in began if each > 0)})
        begun = pl.concat([steps.select("step", since("ts")), unfinished.select("step", since("ts"))]).sort("ts")
        self._numbers, self._begins = begun["step"].to_list(), begun["ts"].to_list()
        self._highest = steps["step"].max()
        over = None if run["ended_at"] is None else (run["ended_at"] - window.since).total_seconds()
        last, last_read = moments.select(pl.col("ended_at").max(), pl.col("read_at").max()).row(0)
        finished = run["state"] == "COMPLETED" and over is not None and over <= until
        self._end = min(last, until) if finished else None
        self._now = min(until, over if over is not None else until if last_read is None else last_read)
        if self._end is None:
            self._begin_next(steps, window)
        self._events = (
            events.with_columns(since("ts"), since("ended_at"))
            .rename({"ts": "begin", "ended_at": "end"})
            .filter((pl.col("kind") != "checkpoint_save") | pl.col("blocking").fill_null(value=True))
        )

    def _begin_next(self, steps: pl.DataFrame, window: Window) -> None:
        """Let the step behind the last finished one begin at its end, where the log has no later begin.

        The library takes a step's length from the begin of the next. For a finished one our logs record its
        end, whether or not another one has been finished since.
        """
        last = steps.row(-1, named=True)
        ended = last["end"] / 1e6 - window.since.timestamp()
        if last["end"] > last["begin"] and self._begins[-1] < ended <= self._now:
            self._numbers.append(last["step"] + 1)
            self._begins.append(ended)

    def rows(self, run: str) -> tuple[dict[str, object], list[dict[str, object]]]:
        """The account as rows of both tables."""
        theirs, ours = self._library(), self._account()
        refused = any("the library refuses" in warning for warning in theirs.warnings)
        value = None if refused else theirs.goodput
        differs = value is not None and ours.goodput is not None and abs(value - ours.goodput) >= _VISIBLE
        reason = "cannot tell: the library refuses this log (productive time outside the job's)" if refused else None
        if differs:
            reason = (
                f"by the account that adds up: {ours.goodput:.4f} "
                "(Google's library counts restarts and saves by rules of its own)"
            )
        row: dict[str, object] = {
            "cluster": self._cluster,
            "run_id": run,
            "value": value,
            "productive_s": theirs.productive_s,
            "total_s": theirs.total_s,
            "account": ours.goodput,
            "disruptions": theirs.disruptions,
            "max_step": self._highest,
            "note": reason,
        }
        spent = {"productive": theirs.productive_s} | theirs.badput_s
        buckets: list[dict[str, object]] = [
            {"cluster": self._cluster, "run_id": run, "bucket": bucket, "seconds": seconds}
            for bucket, seconds in spent.items()
        ]
        return row, buckets

    def _library(self) -> JobGoodput:
        own = self._events.select("kind", "begin", "end", "step").rows()
        saved, loaded = "checkpoint_save", "checkpoint_load"
        return library_goodput(
            self._starts,
            self._numbers,
            self._begins,
            job_end=self._end,
            now=self._now,
            events=[(kind, begin, end) for kind, begin, end, _ in own if kind not in {saved, loaded}],
            saves=[(step or 0, end - begin) for kind, begin, end, step in own if kind == saved],
            restores=[(step or 0, end - begin) for kind, begin, end, step in own if kind == loaded],
        )

    def _account(self) -> JobGoodput:
        own = self._events.select("kind", "begin", "end").rows()
        return job_goodput(self._starts, self._numbers, self._begins, job_end=self._end, now=self._now, events=own)


_VISIBLE = 5e-5
"""Differences that would show in four digits."""


@result("goodput_job", in_standard_windows=True)
def job_goodput_rows(source: RowSource, window: Window, *, accounts: JobAccounts | None = None) -> pl.DataFrame:
    """Job goodput of all logged runs together, weighted by their wall time, as one result row; none without logs.

    Args:
        source: where rows are read from.
        window: cluster and time.
        accounts: as `job_accounts` returns them, where they are at hand.
    """
    runs = (job_accounts(source, window) if accounts is None else accounts).runs
    known = runs.filter(pl.col("value").is_not_null() & (pl.col("total_s") > 0))
    if known.is_empty():
        return frames.empty(frames.RESULT)
    sums = known.select(
        exact_sum(pl.col("productive_s")),
        exact_sum(pl.col("total_s")),
        ours=exact_sum(pl.col("account") * pl.col("total_s")),
    ).row(0, named=True)
    basis = (
        f"time-weighted over {counted(known.height, 'logged run')}; GPUs do not count, nor does queueing before a "
        "first start"
    )
    n_refused = runs.height - known.height
    refused = f"; {n_refused} logs that the library refuses, or that could not be computed, left out"
    ours = f"; by the account that adds up {100 * sums['ours'] / sums['total_s']:.2f} %"
    differs = abs(sums["ours"] - sums["productive_s"]) >= _VISIBLE * sums["total_s"]
    row = pl.DataFrame(
        {
            "cluster": [window.cluster],
            "subject": [window.cluster],
            "metric": ["goodput_job"],
            "unit": ["ratio"],
            "value": [sums["productive_s"] / sums["total_s"]],
            "numerator": [sums["productive_s"]],
            "denominator": [sums["total_s"]],
            "n": [known.height],
            "evidence_log": [1.0],
            "note": [basis + (refused if runs.height > known.height else "") + (ours if differs else "")],
        }
    )
    return as_results(row, window, "cluster")


def job_goodput_run_rows(source: RowSource, window: Window, *, accounts: JobAccounts | None = None) -> pl.DataFrame:
    """Job goodput of each logged run as result rows of the dimension `run`."""
    runs = (job_accounts(source, window) if accounts is None else accounts).runs
    rows = runs.select(
        "cluster",
        pl.col("run_id").alias("subject"),
        pl.lit("goodput_job").alias("metric"),
        pl.lit("ratio").alias("unit"),
        "value",
        pl.col("productive_s").alias("numerator"),
        pl.col("total_s").alias("denominator"),
        (pl.col("disruptions") + 1).alias("n"),
        pl.lit(1.0).alias("evidence_log"),
        "note",
    )
    return as_results(rows, window, "run")


def bucket_rows(source: RowSource, window: Window, *, accounts: JobAccounts | None = None) -> pl.DataFrame:
    """Where the logged runs' wall time went by the library's buckets: the cluster's, the largest first.

    Returns:
        `cluster`, `bucket`, `seconds`, `share` (of all the runs' wall time), `runs` (that have any).
    """
    job_runs = job_accounts(source, window) if accounts is None else accounts
    known = job_runs.runs.filter(pl.col("value").is_not_null()).select("cluster", "run_id", "total_s")
    whole = known.select(exact_sum(pl.col("total_s"))).item()
    return (
        job_runs.buckets.join(known, on=["cluster", "run_id"])
        .group_by("cluster", "bucket")
        .agg(exact_sum(pl.col("seconds")), runs=(pl.col("seconds") > 0).sum().cast(pl.Int64))
        .with_columns(share=pl.col("seconds") / whole)
        .select("cluster", "bucket", "seconds", "share", "runs")
        .sort("cluster", "seconds", "bucket", descending=[False, True, False])
    )
