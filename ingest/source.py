"""A source of rows: what it feeds, as which files it comes, and the command that asks for it live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingest.tables import SourceName


@dataclass(frozen=True)
class Source:
    """One source. `feeds` are warehouse tables; `gives` says in a sentence what it is good for.

    `when_empty` is the question that a person should answer where an input has no rows; empty where none is good news.
    """

    name: SourceName
    title: str
    feeds: tuple[str, ...]
    files: str
    command: str
    gives: str
    when_empty: str = ""
