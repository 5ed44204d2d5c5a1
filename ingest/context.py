"""The context of an input: facts from its caller, besides its bytes."""

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
    """What the caller passes to a parser; each uses what applies to its kind of text.

    Attributes:
        origin: File name or command, for messages and rejects.
        cluster: Cluster of rows that do not name one.
        timezone: Zone of times without an offset.
        delimiter: What separates the columns; detected by default.
        accept_truncated: Refuse a last row that is cut off instead of the whole input.
        since: Start of the window that was requested.
        until: End of that window; for a snapshot, when it was made.
        reached: How far the inputs that were loaded with it reach: the time of a snapshot without a time.
        now: The time; what lies later is refused. None: nothing is.
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
        """When a snapshot without a time was made: `until` if passed, else at the time of the other inputs.

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
