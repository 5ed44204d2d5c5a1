"""Stored hours of busy GPUs: the same anomalies as from a scan of all samples, and only days that changed are read."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from app.compute import busy_hours as stored
from app.compute.pipeline import compute
from app.config.settings import Config, Rules
from app.results.telemetry import anomalies as results
from app.results.telemetry.busy_hours import BusyHours, sampled_hours
from metrics.anomalies.hours import LEAST_BUSY_S, Limits
from queries.warehouse import open_reader, open_writer
from tests.app.show.test_anomalies import BEGIN, DAYS, NOW, WINDOW, filled, gpus

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    from queries.warehouse import Reader, Writer

pytestmark = pytest.mark.usefixtures("no_results")

LIMITS = Limits(0.02, 0.1, 0.1)
DAY = timedelta(days=1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return filled(tmp_path)


def samples_of(day: int) -> tuple[date, pl.DataFrame]:
    date = (BEGIN + day * DAY).date()
    return date, gpus().filter(pl.col("ts").dt.date() == date).sort("node", "gpu", "ts")


def change(root: Path, day: int, rows: pl.DataFrame | None, *, settings: Config | None = None) -> list[date]:
    """Replace a day's samples, compute, and return the days of which samples were read for hours."""
    read: list[date] = []
    original = stored.rows_of_day
    with pytest.MonkeyPatch.context() as patch:

        def noted(writer: Writer, cluster: str, at: date, limits: Limits) -> pl.DataFrame:
            read.append(at)
            return original(writer, cluster, at, limits)

        patch.setattr(stored, "rows_of_day", noted)
        with open_writer(root, verb="test", now=NOW) as writer:
            with writer.transaction():
                if rows is None:
                    writer.remove_partition("gpu_samples", "c", (BEGIN + day * DAY).date())
                else:
                    writer.write_partition("gpu_samples", "c", (BEGIN + day * DAY).date(), rows)
            compute(writer, settings or Config(), now=NOW)
    return read


def from_samples(reader: Reader) -> pl.DataFrame:
    """The anomalies of a scan that uses nothing stored."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BusyHours, "_hours", lambda _self, since, until: sampled_hours(reader, "c", since, until, LIMITS))
        patch.setattr(results, "Stored", lambda *_, **__: None)
        return results.anomalies(reader, WINDOW).rows


def same(root: Path) -> pl.DataFrame:
    """Stored hours give what all samples give; those rows."""
    with open_reader(root) as reader:
        rows = results.anomalies(reader, WINDOW).rows
        assert_frame_equal(rows, from_samples(reader))
    return rows


@pytest.mark.slow
def test_stored_hours_give_the_anomalies_of_all_samples(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = same(root)
    assert rows["anomalous"].any()
    monkeypatch.setattr("app.results.telemetry.busy_hours.sampled_hours", None)  # no sample is read
    with open_reader(root) as reader:
        assert_frame_equal(results.anomalies(reader, WINDOW).rows, rows)


@pytest.mark.slow
def test_days_whose_samples_are_the_same_are_not_read_again(root: Path) -> None:
    date, rows = samples_of(1)
    late = rows.filter(~((pl.col("node") == "n3") & (pl.col("gpu") == "1")))
    assert change(root, 1, late) == [date]
    same(root)
    assert change(root, 1, late) == []  # the same rows make the same file
    with open_writer(root, verb="test", now=NOW) as writer:
        compute(writer, Config(), now=NOW, full=True)
    same(root)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_any_changes_give_what_all_samples_give(root: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(3):
        day = chance.randrange(DAYS)
        kept = samples_of(day)[1].sample(fraction=chance.choice([0.2, 0.6, 1.0]), seed=chance.randrange(99))
        change(root, day, None if chance.random() < 0.3 else kept.sort("node", "gpu", "ts"))
        same(root)


@pytest.mark.slow
def test_hours_of_removed_samples_go_too(root: Path) -> None:
    change(root, 2, None)
    same(root)
    with open_reader(root) as reader:
        days = reader.query("busy_days", cluster="c")["day"].to_list()
    assert days == [(BEGIN + day * DAY).date() for day in (0, 1, 3)]


@pytest.mark.slow
def test_other_rules_make_all_days_anew(root: Path) -> None:
    date, rows = samples_of(0)
    changed = change(root, 0, rows, settings=Config(rules=Rules(active_tensor=0.4)))
    assert changed == [(BEGIN + day * DAY).date() for day in range(DAYS)]
    assert date in changed


@pytest.mark.slow
def test_samples_after_the_computation_are_read(root: Path) -> None:
    _, rows = samples_of(3)
    cold = rows.with_columns(pl.col("sm_clock_hz") * 0.5)
    with open_writer(root, verb="test", now=NOW) as writer, writer.transaction():
        writer.write_partition("gpu_samples", "c", (BEGIN + 3 * DAY).date(), cold)
    same(root)


@pytest.mark.slow
def test_damaged_file_of_stored_hours_is_passed_over(root: Path) -> None:
    before = same(root)
    for file in root.glob("raw/gpu_busy_hours/*/*/*.parquet"):
        file.write_bytes(file.read_bytes()[:-20])
    with open_reader(root) as reader:
        assert_frame_equal(results.anomalies(reader, WINDOW).rows, before)


@pytest.mark.slow
def test_short_hours_are_stored_and_hide_roll_ups(root: Path) -> None:
    _, rows = samples_of(0)
    change(root, 0, rows.filter(pl.col("ts") < BEGIN + timedelta(minutes=20)))
    with open_reader(root) as reader:
        hours = reader.table("gpu_busy_hours").filter(pl.col("ts") < BEGIN + DAY)
    assert set(hours["busy_s"]) == {1200.0}
    assert hours["busy_s"].max() < LEAST_BUSY_S  # type: ignore[operator]  # a number
