"""Rows in memory that DuckDB reads under a name, for as long as a statement takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

ROW_GROUP = 122_880
"""Rows that DuckDB packs together. Handed over in portions of that size, they are packed on several cores at once."""


class LentRows:
    """Rows that DuckDB reads under a name, until they are taken back.

    DuckDB keeps what was registered within a transaction until its end: rows themselves would stay in memory so long.
    """

    def __init__(self, rows: pa.Table | pa.RecordBatchReader) -> None:
        self.rows: pa.Table | pa.RecordBatchReader | None = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as a stream of Arrow's C interface; a table gives one as often as it is requested."""
        if self.rows is None:
            message = "rows were read after they were taken back"
            raise AssertionError(message)
        return self.rows.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]  # pyarrow has no types here

    def take_back(self) -> None:
        """Let go of the rows."""
        self.rows = None


def portions(rows: pl.DataFrame) -> pa.RecordBatchReader:
    """Rows as they lie in memory, to be read once from first to last: DuckDB cannot filter texts of this form."""
    import polars as pl  # noqa: PLC0415 - as above
    import pyarrow as pa  # noqa: PLC0415 - as above

    table = rows.to_arrow(compat_level=pl.CompatLevel.newest())
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=ROW_GROUP))
