"""kill -9 of a committer at many moments: readers see a state before or after, and in the end all is there once.

A moment is a statement of SQL, before it or some milliseconds into it, or a change to a folder: no time is spent on
waiting for one. `TRACKSIDE_TEST_KILLS=all` takes all moments, `make test` every sixth, of all kinds.
"""

from __future__ import annotations

import itertools
import os
import random
from typing import TYPE_CHECKING

import pytest

from queries.lake.address import Address
from queries.warehouse import vacuum
from tests.queries.lake.support import (
    change,
    differences,
    files_without_need,
    into_lake,
    of_lake,
    of_source,
    samples,
)
from tests.support.killing import Kill, killer
from tests.support.warehouses import NOW, from_everything

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab.postgres import PostgresLab
    from tests.support.killing import Ended, Killer

ALL = os.environ.get("TRACKSIDE_TEST_KILLS") == "all"
MOMENTS = 24
"""Of each catalogue and kind of copy."""
FEW = 3
"""The moments of `make test`: each kind is among them."""
INTO_S = (0.0, 0.0005, 0.002, 0.01)
"""How long after a statement has begun, at random."""
KILLS_A_COMMIT = 3
"""Kills of a copy before one is run to its end."""


@pytest.fixture(scope="module")
def killing() -> Iterator[Killer]:
    with killer() as made:
        yield made


@pytest.fixture(scope="module")
def counts(killing: Killer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Ended]:
    """What a first and a later copy take: about the same in any catalogue."""
    folder = tmp_path_factory.mktemp("counted")
    source, lake = from_everything(folder / "made", gpus=16, days=3), Address("sqlite", str(folder / "counted"))
    counted = []
    for number in range(2):
        change(source, number)
        counted.append(copied(killing, folder, source, lake, Kill(of_statements=True)))
        assert counted[-1].statements > 40, said(folder)
    return counted[0], counted[1]


def copied(killing: Killer, folder: Path, source: Path, lake: Address, kill: Kill | None = None) -> Ended:
    """How a process ends that copies a warehouse into a lake."""
    return killing.run(
        folder, "warehouse", "copy", str(source), str(lake), "--data-path", f"files-{lake.kind}", "-q", kill=kill
    )


@pytest.fixture(params=["postgres", "sqlite", "duckdb"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Address:
    """A lake that there is not yet."""
    if request.param == "postgres":
        postgres: PostgresLab = request.getfixturevalue("postgres")
        return Address("postgres", postgres.new_database())
    return Address(request.param, str(tmp_path / "lake.catalogue"))


def said(folder: Path) -> str:
    """What the processes said last."""
    return (folder / "said.txt").read_text()[-3000:]


def moments(name: str, counted: Ended) -> list[Kill]:
    """Statements of the whole copy and of its end, where it commits; and changes to folders."""
    chance = random.Random(name)

    def at(first: int) -> Kill:
        return Kill(at_statement=chance.randint(first, counted.statements), into_s=chance.choice(INTO_S))

    end = max(1, counted.statements - 40)
    found = [
        each
        for _ in range(MOMENTS // 3)
        for each in (at(1), at(end), Kill(before_change=chance.randint(1, len(counted.changes))))
    ]
    found = found if ALL else found[:FEW]
    chance.shuffle(found)
    return found


@pytest.mark.slow
def test_kill_at_any_moment_leaves_the_lake_whole(
    source: Path, address: Address, killing: Killer, counts: tuple[Ended, Ended], tmp_path: Path
) -> None:
    """First copies are killed, one is run to its end, and then later ones are killed."""

    def copy(kill: Kill | None = None) -> Ended:
        return copied(killing, tmp_path, source, address, kill)

    def killed(kills: list[Kill], *, finished: int) -> int:
        """How many copies were killed; after so many one is run to its end, but for the last ones."""
        before, there = of_lake(address), 0
        for number, kill in enumerate(kills):
            if number and number % finished == 0:
                assert copy().status == 0, said(tmp_path)
                before = of_lake(address)
            change(source, next(numbers))
            there += copy(kill).status is None
            after = of_lake(address)
            assert after in {before, of_source(source)}, kill
            before = after
        return there

    numbers = itertools.count()
    first, later = (moments(f"{address.kind} {begun}", counts[begun]) for begun in (False, True))
    assert killed(first, finished=len(first)) > 0
    assert copy().status == 0, said(tmp_path)
    assert killed(later, finished=KILLS_A_COMMIT) > 0
    lake = tmp_path / str(address)
    into_lake(source, lake)
    assert differences(source, lake) == []
    assert all(samples(lake)[name].equals(rows) for name, rows in samples(source).items())
    vacuum(lake, before=NOW.replace(year=2100))
    assert files_without_need(address) == set()
