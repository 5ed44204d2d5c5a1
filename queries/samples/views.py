"""Views of the sample tables: a table's declaration joined with the Parquet files that make it up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from queries import integrity
from queries.sql_files import literal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def sample_view(root: Path, table: str, files: Sequence[integrity.ManifestFile], *, temporary: bool) -> str:
    """SQL of the view that joins a sample table's declaration with files."""
    named = ", ".join(literal(str(root / file.path)) for file in files)
    reading = f" UNION ALL BY NAME SELECT * FROM read_parquet([{named}], hive_partitioning = false)" if named else ""  # noqa: S608 - our own names and files
    kind = "TEMP VIEW" if temporary else "VIEW"
    return f"CREATE OR REPLACE {kind} {table} AS SELECT * FROM raw.{table}{reading}"  # noqa: S608 - as above


def view_whole(
    connection: duckdb.DuckDBPyConnection,
    root: Path,
    table: str,
    files: Sequence[integrity.ManifestFile],
    *,
    temporary: bool,
) -> bool:
    """Make the view of all of a table's files but those that are damaged: DuckDB opens some of them for it.

    Nobody reads less unawares: whoever reads by way of this module has the manifest's files checked first.

    Returns:
        Whether no file had to be left out.
    """
    bad = {damage.file for damage in integrity.damaged(root, files, digest=False)}
    try:
        whole = [file for file in files if file not in bad]
        connection.execute(sample_view(root, table, whole, temporary=temporary))
    except duckdb.Error:
        bad = {damage.file for damage in integrity.damaged(root, files)}
        whole = [file for file in files if file not in bad]
        connection.execute(sample_view(root, table, whole, temporary=temporary))
    return not bad
