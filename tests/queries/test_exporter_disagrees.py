"""What Slurm's exporter counted as allocated, against what accounting says: who differs for hours is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest

from ingest.tables import CLUSTER_SAMPLES
from queries.warehouse import open_reader, open_writer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DAY = datetime(2026, 11, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def disagreements(
    root: Path,
    exporter: Sequence[float | None],
    *,
    accounting: Sequence[tuple[float, float, int]] = ((0, 24, 16),),
    covered_s: float = 60.0,
    device: str = "",
    until: float = 24,
) -> list[tuple[object, ...]]:
    """What the check finds: the exporter's GPUs in each hour, and accounting's from when to when."""
    samples = pl.DataFrame(
        [
            ("c", "gpus_allocated", device, DAY + hour * HOUR + timedelta(minutes=minute), covered_s, gpus)
            for hour, gpus in enumerate(exporter)
            if gpus is not None
            for minute in range(60)
        ],
        CLUSTER_SAMPLES,
        orient="row",
    )
    held = pl.DataFrame(
        [
            {
                "cluster": "c", "node": "n1", "scheduler": "slurm", "job_id": str(number), "submitted_at": DAY,
                "started_at": DAY + begin * HOUR, "ended_at": DAY + end * HOUR, "state": "allocated",
                "category": "unattributed", "evidence": "accounting", "gpus": gpus,
                "gpu_seconds": gpus * (end - begin) * 3600,
            }
            for number, (begin, end, gpus) in enumerate(accounting)
        ]
    )  # fmt: skip
    computed = pl.DataFrame(
        {
            "cluster": "c", "since": DAY, "until": DAY + until * HOUR, "computed_at": DAY, "data_version": 1,
            "constants": "{}",
        }
    )  # fmt: skip
    with open_writer(root / "w", verb="t", now=DAY) as writer, writer.transaction():
        writer.write_partition("cluster_samples", "c", DAY.date(), samples)
        writer.append("gpu_time", held)
        writer.append("computes", computed)
    with open_reader(root / "w") as reader:
        checks = {result.check.name: result.sample for result in reader.checks()}
    reported = checks.get("source_exporter_disagrees")
    return [] if reported is None else reported.rows()


def test_agreement_is_not_reported(tmp_path: Path) -> None:
    assert disagreements(tmp_path, [16.0] * 24) == []


def test_hours_on_end_that_differ_are_one_row_with_both_numbers(tmp_path: Path) -> None:
    exporter = [16.0] * 5 + [24.0] * 4 + [16.0] * 2 + [8.0] * 3 + [16.0] * 10
    assert disagreements(tmp_path, exporter) == [
        ("c", DAY + 5 * HOUR, DAY + 9 * HOUR, 24, 16),
        ("c", DAY + 11 * HOUR, DAY + 14 * HOUR, 8, 16),
    ]


def test_two_hours_are_none_on_end(tmp_path: Path) -> None:
    assert disagreements(tmp_path, [16.0, 24.0, 24.0, 16.0, 24.0, 24.0] * 4) == []


@pytest.mark.slow
def test_few_percent_are_jobs_between_two_readings(tmp_path: Path) -> None:
    assert disagreements(tmp_path, [163.0] * 24, accounting=[(0, 24, 160)]) == []
    assert disagreements(tmp_path / "a", [1.5] * 24, accounting=[(0, 24, 1)]) == []
    assert len(disagreements(tmp_path / "b", [170.0] * 24, accounting=[(0, 24, 160)])) == 1


def test_accounting_that_has_nothing_at_all_differs(tmp_path: Path) -> None:
    assert disagreements(tmp_path, [16.0] * 24, accounting=[(3, 24, 16)]) == [("c", DAY, DAY + 3 * HOUR, 16, 0)]


@pytest.mark.slow
def test_jobs_count_for_the_part_of_the_hour_that_they_ran(tmp_path: Path) -> None:
    half = [(hour + 0.25, hour + 0.75, 32) for hour in range(24)]
    assert disagreements(tmp_path, [16.0] * 24, accounting=half) == []
    assert disagreements(tmp_path / "a", [32.0] * 24, accounting=half) == [("c", DAY, DAY + 24 * HOUR, 32, 16)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exporter", "more"),
    [
        ([24.0] * 24, {"covered_s": 40.0}),  # read for less than most of each hour
        ([24.0] * 24, {"device": "main"}),  # of a partition
        ([24.0] * 24, {"until": 2.5}),  # of these hours the ledger knows two wholly
        ([24.0, None, 24.0, None, 24.0], {}),  # hours that are not on end
    ],
)
def test_what_cannot_be_compared_is_not(tmp_path: Path, exporter: list[float | None], more: dict[str, float]) -> None:
    assert disagreements(tmp_path, exporter, **more) == []  # type: ignore[arg-type]  # one of several options
