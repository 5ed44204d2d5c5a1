"""A file that a person named is whole, or as it was."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from app.errors import UsageError
from app.output_file import write_file

if TYPE_CHECKING:
    from pathlib import Path


def test_write_file_keeps_the_old_content_when_it_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.html"
    write_file(target, b"old")

    def killed(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        write_file(target, b"new")
    assert target.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_write_file_follows_links_and_keeps_permissions(tmp_path: Path) -> None:
    real = tmp_path / "real.csv"
    real.write_bytes(b"old")
    real.chmod(0o640)
    (tmp_path / "link.csv").symlink_to(real)
    write_file(tmp_path / "link.csv", b"new")
    assert (tmp_path / "link.csv").is_symlink()
    assert (real.read_bytes(), real.stat().st_mode & 0o777) == (b"new", 0o640)


def test_write_file_obeys_the_umask(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    write_file(tmp_path / "made", b"x")
    assert (tmp_path / "made").stat().st_mode == plain.stat().st_mode


def test_write_file_writes_into_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_file(pipe, b"rows")
        assert os.read(reading, 10) == b"rows"
    finally:
        os.close(reading)


@pytest.mark.parametrize("name", ["missing/report.html", "folder", "a" * 300])
def test_write_file_reports_what_cannot_be_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="cannot be written"):
        write_file(tmp_path / name, b"x")
