"""The page of the size plan is what the results say, and its lines go through the sizes that were measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bench.sizes import measure
from tests.bench.sizes.measure import bytes_by_part, part_of
from tests.bench.sizes.page import PAGE, current, line, with_numbers

if TYPE_CHECKING:
    from pathlib import Path


def test_page_has_the_numbers_of_the_results() -> None:
    page = PAGE.read_text()
    assert with_numbers(page, current()) == page, "run: python -m tests.bench.sizes, or write the page of its results"


def test_line_says_how_far_the_size_between_is_from_it() -> None:
    through = line([(64, 10.0), (128, 13.0), (256, 22.0)])
    assert (through.fixed, through.per_gpu) == (6.0, 1 / 16)
    assert through.off == pytest.approx(13 / 14 - 1)


@pytest.mark.parametrize(
    ("table", "part"),
    [
        ("attempts", measure.ACCOUNTING),
        ("steps", measure.LOGS),
        ("node_samples", measure.TELEMETRY),
        ("gpu_time", measure.LEDGER),
    ],
)
def test_part_of_a_table_is_what_feeds_it(table: str, part: str) -> None:
    assert part_of(table) == part


def test_only_the_newest_file_of_a_month_counts(tmp_path: Path) -> None:
    for name, size in (
        ("o/tables/main.gpu_time/cluster=c/2026-09/00000002-3-9.parquet", 10),
        ("o/tables/main.gpu_time/cluster=c/2026-09/00000004-3-8.parquet", 11),
        ("o/raw/gpu_samples/cluster=c/day=2026-09-01/00000003.parquet", 100),
        ("o/raw/gpu_samples/cluster=c/day=2026-09-01/00000004.parquet", 200),
        ("catalogues/x", 5),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    assert bytes_by_part(tmp_path) == {
        measure.ACCOUNTING: 0,
        measure.LOGS: 0,
        measure.TELEMETRY: 300,
        measure.LEDGER: 11,
    }
