"""Parquet files with rows of tables: which table they are told to hold, what is refused, and why."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import InputError, MissingColumnError
from ingest.prometheus.files.parquet_tables import parse_table
from ingest.prometheus.files.table_rules import TABLES, table_of_columns
from ingest.prometheus.gpu.samples import end
from ingest.tables import columns_of
from tests.support.slurm.parsing import at

if TYPE_CHECKING:
    from ingest.tables import Parsed

T = 1_795_248_000
HOUR = at(T)
ROWS: dict[str, dict[str, Any]] = {
    "gpu_samples": {"node": "n1", "gpu": "0", "ts": HOUR, "interval_s": 60.0, "gpu_util": 0.5, "power_w": 700.0},
    "gpu_hours": {"node": "n1", "gpu": "0", "ts": HOUR, "metric": "power_w", "mean": 7.0, "covered_s": 60.0},
    "node_samples": {"node": "n1", "metric": "load1", "device": "", "ts": HOUR, "interval_s": 60.0, "value": 3.0},
    "node_hours": {"node": "n1", "metric": "load1", "device": "", "ts": HOUR, "mean": 3.0, "covered_s": 60.0},
    "cluster_samples": {"metric": "nodes", "device": "idle", "ts": HOUR, "interval_s": 60.0, "value": 3.0},
    "health_events": {"node": "n1", "gpu": "0", "ts": HOUR, "kind": "xid", "code": "79", "severity": "critical"},
}
"""A good row of each table, with what a file needs at least."""

SOURCES = {
    "gpu_samples": "prometheus.gpu",
    "gpu_hours": "prometheus.gpu_hours",
    "node_samples": "prometheus.node",
    "node_hours": "prometheus.node",
    "cluster_samples": "prometheus.slurm",
    "health_events": "prometheus.health",
}


def parquet(frame: pl.DataFrame) -> bytes:
    data = io.BytesIO()
    frame.write_parquet(data)
    return data.getvalue()


def rows(table: str, *changes: dict[str, Any]) -> pl.DataFrame:
    types = {name: kind for name, kind in columns_of(table).items() if kind.is_float()}
    return pl.DataFrame([{**ROWS[table], **change} for change in changes], schema_overrides=types)


def parse(frame: pl.DataFrame, *, cluster: str | None = "c", **more: Any) -> Parsed:
    return parse_table(parquet(frame), origin="rows.parquet", cluster=cluster, **more)


@pytest.mark.parametrize("table", ROWS)
def test_valid_row_is_loaded_into_the_table_of_its_columns(table: str) -> None:
    parsed = parse(rows(table, {}))
    assert (parsed.source, parsed.rows_loaded, parsed.rows_read) == (SOURCES[table], 1, 1)
    (name,) = parsed.frames
    assert name == table
    reported = parsed.frames[name].row(0, named=True)
    assert {key: reported[key] for key in ROWS[table]} == ROWS[table]
    assert reported["cluster"] == "c"


@pytest.mark.parametrize("table", ROWS)
def test_all_columns_of_a_table_identify_it(table: str) -> None:
    result = table_of_columns(list(columns_of(table)))
    assert result is not None
    assert result.name == table


def test_every_table_that_files_may_hold_is_tested() -> None:
    assert set(ROWS) == {table.name for table in TABLES}


def test_file_matching_several_tables_is_the_one_it_matches_best() -> None:
    """That is the table of which it has the most columns."""
    both = rows("node_samples", {}).with_columns(gpu=pl.lit("0"), sm_active=pl.lit(0.5))
    assert set(parse(both).frames) == {"node_samples"}  # of gpu_samples it has 5, and all that are needed
    assert set(parse(both.with_columns(gpu_util=pl.lit(0.5), power_w=pl.lit(7.0))).frames) == {"gpu_samples"}


@pytest.mark.parametrize(
    ("table", "lost", "output"),
    [
        ("gpu_samples", "interval_s", r"lacks interval_s; it has node, gpu"),
        ("node_samples", "device", r"lacks device; it has node, metric"),
        ("health_events", "code", r"lacks code; it has node"),
    ],
)
def test_a_file_that_lacks_a_column_is_refused_as_a_whole(table: str, lost: str, output: str) -> None:
    with pytest.raises(MissingColumnError, match=output):
        parse(rows(table, {}).drop(lost))


@pytest.mark.parametrize(
    ("table", "change", "reason"),
    [
        ("gpu_samples", {"gpu": None}, "no cluster, node or GPU"),
        ("gpu_samples", {"node": ""}, "no cluster, node or GPU"),
        ("gpu_samples", {"ts": None}, "no ts"),
        ("gpu_samples", {"ts": at(0)}, "ts is not between the years 2000 and 2100"),
        ("gpu_samples", {"interval_s": None}, "interval_s is not between 0 and an hour"),
        ("gpu_samples", {"interval_s": 0.0}, "interval_s is not between 0 and an hour"),
        ("gpu_samples", {"interval_s": -60.0}, "interval_s is not between 0 and an hour"),
        ("gpu_samples", {"interval_s": 3601.0}, "interval_s is not between 0 and an hour"),
        ("gpu_samples", {"interval_s": float("nan")}, "a value is not finite"),
        ("gpu_samples", {"gpu_util": 50.0}, "a ratio is not between 0 and 1"),
        ("gpu_samples", {"gpu_util": -0.1}, "a ratio is not between 0 and 1"),
        ("gpu_samples", {"power_w": -1.0}, "a value is below 0"),
        ("gpu_samples", {"power_w": 1e39}, "a value is not finite"),  # as 32 bits
        ("gpu_samples", {"gpu_util": None, "power_w": None}, "no value"),
        ("gpu_hours", {"above_s": 61.0}, "above_s is not within covered_s"),
        ("node_samples", {"metric": None}, "no cluster, node or metric"),
        ("node_samples", {"device": None}, "no device; of a whole node (cluster) it is empty"),
        ("node_samples", {"value": None}, "no value"),
        ("node_samples", {"value": float("inf")}, "a value is not finite"),
        ("node_samples", {"metric": "ib_received_bytes_per_s", "value": -1.0}, "a rate is below 0"),
        ("node_samples", {"interval_s": -1.0}, "interval_s is not between 0 and an hour"),
        ("node_hours", {"ts": at(T + 1)}, "ts is not the beginning of an hour"),
        ("node_hours", {"covered_s": 3601.0}, "covered_s is not within an hour"),
        ("node_hours", {"mean": None}, "no mean"),
        ("cluster_samples", {"metric": ""}, "no cluster or metric"),
        ("health_events", {"kind": None}, "no cluster, node, kind, source or evidence"),
        ("health_events", {"code": None}, "no code"),
        ("health_events", {"ts": None}, "no ts"),
        ("health_events", {"severity": "terrible"}, "severity is not critical, warning or info"),
    ],
)
def test_a_row_that_cannot_be_is_kept_with_its_reason(table: str, change: dict[str, Any], reason: str) -> None:
    parsed = parse(rows(table, {}, {"ts": at(T + 7200), **change}))
    assert parsed.rejects["reason"].to_list() == [reason]
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected) == (2, 1, 1)
    raw = json.loads(parsed.rejects["raw"][0])
    assert set(raw) == set(columns_of(table))


def test_what_is_no_fault_is_no_reason() -> None:
    cold = parse(rows("gpu_samples", {"gpu_util": None}).with_columns(temperature_c=pl.lit(-10.0)))
    assert cold.rows_loaded == 1
    falling = parse(rows("node_samples", {"metric": "clock_offset_s", "value": -0.5}))
    assert falling.rows_loaded == 1
    quiet = parse(rows("health_events", {"severity": None, "gpu": None, "code": ""}))
    assert quiet.rows_loaded == 1


def test_event_without_a_source_is_telemetrys() -> None:
    (event,) = parse(rows("health_events", {})).frames["health_events"].iter_rows(named=True)
    assert (event["source"], event["evidence"]) == ("prometheus.health", "telemetry")
    named = rows("health_events", {}).with_columns(source=pl.lit("prometheus.gpu"))
    assert parse(named).frames["health_events"]["source"].to_list() == ["prometheus.gpu"]


def test_samples_cover_first_to_last_end_and_events_no_time() -> None:
    samples = parse(rows("node_samples", {}, {"ts": at(T + 90), "interval_s": 15.5}))
    assert (samples.covers_from, samples.covers_until) == (HOUR, at(T + 105, 500_000))
    events = parse(rows("health_events", {}))
    assert (events.covers_from, events.covers_until) == (None, None)


def test_rows_outside_the_window_are_skipped() -> None:
    frame = rows("cluster_samples", *({"ts": at(T + 60 * minute)} for minute in range(5)))
    parsed = parse(frame, since=at(T + 60), until=at(T + 180))
    assert (parsed.rows_loaded, parsed.rows_skipped, parsed.rows_read) == (2, 3, 5)


def test_equal_rows_are_one_and_of_one_time_the_longer_is_kept() -> None:
    parsed = parse(rows("node_samples", {}, {}, {"interval_s": 30.0, "value": 9.0}))
    assert (parsed.rows_loaded, parsed.rows_duplicate) == (1, 2)
    assert parsed.frames["node_samples"]["value"].to_list() == [3.0]
    events = parse(rows("health_events", {}, {}, {"code": "48"}))
    assert (events.rows_loaded, events.rows_duplicate) == (2, 1)


def test_of_rows_of_the_same_time_the_first_stays() -> None:
    frame = rows("gpu_samples", *({"ts": at(T + 30 * half), "power_w": float(half)} for half in range(6)), {"gpu": "1"})
    parsed = parse(frame.sample(fraction=1, shuffle=True, seed=5))
    kept = parsed.frames["gpu_samples"].filter(pl.col("gpu") == "0").sort("ts")
    assert kept["power_w"].to_list() == [0.0, 2.0, 4.0]
    assert parsed.rejects["reason"].to_list() == ["covers time that another row covers"] * 3


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["0", "1"]),
            st.integers(0, 20),
            st.sampled_from([0.0, 10.0, 25.0, 60.0, 3600.0, -5.0, None]),
            st.sampled_from([0.5, 1.5, -1.0, float("nan"), None]),
        ),
        min_size=1,
    )
)
def test_any_rows_are_all_counted_and_no_time_is_covered_twice(
    reported: list[tuple[str, int, float | None, float | None]],
) -> None:
    frame = rows(
        "gpu_samples",
        *({"gpu": gpu, "ts": at(T + 10 * t), "interval_s": s, "gpu_util": v} for gpu, t, s, v in reported),
    )
    parsed = parse(frame)  # Parsed itself checks the account
    assert parsed.rows_read == len(reported)
    kept = parsed.frames["gpu_samples"].with_columns(end("ts", "interval_s").alias("end")).sort("gpu", "ts")
    for (gpu, _, stop), (next_gpu, begin, _) in pairwise(kept.select("gpu", "ts", "end").iter_rows()):
        assert gpu != next_gpu or stop <= begin
    good = {(gpu, t) for gpu, t, s, v in reported if s is not None and s > 0 and (v is None or 0 <= v <= 1)}
    first = {gpu: min(t for each, t in good if each == gpu) for gpu, _ in good}
    assert {(gpu, at(T + 10 * t)) for gpu, t in first.items()} <= set(kept.select("gpu", "ts").iter_rows())


def test_other_types_are_read_as_ours() -> None:
    odd = rows("node_samples", {}).with_columns(
        pl.col("node", "metric").cast(pl.Categorical),
        pl.col("value").cast(pl.Int16),
        pl.col("interval_s").cast(pl.Int64),
        pl.col("ts").dt.convert_time_zone("America/New_York").dt.cast_time_unit("ns"),
    )
    assert parse(odd).frames["node_samples"].equals(parse(rows("node_samples", {})).frames["node_samples"])


@pytest.mark.parametrize("table", ROWS)
def test_wrong_column_types_refuse_the_whole_file(table: str) -> None:
    with pytest.raises(InputError, match="not a time with a zone"):
        parse(rows(table, {}).with_columns(pl.col("ts").dt.replace_time_zone(None)))
    with pytest.raises(InputError, match="ts is String, not a time with a zone"):
        parse(rows(table, {}).with_columns(ts=pl.lit("2026-11-21")))
    for name in set(ROWS[table]) - {"ts"}:
        is_number = columns_of(table)[name].is_float()
        wrong = pl.Series(name, ["much"] if is_number else [["n1"]])
        with pytest.raises(InputError, match=f"{name} should be {'a number' if is_number else 'text'}"):
            parse(rows(table, {}).with_columns(wrong))


def test_a_file_without_rows_is_no_error() -> None:
    parsed = parse(rows("gpu_samples", {}).clear())
    assert (parsed.rows_read, parsed.covers_from, parsed.clusters) == (0, None, frozenset())


@pytest.mark.parametrize("table", ROWS)
def test_what_was_loaded_and_written_again_is_the_same(table: str) -> None:
    first = parse(rows(table, {}, {"ts": HOUR + timedelta(hours=1)})).frames[table]
    again = parse(first, cluster=None)
    assert again.frames[table].equals(first)
    assert again.rejects.is_empty()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_bytes_break_the_reader_or_its_account(data: st.DataObject) -> None:
    table = data.draw(st.sampled_from(sorted(ROWS)))
    good = parquet(rows(table, {}, {"ts": HOUR + timedelta(hours=1)}))
    first, last = sorted((data.draw(st.integers(4, len(good))), data.draw(st.integers(4, len(good)))))
    piece = data.draw(st.one_of(st.binary(max_size=8), st.just(good[first:last])))
    damaged = good[:first] + piece + good[data.draw(st.sampled_from([first, last])) :]
    with suppress(InputError):
        parsed = parse_table(damaged, origin="x", cluster="c")
        assert parsed.rejects.height == parsed.rows_rejected
