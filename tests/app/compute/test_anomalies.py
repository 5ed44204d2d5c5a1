"""Stored tests of anomalies: those of a computation from the beginning, whatever came late, changed or went."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from app.compute import anomalies as stored
from app.compute.pipeline import compute
from app.config.settings import Config, Rules
from app.results.telemetry import anomalies as results
from app.results.telemetry import anomaly_days
from app.window import Window
from queries.warehouse import open_reader, open_writer
from tests.app.compute.test_busy_hours import DAY, from_samples, samples_of
from tests.app.show.test_anomalies import BEGIN, DAYS, NOW, WINDOW, filled, ports

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    from queries.warehouse import Writer

pytestmark = pytest.mark.usefixtures("no_results")

DATES = [(BEGIN + day * DAY).date() for day in range(DAYS)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return filled(tmp_path)


def put(writer: Writer, table: str, day: int, rows: pl.DataFrame | None) -> None:
    with writer.transaction():
        if rows is None:
            writer.remove_partition(table, "c", DATES[day])
        else:
            writer.write_partition(table, "c", DATES[day], rows)


def ports_of(day: int) -> pl.DataFrame:
    return ports().filter(pl.col("ts").dt.date() == DATES[day]).sort("node", "metric", "device", "ts")


def computed(root: Path, *, full: bool = False, settings: Config | None = None) -> list[date]:
    """Compute; the days of which hours were read."""
    read: list[date] = []
    original = anomaly_days.Hours.deviations

    def noted(hours: anomaly_days.Hours, day: date, within: tuple[int, int]) -> object:
        read.append(day)
        return original(hours, day, within)

    with pytest.MonkeyPatch.context() as patch, open_writer(root, verb="test", now=NOW) as writer:
        patch.setattr(anomaly_days.Hours, "deviations", noted)
        compute(writer, settings or Config(), now=NOW, full=full)
    return read


def tables(root: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    with open_reader(root) as reader:
        sums = reader.table("anomaly_sums").sort("ts", *stored._ORDER)  # noqa: SLF001 - what a day is sorted by
        return sums, reader.query("anomaly_days", cluster="c")


@pytest.mark.slow
def test_nothing_is_read_that_did_not_change(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert computed(root) == []
    monkeypatch.setattr(anomaly_days.Hours, "deviations", None)  # no hour is read
    with open_reader(root) as reader:
        found = results.anomalies(reader, WINDOW)
    assert found.rows["anomalous"].any()
    assert found.busy_hours == 17 * 24 * DAYS
    assert found.compared_hours == 16 * 24 * DAYS


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_any_changes_give_a_computation_from_the_beginning(root: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(2):
        day, table = chance.randrange(DAYS), chance.choice(["gpu_samples", "node_samples"])
        whole = samples_of(day)[1] if table == "gpu_samples" else ports_of(day)
        some = whole.sample(fraction=chance.choice([0.3, 1.0]), seed=chance.randrange(99)).sort("node", "ts")
        with open_writer(root, verb="test", now=NOW) as writer:
            put(writer, table, day, None if chance.random() < 0.4 else some)
        read = computed(root)
        assert min(read, default=DATES[day]) >= DATES[day]  # of the days before, what is stored is used
    sums, days = tables(root)
    assert set(computed(root, full=True)) == set(days["day"])
    again, days_again = tables(root)
    assert_frame_equal(sums, again)
    assert_frame_equal(days.drop("computed_at"), days_again.drop("computed_at"))


@pytest.mark.slow
def test_part_of_a_day_has_the_tests_of_its_hours(root: Path) -> None:
    """Days within the window are read; the first and the last one are made of their hours, each by itself."""
    window = Window("c", BEGIN + timedelta(hours=5, minutes=20), NOW - timedelta(hours=3))
    with open_reader(root) as reader, pytest.MonkeyPatch.context() as patch:
        rows = results.anomalies(reader, window)
        patch.setattr(results, "Stored", lambda *_, **__: None)
        assert_frame_equal(rows.rows, results.anomalies(reader, window).rows)
    assert rows.busy_hours == 17 * (24 * DAYS - 6 - 3)
    assert rows.rows["tested_hours"].max() == 24 * DAYS - 9


@pytest.mark.slow
def test_late_samples_are_tested_before_they_are_computed(root: Path) -> None:
    with open_writer(root, verb="test", now=NOW) as writer:
        put(writer, "gpu_samples", 3, samples_of(3)[1].with_columns(pl.col("sm_clock_hz") * 0.5))
    with open_reader(root) as reader:
        assert_frame_equal(results.anomalies(reader, WINDOW).rows, from_samples(reader))


@pytest.mark.slow
def test_other_rules_test_all_days_anew(root: Path) -> None:
    assert set(computed(root, settings=Config(rules=Rules(active_tensor=0.4)))) == set(DATES)


@pytest.mark.slow
def test_damaged_file_of_stored_tests_is_passed_over(root: Path) -> None:
    with open_reader(root) as reader:
        before = results.anomalies(reader, WINDOW).rows
    for file in root.glob("raw/anomaly_sums/*/*/*.parquet"):
        file.write_bytes(file.read_bytes()[:-20])
    with open_reader(root) as reader:
        assert_frame_equal(results.anomalies(reader, WINDOW).rows, before)
