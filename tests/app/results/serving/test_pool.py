"""Readers of pages: limited in number and time, and stopped by whoever asked."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from app.results.serving import pool
from app.results.serving.cache import AnswerCache
from app.results.serving.pool import ReadPool
from queries.errors import StoppedError, WarehouseError
from queries.reader import Reader
from tests.lab.processes import wait_until
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


SLOW = "SELECT SUM(a.range * b.range) AS n FROM range(3000000) AS a, range(3000000) AS b"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_accounting(tmp_path_factory.mktemp("pool"), jobs=5)


def slow(reader: Reader, _: int = 0) -> int:
    return reader.frame(SLOW).height


def started(ask: Callable[[], object]) -> tuple[threading.Thread, list[Exception]]:
    raised: list[Exception] = []

    def run() -> None:
        try:
            ask()
        except StoppedError as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, raised


def test_a_slow_question_is_stopped_by_its_ticket(root: Path) -> None:
    answers = AnswerCache(root)

    def ask() -> None:
        with answers.pool.on_behalf("mine"):
            answers.ask(slow)

    thread, raised = started(ask)
    assert not answers.pool.stop("another's")
    assert thread.is_alive()
    wait_until(lambda: answers.pool.stop("mine"), 60, "the question to be asked")
    thread.join(60)
    assert [str(each) for each in raised] == ["This question was stopped."]
    assert not answers.pool.stop("mine")


@pytest.mark.slow
def test_a_question_that_takes_too_long_is_stopped(root: Path) -> None:
    answers = AnswerCache(root)
    answers.pool = ReadPool(root, longest_s=2)
    with answers.pool.on_behalf("mine"), pytest.raises(StoppedError, match="longer than 2 s"):
        answers.ask(slow)
    assert len(answers) == 1
    assert answers.ask(lambda reader: reader.data_version) > 0


def test_one_too_many_waits_and_monitoring_does_not(root: Path) -> None:
    answers = AnswerCache(root)
    answers.pool = ReadPool(root, at_once=1, longest_s=60)
    asked = threading.Event()

    def first(reader: Reader) -> int:
        asked.set()
        return slow(reader)

    def ask() -> None:
        with answers.pool.on_behalf("first"):
            answers.ask(first)

    thread, _ = started(ask)
    assert asked.wait(60)
    assert answers.ask(lambda reader: reader.data_version) > 0
    assert thread.is_alive()
    stopped = threading.Timer(0.5, answers.pool.stop, ["first"])
    stopped.start()
    with answers.pool.on_behalf("second"):
        assert answers.ask(lambda reader: reader.data_version + 1) > 1
    stopped.join()
    thread.join(60)
    assert not thread.is_alive()


def test_copy_is_held_open_for_a_moment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "HELD_S", 0.3)
    held: list[int] = []

    def hold(reader: Reader) -> Callable[[], None]:
        let_go, number = whole(reader), len(held)
        held.append(number)

        def noted() -> None:
            let_go()
            held[number] = -1

        return noted

    whole = Reader.held_open
    monkeypatch.setattr(Reader, "held_open", hold)
    answers = AnswerCache(root)
    assert answers.ask(one, 0) == answers.ask(one, 1) == 1
    assert held in ([-1, 1], [-1, -1]), "the one before goes at once"
    wait_until(lambda: held == [-1, -1], 10, "the last one to go")
    with pytest.raises(ZeroDivisionError):
        answers.ask(wrong)
    assert len(held) == 2, "what failed is not held"
    assert answers.ask(one, 2) == 1
    wait_until(lambda: held == [-1, -1, -1], 10, "one that begins anew to go")

    def gone(_: Reader) -> None:
        raise WarehouseError("its file is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Reader, "held_open", gone)
        assert answers.ask(one, 4) == 1
    monkeypatch.setattr(pool, "HELD_ON_END_S", 0.0)
    assert answers.ask(one, 3) == 1
    assert len(held) == 3, "not on end"


def one(reader: Reader, _: int) -> int:
    return reader.frame("SELECT 1").height


def wrong(_: Reader) -> float:
    return 1 / 0
