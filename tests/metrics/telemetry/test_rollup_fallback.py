"""Roll-ups in the place of samples that are gone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from metrics import frames
from metrics.telemetry.rollup_fallback import with_hours

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
LANE = ("node", "gpu")
SCHEMA = {"node": frames.TEXT, "gpu": frames.TEXT, "ts": frames.TIME, "interval_s": pl.Float32(), "util": pl.Float32()}


def table(*rows: tuple[str, int, float, float]) -> pl.DataFrame:
    """By GPU of node a, the second it begins, how long it speaks, and its value."""
    result = [("a", gpu, EPOCH + timedelta(seconds=at), lasts, value) for gpu, at, lasts, value in rows]
    return pl.DataFrame(result, schema=SCHEMA, orient="row")


def minutes(gpu: str, begin: int, end: int, value: float = 0.5) -> list[tuple[str, int, float, float]]:
    return [(gpu, at, 60, value) for at in range(begin, end, 60)]


def as_rows(result: pl.DataFrame) -> list[tuple[str, int, float]]:
    """GPU, second and interval of each row."""
    seconds = (pl.col("ts") - EPOCH).dt.total_seconds()
    return result.select("gpu", seconds, "interval_s").rows()


def test_hours_replace_missing_samples() -> None:
    samples = table(*minutes("0", 0, 3600))
    result = with_hours(samples, table(("0", 0, 3600, 0.9), ("0", 3600, 3600, 0.9), ("1", 0, 3600, 0.9)), by=LANE)
    assert as_rows(result)[:60] == as_rows(samples)
    assert as_rows(result)[60:] == [("0", 3600, 3600), ("1", 0, 3600)]


def test_hour_with_partial_samples_is_the_roll_ups() -> None:
    samples = table(*minutes("0", 0, 1800), *minutes("0", 3600, 7200))
    result = with_hours(samples, table(("0", 0, 3600, 0.9), ("0", 3600, 3600, 0.9)), by=LANE)
    assert as_rows(result)[0] == ("0", 0, 3600)
    assert as_rows(result)[1:] == as_rows(table(*minutes("0", 3600, 7200)))


@pytest.mark.parametrize(("known", "counts"), [(3539.0, False), (3540.0, True)])
def test_roll_up_of_less_than_nearly_its_hour_counts_for_nothing(known: float, counts: bool) -> None:
    samples = table(*minutes("0", 0, 600))
    result = with_hours(samples, table(("0", 0, known, 0.9)), by=LANE)
    assert as_rows(result) == ([("0", 0, known)] if counts else as_rows(samples))


@pytest.mark.parametrize(("missing", "kept"), [(1, True), (2, False)])
def test_samples_count_where_at_most_one_minute_is_missing(missing: int, kept: bool) -> None:
    samples = table(*minutes("0", 60 * missing, 3600))
    result = with_hours(samples, table(("0", 0, 3600, 0.9)), by=LANE)
    assert as_rows(result) == (as_rows(samples) if kept else [("0", 0, 3600)])


def test_with_only_one_source_the_result_is_that_source() -> None:
    samples, hours = table(*minutes("0", 0, 600)), table(("0", 0, 3600, 0.9))
    assert with_hours(samples, hours.clear(), by=LANE).equals(samples)
    assert as_rows(with_hours(samples.clear(), hours, by=LANE)) == as_rows(hours)
    assert with_hours(samples.clear(), hours.clear(), by=LANE).is_empty()


def test_columns_of_roll_ups_only_are_null_for_samples() -> None:
    hours = table(("1", 0, 3600, 0.9)).with_columns(idle_share=pl.lit(0.25))
    result = with_hours(table(*minutes("0", 0, 3600)), hours, by=LANE)
    assert result["idle_share"].null_count() == 60
    assert result["idle_share"][-1] == 0.25
