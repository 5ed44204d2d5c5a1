"""Summaries of evictions against sums by hand."""

from __future__ import annotations

from statistics import median
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from metrics.restarts.evictions import eviction_summary

SCHEMA = {"queue": pl.String, "reason": pl.String, "gone_s": pl.Float64, "held_gpu_s": pl.Float64}
SECONDS = st.none() | st.integers(0, 10_000).map(float)
ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(["Preempted", "Deactivated"]), SECONDS, SECONDS)
)


def by_hand(rows: list[tuple[Any, ...]]) -> dict[str | None, tuple[Any, ...]]:
    result = {}
    for queue in {row[0] for row in rows}:
        own = [row for row in rows if row[0] == queue]
        gone = sorted(row[2] for row in own if row[2] is not None)
        held = [row[3] for row in own if row[3] is not None]
        slowest = gone[-1] if gone else None
        preempted = sum(row[1] == "Preempted" for row in own)
        half = median(gone) if gone else None
        result[queue] = (len(own), preempted, len(gone), half, slowest, len(held), sum(held) if held else None)
    return result


@given(ROWS, st.randoms())
def test_summary_of_evictions_is_the_one_by_hand(rows: list[tuple[Any, ...]], chance: Any) -> None:
    expected = by_hand(rows)
    chance.shuffle(rows)
    summary = eviction_summary(pl.DataFrame(rows, schema=SCHEMA, orient="row"), "queue")
    columns = ("n", "preempted", "n_gone", "gone_median_s", "gone_max_s", "n_held", "held_gpu_s")
    assert {row["queue"]: tuple(row[name] for name in columns) for row in summary.to_dicts()} == expected
    assert summary["n"].to_list() == sorted(summary["n"], reverse=True)
