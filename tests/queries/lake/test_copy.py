"""A lake holds what was copied into it, whole or not at all, and gives it back."""

from __future__ import annotations

import os
import random
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from queries.errors import CorruptWarehouseError, LockedWarehouseError, NoWarehouseError, WarehouseError, WriteError
from queries.lake import catalogue, engine, locks, markers, snapshot
from queries.lake.storage import UNFINISHED, FolderStorage
from queries.warehouse import copy, open_reader, open_writer, vacuum
from tests.queries.lake.support import (
    add_reject,
    address,
    differences,
    files_without_need,
    into_lake,
    of_lake,
    of_source,
    out_of_lake,
    samples,
)
from tests.support.warehouses import NOW, from_accounting

if TYPE_CHECKING:
    from collections.abc import Callable


class StoppedHereError(Exception):
    """Stands for whatever ends a copy."""


def stops_at(call: int) -> Callable[[str, int, int], None]:
    calls = iter(range(call))

    def report(_what: str, _done: int, _total: int) -> None:
        if next(calls, None) is None:
            raise StoppedHereError

    return report


def stops_after(table: str) -> Callable[[str, int, int], None]:
    def report(what: str, _done: int, _total: int) -> None:
        if what == table:
            raise StoppedHereError

    return report


def warehouse_of(root: Path) -> str:
    with open_reader(root) as reader:
        return str(reader.meta("warehouse"))


@pytest.mark.slow
def test_lake_has_every_table_and_sample(
    source: Path, lake: Path, files: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into_lake(source, lake, files)
    assert differences(source, lake) == []
    cache = tmp_path / "cache/trackside/lakes"
    assert cache.stat().st_mode & 0o077 == 0
    cache.chmod(0o755)  # as an earlier version made it
    monkeypatch.setattr(snapshot, "CHECK_INTERVAL_S", 0)
    assert differences(source, lake) == []
    assert cache.stat().st_mode & 0o077 == 0
    there, here = samples(lake), samples(source)
    assert here["gpu_samples"].height > 0
    assert all(there[name].equals(rows) for name, rows in here.items())


@pytest.mark.slow
def test_second_copy_takes_only_what_changed(source: Path, filled: Path) -> None:
    assert into_lake(source, filled).rows == 0
    add_reject(source, "late")
    taken = into_lake(source, filled)
    assert (taken.rows, taken.files) == (1, 0)
    with open_writer(source, verb="test", now=NOW) as writer, writer.transaction():
        rows = writer.table("runs").head(2)
        writer.delete("runs", rows.select("cluster", "run_id"))
    into_lake(source, filled)  # the rows there are replace those that were
    assert differences(source, filled) == []


@pytest.mark.slow
def test_half_a_copy_of_a_lake_names_the_lake(filled: Path, tmp_path: Path) -> None:
    half = tmp_path / "half"
    with pytest.raises(StoppedHereError), open_writer(half, verb="test", now=NOW, half_copied=True) as writer:
        copy(filled, writer, report=stops_after("runs"), cluster="demo")
    again = re.escape(f"warehouse copy {address(filled)} {half} --cluster demo")
    with pytest.raises(NoWarehouseError, match=again), open_writer(half, verb="test", now=NOW):
        pass


@pytest.mark.slow
def test_lake_goes_on_under_another_address(filled: Path, source: Path, tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    Path(address(filled).at).rename(tmp_path / "moved" / "lake.ducklake")
    moved = tmp_path / f"ducklake:{tmp_path}/moved/lake.ducklake"
    add_reject(source, "late")
    into_lake(source, moved)
    assert differences(source, moved) == []


@pytest.mark.slow
def test_directory_copied_back_goes_on(filled: Path, source: Path, tmp_path: Path) -> None:
    """The directories before it then did not make the last commit, and may not undo it."""
    back, earlier = tmp_path / "back", tmp_path / "earlier"
    out_of_lake(filled, back)
    assert differences(source, back) == []
    assert out_of_lake(filled, back).rows == 0
    shutil.copytree(back, earlier, symlinks=True)
    add_reject(back, "elsewhere")
    into_lake(back, filled)
    add_reject(source, "here")
    for other in (source, earlier):
        with pytest.raises(WarehouseError, match=r"did not make that commit(.*\n)+Nothing was changed"):
            into_lake(other, filled)
    assert differences(back, filled) == []


@pytest.mark.slow
def test_commit_that_was_not_noted_is_known(filled: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after the lake had it, and again before the next: the directory is still the one that made it."""
    add_reject(source, "one")
    stopped_at(monkeypatch, "queries.lake.fence.note_committed", source, filled)
    assert of_lake(address(filled)) == of_source(source)
    add_reject(source, "two")
    stopped_at(monkeypatch, "queries.lake.push._Push._commit", source, filled)
    assert into_lake(source, filled).rows == 2  # the table's, whose file is written anew
    assert differences(source, filled) == []


def stopped_at(monkeypatch: pytest.MonkeyPatch, function: str, source: Path, lake: Path) -> None:
    """Copy into a lake, and stop where a function would be called."""

    def stop(*_: object) -> None:
        raise StoppedHereError

    with monkeypatch.context() as patched:
        patched.setattr(function, stop)
        with pytest.raises(StoppedHereError):
            into_lake(source, lake)


@pytest.mark.slow
def test_half_a_file_is_written_anew(source: Path, lake: Path, files: str) -> None:
    with pytest.raises(StoppedHereError):
        into_lake(source, lake, files, report=stops_after("runs"))
    left = list(Path(files).rglob("*.parquet"))
    assert left
    for file in left:
        file.write_bytes(file.read_bytes()[:100])
    into_lake(source, lake)
    assert differences(source, lake) == []


@pytest.mark.slow
def test_copy_may_be_stopped_anywhere(source: Path, lake: Path, files: str) -> None:
    for at in sorted(random.Random(7).sample(range(1, 120), 4)):
        with pytest.raises(StoppedHereError):
            into_lake(source, lake, files, report=stops_at(at))
        with pytest.raises(NoWarehouseError, match="nothing has been copied"), open_reader(lake):
            pass
    into_lake(source, lake, files)
    assert differences(source, lake) == []
    removed = vacuum(lake, before=NOW)
    assert (removed.loose, removed.replaced) == (0, 0)


@pytest.mark.slow
def test_second_catalogue_is_not_made_and_removes_no_file(
    source: Path, filled: Path, files: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lake that was named otherwise by mistake; and one of an earlier Trackside, which looked for no others."""
    second = tmp_path / f"ducklake:{tmp_path}/second.ducklake"
    with pytest.raises(WarehouseError, match=r"which has the files of another one .*\n.*--data-path.*catalogues/"):
        into_lake(source, second, files)
    assert not (tmp_path / "second.ducklake").exists()
    with monkeypatch.context() as patched:
        patched.setattr(markers, "refuse_a_second", lambda *_: None)
        add_reject(source, "late")
        into_lake(source, second, files)
    before = everything_in(files)
    add_reject(source, "later")
    into_lake(source, second)
    for lake in (filled, second):
        with pytest.raises(WarehouseError, match=r"other catalogues count files(.*\n)+Nothing was removed"):
            vacuum(lake, before=NOW.replace(year=2100))
    assert before <= everything_in(files)
    assert samples(filled)["gpu_samples"].height > 0


@pytest.mark.slow
def test_vacuum_goes_on_without_the_other_catalogue(source: Path, filled: Path, files: str) -> None:
    other = Path(files, markers.FOLDER, "of-a-lake-that-is-no-more")
    other.touch()
    with pytest.raises(WarehouseError, match=str(other)):
        vacuum(filled, before=NOW)
    other.rename(
        other.with_name(other.name + UNFINISHED)
    )  # a marker that was being written when its process was killed
    assert vacuum(filled, before=NOW).loose == 0
    assert of_lake(address(filled)) == of_source(source)


@pytest.mark.slow
def test_vacuum_leaves_only_files_that_are_needed(source: Path, filled: Path, files: str) -> None:
    add_reject(source, "late")
    into_lake(source, filled)
    add_reject(source, "stopped")
    with pytest.raises(StoppedHereError):
        into_lake(source, filled, report=stops_after("rejects"))
    for marker in Path(files, markers.FOLDER).iterdir():
        marker.unlink()  # as of a catalogue that an earlier version made
    before = everything_in(files)
    would = vacuum(filled, before=NOW.replace(year=2100), dry_run=True)
    assert everything_in(files) == before
    assert vacuum(filled, before=NOW.replace(year=2100)) == would
    assert min(would.replaced, would.loose, would.bytes) > 0
    assert files_without_need(address(filled)) == set()
    assert samples(filled)["gpu_samples"].height > 0


@pytest.mark.slow
def test_files_of_others_stay_where_they_are(source: Path, filled: Path, files: str) -> None:
    with open_reader(source) as reader:
        origin = Path(files, str(reader.meta("warehouse")))
    theirs = [
        Path(files, "photos", "cat.jpg"),
        Path(files, "cat.parquet"),
        origin / "tables" / "note.txt",
        origin / "a",
    ]
    for file in theirs:
        file.parent.mkdir(exist_ok=True)
        file.write_text("precious")
    add_reject(source, "late")
    into_lake(source, filled)
    assert vacuum(filled, before=NOW.replace(year=2100)).loose == 0
    assert {file.read_text() for file in theirs} == {"precious"}


def test_unreadable_folders_of_others_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lost+found/theirs", "a/tables/ours", "a/tables/ours.unfinished"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    scan = os.scandir

    def refused(folder: str) -> object:
        if folder.endswith("lost+found"):
            raise PermissionError(folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", refused)
    assert FolderStorage(tmp_path).sizes("") == {"a/tables/ours": 4, "a/tables/ours.unfinished": 4}


def everything_in(files: str) -> set[Path]:
    return {file for file in Path(files).rglob("*") if file.is_file()}


def test_second_committer_is_refused_by_name(source: Path, filled: Path) -> None:
    with open_reader(source) as reader:
        origin = reader.meta("warehouse")
    assert origin is not None
    with locks.held(address(filled), origin), pytest.raises(LockedWarehouseError, match="is being written by process"):
        into_lake(source, filled)


@pytest.mark.slow
def test_cluster_of_another_warehouse_is_refused(source: Path, filled: Path, tmp_path: Path) -> None:
    add_reject(other := from_accounting(tmp_path / "other", jobs=20, compute=False), "r", cluster="demo")
    with pytest.raises(WarehouseError, match="has cluster demo from another warehouse"):
        into_lake(other, filled)


@pytest.mark.slow
def test_lake_has_the_clusters_of_several(source: Path, filled: Path, tmp_path: Path) -> None:
    other = from_accounting(tmp_path / "other", jobs=20, compute=False)
    into_lake(other, filled)
    with open_reader(filled) as fleet, open_reader(source) as one, open_reader(other) as two:
        for table in ("nodes", "gpu_time", "loads", "runs"):
            assert fleet.table(table).height == one.table(table).height + two.table(table).height
    out_of_lake(filled, tmp_path / "one", cluster="demo")
    assert differences(source, tmp_path / "one") == []


def test_cluster_that_a_lake_lacks_is_refused_with_its_names(filled: Path, tmp_path: Path) -> None:
    with pytest.raises(NoWarehouseError, match=r"it has no cluster 'alpha'; there are: demo$"):
        out_of_lake(filled, tmp_path / "one", cluster="alpha")


@pytest.mark.slow
def test_commit_looks_at_no_file_of_another_warehouse(
    source: Path, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = from_accounting(tmp_path / "other", jobs=20, compute=False)
    into_lake(other, filled)
    add_reject(other, "late", "other")
    seen: set[str] = set()
    entry_of = catalogue.entry_of

    def noted(address: str, name: str, rows: int) -> catalogue.CatalogueFile | None:
        seen.add(name.partition("/")[0])
        return entry_of(address, name, rows)

    monkeypatch.setattr(catalogue, "entry_of", noted)
    assert into_lake(other, filled).rows == 1
    origins = {warehouse_of(other), warehouse_of(source)}
    assert seen == {warehouse_of(other)}
    with catalogue.attached(address(filled), read_only=True) as lake:
        assert lake.clusters_of_others(warehouse_of(source))["other"] == warehouse_of(other)
        assert set(lake.clusters_of_others(warehouse_of(other)).values()) == {warehouse_of(source)}
        assert {entry.origin for entry in lake.entries()} == origins
        assert {entry.origin for entry in lake.entries(warehouse_of(source))} == {warehouse_of(source)}


@pytest.mark.parametrize("left", [0, 100, None])
def test_file_that_cannot_be_read_is_named(filled: Path, files: str, tmp_path: Path, left: int | None) -> None:
    shutil.rmtree(tmp_path / "cache")
    file = next(Path(files).glob("*/tables/main.node_states/*/*/*.parquet"))
    content = file.read_bytes()
    file.unlink()
    if left is not None:
        file.write_bytes(content[:left])
    named = rf"{re.escape(str(file))}, which its catalogue counts, cannot be read"
    with pytest.raises(CorruptWarehouseError, match=named), open_reader(filled):
        pass
    if left is None:
        with pytest.raises(CorruptWarehouseError, match=named):
            vacuum(filled, before=NOW, dry_run=True)


def test_another_place_for_the_files_is_refused(source: Path, filled: Path, files: str, tmp_path: Path) -> None:
    with pytest.raises(WarehouseError, match=rf"its files are in {files} since it was made, not in .*/others"):
        into_lake(source, filled, str(tmp_path / "others"))
    assert into_lake(source, filled, f"{files}/").rows == 0


def test_place_that_cannot_be_made_leaves_no_lake(source: Path, lake: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="cannot be written"):
        into_lake(source, lake, str(tmp_path / "file" / "files"))
    with pytest.raises(NoWarehouseError, match="there is no lake"):
        into_lake(source, lake)


def test_lake_is_not_written_directly(filled: Path) -> None:
    with pytest.raises(NoWarehouseError, match="warehouse copy DIR"), open_writer(filled, verb="test", now=NOW):
        pass


def test_missing_lake_says_how_to_make_one(source: Path, lake: Path) -> None:
    with pytest.raises(NoWarehouseError, match="--data-path"), open_reader(lake):
        pass
    with pytest.raises(NoWarehouseError, match="--data-path"):
        into_lake(source, lake)


@pytest.mark.slow
def test_large_tables_are_read_from_files(
    source: Path, filled: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "cache")
    monkeypatch.setattr("queries.lake.snapshot.IN_THE_COPY", 1)
    assert differences(source, filled) == []
    out_of_lake(filled, tmp_path / "back")
    assert differences(source, tmp_path / "back") == []


def test_missing_extension_names_its_package(filled: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("queries.lake.engine._packaged", lambda _name: None)
    monkeypatch.setattr("queries.lake.engine._database", _without_extensions(tmp_path, monkeypatch))
    with pytest.raises(WarehouseError, match="pip install duckdb-extension-ducklake=="), open_reader(filled):
        pass


def _without_extensions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> engine.Database:
    """A DuckDB that finds no extension, and can install none: below a file nobody makes a folder, not even root."""
    (folder / "file").touch()
    none = str(folder / "file" / "extensions")
    monkeypatch.setattr(engine, "config", lambda: {"extension_directory": none, "autoload_known_extensions": "false"})
    return engine.Database()
