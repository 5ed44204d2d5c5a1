"""Two ways from samples to sums per attempt, on the same files. Run as a program: `ours` or `asof`, folder, answer."""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import polars as pl

from metrics import frames
from metrics.telemetry.gpu_attribution import added_up, day_activities, in_units
from metrics.telemetry.occupancy import Holders, eras
from metrics.telemetry.sample_grid import SampledMetric, at_most

IDLE = 0.1
READING = SampledMetric({"gpu_util": 1_000_000, "power_w": 1000}, at_most(IDLE))

ASOF = """
COPY (
    SELECT
        i.attempt, COUNT(*) AS n_samples, SUM(s.gpu_util) AS gpu_util, SUM(s.power_w) AS power_w,
        COUNT(*) FILTER (s.gpu_util <= 0.1::FLOAT) AS idle
    FROM read_parquet($days) AS s
    ASOF JOIN read_parquet($held) AS i ON s.node = i.node AND s.ts >= i.started_at
    WHERE s.ts < i.ended_at
    GROUP BY i.attempt
) TO '{answer}'
"""


def ours(folder: Path, answer: Path) -> None:
    """Day by day, the newest first."""
    held = _holders(folder)
    days = map(pl.read_parquet, sorted(folder.glob("day*.parquet"), reverse=True))
    parts = [day.attempts for day in day_activities(days, held, READING)]
    in_units(added_up(parts, ["attempt"]), READING).with_columns(pl.col("n_samples").cast(pl.Int64)).write_parquet(
        answer
    )


def _holders(folder: Path) -> Holders:
    rows = pl.read_parquet(folder / "held.parquet")
    names = rows.select("node").unique().sort("node")
    places = names.with_columns(place=pl.int_range(pl.len(), dtype=pl.Int64))
    held = rows.join(places, on="node").select(
        "attempt",
        "place",
        *((pl.col(f"{name}_at").dt.epoch("us") // 1000).alias(name) for name in ("started", "ended")),
        pl.lit(8000, dtype=pl.Int64).alias("milli_gpus"),
        pl.lit(0, dtype=pl.Int64).alias("unsure"),
    )
    nobody, numbered = pl.lit(None, dtype=pl.String), pl.col("attempt").unique().sort()
    attempts = rows.select(
        numbered,
        numbered.alias("user_no"),
        numbered.alias("partition_no"),
        nobody.alias("user"),
        nobody.alias("partition"),
        pl.lit(value=False).alias("verification"),
    )
    return Holders(attempts, places, held, eras(frames.empty(frames.INVENTORY), places))


def main() -> None:
    """Arguments: which way, the folder with the samples, where to write the answer."""
    way, folder, answer = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if way == "ours":
        ours(folder, answer)
        return
    with duckdb.connect() as connection:
        days, held = str(folder / "day*.parquet"), str(folder / "held.parquet")
        connection.execute(ASOF.format(answer=answer), {"days": days, "held": held})


if __name__ == "__main__":
    main()
