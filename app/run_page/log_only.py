"""A source of a run that only its log describes: each process is an attempt, each gap between processes a wait.

It answers the named queries that the numbers of a run are computed from, so the functions of `app.results` compute
them as they do where accounting is loaded. Nothing is stored, and no `trackside compute` is needed before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import polars as pl

from app.results.constants import constants_text
from app.results.runs.run_logs import read_logs
from app.run_page.one_run import OneRun
from app.window import Window
from metrics import frames
from metrics.exact import exact_sum
from metrics.ledger.log_evidence import logged_time
from metrics.runs.steps import StepRules
from metrics.statistics import rate_interval
from metrics.units import DAY_S
from queries.memo import Memo

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from app.config.settings import Rules
    from queries.warehouse import Reader

T = TypeVar("T")

LOGGED_STATE: Final = "LOGGED"
"""State of a run of which accounting records none: its log ends where it ends."""

_KEY: Final = list(frames.ATTEMPT_KEY)


@dataclass(frozen=True)
class LoggedRun:
    """The rows of a log.

    Attributes:
        sessions: rows of `run_sessions` of rank 0; `job_id` is never null.
        steps: rows of `steps`.
        events: rows of `run_events`.
        gpus: GPUs that train; None where the log does not record them.
    """

    sessions: pl.DataFrame
    steps: pl.DataFrame
    events: pl.DataFrame
    gpus: float | None


def read(reader: Reader, cluster: str, run_id: str) -> LoggedRun:
    """Read the log of a run."""
    own = OneRun(reader, cluster, run_id)
    rows = [own.query(name, cluster=cluster) for name in ("run_sessions", "steps", "run_events")]
    sessions, steps, events = (each.with_columns(pl.col("job_id").fill_null(run_id)) for each in rows)
    first = sessions.filter(pl.col("rank") == 0)
    gpus = first["n_gpus"].max()
    return LoggedRun(first, steps, events, None if gpus is None else float(gpus))  # type: ignore[arg-type]  # polars types max() broadly


def log_of(reader: Reader, cluster: str, run_id: str, rules: Rules) -> LogOnly:
    """The source of a run that only its log describes; one whose GPUs are unknown counts as if it held one.

    Args:
        reader: the published copy.
        cluster: that the log was loaded under.
        run_id: as the log names it.
        rules: those of the configuration.
    """
    logged = read(reader, cluster, run_id)
    return LogOnly(logged, cluster, run_id, rules, gpus=logged.gpus or 1.0)


class LogOnly:
    """Answers the named queries about a run from its log alone.

    Args:
        logged: the rows of the log.
        cluster: that the log was loaded under.
        run_id: as the log names it.
        rules: those of the configuration.
        gpus: GPUs of each process; None: unknown.
    """

    def __init__(self, logged: LoggedRun, cluster: str, run_id: str, rules: Rules, *, gpus: float | None) -> None:
        self.logged = logged
        self._cluster = cluster
        self._run_id = run_id
        self._rules = rules
        self._made = Memo()
        self.attempts = _processes(logged.sessions, None if gpus is None else round(gpus * 1000), run_id)
        since, until = self.attempts.select(pl.col("started_at").min(), pl.col("ended_at").max()).row(0)
        self.window = Window(cluster, since, until)

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """Rows of a named query; none of those about anything but this run."""
        answers: dict[str, Callable[[], pl.DataFrame]] = {
            "attempts": lambda: self.attempts,
            "run_attempts": self._joined,
            "runs": self._runs,
            "run_sessions": lambda: self.logged.sessions,
            "steps": lambda: self.logged.steps,
            "run_events": lambda: self.logged.events,
            "computed": self._computed,
            "ledger_sums": self._ledger_sums,
            "run_ledger": self._run_ledger,
            "restarts": lambda: pl.DataFrame(schema=_RESTARTS),
        }
        return self.memo(("query", name, *sorted(params.items())), answers[name])

    def memo(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """What `make` returned when it was first called under that key."""
        return self._made.get(key, make)

    def failure_rate(self) -> pl.DataFrame:
        """How often the process of this run was started again per GPU-day, as rows of `failure_rates`."""
        days = float(self.attempts.select(_gpu_s() / DAY_S).to_series().sum())
        again = float(self.attempts.height - 1)
        low, high = rate_interval(again, days) if days else (None, None)
        row = {
            "class": "infrastructure",
            "counted": "attempts",
            "size": "pooled",
            "exposure_gpu_days": days,
            "rate_per_gpu_day": again / days if days else None,
            "rate_low": low,
            "rate_high": high,
        }
        return pl.DataFrame([row])

    def _joined(self) -> pl.DataFrame:
        return self.attempts.select(
            *_KEY,
            run_id=pl.lit(self._run_id),
            attempt_no=pl.int_range(1, pl.len() + 1, dtype=pl.Int64),
            joined_by=pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("single")).otherwise(pl.lit("requeue_chain")),
        )

    def _runs(self) -> pl.DataFrame:
        ends = self.attempts.select(pl.col("started_at").min(), pl.col("ended_at").max())
        gpus = self.attempts["milli_gpus"].max()
        return ends.select(
            cluster=pl.lit(self._cluster),
            run_id=pl.lit(self._run_id),
            joined_by=pl.lit("single"),
            user=pl.lit(None, dtype=pl.String),
            account=pl.lit(None, dtype=pl.String),
            partition=pl.lit(None, dtype=pl.String),
            name=pl.lit(self._run_id),
            n_attempts=pl.lit(self.attempts.height, dtype=pl.Int64),
            n_gpus=pl.lit(None if gpus is None else gpus / 1000, dtype=pl.Float64),  # type: ignore[operator]  # as in `read`
            first_submitted_at="started_at",
            eligible_at=pl.lit(None, dtype=frames.TIME),
            started_at="started_at",
            ended_at="ended_at",
            state=pl.lit(LOGGED_STATE),
        )

    def _computed(self) -> pl.DataFrame:
        constants = constants_text(self._rules.model_dump())
        window = self.window
        return pl.DataFrame(
            [{"cluster": window.cluster, "since": window.since, "until": window.until, "constants": constants}]
        )

    def _run_ledger(self) -> pl.DataFrame:
        """What the processes did, second by second: rows of the named query `run_ledger`."""
        attempts = frames.conform(self.attempts, frames.ATTEMPTS)
        joined = frames.conform(self._joined(), frames.RUN_ATTEMPTS)
        logs = read_logs(self, self._cluster, attempts, clock_skew_s=self._rules.clock_skew_s).in_runs(joined)
        executed = logs.executions(StepRules(self._rules.hang_steps, self._rules.hang_min_s))
        ends = pl.DataFrame(schema=frames.INTERRUPTIONS)
        logged = logged_time(executed, logs.sessions, logs.events, attempts, ends)
        held = self.attempts.select(*_KEY, "milli_gpus")
        return logged.join(held, on=_KEY).select(
            "started_at",
            "ended_at",
            "category",
            "cause",
            evidence=pl.lit("log"),
            milli_gpus=pl.col("milli_gpus") * pl.col("milli_share") // 1000,
        )

    def _ledger_sums(self) -> pl.DataFrame:
        """Sums of it; what no line explains is unattributed."""
        spent = self.query("run_ledger").group_by("category", "cause", "evidence").agg(exact_sum(_gpu_s()).alias("s"))
        whole = self.attempts.select(exact_sum(_gpu_s())).item() or 0.0
        rest = max(0.0, whole - float(spent["s"].sum()))
        unexplained = pl.DataFrame(
            [{"category": "unattributed", "cause": None, "evidence": "log", "s": rest}], schema=spent.schema
        )
        sums = pl.concat([spent, unexplained.filter(pl.col("s") > _ROUNDING)])
        return sums.select(
            cluster=pl.lit(self._cluster),
            subject=pl.lit(self._run_id),
            state=pl.lit("allocated"),
            category="category",
            cause="cause",
            evidence="evidence",
            gpu_seconds=pl.col("s").cast(pl.Decimal(38, 9)),
            straggling_gpu_seconds=pl.lit(None, dtype=pl.Decimal(38, 9)),
        )


_ROUNDING: Final = 1e-3
"""GPU-seconds that adding up floats may leave."""

_RESTARTS: Final = {
    "cluster": frames.TEXT,
    "run_id": frames.TEXT,
    "in_allocation": frames.FLAG,
    "n_gpus": frames.NUMBER,
}


def _gpu_s() -> pl.Expr:
    return frames.seconds(pl.col("ended_at") - pl.col("started_at")) * pl.col("milli_gpus") / 1000


def _processes(sessions: pl.DataFrame, milli_gpus: int | None, run_id: str) -> pl.DataFrame:
    """Attempts made of sessions: those that overlap are one. Rows of the named query `attempts`."""
    reached = pl.col("ended_at").cum_max().shift(1)
    alone = (pl.col("started_at") > reached).fill_null(value=True)
    columns = frames.ATTEMPTS.items()
    unknown = [pl.lit(None, dtype=kind).alias(name) for name, kind in columns]
    return (
        sessions.sort("started_at", "ended_at")
        .with_columns(number=alone.cum_sum())
        .group_by("number", maintain_order=True)
        .agg(
            pl.col("cluster", "scheduler", "job_id").first(),
            pl.col("started_at").min(),
            pl.col("ended_at").max(),
        )
        .with_columns(
            submitted_at="started_at",
            state=pl.lit(LOGGED_STATE),
            name=pl.lit(run_id),
            milli_gpus=pl.lit(milli_gpus, dtype=pl.Int64),
            req_milli_gpus=pl.lit(milli_gpus, dtype=pl.Int64),
            suspended_s=pl.lit(0.0),
        )
        .with_columns(each for each in unknown if each.meta.output_name() not in _KNOWN)
        .select(frames.ATTEMPTS.keys())
    )


_KNOWN: Final = {
    *_KEY, "started_at", "ended_at", "state", "name", "milli_gpus", "req_milli_gpus", "suspended_s",
}  # fmt: skip


def last_line(logged: LoggedRun) -> tuple[datetime, datetime | None]:
    """When the log ends, and when it was last read."""
    ends: Any = logged.sessions.select(pl.col("ended_at").max(), pl.col("read_at").max()).row(0)
    return ends[0], ends[1]
