"""`trackside retention`: what goes, what stays, and that nothing goes of which nothing would be left."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app import clock
from app.cli import main as cli
from app.config.settings import Config, Rules, parse
from app.errors import ConfigError
from app.results.telemetry.gpu_activity import gpu_activity
from app.service.worker import Worker
from app.window import Window
from ingest.prometheus.store import retention
from queries.warehouse import open_reader, open_writer
from tests.ingest.prometheus.store.test_storage import START, minutes, put
from tests.support.command import contents, trackside

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


def keeping(**days: float) -> Config:
    return Config.model_validate({"retention": days})


def retain(warehouse: Path, settings: Config, *, now: datetime = NOW) -> list[retention.Removal]:
    with open_writer(warehouse, verb="test", now=now) as writer:
        return retention.retain(writer, settings, now=now)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Two hours on each side of midnight, before 22 November."""
    return put(tmp_path / "w", minutes(0, 240))


def days(warehouse: Path, table: str) -> list[str]:
    with open_reader(warehouse) as reader:
        return sorted({f"{ts:%m-%d}" for ts in reader.table(table)["ts"]})


@pytest.mark.slow
def test_whole_days_of_samples_go_and_their_hours_stay(warehouse: Path) -> None:
    before = contents(warehouse)
    old = {name: before[name].filter(pl.col("ts").dt.day() == 21) for name in ("gpu_samples", "node_samples")}
    # Ten days before the 1st of December, at noon, is in the middle of the 21st: that day is not over by then.
    assert retain(warehouse, keeping(samples_days=10)) == []
    removed = retain(warehouse, keeping(samples_days=9))
    after = contents(warehouse)
    assert {each.table: each.rows for each in removed} == {name: rows.height for name, rows in old.items()}
    for name in ("gpu_samples", "node_samples"):
        assert after[name].equals(before[name].filter(pl.col("ts").dt.day() == 22))
    for name in ("gpu_hours", "node_hours", "cluster_samples"):
        assert after[name].equals(before[name])
    assert retain(warehouse, keeping(samples_days=9)) == []


@pytest.mark.slow
def test_what_went_is_noted(warehouse: Path) -> None:
    removed = retain(warehouse, keeping(samples_days=9))
    with open_reader(warehouse) as reader:
        noted = reader.table("removals").sort("table_name")
        assert reader.query("removals")["rows"].to_list() == noted["rows"].to_list()
    midnight = datetime(2026, 11, 22, tzinfo=UTC)
    assert noted.select("removed_at", "cluster", "table_name", "before").rows() == [
        (NOW, "c", "gpu_samples", midnight),
        (NOW, "c", "node_samples", midnight),
    ]
    assert noted["rows"].to_list() == [each.rows for each in removed]
    assert all(each.bytes for each in removed)
    status = trackside("status", "--warehouse", str(warehouse)).stdout
    assert f"removed: c: {removed[0].rows:,} gpu_samples before 2026-11-22T00:00:00Z" in status


@pytest.mark.slow
@pytest.mark.parametrize("table", ["gpu_hours", "node_hours"])
def test_no_sample_goes_without_its_roll_up(warehouse: Path, table: str) -> None:
    before = contents(warehouse)
    with open_writer(warehouse, verb="test", now=NOW) as writer, writer.transaction():
        lost = before[table].filter(pl.col("node") == "n1", pl.col("ts").dt.hour() == 23)
        assert lost.height
        writer.delete(table, lost.select("node", "ts").unique())
    assert contents(warehouse)[table].height == before[table].height - lost.height
    retain(warehouse, keeping(samples_days=1))
    assert contents(warehouse)[table].equals(before[table])
    assert days(warehouse, "gpu_samples") == days(warehouse, "node_samples") == []


@pytest.mark.slow
def test_hours_go_after_the_samples_that_they_are_made_of(warehouse: Path) -> None:
    removed = retain(warehouse, keeping(samples_days=1, hours_days=9))
    assert {each.table for each in removed} == {"gpu_samples", "node_samples", "gpu_hours", "node_hours"}
    assert days(warehouse, "gpu_samples") == []
    assert days(warehouse, "gpu_hours") == days(warehouse, "node_hours") == ["11-22"]
    assert days(warehouse, "cluster_samples") == ["11-21", "11-22"]


@pytest.mark.slow
def test_files_go_only_when_no_published_copy_names_them(warehouse: Path) -> None:
    def n_files() -> int:
        return len(list((warehouse / "raw").glob("*/*/*/*.parquet")))

    with open_reader(warehouse) as older:
        retain(warehouse, keeping(samples_days=1))
        assert n_files() == 6
        assert older.table("gpu_samples").height > 0
    put(warehouse, {})
    put(warehouse, {})
    assert n_files() == 2  # counts of the cluster are kept


@pytest.mark.slow
def test_what_is_computed_afterwards_goes_by_the_hours(warehouse: Path) -> None:
    """Hours that are known as a whole tell as much active time as their samples did."""
    whole = minutes(0, 240)["gpu_samples"]
    filled = whole.upsample("ts", every="1m", group_by=["node"]).fill_null(strategy="forward")
    put(warehouse, {"gpu_samples": filled.select(whole.columns)})

    def active_s() -> dict[str, float]:
        window = Window("c", START, START + timedelta(hours=4))
        with open_reader(warehouse) as reader:
            result = gpu_activity(reader, window, Rules())
        seconds = (pl.col("ended_at") - pl.col("started_at")).dt.total_seconds() * pl.col("active_share")
        return dict(result.group_by("node").agg(seconds.sum().round(3)).sort("node").iter_rows())

    before = active_s()
    retain(warehouse, keeping(samples_days=1))
    assert days(warehouse, "gpu_samples") == []
    assert active_s() == pytest.approx(before)
    assert before["n1"] > 3600


@pytest.mark.slow
def test_samples_loaded_again_after_removal_are_unchanged(warehouse: Path) -> None:
    before = contents(warehouse)
    retain(warehouse, keeping(samples_days=1))
    put(warehouse, minutes(0, 240))
    after = contents(warehouse)
    assert all(after[name].equals(rows) for name, rows in before.items() if name != "removals")


@pytest.mark.slow
@pytest.mark.parametrize("settings", [Config(), keeping(samples_days=9)], ids=["all kept", "nothing is old"])
def test_where_nothing_goes_nothing_changes(warehouse: Path, settings: Config) -> None:
    with open_reader(warehouse) as reader:
        version = reader.data_version
    assert retain(warehouse, settings, now=datetime(2026, 11, 23, tzinfo=UTC)) == []
    with open_reader(warehouse) as reader:
        assert reader.data_version == version


@pytest.mark.parametrize("wrong", [{"hours_days": 9}, {"samples_days": 9, "hours_days": 8}, {"samples_days": -1}])
def test_days_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="retention"):
        parse({"retention": wrong}, origin="x")


# --- as people use it


@pytest.mark.slow
def test_retention_dry_run_removes_nothing_and_a_run_reports(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)
    config = tmp_path / "t.toml"
    config.write_text("[retention]\nsamples_days = 9\n")

    def printed(*more: str) -> str:
        assert cli.main(["retention", "--warehouse", str(warehouse), "--config", str(config), *more]) == 0
        return capsys.readouterr().out

    before = contents(warehouse)
    look = printed("--dry-run")
    after = contents(warehouse)
    assert look.startswith("Would be removed (nothing was changed)")
    assert all(after[name].equals(rows) for name, rows in before.items())
    done = printed()
    assert done.startswith("Removed")
    assert set(look.splitlines()[1:]) <= set(done.splitlines())
    assert days(warehouse, "node_samples") == ["11-22"]
    assert printed().startswith("Nothing is older")
    assert printed("--quiet") == ""


def test_retention_without_configuration_reports_keeping_all(warehouse: Path) -> None:
    done = trackside("retention", "--warehouse", str(warehouse))
    assert done.stdout.startswith("Telemetry is stored for ever")
    assert trackside("retention", "--warehouse", str(warehouse / "no")).returncode != 0


@pytest.mark.slow
def test_the_service_does_it_once_a_day(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[datetime] = []

    def noted(*_: object, now: datetime) -> list[retention.Removal]:
        looked.append(now)
        return []

    monkeypatch.setattr(retention, "retain", noted)
    monkeypatch.setattr(Worker, "_configured", lambda _: iter(()))  # no commands of a real Slurm, which are tried again
    worker = Worker(warehouse, keeping(samples_days=9), timedelta(minutes=15))
    for hours in (0, 1, 23, 24, 25):
        worker.cycle(now=NOW + timedelta(hours=hours))
    assert looked == [NOW, NOW + timedelta(hours=24)]
    Worker(warehouse, Config(), timedelta(minutes=15)).cycle(now=NOW)
    assert len(looked) == 2
    assert worker.sources["retention"].last_error is None
