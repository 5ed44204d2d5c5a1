"""Telemetry of nodes, clusters and health in the warehouse: loads in any order and number, files of a day, hours."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.config.settings import Config, parse
from app.errors import ConfigError
from ingest.prometheus.settings import THRESHOLDS
from ingest.prometheus.store import samples
from ingest.prometheus.store.samples import has_new_events, load
from ingest.prometheus.tables import NODES as TABLE
from ingest.row_counts import row_counts
from ingest.store.request import from_file
from ingest.tables import (
    CLUSTER_SAMPLES,
    GPU_HOURS,
    GPU_SAMPLES,
    HEALTH_EVENTS,
    NODE_ALIASES,
    NODE_SAMPLES,
    NODES,
    REJECTS,
    Parsed,
    Schema,
    conform,
    empty,
)
from queries.samples import parquet_days
from queries.samples.parquet_days import OUTGROWN
from queries.warehouse import Writer, open_reader, open_writer
from tests.support.command import ROOT, assert_same, contents

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

START = datetime(2026, 11, 21, 22, tzinfo=UTC)
"""Two hours before a day ends."""

NOW = datetime(2026, 11, 23, tzinfo=UTC)
DEVICES = ("mlx5_0/1", "mlx5_1/1")


def minutes(low: int, high: int, *, seed: int = 5) -> dict[str, pl.DataFrame]:
    """All samples of two nodes between two minutes after START: the same, however the time is cut."""
    rows, gpus, counts = [], [], []
    for minute in range(low, high):
        chance = random.Random(1000 * seed + minute)
        if chance.random() < 0.05:
            continue  # nobody looked
        ts = START + timedelta(minutes=minute)
        for node in ("n1", "n2"):
            rows += [("c", node, "ib_received_bytes_per_s", each, ts, 60.0, chance.random()) for each in DEVICES]
            rows.append(("c", node, "cpu_busy", "", ts, 60.0, chance.random()))
            gpus.append(("c", node, "0", ts, 60.0, chance.random()))
        counts.append(("c", "jobs_running", "", ts, 60.0, chance.randrange(9)))
    return {
        "node_samples": frame(rows, NODE_SAMPLES),
        "gpu_samples": conform(
            frame(gpus, {**dict(list(GPU_SAMPLES.items())[:5]), "tensor_active": pl.Float32()}), GPU_SAMPLES
        ),
        "cluster_samples": frame(counts, CLUSTER_SAMPLES),
    }


def frame(rows: Sequence[tuple[object, ...]], schema: Schema) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=schema, orient="row")


def parsed(frames: dict[str, pl.DataFrame], *, covers: bool = True) -> Parsed:
    count = sum(rows.height for rows in frames.values())
    return Parsed(
        "prometheus.node",
        frozenset({"c"}),
        frames,
        empty(REJECTS),
        rows_read=count,
        rows_loaded=count,
        covers_from=START if covers else None,
        covers_until=NOW if covers else None,
    )


def put(warehouse: Path, *pieces: dict[str, pl.DataFrame], settings: Config | None = None) -> Path:
    with open_writer(warehouse, verb="test", now=NOW) as writer:
        for piece in pieces:
            load(writer, settings or Config(), [parsed(piece)], "c", request=from_file("test"), digest="", now=NOW)
    return warehouse


LAST = 240
"""Minutes of the reference: two hours on each side of midnight."""


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return put(tmp_path_factory.mktemp("storage") / "w", minutes(0, LAST))


def test_the_reference_has_two_days_and_hours_of_everything(reference: Path) -> None:
    result = contents(reference)
    assert result["node_samples"].height == 3 * result["gpu_samples"].height == 6 * result["cluster_samples"].height
    assert result["node_samples"]["ts"].dt.date().n_unique() == 2
    hours = result["node_hours"]
    assert hours.height == 2 * 3 * 4
    assert hours.group_by("metric").agg(pl.col("above_s").null_count() == pl.len()).sort("metric").rows() == [
        ("cpu_busy", False),
        ("ib_received_bytes_per_s", True),
    ]


@pytest.mark.slow
def test_twice_equals_once(reference: Path, tmp_path: Path) -> None:
    whole = minutes(0, LAST)
    assert_same(put(tmp_path / "w", whole, whole), reference)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_overlapping_pieces_in_any_order_equal_the_whole(reference: Path, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    cuts = [0, *sorted(chance.sample(range(5, LAST - 5), 7)), LAST]
    pieces = [minutes(max(0, low - chance.randrange(9)), high) for low, high in pairwise(cuts)]
    chance.shuffle(pieces)
    assert_same(put(tmp_path / "w", *pieces[:5], *pieces[3:]), reference)


@pytest.mark.slow
def test_nodes_merged_one_by_one_equal_the_whole(
    reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "ROWS_AT_ONCE", 1)
    monkeypatch.setattr(parquet_days, "AT_ONCE", 1)
    pieces = [minutes(low, low + 60) for low in (60, 0, 90, 120, 180, 150)]
    assert_same(put(tmp_path / "w", *pieces), reference)
    for folder in (tmp_path / "w" / "raw").glob("node_samples/*/day=2026-11-21/*.parquet"):
        rows = pl.read_parquet(folder, hive_partitioning=False)
        assert rows.equals(rows.sort(TABLE.key))


@pytest.mark.parametrize("at_once", [1, 1000])
def test_samples_without_a_node_are_never_dropped(at_once: int) -> None:
    rows = pl.DataFrame({"node": ["n1", None, "n2"], "value": [1.0, 2.0, 3.0]})
    with pytest.raises(AssertionError, match="1 samples without a node"):
        list(samples.by_nodes(rows, at_once))


@pytest.mark.slow
def test_metrics_in_pieces_of_their_own_equal_the_whole(reference: Path, tmp_path: Path) -> None:
    whole = minutes(0, LAST)
    pieces = [
        {"node_samples": whole["node_samples"].filter(pl.col("metric") == "cpu_busy")},
        {"cluster_samples": whole["cluster_samples"]},
        {"node_samples": whole["node_samples"].filter(pl.col("device") == DEVICES[0])},
        {"gpu_samples": whole["gpu_samples"].filter(pl.col("node") == "n2")},
        {"node_samples": whole["node_samples"].filter(pl.col("device") == DEVICES[1])},
        {"gpu_samples": whole["gpu_samples"].filter(pl.col("node") == "n1")},
    ]
    assert_same(put(tmp_path / "w", *pieces), reference)


PROGRAM = """
import sys
from pathlib import Path
from tests.ingest.prometheus.store.test_storage import LAST, minutes, put
put(Path(sys.argv[1]), *(minutes(max(0, low - 1), low + 20) for low in range(0, LAST, 20)))
"""


@pytest.mark.slow
def test_storage_is_complete_after_kills_at_any_moment(reference: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "w")]
    for number in range(4):
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while not (tmp_path / "w" / "warehouse.duckdb").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.2 + 0.4 * number)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command, cwd=ROOT, check=True)
    assert_same(tmp_path / "w", reference)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["compact_partitions", "run", "append", "append_new"])
def test_what_fails_in_the_middle_leaves_nothing_behind(
    reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    warehouse = put(tmp_path / "w", minutes(0, 100))
    before = contents(warehouse)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(Writer, step, fail)
        with pytest.raises(OSError, match="No space"):
            put(warehouse, minutes(90, LAST))
    put(warehouse, {})
    after = contents(warehouse)
    assert all(rows.equals(after[name]) for name, rows in before.items())
    assert_same(put(warehouse, minutes(90, LAST)), reference)


# --- files of a day


def files(warehouse: Path, table: str = "node_samples") -> dict[str, int]:
    """Files that count, by path, and their rows."""
    with open_reader(warehouse) as reader:
        result = reader.table("partitions").filter(table_name=table).filter(pl.col("removed_version").is_null())
    return dict(result.sort("path").select("path", "rows").iter_rows())


@pytest.mark.slow
def test_following_part_is_a_new_file_and_leaves_the_others(tmp_path: Path) -> None:
    warehouse = put(tmp_path / "w", minutes(0, 60))
    first = files(warehouse)
    both = files(put(warehouse, minutes(59, 80)))
    assert first.items() < both.items()
    assert len(both) == 2
    assert files(put(warehouse, minutes(50, 80))) == both  # nothing new


@pytest.mark.slow
def test_only_the_file_that_holds_what_changed_is_written_again(tmp_path: Path) -> None:
    warehouse = put(tmp_path / "w", minutes(0, 60), minutes(60, 80))
    long, short = files(warehouse)
    changed = minutes(70, 72)["node_samples"].with_columns(value=pl.lit(7.0, dtype=pl.Float32))
    result = files(put(warehouse, {"node_samples": changed}))
    assert long in result
    assert short not in result
    with open_reader(warehouse) as reader:
        rows = reader.table("node_samples")
    assert rows.filter(pl.col("value") == 7).height == changed.height
    assert rows.select("node", "metric", "device", "ts").is_duplicated().sum() == 0


@pytest.mark.slow
def test_day_of_many_parts_has_few_files_and_then_one(tmp_path: Path) -> None:
    """One, when the next day begins."""
    warehouse = tmp_path / "w"
    for low in range(0, 120, 10):
        put(warehouse, minutes(max(0, low - 1), low + 10))
        heights = sorted(files(warehouse).values())
        assert all(OUTGROWN * small <= large for small, large in pairwise(heights))
    assert len(heights) > 1
    days = {path.split("/")[3] for path in files(put(warehouse, minutes(119, 125)))}
    assert days == {"day=2026-11-21", "day=2026-11-22"}
    assert len(files(warehouse)) == 2


@pytest.mark.slow
def test_the_manifest_does_not_grow_with_files_that_are_gone(tmp_path: Path) -> None:
    for low in range(0, 60, 10):
        warehouse = put(tmp_path / "w", minutes(low, low + 10))
        with open_reader(warehouse) as reader:
            named = set(reader.table("partitions")["path"])
        assert named == {str(path.relative_to(warehouse)) for path in (warehouse / "raw").rglob("*.parquet")}


def test_files_are_sorted_by_series_and_time(reference: Path) -> None:
    for path in files(reference):
        rows = pl.read_parquet(reference / path, hive_partitioning=False)
        assert rows.equals(rows.sort("cluster", "node", "metric", "device", "ts"))


def test_a_day_may_change_twice_within_a_transaction(tmp_path: Path) -> None:
    day, whole = START.date(), minutes(0, 90)["node_samples"]
    pieces = [
        whole.filter(pl.col("ts") < START + timedelta(hours=1)),
        whole.filter(pl.col("ts") >= START + timedelta(hours=1)),
    ]
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer, writer.transaction():
        for piece in (*pieces, pieces[1].clear()):
            writer.change_partition("node_samples", "c", day, (piece.clear(), piece), order=TABLE.key)
        writer.change_partition("node_samples", "c", day, (pieces[1], pieces[0].clear()), order=TABLE.key)
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("node_samples").select(pieces[0].columns).sort(TABLE.key).equals(pieces[0].sort(TABLE.key))


# --- hours


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("gpu_samples.nope", "gpu_samples has no nope; it has gpu_util"),
        ("gpu_samples", "gpu_samples has no metric without a name"),
        ("cluster_samples.jobs_running", 'write "gpu_samples.METRIC" or "node_samples.METRIC"'),
        ("node_samples.", 'write "gpu_samples.METRIC" or "node_samples.METRIC"'),
    ],
)
def test_a_threshold_of_nothing_is_refused(name: str, output: str) -> None:
    with pytest.raises(ConfigError, match=output):
        parse({"telemetry": {"thresholds": {name: 1.0}}}, origin="x")


def test_own_threshold_adds_to_the_others_or_replaces_one() -> None:
    config = parse(
        {"telemetry": {"thresholds": {"gpu_samples.temperature_c": 80, "node_samples.load1": 64}}}, origin="x"
    )
    assert config.telemetry.thresholds == {**THRESHOLDS, "gpu_samples.temperature_c": 80, "node_samples.load1": 64}


def test_configured_threshold_applies_from_the_next_load(tmp_path: Path) -> None:
    settings = Config.model_validate({"telemetry": {"thresholds": {"node_samples.ib_received_bytes_per_s": 0.5}}})
    warehouse = put(tmp_path / "w", minutes(0, 60), minutes(0, 60), settings=settings)
    with open_reader(warehouse) as reader:
        hours = reader.table("node_hours").filter(metric="ib_received_bytes_per_s")
        samples = reader.table("node_samples").filter(pl.col("value") >= 0.5, metric="ib_received_bytes_per_s")
    assert hours["threshold"].unique().to_list() == [0.5]
    assert hours["above_s"].sum() == 60 * samples.height


@pytest.mark.slow
def test_an_hour_with_a_threshold_does_not_go_for_one_without(tmp_path: Path) -> None:
    whole = minutes(0, 60)["gpu_samples"]
    warehouse = put(tmp_path / "w", {"gpu_samples": whole})
    before = contents(warehouse)["gpu_hours"]
    poorer = before.with_columns(mean=pl.lit(0.5), threshold=None, above_s=None)
    after = contents(put(warehouse, {"gpu_hours": conform(poorer, GPU_HOURS)}))["gpu_hours"]
    assert after.filter(metric="tensor_active").equals(before.filter(metric="tensor_active"))


@pytest.mark.slow
def test_coverage_names_the_unobserved_hours(tmp_path: Path) -> None:
    warehouse = put(tmp_path / "w", minutes(0, 60), minutes(180, 200))
    with open_reader(warehouse) as reader:
        result = reader.table("gpu_coverage").filter(node="n1").sort("ts")
        seconds = 60 * reader.table("gpu_samples").filter(node="n1").height
    assert result["ts"].to_list() == [START + timedelta(hours=hour) for hour in range(4)]
    assert result["covered_s"].to_list()[1:3] == [0, 0]
    assert result["covered_s"].sum() == seconds
    assert (result["covered_s"] + result["missing_s"]).to_list() == [3600] * 4


# --- names and events


def aliases(*rows: tuple[str, int, str]) -> dict[str, pl.DataFrame]:
    """Name, minute from which it holds, and node."""
    reported = [("c", "prometheus", name, START + timedelta(minutes=minute), node) for name, minute, node in rows]
    return {"node_aliases": frame(reported, NODE_ALIASES)}


def inventory(warehouse: Path, *names: str) -> None:
    with open_writer(warehouse, verb="test", now=NOW) as writer, writer.transaction():
        reported = [{"cluster": "c", "node": name, "valid_from": START, "last_seen_at": NOW} for name in names]
        writer.append(
            "nodes", conform(pl.DataFrame(reported), NODES).with_columns(n_gpus=8, evidence=pl.lit("accounting"))
        )


@pytest.mark.slow
def test_unknown_node_aliases_are_left_out_and_repeats_kept_once(tmp_path: Path) -> None:
    warehouse = tmp_path / "w"
    inventory(warehouse, "slurm-0", "slurm-1")
    pieces = [
        aliases(("n1", 0, "slurm-0"), ("n1", 0, "web-7")),
        aliases(("n1", 60, "slurm-0")),
        aliases(("n1", 90, "slurm-1")),
    ]
    put(warehouse, *pieces, pieces[1], minutes(0, 120))
    with open_reader(warehouse) as reader:
        known = reader.table("node_aliases").sort("valid_from").select("valid_from", "node").rows()
        named = reader.table("node_samples").group_by("node").agg(pl.col("ts").min()).sort("node").rows()
    assert known == [(START, "slurm-0"), (START + timedelta(minutes=90), "slurm-1")]
    assert [node for node, _ in named] == ["n2", "slurm-0", "slurm-1"]
    assert named[2][1] == START + timedelta(minutes=90)


@pytest.mark.parametrize(
    ("slurm", "telemetry"),
    [
        (("N1", "n2"), {"N1", "n2"}),
        (("n1.dc.local", "n2"), {"n1.dc.local", "n2"}),
        (("n1", "N1", "n2"), {"n1", "n2"}),
        (("n1.a", "n1.b", "n2"), {"n1", "n2"}),
        (("n1x", "n2"), {"n1", "n2"}),
        (("N2", "n3"), {"n1", "N2"}),
    ],
)
def test_a_node_is_one_whatever_its_case_or_domain(tmp_path: Path, slurm: tuple[str, ...], telemetry: set[str]) -> None:
    warehouse = tmp_path / "w"
    inventory(warehouse, *slurm)
    put(warehouse, minutes(0, 5))
    with open_reader(warehouse) as reader:
        for table in ("gpu_samples", "gpu_hours", "node_samples"):
            assert set(reader.table(table)["node"]) == telemetry


def test_two_spellings_in_one_input_are_two_nodes(tmp_path: Path) -> None:
    """Slurm knows `n1` only: whether `N1` is the same host is unknown, since telemetry has both."""
    warehouse = tmp_path / "w"
    inventory(warehouse, "n1")
    both = {name: rows.with_columns(pl.col("node").str.replace("n2", "N1")) if "node" in rows.columns else rows
            for name, rows in minutes(0, 5).items()}  # fmt: skip
    put(warehouse, both)
    with open_reader(warehouse) as reader:
        assert set(reader.table("gpu_samples")["node"]) == {"n1", "N1"}


def test_names_and_samples_of_one_input_find_each_other(tmp_path: Path) -> None:
    warehouse = tmp_path / "w"
    inventory(warehouse, "slurm-0")
    put(warehouse, minutes(0, 30) | aliases(("n1", 0, "slurm-0")))
    with open_reader(warehouse) as reader:
        assert set(reader.table("gpu_samples")["node"]) == {"slurm-0", "n2"}


@pytest.mark.slow
def test_events_of_all_kinds_are_kept_once(tmp_path: Path) -> None:
    event = {
        "cluster": "c",
        "node": "n1",
        "ts": START,
        "severity": "critical",
        "source": "prometheus.health",
        "evidence": "telemetry",
    }
    reported = [
        event | {"kind": "ib", "code": "link_downed", "device": "mlx5_0/1", "value": 3.0},
        event | {"kind": "ib", "code": "link_downed", "device": "mlx5_1/1", "value": 1.0},
        event | {"kind": "xid", "code": "79", "gpu": "0", "source": "prometheus.gpu"},
    ]
    events = [conform(pl.DataFrame([each]), HEALTH_EVENTS) for each in reported]
    warehouse = put(tmp_path / "w", *({"health_events": each} for each in events))
    once = contents(warehouse)["health_events"]
    assert once.height == 3
    put(warehouse, {"health_events": pl.concat(events[::-1])})
    assert contents(warehouse)["health_events"].equals(once)
    with open_writer(warehouse, verb="test", now=NOW) as writer:
        assert not has_new_events(writer, parsed({"health_events": events[0]}, covers=False))
        later = events[0].with_columns(pl.col("ts") + pl.duration(hours=1))
        assert has_new_events(writer, parsed({"health_events": later}, covers=False))
        assert not has_new_events(writer, parsed(minutes(0, 5), covers=False))


def test_status_counts_the_samples_of_nodes(reference: Path) -> None:
    with open_reader(reference) as reader:
        there = {fed: n for _, source, fed, n in row_counts(reader).iter_rows() if source == "prometheus.node"}
        assert there == {"node_samples": reader.table("node_samples").height, "node_hours": 24}
        assert "stop" not in {each.check.severity for each in reader.checks()}


def test_days_are_of_utc(reference: Path) -> None:
    with open_reader(reference) as reader:
        days = reader.table("partitions").filter(table_name="gpu_samples")["day"].unique().sort().to_list()
    assert days == [date(2026, 11, 21), date(2026, 11, 22)]
