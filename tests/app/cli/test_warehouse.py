"""`trackside warehouse copy`, as a person runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.cli import main as cli
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_copy_says_what_it_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = from_accounting(tmp_path / "made", jobs=40), tmp_path / "copy"
    command = ["warehouse", "copy", str(source), str(target)]
    assert cli.main([*command, "--dry-run"]) == 0
    assert "Would be copied" in capsys.readouterr().out
    assert not target.exists()
    assert cli.main(command) == 0
    assert f"Copied from {source} to {target}, and compared: " in capsys.readouterr().out
    assert cli.main(command) == 0
    assert "every table, cluster and day is the same" in capsys.readouterr().out


@pytest.mark.parametrize("target", ["made", "made/inside", "."])
def test_copy_into_itself_is_refused(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["warehouse", "copy", str(tmp_path / "made"), str(tmp_path / target)]) == 2
    assert "copy elsewhere" in capsys.readouterr().err


def test_copy_of_nothing_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["warehouse", "copy", str(tmp_path / "none"), str(tmp_path / "copy")]) != 0
    assert "there is no warehouse in" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()
