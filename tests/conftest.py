"""Fixtures of all tests, how workers share them out, and a summary of what was skipped and how to get it."""

import gc
import os
from collections import Counter
from collections.abc import Iterator

import pytest

from app import clock
from app.claims.stored import StoredClaims
from app.compute import pipeline
from app.compute.outcome import Windows
from tests import tiers
from tests.fuzz import profiles
from tests.lab import SlurmLab, missing
from tests.lab.needed import need
from tests.support.warehouses import prepared, use_threads

FEW_ROWS = ("tests/app/", "tests/dashboards/", "tests/ingest/", "tests/queries/lake/", "tests/queries/test_")
MANY_ROWS = (
    "tests/ingest/prometheus/store/",
    *(f"tests/queries/test_{each}.py" for each in ("bring_in_line", "engine", "handed_over")),
)
"""Beginnings of the names of tests, by how many rows a table of theirs has: a row group of DuckDB and more are many."""

pytest_plugins = ("tests.scheduling",)
profiles.load()
os.environ.setdefault(clock.NOT_BEFORE, "2026-11-22T00:00:00Z")  # the captures are of days before, on any machine


@pytest.fixture(scope="session", autouse=True)
def _prepared_warehouses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """New warehouses start as copies, but for the tests of queries/, which makes them."""
    base = tmp_path_factory.getbasetemp()
    common = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with prepared(tmp_path_factory.mktemp("schema"), common / "warehouses"):
        yield


@pytest.fixture(scope="module")
def no_results() -> Iterator[None]:
    """A computation makes no numbers of windows and no verdicts, which take half of it.

    For modules that look at what it makes before them: runs, the ledger, and what telemetry shows by day.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "write_results", lambda *_args, **_more: Windows(0, 0))
        patch.setattr(StoredClaims, "verdicts", None)
        yield


@pytest.fixture(scope="module")
def own_slurm_lab() -> Iterator[SlurmLab]:
    """A running Slurm cluster of a module's own, where no other test has killed a node a minute ago.

    Its tests carry `lab` and `xdist_group("lab")`: one worker runs them all, so one lab at a time is up, and has the
    cgroups. No lab may outlive its module, or the next ones would go without and see no real OUT_OF_MEMORY.
    """
    need("Slurm lab", missing())
    with SlurmLab() as lab:
        yield lab


def pytest_configure() -> None:
    """Collect no garbage while tests are collected: ten thousand of them stay, and looking for garbage among them takes
    each worker more than two seconds."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage again, but among what has been made since."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is not of this run's tier."""
    tiers.leave_out(items)
    tiers.take_fewer_examples(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Most tests write and read few rows again and again: one thread is enough, and others would only wait for work,
    which takes them time, too. What stores many rows and the labs use all cores."""
    few_rows = item.nodeid.startswith(FEW_ROWS) and not item.nodeid.startswith(MANY_ROWS)
    use_threads(several=not few_rows or item.get_closest_marker("lab") is not None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once, by reason, what was skipped: a silent skip reads like a pass."""
    skipped: list[pytest.TestReport] = terminalreporter.stats.get("skipped", [])
    if not skipped:
        return
    reasons = Counter(_reason(report) for report in skipped)
    terminalreporter.section("skipped, so not tested")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} {'test' if count == 1 else 'tests'}: {reason}")


def _reason(report: pytest.TestReport) -> str:
    reported = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return reported.removeprefix("Skipped: ")
