"""Versions of the GPUs' driver, by the labels that exporters write: of nodes and days, from files and servers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from app.config.settings import Config
from ingest.prometheus.client.remote_read import Samples
from ingest.prometheus.gpu import drivers
from ingest.prometheus.load_files import ingest_files
from ingest.prometheus.store.samples import ALIASES, RENAMED_AT, _renamed
from ingest.prometheus.target import TelemetryRequest
from ingest.tables import NODE_ALIASES, conform
from queries.warehouse import open_writer
from tests.support.command import contents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MIDNIGHT = datetime(2026, 10, 2, tzinfo=UTC)
NOW = datetime(2026, 10, 5, tzinfo=UTC)


def samples(*series: tuple[Mapping[str, str], Sequence[float]]) -> Samples:
    """Series with their labels and their times, in hours from midnight."""
    times = [round((MIDNIGHT.timestamp() + hour * 3_600) * 1_000) for _, hours in series for hour in hours]
    sizes = np.array([len(hours) for _, hours in series], np.int64)
    return Samples([dict(labels) for labels, _ in series], sizes, np.array(times, np.int64), np.ones(len(times)))


def versions(read: Samples) -> pl.DataFrame:
    collected = drivers.Versions()
    collected.add(read)
    return collected.frame("a")


def of(version: str, node: str = "n7", gpu: str = "0") -> dict[str, str]:
    return {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": gpu, "Hostname": node, "DCGM_FI_DRIVER_VERSION": version}


def shown(frame: pl.DataFrame) -> list[tuple[str, int, str, float, float]]:
    """Node, day (0 from midnight on), version, and hours of its first and last reading."""
    hours = [
        ((pl.col(name) - MIDNIGHT).dt.total_seconds() / 3_600).alias(name) for name in ("first_seen_at", "last_seen_at")
    ]
    day = (pl.col("ts") - MIDNIGHT).dt.total_days().alias("day")
    return frame.select("node", day, "version", *hours).rows()


def test_readings_give_a_version_by_node_and_day() -> None:
    read = samples(
        (of("550.144.03"), [-1, 1, 2]), (of("550.144.03", gpu="1"), [0.5, 3]), (of("560.35.03"), [4, 5]),
        (of("550.144.03", node="n8"), [2]),
    )  # fmt: skip
    assert shown(versions(read)) == [
        ("n7", -1, "550.144.03", -1, -1),
        ("n7", 0, "550.144.03", 0.5, 3),
        ("n7", 0, "560.35.03", 4, 5),
        ("n8", 0, "550.144.03", 2, 2),
    ]


@pytest.mark.parametrize("version", ["6.12.12", "6.19.14.31400000"])
def test_exporter_of_amd_names_the_driver(version: str) -> None:
    labels = {"__name__": "gpu_gfx_activity", "hostname": "n9", "gpu_id": "0", "serial_number": "6924"}
    in_tree = labels | {"driver_version": "Linuxversion5.15.0-86-generic(buildd@lcy02)"}
    read = samples((labels | {"driver_version": version}, [1, 2]), (in_tree | {"hostname": "n10"}, [1]))
    assert shown(versions(read)) == [("n9", 0, version, 1, 2)]


@pytest.mark.parametrize("version", ["", "N/A", "<<<NULL>>>", "550", "v550.1", "5" * 99 + ".1", "550.1\n"])
def test_what_is_no_version_is_unknown(version: str) -> None:
    assert versions(samples((of(version), [1]))).is_empty()


def test_readings_of_no_node_or_without_the_label_are_unknown() -> None:
    no_node = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DRIVER_VERSION": "550.1"}
    assert versions(samples((no_node, [1]), ({"Hostname": "n7"}, [1]))).is_empty()


def test_one_metric_of_a_node_counts() -> None:
    """Another one of the node, read later, is not looked at; one of another node is."""
    later = of("550.144.03") | {"__name__": "DCGM_FI_DEV_FB_USED"}
    read = samples((of("550.144.03"), [1]), (later, [2]), (later | {"Hostname": "n8"}, [3]))
    assert [(node, last) for node, *_, last in shown(versions(read))] == [("n7", 1), ("n8", 3)]


def test_end_of_an_interval_belongs_to_the_day_before() -> None:
    collected = drivers.Versions(early_ms=1)
    collected.add(samples((of("550.144.03"), [0, 1])))
    assert [day for _, day, *_ in shown(collected.frame("a"))] == [-1, 0]


@pytest.mark.slow
def test_files_in_any_order_and_twice_give_the_same_versions(tmp_path: Path) -> None:
    names = []
    for number, hours in enumerate(([1, 2], [2, 6], [4])):
        lines = ["# TYPE DCGM_FI_DEV_GPU_UTIL gauge"]
        for hour in hours:
            at = MIDNIGHT.timestamp() + hour * 3_600
            labels = 'gpu="0",Hostname="n7",DCGM_FI_DRIVER_VERSION="550.144.03"'
            lines.append(f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 98 {at:.3f}")
        names.append(tmp_path / f"{number}.txt")
        names[-1].write_text("\n".join([*lines, "# EOF"]) + "\n")
    for warehouse, order in (("w", (0, 1, 2)), ("v", (2, 1, 1, 0))):
        with open_writer(tmp_path / warehouse, verb="test", now=NOW) as writer:
            files = [str(names[number]) for number in order]
            ingest_files(writer, Config(), files, TelemetryRequest(cluster="a"), now=NOW, progress=lambda *_: None)
        stored = contents(tmp_path / warehouse)["driver_versions"]
        assert shown(stored) == [("n7", 0, "550.144.03", 1, 6)]


def test_alias_counts_from_when_it_is_one(tmp_path: Path) -> None:
    """Of a day on which a host becomes a node, the version that was first read later is the node's."""
    read = samples((of("550.144.03", node="host"), [1, 9]), (of("560.35.03", node="host"), [11, 12]))
    since = MIDNIGHT + timedelta(hours=10)
    alias = {"cluster": "a", "source": ALIASES, "name": "host", "node": "n7", "valid_from": since}
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer, writer.transaction():
        writer.append("node_aliases", conform(pl.DataFrame([alias]), NODE_ALIASES))
        renamed = _renamed(writer, versions(read), frozenset({"a"}), RENAMED_AT["driver_versions"])
    assert [(node, version) for node, _, version, *_ in shown(renamed)] == [("host", "550.144.03"), ("n7", "560.35.03")]
