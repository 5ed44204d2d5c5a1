"""Which worker of pytest-xdist runs which tests, and in which order: whole modules, the labs first.

Tests of one module share fixtures that are dear to make, and tests of one `xdist_group` share a lab, a server or a
browser: each of these is for one worker. xdist's own `--dist=loadgroup` would see to it, but with pytest 9.2 it leaves
the marks unheeded without a word (its issue 1386, open in November 2026). Loaded by tests/conftest.py.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # xdist tells no types

if TYPE_CHECKING:
    from pathlib import Path

    from xdist.remote import Producer  # type: ignore[import-untyped]  # as above

GROUP: Final = re.compile(r"""xdist_group\(["'](\w+)["']\)""")
"""Where a module says to which group it belongs, or one of its tests."""

LONGEST_FIRST: Final = ("tests/app", "tests/dashboards", "tests")
"""Where the slow tests are; the labs come before them, and what stands nowhere here comes last."""


class ByModule(LoadFileScheduling):  # type: ignore[misc]  # xdist tells no types
    """Hands out modules, and all modules of one group together."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._units: dict[str, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        if module not in self._units:
            self._units[module] = unit_of(self.config.rootpath, module)
        return self._units[module]


def unit_of(root: Path, module: str) -> str:
    """The group that a module speaks of, else the module itself. Workers tell no marks, so it is read."""
    found = GROUP.search((root / module).read_text(encoding="utf-8"))
    return found[1] if found else module


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByModule | None:
    """Ours, unless somebody asks for another."""
    return ByModule(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """`-n auto`: one worker more than there are cores. One of them has the labs, and a lab waits more than it works.

    Unless somebody says how many (xdist's own variable): None leaves it to xdist.
    """
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The slow ones first, so that none is left when the others are done; else as it was, which is random."""
    items.sort(key=lambda item: turn(item, config.rootpath))


def turn(item: pytest.Item, root: Path) -> int:
    """The lower, the sooner."""
    if item.get_closest_marker("lab"):
        return -1
    folders = [folder.as_posix() for folder in item.path.relative_to(root).parents]
    return min((LONGEST_FIRST.index(folder) for folder in folders if folder in LONGEST_FIRST), default=99)
