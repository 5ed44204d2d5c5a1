"""What a caller knows about an input besides its bytes."""

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
class Given:
    """Everything that one of the parsers may ask; each takes what applies to its kind of text.

    Attributes:
        origin: File name or command, for messages and rejects.
        cluster: Cluster of rows that do not name one.
        timezone: Zone of times without an offset.
        delimiter: What separates the columns; found out when not given.
        accept_truncated: Refuse a last row that is cut off instead of the whole input.
        since: Start of the window that the input was asked for.
        until: End of that window; for what holds at a moment only, when it was made.
        reached: How far the inputs that were loaded with it reach: of that time is what does not say when it was made.
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
        """When an input was made that does not tell it: as the caller says, else with the others.

        Raises:
            InputError: Nobody says.
        """
        moment = self.until or self.reached
        if moment is None:
            raise untimed(self.origin)
        return moment


def untimed(origin: str, written_at: str | None = None) -> UntimedError:
    """The error for a text that holds at a moment only, and nobody says which; `written_at`, if it is a file's."""
    example = "--until TIME (UTC)" if written_at is None else f"--until {written_at} (when it was last written)"
    message = (
        f"{origin}: nothing in it tells when it was made, and what it says may have changed since.\n"
        f"Load it together with files of the same time (accounting, nodes), or say it: {example}"
    )
    return UntimedError(message)
