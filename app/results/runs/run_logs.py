"""Run logs as metrics read them: sessions matched to attempts, executions of steps, events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from app.results.constants import computed_constants
from metrics import frames
from metrics.runs.second_logs import one_event_per_process, one_log_per_process
from metrics.runs.steps import StepRules, executions_of_steps, explicit_runs, match_sessions, with_runs

if TYPE_CHECKING:
    from app.window import RowSource


@dataclass(frozen=True)
class Logs:
    """The logs of a cluster.

    Attributes:
        sessions: as `metrics.runs.steps.match_sessions` (with `run`, once the runs are known) returns them, with the
            `milli_gpus` of their attempts.
        steps: `frames.STEPS`.
        events: `frames.RUN_EVENTS`.
    """

    sessions: pl.DataFrame
    steps: pl.DataFrame
    events: pl.DataFrame

    def names(self) -> pl.DataFrame:
        """The run id that each attempt's own log gives it."""
        return explicit_runs(self.sessions)

    def in_runs(self, joined: pl.DataFrame) -> Logs:
        """With the runs that the attempts were joined to."""
        return Logs(with_runs(self.sessions, joined), self.steps, self.events)

    def executions(self, rules: StepRules) -> pl.DataFrame:
        """Each execution of each step, as `metrics.runs.steps.executions_of_steps` returns it."""
        return executions_of_steps(self.steps, self.sessions, self.events, rules)


def read_logs(source: RowSource, cluster: str, attempts: pl.DataFrame, *, clock_skew_s: float) -> Logs:
    """Read a cluster's logs and find their attempts. Rank 0 is used for all, and one log of two of one process."""
    everyone = source.query("run_sessions", cluster=cluster)
    steps = frames.conform(source.query("steps", cluster=cluster), frames.STEPS)
    every = everyone.filter(pl.col("rank") == 0)
    sessions, steps = one_log_per_process(every, steps)
    events = frames.conform(source.query("run_events", cluster=cluster), frames.RUN_EVENTS)
    of_rank_0 = frames.conform(sessions, frames.SESSIONS)
    matched = match_sessions(of_rank_0, attempts, clock_skew_s=clock_skew_s)
    key = list(frames.ATTEMPT_KEY)
    held = attempts.select(*key, "milli_gpus").join(matched.select(key).unique(), on=key, how="semi")
    return Logs(
        matched.join(held, on=key, how="left", maintain_order="left"),
        steps,
        one_event_per_process(every, events),
    )


def computed_logs(source: RowSource, cluster: str) -> tuple[Logs, pl.DataFrame]:
    """Logs and executions by the constants and runs of the last computation.

    Several numbers need them, so the source keeps them where its rows do not change.
    """
    return source.memo(("logs", cluster), lambda: _computed_logs(source, cluster))


def keep_logs(source: RowSource, cluster: str, logs: Logs, executed: pl.DataFrame) -> None:
    """Have `computed_logs` return what a computation has read and made already, where the source keeps it."""
    source.memo(("logs", cluster), lambda: (logs, executed))


def _computed_logs(source: RowSource, cluster: str) -> tuple[Logs, pl.DataFrame]:
    constants = computed_constants(source, cluster)
    attempts = frames.conform(source.query("attempts", cluster=cluster), frames.ATTEMPTS)
    joined = frames.conform(source.query("run_attempts", cluster=cluster), frames.RUN_ATTEMPTS)
    logs = read_logs(source, cluster, attempts, clock_skew_s=constants["clock_skew_s"]).in_runs(joined)
    return logs, logs.executions(StepRules(constants["hang_steps"], constants["hang_min_s"]))
