"""Files of sample tables: how their columns are written, and where their row groups end."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from queries.samples import parquet_days
from queries.samples.parquet_days import FEW, of_many_numbers, write_parts
from queries.warehouse import open_writer
from tests.support.warehouses import NOW

if TYPE_CHECKING:
    from pathlib import Path

DAY = date(2026, 11, 21)
ORDER = ("node", "metric", "device", "ts")
SMALL = 8 * FEW
"""Rows of a row group that is small, and can yet have many numbers."""


def rows_of(nodes: range, per_node: int, *, distinct: bool) -> pl.DataFrame:
    """Samples of some nodes, whose values are all the same, or all different."""
    n = len(nodes) * per_node
    return pl.DataFrame(
        {
            "cluster": ["c"] * n,
            "node": np.repeat([f"n{node:03}" for node in nodes], per_node),
            "metric": ["load1"] * n,
            "device": [""] * n,
            "ts": [datetime(2026, 11, 21, tzinfo=UTC)] * n,
            "interval_s": [60.0] * n,
            "value": np.random.default_rng(nodes.start).random(n) if distinct else np.zeros(n),
        },
        schema_overrides={"ts": pl.Datetime("ms", "UTC")},
    )


def encodings(path: Path, column: str = "value") -> set[str]:
    group = pq.read_metadata(path).row_group(0)
    columns = {group.column(number).path_in_schema: group.column(number) for number in range(group.num_columns)}
    return set(columns[column].encodings)


def heights(path: Path) -> list[int]:
    metadata = pq.read_metadata(path)
    return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]


def test_columns_of_many_numbers_are_those_of_any_row_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_days, "ROW_GROUP", SMALL)
    idle, busy = (rows_of(range(8), FEW, distinct=distinct) for distinct in (False, True))
    assert of_many_numbers(pl.concat([idle, busy])) == {"value"}
    assert of_many_numbers(pl.concat([idle, idle])) == of_many_numbers(idle.clear()) == frozenset()
    assert of_many_numbers(idle.select("node")) == frozenset()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups, and parts that are put together at once, are small."""
    for name in ("ROW_GROUP", "AT_ONCE"):
        monkeypatch.setattr(parquet_days, name, SMALL)


def of_day(root: Path, *loads: pl.DataFrame) -> Path:
    """The newest file of a day into which rows came load by load."""
    with open_writer(root, verb="test", now=NOW) as writer:
        for rows in loads:
            with writer.transaction():
                writer.change_partition("node_samples", "c", DAY, (rows.clear(), rows), order=ORDER)
    return max((root / "raw").glob("node_samples/cluster=c/*/*.parquet"))


@pytest.mark.usefixtures("small")
def test_idle_nodes_first_do_not_choose_the_encoding(tmp_path: Path) -> None:
    idle, busy = rows_of(range(8), FEW, distinct=False), rows_of(range(8, 24), FEW, distinct=True)
    path = of_day(tmp_path / "w", pl.concat([idle, busy]))
    assert "BYTE_STREAM_SPLIT" in encodings(path)
    assert "BYTE_STREAM_SPLIT" not in encodings(path, "interval_s")
    assert "BYTE_STREAM_SPLIT" not in encodings(of_day(tmp_path / "idle", idle))


@pytest.mark.usefixtures("small")
def test_files_that_are_taken_in_choose_the_encoding_too(tmp_path: Path) -> None:
    idle, busy = rows_of(range(8), FEW, distinct=False), rows_of(range(8, 16), FEW, distinct=True)
    path = of_day(tmp_path / "w", busy, idle)
    assert sum(heights(path)) == idle.height + busy.height
    assert "BYTE_STREAM_SPLIT" in encodings(path)


def test_row_groups_are_full_whatever_the_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_days, "ROW_GROUP", 100)
    rows = rows_of(range(1), 730, distinct=True)
    sizes = (130, 20, 0, 210, 40, 270, 60)
    ends = np.cumsum(sizes)
    parts = [rows.slice(end - size, size) for end, size in zip(ends, sizes, strict=True)]
    path = tmp_path / "parts.parquet"
    assert write_parts(iter(parts), path, many=()) == rows.height
    assert heights(path) == [100] * 7 + [30]
    assert pl.read_parquet(path).equals(rows)


def test_rows_that_are_none_have_their_columns(tmp_path: Path) -> None:
    none = rows_of(range(1), 1, distinct=False).clear()
    write_parts(iter([none]), tmp_path / "none.parquet", many=of_many_numbers(none))
    assert pl.read_parquet(tmp_path / "none.parquet").schema == none.schema
    with pytest.raises(ValueError, match="columns are not known"):
        write_parts(iter([]), tmp_path / "nothing.parquet", many=())
    assert not (tmp_path / "nothing.parquet").exists()


def test_files_without_rows_are_put_together(tmp_path: Path) -> None:
    none = rows_of(range(1), 1, distinct=False).clear()
    with open_writer(tmp_path, verb="test", now=NOW) as writer:
        with writer.transaction(), writer._partitions("node_samples") as files:  # noqa: SLF001 - no load makes them
            for _ in range(2):
                files._add("c", DAY, iter([none]), ())  # noqa: SLF001 - as above
        with writer.transaction():
            writer.compact_partitions("node_samples", "c", before=date(2026, 11, 22), order=ORDER)
    path = max((tmp_path / "raw").glob("node_samples/cluster=c/*/*.parquet"))
    assert path.name != "00000001.parquet"
    assert heights(path) == []
