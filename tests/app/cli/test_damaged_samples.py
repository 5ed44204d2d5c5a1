"""A damaged or missing file of samples: refused by name before a number is made of it, set aside, and loaded again."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from app import clock
from app.cli import main as cli
from app.config.settings import Config
from app.results.serving.cache import AnswerCache
from app.service import integrity as repairing
from app.service.server import health_of
from app.service.worker import Worker
from queries import integrity, sql_files
from queries.errors import CorruptWarehouseError, QueryError
from queries.sandbox.run import user_sql
from queries.warehouse import open_reader, open_writer
from tests.ingest.prometheus.store.test_storage import NOW, START, minutes, put
from tests.support.command import contents

if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path

DAY = date(2026, 11, 21)
SPAN = {"cluster": "c", "first": "", "last": "z", "metrics": ""}


def file_of(root: Path, table: str = "gpu_samples", day: date = DAY) -> Path:
    return next(root.glob(f"raw/{table}/cluster=c/day={day}/*.parquet"))


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 16
    file.write_bytes(content)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two hours on each side of midnight."""
    return put(tmp_path / "w", minutes(0, 240))


def between(root: Path, since: datetime, until: datetime) -> int:
    with open_reader(root) as reader:
        return reader.query("gpu_samples_between", **SPAN, since=since, until=until).height


MIDNIGHT = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["flipped", "cut", "deleted"])
def test_query_of_a_damaged_day_is_refused_and_others_answered(how: str, root: Path) -> None:
    after = between(root, MIDNIGHT, MIDNIGHT + timedelta(hours=2))
    file = file_of(root)
    if how == "flipped":
        flip(file)
    elif how == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    else:
        file.unlink()
    with pytest.raises(CorruptWarehouseError) as caught:
        between(root, START, MIDNIGHT)
    output = str(caught.value)
    assert "gpu_samples of cluster c on 2026-11-21" in output.splitlines()[0]
    assert "trackside doctor --repair" in output
    assert "trackside ingest prometheus --cluster c --since 2026-11-21 --until 2026-11-22" in output
    assert between(root, MIDNIGHT, MIDNIGHT + timedelta(hours=2)) == after > 0
    with pytest.raises(CorruptWarehouseError, match="2026-11-21"):
        user_sql(root, "SELECT count(*) FROM gpu_samples")
    assert user_sql(root, "SELECT count(*) AS n FROM gpu_hours")[0]["n"].item() > 0
    with open_reader(root) as reader:
        assert reader.table("node_samples").height > 0
        assert not [each for each in reader.checks() if "gpu" in each.check.description]


@pytest.mark.slow
def test_a_damaged_day_can_be_set_aside_and_loaded_again(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(root)
    flip(file_of(root))
    with pytest.raises(CorruptWarehouseError):
        put(root, minutes(0, 60))  # it would have to be merged with what is damaged
    assert cli.main(["doctor", "--warehouse", str(root)]) == 41
    assert "gpu_samples of cluster c on 2026-11-21" in capsys.readouterr().out
    assert cli.main(["doctor", "--warehouse", str(root), "--repair"]) == 0
    output = capsys.readouterr().out
    assert "removed: gpu_samples of cluster c on 2026-11-21" in output
    assert "warn" in output
    assert "load them again" in output
    assert between(root, START, MIDNIGHT) == 0
    assert len(list((root / "set-aside").rglob("*.parquet"))) == 1
    put(root, minutes(0, 240))
    after = contents(root)
    assert all(after[name].equals(rows) for name, rows in before.items() if name not in {"lost_files"})
    assert cli.main(["doctor", "--warehouse", str(root)]) == 0
    assert "load them again" not in capsys.readouterr().out


@pytest.mark.slow
def test_other_days_load_and_compact_despite_a_damaged_one(root: Path) -> None:
    put(root, minutes(240, 300))
    flip(file_of(root))
    put(root, minutes(60 * 24 + 240, 60 * 24 + 300))  # a new day: earlier ones are put together
    assert between(root, MIDNIGHT, MIDNIGHT + timedelta(days=2)) > 0
    with pytest.raises(CorruptWarehouseError):
        between(root, START, MIDNIGHT)


@pytest.mark.slow
def test_a_damaged_file_is_not_rewritten(root: Path) -> None:
    """Its rows would get a digest that is right."""
    flip(file_of(root))
    content = file_of(root).read_bytes()
    for first in (0, 30):
        with pytest.raises(CorruptWarehouseError):
            put(root, minutes(first, first + 40, seed=6))
    assert file_of(root).read_bytes() == content


@pytest.mark.slow
def test_the_service_reports_damage_until_it_is_repaired(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)
    monkeypatch.setattr(Worker, "_configured", lambda _: iter(()))  # a Slurm on this machine is not read
    worker = Worker(root, Config(), timedelta(minutes=15))
    worker.cycle(now=NOW)
    assert worker.sources["files"].last_error is None
    flip(file_of(root, "node_samples"))
    for _ in range(2):
        worker.cycle(now=NOW)
        reported, status = health_of(AnswerCache(root), worker, now=NOW)
        assert status == 503
        assert any("node_samples of cluster c on 2026-11-21" in each for each in reported["failures"])
    repairing.repair(root, group=None, now=NOW)
    worker.cycle(now=NOW)
    assert worker.sources["files"].last_error is None


@pytest.mark.slow
def test_budgeted_scan_reaches_every_file_and_keeps_its_findings(root: Path) -> None:
    with open_writer(root, verb="t", now=NOW) as writer:
        repairing.scan(writer)
        flip(file_of(root, "node_samples"))
        outcomes = []
        for _ in range(len(writer.files()) + len(writer.tables()) + 1):
            try:
                repairing.scan(writer, budget=1)
            except CorruptWarehouseError as error:
                assert "node_samples of cluster c on 2026-11-21" in str(error).splitlines()[0]  # noqa: PT017 - some do
                outcomes.append("damaged")
            else:
                outcomes.append("fine")
    assert outcomes[-1] == "damaged"
    assert outcomes == sorted(outcomes, reverse=True)


@pytest.mark.parametrize("query", sql_files.named_queries().values(), ids=lambda query: query.name)
def test_sample_queries_read_by_the_parameters_that_choose_files(query: sql_files.Named) -> None:
    if integrity.sample_tables_in(query.sql):
        assert "cluster" in query.parameters
        begins = "started_at" if integrity.sample_tables_in(query.sql) == {"rank_steps"} else "ts"
        to_the_end = "until" not in query.parameters  # all days from the first one on are read
        inside = f"{begins} >= $since" in query.sql and (to_the_end or f"{begins} < $until" in query.sql)
        around = "date_trunc('hour', $since" in query.sql
        assert inside or around or not {"since", "until"} & query.parameters


def test_no_view_reads_samples() -> None:
    assert not [view.name for view in sql_files.views() if integrity.sample_tables_in(view.sql)]


@pytest.mark.slow
def test_a_file_is_read_once_for_its_digest_until_it_changes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    digest = hashlib.file_digest

    def counted(file: BufferedReader, name: str) -> object:
        read.append(file.name)
        return digest(file, name)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    for _ in range(3):
        between(root, START, MIDNIGHT)
    assert len(read) == 1
    flip(file_of(root))
    with pytest.raises(CorruptWarehouseError):
        between(root, START, MIDNIGHT)


@pytest.mark.slow
def test_a_persons_mistake_is_still_a_mistake(root: Path) -> None:
    flip(file_of(root))
    with pytest.raises(QueryError):
        user_sql(root, "SELECT nothing FROM gpu_hours")


def test_a_writer_names_the_damage_too(root: Path) -> None:
    flip(file_of(root))
    with open_writer(root, verb="t", now=NOW) as writer, pytest.raises(CorruptWarehouseError, match="2026-11-21"):
        writer.query("gpu_samples_between", **SPAN, since=START, until=MIDNIGHT)
