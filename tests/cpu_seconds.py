"""CPU seconds of each test, its fixtures and its child processes among them: wall time tells little on a busy machine.

    pytest -p tests.cpu_seconds PATH

At the end it lists folders, modules and tests by what they took. It works with `-n`, too: workers send what they
measured with their reports.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

SHOWN: Final = 25
PROPERTY: Final = "cpu_s"

_until = 0.0


def used_s() -> float:
    """CPU seconds of this process and of the children that it waited for, in user and system mode."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_collection_finish() -> None:
    """Collecting counts for no test."""
    global _until  # noqa: PLW0603 - one a process
    _until = used_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note with each report (of set-up, call and tear-down) what was used since the one before it."""
    global _until  # noqa: PLW0603 - as above
    report = yield
    now = used_s()
    report.user_properties.append((PROPERTY, now - _until))
    _until = now
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what took longest."""
    kept = [report for reports in terminalreporter.stats.values() for report in reports]
    measured = [
        (report.nodeid, value)
        for report in kept
        if isinstance(report, pytest.TestReport)
        for name, value in report.user_properties
        if name == PROPERTY and isinstance(value, float)
    ]
    terminalreporter.section(f"CPU seconds: {sum(used for _, used in measured):.1f}")
    for what, group in GROUPS.items():
        terminalreporter.write_line(f"by {what}")
        for name, used in added_up(measured, group)[:SHOWN]:
            terminalreporter.write_line(f"{used:9.2f}  {name}")


GROUPS: Final[dict[str, Callable[[str], str]]] = {
    "folder": lambda nodeid: nodeid.partition("::")[0].rpartition("/")[0],
    "module": lambda nodeid: nodeid.partition("::")[0],
    "test": lambda nodeid: nodeid.partition("[")[0],
}
"""What tests are added up by: of a test with parameters, all of them."""


def added_up(measured: Iterable[tuple[str, float]], group: Callable[[str], str]) -> list[tuple[str, float]]:
    """The seconds of tests by the group that each belongs to, the most first.

    >>> added_up([("tests/test_a.py::test_x[1]", 1.5), ("tests/test_a.py::test_x[2]", 1.0)], GROUPS["test"])
    [('tests/test_a.py::test_x', 2.5)]
    """
    groups: dict[str, float] = {}
    for nodeid, used in measured:
        groups[group(nodeid)] = groups.get(group(nodeid), 0.0) + used
    return sorted(groups.items(), key=lambda each: -each[1])
