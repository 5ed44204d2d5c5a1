"""Fingerprints of the ledger's days: digests of everything that the rows of a day follow from.

A day whose fingerprint is the same need not be made again. Attempts go in as they were executed, not node by node:
which nodes they held is part of a digest that comes with each.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames
from metrics.intervals import split_days
from metrics.ledger.inputs import FAR, ROWS_AT_ONCE, clipped, days_of, suspended_within
from metrics.units import DAY_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VERSION: Final = "4"
"""Part of every fingerprint. To be raised whenever the same inputs come to mean other rows of the ledger."""

HELD: Final[frames.Schema] = {
    "digest": pl.UInt64(),
    "started_at": frames.TIME,
    "ended_at": frames.TIME,
    "suspended_s": frames.NUMBER,
    "n_nodes": frames.COUNT,
}
"""An attempt that held GPUs, or may have: `digest` of who it is, what it held on which nodes, by which evidence, and
whether it trains; when it held them (null: it still does), how long of that it was suspended, on how many nodes."""

_NODE: Final = ["cluster", "node"]
_KEY: Final = list(frames.ATTEMPT_KEY)
_US: Final = 1_000_000


def fingerprints(
    *,
    inventory: pl.DataFrame,
    held: pl.DataFrame,
    node_states: pl.DataFrame,
    states_known: pl.DataFrame,
    covered: pl.DataFrame,
    logged: pl.DataFrame | None = None,
    active: pl.DataFrame | None = None,
    straggling: pl.DataFrame | None = None,
    demand: Sequence[pl.DataFrame] = (),
    lasting: str = "",
) -> dict[int, str]:
    """For each day with capacity (days since 1970) its fingerprint, whatever the order of rows.

    Args:
        inventory: as `metrics.ledger.inputs.index_inputs`.
        held: `HELD`, of one cluster.
        node_states: as `index_inputs`.
        states_known: as `index_inputs`.
        covered: as `index_inputs`.
        logged: as `index_inputs`.
        active: as `index_inputs`.
        straggling: as `index_inputs`.
        demand: what demand is made of, with `started` and `ended`: `metrics.ledger.demand.Waiting.by_time`.
        lasting: what every day depends on in addition.
    """
    capacity = _timed(inventory, *_NODE, "milli_gpus", "evidence")
    first, last = days_of(capacity)
    parts = [
        capacity,
        held_times(held, covered),
        _timed(node_states.join(inventory.select(_NODE).unique(), on=_NODE, how="semi"), *_NODE, "state"),
        _timed(states_known, "cluster"),
        _timed(_some(logged, frames.LOGGED), *_KEY, "category", "cause", "milli_share"),
        _timed(_some(active, frames.ACTIVE), *_KEY, "node", "category", "cause", "milli_gpus"),
        _by_day_of_attempt(_some(straggling, frames.STRAGGLING)),
        *demand,
    ]
    sums = [_by_day(clipped(rows, first * DAY_US, last * DAY_US), seed) for seed, rows in enumerate(parts)]
    return {day: _digest([VERSION, lasting, *(f"{of_part.get(day, (0, 0))}" for of_part in sums)])
            for day in range(first, last) if day in sums[0]}  # fmt: skip


def held_times(held: pl.DataFrame, covered: pl.DataFrame) -> pl.DataFrame:
    """`HELD` in microseconds: `digest`, `started`, `ended` (with the data while it lasts), `suspended_from`."""
    end = covered.select(pl.col("ended_at").max().dt.epoch("us")).item()
    ended = pl.col("ended_at").dt.epoch("us").fill_null(end)
    length = (pl.col("suspended_s").fill_null(0) * _US).round().cast(pl.Int64)
    times = held.select(
        "digest", started=pl.col("started_at").dt.epoch("us"), ended=ended, suspended_from=ended - length
    )
    return suspended_within(times.filter(pl.col("started") < pl.col("ended")))


def _some(rows: pl.DataFrame | None, schema: frames.Schema) -> pl.DataFrame:
    return frames.empty(schema) if rows is None else frames.conform(rows, schema)


def _timed(rows: pl.DataFrame, *names: str) -> pl.DataFrame:
    """Columns of rows, with `started` and `ended` (far in the future while it lasts) in microseconds."""
    ended = pl.col("ended_at").dt.epoch("us").fill_null(FAR)
    return rows.select(*names, started=pl.col("started_at").dt.epoch("us"), ended=ended)


def _by_day_of_attempt(straggling: pl.DataFrame) -> pl.DataFrame:
    begin = pl.col("day").cast(pl.Int64) * DAY_US
    return straggling.select(*_KEY, "share", started=begin, ended=begin + DAY_US)


def _by_day(rows: pl.DataFrame, seed: int) -> dict[int, tuple[int, int]]:
    """For each day how many pieces are in it, and the sum of their digests."""
    counts, sums = Counter[int](), Counter[int]()
    for part in _parts(rows):
        cut = split_days(part.filter(pl.col("started") < pl.col("ended")))
        if "suspended_from" in cut.columns:
            cut = suspended_within(cut)
        digests = cut.select(sorted(cut.columns)).hash_rows(seed=seed)
        days = cut.select((pl.col("started") // DAY_US).alias("day"), digests.alias("digest"))
        for day, n, digest in days.group_by("day").agg(pl.len().alias("n"), pl.col("digest").sum()).iter_rows():
            counts[day] += n
            sums[day] = (sums[day] + digest) % 2**64
    return {day: (n, sums[day]) for day, n in counts.items()}


def _parts(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    return rows.iter_slices(ROWS_AT_ONCE) if rows.height else iter(())


def _digest(parts: Sequence[str]) -> str:
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
