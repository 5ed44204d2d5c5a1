"""Directories that were copied in part, restored or mixed: a writer restores them or refuses, and loses nothing.

What may have happened                                  what the next writer does
------------------------------------------------------  ---------------------------------------------------------------
database forgotten by a copy or restore                 restores it from the newest published copy
database empty (0 bytes)                                restores it, too
database and published/ forgotten                       refuses: copy one of them here
database forgotten, raw/ forgotten or in part           refuses: copy raw/, or repair
database forgotten, newest copy damaged                 refuses; repair goes back to the copy before
database and write-ahead log of a killed writer apart   restores; the log is set aside
database rolled back (older than the published copy)    refuses; repair goes on from the copy
database emptied (a valid one without tables)           refuses; repair goes on from the copy
database and published/ rolled back, raw/ newer         refuses; repair sets newer samples aside
database damaged                                        refuses; repair goes on from the copy
published/ forgotten                                    publishes anew
`current` missing, a file, or older                     readers take the newest copy (or the older one); points anew
newest published copy missing, `current` dangling       readers are refused; publishes anew
published copy damaged                                  sets it aside and publishes anew
raw/ forgotten or in part                               writes; who needs the missing samples is refused
lock copied along, `.unfinished` files left             writes
write-ahead log of another database, or of an older     the log is set aside
  state of this one
write-ahead log of a killed writer                      goes on from there
write-ahead log of a killed writer lost                 goes on; what it had written is set aside, never deleted
published/ of another warehouse                         refuses
raw/ of another warehouse merged in                     refuses, or sets the files aside
copied while a writer wrote                             goes on from the last commit
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import duckdb
import pytest

from queries import directory, recovery
from queries.errors import CorruptWarehouseError
from queries.warehouse import open_reader, open_writer
from tests.queries.killed_writers import FIRST, killed_writer, samples
from tests.queries.test_warehouse import NOW, users

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queries.reader import Reader


def load(root: Path, name: str, *, day: int | None = None, value: float = 0.5, repair: bool = False) -> None:
    """A load: a user, and a day of samples."""
    with open_writer(root, verb="test", now=NOW, repair=repair) as writer, writer.transaction():
        writer.append("users", users(name))
        if day is not None:
            writer.write_partition("gpu_samples", "c", FIRST + timedelta(days=day), samples(day, value))


def names(root: Path) -> list[str]:
    with open_reader(root) as reader:
        return _names(reader)


def values(root: Path, day: int) -> list[float]:
    with open_reader(root) as reader:
        return _values(reader, day)


def everything(root: Path, *days: int) -> tuple[list[str], list[list[float]], int]:
    """Names, the values of some days, and the version: to open a reader takes longer than all of it."""
    with open_reader(root) as reader:
        return _names(reader), [_values(reader, day) for day in days], reader.data_version


def _names(reader: Reader) -> list[str]:
    return sorted(reader.table("users")["user"])


def _values(reader: Reader, day: int) -> list[float]:
    since = datetime.combine(FIRST + timedelta(days=day), datetime.min.time(), UTC)
    span = {"cluster": "c", "since": since, "until": since + timedelta(days=1)}
    rows = reader.query("gpu_samples_between", first="", last="z", metrics="", **span)
    return [round(each, 3) for each in rows["gpu_util"]]


def bytes_in(root: Path) -> Counter[str]:
    """Digests of every file of samples and every whole database: what must not be lost."""
    kept = [*root.rglob("*.parquet"), *root.rglob("*.duckdb"), *root.rglob("*.parquet.*"), *root.rglob("*.duckdb.*")]
    return Counter(hashlib.sha256(file.read_bytes()).hexdigest() for file in kept if file.is_file())


@dataclass
class Site:
    """A warehouse, an older backup of it, and another warehouse."""

    root: Path
    backup: Path
    other: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder_ = tmp_path_factory.mktemp("site")
    root = folder_ / "w"
    load(root, "alice", day=0)
    load(root, "bob", day=1)
    shutil.copytree(root, folder_ / "backup", symlinks=True)
    load(root, "carol", day=2)
    load(root, "dora", day=2, value=0.75)
    load(root, "dana")  # the file that was replaced goes
    for name in ("x", "y", "z"):
        load(folder_ / "other", name, day=0, value=0.25)
    return folder_


@pytest.fixture
def site(built: Path, tmp_path: Path) -> Site:
    shutil.copytree(built, tmp_path / "site", symlinks=True)
    site = Site(*(tmp_path / "site" / name for name in ("w", "backup", "other")))
    left = {**(directory.last_holder(site.root) or {}), "published": directory.published_state(site.root)}
    (site.root / "lock").write_text(json.dumps(left))  # as if it had been written here: what happens next shows, still
    return site


EVERYONE = ["alice", "bob", "carol", "dana", "dora"]


def flip(file: Path, place: float = 0.5) -> None:
    content = bytearray(file.read_bytes())
    content[int(len(content) * place)] ^= 4
    file.write_bytes(content)


# --- what happens to a directory


def no_database(site: Site) -> None:
    (site.root / "warehouse.duckdb").unlink()


def empty_database(site: Site) -> None:
    (site.root / "warehouse.duckdb").write_bytes(b"")


def only_published_and_raw(site: Site) -> None:
    for item in site.root.iterdir():
        if item.name not in {"published", "raw"}:
            item.unlink()


def no_database_and_no_pointer(site: Site) -> None:
    no_database(site)
    (site.root / "published" / "current").unlink()


def no_database_links_followed(site: Site) -> None:
    """As `cp -rL` or a zip file leaves it: `current` is a copy of what it pointed at."""
    no_database(site)
    links_followed(site)


def database_and_log_apart(site: Site) -> None:
    with open_writer(site.root, verb="test", now=NOW):
        pass  # the directory was moved: that is a version of its own
    killed_writer(site.root, commits=0)
    no_database(site)


def no_published(site: Site) -> None:
    shutil.rmtree(site.root / "published")


def no_pointer(site: Site) -> None:
    (site.root / "published" / "current").unlink()


def dangling_pointer(site: Site) -> None:
    no_pointer(site)
    (site.root / "published" / "current").symlink_to("00000099.duckdb")


def pointer_to_older(site: Site) -> None:
    no_pointer(site)
    (site.root / "published" / "current").symlink_to(directory.copies(site.root)[0].name)


def links_followed(site: Site) -> None:
    content = (site.root / "published" / "current").read_bytes()
    no_pointer(site)
    (site.root / "published" / "current").write_bytes(content)


def damaged_copy(site: Site) -> None:
    directory.copies(site.root)[-1].write_bytes(b"no database" * 1000)


def copy_cut_off(site: Site) -> None:
    copy = directory.copies(site.root)[-1]
    copy.write_bytes(copy.read_bytes()[:5000])


def lock_of_another_machine(site: Site) -> None:
    (site.root / "lock").write_text('{"pid": 1, "host": "elsewhere", "verb": "trackside serve", "since": "2026-01-01"}')


def lock_of_nonsense(site: Site) -> None:
    (site.root / "lock").write_text("[1, 2")


def no_lock(site: Site) -> None:
    (site.root / "lock").unlink()


def unfinished_files(site: Site) -> None:
    for name in ("00000099.unfinished", "current.unfinished", "restored.unfinished"):
        (site.root / "published" / name).write_text("half a copy")


def log_of_another(site: Site) -> None:
    killed_writer(site.other, commits=2)
    shutil.copy(site.other / "warehouse.duckdb.wal", site.root)


def log_of_another_without_lock(site: Site) -> None:
    log_of_another(site)
    no_lock(site)


def log_of_another_with_its_lock(site: Site) -> None:
    log_of_another(site)
    shutil.copy(site.other / "lock", site.root)


def log_of_an_older_state(site: Site) -> None:
    killed_writer(site.backup)
    for name in ("warehouse.duckdb.wal", "lock"):
        shutil.copy(site.backup / name, site.root)


def killed(site: Site) -> None:
    killed_writer(site.root)


def killed_three_times(site: Site) -> None:
    for _ in range(3):
        killed_writer(site.root, commits=0)


def killed_and_log_lost(site: Site) -> None:
    with open_writer(site.root, verb="test", now=NOW):
        pass  # the directory was moved: that is a version of its own
    killed_writer(site.root, commits=0)
    (site.root / "warehouse.duckdb.wal").unlink(missing_ok=True)


def raw_of_another_merged_in(site: Site) -> None:
    """Its versions are no higher than ours: nothing tells them from a killed writer's."""
    for file in site.other.rglob("*.parquet"):
        target = site.root / file.relative_to(site.other)
        shutil.copy(file, target.with_name("00000003-7.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "happened",
    [
        no_database, empty_database, only_published_and_raw, no_database_and_no_pointer, no_database_links_followed,
        database_and_log_apart, no_published, no_pointer, dangling_pointer, pointer_to_older, links_followed,
        damaged_copy, copy_cut_off, lock_of_another_machine, lock_of_nonsense, no_lock, unfinished_files,
        log_of_another, log_of_another_without_lock, log_of_another_with_its_lock, log_of_an_older_state, killed,
        killed_three_times, killed_and_log_lost, raw_of_another_merged_in,
    ],
)  # fmt: skip
def test_the_next_writer_continues_with_all_files_present(happened: Callable[[Site], None], site: Site) -> None:
    highest = directory.number(directory.copies(site.root)[-1])
    happened(site)
    before = bytes_in(site.root / "raw")
    load(site.root, "eve", day=4)
    kept = ["killed0"] if happened is killed else []
    users_there, values_there, reached = everything(site.root, 0, 1, 2, 4)
    assert users_there == sorted([*EVERYONE, "eve", *kept])
    assert values_there == [[0.5], [0.5], [0.75], [0.5]]
    assert not before - bytes_in(site.root), "a file of samples was lost"
    assert reached > highest
    assert not list(site.root.rglob("*.unfinished"))


@pytest.mark.slow
@pytest.mark.parametrize("happened", [no_database, damaged_copy, log_of_another])
def test_what_was_done_about_it_is_reported(
    happened: Callable[[Site], None], site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    happened(site)
    load(site.root, "eve")
    assert str(site.root) in caplog.text
    assert "restored from the published copy" in caplog.text or "was moved to set-aside/" in caplog.text


# --- what is refused, and what a repair makes of it


def no_database_nothing_published(site: Site) -> None:
    no_database(site)
    shutil.rmtree(site.root / "published")


def no_database_no_raw(site: Site) -> None:
    no_database(site)
    shutil.rmtree(site.root / "raw")


def no_database_raw_in_part(site: Site) -> None:
    no_database(site)
    next(site.root.rglob("00000003.parquet")).unlink()


def no_database_raw_cut_off(site: Site) -> None:
    no_database(site)
    file = next(site.root.rglob("00000003.parquet"))
    file.write_bytes(file.read_bytes()[:-5])


def no_database_newest_copy_damaged(site: Site) -> None:
    no_database(site)
    damaged_copy(site)


def rolled_back(site: Site) -> None:
    shutil.copy(site.backup / "warehouse.duckdb", site.root)


def emptied(site: Site) -> None:
    no_database(site)
    duckdb.connect(str(site.root / "warehouse.duckdb")).close()


def damaged(site: Site) -> None:
    (site.root / "warehouse.duckdb").write_bytes(b"no database" * 1000)


def rolled_back_but_for_raw(site: Site) -> None:
    rolled_back(site)
    shutil.rmtree(site.root / "published")
    shutil.copytree(site.backup / "published", site.root / "published", symlinks=True)


def published_of_another(site: Site) -> None:
    shutil.rmtree(site.root / "published")
    shutil.copytree(site.other / "published", site.root / "published", symlinks=True)


def newer_raw_of_another_merged_in(site: Site) -> None:
    for file in site.other.rglob("*.parquet"):
        shutil.copy(file, (site.root / file.relative_to(site.other)).with_name("00000042.parquet"))


def log_damaged(site: Site) -> None:
    killed_writer(site.root)
    flip(site.root / "warehouse.duckdb.wal", 0.9)


ALL = EVERYONE
REFUSED: dict[Callable[[Site], None], list[str] | None] = {
    no_database_nothing_published: None,
    no_database_no_raw: ALL,
    no_database_raw_in_part: ALL,
    no_database_raw_cut_off: ALL,
    no_database_newest_copy_damaged: ["alice", "bob", "carol", "dora"],
    rolled_back: ALL,
    emptied: ALL,
    damaged: ALL,
    rolled_back_but_for_raw: ALL[:2],
    published_of_another: None,
    newer_raw_of_another_merged_in: ALL,
    log_damaged: ALL,
}
"""Who is there after a repair; None: only a person can put it right."""


@pytest.mark.slow
@pytest.mark.parametrize("happened", REFUSED)
def test_what_only_a_person_can_decide_is_refused_untouched(happened: Callable[[Site], None], site: Site) -> None:
    happened(site)
    before = bytes_in(site.root)
    for _ in range(2):
        with pytest.raises(CorruptWarehouseError) as caught:
            load(site.root, "eve")
        output = str(caught.value)
        assert str(site.root) in output
        assert "copy" in output.lower() or "move" in output.lower()
        assert ("trackside doctor --repair" in output) == (REFUSED[happened] is not None)
    assert bytes_in(site.root) == before


@pytest.mark.slow
@pytest.mark.parametrize("happened", [each for each, after in REFUSED.items() if after is not None])
def test_repair_continues_from_the_newest_whole_copy(happened: Callable[[Site], None], site: Site) -> None:
    """It deletes nothing."""
    highest = directory.number(directory.copies(site.root)[-1])
    happened(site)
    before = bytes_in(site.root / "raw")
    database = site.root / "warehouse.duckdb"
    old = hashlib.sha256(database.read_bytes()).hexdigest() if database.exists() else None
    with open_writer(site.root, verb="test", now=NOW, repair=True):
        pass
    load(site.root, "eve")
    users_there, _, reached = everything(site.root)
    assert users_there == [*(REFUSED[happened] or []), "eve"]
    assert reached > highest - 2
    after = bytes_in(site.root)
    assert not before - after
    if happened in {rolled_back, emptied, damaged}:
        assert old in after
    with open_writer(site.root, verb="test", now=NOW) as writer:  # a number that stood for other data is not used again
        with writer.transaction():
            writer.append("users", users("fay"))
        assert writer.data_version > highest


# --- readers


@pytest.mark.parametrize("happened", [no_pointer, links_followed, no_database, rolled_back])
def test_readers_take_the_newest_existing_copy(happened: Callable[[Site], None], site: Site) -> None:
    happened(site)
    assert names(site.root) == EVERYONE


def test_readers_do_not_take_an_older_copy_for_the_newest(site: Site) -> None:
    directory.copies(site.root)[-1].unlink()
    with pytest.raises(CorruptWarehouseError, match="is missing"):
        names(site.root)
    load(site.root, "eve")
    assert names(site.root) == [*EVERYONE, "eve"]


def test_sample_readers_without_database_and_copies_are_refused(site: Site) -> None:
    no_database_nothing_published(site)
    with pytest.raises(CorruptWarehouseError, match="incomplete"):
        names(site.root)


def test_queries_without_missing_samples_work_and_so_do_writes(site: Site) -> None:
    next((site.root / "raw").rglob(f"day={FIRST}/*.parquet")).unlink()
    load(site.root, "eve", day=4)
    assert values(site.root, 1) == [0.5]
    assert values(site.root, 4) == [0.5]
    for _ in range(2):
        with pytest.raises(CorruptWarehouseError, match=f"cluster c on {FIRST}"):
            values(site.root, 0)


# --- copies made while a writer wrote


@pytest.mark.slow
def test_copy_made_during_a_write_continues_from_its_last_commit(site: Site, tmp_path: Path) -> None:
    with open_writer(site.root, verb="test", now=NOW) as writer:
        with writer.transaction():
            writer.append("users", users("eve"))
        with writer.transaction():
            writer.write_partition("gpu_samples", "c", FIRST, samples(0, 0.125))
            writer.append("users", users("fay"))
            shutil.copytree(site.root, tmp_path / "copy", symlinks=True)
    load(tmp_path / "copy", "gus")
    assert names(tmp_path / "copy") == [*EVERYONE, "eve", "gus"]
    assert values(tmp_path / "copy", 0) == [0.5]
    assert names(site.root) == [*EVERYONE, "eve", "fay"]


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 9, 18])
def test_a_log_that_was_cut_off_gives_a_state_that_was_committed(place: int, site: Site) -> None:
    killed_writer(site.root, commits=2)
    log = site.root / "warehouse.duckdb.wal"
    os.truncate(log, log.stat().st_size * place // 20)
    before = bytes_in(site.root / "raw")
    try:
        load(site.root, "eve")
    except CorruptWarehouseError as error:
        assert "trackside doctor --repair" in str(error)  # noqa: PT017 - refused is as good
        load(site.root, "eve", repair=True)
    users_there, values_there, _ = everything(site.root, 10, 11)
    committed = [name for name in users_there if name.startswith("killed")]
    assert committed in ([], ["killed0"], ["killed0", "killed1"])
    assert [bool(each) for each in values_there] == [number < len(committed) for number in range(2)]
    assert not before - bytes_in(site.root)


@pytest.mark.slow
def test_files_as_the_last_writer_left_them_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(tmp_path, "alice")

    def opened(path: Path, **_: object) -> None:
        raise NotImplementedError(path.name)

    monkeypatch.setattr(recovery, "contents", opened)
    load(tmp_path, "bob")
    load(tmp_path, "carol")
    os.utime(directory.copies(tmp_path)[-1], ns=(0, 0))
    with pytest.raises(NotImplementedError, match=r"warehouse\.duckdb"):
        load(tmp_path, "dora")
    assert names(tmp_path) == ["alice", "bob", "carol"]


@pytest.mark.slow
def test_damaged_file_spoils_no_later_look(tmp_path: Path) -> None:
    """All are attached to one database of this process, which must not stay unusable, nor hold a file open."""
    load(tmp_path / "w", "alice")
    for content in (b"no database" * 1000, (tmp_path / "w" / "warehouse.duckdb").read_bytes()[:5000]):
        (tmp_path / "bad.duckdb").write_bytes(content)
        with pytest.raises(CorruptWarehouseError):
            recovery.contents(tmp_path / "bad.duckdb")
        assert recovery.contents(directory.copies(tmp_path / "w")[-1]).version > 0
    load(tmp_path / "w", "bob")
    assert names(tmp_path / "w") == ["alice", "bob"]
