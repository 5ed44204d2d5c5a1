"""Requests to a running Slurm: one at a time, again after growing pauses, with a circuit breaker for each service."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ingest.errors import ServerDownError, SourceDownError, SourceError, shorten
from ingest.retry import RetryableError, RetryPolicy, retry
from ingest.slurm.commands.slurmrestd import TooLargeError, TooSlowError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.slurm.commands.runner import Completed, Fetched, Runner
    from ingest.slurm.live.questions import Service
    from ingest.slurm.settings import Slurm

LONGEST_WAIT_S: Final = 300.0
"""Longest pause between two tries."""

JITTER: Final = 0.3
"""Pauses vary by up to this share, so that clients refused together do not retry together."""

TIMEOUTS: Final = 2
"""So many requests in a row without an answer in time mean that the service hangs."""

_TOO_WIDE: Final = ("too wide of a date range", "exceeds size limit")
"""Messages of slurmdbd that refuse a request for its size (MaxQueryTimeRange, the largest answer)."""

CIRCUIT_OPEN: Final = "It does not respond: too many requests timed out, so no more are sent now; try again later."
"""The message for a request that was not sent."""

_FORBIDDEN: Final = ("permission denied", "access denied")
"""Messages of Slurm that refuse a request for missing permission."""


@dataclass
class Retrier:
    """Sends requests, and sends them again where that may help: a circuit breaker for each service of Slurm.

    A request is repeated for as long as the configured pauses come to, its own time included: a command of Slurm that
    cannot reach slurmctld tries for nine seconds by itself. A service that failed all tries is degraded: later required
    requests are sent once, without waiting, and others not at all, until one is answered. So a slurmdbd that is down is
    not queried again for each part. A service with too many timeouts has an open circuit and receives no more requests:
    each would take as long as the longest wait for an answer.

    Attributes:
        settings: number of tries, and the pauses between them.
        sleep: waits for a number of seconds; it may raise to stop.
        waiting: receives the reason for the wait, every second.
        notify: receives a line when a service does not answer, and when it is given up.
        clock: monotonic seconds.
    """

    settings: Slurm
    sleep: Callable[[float], None] = time.sleep
    waiting: Callable[[str], None] = lambda _: None
    notify: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    _degraded: dict[Service, SourceError] = field(default_factory=dict)
    _reported: set[Service] = field(default_factory=set)
    _timeouts: Counter[tuple[Service, bool]] = field(default_factory=Counter)

    def request(self, fetch: Callable[[], Fetched], service: Service, *, required: bool = True) -> Fetched:
        """The answer, after as many tries as configured; or after one where the answer is not `required`.

        Raises:
            SourceError: there is none, or another try would not help.
        """
        if self.circuit_is_open(service, required=required):
            raise SourceDownError([service], None, "", CIRCUIT_OPEN)
        if not required and service in self._degraded:
            raise self._degraded[service]
        began = self.clock()
        policy = self._policy if required and service not in self._degraded else RetryPolicy(0)
        try:
            fetched = retry(
                lambda: self._once(fetch, service, required=required),
                policy,
                sleep=lambda pause_s: self.wait(pause_s, f"retrying {service}"),
                give_up=lambda failure: self._time_is_up(service, began, failure.error),
            )
        except (SourceDownError, ServerDownError) as error:
            if refused(error):
                self._answered(service)
            elif required:
                self._give_up(service, error, self.clock() - began)
            raise
        self._answered(service)
        return fetched

    def _once(self, fetch: Callable[[], Fetched], service: Service, *, required: bool) -> Fetched:
        """One try; RetryableError where another one may help."""
        try:
            return fetch()
        except (SourceDownError, ServerDownError) as error:
            self._timeouts[service, required] += timed_out(error)
            if refused(error) or timed_out(error):
                raise
            raise RetryableError(error) from None

    def _time_is_up(self, service: Service, began: float, error: Exception) -> bool:
        """Whether a request took as long as all pauses would; else a service's first failure is reported at once."""
        left_s = sum(map(self._plain_policy.pause_after, range(self.settings.retries))) - (self.clock() - began)
        if left_s > 0 and service not in self._reported:
            self._reported.add(service)
            self.notify(f"{service} does not answer ({_reason(error)}): trying again for up to {left_s:.0f} s")
        return left_s <= 0

    def _give_up(self, service: Service, error: SourceError, seconds: float) -> None:
        """Send the service no more requests than necessary; those that are not sent fail for the same reason."""
        if service in self._reported and service not in self._degraded:
            self.notify(f"{service} did not answer for {seconds:.0f} s: the rest is read without it as far as possible")
        self._degraded[service] = error

    @property
    def _plain_policy(self) -> RetryPolicy:
        """As `_policy`, without random pauses."""
        return RetryPolicy(self.settings.retries, self.settings.retry_s, LONGEST_WAIT_S)

    @property
    def _policy(self) -> RetryPolicy:
        return RetryPolicy(self.settings.retries, self.settings.retry_s, LONGEST_WAIT_S, JITTER)

    def circuit_is_open(self, service: Service, *, required: bool = True) -> bool:
        """Whether a service timed out too often, and has not answered since.

        Timeouts of optional requests do not stop required ones: an optional request may be slow on its own.
        """
        return self._timeouts[service, True] + (0 if required else self._timeouts[service, False]) >= TIMEOUTS

    def wait_for_less(self, service: Service) -> None:
        """Wait before a smaller request is sent to a service that was too slow."""
        self.wait(self._policy.pause_after(self._timeouts[service, True]), f"a smaller request to {service}")

    def next_cluster(self) -> None:
        """Another cluster has another controller: its circuit is closed."""
        self._answered("slurmctld")

    def _answered(self, service: Service) -> None:
        self._degraded.pop(service, None)
        self._reported.discard(service)
        for required in (True, False):
            self._timeouts[service, required] = 0

    def wait(self, seconds: float, what: str) -> None:
        """Wait, a second at a time: `waiting` receives the reason, and may raise to stop."""
        while seconds > 0:
            self.waiting(f"{what} in {seconds:.0f} s")
            self.sleep(min(1.0, seconds))
            seconds -= 1.0


def _reason(error: Exception) -> str:
    """The last line of the command's or the server's message."""
    message = error.stderr if isinstance(error, SourceDownError) and error.stderr else str(error).partition("\n")[0]
    return shorten(message.strip().splitlines()[-1])


def timed_out(error: SourceError) -> bool:
    """Whether there was no answer in time: requesting less may help, a retry does not."""
    return isinstance(error, TooSlowError) or (isinstance(error, SourceDownError) and error.status is None)


def too_large(error: SourceError) -> bool:
    """Whether the service answered that the request was too large."""
    return isinstance(error, TooLargeError) or any(words in str(error).lower() for words in _TOO_WIDE)


def refused(error: SourceError) -> bool:
    """Whether the request itself was refused, not for the state of the service."""
    return too_large(error) or any(words in str(error).lower() for words in _FORBIDDEN)


def at_controller_of(runner: Runner, cluster: str) -> Runner:
    """A runner that queries the controller of that cluster (`-M`)."""

    def run(command: list[str], environment: Mapping[str, str]) -> Completed:
        return runner([command[0], "-M", cluster, *command[1:]], environment)

    return run
