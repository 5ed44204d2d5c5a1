from __future__ import annotations

import polars as pl
import pytest

from ingest.slurm.accounting.columns import DumpColumns
from ingest.slurm.formats import values
from tests.support.slurm.parsing import parse, text


@pytest.mark.parametrize("few", [0, values.FEW])
def test_what_cannot_be_read_is_counted_row_by_row(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "FEW", few)
    frame = pl.DataFrame({"reqmem": ["odd"] * 9 + ["1G"] * 9, "nnodes": ["8", "x"] * 9, "timelimit": ["soon"] * 18})
    columns = DumpColumns(frame, timezone=None, origin="x")
    ones = pl.Series([1] * 18)
    columns.memory(ones, ones)
    columns.whole("nnodes", "allocnodes")
    columns.time_limit()
    assert columns.unreadable == {"reqmem": 9, "nnodes": 9, "timelimit": 18}


def test_repeated_rows_are_parsed_like_one() -> None:
    one = parse(text({"ReqMem": "4Gn", "Timelimit": "1-00:00:00"})).frames["attempts"].drop("job_id", "display_id")
    rows = [{"JobIDRaw": str(n), "JobID": str(n), "ReqMem": "4Gn", "Timelimit": "1-00:00:00"} for n in range(1, 3000)]
    many = parse(text(*rows)).frames["attempts"].drop("job_id", "display_id")
    assert many.height == len(rows)
    assert many.unique().equals(one)
