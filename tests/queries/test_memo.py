"""A value is made once, threads wait only for the value that they need, and what fails is not kept."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import polars as pl
import pytest

from queries.memo import Memo


def test_memo_makes_a_value_once() -> None:
    memo = Memo()
    made: list[str] = []
    barrier = threading.Barrier(4)

    def make() -> int:
        made.append("a")
        return len(made)

    def need() -> int:
        barrier.wait()
        return memo.get("a", make)

    with ThreadPoolExecutor(4) as threads:
        values = [each.result() for each in [threads.submit(need) for _ in range(4)]]
    assert values == [1, 1, 1, 1]
    assert made == ["a"]


def test_memo_of_one_key_does_not_wait_for_another() -> None:
    memo = Memo()
    started, release = threading.Event(), threading.Event()

    def slow() -> str:
        started.set()
        assert release.wait(60)
        return "slow"

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(memo.get, "slow", slow)
        assert started.wait(60)
        assert memo.get("quick", lambda: "quick") == "quick"
        release.set()
        assert waiting.result() == "slow"


def test_memo_keeps_no_failure() -> None:
    memo = Memo()
    with pytest.raises(ZeroDivisionError):
        memo.get("a", lambda: 1 // 0)
    assert memo.get("a", lambda: 2) == 2


def test_memo_forgets_the_least_recently_used() -> None:
    memo = Memo(size=2)
    for key in ("a", "b", "a", "c"):
        memo.get(key, key.upper)
    assert len(memo) == 2
    assert memo.get("a", lambda: "again") == "A"
    assert memo.get("b", lambda: "again") == "again"


def test_memo_makes_room_for_frames_by_their_bytes() -> None:
    frame = pl.DataFrame({"a": range(1000)})  # 8,000 bytes
    memo = Memo(most_bytes=17_000)
    for key in ("a", "b", "small", "c"):
        memo.get(key, lambda: "text") if key == "small" else memo.get(key, lambda: (frame, frame.clear()))
    assert len(memo) == 3, "the oldest frame made room for the newest, and a text needs none"
    assert memo.get("large", lambda: pl.concat([frame] * 3)).height == 3000
    assert memo.get("large", lambda: "not kept") == "not kept"
    assert memo.get("c", lambda: "again") != "again", "what is not kept needs no room"


@dataclass(frozen=True)
class Frames:
    one: pl.DataFrame
    other: pl.DataFrame


def test_memo_counts_the_frames_of_a_dataclass() -> None:
    frame = pl.DataFrame({"a": range(1000)})  # 8,000 bytes
    memo = Memo(most_bytes=17_000)
    for key in ("a", "b"):
        memo.get(key, lambda: Frames(frame, frame))
    assert len(memo) == 1
