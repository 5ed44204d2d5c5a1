"""Inputs of the ledger in numbers: microseconds, lanes for nodes, places in a list for attempts.

The ledger is local in time: the rows of a day follow from the inputs of that day. So it is made a few
days at a time (memory is that of a few days), and a day whose inputs are the same need not be made again. What is not
local by itself is placed first: running attempts end with the data, suspended time is put at the end of its attempt.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames
from metrics.ledger.capacity import allocated_intervals, unknown_intervals
from metrics.units import DAY_US

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS_AT_ONCE: Final = 1_000_000
"""About so many attempts on nodes are worked on at a time."""

FAR: Final = 2**62
"""Microseconds of an end that is not known yet."""

_US = 1_000_000
_KEY = list(frames.ATTEMPT_KEY)
_SPAN = (pl.col("started_at").dt.epoch("us").alias("started"), pl.col("ended_at").dt.epoch("us").alias("ended"))


@dataclass(frozen=True)
class Inputs:
    """Inputs of the ledger; all but the first two have `started` and `ended`, whole microseconds.

    Attributes:
        lanes: `cluster`, `node`, sorted; a node's number (`lane`) is its place.
        attempts: attempt key; an attempt's number (`attempt`) is its place. One may have several places.
        capacity: `lane`, `capacity` (thousandths of GPUs), `guessed` (0 or 1).
        held: `lane`, `attempt`, `milli_gpus`, `guessed`, `suspended_from` (microseconds; the end where it never was).
        unclear: `lane`: when an attempt ran whose GPUs are unknown. Several at once make several rows.
        states: `lane`, `state`.
        known: `cluster`: when the states of its nodes are known.
        demand: `lane`, `cause`.
        logged: `attempt`, `category`, `cause`, `milli_share`.
        active: `attempt`, `lane`, `category`, `cause`, `milli_gpus`.
        other: `attempt`, `kind`: attempts that do not train; no times.
        straggling: `attempt`, `share`; a day each.
    """

    lanes: pl.DataFrame
    attempts: pl.DataFrame
    capacity: pl.DataFrame
    held: pl.DataFrame
    unclear: pl.DataFrame
    states: pl.DataFrame
    known: pl.DataFrame
    demand: pl.DataFrame
    logged: pl.DataFrame
    active: pl.DataFrame
    other: pl.DataFrame
    straggling: pl.DataFrame

    def days(self) -> tuple[int, int]:
        """First day of which there is capacity, and the one after the last; days since 1970. Equal if there is none."""
        return days_of(self.capacity)

    def spans(self) -> Iterator[tuple[int, int]]:
        """Days (from, to) to be worked on at a time."""
        return spans(*self.days(), self.held.height)

    def within(self, first: int, last: int) -> Inputs:
        """The inputs of the days from `first` to before `last`."""
        low, high = first * DAY_US, last * DAY_US
        parts = {
            each.name: clipped(getattr(self, each.name), low, high)
            for each in fields(self)
            if each.name not in {"lanes", "attempts", "other"}
        }
        return replace(self, **parts)

    def with_demand(self, demand: pl.DataFrame) -> Inputs:
        """With other demand: `frames.DEMAND`."""
        numbers = self.lanes.with_row_index("lane")
        placed = frames.conform(demand, frames.DEMAND).join(numbers, on=["cluster", "node"])
        return replace(self, demand=placed.select("lane", *_SPAN, "cause"))


def days_of(capacity: pl.DataFrame) -> tuple[int, int]:
    """First day of which there is capacity, and the one after the last; days since 1970. Equal if there is none."""
    if capacity.is_empty():
        return 0, 0
    first, last = capacity.select(pl.col("started").min(), pl.col("ended").max()).row(0)
    return first // DAY_US, (last - 1) // DAY_US + 1


def days_in_inventory(inventory: pl.DataFrame) -> tuple[int, int]:
    """`days_of` the capacity of an inventory: `frames.INVENTORY`."""
    return days_of(inventory.select(*_SPAN))


def spans(first: int, last: int, rows: int) -> Iterator[tuple[int, int]]:
    """Days (from, to) to be worked on at a time, of so many attempts on nodes from one day to before another."""
    size = max(1, (last - first) * ROWS_AT_ONCE // max(1, rows))
    for low in range(first, last, size):
        yield low, min(low + size, last)


def clipped(rows: pl.DataFrame, low: int, high: int) -> pl.DataFrame:
    """Rows with `started` and `ended` between two moments, cut there; all in microseconds."""
    if rows.is_empty():
        return rows
    cut = rows.filter((pl.col("started") < high) & (pl.col("ended") > low)).with_columns(
        pl.max_horizontal("started", pl.lit(low)).alias("started"),
        pl.min_horizontal("ended", pl.lit(high)).alias("ended"),
    )
    return suspended_within(cut) if "suspended_from" in rows.columns else cut


def suspended_within(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows whose `suspended_from` lies within them."""
    return rows.with_columns(suspended_from=pl.col("suspended_from").clip("started", "ended"))


def index_inputs(
    *,
    inventory: pl.DataFrame,
    attempt_nodes: pl.DataFrame,
    node_states: pl.DataFrame,
    demand: pl.DataFrame,
    states_known: pl.DataFrame,
    covered: pl.DataFrame,
    logged: pl.DataFrame | None = None,
    active: pl.DataFrame | None = None,
    other_work: pl.DataFrame | None = None,
    straggling: pl.DataFrame | None = None,
) -> Inputs:
    """Inputs of the ledger in numbers.

    Args:
        inventory: `frames.INVENTORY`, what the ledger adds up to.
        attempt_nodes: `frames.ATTEMPT_NODES`; null `ended_at` means it still runs, null `milli_gpus` that its GPUs are
            unknown.
        node_states: `frames.NODE_STATES`; null `ended_at` means it still lasts. Apply `with_silence` first.
        demand: `frames.DEMAND`: times at which eligible work waited that could run there.
        states_known: `frames.COVERAGE` of node events; outside it a node without allocation is `unknown`.
        covered: `frames.COVERAGE` of accounting.
        logged: `frames.LOGGED`, evidence of run logs; it takes precedence over telemetry.
        active: `frames.ACTIVE`, evidence of telemetry for attempts on nodes.
        other_work: as `metrics.ledger.ledger.other_work` returns it: attempts that do not train. What they did with
            their GPUs is `other_work`, but GPUs that they left idle, lost to a dead node or had suspended stay
            `stalled`.
        straggling: `frames.STRAGGLING`, the overlay.
    """
    lanes = inventory.select("cluster", "node").unique().sort("cluster", "node")
    numbers = lanes.with_row_index("lane")
    held, attempts = _held(allocated_intervals(attempt_nodes, covered), numbers)
    keyed = attempts.with_row_index("attempt")

    def of_attempts(rows: pl.DataFrame | None, schema: frames.Schema) -> pl.DataFrame:
        return (frames.empty(schema) if rows is None else frames.conform(rows, schema)).join(keyed, on=_KEY)

    def in_lanes(rows: pl.DataFrame) -> pl.DataFrame:
        return (
            rows.join(numbers, on=["cluster", "node"]).with_columns(*_SPAN).with_columns(pl.col("ended").fill_null(FAR))
        )

    span = ("started", "ended")
    assumed = (pl.col("evidence") == "assumed").fill_null(value=False).cast(pl.Int64).alias("guessed")
    by_day = of_attempts(straggling, frames.STRAGGLING).with_columns(started=pl.col("day").cast(pl.Int64) * DAY_US)
    return Inputs(
        lanes,
        attempts,
        in_lanes(inventory).select("lane", *span, pl.col("milli_gpus").alias("capacity"), assumed),
        held,
        _unclear(attempt_nodes, covered, numbers),
        in_lanes(node_states).select("lane", *span, "state"),
        states_known.select("cluster", *_SPAN),
        in_lanes(frames.conform(demand, frames.DEMAND)).select("lane", *span, "cause"),
        of_attempts(logged, frames.LOGGED).select("attempt", *_SPAN, "category", "cause", "milli_share"),
        in_lanes(of_attempts(active, frames.ACTIVE)).select(
            "attempt", "lane", *span, "category", "cause", "milli_gpus"
        ),
        of_attempts(other_work, _OTHER).select("attempt", "kind"),
        by_day.select("attempt", "started", (pl.col("started") + DAY_US).alias("ended"), "share"),
    )


_OTHER: frames.Schema = {name: frames.ATTEMPTS[name] for name in _KEY} | {"kind": frames.TEXT}


def _held(allocated: pl.DataFrame, numbers: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`Inputs.held` and `Inputs.attempts`: adjacent rows of one attempt make one place in the list."""
    fresh = allocated.select(
        pl.any_horizontal(
            pl.int_range(pl.len()) == 0, *(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in _KEY)
        )
    ).to_series()
    lane = allocated.select("cluster", "node").join(numbers, on=["cluster", "node"], how="left", maintain_order="left")
    length = (pl.col("suspended_s").fill_null(0) * _US).round().cast(pl.Int64)
    held = allocated.select(
        lane["lane"],
        (fresh.cast(pl.UInt32).cum_sum() - 1).alias("attempt"),
        "started",
        "ended",
        "milli_gpus",
        (pl.col("evidence") == "assumed").fill_null(value=False).cast(pl.Int64).alias("guessed"),
        # Accounting reports how long an attempt was suspended, not when: it is put at the end.
        (pl.col("ended") - length).alias("suspended_from"),
    ).filter(pl.col("lane").is_not_null() & (pl.col("started") < pl.col("ended")))
    return suspended_within(held), allocated.filter(fresh).select(_KEY)


def _unclear(attempt_nodes: pl.DataFrame, covered: pl.DataFrame, numbers: pl.DataFrame) -> pl.DataFrame:
    """`Inputs.unclear`."""
    unknown = unknown_intervals(attempt_nodes, covered).join(numbers, on=["cluster", "node"])
    return unknown.filter(pl.col("started") < pl.col("ended")).select("lane", "started", "ended")


def day_of(number: int) -> datetime:
    """The beginning of a day that is so many days after 1970 began."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=number)
