"""A scenario on a lab of its own, played once more on a new one when the machine was too busy for it."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tests.lab.cluster import SlurmLab, missing
from tests.lab.needed import need
from tests.lab.processes import LabError

logger = logging.getLogger(__name__)
S = TypeVar("S")


@contextmanager
def played(play: Callable[[SlurmLab], S]) -> Iterator[S]:
    """What `play` returns, with its lab up until the end of the block.

    Where it raises LabError, the cluster did not come to the state that the scenario needs: that says nothing about
    Trackside, and the scenario is played a second time, with a warning. What fails twice fails. Any other error, such
    as a failed assertion, is raised at once.
    """
    need("Slurm lab", missing())
    with SlurmLab() as lab:
        try:
            scenario = play(lab)
        except LabError as error:
            logger.warning("played a second time on a new lab: %s", error)
        else:
            yield scenario
            return
    with SlurmLab() as lab:
        yield play(lab)
