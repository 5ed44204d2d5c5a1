"""Requests that are sent again after growing pauses, where that may help: the one engine of all live sources.

Each source decides when to retry: its request raises `RetryableError` where another try may succeed. Circuit breakers
for several services wrap this engine: `ingest.slurm.live.retry`.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = TypeVar("Answer")


class RetryableError(Exception):
    """A request failed, and may succeed when it is sent again.

    Attributes:
        error: the error to raise where no try is left.
        pause_s: the pause that the service requests, in seconds.
    """

    def __init__(self, error: Exception, *, pause_s: float = 0.0) -> None:
        super().__init__(str(error))
        self.error = error
        self.pause_s = pause_s


@dataclass(frozen=True)
class RetryPolicy:
    """Number of retries, and the pauses between them.

    Attributes:
        retries: tries after the first one.
        pause_s: the first pause, in seconds; each is twice as long as the one before.
        longest_pause_s: longest pause, also where a service requests a longer one.
        jitter: the share by which pauses vary at random, so that clients that failed together do not retry together.
    """

    retries: int
    pause_s: float = 1.0
    longest_pause_s: float = 30.0
    jitter: float = 0.0

    def pause_after(self, failures: int, *, at_least_s: float = 0.0) -> float:
        """Seconds to wait after that many failures before the last one.

        >>> [RetryPolicy(3, longest_pause_s=3).pause_after(failures) for failures in range(3)]
        [1.0, 2.0, 3]
        """
        chance = secrets.SystemRandom().uniform(1 - self.jitter, 1 + self.jitter) if self.jitter else 1.0
        return min(max(self.pause_s * 2.0**failures * chance, at_least_s), self.longest_pause_s)


def retry(
    request: Callable[[], Answer],
    policy: RetryPolicy,
    *,
    sleep: Callable[[float], None],
    give_up: Callable[[RetryableError], bool] = lambda _: False,
) -> Answer:
    """The answer to a request, sent again by the policy.

    Args:
        request: sends it; RetryableError where another try may help.
        policy: number of retries, and the pauses between them.
        sleep: waits for a number of seconds; it may raise to stop.
        give_up: whether a failure is the last one, although tries are left.

    Raises:
        Exception: the `error` of the last RetryableError, or any other error of the request.
    """
    failures = 0
    while True:
        try:
            return request()
        except RetryableError as failure:
            if failures == policy.retries or give_up(failure):
                raise failure.error from None
            pause_s = policy.pause_after(failures, at_least_s=failure.pause_s)
        failures += 1
        sleep(pause_s)
