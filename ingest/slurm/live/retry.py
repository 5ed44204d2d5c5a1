"""Asking a running Slurm gently: one question at a time, with pauses, and longer ones after each failure."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ingest.errors import ServerDownError, SourceDownError, SourceError
from ingest.slurm.commands.slurmrestd import TooLargeError, TooSlowError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.slurm.commands.runner import Completed, Fetched, Runner
    from ingest.slurm.live.questions import Service
    from ingest.slurm.settings import Slurm

LONGEST_WAIT_S: Final = 300.0
"""However often it failed."""

TIMEOUTS: Final = 2
"""So many questions in a row that nobody answered in time are no large questions, but a service that hangs."""

_TOO_WIDE: Final = ("too wide of a date range", "exceeds size limit")
"""How slurmdbd refuses a question for its size (MaxQueryTimeRange, the largest answer)."""

HANGS: Final = "It hangs: it let time run out too often, and is not asked any more now; try again later."
"""What is said of a question that was not even put."""

_FORBIDDEN: Final = ("permission denied", "access denied")
"""How Slurm says that somebody may not ask that."""


@dataclass
class Asker:
    """Asks, and asks again where that may help.

    A service that failed to the end is weary: every later question to it is put once, without waiting, until one is
    answered. So a slurmdbd that is down is not asked over and over by part after part. One that hangs is not asked at
    all any more: each question would take as long as the longest wait for an answer.
    """

    settings: Slurm
    sleep: Callable[[float], None] = time.sleep
    waiting: Callable[[str], None] = lambda _: None
    _weary: set[Service] = field(default_factory=set)
    _silent: Counter[tuple[Service, bool]] = field(default_factory=Counter)

    def ask(self, fetch: Callable[[], Fetched], service: Service, *, patient: bool = True) -> Fetched:
        """The answer, after as many tries as configured; or after one where somebody is not `patient`.

        Raises:
            SourceError: there is none, or asking again would not help.
        """
        if self.hangs(service, patient=patient):
            raise SourceDownError([service], None, "", HANGS)
        tries = self.settings.retries if patient and service not in self._weary else 0
        for tried in range(tries + 1):
            try:
                fetched = fetch()
            except (SourceDownError, ServerDownError) as error:
                self._silent[service, patient] += timed_out(error)
                if refused(error):
                    self._answered(service)
                if not patient or refused(error):
                    raise
                if tried == tries or timed_out(error):
                    self._weary.add(service)
                    raise
                self.wait(self._pause(tried), f"asking {service} again")
            else:
                self._answered(service)
                return fetched
        raise AssertionError  # the loop always returns or raises

    def hangs(self, service: Service, *, patient: bool = True) -> bool:
        """Whether it let time run out too often, and answered nothing since.

        What can be done without may be slow on its own: it keeps nothing from being asked that is needed.
        """
        return self._silent[service, True] + (0 if patient else self._silent[service, False]) >= TIMEOUTS

    def rest(self, service: Service) -> None:
        """Wait before a smaller question is put to a service that was too slow."""
        self.wait(self._pause(self._silent[service, True]), f"asking {service} for less")

    def another(self) -> None:
        """Another cluster: its controller is another one, too."""
        self._answered("slurmctld")

    def _answered(self, service: Service) -> None:
        self._weary.discard(service)
        for patient in (True, False):
            self._silent[service, patient] = 0

    def wait(self, seconds: float, what: str) -> None:
        """Wait, a second at a time: `waiting` is told, and may stop it by raising."""
        while seconds > 0:
            self.waiting(f"{what} in {seconds:.0f} s")
            self.sleep(min(1.0, seconds))
            seconds -= 1.0

    def _pause(self, tried: int) -> float:
        """Twice as long each time, and never the same for two who were turned away together."""
        return min(self.settings.retry_s * 2.0**tried * secrets.SystemRandom().uniform(0.7, 1.3), LONGEST_WAIT_S)


def timed_out(error: SourceError) -> bool:
    """Whether there was no answer in time: asking for less may help, asking again does not."""
    return isinstance(error, TooSlowError) or (isinstance(error, SourceDownError) and error.status is None)


def too_large(error: SourceError) -> bool:
    """Whether somebody answered that the question was too large."""
    return isinstance(error, TooLargeError) or any(words in str(error).lower() for words in _TOO_WIDE)


def refused(error: SourceError) -> bool:
    """Whether it was refused for what it is, not for the state that somebody is in."""
    return too_large(error) or any(words in str(error).lower() for words in _FORBIDDEN)


def at_controller_of(runner: Runner, cluster: str) -> Runner:
    """A runner that asks the controller of that cluster (`-M`)."""

    def run(command: list[str], environment: Mapping[str, str]) -> Completed:
        return runner([command[0], "-M", cluster, *command[1:]], environment)

    return run
