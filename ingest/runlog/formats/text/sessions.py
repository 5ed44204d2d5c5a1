"""The sessions of a text log, with their events, and its steps as columns: what `Timeline` fills."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from ingest.runlog.spool import Spool, joined
from ingest.tables import conform

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass
class TextEvent:
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
class TextSession:
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
        elapsed: seconds that the last progress bar of a step had run.
        is_reckoned: its beginning, or that of a progress bar, is not in the log.
        total_tokens: those of all steps up to the last line that records them.
        total_at: the step of that line.
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
    events: list[TextEvent] = field(default_factory=list)
    untimed: list[TextEvent] = field(default_factory=list)
    held_until: int = 0
    bar: Mapping[str, Any] | None = None
    bar_total: float | None = None
    bar_began: int | None = None
    elapsed: float = 0.0
    is_reckoned: bool = False
    total_tokens: float | None = None
    total_at: int | None = None

    def begin_at(self, moment: int | None) -> None:
        """Set an unknown begin of the session, and of its events, to this time."""
        if self.began is None and moment is not None:
            self.began = moment
            for event in self.events:
                event.begin = moment if event.begin is None else event.begin

    def begin_before(self, first_step: int) -> None:
        """Events without a time that are before the first step in the log had begun by its begin."""
        if not self.trained:
            for event in self.events:
                if not event.is_timed and event.begin is not None:
                    event.begin = min(event.begin, first_step)

    def tokens_of_step(self, total: float | None, step: int, count: int) -> float | None:
        """Tokens of one step, by those of all steps so far; None: unknown.

        Args:
            total: tokens of all steps up to this one; None: its line has none.
            step: its number.
            count: steps that its line stands for; more may lie between two lines with a total.
        """
        if total is None:
            return None
        is_first = self.total_tokens is None and (self.previous == 0 or step == 1)
        before = 0.0 if is_first else self.total_tokens
        steps = count if self.total_at is None else max(step - self.total_at, count)
        self.total_tokens, self.total_at = total, step
        return (total - before) / steps if before is not None and total >= before else None

    @property
    def trained(self) -> bool:
        """Whether it has a step."""
        return self.last is not None


@dataclass
class StepColumns:
    """Steps as columns (`STEP_COLUMNS`), in the order in which they are added."""

    _whole: Spool = field(default_factory=lambda: Spool(STEP_COLUMNS))
    _rows: list[tuple[float | None, ...]] = field(default_factory=list)
    _frames: list[pl.DataFrame] = field(default_factory=list)
    _n_waiting: int = 0
    _has_tokens: bool = False
    _printed: list[pl.DataFrame] = field(default_factory=list)

    def append(self, *row: float | None) -> None:
        """Add one step: its columns in their order."""
        self._rows.append(row)
        self._wait_for(1)

    def extend(self, session: int, steps: pl.DataFrame) -> None:
        """Add steps of a session: the other columns."""
        self._gather_rows()
        own = steps.select(pl.lit(session).alias("session"), *list(STEP_COLUMNS)[1:])
        self._frames.append(conform(own, STEP_COLUMNS))
        self._wait_for(own.height)

    def _wait_for(self, height: int) -> None:
        """Count steps that wait, and put them away where they are many: a frame of few costs as much as one of many."""
        self._n_waiting += height
        if self._n_waiting >= MOST_ROWS:
            self._flush_waiting()

    def _gather_rows(self) -> None:
        """Make a frame of the steps that were added one by one."""
        if self._rows:
            self._frames.append(pl.DataFrame(self._rows, schema=STEP_COLUMNS, orient="row", strict=False))
            self._rows = []

    def _flush_waiting(self) -> None:
        """Move the steps that wait to the others."""
        self._gather_rows()
        if not self._frames:
            return
        steps = pl.concat(self._frames)
        self._frames, self._n_waiting = [], 0
        self._has_tokens = self._has_tokens or steps["tokens"].count() > 0
        self._whole.add(steps)
        if steps["tflops_per_gpu"].count() or steps["mfu_percent"].count():
            self._printed.append(_speeds(steps))

    @property
    def height(self) -> int:
        """How many steps there are."""
        return self._whole.height + self._n_waiting

    @property
    def has_tokens(self) -> bool:
        """Whether some have tokens."""
        self._flush_waiting()
        return self._has_tokens

    def printed(self) -> dict[int, dict[str, Any]]:
        """The speed that a log itself prints, by session: means over the time of its steps; empty without any."""
        self._flush_waiting()
        if not self._printed:
            return {}
        sums = pl.concat(self._printed).group_by("session").sum()
        means = {"printed_tflops": _mean("tflops_per_gpu"), "printed_mfu": _mean("mfu_percent") / 100}
        known = [pl.when(mean.is_finite() & (mean > 0)).then(mean).alias(name) for name, mean in means.items()]
        return {row.pop("session"): row for row in sums.select("session", *known, "printed_steps").to_dicts()}

    def frames(self, rows: int) -> Iterator[pl.DataFrame]:
        """All steps in frames of about so many; they can be read any number of times."""
        self._flush_waiting()
        return joined(self._whole.frames(), rows)


MOST_ROWS: Final = 10_000
"""Steps that wait to become one frame."""

STEP_COLUMNS: Final[dict[str, pl.DataType]] = {
    "session": pl.Int32(),
    "step": pl.Int64(),
    "begin": pl.Int64(),
    "length": pl.Float64(),
    "tokens": pl.Float64(),
    "loss": pl.Float64(),
    "line": pl.Int64(),
    "tflops_per_gpu": pl.Float64(),
    "mfu_percent": pl.Float64(),
}
"""Columns of steps: number of the session and of the step, begin and length in microseconds, number of the line, and
the speed that the line itself prints."""

_SPEEDS: Final = ("tflops_per_gpu", "mfu_percent")


def _speeds(steps: pl.DataFrame) -> pl.DataFrame:
    """The sums that the means of printed speeds are made of, by session."""
    weight = pl.col("length").fill_null(0) + 1  # microseconds; alike where no line has a duration
    has_one = pl.any_horizontal(pl.col(_SPEEDS).is_finite() & (pl.col(_SPEEDS) > 0)).fill_null(value=False)
    sums = {f"{name}_sum": (pl.col(name) * weight).sum() for name in _SPEEDS}
    weights = {f"{name}_weight": weight.filter(pl.col(name).is_not_null()).sum() for name in _SPEEDS}
    return steps.filter(has_one).group_by("session").agg(**sums, **weights, printed_steps=pl.len())


def _mean(name: str) -> pl.Expr:
    return pl.col(f"{name}_sum") / pl.col(f"{name}_weight")
