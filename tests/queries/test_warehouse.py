"""The warehouse directory: transactions, locks, publishing, upgrades and partitions."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import duckdb
import polars as pl
import pytest

from queries import directory, integrity, sql_files
from queries.errors import (
    CheckError,
    CorruptWarehouseError,
    LockedWarehouseError,
    NewerWarehouseError,
    NoWarehouseError,
    QueryError,
    WarehouseError,
    WriteError,
)
from queries.opening import duckdb_errors
from queries.sandbox.run import user_sql
from queries.warehouse import Writer, open_reader, open_writer, published

NOW = datetime(2026, 11, 1, tzinfo=UTC)
DAY = date(2026, 10, 31)


def users(*names: str) -> pl.DataFrame:
    return pl.DataFrame({"cluster": "c", "user": list(names), "account": "llm"})


def put(root: Path, *names: str) -> None:
    with open_writer(root, verb="test", now=NOW) as writer, writer.transaction():
        writer.append("users", users(*names))


def names(root: Path) -> list[str]:
    with open_reader(root) as reader:
        return sorted(reader.table("users")["user"])


def samples(*values: float) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "cluster": "c",
            "node": "n1",
            "gpu": "0",
            "ts": [datetime(2026, 10, 31, hour, tzinfo=UTC) for hour in range(len(values))],
            "gpu_util": pl.Series(values, dtype=pl.Float32),
        }
    ).with_columns(pl.col("ts").dt.cast_time_unit("us"))


@pytest.mark.slow
def test_path_that_duckdb_cannot_open_is_refused_before_creation(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"w\xff")
    with pytest.raises(NoWarehouseError, match="only paths in UTF-8"):
        put(root, "alice")
    assert not root.exists()
    put(tmp_path / "w", "alice")
    (tmp_path / "w").rename(root)
    with pytest.raises(NoWarehouseError, match="only paths in UTF-8"):
        names(root)


@pytest.mark.slow
def test_what_is_committed_is_published_and_the_rest_is_not(tmp_path: Path) -> None:
    put(tmp_path / "w", "alice")

    def fail(writer: Writer) -> None:
        with writer.transaction():
            writer.append("users", users("bob"))
            raise RuntimeError("power cut")

    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer, pytest.raises(RuntimeError, match="power cut"):
        fail(writer)
    assert names(tmp_path / "w") == ["alice"]


@pytest.mark.slow
def test_readers_keep_working_while_a_writer_writes(tmp_path: Path) -> None:
    root = tmp_path / "w"
    put(root, "alice")
    with open_writer(root, verb="test", now=NOW) as writer, open_reader(root) as before:
        with writer.transaction():
            writer.append("users", users("bob"))
        assert before.table("users").height == 1
        assert names(root) == ["alice"]
    assert names(root) == ["alice", "bob"]


@pytest.mark.slow
def test_the_lock_names_its_holder(tmp_path: Path) -> None:
    root = tmp_path / "w"
    with open_writer(root, verb="trackside ingest slurm", now=NOW):
        with pytest.raises(LockedWarehouseError) as caught, open_writer(root, verb="other", now=NOW):
            pass
        output = str(caught.value)
        assert f"process {os.getpid()}" in output
        assert "trackside ingest slurm, since 2026-11-01" in output
    put(root, "alice")  # and it is gone with its holder


@pytest.mark.slow
def test_killed_writer_leaves_no_lock_and_loses_no_commit(tmp_path: Path) -> None:
    root = tmp_path / "w"
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from tests.queries.test_warehouse import NOW, users; from queries.warehouse import open_writer\n"
        "with open_writer(Path(sys.argv[1]), verb='test', now=NOW) as writer:\n"
        "    with writer.transaction(): writer.append('users', users('alice'))\n"
        "    with writer.transaction():\n"
        "        writer.append('users', users('bob')); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    here = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script, str(root)], cwd=here, check=False)
    assert done.returncode == -signal.SIGKILL
    put(root, "carol")
    assert names(root) == ["alice", "carol"]


@pytest.mark.slow
def test_matching_returns_rows_with_the_same_keys(tmp_path: Path) -> None:
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer, writer.transaction():
        writer.append("users", users("alice", "bob").with_columns(association=pl.lit("7")))
        result = writer.matching("users", users("bob", "bob", "carol"), keys=["cluster", "user"])
        assert result.select("user", "association").rows() == [("bob", "7")]
        assert writer.matching("users", users("bob"), keys=["cluster"]).height == 2


@pytest.mark.slow
def test_matching_refuses_other_names_than_declared_ones(tmp_path: Path) -> None:
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        rows = users("bob").with_columns(pl.lit("x").alias('user") --'))
        with pytest.raises(QueryError, match="no column"):
            writer.matching("users", rows, keys=["cluster", 'user") --'])
        with pytest.raises(KeyError):
            writer.matching("users AS t; --", rows, keys=["cluster"])


@pytest.mark.slow
def test_matching_samples_are_those_of_a_cluster_and_time(tmp_path: Path) -> None:
    hour = datetime(2026, 10, 31, 1, tzinfo=UTC)
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer, writer.transaction():
        writer.write_partition("gpu_samples", "c", DAY, samples(0.1, 0.2, 0.3))
        for keys, cluster, expected in ((["node"], "c", [0.2]), (["node"], "other", []), (["gpu"], "c", [0.2])):
            nodes = pl.DataFrame({"node": ["n1", "n2"], "gpu": ["0", "1"]})
            result = writer.matching_samples(
                "gpu_samples", nodes, keys=keys, cluster=cluster, since=hour, until=hour + timedelta(hours=1)
            )
            assert result["gpu_util"].to_list() == pytest.approx(expected)


@pytest.mark.slow
def test_commit_reads_only_files_of_changed_sample_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "w"
    with open_writer(root, verb="test", now=NOW) as writer:
        with writer.transaction():
            writer.write_partition("gpu_samples", "c", DAY, samples(0.1))
        checked: list[str] = []
        check = integrity.check

        def recorded(root: Path, file: integrity.ManifestFile, **how: bool) -> integrity.DamagedFile | None:
            checked.append(file.table)
            return check(root, file, **how)

        monkeypatch.setattr(integrity, "check", recorded)
        with writer.transaction():
            writer.append("users", users("alice"))
        assert checked == []
        with writer.transaction():
            writer.write_partition("gpu_samples", "c", DAY, samples(0.1, 0.2))
        assert checked == ["gpu_samples"]


@pytest.mark.slow
def test_view_without_a_damaged_file_has_it_once_it_is_back(tmp_path: Path) -> None:
    root = tmp_path / "w"
    with open_writer(root, verb="test", now=NOW) as writer, writer.transaction():
        writer.write_partition("gpu_samples", "c", DAY, samples(0.1))
    (file,) = root.glob("raw/gpu_samples/*/*/*.parquet")
    content = file.read_bytes()
    file.write_bytes(content[:-9])
    with open_writer(root, verb="test", now=NOW) as writer, writer.transaction():
        writer.write_partition("gpu_samples", "other", DAY, samples(0.2).with_columns(cluster=pl.lit("other")))
    assert clusters_in_view(root) == ["other"]
    file.write_bytes(content)
    put(root, "alice")
    assert clusters_in_view(root) == ["c", "other"]


def clusters_in_view(root: Path) -> list[str]:
    """Clusters of the samples as a person's own DuckDB reads them."""
    with duckdb.connect(str(directory.copies(root)[-1]), read_only=True) as own:
        return [cluster for (cluster,) in own.execute("SELECT cluster FROM gpu_samples ORDER BY ALL").fetchall()]


@pytest.mark.slow
def test_only_the_last_published_copies_stay(tmp_path: Path) -> None:
    root = tmp_path / "w"
    for name in ["a", "b", "c", "d"]:
        put(root, name)
    assert len(list((root / "published").glob("*.duckdb"))) == directory.PUBLISHED_KEPT
    assert names(root) == ["a", "b", "c", "d"]


@pytest.mark.slow
def test_crash_before_publishing_is_repaired_by_the_next_writer(tmp_path: Path) -> None:
    root = tmp_path / "w"
    put(root, "alice")
    put(root, "bob")
    for leftover in (root / "published").iterdir():
        if leftover.name == "current":
            leftover.unlink()
    (root / "published" / "00000099.unfinished").write_text("half a copy")
    put(root, "carol")
    assert names(root) == ["alice", "bob", "carol"]
    assert not list((root / "published").glob("*.unfinished"))


@pytest.mark.slow
@pytest.mark.parametrize("known", [1, len(sql_files.schema_steps()) // 2, len(sql_files.schema_steps()) - 1])
def test_an_earlier_schema_is_upgraded(known: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "w"
    every, views = sql_files.schema_steps(), sql_files.views()
    with monkeypatch.context() as old:
        old.setattr(sql_files, "schema_steps", lambda: every[:known])
        old.setattr(sql_files, "views", lambda: ())
        old.setattr(sql_files, "sample_tables", lambda: ())
        with open_writer(root, verb="test", now=NOW) as writer, writer.transaction():
            writer.append("meta", pl.DataFrame({"key": ["kept"], "value": ["yes"]}))
    with open_writer(root, verb="test", now=NOW) as writer:
        assert writer.meta("kept") == "yes"
    with open_reader(root) as reader:
        assert reader.meta("kept") == "yes"
        for view in views:
            reader.table(view.name)


@pytest.mark.slow
def test_views_of_a_newer_version_exist_before_it_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "w"
    with monkeypatch.context() as old:
        old.setattr(sql_files, "views", lambda views=sql_files.views(): views[:-1])  # noqa: B008 - those before patching
        put(root, "alice")
    with open_reader(root) as reader:
        for view in sql_files.views():
            reader.table(view.name)


@pytest.mark.slow
def test_a_newer_warehouse_is_refused_untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "w"
    put(root, "alice")
    with monkeypatch.context() as old:
        old.setattr(sql_files, "schema_steps", lambda steps=sql_files.schema_steps(): steps[:-1])  # noqa: B008 - the steps before patching
        with pytest.raises(NewerWarehouseError, match="Upgrade Trackside"), open_reader(root):
            pass
        with pytest.raises(NewerWarehouseError, match="Nothing was changed"), open_writer(root, verb="t", now=NOW):
            pass
    assert names(root) == ["alice"]


@pytest.mark.slow
def test_warehouse_of_a_development_version_is_refused_untouched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "w"
    later = sql_files.SchemaStep(99, "0099_later.sql", "CREATE TABLE later (a BIGINT);")  # it had more steps than ours
    with monkeypatch.context() as old:
        first, *others = sql_files.schema_steps()
        edited = replace(first, sql=first.sql + "\nCREATE TABLE dropped_later (a BIGINT);\n")
        old.setattr(sql_files, "schema_steps", lambda: (edited, *others, later))
        put(root, "alice")
    before = digests(root)
    way_out = r"before the first release.\n.*new directory.*`trackside export`.*Nothing was changed"
    with pytest.raises(CorruptWarehouseError, match=way_out), open_reader(root):
        pass
    for repair in (False, True):
        opened = open_writer(root, verb="t", now=NOW, repair=repair)
        with pytest.raises(CorruptWarehouseError, match=way_out), opened:
            pass
    assert digests(root) == before


def digests(root: Path) -> dict[str, str]:
    """The sha256 of each file of a directory but the lock."""
    files = [path for path in root.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_warehouse_without_one_of_its_tables_is_damaged(tmp_path: Path) -> None:
    root = tmp_path / "w"
    put(root, "alice")
    with duckdb.connect(str(directory.copies(root)[-1])) as copy:
        copy.execute("DROP TABLE interruptions")
    with open_reader(root) as reader:
        with pytest.raises(CorruptWarehouseError, match=r"has no table interruptions\.\n.*doctor --repair"):
            reader.frame("SELECT * FROM interruptions")
        with pytest.raises(duckdb.CatalogException):  # a fault of ours stays one
            reader.frame("SELECT * FROM nonsense")
    with duckdb.connect(str(root / directory.DATABASE)) as database:
        database.execute("DROP TABLE gpu_time")
    with (
        open_writer(root, verb="test", now=NOW) as writer,
        pytest.raises(CorruptWarehouseError, match=r"has no table gpu_time\.\n.*doctor --repair"),
        writer.transaction(),
    ):
        writer.delete("gpu_time", pl.DataFrame({"cluster": ["alice"]}))


@pytest.mark.slow
def test_a_published_copy_without_tables_is_no_warehouse(tmp_path: Path) -> None:
    root = tmp_path / "w"
    put(root, "alice")
    copy = directory.copies(root)[-1]
    copy.unlink()
    duckdb.connect(str(copy)).close()
    with pytest.raises(CorruptWarehouseError, match="cannot be read as a warehouse"), open_reader(root):
        pass


@pytest.mark.slow
def test_step_after_the_baseline_adds_a_column_with_its_comment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "w"
    put(root, "alice")
    sql = "ALTER TABLE users ADD COLUMN nickname VARCHAR; -- what friends call them\nDROP TABLE lost_files;\n"
    steps = (*sql_files.schema_steps(), sql_files.SchemaStep(99, "0099_nickname.sql", sql))
    monkeypatch.setattr(sql_files, "schema_steps", lambda: steps)
    with pytest.raises(WarehouseError, match="the first writer upgrades it"), open_reader(root):
        pass
    put(root, "bob")
    with open_reader(root) as reader:
        described = reader.frame("SELECT comment FROM duckdb_columns() WHERE column_name = 'nickname'")
        assert reader.table("users")["nickname"].to_list() == [None, None]
    assert described["comment"].to_list() == ["what friends call them"]
    tables = {table.name: table for table in sql_files.all_tables()}
    assert tables["users"].columns[-1] == sql_files.Column("nickname", "VARCHAR", "what friends call them")
    assert "lost_files" not in tables


def test_an_upgrade_that_fails_leaves_none_of_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "w"
    put(root, "alice")
    steps = [
        sql_files.SchemaStep(98, "0098_whole.sql", "CREATE TABLE whole (a BIGINT);"),
        sql_files.SchemaStep(99, "0099_broken.sql", "CREATE TABLE whole (a BIGINT);"),
    ]
    with monkeypatch.context() as broken:
        broken.setattr(sql_files, "schema_steps", lambda every=sql_files.schema_steps(): (*every, *steps))  # noqa: B008 - the steps before patching
        with pytest.raises(duckdb.CatalogException), open_writer(root, verb="test", now=NOW):
            pass
    put(root, "bob")
    assert names(root) == ["alice", "bob"]


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["garbage", "cut"])
def test_corrupt_warehouse_is_reported_with_the_way_back(damage: str, tmp_path: Path) -> None:
    root = tmp_path / "w"
    put(root, "alice")
    live = root / "warehouse.duckdb"
    whole = live.read_bytes()
    live.write_bytes(b"not a database" * 100 if damage == "garbage" else whole[: len(whole) // 3])
    with pytest.raises(CorruptWarehouseError, match="published copy") as caught, open_writer(root, verb="t", now=NOW):
        pass
    copy = next(word for word in str(caught.value).split() if word.endswith(".duckdb") and "published" in word)
    shutil.copy(copy, live)
    put(root, "bob")
    assert names(root) == ["alice", "bob"]


def test_missing_warehouse_is_reported_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(NoWarehouseError, match="trackside ingest slurm"), open_reader(tmp_path / "w"):
        pass


def test_reader_refuses_a_file_as_no_directory(tmp_path: Path) -> None:
    (tmp_path / "w").touch()
    with pytest.raises(NoWarehouseError, match="is a file; a warehouse is a directory"), open_reader(tmp_path / "w"):
        pass


def test_copy_open_with_other_settings_is_not_corrupt(tmp_path: Path) -> None:
    put(tmp_path, "alice")
    with (
        duckdb.connect(str(published(tmp_path)), read_only=True, config={"threads": 1}),
        pytest.raises(LockedWarehouseError, match="Close that connection first"),
        open_reader(tmp_path),
    ):
        pass


def test_a_folder_of_something_else_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(NoWarehouseError, match=r"thesis\.tex"), open_writer(tmp_path, verb="t", now=NOW):
        pass


def test_unwritable_place_is_reported(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(WriteError, match="cannot be written"), open_writer(blocker / "w", verb="t", now=NOW):
        pass


def _commit_without_room(writer: Writer) -> None:
    """A transaction whose commit finds no room: no file may grow from its end on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with writer.transaction():
            writer.append("users", users(*(f"user-{number}" for number in range(2000))))
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.slow
def test_commit_without_room_is_no_fault_of_ours(tmp_path: Path) -> None:
    root = tmp_path / "w"
    put(root, "alice")
    with (
        pytest.raises(WriteError, match=r"w cannot be written: .*(?s:.)*run it again"),
        open_writer(root, verb="t", now=NOW) as writer,
    ):
        _commit_without_room(writer)
    assert names(root) == ["alice"]
    put(root, "bob")
    assert names(root) == ["alice", "bob"]


def test_a_transaction_within_another_is_a_fault_of_ours(tmp_path: Path) -> None:
    with pytest.raises(duckdb.TransactionException), duckdb_errors(tmp_path), duckdb.connect() as connection:
        connection.execute("BEGIN; BEGIN")


@pytest.mark.slow
def test_a_moved_warehouse_still_reads_its_samples(tmp_path: Path) -> None:
    root = tmp_path / "w"
    with open_writer(root, verb="t", now=NOW) as writer, writer.transaction():
        writer.write_partition("gpu_samples", "c", DAY, samples(0.1, 0.2))
    moved = tmp_path / "elsewhere"
    root.rename(moved)
    with open_reader(moved) as reader:
        assert reader.table("gpu_samples").height == 2
    put(moved, "alice")
    rows, _ = user_sql(moved, "SELECT count(*) AS n FROM gpu_samples")
    assert rows["n"].item() == 2


@pytest.mark.slow
def test_partition_is_replaced_whole_and_unused_files_go(tmp_path: Path) -> None:
    root = tmp_path / "w"

    def write(*values: float) -> None:
        with open_writer(root, verb="t", now=NOW) as writer, writer.transaction():
            writer.write_partition("gpu_samples", "a/b c", DAY, samples(*values))

    write(0.1, 0.2, 0.3)
    with open_reader(root) as before:
        write(0.5)
        assert before.table("gpu_samples").height == 3  # the older copy still finds its file
    with open_reader(root) as after:
        result = after.table("gpu_samples")
        assert result["gpu_util"].to_list() == pytest.approx([0.5])
        assert set(result.columns) == {
            c.name for t in sql_files.all_tables() if t.name == "raw.gpu_samples" for c in t.columns
        }
    write(0.6)
    write(0.7)
    assert len(list((root / "raw").glob("*/*/*/*.parquet"))) <= directory.PUBLISHED_KEPT + 1


@pytest.mark.slow
def test_replace_append_new_and_delete_go_by_key(tmp_path: Path) -> None:
    with open_writer(tmp_path / "w", verb="t", now=NOW) as writer:
        with writer.transaction():
            writer.append("users", users("alice", "bob"))
            writer.append_new("users", users("bob", "carol", "carol"), keys=["cluster", "user"])
            writer.replace("users", users("alice").with_columns(account=pl.lit("ops")), keys=["cluster", "user"])
            writer.delete("users", users("bob").select("user"))
        result = writer.table("users").sort("user").select("user", "account")
    assert result.rows() == [("alice", "ops"), ("carol", "llm")]


@pytest.mark.slow
def test_a_check_that_stops_undoes_everything(tmp_path: Path) -> None:
    root = tmp_path / "w"
    once = {"cluster": "c", "scheduler": "slurm", "job_id": "1", "submitted_at": NOW, "state": "FAILED"}
    twice = pl.DataFrame([once | {"n_nodes": 0, "n_gpus": 0}] * 2)

    def load(writer: Writer) -> None:
        with writer.transaction():
            writer.append("stored.attempts", twice)
            writer.stop_on_failed_checks()

    with open_writer(root, verb="t", now=NOW) as writer:
        with pytest.raises(CheckError, match="raw_attempts_unique"):
            load(writer)
        assert writer.table("attempts").is_empty()
