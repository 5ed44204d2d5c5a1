"""Telemetry from files of any kind into the warehouse: what one tells, every other way of writing it tells."""

from __future__ import annotations

import gzip
import io
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest

from app.config.settings import Config
from ingest.errors import InputError, TruncatedInputError, UntimedError
from ingest.prometheus import load_files
from ingest.prometheus.files import parquet_tables
from ingest.prometheus.load_files import ingest_files
from ingest.prometheus.target import TelemetryRequest
from queries.warehouse import open_reader, open_writer
from tests.support.command import ROOT, assert_same, contents

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.store.report import LoadReport

T = 1_795_248_000  # 2026-11-21T08:00:00Z, an hour
NOW = datetime(2026, 11, 22, tzinfo=UTC)
GPU = "DCGM_FI_DEV_GPU_UTIL"
SECONDS = range(15, 2 * 3600 + 1, 15)


def series() -> dict[str, list[tuple[str, int]]]:
    """Values and seconds after T of each series: GPUs, their errors, nodes, links that go down, Slurm, and others."""
    chance = random.Random(11)
    result: dict[str, list[tuple[str, int]]] = {}
    for gpu in range(2):
        labels = f'gpu="{gpu}",UUID="GPU-{gpu}",Hostname="n1"'
        result[f"{GPU}{{{labels}}}"] = [(str(chance.randrange(101)), s) for s in SECONDS]
        result[f"DCGM_FI_DEV_XID_ERRORS{{{labels}}}"] = [("79" if s > 3000 and gpu else "0", s) for s in SECONDS]
        result[f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{labels}}}"] = [(str(int(s > 4000)), s) for s in SECONDS]
    node = 'instance="10.0.0.1:9100"'
    result[f'node_uname_info{{{node},nodename="n1"}}'] = [("1", s) for s in SECONDS]
    result[f"node_load1{{{node}}}"] = [(str(chance.randrange(64)), s) for s in SECONDS]
    port = f'{node},device="mlx5_0",port="1"'
    result[f"node_infiniband_port_data_received_bytes_total{{{port}}}"] = [(str(1000 * s), s) for s in SECONDS]
    result[f"node_infiniband_link_downed_total{{{port}}}"] = [(str(int(s > 5000)), s) for s in SECONDS]
    result["slurm_nodes_alloc"] = [("5", s) for s in SECONDS]
    result["go_goroutines"] = [("7", s) for s in SECONDS]
    return result


def by_series() -> str:
    """As promtool writes it: all of a series, then the next."""
    return (
        "".join(f"{name} {value} {T + s}\n" for name, reported in series().items() for value, s in reported) + "# EOF\n"
    )


def by_time() -> str:
    """As it was scraped: all series, then again."""
    rows = [(s, f"{name} {value} {T + s}000\n") for name, reported in series().items() for value, s in reported]
    return "".join(line for _, line in sorted(rows, key=lambda row: row[0]))


def packed(text: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(text.encode())
    return sink.getvalue().to_pybytes()


def as_parquet(text: str) -> bytes:
    """The same readings, a row each."""
    rows = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, value, at = line.rsplit(" ", 2)
        metric, _, labels = name.partition("{")
        reported = dict(pair.split("=") for pair in labels.rstrip("}").split(",") if pair)
        moment = datetime.fromtimestamp(int(at), UTC)
        rows.append({"__name__": metric, "timestamp": moment, "value": float(value)} | {
            key: each.strip('"') for key, each in reported.items()
        })  # fmt: skip
    data = io.BytesIO()
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(data)
    return data.getvalue()


def ingest(warehouse: Path, *files: Path | str, config: Config | None = None, **requested: object) -> list[LoadReport]:
    wanted = TelemetryRequest(**{"cluster": "c", **requested})  # type: ignore[arg-type]  # fields of TelemetryRequest
    with open_writer(warehouse, verb="test", now=NOW) as writer:
        names = [str(file) for file in files]
        return ingest_files(writer, config or Config(), names, wanted, now=NOW, progress=lambda *_: None)


def written(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    reports = ingest(folder / "w", written(folder, "all.om", by_series()))
    assert [report.error for report in reports] == [None] * len(reports)
    return folder / "w"


def test_one_file_feeds_every_source_with_a_report_and_load_each(tmp_path: Path) -> None:
    path = written(tmp_path, "all.om", by_series())
    reports = ingest(tmp_path / "w", path)
    parsed = [report.parsed for report in reports if report.parsed is not None]
    assert [each.source for each in parsed] == [
        "prometheus.gpu",
        "prometheus.node",
        "prometheus.slurm",
        "prometheus.health",
    ]
    lines = len(by_series().splitlines()) - 1
    once = sum(each.rows_read for each in parsed[:3])  # what health reads of nodes and XIDs others have read, too
    assert once == lines - 2 * len(SECONDS)  # errors of memory, which nobody else reads
    assert parsed[0].rows_skipped == len(SECONDS)  # go_goroutines
    with open_reader(tmp_path / "w") as reader:
        loads = reader.table("loads")
    assert sorted(loads["source"]) == sorted(each.source for each in parsed)
    assert set(loads["origin"]) == {str(path)}


def test_report_of_a_load(reference: Path) -> None:
    result = contents(reference)
    assert result["gpu_samples"].height == 240
    metrics = set(result["node_samples"]["metric"])
    assert {"load1", "ib_received_bytes_per_s"} <= metrics
    rates = result["node_samples"].filter(pl.col("metric") == "ib_received_bytes_per_s")["value"]
    assert rates.to_list() == pytest.approx([1000.0] * 120)
    assert set(result["cluster_samples"]["value"]) == {5.0}
    events = result["health_events"].select("kind", "node", "gpu", "device", pl.col("ts").dt.epoch("s") - T)
    assert {("xid", "n1", "1", None, 3015), ("ib", "n1", None, "mlx5_0/1", 5010)} <= set(events.iter_rows())
    assert ("ecc", "n1", "0", None, 4005) in set(events.iter_rows())


@pytest.mark.slow
def test_any_order_and_packing_give_the_same(reference: Path, tmp_path: Path) -> None:
    ways: dict[str, str | bytes] = {
        "by-time.om": by_time(),
        "all.om.gz": gzip.compress(by_series().encode()),
        "all.om.zst": packed(by_series()),
        "crlf.om": by_series().replace("\n", "\r\n"),
        "readings.parquet": as_parquet(by_series()),
    }
    for number, (name, data) in enumerate(ways.items()):
        reports = ingest(tmp_path / f"w{number}", written(tmp_path, name, data))
        assert [report.error for report in reports] == [None] * len(reports), name
        assert_same(tmp_path / f"w{number}", reference)


@pytest.mark.slow
def test_twice_equals_once_and_pieces_equal_the_whole(reference: Path, tmp_path: Path) -> None:
    lines = by_time().splitlines(keepends=True)
    cuts = [0, len(lines) // 3, 2 * len(lines) // 3, len(lines)]
    width = len(series())
    parts = [
        written(tmp_path, f"{n}.om", "".join(lines[max(0, low - 8 * width) : high]))
        for n, (low, high) in enumerate(pairwise(cuts))
    ]
    ingest(tmp_path / "w", *parts)
    ingest(tmp_path / "w", *parts)
    left, right = contents(tmp_path / "w"), contents(reference)
    for name in ("gpu_samples", "node_samples", "cluster_samples"):
        keys = [column for column in left[name].columns if column != "value"]
        assert left[name].select(keys).equals(right[name].select(keys)), name
    assert set(left["health_events"]["kind"]) == set(right["health_events"]["kind"])


@pytest.mark.slow
def test_a_warehouses_own_files_read_back_are_the_same_rows(reference: Path, tmp_path: Path) -> None:
    files = sorted((reference / "raw").rglob("*.parquet"))
    assert {file.relative_to(reference / "raw").parts[0] for file in files} >= {"gpu_samples", "node_samples"}
    with open_reader(reference) as reader:
        for name in ("gpu_hours", "node_hours", "health_events"):
            path = tmp_path / f"{name}.parquet"
            reader.table(name).write_parquet(path)
            files.append(path)
    reports = ingest(tmp_path / "w", *files, cluster=None)
    assert [(report.error, report.parsed and report.parsed.rows_rejected) for report in reports] == [(None, 0)] * len(
        reports
    )
    tables, expected = contents(tmp_path / "w"), contents(reference)
    for each in (tables, expected):
        del each["gpu_uuids"]  # the rows name GPUs by index alone
    for name, rows in tables.items():
        assert rows.equals(expected[name]), name


@pytest.mark.slow
def test_host_names_of_a_file_apply_to_its_own_rows(tmp_path: Path) -> None:
    """On Kubernetes a Slurm node is a pod, and telemetry names its host."""
    node = {
        "cluster": ["c"],
        "node": ["worker-3"],
        "valid_from": [NOW],
        "last_seen_at": [NOW],
        "n_gpus": [2],
        "evidence": ["seen"],
    }
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer, writer.transaction():
        writer.append("nodes", pl.DataFrame(node))
    pods = [f'kube_pod_info{{pod="worker-3",node="n1",created_by_kind="NodeSet"}} 1 {T + s}' for s in (0, *SECONDS)]
    ingest(tmp_path / "w", written(tmp_path, "all.om", "\n".join([*pods, by_series()])))
    with open_reader(tmp_path / "w") as reader:
        for name in ("gpu_samples", "node_samples", "health_events"):
            assert set(reader.table(name)["node"]) == {"worker-3"}, name


@pytest.mark.slow
def test_a_bad_file_leaves_nothing_behind_and_stops_no_other(reference: Path, tmp_path: Path) -> None:
    good = written(tmp_path, "good.om", by_series())
    files = {
        "cut.om.gz": gzip.compress(by_series().encode())[:-300],
        "cut.om.zst": packed(by_series())[:-30],
        "torn.parquet": as_parquet(by_series())[:-30],
        "page.html": b"<html>",
        "untimed.om": b"".join(b'%s{gpu="0",Hostname="n1"} %d\n' % (GPU.encode(), n) for n in range(9)),
    }
    bad = [written(tmp_path, name, data) for name, data in files.items()]
    reports = ingest(tmp_path / "w", *bad[:2], good, *bad[2:], tmp_path / "none.om")
    errors = {report.origin.rpartition("/")[2]: report.error for report in reports if report.error}
    assert set(errors) == {*files, "none.om"}
    assert all(isinstance(error, InputError) for error in errors.values())
    assert isinstance(errors["cut.om.gz"], TruncatedInputError)
    assert isinstance(errors["cut.om.zst"], TruncatedInputError)
    assert isinstance(errors["untimed.om"], UntimedError)
    assert "none of its lines has a timestamp" in str(errors["untimed.om"])
    assert_same(tmp_path / "w", reference)


@pytest.mark.slow
def test_what_is_piped_in_is_read_packed_or_not(reference: Path, tmp_path: Path) -> None:
    for number, data in enumerate((packed(by_series()), by_time().encode())):
        warehouse = tmp_path / f"w{number}"
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "app.cli.main",
                "ingest",
                "prometheus",
                "-",
                "--cluster",
                "c",
                "--warehouse",
                warehouse,
            ],
            cwd=ROOT,
            input=data,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert b"prometheus.node  -" in done.stderr
        assert_same(warehouse, reference)


@pytest.mark.slow
def test_only_the_requested_time_is_loaded(tmp_path: Path) -> None:
    since, until = (datetime.fromtimestamp(T, UTC) + timedelta(minutes=each) for each in (30, 60))
    ways: list[str | bytes] = [by_series(), as_parquet(by_series())]
    for number, data in enumerate(ways):
        path = written(tmp_path, f"{number}", data)
        ingest(tmp_path / f"w{number}", path, since=since, until=until)
        with open_reader(tmp_path / f"w{number}") as reader:
            for name in ("gpu_samples", "node_samples", "cluster_samples"):
                times = reader.table(name)["ts"]
                assert (times.min(), times.max()) == (since, until - timedelta(minutes=1)), name


def test_a_mapping_of_ones_own_is_read_from_files_too(tmp_path: Path) -> None:
    entry = {"name": "go_goroutines", "fills": "cluster_samples.goroutines"}
    config = Config.model_validate({"prometheus": {"metric": [entry]}})
    ingest(tmp_path / "w", written(tmp_path, "all.om", by_series()), config=config)
    with open_reader(tmp_path / "w") as reader:
        result = reader.table("cluster_samples").filter(pl.col("metric") == "goroutines")
    assert set(result["value"]) == {7.0}


@pytest.mark.slow
def test_progress_reports_how_far_a_large_file_is(tmp_path: Path) -> None:
    path = written(tmp_path, "all.om", by_series())
    reported: list[tuple[str, int, int]] = []
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        requested = TelemetryRequest(cluster="c")
        ingest_files(writer, Config(), [str(path)], requested, now=NOW, progress=lambda *each: reported.append(each))
    assert reported == [(str(path), 0, 1), (f"{path}, 100 % of it read", 0, 1)]


def hours_with_flaws(chance: random.Random) -> pl.DataFrame:
    """Rows of hours of two clusters in no order: some twice, with more and with less of the hour, and some refused."""
    rows = [
        {
            "cluster": chance.choice(["c", "c", "d"]),
            "node": chance.choice(["n1", "n2", ""]),
            "gpu": "0",
            "ts": None if chance.random() < 0.05 else datetime.fromtimestamp(T - 3600 * chance.randrange(9), UTC),
            "metric": chance.choice(["power_w", "gpu_util", "odd"]),
            "mean": 0.5,
            "max": float(number),
            "covered_s": chance.choice([60.0, 3600.0, 7200.0]),
        }
        for number in range(200)
    ]
    far = {**rows[0], "ts": datetime(1971, 1, 1, tzinfo=UTC)}
    return pl.DataFrame([*rows, far], schema_overrides={"ts": pl.Datetime("us", "UTC")})


@pytest.mark.slow
def test_table_in_blocks_of_time_loads_as_the_whole_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(5)
    table = hours_with_flaws(chance).unique(["cluster", "node", "ts", "metric", "covered_s"], keep="any")
    path = tmp_path / "hours.parquet"
    table.write_parquet(path, row_group_size=17)
    (whole,) = ingest(tmp_path / "whole", path)
    monkeypatch.setattr(load_files, "blocks", partial(parquet_tables.blocks, rows=20))
    assert len(parquet_tables.blocks(path.read_bytes(), "x", rows=20)) > 4
    (parts,) = ingest(tmp_path / "parts", path)
    assert whole.parsed is not None
    assert parts.parsed is not None
    for name in ("clusters", "rows_read", "rows_loaded", "rows_duplicate", "rows_skipped", "rows_rejected"):
        assert getattr(parts.parsed, name) == getattr(whole.parsed, name), name
    assert (parts.parsed.covers_from, parts.parsed.covers_until) == (
        whole.parsed.covers_from,
        whole.parsed.covers_until,
    )
    assert parts.parsed.rows_loaded > 10
    assert parts.parsed.rows_rejected > 40
    assert_same(tmp_path / "parts", tmp_path / "whole")
    (again,) = ingest(tmp_path / "parts", path)
    assert again.parsed is not None
    assert again.parsed.rows_new == 0


def test_blocks_of_time_share_out_every_row_once() -> None:
    table = hours_with_flaws(random.Random(7))
    data = io.BytesIO()
    table.write_parquet(data)
    conditions = parquet_tables.blocks(data.getvalue(), "x", rows=25)
    counted = table.select(
        pl.sum_horizontal(each.cast(pl.Int8).fill_null(0) for each in conditions if each is not None)
    )
    assert set(counted.to_series()) == {1}
    assert parquet_tables.blocks(data.getvalue(), "x", rows=table.height) == [None]
