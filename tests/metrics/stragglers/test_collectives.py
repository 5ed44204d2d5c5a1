"""Who was last in a hang, from how far ranks came in the collectives of their groups."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from metrics import frames
from metrics.stragglers.collectives import DUMPS, HANGS, find_hangs
from metrics.stragglers.stalls import RANK_LINES, STEP_GAPS, stalls

BEGIN = datetime(2026, 10, 1, tzinfo=UTC)
SESSION = {"run_id": "r", "session": "7.0", "job_id": "7"}


def row(rank: int, measure: str, value: float, *, minutes: float = 0) -> dict[str, Any]:
    at = BEGIN + timedelta(minutes=minutes)
    return {**SESSION, "reported_at": at, "measure": measure, "rank": rank, "node": f"n{rank // 2}", "value": value}


def group(name: str, entered: dict[int, int], waits: tuple[int, ...], size: int, **more: float) -> list[dict[str, Any]]:
    rows = [row(rank, f"entered|{name}", last, **more) for rank, last in entered.items()]
    rows += [row(rank, f"size|{name}", size, **more) for rank in entered]
    return rows + [row(rank, f"waits|all_reduce|{name}", entered[rank], **more) for rank in waits]


def found(*rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    every = pl.DataFrame([one for part in rows for one in part], schema=DUMPS)
    answer = find_hangs(every)
    shuffled = every.sample(fraction=1, shuffle=True, seed=3)
    assert find_hangs(shuffled).equals(answer)
    return answer.to_dicts()


def test_rank_behind_that_waits_nowhere_is_last() -> None:
    """Rank 3 is late to both groups; rank 2 is behind in its second group since it waits for 3 in the first."""
    first = group("tp", {2: 9, 3: 8}, (2,), 2)
    second = group("dp", {0: 5, 1: 5, 2: 4, 3: 4}, (0, 1), 4)
    (hang,) = found(first, second)
    assert (hang["last_rank"], hang["last_node"], hang["n_last"], hang["waiting"]) == (3, "n1", 1, 3)
    assert "rank 3 on n1 entered no collective after 4 of dp, where others wait in all_reduce 5" in hang["reason"]


def test_several_last_ranks_are_counted() -> None:
    (hang,) = found(group("dp", {0: 5, 1: 5, 2: 4, 3: 2}, (0, 1), 4))
    assert (hang["last_rank"], hang["n_last"]) == (3, 2)
    assert "(and 1 more)" in hang["reason"]


def test_absent_dumps_leave_the_last_rank_open() -> None:
    (hang,) = found(group("dp", {0: 5, 1: 5, 2: 5}, (0, 1, 2), 4))
    assert (hang["last_rank"], hang["absent"]) == (None, 1)
    assert "ranks without a dump: 1" in hang["reason"]


def test_all_in_the_collective_is_the_network() -> None:
    (hang,) = found(group("dp", {0: 5, 1: 5}, (0, 1), 2))
    assert (hang["last_rank"], hang["absent"]) == (None, 0)
    assert "the network under it" in hang["reason"]


def test_ranks_in_another_order_wait_for_each_other() -> None:
    (hang,) = found(group("a", {0: 5, 1: 4}, (0,), 2), group("b", {0: 1, 1: 2}, (1,), 2))
    assert hang["last_rank"] is None
    assert "another order" in hang["reason"]


def test_no_rank_in_a_collective_is_said() -> None:
    (hang,) = found(group("dp", {0: 5, 1: 5}, (), 2))
    assert "no rank waits in a collective" in hang["reason"]


def test_later_dumps_are_another_hang() -> None:
    early, late = group("dp", {0: 5, 1: 4}, (0,), 2), group("dp", {0: 8, 1: 9}, (1,), 2, minutes=120)
    again = group("dp", {0: 5, 1: 4}, (0,), 2, minutes=1)
    assert [hang["last_rank"] for hang in found(early, again, late)] == [1, 0]


def test_dumps_explain_a_stall_of_their_time_only() -> None:
    gap = {**dict.fromkeys(STEP_GAPS), "cluster": "c", "run_id": "r", "job_id": "7", "step": 5, "usual_s": 10.0}
    gaps = pl.DataFrame(
        [
            {**gap, "began_at": BEGIN + timedelta(minutes=at), "resumed_at": BEGIN + timedelta(minutes=at + 30)}
            for at in (-1, 300)
        ],
        schema=STEP_GAPS,
    )
    dumps = find_hangs(pl.DataFrame(group("dp", {0: 5, 1: 4}, (0,), 2), schema=DUMPS))
    events, lines = frames.empty(frames.RUN_EVENTS), frames.empty(RANK_LINES)
    rows = stalls(gaps, events, lines, dumps).sort("began_at").to_dicts()
    assert [(one["kind"], one["last_rank"]) for one in rows] == [("collective", 1), ("unknown", None)]
    other = dumps.with_columns(job_id=pl.lit("8"))
    assert set(stalls(gaps, events, lines, other)["kind"]) == {"unknown"}


def test_no_dumps_are_no_hangs() -> None:
    assert find_hangs(frames.empty(DUMPS)).equals(frames.empty(HANGS))
