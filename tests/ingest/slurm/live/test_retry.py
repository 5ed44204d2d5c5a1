"""Services of Slurm that do not answer: what is said, and how long anybody waits."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from ingest.errors import SourceDownError
from ingest.slurm.commands.runner import Fetched
from ingest.slurm.live.retry import Retrier
from ingest.slurm.settings import Slurm

if TYPE_CHECKING:
    from collections.abc import Callable

STDERR = "slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)"


@dataclass
class Waited:
    """A retrier whose clock goes on by what it sleeps, and by what each request takes."""

    takes_s: float = 0.0
    seconds: float = 0.0
    tries: int = 0
    notes: list[str] = field(default_factory=list)

    def retrier(self, settings: Slurm) -> Retrier:
        return Retrier(settings, self.sleep, notify=self.notes.append, clock=lambda: self.seconds)

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def failing(self) -> Fetched:
        self.tries += 1
        self.seconds += self.takes_s
        raise SourceDownError(["scontrol", "show", "config"], 1, STDERR)


def down(retrier: Retrier, fetch: Callable[[], Fetched], *, required: bool = True) -> str:
    """The message of a request to slurmctld that fails."""
    with pytest.raises(SourceDownError) as raised:
        retrier.request(fetch, "slurmctld", required=required)
    return str(raised.value)


def test_a_command_that_waits_itself_is_tried_less_often() -> None:
    fast, slow = Waited(), Waited(takes_s=9.0)
    down(fast.retrier(Slurm()), fast.failing)
    down(slow.retrier(Slurm()), slow.failing)
    assert (fast.tries, slow.tries) == (4, 2)
    assert 18 < slow.seconds < 22


def test_the_first_failure_is_reported_at_once_with_its_cause() -> None:
    waited = Waited(takes_s=9.0)
    down(waited.retrier(Slurm()), waited.failing)
    first, last = waited.notes
    assert first == f"slurmctld does not answer ({STDERR}): trying again for up to 5 s"
    assert re.match(r"slurmctld did not answer for (18|19|2[0-2]) s", last), "two tries of 9 s, and a pause by chance"


def test_nothing_optional_is_sent_to_a_service_given_up() -> None:
    waited = Waited()
    retrier = waited.retrier(Slurm())
    down(retrier, waited.failing)
    tries = waited.tries
    assert STDERR in down(retrier, waited.failing, required=False)
    assert waited.tries == tries
    down(retrier, waited.failing)
    assert (waited.tries, len(waited.notes)) == (tries + 1, 2)


def test_a_service_that_answers_again_gets_every_request() -> None:
    waited = Waited()
    retrier = waited.retrier(Slurm())
    down(retrier, waited.failing)
    answer = Fetched(b"", "scontrol show node")
    assert retrier.request(lambda: answer, "slurmctld") is answer
    assert retrier.request(lambda: answer, "slurmctld", required=False) is answer


def test_without_retries_nothing_is_waited_for_or_reported() -> None:
    waited = Waited()
    down(waited.retrier(Slurm(retries=0)), waited.failing)
    assert (waited.tries, waited.seconds, waited.notes) == (1, 0.0, [])
