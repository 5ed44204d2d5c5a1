"""Parquet roll-ups: what is taken, what is refused, and why."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import polars as pl
import pytest

from ingest.errors import InputError, MissingColumnError, UnrecognisedInputError
from ingest.prometheus.files.parquet_tables import parse_table
from tests.support.slurm.parsing import at

if TYPE_CHECKING:
    from ingest.tables import Parsed

HOUR = at(1_795_248_000)
ROW = {
    "node": "n1",
    "gpu": "0",
    "ts": HOUR,
    "metric": "tensor_active",
    "mean": 0.5,
    "max": 1.0,
    "p95": 0.75,
    "active_s": None,
    "covered_s": 3600.0,
}


def parquet(frame: pl.DataFrame) -> bytes:
    data = io.BytesIO()
    frame.write_parquet(data)
    return data.getvalue()


def hours(*rows: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame([{**ROW, **row} for row in rows], schema_overrides={"active_s": pl.Float64})


def parse(frame: pl.DataFrame, *, cluster: str | None = "c", **more: object) -> Parsed:
    return parse_table(parquet(frame), origin="hours.parquet", cluster=cluster, **more)  # type: ignore[arg-type]  # the parser's own options


def test_good_rows_are_loaded_and_cover_their_hours() -> None:
    parsed = parse(hours({}, {"metric": "active", "active_s": 1800.0}))
    assert parsed.rows_loaded == 2
    assert (parsed.covers_from, parsed.covers_until) == (HOUR, at(1_795_251_600))
    assert parsed.clusters == {"c"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ts": at(1_795_248_001)}, "ts is not the beginning of an hour"),
        ({"metric": "fun"}, "no metric of gpu_samples"),
        ({"metric": ""}, "no cluster, node, GPU or metric"),
        ({"node": None}, "no cluster, node, GPU or metric"),
        ({"covered_s": 3601.0}, "covered_s is not within an hour"),
        ({"covered_s": 0.0}, "covered_s is not within an hour"),
        ({"covered_s": None}, "covered_s is not within an hour"),
        ({"mean": None}, "no mean"),
        ({"mean": 50.0}, "a ratio is not between 0 and 1"),
        ({"max": -0.1}, "a ratio is not between 0 and 1"),
        ({"mean": float("nan")}, "a value is not finite"),
        ({"metric": "power_w", "max": float("inf")}, "a value is not finite"),
        ({"metric": "active", "active_s": None}, "activity without active_s"),
        ({"metric": "active", "active_s": 3700.0}, "active_s is not within covered_s"),
    ],
)
def test_a_row_that_cannot_be_is_kept_with_its_reason(change: dict[str, object], reason: str) -> None:
    parsed = parse(hours({}, {"gpu": "9", **change}))
    assert parsed.rejects["reason"].to_list() == [reason]
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected) == (2, 1, 1)
    assert json.loads(parsed.rejects["raw"][0])["gpu"] == "9"


@pytest.mark.parametrize("unit", ["ms", "us"])
@pytest.mark.parametrize("raw", [2**63 - 1, -(2**63) + 1, 946_684_799_999, 0])
def test_impossible_time_is_refused_before_any_arithmetic(unit: str, raw: int) -> None:
    stamps = pl.Series([raw, 1_795_248_000 * (1000 if unit == "ms" else 1_000_000)])
    odd = hours({"gpu": "9"}, {}).with_columns(ts=stamps.cast(pl.Datetime(unit, "UTC")))  # type: ignore[arg-type]  # one of the two
    parsed = parse(odd)
    assert parsed.rejects["reason"].to_list() == ["ts is not between the years 2000 and 2100"]
    assert json.loads(parsed.rejects["raw"][0])["ts"] == str(raw)
    assert (parsed.rows_loaded, parsed.covers_from) == (1, HOUR)


def test_a_cluster_that_no_folder_can_be_named_after_is_refused() -> None:
    frame = hours({}, {"gpu": "1"}).with_columns(cluster=pl.Series(["a", "b" * 300]))
    parsed = parse(frame)
    assert parsed.rejects["reason"][0].startswith("cluster: the name is longer than 200 characters")
    assert parsed.clusters == {"a"}


def test_watts_may_be_more_than_one() -> None:
    assert parse(hours({"metric": "power_w", "mean": 700.0, "max": 710.0, "p95": 705.0})).rows_loaded == 1


def test_of_a_repeated_hour_the_better_covered_stays() -> None:
    parsed = parse(hours({"mean": 0.1, "covered_s": 60.0}, {}, {"mean": 0.2, "covered_s": 120.0}))
    assert parsed.rows_duplicate == 2
    assert parsed.frames["gpu_hours"]["mean"].to_list() == [0.5]


def test_other_types_are_read_as_ours() -> None:
    odd = hours({}).with_columns(
        pl.col("gpu").cast(pl.Int32),
        pl.col("mean").cast(pl.Float32),
        pl.col("covered_s").cast(pl.Int64),
        pl.col("ts").dt.convert_time_zone("Europe/Berlin").dt.cast_time_unit("ms"),
    )
    row = parse(odd.drop("max", "p95", "active_s")).frames["gpu_hours"].row(0, named=True)
    assert (row["gpu"], row["ts"], row["mean"], row["max"], row["covered_s"]) == ("0", HOUR, 0.5, None, 3600.0)


def test_the_files_own_cluster_counts_and_one_is_needed() -> None:
    frame = hours({}, {"gpu": "1"}).with_columns(cluster=pl.Series(["a", None]))
    assert parse(frame, cluster="c").clusters == {"a", "c"}
    assert parse(frame, cluster=None).rejects["reason"].to_list() == ["no cluster, node, GPU or metric"]


def test_hours_outside_the_window_are_skipped() -> None:
    parsed = parse(hours({}, {"ts": at(1_795_251_600)}), until=at(1_795_251_600))
    assert (parsed.rows_loaded, parsed.rows_skipped, parsed.covers_until) == (1, 1, at(1_795_251_600))


def test_truncated_file_or_missing_columns_refuse_the_whole_file() -> None:
    with pytest.raises(UnrecognisedInputError, match="cut off or damaged"):
        parse_table(parquet(hours({}))[:-20], origin="x", cluster="c")
    with pytest.raises(MissingColumnError, match=r"lacks gpu, covered_s; it has node"):
        parse(hours({}).drop("gpu", "covered_s"))


def test_times_without_a_zone_and_words_for_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="not a time with a zone"):
        parse(hours({}).with_columns(pl.col("ts").dt.replace_time_zone(None)))
    with pytest.raises(InputError, match="mean should be a number"):
        parse(hours({}).with_columns(pl.col("mean").cast(pl.String)))


@pytest.mark.parametrize("column", ["node", "gpu", "metric", "cluster"])
@pytest.mark.parametrize("value", [b"\xff\xfe", ["n1"], {"name": "n1"}, 1.5, True])
def test_names_that_are_no_text_are_refused_as_a_whole(column: str, value: object) -> None:
    with pytest.raises(InputError, match=f"hours.parquet: {column} should be text"):
        parse(hours({}).with_columns(pl.Series(column, [value])))
