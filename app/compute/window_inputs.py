"""Digest of the inputs of a window's stored results: a window whose inputs are the same keeps its results.

Every row that results are computed from counts in a time: an attempt while it ran, an interruption just before its end.
A window depends on the rows whose time overlaps it, so late rows, corrections and removed days change the digests of
the windows that they concern, and a new day changes none of a window that ended before it. The time of a row reaches as
far as its effect does; where that is not known, to the end of the data.
"""

from __future__ import annotations

import hashlib
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from app.compute.unchanged import code_digest
from app.results.ettr import other_runs, run_times
from app.results.failures.failure_rates import sizes_of
from app.results.failures.interruptions import every_restart, priced_interruptions
from app.results.failures.lemons import failed, judged
from app.results.runs.run_logs import computed_logs
from metrics import frames
from metrics.failures.interruptions import MERGE_S
from metrics.joins import inner_join
from metrics.units import DAY_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    import numpy.typing as npt

    from app.config.settings import Rules
    from app.window import RowSource, Window
    from metrics.failures.exposure import Histories

    _Moments = npt.NDArray[np.int64]
    _Sums = npt.NDArray[np.uint64]

_FAR: Final = 2**62
"""Microseconds of a time that has no end."""

_OF_SESSIONS: Final = ("session", "hang_us", "period_us")
"""Columns of executed steps that no window's results depend on: they change whenever a log grows."""


class Rows:
    """Digests of rows by the time in which they count.

    Args:
        rows: `begin`, `end` (null: no end) and what results depend on. A row without `begin` counts nowhere.
        seed: of the digests; another for each kind of rows.
        edges: begins and ends of the windows that will be requested.
    """

    def __init__(self, rows: pl.DataFrame, seed: int, edges: Iterable[datetime]) -> None:
        self._places = {moment: place for place, moment in enumerate(sorted(set(edges)))}
        moments = np.array([frames.microseconds(moment) for moment in self._places], dtype=np.int64)
        timed = rows.filter(pl.col("begin").is_not_null())
        digests = timed.drop("begin", "end").hash_rows(seed=seed).to_numpy()
        begin, end = pl.col("begin").dt.epoch("us"), pl.col("end").dt.epoch("us").fill_null(_FAR)
        times = timed.select(begin, pl.max_horizontal(begin, end).alias("end"))
        self._begun = _before(moments, times["begin"].to_numpy(), digests)
        self._ended = _before(moments, times["end"].to_numpy(), digests)

    def within(self, since: datetime, until: datetime) -> str:
        """Number and sum of the digests of the rows that overlap a window. Their order changes nothing."""
        # Rows that ended before the window are among those that had begun before its end.
        begun, all_begun = (int(each[self._places[until]]) for each in self._begun)
        ended, all_ended = (int(each[self._places[since]]) for each in self._ended)
        return f"{begun - ended}:{(all_begun - all_ended) % 2**64}"


def _before(edges: _Moments, moments: _Moments, digests: _Sums) -> tuple[_Moments, _Sums]:
    """For each edge how many moments lie before it, and the sum of their digests (modulo 2^64)."""
    passed = np.searchsorted(edges, moments, side="right")
    counts, sums = np.zeros(len(edges) + 1, dtype=np.int64), np.zeros(len(edges) + 1, dtype=np.uint64)
    np.add.at(counts, passed, 1)
    np.add.at(sums, passed, digests)
    return np.cumsum(counts), np.cumsum(sums, dtype=np.uint64)


class WindowInputs:
    """The inputs of the stored results of a cluster's windows.

    Args:
        source: where rows are read; runs, interruptions and the ledger of this computation are in it already.
        window: all of the cluster's data.
        rules: that the numbers depend on.
        past: `app.results.failures.failure_rates.failure_history` of `window`.
        windows: those whose digests will be requested.
    """

    def __init__(
        self, source: RowSource, window: Window, rules: Rules, past: Histories, windows: Iterable[Window]
    ) -> None:
        self._source = source
        inventoried = window.cluster in source.query("inventoried")["cluster"]
        sizes = [size.label for size in sizes_of(past)]
        self._common = (code_digest().hex(), rules.model_dump_json(), window.cluster, str(inventoried), *sizes)
        edges = {moment for each in windows for moment in (each.since, each.until)}
        # One after the other: together they take as much memory as all else here.
        frames_by_time = chain(_of_accounting(source, window, past), _of_logs(source, window.cluster))
        self._rows = [Rows(rows, seed, edges) for seed, rows in enumerate(frames_by_time)]

    def digest(self, window: Window) -> str:
        """The digest of one of the windows."""
        parts = [rows.within(window.since, window.until) for rows in self._rows]
        inside = [*_logs_within(self._source, window), *_read_for(self._source, window)]
        parts += [f"{rows.height}:{rows.hash_rows(seed=seed).sum()}" for seed, rows in enumerate(inside)]
        text = "\n".join([*self._common, str(window.since), str(window.until), *parts])
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _of_accounting(source: RowSource, window: Window, past: Histories) -> Iterator[pl.DataFrame]:
    """Inputs from accounting and the ledger, by the time in which they count."""
    cluster = window.cluster
    yield _ledger_days(source, cluster)
    attempts = source.query("attempts", cluster=cluster).select(*frames.ATTEMPT_KEY, "started_at", "ended_at")
    joined = source.query("run_attempts", cluster=cluster).select(*frames.ATTEMPT_KEY, "run_id")
    yield _lasting(inner_join(attempts, joined, on=frames.ATTEMPT_KEY))
    times = run_times(source, cluster)
    executed = ("run_id", "joined_by", "state", "started_at", "ended_at", "milli_gpus")
    yield _lasting(times.executed.select(executed))
    yield _lasting(times.waits.drop("attempt_no"))
    yield _runs(source, window)
    yield _lasting(past.ran.drop("execution", "state", "user", "partition", strict=False))
    yield _at("ended_at", _ended(past))
    yield _at("ended_at", priced_interruptions(source, window))
    faults = failed(source, window)
    yield _at("ended_at", faults.unblamed)
    yield _lasting(faults.states).with_columns(pl.col("end") + pl.duration(seconds=MERGE_S))
    yield _at("interrupted_at", every_restart(source, window))


def _lasting(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that count from `started_at` to `ended_at`."""
    return rows.with_columns(begin="started_at", end="ended_at")


def _at(moment: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that count at the end of an attempt, which is of the window that it ran in before."""
    just_before = pl.col(moment) - pl.duration(microseconds=1)
    return rows.with_columns(begin=just_before, end=just_before)


def _ledger_days(source: RowSource, cluster: str) -> pl.DataFrame:
    """The days of the ledger: what their rows were computed from."""
    days = source.query("ledger_days", cluster=cluster).select("day", "inputs")
    begin = pl.col("day").cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    return days.with_columns(begin=begin, end=begin + pl.duration(microseconds=DAY_US - 1))


def _runs(source: RowSource, window: Window) -> pl.DataFrame:
    """Runs: their names and sizes, whether they ever started, and whether they never train."""
    return source.query("run_sizes", cluster=window.cluster).select(
        "run_id",
        "n_gpus",
        other=pl.col("run_id").is_in(other_runs(source, window.cluster)["run_id"].implode()),
        started=pl.col("started_at").is_not_null(),
        begin=pl.min_horizontal("started_at", pl.coalesce("eligible_at", "first_submitted_at")),
        end="ended_at",
    )


def _ended(past: Histories) -> pl.DataFrame:
    """Interruptions that rates count, each with its execution and with the others of its incident."""
    ran = past.ran.select("execution", "started_at", "suspended_s", over="ended_at")
    rows = past.ended.join(ran, on="execution", how="left")
    own = rows.drop("execution", "once").hash_rows(seed=0)
    together = pl.DataFrame({"once": rows["once"], "digest": own}).with_columns(pl.col("digest").sum().over("once"))
    return rows.drop("execution", "once").with_columns(incident=together["digest"])


def _of_logs(source: RowSource, cluster: str) -> Iterator[pl.DataFrame]:
    """Inputs from run logs. A session's earlier steps count in each later window, too."""
    logs, executed = computed_logs(source, cluster)
    ever = pl.lit(None, dtype=frames.TIME).alias("end")
    yield executed.drop(_OF_SESSIONS, strict=False).with_columns(ever, begin="ts")
    yield logs.events.drop("session", strict=False).with_columns(ever, begin="ts")
    several = pl.col("stream").n_unique().over(list(frames.ATTEMPT_KEY)).alias("n_streams")
    yield (
        logs.sessions.with_columns(several)
        .drop("session", "ended_at", "read_at")
        .with_columns(ever, begin="started_at")
    )


def _logs_within(source: RowSource, window: Window) -> Iterator[pl.DataFrame]:
    """Up to where logs and their runs reach in a window: a log that grows after it changes nothing in it."""
    sessions = computed_logs(source, window.cluster)[0].sessions
    high = frames.instant(window.until)
    begun = sessions.filter(pl.col("started_at") < high)
    last, read, over = (pl.when(pl.col(name).is_not_null()).then(pl.min_horizontal(name, high)).alias(name)
                        for name in ("ended_at", "read_at", "ended_at"))  # fmt: skip
    yield begun.select("run", "stream", "started_at", last, read)
    if begun.is_empty():
        return
    runs = source.query("runs", cluster=window.cluster, since=window.since, until=window.until)
    finished = (pl.col("state") == "COMPLETED") & (pl.col("ended_at") <= high)
    yield runs.filter(pl.col("run_id").is_in(begun["run"].to_list())).select(
        "run_id", over, finished=finished.fill_null(value=False)
    )


def _read_for(source: RowSource, window: Window) -> Iterator[pl.DataFrame]:
    """Inputs that are read for each window by itself: signals of nodes, in the part of it that nodes are judged by."""
    part = judged(window)
    period = {"cluster": window.cluster, "since": part.since, "until": part.until}
    yield source.query("node_critical_kinds", **period)
    yield source.query("exclusions", **period)
