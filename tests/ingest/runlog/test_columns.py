"""Steps that come as columns give the rows, rejects and warnings that the same steps give as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.runlog.columns import are_plain, lines_of
from ingest.runlog.parse import read_runlog
from ingest.runlog.translation import Findings
from ingest.tables import STEPS, empty

if TYPE_CHECKING:
    from ingest.tables import Parsed

RUN = b'{"type":"run","v":1,"t":1790812800.5,"run_id":"r","cluster":"c","line":1}\n'
SCHEMA = {"step": pl.Int64, "t": pl.Float64, "duration_s": pl.Float64, "tokens": pl.Float64, "loss": pl.Float64}
AMOUNT = st.none() | st.sampled_from([0.0, 1.5, -1.0, 4e6, 1e19])
ROW = st.fixed_dictionaries(
    {
        "step": st.sampled_from([0, 7, -1, 10**15]),
        "t": st.sampled_from([1790812800.5, 1790899200.25, 5.0, 1e20]),
        "duration_s": AMOUNT,
        "tokens": AMOUNT,
        "loss": st.none() | st.sampled_from([2.5, 1e300]),
    }
)


def parsed(*chunks: bytes | pl.DataFrame) -> Parsed:
    log = read_runlog(chunks, origin="train.log", findings=Findings())
    days = [rows for _, _, rows in log.days()]
    steps = pl.concat(days).sort("ts", "step") if days else empty(STEPS)
    return log.parsed(steps.height, steps)


def frame(rows: list[dict[str, Any]], first: int = 10) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA).with_row_index("line", first).with_columns(pl.col("line").cast(pl.Int64))


@pytest.mark.slow
@given(rows=st.lists(st.lists(ROW, min_size=1, max_size=4), max_size=3), rank=st.sampled_from([0, 1]))
def test_columns_are_read_as_lines(rows: list[list[dict[str, Any]]], rank: int) -> None:
    run = RUN.replace(b'"line"', f'"rank":{rank},"line"'.encode())
    frames = [frame(each, 10 * number) for number, each in enumerate(rows, 1)]
    columns = parsed(run, *frames)
    lines = parsed(run, *map(lines_of, frames))
    for name, expected in lines.frames.items():
        assert columns.frames[name].equals(expected), name
    assert columns.rejects.equals(lines.rejects)
    assert (columns.rows_read, columns.rows_skipped) == (lines.rows_read, lines.rows_skipped)
    assert {one.code for one in columns.warnings} == {one.code for one in lines.warnings}


def test_columns_behind_a_refused_run_are_refused() -> None:
    steps = frame([{"step": 1, "t": 1790812800.5, "duration_s": 1.0, "tokens": None, "loss": None}])
    refused = parsed(RUN, RUN.replace(b"1790812800.5", b'"noon"'), steps).rejects
    assert refused["line"].to_list() == [1, 10]


def test_a_number_below_zero_is_not_plain() -> None:
    steps = frame([{"step": 1, "t": 1790812800.5, "duration_s": -1.0, "tokens": None, "loss": None}])
    assert not are_plain(steps)
    assert are_plain(steps.with_columns(duration_s=pl.lit(0.0)))
