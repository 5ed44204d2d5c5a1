"""The context of an input: parameters from the caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ingest.errors import UntimedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


PLANNED_REASONS: Final = (
    r"(\b|_)maint",  # with the underscore: soperator's [compute_maintenance], a maintenance event of the cloud below
    r"\bplanned\b",
    r"\bupgrade",
    r"\breboot asap\b",
)
"""A node taken out for one of these reasons (upper or lower case) was taken out on purpose."""


@dataclass(frozen=True)
class ParseContext:
    """Parameters of a parser; each parser uses those of its kind of text.

    Attributes:
        origin: File name or command, for messages and rejects.
        cluster: Cluster of rows that do not name one.
        timezone: Zone of times without an offset.
        delimiter: Separator of the columns; detected by default.
        accept_truncated: Refuse a last row that is cut off instead of the whole input.
        since: Start of the window that was requested.
        until: End of that window; the time of a snapshot.
        reached: Latest time of the inputs loaded together: the time of a snapshot without its own.
        now: The current time; later rows are refused. None: no row is.
        planned_reasons: Node reasons (regular expressions) that mean planned work.
    """

    origin: str
    cluster: str | None = None
    timezone: str | None = None
    delimiter: str | None = None
    accept_truncated: bool = False
    since: datetime | None = None
    until: datetime | None = None
    reached: datetime | None = None
    now: datetime | None = None
    planned_reasons: Sequence[str] = PLANNED_REASONS

    def seen_at(self) -> datetime:
        """The time of a snapshot without its own: `until` if passed, else the time of the other inputs.

        Raises:
            InputError: Neither is known.
        """
        moment = self.until or self.reached
        if moment is None:
            raise untimed(self.origin)
        return moment


def untimed(origin: str, written_at: str | None = None) -> UntimedError:
    """The error for a snapshot whose time is unknown; `written_at` is when its file was last written."""
    example = "--until TIME (UTC)" if written_at is None else f"--until {written_at} (when it was last written)"
    message = (
        f"{origin}: it is a snapshot without a time, and its contents may have changed since.\n"
        f"Load it together with files of the same time (accounting, nodes), or pass its time: {example}"
    )
    return UntimedError(message)
