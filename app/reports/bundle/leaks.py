"""The last check of a bundle before it leaves: no name of the cluster is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app.errors import UsageError
from app.json_text import as_json
from app.reports.bundle.names import SHORTEST, TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.reports.sla.document import Document

SECRET = ("user", "account", "node", "job", "person")
"""Kinds of names that may be nowhere."""

_OURS = ("definitions", "ledger_categories", "constants", "gpu_time", "headlines", "published_rates", "reproduce")
"""Parts of the report whose texts are Trackside's own."""


def refuse_leaks(folder: Path, known: dict[str, set[str]], report: Document) -> list[str]:
    """Refuse a bundle that has a name in a cell, a text or a file's name.

    Args:
        folder: its files.
        known: every name, by kind.
        report: the report in it.

    Returns:
        Names that are words of the report itself, such as `training`: whether they mean a person is unknown.

    Raises:
        UsageError: a name is in it; the message has which and where.
    """
    names = {name: kind for kind in SECRET for name in known.get(kind, ()) if len(name) >= SHORTEST}
    ours = set(TOKEN.findall(as_json({name: report[name] for name in _OURS}).replace('"', " ")))
    ours |= {word for row in report["objectives"] for word in (row["metric"], row["kind"], row["id"])} | set(report)
    unsure = sorted(set(names) & ours)
    for place, text in _texts(folder):
        for word in {text, *_words(text)}:
            if word in names and word not in ours:
                raise UsageError(
                    f"the bundle would name the {names[word]} {word!r}: it is in {place}. Nothing was written"
                )
    return unsure


def _words(text: str) -> set[str]:
    found = TOKEN.findall(text)
    return {*found, *(each.rstrip(".") for each in found)}


def _texts(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".parquet":
            yield from _cells(path)
        elif path.is_file():
            yield path.name, path.read_text(encoding="utf-8")


def _cells(path: Path) -> Iterator[tuple[str, str]]:
    """Every text of a table once."""
    rows = pl.read_parquet(path)
    for name, type_ in rows.schema.items():
        column = rows[name]
        if type_.base_type() is pl.List:
            column = column.explode()
        if column.dtype == pl.String:
            for text in column.drop_nulls().unique():
                yield f"{path.name}, column {name}", str(text)
