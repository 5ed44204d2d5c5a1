"""The numbers of runs over all of a cluster's data: of those of which something changed; the others keep theirs.

A run's numbers depend on its attempts, on the days of the ledger that it was executed on, and, while it lasts, on the
end of the data. The digest of these is kept beside them, in the table `run_results`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from app.compute.inputs import with_gpus
from app.compute.unchanged import code_digest
from app.results.ettr import (
    RunTimes,
    ettr_of_runs,
    ettr_run_rows,
    keep_ettr_run_rows,
    logged_starts,
    run_times,
    saves_in,
    started_in,
)
from app.results.runs.job_goodput import job_accounts
from app.results.runs.run_results import (
    OF_RUNS,
    STARTS,
    SUMS_OF_RUNS,
    by_run_of,
    rows_of_logs,
    rows_of_runs,
    rows_of_sums,
)
from app.results.windows import ledger_sums
from app.window import Window
from metrics import frames
from metrics.ettr.expected import own_inputs_of, starts
from metrics.joins import anti_join, left_join, semi_join
from metrics.units import DAY_US

if TYPE_CHECKING:
    from datetime import datetime

    import numpy.typing as npt

    from app.config.settings import Rules
    from app.window import RowSource
    from queries.warehouse import Writer

    _Moments = npt.NDArray[np.int64]
    _Digests = npt.NDArray[np.uint64]

_RUN: Final = ["cluster", "run_id"]
_FAR: Final = 2**62
"""Microseconds of an end that is not known yet."""


@dataclass(frozen=True)
class _NumbersOfRuns:
    """Numbers of runs as they are now, except those from logs.

    Attributes:
        sums: `app.results.runs.run_results.SUMS_OF_RUNS`, in the order of runs.
        made: `app.results.runs.run_results.OF_RUNS` of those that were made anew.
        replaced: which were stored with other digests: `cluster`, `run_id`.
    """

    sums: pl.DataFrame
    made: pl.DataFrame
    replaced: pl.DataFrame


def write_run_numbers(writer: Writer, source: RowSource, window: Window, rules: Rules, *, full: bool) -> pl.DataFrame:
    """Make the numbers of runs whose digests changed, and store them; read the others.

    The rows themselves are let go before windows are computed, which need as much memory.

    Args:
        writer: the warehouse; runs and the ledger of this computation are in it already.
        source: the same, with a cache.
        window: all of the cluster's data.
        rules: that the numbers depend on.
        full: make all of them. The result is the same.

    Returns:
        As `metrics.ettr.expected.own_inputs` returns it. From now on `app.results.ettr.ettr_run_rows` has the runs'
        other numbers at hand.
    """
    numbers = _numbers(writer, source, window, rules, full=full)
    logged, saves = logged_starts(source, window), saves_in(source, window)
    known = by_run_of(numbers.sums)
    begun = logged
    if not logged.is_empty():
        begun = logged.join(numbers.sums.drop_nulls("n_starts"), on=_RUN, how="semi")
    keep_ettr_run_rows(source, window, known.drop(STARTS))
    _write(writer, numbers, rows_of_logs(job_accounts(source, window), begun, saves), window.cluster)
    return own_inputs_of(left_join(known, begun, on=_RUN), saves)


def _numbers(writer: Writer, source: RowSource, window: Window, rules: Rules, *, full: bool) -> _NumbersOfRuns:
    """Numbers of runs; what was read of all of them is let go with its end."""
    digests = run_digests(source, window, rules)
    read = frames.empty(SUMS_OF_RUNS) if full else writer.query("numbers_of_runs", cluster=window.cluster)
    stored = frames.conform(read, SUMS_OF_RUNS)
    # A digest is of the run's id, too: nothing else is compared.
    same = stored["inputs"].is_in(digests["inputs"].implode()).fill_null(value=False)
    made = digests.filter(~pl.col("inputs").is_in(stored["inputs"].filter(same).implode()))
    whole = full or 2 * made.height > digests.height
    if whole:
        made, same = digests, pl.zeros(stored.height, dtype=pl.Boolean, eager=True)
    started, by_run = _of_all(source, window) if whole else _of_some(source, window, made)
    fresh = rows_of_runs(made, by_run, started)
    return _NumbersOfRuns(_in_order(stored, same, fresh), fresh, stored.select(_RUN).filter(~same))


def _in_order(stored: pl.DataFrame, same: pl.Series, fresh: pl.DataFrame) -> pl.DataFrame:
    """Stored rows that are the `same` and `fresh` ones, in the order of runs: few of the stored ones are out of it."""
    both = pl.concat([stored, fresh.select(stored.columns)])
    counting = pl.concat([same, pl.ones(fresh.height, dtype=pl.Boolean, eager=True)]).arg_true()
    return both[counting.gather(both["run_id"].gather(counting).arg_sort())]


def _of_all(source: RowSource, window: Window) -> tuple[pl.DataFrame, pl.DataFrame]:
    executed = started_in(run_times(source, window.cluster).executed, window)
    return starts(executed), ettr_run_rows(source, window)


def _of_some(source: RowSource, window: Window, some: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Starts, and ETTR with its parts, of some runs. The ledger is read from their first start on."""
    known = run_times(source, window.cluster)
    executed, waits = (
        each.join(some, on=_RUN, how="semi", maintain_order="left") for each in (known.executed, known.waits)
    )
    of_some = RunTimes(executed, waits)
    first: datetime | None = executed.select(pl.col("started_at").dt.truncate("1d").min()).item()
    sums = frames.empty(frames.LEDGER_SUMS)
    if first is not None and first < window.until:
        since = max(first, window.since)
        of_time = ledger_sums(source, Window(window.cluster, since, window.until), "run")
        sums = of_time.join(some, left_on=["cluster", "subject"], right_on=_RUN, how="semi")
    sizes = source.query("run_sizes", cluster=window.cluster).with_columns(cluster=pl.lit(window.cluster))
    by_run = ettr_of_runs(of_some, sums, sizes.join(some, on=_RUN, how="semi"), window)
    return starts(started_in(executed, window)), by_run


def run_digests(source: RowSource, window: Window, rules: Rules) -> pl.DataFrame:
    """Digest of the inputs of each run's numbers, except its log: `cluster`, `run_id`, `inputs`; sorted by run.

    A run's size and times follow from its attempts.
    """
    executed = run_times(source, window.cluster).executed
    if executed.is_empty():
        return frames.empty({"cluster": frames.TEXT, "run_id": frames.TEXT, "inputs": pl.UInt64()})
    common = (code_digest(), rules.model_dump_json().encode(), window.cluster.encode())
    seed = int.from_bytes(hashlib.blake2b(b"\0".join(common), digest_size=7).digest(), "big")
    ids = executed["run_id"]
    first = np.flatnonzero((ids != ids.shift(1)).fill_null(value=True).to_numpy())
    digest = np.add.reduceat(executed.drop("cluster").hash_rows(seed=seed).to_numpy(), first)
    times = {name: executed[name].dt.epoch("us") for name in _TIMES}
    began = np.minimum.reduceat(times["started_at"].fill_null(_FAR).to_numpy(), first)
    low = np.minimum.reduceat(np.minimum.reduce([each.fill_null(_FAR).to_numpy() for each in times.values()]), first)
    high = np.maximum.reduceat(np.maximum.reduce([
        times["ended_at"].fill_null(_FAR).to_numpy(), *(each.fill_null(0).to_numpy() for each in times.values())
    ]), first)  # fmt: skip
    digest += _of_days(source.query("ledger_days", cluster=window.cluster), began, high, seed)
    ends = pl.Series([window.since, window.until], dtype=frames.TIME)
    since, until = ends.dt.epoch("us")
    of_window = pl.DataFrame([ends.alias("end")]).with_row_index().hash_rows(seed=seed).to_numpy().sum(dtype=np.uint64)
    digest += np.where((low < since) | (high > until), of_window, np.uint64(0))
    return pl.DataFrame({"run_id": ids.gather(first), "inputs": digest}).select(
        pl.lit(window.cluster).alias("cluster"), "run_id", "inputs"
    )


_TIMES: Final = ("submitted_at", "eligible_at", "started_at", "ended_at")


def _of_days(days: pl.DataFrame, began: _Moments, high: _Moments, seed: int) -> _Digests:
    """Sums of the digests of the days of the ledger from one moment to another, both in microseconds since 1970."""
    ordered = days.select("day", "inputs").sort("day")
    numbers = ordered["day"].to_physical().to_numpy().astype(np.int64)
    nothing = np.zeros(1, dtype=np.uint64)
    sums = np.concatenate([nothing, np.cumsum(ordered.hash_rows(seed=seed).to_numpy(), dtype=np.uint64)])
    since = np.searchsorted(numbers, began // DAY_US)
    until = np.searchsorted(numbers, high // DAY_US, side="right")
    return np.where(since < until, sums[until] - sums[since], np.uint64(0))


# What is stored ------------------------------------------------------------------------------------------------------


def _write(writer: Writer, numbers: _NumbersOfRuns, logs: pl.DataFrame, cluster: str) -> None:
    """Store the numbers of runs: the rows that were made anew, and those of runs whose logs have changed.

    Args:
        writer: the warehouse.
        numbers: of all runs.
        logs: `cluster`, `run_id` and `app.results.runs.run_results.OF_LOGS` of the runs that have a log.
        cluster: whose.
    """
    made = numbers.made
    before = frames.conform(writer.query("numbers_of_logs", cluster=cluster), logs.schema)
    of_changed = semi_join(numbers.sums, _changed(logs, before), on=_RUN)
    changed = rows_of_sums(anti_join(of_changed, made, on=_RUN))
    unknown = logs if logs.is_empty() else logs.join(numbers.sums.select(_RUN), on=_RUN, how="anti")
    rows = pl.concat([made, changed, frames.conform(unknown.select(_RUN), OF_RUNS)])
    to_write = left_join(rows, logs, on=_RUN)
    if numbers.sums.height == made.height:
        writer.delete("run_results", pl.DataFrame({"cluster": [cluster]}))
    else:  # what was replaced and is not written again is gone
        writer.delete("run_results", pl.concat([to_write.select(_RUN), numbers.replaced]).unique())
    writer.append(
        "run_results", with_gpus(to_write.with_columns(pl.col("job_logged").fill_null(value=False)), "n_gpus")
    )


def _changed(now: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Runs whose row differs, or is in one of the two only: `cluster`, `run_id`."""
    digests = [each.select(*_RUN, digest=each.hash_rows()) for each in (now, before)]
    return pl.concat([
        one.join(other, on=[*_RUN, "digest"], how="anti").select(_RUN) for one, other in (digests, digests[::-1])
    ]).unique()  # fmt: skip
