"""Frames that SQL reads: those of few rows as streams, which DuckDB reads without `pyarrow.dataset`."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import duckdb
import polars as pl
import pytest

from queries import table_writer as writing
from queries.table_writer import LentRows
from queries.warehouse import open_writer

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

NOW = datetime(2026, 11, 22, tzinfo=UTC)

PROGRAM = """
import sys
from datetime import UTC, datetime
from pathlib import Path
import polars as pl
from queries.warehouse import open_writer

def aliases(*names):
    return pl.DataFrame({"cluster": "c", "source": "s", "name": names, "node": "n", "valid_from": NOW})

NOW = datetime(2026, 11, 22, tzinfo=UTC)
with open_writer(Path(sys.argv[1]), verb="t", now=NOW) as writer, writer.transaction():
    writer.append("node_aliases", aliases("a", "b"))
    writer.append_new("node_aliases", aliases("b", "c", "d"), keys=["cluster", "name"])
    writer.delete("node_aliases", aliases("a", "d").select("cluster", "name"))
    assert writer.matching("node_aliases", aliases("b", "x"), keys=["name"])["name"].to_list() == ["b"]
    incoming = pl.DataFrame({"cluster": ["c"], "node": ["n"]})
    assert writer.query_with("known_nodes", {"incoming": incoming}, once=True).is_empty()
    assert writer.query_with("known_nodes", {"incoming": incoming}).is_empty()
    assert sorted(writer.table("node_aliases")["name"]) == ["b", "c"]
print("pyarrow.dataset" in sys.modules)
"""


@pytest.mark.slow
def test_few_rows_are_read_without_pyarrow_dataset(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "w")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("most", [1, 100], ids=["as a table", "as a stream"])
def test_frames_of_any_height_are_read(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "ROW_GROUP", most)
    names = [f"n{number}" for number in range(7)]
    rows = pl.DataFrame({"cluster": "c", "source": "s", "name": names, "node": "n", "valid_from": NOW})
    with open_writer(tmp_path, verb="t", now=NOW) as writer, writer.transaction():
        writer.append("node_aliases", rows)
        writer.append_new("node_aliases", rows, keys=["name"])
        assert writer.height("node_aliases") == len(names)
        assert sorted(writer.matching("node_aliases", rows[2:5], keys=["name"])["name"]) == names[2:5]
        writer.delete("node_aliases", rows[:4].select("name"))
        assert sorted(writer.table("node_aliases")["name"]) == names[4:]


def test_a_query_may_read_a_frame_twice(tmp_path: Path) -> None:
    ids = {"cluster": "c", "scheduler": "slurm", "job_id": ["1", "2"], "second": NOW}
    incoming = {"incoming": pl.DataFrame(ids)}
    with open_writer(tmp_path, verb="t", now=NOW) as writer:
        assert writer.query_with("raw_ids", incoming).is_empty()
        with writer.transaction():
            assert writer.query_with("raw_ids", incoming).is_empty()
            assert writer.query_with("raw_ids", incoming).is_empty()
        with pytest.raises(duckdb.Error, match="job_id"), writer.transaction():
            writer.query_with("raw_ids", {"incoming": pl.DataFrame(ids).drop("job_id")})
        with writer.transaction():
            assert writer.query_with("raw_ids", incoming).is_empty()


@pytest.mark.parametrize("most", [1, 100], ids=["as a table", "as a stream"])
def test_rows_are_let_go_of_before_the_transaction_ends(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB keeps what was registered until then: of a long computation that would be everything it wrote."""
    lent: list[LentRows] = []

    class Watched(LentRows):
        def __init__(self, rows: pa.Table) -> None:
            lent.append(self)
            super().__init__(rows)

    monkeypatch.setattr(writing, "ROW_GROUP", most)
    monkeypatch.setattr(writing, "LentRows", Watched)
    keys = pl.DataFrame({"name": ["a", "b"]})
    with open_writer(tmp_path, verb="t", now=NOW) as writer, writer.transaction():
        assert writer.matching("node_aliases", keys, keys=["name"]).is_empty()
        assert [each.rows for each in lent] == [None]
        with pytest.raises(AssertionError, match="taken back"):
            lent[0].__arrow_c_stream__()
