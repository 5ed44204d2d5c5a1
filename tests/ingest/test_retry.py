"""One retry engine: how often, after which pauses, and what is raised in the end."""

from __future__ import annotations

import pytest

from ingest.retry import RetryableError, RetryPolicy, retry


class Request:
    """Fails so many times, then answers; what it raises."""

    def __init__(self, failures: int, *, pause_s: float = 0.0) -> None:
        self.failures, self.pause_s, self.sent = failures, pause_s, 0

    def __call__(self) -> str:
        self.sent += 1
        if self.sent <= self.failures:
            raise RetryableError(OSError(f"failure {self.sent}"), pause_s=self.pause_s)
        return "answer"


def test_request_is_repeated_until_answered_with_doubled_pauses() -> None:
    request, waits = Request(3), list[float]()
    assert retry(request, RetryPolicy(5, pause_s=2.0), sleep=waits.append) == "answer"
    assert (request.sent, waits) == (4, [2.0, 4.0, 8.0])


def test_last_error_is_raised_where_no_try_is_left() -> None:
    request, waits = Request(9), list[float]()
    with pytest.raises(OSError, match="failure 3"):
        retry(request, RetryPolicy(2), sleep=waits.append)
    assert (request.sent, waits) == (3, [1.0, 2.0])


def test_requested_pause_counts_if_longer_and_is_bounded() -> None:
    waits: list[float] = []
    retry(Request(3, pause_s=3.0), RetryPolicy(3, longest_pause_s=3.5), sleep=waits.append)
    assert waits == [3.0, 3.0, 3.5]


def test_other_errors_are_raised_at_once() -> None:
    def broken() -> str:
        raise KeyError("x")

    with pytest.raises(KeyError):
        retry(broken, RetryPolicy(3), sleep=lambda _: pytest.fail("it waited"))


def test_give_up_ends_it_before_the_tries_do() -> None:
    request = Request(9)
    with pytest.raises(OSError, match="failure 2"):
        retry(request, RetryPolicy(5), sleep=lambda _: None, give_up=lambda failure: "2" in str(failure))
    assert request.sent == 2


def test_jitter_spreads_pauses_within_its_share() -> None:
    policy = RetryPolicy(1, pause_s=10.0, jitter=0.3)
    pauses = [policy.pause_after(0) for _ in range(200)]
    assert 7.0 <= min(pauses) < 9.0
    assert 11.0 < max(pauses) <= 13.0
