"""What a caller knows about an input besides its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingest.events import PLANNED_REASONS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


@dataclass(frozen=True)
class Given:
    """Everything that one of the parsers may ask; each takes what applies to its kind of text.

    Attributes:
        origin: File name or command, for messages and rejects.
        cluster: Cluster of rows that do not name one.
        timezone: Zone of times without an offset.
        delimiter: What separates the columns; found out when not given.
        accept_truncated: Refuse a last row that is cut off instead of the whole input.
        since: Start of the window that the input speaks for.
        until: End of that window; for a snapshot, when it was taken.
        planned_reasons: Node reasons (regular expressions) that mean planned work.
    """

    origin: str
    cluster: str | None = None
    timezone: str | None = None
    delimiter: str | None = None
    accept_truncated: bool = False
    since: datetime | None = None
    until: datetime | None = None
    planned_reasons: Sequence[str] = PLANNED_REASONS
