"""`serve` keeps a lake up to date: what it has loaded and computed is committed in the same cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.config import settings as config
from app.config.settings import Serve
from app.service.worker import Worker
from queries.warehouse import open_reader
from tests.app.service.test_service import EVERY, configured, slurm
from tests.support.warehouses import NOW

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_a_cycle_commits_to_a_lake_once_for_each_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root, lake = tmp_path / "w", tmp_path / f"ducklake:sqlite:{tmp_path}/lake.sqlite"
    worker = Worker(root, configured(serve=Serve(lake=lake)), every=EVERY, runner=slurm)
    worker.cycle(now=NOW)
    [failure] = worker.failures(NOW)
    assert failure.startswith("lake: there is no lake at ducklake:sqlite:")
    assert list(worker.errors) == ["lake"]
    worker.settings = configured(serve=Serve(lake=lake, lake_files=str(tmp_path / "files")))
    worker.cycle(now=NOW + EVERY)
    assert worker.failures(NOW + EVERY) == []
    assert worker.errors == {}
    assert worker.tally["committed"] > worker.tally["loaded"] == 0
    assert worker.sources["lake"].last_success == NOW + EVERY
    with open_reader(root) as here, open_reader(lake) as there:
        assert there.table("loads").height == here.table("loads").height > 0
        assert there.query("computed", cluster="tiny").equals(here.query("computed", cluster="tiny"))
    monkeypatch.setattr("app.service.worker.copy_to_lake", pytest.fail)
    worker._commit(lake, NOW)  # noqa: SLF001 - what the next cycle would do if it had loaded nothing


def test_lake_is_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "trackside.toml").write_text('[serve]\nlake = "ducklake:sqlite:lake.sqlite"\nlake_files = "files"\n')
    loaded = config.load(tmp_path / "trackside.toml")
    assert loaded.serve.lake == tmp_path / "ducklake:sqlite:lake.sqlite"
    assert loaded.serve.lake_files == str(tmp_path / "files")
