"""Working ahead in a second thread, and ending it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from ingest.ahead import one_ahead, started
from tests.lab.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_when_the_caller_stops_the_making_ends_and_lets_go_of_what_it_has() -> None:
    before, ended = threading.active_count(), threading.Event()

    def numbers() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            ended.set()

    for number in one_ahead(numbers()):
        if number == 2:
            break
    assert ended.wait(5)
    wait_until(lambda: threading.active_count() <= before, 5, "the thread to end")


def test_what_was_started_is_waited_for_and_what_went_wrong_is_raised() -> None:
    go = threading.Event()
    one = started(lambda: go.wait(5) and 1)
    other = started(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        other()
    go.set()
    assert one() == 1
