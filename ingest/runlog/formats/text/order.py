"""Records that are in a log more than once, or not in the order in which they were written, where no time tells.

A log whose lines have times needs none of this: lines of one step and time are one, and times give the order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from ingest.runlog.text_format import TextFormat

FEWEST: Final = 2
"""Steps that the copy of a log has: a single one may well be run again and look alike."""

MOST: Final = 100
"""Copies that are looked for."""

OFTEN: Final = 3
"""Of so many steps more than one goes back in a log that is out of order: every other one of two ranks, or of lines in
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
    if records.is_empty():
        return []
    columns = [pl.col(name) for name in ("kind", "date", "time", "step", "loss", "duration_s", "duration_ms")]
    alike = records.select(pl.all_horizontal(each.eq_missing(each.first()) for each in columns)).to_series()
    if alike.sum() < 2:
        return []
    second = records.select(pl.all_horizontal(each.shift(-1).eq_missing(each.slice(1, 1).first()) for each in columns))
    return (alike & second.to_series()).arg_true()[1 : MOST + 1].to_list()


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
    steps = records.filter(_is_step(form))
    if records["at"].is_not_null().any() or not _is_mixed(steps, records, form):
        return records
    once = steps.unique("step", keep="first", maintain_order=True)
    places = once.select("line", "part").rename({"line": "_line", "part": "_part"})
    ordered = pl.concat([once.sort("step"), places], how="horizontal")
    others = records.filter(~_is_step(form)).with_columns(_line="line", _part="part")
    return pl.concat([others, ordered]).sort("_line", "_part", maintain_order=True).drop("_line", "_part")


def _is_mixed(steps: pl.DataFrame, records: pl.DataFrame, form: TextFormat) -> bool:
    """Whether more steps go back than processes started, and often; a bar that is drawn again tells nothing."""
    if steps["step"].has_nulls() or any(form.lines[kind].repeats for kind in steps["kind"].unique()):
        return False
    starting = [
        n for n, line in enumerate(form.lines) if line.kind in {"start", "train"} or line.event == "checkpoint_load"
    ]
    n_back = int((steps["step"].diff() <= 0).sum()) - int(records["kind"].is_in(starting).sum())
    return n_back >= FEWEST_BACK and n_back * OFTEN > steps.height


def _is_step(form: TextFormat) -> pl.Expr:
    return pl.col("kind").is_in([number for number, line in enumerate(form.lines) if line.kind == "step"])
