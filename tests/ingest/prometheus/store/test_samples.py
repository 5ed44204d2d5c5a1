"""Telemetry of files in the warehouse: loads in any order and number, roll-ups, activity, refused files."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.config.settings import Config, Rules
from app.results.telemetry.gpu_activity import gpu_activity
from app.window import Window
from ingest.prometheus.load_files import ingest_files
from ingest.prometheus.store.samples import ALIASES
from ingest.prometheus.target import TelemetryRequest
from metrics import frames
from queries.warehouse import open_reader, open_writer
from tests.support.command import ROOT, assert_same, contents, trackside
from tests.support.telemetry.dcgm_files import NAMES, NOW, START, T, active, hours, lines, load, quiet, steady, written

if TYPE_CHECKING:
    from pathlib import Path

    from queries.warehouse import Reader


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    return load(folder / "w", [written(folder, "all.om", lines())])


def test_the_reference_is_worth_comparing_with(reference: Path) -> None:
    actual = contents(reference)
    assert actual["gpu_samples"].height > 600
    assert set(actual["gpu_hours"]["metric"]) == {"gpu_util", "tensor_active", "active"}
    shares = actual["gpu_hours"].filter(pl.col("metric") == "active")["mean"]
    assert 0 < shares.min() < shares.max() <= 1  # type: ignore[operator]  # polars types its aggregates loosely
    assert actual["health_events"].select("gpu", "code", "severity").rows() == [
        ("0", "79", "critical"),
        ("1", "79", "critical"),
    ]


@pytest.mark.slow
def test_twice_equals_once(reference: Path, tmp_path: Path) -> None:
    files = [written(tmp_path, "all.om", lines())]
    assert_same(load(tmp_path / "w", files, files), reference)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_overlapping_pieces_in_any_order_equal_the_whole(reference: Path, tmp_path: Path, seed: int) -> None:
    rows = lines()
    chance = random.Random(seed)
    cuts = [0, *sorted(chance.sample(range(200, len(rows) - 200), 3)), len(rows)]
    files = [
        written(tmp_path, f"{number}.om", rows[max(0, low - 120) : high + 120])
        for number, (low, high) in enumerate(pairwise(cuts))
    ]
    chance.shuffle(files)
    assert_same(load(tmp_path / "w", files[:2], files[1:]), reference)


@pytest.mark.slow
def test_metrics_in_files_of_their_own_equal_one_file(reference: Path, tmp_path: Path) -> None:
    files = [written(tmp_path, name, [row for row in lines() if row.startswith(name)]) for name in NAMES]
    assert_same(load(tmp_path / "w", files), reference)


@pytest.mark.slow
def test_samples_are_complete_after_kills_at_any_moment(reference: Path, tmp_path: Path) -> None:
    rows, warehouse = lines(), tmp_path / "w"
    half = len(rows) // 2
    files = [written(tmp_path, "1.om", rows[: half + 120]), written(tmp_path, "2.om", rows[half - 120 :])]
    command = [
        sys.executable,
        "-m",
        "app.cli.main",
        "ingest",
        "prometheus",
        "--cluster",
        "c",
        "--warehouse",
        str(warehouse),
    ]
    for number in range(6):
        process = subprocess.Popen(
            [*command, *files],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.6 + 0.2 * number)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert_same(load(warehouse, files), reference)


# --- roll-ups and files that are not


@pytest.mark.slow
@pytest.mark.parametrize("parquet_first", [True, False])
def test_an_hour_of_better_coverage_is_not_overwritten(tmp_path: Path, parquet_first: bool) -> None:
    whole = hours(tmp_path, ("0", 0, "active", 0.25, 900.0, 3600.0), ("1", 0, "active", 0.5, 30.0, 60.0))
    some = written(tmp_path, "some.om", [*steady(0, range(15, 1801, 15), 0.5), *steady(1, range(15, 1801, 15), 0.5)])
    files = [whole, some] if parquet_first else [some, whole]
    actual = active(load(tmp_path / "w", files))
    assert actual == {("0", 0): (0.25, 3600.0), ("1", 0): (1.0, 1800.0)}


def test_a_parquet_file_that_names_its_cluster_needs_no_other(tmp_path: Path) -> None:
    path = hours(tmp_path, ("0", 0, "active", 0.25, 900.0, 3600.0), cluster="west")
    done = trackside("ingest", "prometheus", "--warehouse", str(tmp_path / "w"), path)
    assert done.returncode == 0, done.stderr
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("gpu_hours")["cluster"].to_list() == ["west"]
        assert reader.query("status_sources")["source"].to_list() == ["prometheus.gpu_hours"]


def test_missing_cluster_is_reported_with_how_to_name_one(tmp_path: Path) -> None:
    path = written(tmp_path, "some.om", steady(0, range(15, 61, 15), 0.5))
    done = trackside("ingest", "prometheus", "--warehouse", str(tmp_path / "w"), path)
    assert done.returncode == 2
    assert "Name it: --cluster NAME" in done.stderr


@pytest.mark.slow
def test_the_only_cluster_is_the_default(tmp_path: Path) -> None:
    path = written(tmp_path, "some.om", steady(0, range(15, 61, 15), 0.5))
    load(tmp_path / "w", [path])
    done = trackside("ingest", "prometheus", "--warehouse", str(tmp_path / "w"), path)
    assert done.returncode == 0, done.stderr


def test_bad_file_leaves_nothing_and_the_others_are_loaded(tmp_path: Path) -> None:
    good = written(tmp_path, "good.om", [*steady(0, range(15, 61, 15), 0.5), "rubbish"])
    (tmp_path / "bad.om").write_text("<html>")
    done = trackside(
        *("ingest", "prometheus", "--cluster", "c", "--warehouse", str(tmp_path / "w")),
        *(str(tmp_path / "bad.om"), good, str(tmp_path / "none.om")),
    )
    assert done.returncode == 30
    assert "not telemetry of a known kind" in done.stderr
    assert "none.om: No such file" in done.stderr
    assert "5 rows: 4 loaded, 1 rejected" in done.stderr
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("gpu_samples").height == 1
        assert reader.table("rejects")["raw"].to_list() == ["rubbish"]


def test_unknown_names_are_renamed_from_when_they_mean_a_node(tmp_path: Path) -> None:
    path = written(tmp_path, "some.om", steady(0, range(15, 7201, 15), 0.5))
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        alias = {
            "cluster": ["c"],
            "source": [ALIASES],
            "name": ["n1"],
            "valid_from": [START + timedelta(hours=1)],
            "node": ["worker-1"],
        }
        with writer.transaction():
            writer.append("node_aliases", pl.DataFrame(alias))
        ingest_files(writer, Config(), [path], TelemetryRequest(cluster="c"), now=NOW, progress=quiet)
    with open_reader(tmp_path / "w") as reader:
        actual = reader.table("gpu_samples").group_by("node").agg(pl.len(), pl.col("ts").min()).sort("node").rows()
    assert actual == [("n1", 60, START), ("worker-1", 60, START + timedelta(hours=1))]


# --- what pages and the ledger read


def activity(
    reader: Reader, since: int = 0, until: int = 86_400, **rules: float
) -> list[tuple[str, float, float, float]]:
    """GPU, from, to (seconds after T) and share of each stretch."""
    window = Window("c", START + timedelta(seconds=since), START + timedelta(seconds=until))
    actual = gpu_activity(reader, window, Rules(**rules))
    assert actual.columns == list(frames.ACTIVITY)
    return [
        (row["gpu"], (row["started_at"] - START).total_seconds(), (row["ended_at"] - START).total_seconds(), share)
        for row in actual.iter_rows(named=True)
        for share in [row["active_share"]]
    ]


def test_activity_is_merged_intervals_split_at_gaps(tmp_path: Path) -> None:
    rows = [
        *steady(0, range(15, 301, 15), 0.5),
        *steady(0, range(315, 601, 15), 0.0),
        *steady(0, range(735, 901, 15), 0.5),
    ]
    load(tmp_path / "w", [written(tmp_path, "some.om", rows)])
    with open_reader(tmp_path / "w") as reader:
        assert activity(reader) == [("0", 0, 300, 1.0), ("0", 300, 600, 0.0), ("0", 720, 900, 1.0)]
        assert activity(reader, 120, 540) == [("0", 120, 300, 1.0), ("0", 300, 540, 0.0)]
        assert activity(reader, 90, 100) == [("0", 90, 100, 1.0)]
        assert activity(reader, 600, 720) == []
        assert activity(reader, active_tensor=0.6) == [("0", 0, 600, 0.0), ("0", 720, 900, 0.0)]


@pytest.mark.slow
def test_interval_has_its_longest_sample_and_an_hour_has_none(tmp_path: Path) -> None:
    path = hours(tmp_path, ("0", 1, "active", 0.5, 1800.0, 3600.0))
    # Of GPU 0 half a minute and two whole ones, then idle for half a minute.
    some = [*steady(0, range(45, 181, 15), 0.5), *steady(0, range(195, 211, 15), 0.0)]
    load(tmp_path / "w", [path, written(tmp_path, "some.om", some)])
    window = Window("c", START + timedelta(seconds=50), START + timedelta(hours=2))
    with open_reader(tmp_path / "w") as reader:
        actual = gpu_activity(reader, window, Rules())
    assert actual["active_share"].to_list() == [1, 0, 0.5]
    assert actual["interval_s"].to_list() == [60, 30, None]


@pytest.mark.slow
def test_nearly_complete_hours_count_where_samples_cover_less(tmp_path: Path) -> None:
    path = hours(
        tmp_path,
        ("0", 0, "active", 0.5, 1800.0, 3600.0),
        ("0", 1, "active", 0.25, 900.0, 3600.0),
        ("0", 2, "active", 0.5, 1750.0, 3500.0),
        ("0", 3, "tensor_active", 0.5, None, 3600.0),
        ("1", 1, "active", 1.0, 3600.0, 3600.0),
        ("2", 1, "active", 0.5, 1800.0, 3600.0),
    )
    # Of GPU 0 a minute of hour 1 and one of hour 2; all of hour 1 of GPU 2.
    some = [*steady(0, range(3615, 3661, 15), 0.5), *steady(0, range(7215, 7261, 15), 0.5)]
    load(tmp_path / "w", [path, written(tmp_path, "some.om", [*some, *steady(2, range(3615, 7201, 15), 0.0)])])
    with open_reader(tmp_path / "w") as reader:
        assert activity(reader) == [
            ("0", 0, 3600, 0.5),
            ("0", 3600, 7200, 0.25),
            ("0", 7200, 7260, 1.0),
            ("1", 3600, 7200, 1.0),
            ("2", 3600, 7200, 0.0),
        ]
        assert activity(reader, 1800, 3600) == [("0", 1800, 3600, 0.5)]


@pytest.mark.slow
def test_sample_into_a_rolled_up_hour_ends_where_that_begins(tmp_path: Path) -> None:
    path = hours(tmp_path, ("0", 1, "active", 0.5, 1800.0, 3600.0))
    some = written(tmp_path, "some.om", steady(0, range(3550, 3651, 50), 0.5))
    load(tmp_path / "w", [path])
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        config = Config.model_validate({"prometheus": {"interval_s": 700}})
        ingest_files(writer, config, [some], TelemetryRequest(cluster="c"), now=NOW, progress=quiet)
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("gpu_samples").height == 1
        assert activity(reader) == [("0", 3500, 3600, 1.0), ("0", 3600, 7200, 0.5)]


def test_no_instant_of_a_gpu_counts_twice_and_no_sample_is_lost(reference: Path) -> None:
    with open_reader(reference) as reader:
        actual = activity(reader)
        samples = reader.table("gpu_samples")
    for (gpu, _, end, share), (next_gpu, begin, _, next_share) in pairwise(actual):
        assert gpu != next_gpu or end < begin or (end == begin and share != next_share)
    seconds = sum(end - begin for _, begin, end, _ in actual)
    assert seconds == pytest.approx(samples["interval_s"].cast(pl.Float64).sum())
    active_s = sum((end - begin) * share for _, begin, end, share in actual)
    is_active = samples.filter(pl.col("tensor_active") >= 0.02)["interval_s"].cast(pl.Float64).sum()
    assert active_s == pytest.approx(is_active)


def test_adjacent_windows_give_what_the_whole_gives(reference: Path) -> None:
    with open_reader(reference) as reader:
        whole = activity(reader)
        parts = [row for low in range(0, 86_400, 5000) for row in activity(reader, low, min(low + 5000, 86_400))]
    for share in (0.0, 1.0):
        told_whole = sum(end - begin for _, begin, end, each in whole if each == share)
        assert sum(end - begin for _, begin, end, each in parts if each == share) == pytest.approx(told_whole)


def test_machine_fault_xid_reaches_the_metrics(reference: Path) -> None:
    with open_reader(reference) as reader:
        actual = reader.query("events_at_nodes", cluster="c").filter(pl.col("severity") == "critical")
    assert actual["node"].to_list() == ["n1", "n1"]
    assert actual["detail"][0].startswith("xid 79: GPU has fallen off the bus")


def test_file_with_a_wrong_clock_is_refused_with_the_reason(tmp_path: Path) -> None:
    rows = [*steady(0, range(15, 61, 15), 0.5), steady(0, range(1), 0.5)[0].replace(str(T), "9999999999")]
    done = trackside(
        *("ingest", "prometheus", "--cluster", "c", "--warehouse", str(tmp_path / "w")),
        written(tmp_path, "wrong.om", rows),
    )
    assert "5 rows: 4 loaded, 1 rejected" in done.stderr
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("rejects")["reason"].to_list() == ["lies in the future"]


@pytest.mark.slow
def test_files_that_cannot_be_used_stop_no_others(tmp_path: Path) -> None:
    frame = pl.read_parquet(hours(tmp_path, ("0", 0, "active", 0.25, 900.0, 3600.0), cluster="c"))
    odd = {
        "binary": frame.with_columns(node=pl.lit(b"\xff")),
        "lists": frame.with_columns(cluster=pl.concat_list("node")),
        "eternal": frame.with_columns(ts=pl.lit(2**63 - 1).cast(pl.Datetime("ms", "UTC"))),
    }
    for name, each in odd.items():
        each.write_parquet(tmp_path / f"{name}.parquet")
    files = [*(str(tmp_path / f"{name}.parquet") for name in odd), str(tmp_path / "hours.parquet")]
    done = trackside("ingest", "prometheus", "--warehouse", str(tmp_path / "w"), *files)
    assert done.returncode == 35, done.stderr
    assert "node should be text" in done.stderr
    assert "cluster should be text" in done.stderr
    assert active(tmp_path / "w") == {("0", 0): (0.25, 3600.0)}
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("rejects")["reason"].to_list() == ["ts is not between the years 2000 and 2100"]
