"""Busy hours of GPUs: sums over blocks agree with plain Python, however the rows lie."""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from statistics import fmean

import numpy as np
import polars as pl
import pytest

from metrics import frames
from metrics.anomalies import hours as module
from metrics.anomalies.hours import BUSY_HOURS, INSTEAD, MEASURED, PLACE, Limits, busy_hours, hour_means, hour_sums

BEGIN = datetime(2026, 9, 20, tzinfo=UTC)
FIRST = round(BEGIN.timestamp()) // 3600
LIMITS = Limits(0.02, 0.1, 0.1)
NAMES = (*PLACE, *MEASURED, *INSTEAD)
NONE = frames.empty(BUSY_HOURS)


def samples(*, odd: bool) -> pl.DataFrame:
    """Three GPUs for five hours at every minute; `odd` ones lack values, hours, or tensor activity."""
    chance = np.random.default_rng(3)
    rows = []
    for node, gpu in (("n1", "0"), ("n1", "1"), ("n2", "0")):
        for minute in range(300):
            tensor = float(chance.uniform(0, 0.06)) if gpu == "0" else 0.5
            values: list[float | None] = [tensor, 1.7e9, 600.0 + minute, 60.0, 2e9, 3e11, 0.4]
            values += [float(chance.uniform(0, 0.2)), 0.3]
            if odd and node == "n2":
                values[0] = None if minute < 200 else float("nan")
                values[7] = None if minute % 3 else values[7]
            if odd and minute % 7 == 0:
                values[2] = None
            if odd and gpu == "1" and 90 <= minute < 170:
                continue
            rows.append((node, gpu, BEGIN + timedelta(minutes=minute), 60.0, *values))
    frame = pl.DataFrame(rows, schema=list(NAMES), orient="row")
    return frame.with_columns(pl.col("ts").cast(frames.TIME), pl.col(*NAMES[3:]).cast(pl.Float32))


def known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def is_busy(row: dict[str, float]) -> bool:
    if known(row["tensor_active"]):
        return row["tensor_active"] >= float(np.float32(0.02))
    if known(row["gr_engine_active"]):
        return row["gr_engine_active"] >= float(np.float32(0.1))
    return known(row["gpu_util"]) and row["gpu_util"] > float(np.float32(0.1))


def plain(rows: pl.DataFrame, first: int, last: int) -> dict[tuple[str, str, int], tuple[float | None, ...]]:
    """Means of busy hours, one sample at a time."""
    hours = defaultdict(list)
    for row in rows.to_dicts():
        hour = round(row["ts"].timestamp()) // 3600
        if is_busy(row) and first <= hour < last:
            hours[row["node"], row["gpu"], hour].append(row)
    answer: dict[tuple[str, str, int], tuple[float | None, ...]] = {}
    for key, of in hours.items():
        if sum(row["interval_s"] for row in of) >= 1800:
            means = [[row[name] for row in of if known(row[name])] for name in (*MEASURED, "sm_active")]
            tensor, clock, power, heat, pcie, nvlink, sm = (fmean(values) if values else None for values in means)
            answer[key] = (sm if tensor is None else tensor, clock, power, heat, pcie, nvlink)
    return answer


def agree(found: pl.DataFrame, expected: dict[tuple[str, str, int], tuple[float | None, ...]]) -> None:
    assert found.select("node", "gpu", "hour").rows() == sorted(expected)
    for row in found.rows():
        assert row[3:] == pytest.approx(expected[row[:3]], rel=1e-5)


@pytest.mark.parametrize("odd", [False, True])
def test_sums_of_blocks_agree_with_plain_python(odd: bool) -> None:
    rows = samples(odd=odd)
    expected = plain(rows, FIRST, FIRST + 5)
    assert len(expected) >= 9
    agree(busy_hours(hour_means([hour_sums(rows, FIRST, FIRST + 5, LIMITS)]), NONE), expected)
    parts = [hour_sums(part, FIRST, FIRST + 5, LIMITS) for part in rows.iter_slices(47)]
    agree(busy_hours(hour_means(parts[::-1]), NONE), expected)


def test_hours_outside_are_left_out() -> None:
    rows = samples(odd=True)
    agree(
        busy_hours(hour_means([hour_sums(rows, FIRST + 1, FIRST + 4, LIMITS)]), NONE), plain(rows, FIRST + 1, FIRST + 4)
    )


@pytest.mark.parametrize("by", [["ts", "gpu"], ["gpu", "ts"], ["interval_s"]])
def test_rows_in_another_order_are_the_same_hours(by: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART", 100)
    shuffled = samples(odd=True).sample(fraction=1.0, shuffle=True, seed=5).sort(by, maintain_order=True)
    found = busy_hours(hour_means([hour_sums(shuffled, FIRST, FIRST + 5, LIMITS)]), NONE)
    agree(found, plain(shuffled, FIRST, FIRST + 5))


def test_a_gpu_that_begins_later_in_the_hour_is_its_own() -> None:
    """Its rows follow those of the GPU before it, within the same hour and later: only the names tell them apart."""
    rows = samples(odd=False).filter(pl.col("gpu") == "1")
    late = rows.with_columns(pl.col("ts") + pl.duration(minutes=35), gpu=pl.lit("2"), power_w=pl.lit(9.0))
    both = pl.concat([rows.head(32), late.head(90).with_columns(pl.col("power_w").cast(pl.Float32))])
    agree(busy_hours(hour_means([hour_sums(both, FIRST, FIRST + 5, LIMITS)]), NONE), plain(both, FIRST, FIRST + 5))


def test_a_roll_up_stands_in_only_without_samples() -> None:
    rows = samples(odd=False).filter(pl.col("node") == "n1", pl.col("gpu") == "1")
    rolled = pl.DataFrame({"node": ["n1", "n1"], "gpu": ["1", "1"], "hour": [FIRST, FIRST + 9], "work": [0.9, 0.75]})
    found = busy_hours(hour_means([hour_sums(rows, FIRST, FIRST + 5, LIMITS)]), frames.conform(rolled, BUSY_HOURS))
    assert dict(found.select("hour", pl.col("work").round(3)).rows()) == {
        **dict.fromkeys(range(FIRST, FIRST + 5), 0.5),
        FIRST + 9: 0.75,
    }
    assert busy_hours(hour_means([]), NONE).is_empty()
