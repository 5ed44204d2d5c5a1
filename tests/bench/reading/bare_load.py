"""The yardstick for ingest: a bare polars scan of the bytes and a DuckDB insert into a file. Run as a program."""

from __future__ import annotations

import sys

import duckdb
import polars as pl


def main() -> None:
    """Arguments: the text, the database to make."""
    text, database = sys.argv[1:]
    frame = pl.read_csv(text, separator="|", quote_char=None, infer_schema_length=1000)
    with duckdb.connect(database) as connection:
        connection.register("frame", frame.to_arrow())
        connection.execute("CREATE TABLE t AS SELECT * FROM frame")


if __name__ == "__main__":
    main()
