"""Slurm's smaller tables, of people, rules, changes and runaway jobs: reading them, and accounting for every row."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from ingest.delimited.reader import LINE, DumpRows, read_rows
from ingest.errors import MissingColumnError
from ingest.tables import REJECTS, Parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from ingest.context import ParseContext
    from ingest.delimited.header import DumpLayout
    from ingest.tables import SourceName


class TableColumns(NamedTuple):
    """The columns of one table, by any of their names."""

    rows: DumpRows

    def word(self, *names: str) -> pl.Series:
        """The first of the columns that exists; empty values are null."""
        frame = self.rows.frame
        name = next((name for name in names if name in frame.columns), None)
        if name is None:
            return pl.Series(names[0], [None], pl.String).new_from_index(0, frame.height)
        # `tree` indents accounts, and a user may be called `none`: only an empty text has no value here.
        text = frame[name].str.strip_chars()
        return text.set(text == "", None)

    def names(self, name: str) -> pl.Series:
        """A list of names, commas between them; null where the column is missing."""
        if name not in self.rows.frame.columns:
            return self._no_lists()
        return self.word(name).fill_null("").str.split(",").list.eval(pl.element().filter(pl.element() != ""))

    def limits(self, columns_of_limits: Mapping[str, str]) -> pl.Series:
        """Limits that are set, `GrpTRES=gres/gpu=16`, by name; null where the table has no column of limits."""
        present = sorted((limit, name) for name, limit in columns_of_limits.items() if name in self.rows.frame.columns)
        if not present:
            return self._no_lists()
        set_limits = [(pl.lit(f"{limit}=") + self.word(name)).alias(name) for limit, name in present]
        return self.rows.frame.select(pl.concat_list(set_limits).list.drop_nulls().alias("limits")).to_series()

    def _no_lists(self) -> pl.Series:
        return pl.Series([None], dtype=pl.List(pl.String)).new_from_index(0, self.rows.frame.height)


def read_table(data: bytes, layout: DumpLayout, context: ParseContext) -> DumpRows:
    """The rows of a delimited text, read by the given options."""
    return read_rows(
        data, layout, origin=context.origin, delimiter=context.delimiter, accept_truncated=context.accept_truncated
    )


def require(lacking: list[str], rows: DumpRows, context: ParseContext, layout: DumpLayout) -> None:
    """Raise if a required column is missing."""
    if lacking:
        message = (
            f"{context.origin}: missing: {', '.join(lacking)}\nfound: {', '.join(rows.header.shown)}\n"
            f"A command that gets all of it:\n  {layout.command}"
        )
        raise MissingColumnError(message)


def account(
    rows: DumpRows,
    parsed: pl.DataFrame,
    context: ParseContext,
    *,
    source: SourceName,
    frames: dict[str, pl.DataFrame],
    clusters: Iterable[str],
    loaded: int,
    skipped: int = 0,
    covers: tuple[datetime | None, datetime | None],
) -> Parsed:
    """A table as `Parsed`, every row of it accounted for.

    Args:
        rows: the rows as they were read.
        parsed: the rows that hold data, with LINE, `cluster` and `problem` (null: none).
        context: cluster, time zone and other parameters from the caller.
        source: the kind of table.
        frames: result of the rows without a problem.
        clusters: those that the table names.
        loaded: number of distinct results of the rows without a problem.
        skipped: rows that are left out of `parsed` by design.
        covers: the time that the table covers.
    """
    rejects = refusals(rows, parsed.filter(pl.col("problem").is_not_null()), source, context)
    return Parsed(
        source=source,
        clusters=frozenset(clusters),
        frames=frames,
        rejects=rejects,
        rows_read=rows.n_read,
        rows_loaded=loaded,
        rows_duplicate=parsed["problem"].null_count() - loaded,
        rows_skipped=rows.n_skipped + skipped,
        rows_of_headers=rows.n_skipped,
        rows_rejected=rejects.height,
        columns=list(rows.header.shown),
        warnings=rows.warnings,
        covers_from=covers[0],
        covers_until=covers[1],
    )


def refusals(rows: DumpRows, wrong: pl.DataFrame, source: SourceName, context: ParseContext) -> pl.DataFrame:
    """Rows of `rejects`: torn rows, and those of `wrong` (LINE, `cluster`, `problem`)."""
    usual = context.cluster or next(iter(wrong["cluster"].drop_nulls()), None) or "unknown"
    bad = [(usual, source, context.origin, one.line, one.reason, one.raw) for one in rows.refused]
    bad += [
        (cluster or usual, source, context.origin, line, problem, rows.raw(line))
        for line, cluster, problem in wrong.select(LINE, "cluster", "problem").rows()
    ]
    return pl.DataFrame(sorted(bad, key=lambda row: row[3]), schema=REJECTS, orient="row")
