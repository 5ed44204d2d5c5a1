"""Records that are in a log more than once, or not in the order in which they were written.

Lines with times have their order from these, unless the clock was set back (`LineOrder.is_set_back`); lines without
times that are mixed up have it from their steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.runlog.text_format import TextFormat

FEWEST: Final = 2
"""Steps that the copy of a log has: a single one may well be run again and look alike."""

MOST: Final = 100
"""Copies that are looked for."""

OFTEN: Final = 3
"""A log is out of order if more than one step in so many goes back: every other one of two ranks, or of lines in
no order. Processes that start anew, and epochs that count from one, go back less often, also of the few steps logged.
"""

FEWEST_BACK: Final = 3
"""Steps that go back in a log that is out of order."""

_PLACE: Final = ("line", "part")
_MEASURED: Final = ("duration_s", "duration_ms", "elapsed_s", "loss", "samples_per_s", "tokens_per_s")
"""Values in which two executions of one step differ."""


def without_copies(records: pl.DataFrame, form: TextFormat) -> pl.DataFrame:
    """Records (`scan.SCHEMA`) of a log that stands in the file twice, or its beginning before it: once.

    The second begins with all that the first has, to the last digit of what was measured. What is left of a log that
    was run again from its beginning is something else: its durations differ.
    """
    for _ in range(MOST):
        begin, end = _copy(records, form)
        if begin == end:
            break
        records = pl.concat([records[:begin], records[end:]])
    return records


def _copy(records: pl.DataFrame, form: TextFormat) -> tuple[int, int]:
    """The first and the last record (it not included) of one that is a copy; (0, 0) where none is."""
    places = _like_the_first(records)
    hashes = records.drop(_PLACE).hash_rows() if places else pl.Series(dtype=pl.UInt64)
    for at in places:
        size = min(at, hashes.len() - at)
        if hashes[:size].equals(hashes[at : at + size]) and _measured(records[:size], form) >= FEWEST:
            return (at, at + size) if at + size == hashes.len() else (0, at)
    return 0, 0


def _like_the_first(records: pl.DataFrame) -> list[int]:
    """Places of records that are like the first one, as are those behind them; at most `MOST`."""
    if records.height < FEWEST:
        return []
    first, second = (records.row(number, named=True) for number in range(2))
    pairs = _like(records, first) & _like(records, second).shift(-1, fill_value=False)
    return pairs.arg_true()[1 : MOST + 1].to_list()


def _like(records: pl.DataFrame, one: Mapping[str, Any]) -> pl.Series:
    """Which records are of the same line, by their most distinctive columns."""
    same = (pl.col(name).eq_missing(pl.lit(one[name], dtype=records.schema[name])) for name in _COMPARED_COLUMNS)
    return records.select(pl.all_horizontal(same)).to_series()


_COMPARED_COLUMNS: Final = (
    "kind",
    "writer",
    "naive",
    "month_day",
    "of_day",
    "step",
    "loss",
    "duration_s",
    "duration_ms",
)


@dataclass
class Copies:
    """Whether a log may have a copy of its beginning: its first two records stand in it again, one behind the other.

    Attributes:
        possible: there may be one.
    """

    possible: bool = False
    _first: list[Mapping[str, Any]] = field(default_factory=list)
    _is_first: bool = False

    def take(self, records: pl.DataFrame) -> None:
        """Look at records in the order of the log."""
        n_known = len(self._first)
        if n_known < FEWEST:
            self._first += records.head(FEWEST - n_known).to_dicts()
        others = records[FEWEST - n_known :]
        if self.possible or others.is_empty() or len(self._first) < FEWEST:
            return
        is_first, is_second = (_like(others, one) for one in self._first)
        self.possible = bool((is_second & is_first.shift(1, fill_value=self._is_first)).any())
        self._is_first = is_first[-1]


def _measured(records: pl.DataFrame, form: TextFormat) -> int:
    """How many records of steps have a measured value."""
    return records.filter(_is_step(form) & pl.any_horizontal(pl.col(_MEASURED).is_not_null())).height


def in_order(records: pl.DataFrame, form: TextFormat) -> pl.DataFrame:
    """Records without times in the order of their steps, each step once, where their lines are out of order.

    Several ranks that write into one file without their names, or lines that were mixed up, go back again and again.

    Args:
        records: as `with_times` has them, with `at`.
        form: the format that they are of.
    """
    order = LineOrder(form)
    order.take(records)
    if not order.is_mixed:
        return records
    steps = records.filter(_is_step(form))
    once = steps.unique("step", keep="first", maintain_order=True)
    places = once.select("line", "part").rename({"line": "_line", "part": "_part"})
    ordered = pl.concat([once.sort("step"), places], how="horizontal")
    others = records.filter(~_is_step(form)).with_columns(_line="line", _part="part")
    return pl.concat([others, ordered]).sort("_line", "_part", maintain_order=True).drop("_line", "_part")


@dataclass
class LineOrder:
    """Whether the lines of a log are in order: by their times, or without any by their steps.

    Attributes:
        form: the format that they are of.
        is_timed: some line has a time, so all have their order from these.
        goes_back: some time is before that of a line before it.
    """

    form: TextFormat
    is_timed: bool = False
    goes_back: bool = False
    _latest: int | None = None
    _n_steps: int = 0
    _n_back: int = 0
    _n_again: int = 0
    _n_with_time: int = 0
    _n_starting: int = 0
    _last: pl.DataFrame | None = None
    _is_unknown: bool = False

    def take(self, records: pl.DataFrame) -> None:
        """Look at records with `at` in the order of the log."""
        before = self._latest
        moments = pl.concat([pl.Series([before], dtype=pl.Int64), records["at"]]).drop_nulls()
        if moments.len():
            self.is_timed, self._latest = True, moments[-1]
            self.goes_back = self.goes_back or not moments.is_sorted()
        at = pl.concat([pl.Series([before], dtype=pl.Int64), records["at"]]).forward_fill()[1:]
        steps = records.with_columns(at).filter(_is_step(self.form)).select("kind", "step", "at")
        repeated = (self.form.lines[kind].repeats for kind in steps["kind"].unique())
        self._is_unknown = self._is_unknown or steps["step"].has_nulls() or any(repeated)
        every = steps if self._last is None else pl.concat([self._last, steps])
        move = every["step"].diff()
        self._n_steps += steps.height
        later = every["at"].diff()
        self._n_back += int((move < 0).sum())
        self._n_again += int(((move == 0) & later.ne_missing(0)).sum())
        self._n_with_time += int(((move <= 0) & (later < 0)).sum())
        self._n_starting += int(records["kind"].is_in(self.form.starting).sum())
        self._last = every[-1:]

    @property
    def n_not_ahead(self) -> int:
        """Steps that go back, or come again at another time."""
        return self._n_back + self._n_again

    @property
    def is_plain(self) -> bool:
        """Whether they are read in the order in which they are."""
        return not self.goes_back and not self.is_mixed

    @property
    def is_mixed(self) -> bool:
        """Whether more steps go back than processes started, and often; a redrawn bar does not count."""
        n_back = self.n_not_ahead - self._n_starting
        is_often = n_back >= FEWEST_BACK and n_back * OFTEN > self._n_steps
        return is_often and not self.is_timed and not self._is_unknown

    def is_set_back(self, by_time: LineOrder) -> bool:
        """Whether the times go back because a clock was set back (NTP), so that the lines are in order as they are.

        Then each step is ahead of the one before it where the time goes back, and in the order of time more steps go
        back, also if those count that come again at another time. Lines that a collector mixed up, and those of
        several ranks one behind the other, go back in both at once.

        Args:
            by_time: of the same lines in the order of time.
        """
        is_better = self._n_back < by_time._n_back and self.n_not_ahead < by_time.n_not_ahead
        return is_better and not self._n_with_time


def _is_step(form: TextFormat) -> pl.Expr:
    return pl.col("kind").is_in(form.numbers_of("step"))
