"""Raw readings from files: Parquet with a row each, and readings in any order as series in order of time."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import InputError
from ingest.prometheus.files.openmetrics import parse_openmetrics
from ingest.prometheus.files.parquet_readings import columns_of_readings, parse_readings
from ingest.prometheus.series.gather import Gathered, Gathering, batches, named
from tests.support.slurm.parsing import at

if TYPE_CHECKING:
    from ingest.tables import Parsed

T = 1_795_248_000
NOW = at(T + 86_400)
GPU = "DCGM_FI_DEV_GPU_UTIL"
ROW = {"__name__": GPU, "gpu": "0", "Hostname": "n1", "timestamp": at(T + 60), "value": 50.0}


def parquet(frame: pl.DataFrame) -> bytes:
    data = io.BytesIO()
    frame.write_parquet(data)
    return data.getvalue()


def parse(frame: pl.DataFrame, **more: Any) -> list[Parsed]:
    columns = columns_of_readings(frame.columns)
    assert columns is not None
    return parse_readings(parquet(frame), columns, origin="r.parquet", cluster="c", interval_s=60, now=NOW, **more)


def rows(*changes: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([{**ROW, **change} for change in changes], infer_schema_length=None)


def utils(parsed: list[Parsed]) -> list[tuple[str, str, float, float]]:
    """Node, GPU, seconds after T and utilisation of each sample."""
    frame = parsed[0].frames["gpu_samples"]
    return [
        (row["node"], row["gpu"], (row["ts"] - at(T)).total_seconds(), row["gpu_util"])
        for row in frame.iter_rows(named=True)
    ]


@pytest.mark.parametrize(
    ("columns", "result"),
    [
        (["__name__", "timestamp", "value", "gpu"], ("__name__", "timestamp", "value")),
        (["name", "__name__", "timestamp", "value"], ("__name__", "timestamp", "value")),
        (["metric", "labels", "ts", "value"], ("metric", "ts", "value")),
        (["metric_name", "time", "_value"], ("metric_name", "time", "_value")),
        (["metric", "value"], None),
        (["timestamp", "value"], None),
        (["node", "ts", "kind", "code"], None),
    ],
)
def test_columns_decide_whether_rows_are_readings(columns: list[str], result: tuple[str, str, str] | None) -> None:
    assert columns_of_readings(columns) == result


@pytest.mark.parametrize(
    "time",
    [
        pl.Series([at(T + 60)]),
        pl.Series([at(T + 60)]).dt.convert_time_zone("Asia/Tokyo").dt.cast_time_unit("ns"),
        pl.Series([T + 60]),
        pl.Series([float(T + 60)]),
        pl.Series([(T + 60) * 10**3]),
        pl.Series([(T + 60) * 10**6]),
        pl.Series([(T + 60) * 10**9]),
    ],
)
def test_times_are_moments_or_numbers_of_any_unit(time: pl.Series) -> None:
    assert utils(parse(rows({}).with_columns(time.alias("timestamp")))) == [("n1", "0", 0, 0.5)]


def test_labels_may_be_text_columns_numbers_or_struct_fields() -> None:
    numbered = rows({}).with_columns(gpu=pl.lit(0), hpc_job=pl.lit(None, dtype=pl.String), note=pl.lit(1.5))
    assert utils(parse(numbered)) == [("n1", "0", 0, 0.5)]
    nested = rows({}).select("__name__", "timestamp", "value", pl.struct("gpu", "Hostname").alias("labels"))
    assert utils(parse(nested)) == [("n1", "0", 0, 0.5)]


def test_every_row_is_accounted_for() -> None:
    (parsed, *_) = parse(
        rows(
            *({}, {}, {"hpc_job": "7"}),
            {"__name__": "go_goroutines"},
            {"__name__": None},
            {"value": None},
            {"value": float("nan"), "gpu": "1"},
            {"timestamp": None},
            {"timestamp": at(0)},
            {"timestamp": at(T + 10**6)},
            {"gpu": None},
        )
    )
    assert (parsed.rows_loaded, parsed.rows_duplicate, parsed.rows_skipped, parsed.rows_rejected) == (1, 2, 2, 6)
    assert sorted(parsed.rejects["reason"]) == [
        "before the year 2000: the clock was not set",
        "lies in the future",
        "no label names the node and the GPU",
        "no name of a metric",
        "no timestamp",
        "no value",
    ]
    assert json.loads(parsed.rejects["raw"][0])["label Hostname"] == "n1"


def test_parquet_readings_equal_the_same_readings_as_text() -> None:
    readings = [
        (name, labels, value + second % 7, T + second)
        for second in range(0, 1200, 15)
        for name, labels, value in (
            (GPU, {"gpu": "0", "Hostname": "n1"}, 40.0),
            ("node_load1", {"instance": "n1:9100"}, 3.0),
            ("slurm_nodes_alloc", {"partition": "a"}, 5.0),
        )
    ]
    frame = pl.DataFrame(
        [{"__name__": name, **labels, "timestamp": moment, "value": value} for name, labels, value, moment in readings],
        infer_schema_length=None,
    )
    text = "".join(_line(*each) for each in readings)
    written = parse_openmetrics([text.encode()], origin="r.parquet", cluster="c", interval_s=60, now=NOW)
    for one, other in zip(parse(frame), written, strict=True):
        assert one.source == other.source
        for name, rows_of in one.frames.items():
            assert rows_of.equals(other.frames[name]), name
        assert (one.rows_read, one.rows_loaded) == (other.rows_read, other.rows_loaded)


def _line(name: str, labels: dict[str, str], value: float, moment: int) -> str:
    reported = ",".join(f'{key}="{each}"' for key, each in labels.items())
    return f"{name}{{{reported}}} {value} {moment}\n"


@pytest.mark.parametrize(
    ("change", "output"),
    [
        (pl.lit("2026-11-21").alias("timestamp"), "timestamp is String, and should be a time with a zone"),
        (pl.col("timestamp").dt.replace_time_zone(None), "should be a time with a zone"),
        (pl.lit("much").alias("value"), "value is String, and should be a number"),
        (pl.lit(1.5).alias("__name__"), "__name__ is Float64, and should be text"),
    ],
)
def test_columns_of_other_kinds_are_refused_as_a_whole(change: pl.Expr, output: str) -> None:
    with pytest.raises(InputError, match=output):
        parse(rows({}).with_columns(change))


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.data())
def test_no_bytes_break_the_reader_or_its_account(data: st.DataObject) -> None:
    good = parquet(rows({}, {"__name__": "node_load1"}))
    columns = columns_of_readings(ROW)
    assert columns is not None
    first, last = sorted((data.draw(st.integers(4, len(good))), data.draw(st.integers(4, len(good)))))
    piece = data.draw(st.one_of(st.binary(max_size=8), st.just(good[first:last])))
    damaged = good[:first] + piece + good[data.draw(st.sampled_from([first, last])) :]
    with suppress(InputError):
        parse_readings(damaged, columns, origin="x", cluster="c", interval_s=60, now=NOW)  # Parsed checks the account


# --- readings in any order

READINGS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 9), st.sampled_from([0.0, 1.0, 2.5, -1.0, float("nan"), float("inf")])),
    max_size=40,
)


def gathered(readings: list[tuple[int, int, float]], cuts: int, **window: Any) -> Gathered:
    gathering = Gathering(**window)
    numbers = [gathering.number({"__name__": f"m{number % 2}", "x": str(number)}) for number in range(4)]
    for begin in range(0, len(readings), cuts):
        some = readings[begin : begin + cuts]
        series = np.array([numbers[number] for number, _, _ in some], np.int64)
        times = np.array([(T + second) * 1000 for _, second, _ in some], np.int64)
        gathering.add(series, times, np.array([value for *_, value in some], np.float64))
    return gathering.finish()


def as_dict(result: Gathered) -> dict[tuple[str, int], float]:
    labels = [
        each["x"] for each, size in zip(result.samples.labels, result.samples.sizes, strict=True) for _ in range(size)
    ]
    times = (result.samples.times // 1000 - T).tolist()
    return {(x, second): value for x, second, value in zip(labels, times, result.samples.values.tolist(), strict=True)}


@settings(max_examples=150, deadline=None)
@given(READINGS, st.integers(1, 50), st.integers(-1, 9), st.integers(-1, 9))
def test_readings_are_gathered_as_a_dictionary_would(
    readings: list[tuple[int, int, float]], cuts: int, low: int, high: int
) -> None:
    result = gathered(readings, cuts, since=at(T + low), until=at(T + high))
    best: dict[tuple[str, int], float] = {}
    for number, second, value in readings:
        if low < second <= high:
            there = best.get((str(number), second), float("nan"))
            best[str(number), second] = value if np.isnan(there) or value > there else there
    assert as_dict(result) == pytest.approx(best, nan_ok=True)
    assert len(result.samples.values) == len(best)
    inside = [number for number, second, _ in readings if low < second <= high]
    reported = {labels["x"]: int(count) for labels, count in zip(result.samples.labels, result.n_readings, strict=True)}
    assert reported == {str(number): inside.count(number) for number in set(inside)}
    assert sum(result.outside.values()) == len(readings) - len(inside)
    for name, count in result.outside.items():
        assert count == sum(f"m{n % 2}" == name and not low < second <= high for n, second, _ in readings)


@settings(max_examples=50, deadline=None)
@given(READINGS)
def test_batches_have_all_of_some_metrics_and_each_series_whole(readings: list[tuple[int, int, float]]) -> None:
    result = gathered(readings, 7)
    some = named(result.samples, {"m1"})
    parts = batches(some)
    assert [labels for part in parts for labels in part.labels] == some.labels
    assert {labels["x"] for labels in some.labels} == {str(n) for n, _, _ in readings if n % 2}
    assert [value for part in parts for value in part.times.tolist()] == some.times.tolist()
    assert all(part.sizes.sum() == part.values.size for part in parts)
