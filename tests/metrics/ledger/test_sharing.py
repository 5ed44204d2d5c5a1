"""Whole nodes of one attempt alone: cases by hand, a slow twin, and the same rule in `metrics.telemetry.ownership`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.ledger.sharing import with_whole
from metrics.telemetry.occupancy import holders
from metrics.telemetry.ownership import WHOLE, ownership
from metrics.telemetry.sample_grid import series
from tests.metrics.tables import rows

DAY = datetime(2026, 3, 1, tzinfo=UTC)
TICK_H, TICKS = 6, 8
"""Two days of four ticks each."""


class Holder(NamedTuple):
    start: int
    end: int
    gpus: int = 4
    user: str = "al"


def at(tick: int) -> datetime:
    return DAY + timedelta(hours=TICK_H * tick)


def us(tick: int) -> int:
    return int(at(tick).timestamp()) * 1_000_000


def whole_ticks(actual: list[Holder], sampled: tuple[int, int], capacity: int = 4) -> set[tuple[int, int]]:
    """Ticks at which an attempt (by its number) has the node for itself; `sampled`: GPUs with samples on either day."""
    held = pl.DataFrame(
        [("c", "n", n, us(h.start), us(h.end), h.gpus * 1000, capacity * 1000) for n, h in enumerate(actual)],
        schema=["cluster", "node", "attempt", "started", "ended", "milli_gpus", "capacity"],
        orient="row",
    ).with_columns(begun="started", over="ended")
    samples = pl.DataFrame(
        [("c", "n", str(g), us(4 * day), us(4 * day + 4)) for day, n in enumerate(sampled) for g in range(n)],
        schema={"cluster": pl.String, "node": pl.String, "gpu": pl.String, "started": pl.Int64, "ended": pl.Int64},
        orient="row",
    )
    parts = with_whole(held, samples)
    together = parts.group_by("attempt").agg((pl.col("ended") - pl.col("started")).sum().alias("length"))
    assert dict(together.iter_rows()) == {n: us(h.end) - us(h.start) for n, h in enumerate(actual)}
    return ticks(parts.filter("whole").select("attempt", "started", "ended"), per_s=1_000_000)


def ticks(parts: pl.DataFrame, per_s: int) -> set[tuple[int, int]]:
    first = int(DAY.timestamp()) * per_s
    length = TICK_H * 3600 * per_s
    return {
        (attempt, tick)
        for attempt, began, ended in parts.iter_rows()
        for tick in range((began - first) // length, (ended - first) // length)
    }


def by_ownership(actual: list[Holder], sampled: tuple[int, int], capacity: int = 4) -> set[tuple[int, int]]:
    """The same of the kernel that attributes samples."""
    key = [{"cluster": "c", "scheduler": "s", "job_id": str(n), "submitted_at": DAY} for n in range(len(actual))]
    attempts = rows(
        frames.ATTEMPTS, *(own | {"user": h.user, "partition": "p"} for own, h in zip(key, actual, strict=True))
    )
    on_nodes = rows(
        frames.ATTEMPT_NODES,
        *(
            own | {"node": "n", "started_at": at(h.start), "ended_at": at(h.end), "milli_gpus": h.gpus * 1000,
                   "evidence": "accounting"}
            for own, h in zip(key, actual, strict=True)
        ),
    )  # fmt: skip
    there = rows(
        frames.INVENTORY,
        {"cluster": "c", "node": "n", "started_at": at(0), "ended_at": at(TICKS), "milli_gpus": capacity * 1000},
    )
    covered = rows(frames.COVERAGE, {"cluster": "c", "started_at": at(0), "ended_at": at(TICKS)})
    held = holders(on_nodes, attempts, there, covered)
    result: set[tuple[int, int]] = set()
    for day, n in enumerate(sampled):
        samples = pl.DataFrame({"node": ["n"] * n, "gpu": [str(g) for g in range(n)], "ts": [at(4 * day)] * n})
        low, high = (us(4 * (day + more)) // 1000 for more in (0, 1))
        owned = ownership(series(samples.cast({"ts": frames.TIME})), held, low, high).segments
        mine = owned.filter(pl.col("kind") == WHOLE, pl.col("owner") >= 0).select(
            "owner", pl.col("started").clip(low, high), pl.col("ended").clip(low, high)
        )
        result |= ticks(mine, per_s=1000)
    return result


def test_with_whole_of_one_attempt_alone() -> None:
    assert whole_ticks([Holder(1, 3)], (4, 4)) == {(0, 1), (0, 2)}
    assert whole_ticks([Holder(1, 3), Holder(3, 4)], (4, 4)) == {(0, 1), (0, 2), (1, 3)}
    assert whole_ticks([Holder(1, 3, gpus=3)], (4, 4)) == set()


def test_with_whole_while_another_attempt_is_present() -> None:
    # The inventory knows four GPUs, and both attempts say that they hold them all.
    assert whole_ticks([Holder(0, 6), Holder(2, 4)], (4, 4)) == {(0, 0), (0, 1), (0, 4), (0, 5)}


@pytest.mark.parametrize(("gpus", "expected"), [(4, {4, 5}), (8, {2, 3, 4, 5})])
def test_with_whole_where_telemetry_has_more_gpus_than_inventory(gpus: int, expected: set[int]) -> None:
    assert whole_ticks([Holder(2, 6, gpus)], (8, 4)) == {(0, tick) for tick in expected}


HOLDERS = st.builds(
    lambda start, length, gpus, user: Holder(start, min(start + length, TICKS), gpus, user),
    st.integers(0, TICKS - 1), st.integers(1, TICKS), st.integers(1, 6), st.sampled_from(["al", "bo"]),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(HOLDERS, min_size=1, max_size=4), st.tuples(st.integers(1, 6), st.integers(1, 6)))
def test_with_whole_agrees_with_a_slow_twin_and_the_kernel(actual: list[Holder], sampled: tuple[int, int]) -> None:
    expected = set()
    for tick in range(TICKS):
        there = [n for n, holder in enumerate(actual) if holder.start <= tick < holder.end]
        if len(there) == 1 and actual[there[0]].gpus >= max(4, sampled[tick // 4]):
            expected.add((there[0], tick))
    assert whole_ticks(actual, sampled) == expected
    assert by_ownership(actual, sampled) == expected
