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
    ToExpect,
    ettr_of_runs,
    ettr_run_rows,
    keep_ettr_run_rows,
    logged_starts,
    run_times,
    saves_in,
    started_in,
)
from app.results.runs.job_goodput import job_accounts
from app.results.runs.run_results import OF_LOGS, OF_RUNS, rows_of_logs, rows_of_runs, stored_by_run
from app.results.windows import ledger_sums
from app.window import Window
from metrics import frames
from metrics.ettr.expected import starts
from metrics.units import DAY_US

if TYPE_CHECKING:
    from datetime import datetime

    import numpy.typing as npt

    from app.config.settings import Rules
    from app.results.runs.job_goodput import JobAccounts
    from app.window import Source
    from queries.warehouse import Writer

    _Moments = npt.NDArray[np.int64]
    _Digests = npt.NDArray[np.uint64]

_RUN: Final = ["cluster", "run_id"]
_FAR: Final = 2**62
"""Microseconds of an end that is not known yet."""


@dataclass(frozen=True)
class RunNumbers:
    """The numbers of the runs of a cluster.

    Attributes:
        by_run: as `app.results.ettr.ettr_run_rows` returns it, but for the runs' times.
        found: as `app.results.ettr.to_expect` returns it.
    """

    by_run: pl.DataFrame
    found: ToExpect


@dataclass(frozen=True)
class _ToWrite:
    """What the table of runs' numbers ought to hold, and what it holds.

    Attributes:
        rows: `app.results.runs.run_results.OF_RUNS` of all runs.
        made: which of them were made anew: `cluster`, `run_id`.
        stored: what was stored of the others, and of runs that are no more.
    """

    rows: pl.DataFrame
    made: pl.DataFrame
    stored: pl.DataFrame


def write_run_numbers(writer: Writer, source: Source, window: Window, rules: Rules, *, full: bool) -> RunNumbers:
    """Make the numbers of runs whose digests changed, and store them; read the others.

    The rows themselves are let go before windows are computed, which need as much memory.

    Args:
        writer: the warehouse; runs and the ledger of this computation are in it already.
        source: the same, with a cache.
        window: all of the cluster's data.
        rules: that the numbers depend on.
        full: make all of them. The result is the same.
    """
    numbers, to_write = _run_numbers(writer, source, window, rules, full=full)
    _write(writer, to_write, numbers.found, job_accounts(source, window), full=full)
    return numbers


def _run_numbers(
    writer: Writer, source: Source, window: Window, rules: Rules, *, full: bool
) -> tuple[RunNumbers, _ToWrite]:
    digests = run_digests(source, window, rules)
    stored = writer.matching("run_results", pl.DataFrame({"cluster": [window.cluster]}), keys=["cluster"])
    stored = stored.with_columns(milli_gpus=(pl.col("n_gpus") * 1000).cast(pl.Int64))
    kept = stored.clear() if full else stored.join(digests, on=[*_RUN, "inputs"], how="semi")
    made = digests.join(kept, on=_RUN, how="anti")
    whole = 2 * made.height > digests.height
    if whole:
        made, kept = digests, stored.clear()
    started, by_run = _of_all(source, window) if whole else _of_some(source, window, made)
    rows = pl.concat([kept.select(*OF_RUNS), rows_of_runs(made, by_run, started)])
    known = stored_by_run(rows)
    keep_ettr_run_rows(source, window, known)
    every = rows.filter(pl.col("n_starts").is_not_null()).select(*_RUN, "n_starts", "started_gpus")
    seen = every.join(logged_starts(source, window), on=_RUN, how="left")
    return RunNumbers(known, ToExpect(seen, saves_in(source, window))), _ToWrite(rows, made.select(_RUN), stored)


def _of_all(source: Source, window: Window) -> tuple[pl.DataFrame, pl.DataFrame]:
    executed = started_in(run_times(source, window.cluster).executed, window)
    return starts(executed), ettr_run_rows(source, window)


def _of_some(source: Source, window: Window, some: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
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


def run_digests(source: Source, window: Window, rules: Rules) -> pl.DataFrame:
    """What the numbers of each run depend on, but for its log: `cluster`, `run_id`, `inputs`."""
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
    sizes = source.query("run_sizes", cluster=window.cluster)
    of_sizes = sizes.select("run_id", size=sizes.hash_rows(seed=seed))
    found = pl.DataFrame({"run_id": ids.gather(first), "inputs": digest}).join(
        of_sizes, on="run_id", how="left", maintain_order="left"
    )
    own = found["inputs"].to_numpy() + found["size"].fill_null(0).to_numpy()
    return found.select("run_id", inputs=pl.Series(own, dtype=pl.UInt64)).select(
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


def _write(writer: Writer, numbers: _ToWrite, found: ToExpect, jobs: JobAccounts, *, full: bool) -> None:
    """Store the numbers of runs: the rows that were made anew, and those of runs whose logs tell something else."""
    logs = rows_of_logs(jobs, found.started, found.saves)
    before = numbers.stored.filter(pl.any_horizontal(pl.col(*_TOLD).is_not_null()) | pl.col("job_logged"))
    told = _changed(logs, before.select(logs.columns)).join(numbers.made, on=_RUN, how="anti")
    rows = numbers.rows.join(pl.concat([numbers.made, told]), on=_RUN, how="semi")
    unknown = logs.select(_RUN).join(numbers.rows, on=_RUN, how="anti")
    to_write = pl.concat([rows, frames.conform(unknown, OF_RUNS)]).join(logs, on=_RUN, how="left")
    known = pl.concat([numbers.rows.select(_RUN), unknown])
    gone = numbers.stored.select(_RUN).join(known, on=_RUN, how="anti")
    if full or numbers.made.height == numbers.rows.height:
        writer.delete("run_results", numbers.stored.select("cluster").unique())
    else:
        writer.delete("run_results", pl.concat([to_write.select(_RUN), gone]))
    writer.append(
        "run_results", with_gpus(to_write.with_columns(pl.col("job_logged").fill_null(value=False)), "n_gpus")
    )


_TOLD: Final = [name for name in OF_LOGS if name != "job_logged"]


def _changed(now: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Runs whose row differs, or is in one of the two only: `cluster`, `run_id`."""
    digests = [each.select(*_RUN, digest=each.hash_rows()) for each in (now, before)]
    return pl.concat([
        one.join(other, on=[*_RUN, "digest"], how="anti").select(_RUN) for one, other in (digests, digests[::-1])
    ]).unique()  # fmt: skip
