"""The warehouse directory is the same whether the whole configuration is read or its place alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.config import settings
from app.config.place import warehouse_directory
from app.errors import ConfigError
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TRACKSIDE_WAREHOUSE", "TRACKSIDE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", ["", 'warehouse = "w"\n', 'warehouse = "/srv/w"\n', 'cluster = "c"\n'])
@pytest.mark.parametrize("file", ["trackside.toml", "elsewhere/t.toml"])
@pytest.mark.parametrize("environment", [None, "other"])
def test_place_is_what_the_configuration_gives(
    text: str, file: str, environment: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / file).write_text(text, encoding="utf-8")
    if file != "trackside.toml":
        monkeypatch.setenv("TRACKSIDE_CONFIG", file)
    if environment is not None:
        monkeypatch.setenv("TRACKSIDE_WAREHOUSE", environment)
    assert warehouse_directory() == settings.load().warehouse


def test_place_without_a_configuration_is_the_default(folder: Path) -> None:
    assert not (folder / "trackside.toml").exists()
    assert warehouse_directory() == settings.load().warehouse == settings.Config().warehouse


@pytest.mark.parametrize("text", ["warehouse = 7\n", "warehouse = \n", None])
def test_a_configuration_that_does_not_name_it_is_refused(
    text: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is None:
        monkeypatch.setenv("TRACKSIDE_CONFIG", "nowhere.toml")
    else:
        (folder / "trackside.toml").write_text(text, encoding="utf-8")
    assert warehouse_directory() is None
    with pytest.raises(ConfigError):
        settings.load()
    assert trackside(cwd=folder).returncode == 10
