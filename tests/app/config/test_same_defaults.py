"""Verbs that import no settings use the same defaults as the settings."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.cli.run_context import settings_and_root, warehouse_root
from app.cli.verbs.data import sql
from app.config.settings import Sql
from queries.sandbox.run import SandboxLimits

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., argparse.Namespace]:
    """The common options, in an empty folder and environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("TRACKSIDE_CONFIG", "TRACKSIDE_WAREHOUSE"):
        monkeypatch.delenv(name, raising=False)
    return lambda **given: argparse.Namespace(**({"config": None, "warehouse": None} | given))


def test_default_limits_of_sql_are_those_of_the_settings() -> None:
    defaults = Sql()
    assert SandboxLimits() == SandboxLimits(defaults.rows, defaults.seconds, defaults.memory_mb, defaults.result_mb)


@pytest.mark.parametrize("in_environment", [None, "env"])
@pytest.mark.parametrize("in_file", [None, "file"])
@pytest.mark.parametrize("option", [None, "option"])
def test_warehouse_is_that_of_the_settings(
    options: Callable[..., argparse.Namespace],
    monkeypatch: pytest.MonkeyPatch,
    option: str | None,
    in_file: str | None,
    in_environment: str | None,
) -> None:
    if in_file:
        Path("trackside.toml").write_text(f'warehouse = "{in_file}"\n', encoding="utf-8")
    if in_environment:
        monkeypatch.setenv("TRACKSIDE_WAREHOUSE", in_environment)
    given = options(warehouse=option and Path(option))
    expected = Path(option or in_environment or in_file or "trackside-data")
    assert warehouse_root(given) == settings_and_root(given)[1] == expected


def test_limits_of_sql_are_those_of_the_file(options: Callable[..., argparse.Namespace]) -> None:
    assert sql.limits(options()) == SandboxLimits()
    Path("trackside.toml").write_text("[sql]\nrows = 5\n", encoding="utf-8")
    assert sql.limits(options()) == SandboxLimits(rows=5)
