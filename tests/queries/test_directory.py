"""Files of the warehouse directory."""

from __future__ import annotations

import errno
import os
import random
from typing import TYPE_CHECKING

import pytest

from queries.directory import copy_file

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "source"
    file.write_bytes(random.Random(5).randbytes(300_001))
    return file


def test_copy_file_copies_every_byte(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"longer before" * 100_000)
    copy_file(source, target)
    assert target.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("at", [0, 1])
def test_copy_file_without_copy_file_range(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """A file system may refuse at once, or after the first part."""
    done: list[int] = []

    def refuses(read: int, written: int, _size: int) -> int:
        if len(done) == at:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        done.append(os.sendfile(written, read, None, 1000))
        return done[-1]

    monkeypatch.setattr(os, "copy_file_range", refuses)
    copy_file(source, tmp_path / "target")
    assert len(done) == at
    assert (tmp_path / "target").read_bytes() == source.read_bytes()


def test_copy_file_where_the_kernel_stops_early(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "copy_file_range", lambda *_: 0)
    copy_file(source, tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == source.read_bytes()


def test_copy_file_with_a_full_disk_raises(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "copy_file_range", full)
    with pytest.raises(OSError, match="No space left"):
        copy_file(source, tmp_path / "target")
