"""Output of an ingest: the result of each input, and all of them in one line."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from app import console
from ingest.errors import shorten
from ingest.store.report import LoadSummary, counts, summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from ingest.store.report import LoadReport

_REASONS: Final = 2
"""Reasons of rejected rows that are printed."""

MANY: Final = 3
"""Inputs with the same warning, of which it is printed once."""


def print_report(reports: Sequence[LoadReport], *, files: bool) -> None:
    """Print the result of each input on stderr, and a sum if several files were loaded.

    What is warned of in many inputs is printed once, behind them.
    """
    often = Counter(warning.message for report in reports for warning in dict.fromkeys(report.fresh))
    many = {message: count for message, count in often.items() if count >= MANY}
    for report in reports:
        if report.parsed is None:
            continue
        line = f"{report.parsed.source}  {report.origin}\n  {counts(report.parsed)}"
        console.echo(report.line if isinstance(report, LoadSummary) else line, error=True)
        for warning in report.fresh:
            if warning.message not in many:
                console.echo(f"  warning: {warning.message}", error=True)
        if report.parsed.rows_rejected:
            console.echo(f"  {_rejected(report.parsed.rejects)}", error=True)
    for message, count in many.items():
        console.echo(f"warning of {count:,} inputs: {message}", error=True)
    if files and len({report.origin for report in reports}) > 1:
        console.echo(summary(reports), error=True)


def _rejected(rejects: pl.DataFrame) -> str:
    """The most frequent reasons of rejected rows (`rejects`), each with the first line that has it."""
    import polars as pl

    reasons = rejects.group_by("reason").agg(pl.len().alias("n"), pl.col("line").min())
    if reasons.is_empty():
        return "rejected rows are stored with their reasons: trackside status"
    frequent = reasons.sort("n", "line", descending=[True, False], nulls_last=True).head(_REASONS)
    lines = ["" if line is None else f", first in line {line:,}" for line in frequent["line"]]
    texts = [f"{n:,} rejected: {shorten(reason)}" for reason, n in frequent.select("reason", "n").iter_rows()]
    return "\n  ".join(map("".join, zip(texts, lines, strict=True))) + "\n  all rejected rows: trackside status"
