"""Which worker of pytest-xdist runs which tests, and in which order: the labs first, then the other long ones.

Tests of one `xdist_group` share a lab, a server or a browser, and those of a module with fixtures of its own share what
was dear to make: each of these is for one worker. Any other test may run anywhere. xdist's own `--dist=loadgroup` would
see to the groups, but with pytest 9.2 it leaves the marks unheeded without a word (its issue 1386, open in November
2026). Loaded by tests/conftest.py.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

import pytest
from execnet import XSpec
from xdist.scheduler import LoadFileScheduling

from tests import tiers

if TYPE_CHECKING:
    from pathlib import Path

    from xdist.remote import Producer

GROUP: Final = re.compile(r"""xdist_group\(["'](\w+)["']\)""")
"""Where a module says to which group it belongs, or one of its tests."""

SHARED: Final = re.compile(
    r"""scope=["'](?:module|session|package)["']|^@(?:functools\.)?(?:lru_)?cache\b""", re.MULTILINE
)
"""Where a module makes something that its tests share."""

LONGEST_FIRST: Final = (
    *("tests/app/cli", "tests/app/compute", "tests/app/service", "tests/app", "tests/ingest/slurm/live"),
    *("tests/queries", "tests/dashboards", "tests"),
)
"""Where the slow tests are; the labs and the tests marked `slow` come before them, and other folders come last."""


class ByUnit(LoadFileScheduling):  # type: ignore[misc]  # xdist tells no types
    """Hands out single tests, whole modules where tests share something, and all modules of one group together."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._units: dict[str, str | None] = {}

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        if module not in self._units:
            self._units[module] = unit_of(self.config.rootpath, module)
        return self._units[module] or nodeid.partition("[")[0]


def unit_of(root: Path, module: str) -> str | None:
    """The group that a module speaks of, else itself if its tests share something; None: each test is on its own.

    Workers tell no marks, so the text is read.
    """
    text = (root / module).read_text(encoding="utf-8")
    group = GROUP.search(text)
    if group:
        return group[1]
    beside = (root / module).with_name("conftest.py")
    if beside.is_file() and beside.parent != root / "tests":
        text += beside.read_text(encoding="utf-8")
    return module if SHARED.search(text) else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByUnit | None:
    """Ours, unless somebody asks for another."""
    return ByUnit(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """`-n auto`: one worker more than there are cores, and with real components two.

    One of them has the Slurm labs, one the servers of time series, and both wait more than they work. Unless somebody
    says how many (xdist's own variable): None leaves it to xdist.
    """
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + (2 if tiers.tier() == tiers.REAL else 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: list[XSpec]) -> None:
    """With real components the first two workers, which begin with the labs and the servers, have a thread a core, the
    others one: small tables take a twelfth less of a core so, and chance decides which tests run which way."""
    if tiers.tier() == tiers.REAL:
        specs[2:] = [XSpec(f"{spec}//env:POLARS_MAX_THREADS=1") for spec in specs[2:]]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The slow ones first, so that none is left when the others are done; else as it was, which is random."""
    items.sort(key=lambda item: turn(item, config.rootpath))


def turn(item: pytest.Item, root: Path) -> int:
    """The lower, the sooner."""
    if item.get_closest_marker("lab"):
        return -2
    if item.get_closest_marker("xdist_group"):
        return -1  # they cannot be shared out
    if item.get_closest_marker("slow"):
        return 0
    folders = [folder.as_posix() for folder in item.path.relative_to(root).parents]
    return min((LONGEST_FIRST.index(folder) + 1 for folder in folders if folder in LONGEST_FIRST), default=99)
