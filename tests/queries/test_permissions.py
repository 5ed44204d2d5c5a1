"""Who may read a warehouse: its owner alone, or a group's members by configuration."""

from __future__ import annotations

import grp
import os
import stat
from typing import TYPE_CHECKING

import pytest

from app.service import integrity
from queries.errors import WarehouseError
from queries.warehouse import open_reader, open_writer
from tests.queries.killed_writers import FIRST, samples
from tests.queries.test_warehouse import NOW, put, users

if TYPE_CHECKING:
    from pathlib import Path

GROUP = grp.getgrgid(os.getgid()).gr_name


def load(root: Path, *, group: str | None = None) -> None:
    with open_writer(root, verb="t", now=NOW, group=group) as writer, writer.transaction():
        writer.append("users", users("alice"))
        writer.write_partition("gpu_samples", "c", FIRST, samples(0))


def modes(root: Path) -> dict[str, set[int]]:
    """Modes of all directories and files."""
    every = [root, *(path for path in root.rglob("*") if not path.is_symlink())]
    return {
        kind: {stat.S_IMODE(path.stat().st_mode) for path in every if path.is_dir() == (kind == "directories")}
        for kind in ("directories", "files")
    }


@pytest.fixture
def open_umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.slow
@pytest.mark.usefixtures("open_umask")
def test_a_new_warehouse_is_its_owners_alone(tmp_path: Path) -> None:
    load(tmp_path / "w")
    assert modes(tmp_path / "w") == {"directories": {0o700}, "files": {0o600}}
    (tmp_path / "other").touch()
    assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o644  # the process's own umask is as it was


@pytest.mark.slow
@pytest.mark.usefixtures("open_umask")
def test_older_warehouse_is_closed_by_a_writer_and_reported(tmp_path: Path) -> None:
    root = tmp_path / "w"
    load(root)
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert any(each.state == "warn" and "every user" in each.text for each in integrity.examine(root))
    put(root, "bob")
    assert modes(root) == {"directories": {0o700}, "files": {0o600}}
    assert any(each.state == "ok" and "alone" in each.text for each in integrity.examine(root))


@pytest.mark.slow
@pytest.mark.usefixtures("open_umask")
def test_group_may_read_only_while_it_is_configured(tmp_path: Path) -> None:
    root = tmp_path / "w"
    load(root)
    load(root, group=GROUP)
    assert modes(root) == {"directories": {0o2750}, "files": {0o640}}
    assert {path.stat().st_gid for path in root.rglob("*")} == {os.getgid()}
    assert any(GROUP in each.text for each in integrity.examine(root))
    load(root)
    assert modes(root) == {"directories": {0o700}, "files": {0o600}}


def test_an_unknown_group_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WarehouseError, match="no group 'no-such-group'"):
        load(tmp_path / "w", group="no-such-group")
    assert not (tmp_path / "w").exists()


@pytest.mark.slow
def test_unreadable_warehouse_names_who_can_change_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(tmp_path / "w")
    monkeypatch.setattr(os, "access", lambda *_: False)  # tests may run as root, who may read everything
    with pytest.raises(WarehouseError, match="warehouse_group"), open_reader(tmp_path / "w"):
        pass
