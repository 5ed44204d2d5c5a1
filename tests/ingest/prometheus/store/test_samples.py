"""Telemetry in the warehouse: loads in any order and number, roll-ups, activity, and what is said when it fails."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.config.settings import Config, Rules
from app.results.telemetry.gpu_activity import gpu_activity
from app.window import Window
from ingest.errors import OptionError
from ingest.load_warnings import messages
from ingest.prometheus.load_files import ingest_files
from ingest.prometheus.load_live import ingest_live
from ingest.prometheus.store.samples import ALIASES
from ingest.prometheus.target import TelemetryRequest
from metrics import frames
from queries.warehouse import open_reader, open_writer
from tests.support.command import ROOT, assert_same, contents, trackside
from tests.support.web import Answer, Web, matrix, told, web

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ingest.store.report import Report
    from queries.warehouse import Reader

T = 1_795_248_000  # 2026-11-21T08:00:00Z, an hour
START = datetime.fromtimestamp(T, UTC)
NOW = datetime(2026, 11, 22, tzinfo=UTC)
NAMES = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_XID_ERRORS")


def lines(seconds: int = 3 * 3600, *, gpus: int = 4, seed: int = 3) -> list[str]:
    """Readings of a node every 15 s in the order of time: phases of activity, scrapes that failed, sticky XIDs."""
    chance = random.Random(seed)
    phases = {gpu: [chance.random() < 0.6 for _ in range(seconds // 300 + 1)] for gpu in range(gpus)}
    hit = {gpu: chance.randrange(seconds) for gpu in range(gpus // 2)}
    actual = []
    for second in range(15, seconds + 1, 15):
        if chance.random() < 0.03:
            continue
        for gpu in range(gpus):
            active = phases[gpu][second // 300]
            xid = 79 if second >= hit.get(gpu, seconds + 1) else 0
            labels = f'gpu="{gpu}",UUID="GPU-{gpu}",Hostname="n1"'
            for name, value in zip(NAMES, (100 * active, 0.5 * active, xid), strict=True):
                actual.append(f"{name}{{{labels}}} {value} {T + second}")
    return actual


def written(folder: Path, name: str, rows: list[str]) -> str:
    (folder / name).write_text("\n".join([*rows, "# EOF"]) + "\n")
    return str(folder / name)


def load(warehouse: Path, *batches: list[str]) -> Path:
    for files in batches:
        done = trackside("ingest", "prometheus", "--cluster", "c", "--warehouse", str(warehouse), *files)
        assert done.returncode == 0, done.stderr
    return warehouse


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


def hours(folder: Path, *rows: tuple[str, int, str, float, float | None, float], cluster: str | None = None) -> str:
    """A Parquet file: GPU, hour after T, metric, mean, active_s, covered_s."""
    frame = pl.DataFrame(
        [("n1", gpu, START + timedelta(hours=hour), *rest) for gpu, hour, *rest in rows],
        schema=["node", "gpu", "ts", "metric", "mean", "active_s", "covered_s"],
        orient="row",
    )
    path = folder / "hours.parquet"
    (frame if cluster is None else frame.with_columns(cluster=pl.lit(cluster))).write_parquet(path)
    return str(path)


def active(warehouse: Path) -> dict[tuple[str, int], tuple[float, float]]:
    """Mean and covered seconds of activity by GPU and hour."""
    with open_reader(warehouse) as reader:
        actual = reader.table("gpu_hours").filter(pl.col("metric") == "active")
    return {
        (row["gpu"], round((row["ts"] - START).total_seconds() / 3600)): (row["mean"], row["covered_s"])
        for row in actual.iter_rows(named=True)
    }


def steady(gpu: int, seconds: range, value: float) -> list[str]:
    return [f'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{gpu="{gpu}",Hostname="n1"}} {value} {T + second}' for second in seconds]


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
    assert "Say which: --cluster NAME" in done.stderr


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


# --- a server


def quiet(_what: str, _done: int, _total: int) -> None:
    """Say nothing."""


def settings(url: str, **more: object) -> Config:
    return Config.model_validate({"cluster": "c", "prometheus": {"url": url, "retries": 0, **more}})


def ingest(warehouse: Path, config: Config, *, now: datetime = NOW, **requested: object) -> list[Report]:
    with open_writer(warehouse, verb="test", now=now) as writer:
        return ingest_live(writer, config, TelemetryRequest(**requested), now=now, progress=quiet)  # type: ignore[arg-type]  # fields of Asked


def minutes(path: str, params: dict[str, str]) -> Answer:
    """A GPU that has been active since T, of which there is one metric."""
    if path.endswith("/values"):
        return told(["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"])
    if path.endswith("/query"):
        return told({"resultType": "vector", "result": [{"metric": {}, "value": [T, "1"]}]})  # which windows it has
    low, high = int(params["start"]), int(params["end"])
    return matrix(({"gpu": "0", "Hostname": "n1"}, [(s, "0.5") for s in range(max(low, T + 60), high + 1, 60)]))


def requested_from(there: Web) -> list[int]:
    """When each range that was asked for begins, in seconds after T."""
    return [int(params["start"]) - T - 60 for path, params, _ in there.questions if path.endswith("query_range")]


@pytest.mark.slow
def test_the_next_ingest_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    with web(minutes) as there:
        config = settings(there.url, lookback_hours=6, chunk_hours=2)
        ingest(tmp_path / "w", config, now=START + timedelta(hours=1, seconds=59))
        assert requested_from(there) == [-5 * 3600, -3 * 3600, -3600]
        there.questions.clear()
        ingest(tmp_path / "w", config, now=START + timedelta(hours=4))
        assert requested_from(there) == [3540, 3540 + 7200]
    with open_reader(tmp_path / "w") as reader:
        loads = reader.table("loads").sort("covers_from").select("covers_from", "covers_until").rows()
        assert reader.table("gpu_samples").height == 240
    # Before T nothing was recorded: no load speaks for that time.
    ends = [START + timedelta(seconds=second) for second in (0, 3600, 3540, 10740, 10740, 14400)]
    assert [moment for row in loads for moment in row] == ends


@pytest.mark.slow
def test_each_server_and_selector_has_a_mark_and_files_have_none(tmp_path: Path) -> None:
    """What was read elsewhere, or loaded from a file, says nothing of what this server still has."""
    late = written(tmp_path, "late.om", steady(7, range(10_785, 10_801, 15), 0.5))
    now = START + timedelta(hours=3)
    load(tmp_path / "w", [late])
    with web(minutes) as one, web(minutes) as other:
        for there, selector in ((one, ""), (one, 'env="b"'), (other, "")):
            there.questions.clear()
            config = settings(there.url, lookback_hours=3, chunk_hours=6, selector=selector)
            ingest(tmp_path / "w", config, now=now)
            assert requested_from(there) == [0]
            ingest(tmp_path / "w", config, now=now)
            assert requested_from(there)[1:] == [10_800 - 60]
    with open_reader(tmp_path / "w") as reader:
        origins = set(reader.table("loads")["origin"])
    assert origins == {late, one.url, f'{one.url} {{env="b"}}', other.url}


def test_a_mark_in_the_future_does_not_hide_what_comes(tmp_path: Path) -> None:
    with web(minutes) as there:
        config = settings(there.url, lookback_hours=3, chunk_hours=6)
        ingest(tmp_path / "w", config, now=START + timedelta(hours=3))  # a clock that is two hours ahead
        there.questions.clear()
        ingest(tmp_path / "w", config, now=START + timedelta(hours=1))
        assert requested_from(there) == [-2 * 3600]


def test_file_with_a_wrong_clock_is_refused_with_the_reason(tmp_path: Path) -> None:
    rows = [*steady(0, range(15, 61, 15), 0.5), steady(0, range(1), 0.5)[0].replace(str(T), "9999999999")]
    done = trackside(
        *("ingest", "prometheus", "--cluster", "c", "--warehouse", str(tmp_path / "w")),
        written(tmp_path, "wrong.om", rows),
    )
    assert "5 rows: 4 loaded, 1 rejected" in done.stderr
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("rejects")["reason"].to_list() == ["lies in the future"]


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "url", ["http://me:s3cret/1@h:9090", "me:s3cret@h", "http://[me:s3cret@", "http://me:1/s3cret@h"]
)
def test_slightly_wrong_address_with_a_password_is_not_printed(tmp_path: Path, url: str) -> None:
    (tmp_path / "trackside.toml").write_text(f'cluster = "c"\n[prometheus]\nurl = "{url}"\n')
    for verb in (["ingest", "prometheus"], ["doctor"]):
        done = trackside(*verb, "--warehouse", str(tmp_path / "w"), cwd=tmp_path)
        assert done.returncode == 2
        assert "cannot be used (not shown: it may hold a password)" in done.stderr + done.stdout
        assert "s3cret" not in done.stderr + done.stdout


def test_a_cluster_that_no_folder_can_be_named_after_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "some.om", steady(0, range(15, 61, 15), 0.5))
    done = trackside("ingest", "prometheus", "--cluster", "a" * 300, "--warehouse", str(tmp_path / "w"), path)
    assert done.returncode == 2
    assert "the name is longer than 200 characters" in done.stderr


@pytest.mark.slow
def test_failing_interval_stops_the_source_and_is_resumed(tmp_path: Path) -> None:
    failing = True

    def answer(path: str, params: dict[str, str]) -> Answer:
        broken = failing and path.endswith("/query_range") and int(params["end"]) > T + 7200
        return Answer(b"", 500) if broken else minutes(path, params)

    window = {"since": START, "until": START + timedelta(hours=6)}
    with web(answer) as there:
        reports = ingest(tmp_path / "w", settings(there.url), **window)
        assert [report.error is None for report in reports] == [True, False]
        failing = False
        there.questions.clear()
        ingest(tmp_path / "w", settings(there.url), now=START + timedelta(hours=6))
        assert requested_from(there)[0] == 7200 - 60
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("gpu_samples").height == 360


def test_the_same_time_again_changes_no_file(tmp_path: Path) -> None:
    with web(minutes) as there:
        window = {"since": START, "until": START + timedelta(hours=2)}
        ingest(tmp_path / "w", settings(there.url), **window)
        before = sorted((tmp_path / "w" / "raw").rglob("*.parquet"))
        ingest(tmp_path / "w", settings(there.url), **window)
    assert sorted((tmp_path / "w" / "raw").rglob("*.parquet")) == before


def test_a_server_without_dcgm_is_a_warning_and_no_coverage(tmp_path: Path) -> None:
    def other(path: str, params: dict[str, str]) -> Answer:
        return told([] if "match[]" in params else ["up", "node_load1"]) if path.endswith("/values") else matrix()

    with web(other) as there:
        (report,) = ingest(tmp_path / "w", settings(there.url, selector='env="prod"'))
    assert report.parsed is not None
    assert 'no DCGM series that match {env="prod"}' in messages(report.parsed.warnings)[0]
    assert "node_load1" in messages(report.parsed.warnings)[0]
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("loads").is_empty()


def test_names_without_series_are_a_warning_and_no_coverage(tmp_path: Path) -> None:
    with web(lambda path, _: told(["DCGM_FI_DEV_GPU_UTIL"]) if path.endswith("/values") else matrix()) as there:
        (report,) = ingest(tmp_path / "w", settings(there.url))
    assert report.parsed is not None
    assert messages(report.parsed.warnings)
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("loads").is_empty()


def xids_only(*edges: tuple[int, int]) -> Callable[[str, dict[str, str]], Answer]:
    """A server that has nothing but the XIDs of a GPU: from so many seconds after T on each is the last one."""

    def answer(path: str, params: dict[str, str]) -> Answer:
        if path.endswith("/values"):
            return told(["DCGM_FI_DEV_XID_ERRORS"])
        query, end = params["query"], round(float(params["time"]))
        begin = end - int(query.split("[")[1].split("ms]")[0]) // 1000
        seconds = range(begin - begin % 60, end + 1, 60)
        values = [(s, max([(at, xid) for at, xid in edges if s >= T + at], default=(0, 0))[1]) for s in seconds]
        if query.startswith("max by"):
            hit = [{"metric": {"Hostname": "n1"}, "value": [end, "79"]}] if any(xid for _, xid in values) else []
            return told({"resultType": "vector", "result": hit})
        return matrix(({"gpu": "0", "Hostname": "n1"}, [(float(s), str(xid)) for s, xid in values]))

    return answer


@pytest.mark.slow
def test_xids_without_samples_are_kept_and_cover_no_time(tmp_path: Path) -> None:
    with web(xids_only((1800, 79))) as there:
        reports = ingest(tmp_path / "w", settings(there.url), now=START + timedelta(hours=1))
    warnings = [warning for report in reports if report.parsed for warning in messages(report.parsed.warnings)]
    assert len(warnings) == 1
    assert warnings[0].startswith("XIDs, but no samples")
    with open_reader(tmp_path / "w") as reader:
        actual = reader.table("health_events").select("node", "gpu", "ts", "code", "severity").rows()
        loads = reader.table("loads").select("covers_from", "covers_until").rows()
    assert actual == [("n1", "0", START + timedelta(minutes=30), "79", "critical")]
    assert loads == [(None, None)]


@pytest.mark.slow
def test_time_with_xids_only_is_read_again_without_duplicates(tmp_path: Path) -> None:
    """Nor those of the time since: what was read last is no mark, for there were no samples."""
    kept = []
    for hour, edges in ((1, [(1800, 79)]), (2, [(1800, 79)]), (20, [(1800, 79), (30_000, 48), (60_000, 31)])):
        with web(xids_only(*edges)) as there:
            config = Config.model_validate({"cluster": "c", "prometheus": {"retries": 0}})
            for _ in range(2):
                ingest(tmp_path / "w", config, url=there.url, now=START + timedelta(hours=hour))
        with open_reader(tmp_path / "w") as reader:
            events = reader.table("health_events").sort("ts").select("ts", "code", "severity").rows()
            kept.append((reader.table("loads").height, [((ts - START).total_seconds(), *rest) for ts, *rest in events]))
    first = (1800, "79", "critical")
    assert kept[0] == kept[1] == (1, [first])  # where nothing new is told there is no load
    assert kept[2][1] == [first, (30_000, "48", "critical"), (60_000, "31", "info")]


@pytest.mark.slow
def test_mark_stays_where_samples_ended_while_xids_go_on(tmp_path: Path) -> None:
    xids = xids_only((5400, 79))

    def answer(path: str, params: dict[str, str]) -> Answer:
        if path.endswith("/values"):
            return told(["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_XID_ERRORS"])
        if path.endswith("query_range"):
            low, high = int(params["start"]), min(int(params["end"]), T + 3600)
            return matrix(({"gpu": "0", "Hostname": "n1"}, [(s, "0.5") for s in range(low, high + 1, 60)]))
        return minutes(path, params) if "vector(0)" in params["query"] else xids(path, params)

    with web(answer) as there:
        config = settings(there.url, chunk_hours=1)
        for hour in (1, 2, 3):
            there.questions.clear()
            ingest(tmp_path / "w", config, now=START + timedelta(hours=hour), since=START if hour == 1 else None)
        assert requested_from(there)[0] == 3600 - 60
    with open_reader(tmp_path / "w") as reader:
        reached = reader.query("watermark", cluster="c", source="prometheus.gpu")["covers_until"].item()
        assert reached == START + timedelta(hours=1)
        assert reader.table("health_events")["ts"].to_list() == [START + timedelta(seconds=5400)]


@pytest.mark.parametrize(
    ("more", "requested", "output"),
    [
        ({}, {"url": "prometheus:9090"}, "the address of the Prometheus server cannot be used"),
        ({"token_env": "TRACKSIDE_NO_SUCH_TOKEN"}, {}, r"names \$TRACKSIDE_NO_SUCH_TOKEN, which is not set"),
        ({}, {"since": NOW, "until": NOW - timedelta(hours=1)}, "is not before --until"),
    ],
)
def test_impossible_request_is_refused_before_any_query(
    tmp_path: Path, more: dict[str, object], requested: dict[str, Any], output: str
) -> None:
    with pytest.raises(OptionError, match=output):
        ingest(tmp_path / "w", settings("http://127.0.0.1:9", **more), **requested)


def test_missing_address_is_reported_with_its_setting(tmp_path: Path) -> None:
    done = trackside("ingest", "prometheus", "--cluster", "c", "--warehouse", str(tmp_path / "w"), cwd=tmp_path)
    assert done.returncode == 2
    assert "--url http://prometheus:9090" in done.stderr


def test_token_is_read_from_its_variable_and_not_printed(tmp_path: Path) -> None:
    (tmp_path / "trackside.toml").write_text('cluster = "c"\n[prometheus]\ntoken_env = "MY_TOKEN"\nretries = 0\n')
    with web(lambda *_: Answer(b"no", 403)) as there:
        done = trackside(
            *("ingest", "prometheus", "--url", there.url, "--warehouse", str(tmp_path / "w")),
            env={"MY_TOKEN": "t0k3n"},
            cwd=tmp_path,
        )
    assert done.returncode == 22
    assert there.questions[0][2]["Authorization"] == "Bearer t0k3n"
    assert "t0k3n" not in done.stderr + done.stdout
    assert "prometheus.token_env" in done.stderr


def test_doctor_reports_what_the_server_lacks(tmp_path: Path) -> None:
    def answer(path: str, params: dict[str, str]) -> Answer:
        if path.endswith("/query"):
            return told({"resultType": "vector", "result": [{"metric": {}, "value": [T, str(time.monotonic())]}]})
        return minutes(path, params)

    with web(answer) as there:
        (tmp_path / "trackside.toml").write_text(f'[prometheus]\nurl = "{there.url}"\n')
        done = trackside("doctor", "--warehouse", str(tmp_path / "w"), cwd=tmp_path)
    assert f"ok   {there.url} responds, and has DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" in done.stdout
    assert "warn newest reading" in done.stdout
    assert "warn no XIDs: enable DCGM_FI_DEV_XID_ERRORS" in done.stdout
    assert done.returncode == 0


def test_doctor_fails_if_the_configured_server_does_not_answer(tmp_path: Path) -> None:
    with web(minutes) as there:
        gone = there.url
    (tmp_path / "trackside.toml").write_text(f'[prometheus]\nurl = "{gone}"\n')
    done = trackside("doctor", "--warehouse", str(tmp_path / "w"), cwd=tmp_path)
    assert f"fail {gone} cannot be reached: Connection refused" in done.stdout
    assert done.returncode == 22
