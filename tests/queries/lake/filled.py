"""A lake that has a warehouse, made once in a session: each test has a copy of its files, of its catalogue, and of what
a reader keeps of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import duckdb
import pytest

from queries import directory
from queries.lake import snapshot
from queries.lake.address import Address
from tests.queries.lake.support import address, into_lake
from tests.support.warehouses import from_everything, made

KEY = "lake-of-everything-16-3"


def filled_lake(source: Path, lake: Path, files: Path) -> None:
    """Have a lake hold a warehouse of `from_everything(gpus=16, days=3)`, as if that had been copied into it.

    Args:
        source: the warehouse, which notes the commit.
        lake: with its catalogue in a file of DuckDB.
        files: where its Parquet files are going to be.
    """
    kept, new = made(KEY, _make), Path(address(lake).at)
    shutil.copytree(kept / "files", files)
    shutil.copyfile(kept / "catalogue", new)
    with duckdb.connect(str(new)) as catalogue:
        moved = {"old": f"{kept}/files/", "new": f"{files}/"}
        catalogue.execute("UPDATE ducklake_data_file SET path = replace(path, $old, $new)", moved)
        catalogue.execute("UPDATE ducklake_metadata SET value = $new WHERE value = $old", moved)
    notes = (kept / "everything" / directory.LAKES).read_text()
    (source / directory.LAKES).write_text(notes.replace(f"{kept}/catalogue", str(new)))
    shutil.copytree(kept / "cache", os.environ["XDG_CACHE_HOME"], ignore=shutil.ignore_patterns("raw"))


def _make(folder: Path) -> None:
    """Copy a warehouse into a lake, and read it; the reader's copy has the name of an earlier one.

    So the first reader of each test renews it: its links and views name the places of the session.
    """
    source, lake = from_everything(folder, gpus=16, days=3), Address("duckdb", str(folder / "catalogue"))
    into_lake(source, folder / str(lake), str(folder / "files"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        root = snapshot.prepared(lake)
    copy = directory.pointed(root)
    assert copy is not None
    copy.rename(earlier := copy.with_name("0.duckdb"))
    (copy.parent / "current").unlink()
    (copy.parent / "current").symlink_to(earlier.name)
