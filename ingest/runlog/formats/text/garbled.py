"""Lines of steps whose number or time is garbled but possible: 30000 between 299 and 301, or 18:00 between two of 8:00.

Read as it is, such a line is a restart, and the steps since then are lost. It is garbled if the two lines of its writer
before it and the two behind it contradict it. Without it they go on evenly, with room for just the one step that it
stands for; its number is not between theirs; and no process starts between them. All of this may be so of a process
that ended behind a single step, too. So these have to hold as well, or the line is read as it is:

- Its time is between theirs, and they are about two usual intervals apart, and less than a minute: two processes do
  not end, and two begin, in so little time. Where steps take minutes, or are logged every few minutes, no number is
  taken for a garbled one.
- Without times, it is ahead of the lines around it. A lower number may be a restart; no process goes on further ahead.
- No other line has the step for which there is room, at a time between theirs: lines that were mixed up have it.

A time is garbled if the number of its step lies between those of the lines around it, but the time is more than
`FAR_INTERVALS` usual intervals outside of theirs, and no other line has the step at a time between theirs. A clock that
was set stays so.

At the end of a log only the lines before one are known. A last line is not read as long as its step is more than
`FAR_INTERVALS` usual ones ahead of the line before it, in the time of a few lines: no process is so fast. Of the line
before the last one, the last one shows that it is garbled if it has just the step after the missing one.

A progress bar is garbled if its step is not between those of the bars around it although its time goes on from theirs:
the bar of another process begins at 0 seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.runlog.lines import UNCONFIRMED
from ingest.runlog.translation import RefusedLine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.runlog.text_format import TextFormat

US: Final = 1_000_000

MOST_INTERVALS: Final = 3
"""Usual intervals between the lines around a garbled number: two, and a little. More may hold a restart."""

MOST_US: Final = 60 * US
"""The longest time between them: a process that loads its libraries and a checkpoint, and its end, take half of it."""

FAR_INTERVALS: Final = 10
"""Usual intervals by which a garbled time is away from those of the lines around it."""

FAR_WITHOUT_TIME: Final = 1_000
"""The same for a number at the end of a log without times, of which fewer lines may be in the log from there on."""

_REACH: Final = 2
"""Lines before a step, and behind it, that are compared with it."""

_WRITER: Final = ("kind", "writer")
_COLUMNS: Final = ("line", "part", *_WRITER, "step", "at", "unit", "_starts")

_BAR: Final = (*_WRITER, "total")
_BAR_COLUMNS: Final = ("line", "part", *_BAR, "step", "elapsed_s")


@dataclass
class GarbledSteps:
    """Finds the lines of garbled steps, some records at a time: `take` looks at all, `compare` at all once more.

    Attributes:
        form: the format that they are of.
    """

    form: TextFormat
    _before: pl.DataFrame | None = None
    _bars: pl.DataFrame | None = None
    _found: list[pl.DataFrame] = field(default_factory=list)
    _n_starts: int = 0

    def take(self, records: pl.DataFrame) -> None:
        """Look at records with `at` and `unit`, in the order of the log."""
        is_start = pl.col("kind").is_in(self.form.starting)
        steps = (
            records.with_columns(_starts=is_start.cum_sum().cast(pl.Int64) + self._n_starts)
            .filter(pl.col("kind").is_in(self.form.numbers_of("step")) & pl.col("step").is_finite())
            .select(_COLUMNS)
        )
        self._n_starts += int(records["kind"].is_in(self.form.starting).sum())
        every = steps if self._before is None else pl.concat([self._before, steps])
        self._before = every.group_by(_WRITER, maintain_order=True).tail(2 * _REACH).select(_COLUMNS)
        if (every["step"].diff() <= 0).any() or (every["at"].diff() < 0).any():
            self._found.append(_garbled(every))
        self._take_bars(records)

    def _take_bars(self, records: pl.DataFrame) -> None:
        is_bar = pl.col("kind").is_in(self.form.numbers_of("bar"))
        bars = records.filter(is_bar & pl.col("elapsed_s").is_not_null()).select(_BAR_COLUMNS)
        every = bars if self._bars is None else pl.concat([self._bars, bars])
        self._bars = every.group_by(_BAR, maintain_order=True).tail(2).select(_BAR_COLUMNS)
        if (every["step"].diff() < 0).any():
            self._found.append(_garbled_bars(every))

    def finish(self, last: Mapping[int, tuple[int, int, str]]) -> None:
        """The log has ended, with these lines of steps: `line`, `part` and text by the kind."""
        if self._before is not None:
            every = _with_lines_before(self._before)
            self._found += [_unconfirmed(every, last), _garbled_before_last(every)]

    @property
    def found(self) -> pl.DataFrame:
        """The lines: `line`, `part`, `raw` (what each says), `what` is garbled, and which step has room (`_FOUND`)."""
        return pl.concat([pl.DataFrame(schema=_FOUND), *self._found]).unique(("line", "part"), maintain_order=True)

    def compare(self, records: pl.DataFrame) -> None:
        """Look at records once more: a line is not garbled if another one has the step for which it has room."""
        steps = records.select(*_WRITER, "at", missing="step")
        same = self.found.drop_nulls("missing").join(steps, on=(*_WRITER, "missing"), nulls_equal=True)
        mixed = same.filter(pl.col("since").is_null() | pl.col("at").is_between("since", "until"))
        self._found = [self.found.join(mixed, on=("line", "part"), how="anti", maintain_order="left")]

    def refused(self) -> list[RefusedLine]:
        """Each line with the reason."""
        reason = f"damaged line of {self.form.title} (step): the lines around it contradict its "
        rows = self.found.select("line", "what", "raw").iter_rows()
        return [RefusedLine(line, UNCONFIRMED if what == _END else reason + what, raw) for line, what, raw in rows]


_FOUND: Final[dict[str, pl.DataType]] = {
    "line": pl.Int64(),
    "part": pl.Int32(),
    "kind": pl.Int16(),
    "writer": pl.String(),
    "what": pl.String(),
    "raw": pl.String(),
    "missing": pl.Float64(),
    "since": pl.Int64(),
    "until": pl.Int64(),
}


def _as_found(lines: pl.DataFrame, **columns: pl.Expr) -> pl.DataFrame:
    return lines.with_columns(**columns).select(pl.col(name).cast(kind) for name, kind in _FOUND.items())


def _number_between() -> dict[str, pl.Expr]:
    numbers = (pl.col(name).cast(pl.Int64) for name in ("step", "step-1", "step+1"))
    return {"what": pl.lit("number"), "raw": pl.format("step {} between {} and {}", *numbers)}


def _garbled(steps: pl.DataFrame) -> pl.DataFrame:
    """The garbled ones among steps (`_COLUMNS`) with `_REACH` lines on both sides, as `GarbledSteps.found` has them."""
    around = {
        f"{name}{n:+d}": pl.col(name).shift(-n).over(_WRITER)
        for name in ("step", "at", "_starts")
        for n in (-2, -1, 1, 2)
    }
    lines = steps.with_columns(**around).with_columns(since="at-1", until="at+1").drop_nulls(("step-2", "step+2"))
    step, before, behind = pl.col("step"), pl.col("step-1"), pl.col("step+1")
    intervals = before - pl.col("step-2"), pl.col("step+2") - behind
    has_room_for_one = pl.any_horizontal((each > 0) & (behind - before == 2 * each) for each in intervals)
    at, since, until = pl.col("at"), pl.col("since"), pl.col("until")
    times = since - pl.col("at-2"), pl.col("at+2") - until
    usual = pl.min_horizontal(pl.when(each >= 0).then(each) for each in times) + pl.col("unit")
    is_soon = at.is_between(since, until) & (until - since <= pl.min_horizontal(MOST_INTERVALS * usual, MOST_US))
    has_no_time = pl.all_horizontal(each.is_null() for each in (at, since, until))
    is_no_restart = pl.when(has_no_time).then(step > behind).otherwise(is_soon)
    is_between = step.is_between(before, behind, closed="none")
    is_number = has_room_for_one & ~is_between & (pl.col("_starts-1") == pl.col("_starts+1")) & is_no_restart
    away = pl.max_horizontal(since - at, at - until)
    is_time = is_between & (since <= until) & (away > FAR_INTERVALS * usual)
    time = pl.format("step {} at {}", step.cast(pl.Int64), at.cast(pl.Datetime("us")).dt.to_string())
    return pl.concat(
        [
            _as_found(lines.filter(is_number), missing=(before + behind) / 2, **_number_between()),
            _as_found(lines.filter(is_time), missing=step, what=pl.lit("time"), raw=time),
        ]
    )


def _with_lines_before(steps: pl.DataFrame) -> pl.DataFrame:
    """The last line of steps (`_COLUMNS`) of each writer, with the three lines before it."""
    names = ("line", "part", "step", "at", "_starts")
    before = {f"{name}-{n}": pl.col(name).shift(n).over(_WRITER) for name in names for n in (1, 2, 3)}
    is_last = pl.int_range(pl.len()).over(_WRITER) == pl.len().over(_WRITER) - 1
    return steps.with_columns(**before).filter(is_last & pl.col("step-2").is_not_null())


def _is_soon_behind(at: str, since: str, earlier: str) -> pl.Expr:
    """Whether a line is no later behind one than a few lines are; also where none has a time."""
    gap, usual = pl.col(at) - pl.col(since), pl.col(since) - pl.col(earlier) + pl.col("unit")
    is_soon = gap.is_between(0, pl.min_horizontal(MOST_INTERVALS * usual, MOST_US))
    has_no_time = pl.all_horizontal(pl.col(name).is_null() for name in (at, since, earlier))
    return (is_soon | has_no_time).fill_null(value=False)


def _unconfirmed(lines: pl.DataFrame, last: Mapping[int, tuple[int, int, str]]) -> pl.DataFrame:
    """The last line of a log (`_with_lines_before`), as `GarbledSteps.found` has it, if its step is too far ahead."""
    interval = pl.col("step-1") - pl.col("step-2")
    far = pl.when(pl.col("at").is_null()).then(FAR_WITHOUT_TIME).otherwise(FAR_INTERVALS)
    is_far = (interval > 0) & (pl.col("step") - pl.col("step-1") > far * interval)
    found = lines.filter(
        is_far & (pl.col("_starts") == pl.col("_starts-1")) & _is_soon_behind("at", "at-1", "at-2")
    ).select("line", "part", *_WRITER)
    ends = pl.DataFrame(
        list(last.values()), schema={"line": pl.Int64, "part": pl.Int32, "raw": pl.String}, orient="row"
    )
    nothing = dict.fromkeys(("missing", "since", "until"), pl.lit(None))
    return _as_found(found.join(ends, on=["line", "part"]), what=pl.lit(_END), **nothing)


def _garbled_before_last(lines: pl.DataFrame) -> pl.DataFrame:
    """The line before the last one, as `GarbledSteps.found` has it, if that goes on from the one before without it."""
    step, before, garbled = pl.col("step"), pl.col("step-2"), pl.col("step-1")
    has_room_for_one = (step - before > 0) & (step - before == 2 * (before - pl.col("step-3")))
    found = lines.filter(
        has_room_for_one
        & (garbled > step)
        & (pl.col("_starts") == pl.col("_starts-2"))
        & _is_soon_behind("at", "at-2", "at-3")
    )
    numbers = (each.cast(pl.Int64) for each in (garbled, before, step))
    return _as_found(
        found,
        line=pl.col("line-1"),
        part=pl.col("part-1"),
        what=pl.lit("number"),
        raw=pl.format("step {} between {} and {}", *numbers),
        missing=(before + step) / 2,
        since=pl.col("at-2"),
        until=pl.col("at"),
    )


_END: Final = "end"
"""What is wrong with a last line: it is refused until the log has grown."""


def _garbled_bars(bars: pl.DataFrame) -> pl.DataFrame:
    """The garbled ones among progress bars (`_BAR_COLUMNS`), as `GarbledSteps.found` has them."""
    lines = bars.with_columns(
        **{f"{name}{n:+d}": pl.col(name).shift(-n).over(_BAR) for name in ("step", "elapsed_s") for n in (-1, 1)}
    )
    before, behind, elapsed = pl.col("step-1"), pl.col("step+1"), pl.col("elapsed_s")
    goes_on = (pl.col("elapsed_s-1") < elapsed) & (elapsed <= pl.col("elapsed_s+1"))
    is_garbled = (before < behind) & ~pl.col("step").is_between(before, behind) & goes_on
    nothing = dict.fromkeys(("missing", "since", "until"), pl.lit(None))
    return _as_found(lines.filter(is_garbled), **nothing, **_number_between())
