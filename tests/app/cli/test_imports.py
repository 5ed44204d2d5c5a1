"""What each verb imports: a library that takes long to import is imported by the verbs that use it, and no other."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.command import ROOT
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = (
    "dash",
    "dash_mantine_components",
    "grafanalib",
    "jinja2",
    "jsonschema",
    "metrics.catalog",  # imports all that computes a metric
    "msgspec",
    "numpy",
    "pandas",
    "plotly",
    "polars",
    "prometheus_api_client",
    "pyarrow",
    "pydantic",
    "requests",
    "scipy",
    "waitress",
)
PROGRAM = (
    "import atexit, sys\n"
    "atexit.register(lambda: print('imported', *(m for m in sys.modules if sys.modules[m]), file=sys.stderr))\n"
    "from trackside import main\n"
    "sys.exit(main())\n"
)
ENGINE = {"numpy", "polars", "pyarrow"}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_accounting(tmp_path_factory.mktemp("imports"))


def imported(*arguments: str) -> set[str]:
    """The heavy modules that a process of the command line has imported when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode in {0, 3, 4}, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("imported "))
    return set(HEAVY) & set(line.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["--help"], set()),
        (["show", "--help"], {*ENGINE, "pydantic", "scipy"}),
        ([], set()),
        (["show"], set()),
        (["docs", "tutorial"], set()),
        (["help", "ettr"], set()),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_heavy_modules_imported_without_a_warehouse(command: list[str], expected: set[str]) -> None:
    assert imported(*command) <= expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["sql", "SELECT 1"], {"polars"}),
        (["status"], ENGINE),
        (["status", "--format", "json"], ENGINE),
        (["export", "attempts"], ENGINE),
        (["show", "goodput"], ENGINE),
        (["show", "runs"], ENGINE),
        (["show", "mttf"], ENGINE),
        (["verify"], {*ENGINE, "metrics.catalog", "pydantic"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_heavy_modules_imported_by_a_verb(warehouse: Path, command: list[str], expected: set[str]) -> None:
    assert imported(*command, "--warehouse", str(warehouse)) == expected


def test_overview_of_a_warehouse_imports_no_heavy_module(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKSIDE_WAREHOUSE", str(warehouse))
    assert imported() == set()


@pytest.mark.slow
def test_settings_are_imported_where_a_configuration_names_some(warehouse: Path, tmp_path: Path) -> None:
    config = tmp_path / "trackside.toml"
    config.write_text("[sql]\nrows = 5\n", encoding="utf-8")
    command = ("sql", "SELECT 1", "--warehouse", str(warehouse), "--config", str(config))
    assert imported(*command) >= {"polars", "pydantic"}


@pytest.mark.slow
def test_no_garbage_is_looked_for_during_imports(warehouse: Path) -> None:
    """Imports make so many objects that Python would look through them all two hundred times."""
    program = PROGRAM.replace("atexit, sys", "atexit, gc, sys").replace(
        "'imported', *(m for m in sys.modules if sys.modules[m])",
        "'looked', *(each['collections'] for each in gc.get_stats())",
    )
    command = [sys.executable, "-c", program, "compute", "--full", "--warehouse", str(warehouse)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("looked "))
    assert sum(map(int, line.split()[1:])) <= 50


def test_python_without_the_packages_is_named_with_what_to_run() -> None:
    words = [sys.executable, "-S", "-m", "app.cli.main", "show", "goodput"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 70
    assert done.stderr.startswith(f"trackside: {sys.executable} has no module 'polars'")
    assert "make setup" in done.stderr
    assert "Traceback" not in done.stderr
