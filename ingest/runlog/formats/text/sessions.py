"""The sessions of a text log, with their events, and its steps as columns: what `Timeline` fills."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class Event:
    """An event, in microseconds since 1970; one whose lines have no time lies between the steps beside it."""

    kind: str
    line: int
    step: int | None = None
    begin: int | None = None
    end: int | None = None
    durable: int | None = None
    is_timed: bool = True
    ended: bool = False
    blocking: bool = True
    detail: str | None = None


@dataclass
class Session:
    """A process: from one start of the program to the next.

    Attributes:
        line: where it begins.
        began: microseconds since 1970; None: unknown so far.
        started: its start is in the log.
        last: the last step; None before the first.
        previous: the step that the next line's steps follow; None: unknown.
        cursor: when the last step ended.
        of_writer: the last step that each writer reported.
        untimed: saves that ended at an unknown time.
        held_until: the latest end of an event.
        is_reckoned: its beginning is not in the log.
        total_tokens: those of all steps up to the last.
    """

    line: int
    began: int | None = None
    started: bool = False
    last: int | None = None
    last_key: tuple[Any, ...] = ()
    previous: int | None = None
    cursor: int | None = None
    of_writer: dict[str | None, int] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    untimed: list[Event] = field(default_factory=list)
    held_until: int = 0
    bar: Mapping[str, Any] | None = None
    bar_total: float | None = None
    bar_began: int | None = None
    is_reckoned: bool = False
    total_tokens: float | None = None

    def begin_at(self, moment: int | None) -> None:
        """It had begun by this time, where it is not known to have begun earlier; and so had its events without one."""
        if self.began is None and moment is not None:
            self.began = moment
            for event in self.events:
                event.begin = moment if event.begin is None else event.begin

    def rise_of_tokens(self, total: float | None) -> float | None:
        """Tokens since the last step, by those of all steps so far; None: unknown."""
        if total is None:
            return None
        before = 0.0 if self.total_tokens is None and self.previous == 0 else self.total_tokens
        self.total_tokens = total
        return total - before if before is not None and total >= before else None

    @property
    def trained(self) -> bool:
        """Whether it has a step."""
        return self.last is not None


@dataclass
class Steps:
    """Steps as columns: session, number, begin and length in microseconds, tokens, loss, line."""

    session: list[int] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    begin: list[int] = field(default_factory=list)
    length: list[float | None] = field(default_factory=list)
    tokens: list[float | None] = field(default_factory=list)
    loss: list[float | None] = field(default_factory=list)
    line: list[int] = field(default_factory=list)
    _whole: list[pl.DataFrame] = field(default_factory=list)

    def extend(self, session: int, steps: pl.DataFrame) -> None:
        """Add steps of a session: the other columns."""
        self._put_away()
        self._whole.append(steps.select(pl.lit(session).alias("session"), *list(_COLUMNS)[1:]).cast(_COLUMNS))  # type: ignore[arg-type]

    def _put_away(self) -> None:
        """Make a frame of the steps that were added one by one."""
        if self.step:
            lists = {name: getattr(self, name) for name in _COLUMNS}
            self._whole.append(pl.DataFrame(lists, schema=_COLUMNS, strict=False))
            for each in lists.values():
                each.clear()

    def frame(self) -> pl.DataFrame:
        """All steps in the order in which they were added."""
        self._put_away()
        return pl.concat(self._whole) if self._whole else pl.DataFrame(schema=_COLUMNS)


_COLUMNS: Final[dict[str, pl.DataType]] = {
    "session": pl.Int32(),
    "step": pl.Int64(),
    "begin": pl.Int64(),
    "length": pl.Float64(),
    "tokens": pl.Float64(),
    "loss": pl.Float64(),
    "line": pl.Int64(),
}
"""Columns of steps."""
