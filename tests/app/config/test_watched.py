"""Prices and references are read again when their file has changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from app.config.settings import Config, load
from app.config.watched import WatchedConfig

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "trackside.toml", '[cost]\ncurrency = "EUR"')


def written(file: Path, text: str, at: int = 1) -> Path:
    file.write_text(text, encoding="utf-8")
    os.utime(file, ns=(at, at))
    return file


def test_watched_prices_follow_their_file(file: Path) -> None:
    watched = WatchedConfig(load(file))
    before = watched.now()
    assert before.cost.currency == "EUR"
    assert watched.now() is before
    written(file, '[cost]\ncurrency = "USD"', at=2)
    assert watched.now().cost.currency == "USD"
    written(file, '[cost]\ncurrency = "EUR"', at=3)
    assert (watched.now(), hash(watched.now())) == (before, hash(before))


@pytest.mark.parametrize("mistake", ["[cost", "[cost]\npue = 0", None])
def test_a_mistake_leaves_the_last_prices_in_use(
    file: Path, mistake: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    watched = WatchedConfig(load(file))
    if mistake is None:
        file.unlink()
    else:
        written(file, mistake, at=2)
    assert [watched.now().cost.currency for _ in range(3)] == ["EUR"] * 3
    assert len(caplog.records) == 1
    written(file, '[cost]\ncurrency = "USD"', at=3)
    assert watched.now().cost.currency == "USD"


def test_references_are_watched_too(file: Path) -> None:
    watched = WatchedConfig(load(file))
    assert watched.now().scaling.reference == ()
    own = 'name = "ours"\nrecipe = "r"\ngpu = "h100"\nn_gpus = 8\nminutes = 5.0'
    written(file, f"[[scaling.reference]]\n{own}", at=2)
    assert [each.name for each in watched.now().scaling.reference] == ["ours"]


def test_a_configuration_knows_its_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKSIDE_WAREHOUSE", str(file.parent))
    assert load(file).file == file
    assert Config().file is None
