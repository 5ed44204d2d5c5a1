"""Samples of nodes and clusters merged by the same rule as those of GPUs, against a plain-Python twin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.prometheus.gpu.samples import end
from ingest.prometheus.store.merge import merge
from ingest.prometheus.tables import CLUSTERS, GPUS, NODES, TABLES, SampleTable
from ingest.tables import CLUSTER_SAMPLES, NODE_SAMPLES, conform, empty
from tests.support.slurm.parsing import at

if TYPE_CHECKING:
    from collections.abc import Sequence

T = 1_795_248_000  # 2026-11-21T08:00:00Z, an hour
Row = tuple[str, int, int, float]
"""Device, begin (seconds after T), length and value."""


def nodes(rows: Sequence[Row]) -> pl.DataFrame:
    reported = [
        ("c", "n1", "net_received_bytes_per_s", device, at(T + begin), s, value) for device, begin, s, value in rows
    ]
    return conform(
        pl.DataFrame(reported, schema=list(NODE_SAMPLES), orient="row", schema_overrides=NODE_SAMPLES), NODE_SAMPLES
    )


def as_gpus(frame: pl.DataFrame) -> pl.DataFrame:
    return conform(frame.rename({"device": "gpu", "value": "power_w"}), GPUS.schema)


def spans(frame: pl.DataFrame) -> dict[str, list[tuple[int, int]]]:
    """From and to (seconds after T) of each device's rows."""
    rows = frame.sort("device", "ts").select(
        "device", pl.col("ts").dt.epoch("s") - T, end("ts", "interval_s").dt.epoch("s").alias("end") - T
    )
    result: dict[str, list[tuple[int, int]]] = {}
    for device, low, high in rows.iter_rows():
        result.setdefault(device, []).append((low, high))
    return result


CELLS = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 5), st.integers(0, 9))
LOADS = st.lists(st.lists(CELLS, max_size=8), min_size=1, max_size=5)


@pytest.mark.slow
@settings(deadline=None)
@given(LOADS)
def test_of_whole_cells_the_last_load_counts(loads: list[list[tuple[str, int, int]]]) -> None:
    merged = nodes([])
    twin: dict[tuple[str, int], float] = {}
    for load in loads:
        rows = [(device, 60 * cell, 60, float(value)) for device, cell, value in load]
        merged = merge(merged, nodes(rows), interval_s=60, of=NODES)
        twin |= {(device, begin): value for device, begin, _, value in rows}
    result = {
        (device, round(ts.timestamp()) - T): value
        for device, ts, value in merged.select("device", "ts", "value").rows()
    }
    assert result == twin
    assert merged.equals(merged.sort(NODES.key))


EDGES = st.tuples(
    st.sampled_from(["a", "b"]), st.integers(0, 3), st.integers(0, 3), st.integers(1, 4), st.integers(0, 9)
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(EDGES, max_size=8))
def test_no_second_is_stored_twice_and_none_is_lost(edges: list[tuple[str, int, int, int, int]]) -> None:
    """Whatever parts of cells come one after the other."""
    merged = nodes([])
    twin: dict[str, set[int]] = {}
    for device, cell, quarter, quarters, value in edges:
        begin, length = 60 * cell + 15 * quarter, 15 * min(quarters, 4 - quarter)
        merged = merge(merged, nodes([(device, begin, length, float(value))]), interval_s=60, of=NODES)
        twin.setdefault(device, set()).update(range(begin, begin + length))
    for device, seconds in twin.items():
        reported = [second for low, high in spans(merged)[device] for second in range(low, high)]
        assert sorted(reported) == sorted(seconds)


@pytest.mark.slow
@settings(deadline=None)
@given(LOADS)
def test_every_table_is_merged_by_the_same_rule(loads: list[list[tuple[str, int, int]]]) -> None:
    as_each = ((NODES, conform), (GPUS, lambda rows, _: as_gpus(rows)), (CLUSTERS, conform))
    merged = [empty(of.schema) for of, _ in as_each]
    for number, load in enumerate(loads):
        first = 15 * (number % 3)
        rows = nodes([(device, 60 * cell + first, 60 - first, value) for device, cell, value in load])
        for place, (of, made) in enumerate(as_each):
            merged[place] = merge(merged[place], made(rows, of.schema), interval_s=60, of=of)
    assert as_gpus(merged[0]).equals(merged[1])
    assert conform(merged[0], CLUSTER_SAMPLES).equals(merged[2])


@pytest.mark.parametrize("of", TABLES, ids=lambda of: of.name)
def test_a_table_declares_its_columns(of: SampleTable) -> None:
    assert [*of.key, "interval_s", *of.values] == list(of.schema)
    assert (len(of.values) > 1) == (of is GPUS)


@pytest.mark.parametrize("edge_first", [True, False])
def test_a_whole_cell_keeps_what_only_an_edge_has(edge_first: bool) -> None:
    """An exporter's file that ends within a cell, and another exporter's that does not."""
    whole = as_gpus(nodes([("0", 0, 60, 1.0)]))
    edge = as_gpus(nodes([("0", 0, 45, 9.0)])).rename({"power_w": "temperature_c", "temperature_c": "power_w"})
    edge = conform(edge, GPUS.schema)
    first, second = (edge, whole) if edge_first else (whole, edge)
    merged = merge(first, second, interval_s=60)
    assert merged.select("interval_s", "power_w", "temperature_c").rows() == [(60.0, 1.0, 9.0)]


def test_between_two_files_of_a_history_no_trifle_is_lost() -> None:
    """Scrapes come a little later than usual; a gap that may be real stays."""
    first = [("0", 0, 60, 1.0), ("0", 60, 29, 1.0), ("1", 0, 60, 1.0), ("2", 60, 29, 1.0)]
    second = [("0", 91, 29, 2.0), ("1", 62, 58, 2.0), ("2", 96, 24, 2.0)]
    for loads in ((first, second), (second, first)):
        merged = as_gpus(nodes([]))
        for load in loads:
            merged = merge(merged, as_gpus(nodes(load)), interval_s=60)
        result = spans(merged.rename({"gpu": "device"}))
        assert result["0"] == [(0, 60), (60, 91), (91, 120)]
        assert result["1"] == [(0, 60), (60, 120)]
        assert result["2"] == [(60, 89), (96, 120)]
