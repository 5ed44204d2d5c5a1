"""Readers of pages: limited in number and time, and stopped by whoever asked."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from app.results.serving.cache import AnswerCache
from app.results.serving.pool import ReadPool
from queries.errors import StoppedError
from tests.lab.processes import wait_until
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queries.warehouse import Reader

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
