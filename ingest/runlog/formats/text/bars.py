"""Progress bars: redrawn ones that add nothing, and the steps that they number, taken together.

Hugging Face's Trainer draws a bar at each step, again and again, and prints dictionaries that have neither number nor
time: both come from the bar behind them. `Timeline` takes such records one by one; what is here has the same result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from ingest.runlog.formats.text.plain import add_lines, between_stamps, cut, tokens_of_steps
from ingest.runlog.formats.text.timeline import MOST_STEPS, SAVE, US

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ingest.runlog.formats.text.sessions import TextSession
    from ingest.runlog.formats.text.timeline import Timeline
    from ingest.runlog.text_format import TextFormat

PLAIN: Final = r"^ *[0-9]{1,3}%\|[^|0-9]*\| +[0-9]+/[0-9]+ \[[0-9:<?, .a-z/]+\]$"
"""A progress bar of tqdm and nothing else: no stamp, no writer, no values behind its rate."""

ONE_BY_ONE: Final = 8
"""Records that are taken one by one before the next attempt to take the following ones together."""

MOST_ALONE: Final = 4_096
"""The same after many failed attempts, at most: each attempt reads all remaining records."""


def redrawn() -> pl.Expr:
    """Which records add nothing to those beside them: bars between two others of the same loop.

    Of bars whose steps do not fall, the first behind a line counts (it numbers that), the last one before anything but
    a line that a bar numbers, and those at the beginning, which show where a process goes on from.

    The frame has `is_bar` (a bar without a time), `is_numbered` (by the bar behind it), `step` and `total`.
    """
    step, total, is_bar = pl.col("step"), pl.col("total"), pl.col("is_bar")
    before = is_bar.shift(1) & (total.shift(1) == total) & (step.shift(1) <= step) & (step.shift(1) >= 1)
    follows = pl.when("is_numbered").then(None).otherwise(is_bar).backward_fill().shift(-1)
    next_total, next_step = (pl.when(is_bar).then(each).backward_fill().shift(-1) for each in (total, step))
    behind = follows & (next_total == total) & (next_step >= step)
    return (is_bar & (step > 1) & before & behind).fill_null(value=False)


def without_redrawn(records: pl.DataFrame, form: TextFormat) -> pl.DataFrame:
    """Records (`scan.SCHEMA`) without redrawn bars."""
    untimed = pl.all_horizontal(pl.col(name).is_null() for name in ("naive", "of_day"))
    is_numbered = _is_numbered(form)
    flags = {"is_bar": _is_of(form, "bar") & untimed, "is_numbered": is_numbered}
    return records.with_columns(**flags).filter(~redrawn()).drop(*flags)


def drawn_runs(records: pl.DataFrame, form: TextFormat) -> Iterator[tuple[pl.DataFrame, bool]]:
    """Parts of the records, and whether one has bars, steps that they number, and what changes nothing about these."""
    if not any(line.kind == "bar" for line in form.lines):
        yield records, False
        return
    bare = pl.all_horizontal(pl.col(name).is_null() for name in ("at", "writer", "duration_s", "duration_ms")) & (
        _is_of(form, "bar") | _is_numbered(form)
    )
    yield from cut(records, records.select((bare | _aside(form)).rle()).to_series().struct.unnest().iter_rows())


def _aside(form: TextFormat) -> pl.Expr:
    """Lines that only have a time, or when a save begins, in full: they change nothing about the steps beside them."""
    saves = [number for number, line in enumerate(form.lines) if (line.kind, line.event) == ("begin", SAVE)]
    is_save = pl.col("kind").is_in(saves) & pl.col("step").is_not_null()
    return pl.col("at").is_not_null() & (_is_of(form, "time") | is_save)


def take_drawn(timeline: Timeline, records: pl.DataFrame) -> None:
    """Read bars, and steps that they number: more of them one by one the more often few could be taken together."""
    rest, alone = records, ONE_BY_ONE
    while rest.height:
        n_taken = _take_numbered(timeline, rest)
        alone = ONE_BY_ONE if n_taken > alone else min(2 * alone, MOST_ALONE)
        rest = rest[n_taken:]
        n_alone = 0
        for record in rest[: alone + ONE_BY_ONE].iter_rows(named=True):
            if n_alone >= alone and not timeline.pending:
                break  # the others can only be taken together where no step waits for its bar
            timeline.take(record)
            n_alone += 1
        rest = rest[n_alone:]


def _take_numbered(timeline: Timeline, records: pl.DataFrame) -> int:
    """Take the first records together, as far as each step has a bar of its own behind it; how many they are."""
    session = timeline.sessions[-1] if timeline.sessions else None
    if session is None or not _is_ready(timeline, session):
        return 0
    numbered = _numbered(records.with_row_index("_at"), timeline, session)
    steps = numbered.filter(pl.col("_number").is_not_null())
    if steps.is_empty():
        return 0
    bars = numbered.filter(pl.col("_number").is_null())
    _add_steps(timeline, session, steps)
    last = int(bars["_at"][-1])
    session.bar = records.row(last, named=True)
    for record in records[:last].filter(_aside(timeline.form)).iter_rows(named=True):
        timeline.take(record)
    return last + 1


def _is_ready(timeline: Timeline, session: TextSession) -> bool:
    """Whether the next steps of a session follow from bars alone."""
    known = session.bar_began is not None and session.bar is not None and session.cursor is not None
    return (
        known and session.trained and session.previous == session.last and not timeline.pending
        and not session.untimed and session.held_until <= (session.cursor or 0)
    )  # fmt: skip


def _numbered(records: pl.DataFrame, timeline: Timeline, session: TextSession) -> pl.DataFrame:
    """The bars of the training loop up to the last that counts, and the steps: `_number` and `_end` of each."""
    bar: Mapping[str, Any] = session.bar or {}
    own = records.filter(_is_of(timeline.form, "step") | (pl.col("total") == session.bar_total))
    is_bar = _is_of(timeline.form, "bar")
    behind = own.with_columns(
        _drawn=pl.when(is_bar).then("step"),
        _number=pl.when(~is_bar).then(pl.when(is_bar).then("step").backward_fill()),
        _elapsed=pl.coalesce("elapsed_s", pl.when(is_bar).then("elapsed_s").backward_fill()),
    )
    number = pl.col("_number")
    previous = number.forward_fill().shift(1).fill_null(session.last)
    end = pl.when(~is_bar).then(session.bar_began + (pl.col("_elapsed") * US).round(mode="half_to_even"))
    placed = behind.with_columns(_end=end.cast(pl.Int64))
    earlier = pl.col("_end").forward_fill().shift(1).fill_null(session.cursor)
    sound = (
        pl.when(is_bar)
        .then(pl.col("_drawn") >= pl.col("_drawn").forward_fill().shift(1).fill_null(bar["step"]))
        .otherwise((number > previous) & (pl.col("_end") >= earlier) & is_bar.shift(-1))
    )
    whole = placed.with_columns(_sound=sound.fill_null(value=False).cum_min()).filter("_sound")
    last = whole.with_columns(_is_bar=is_bar)["_is_bar"].arg_true()
    return whole[: int(last[-1]) + 1] if last.len() else whole.clear()


def _add_steps(timeline: Timeline, session: TextSession, steps: pl.DataFrame) -> None:
    """Add steps with their numbers and ends: the steps since the line before share the time since it."""
    assert session.last is not None and session.cursor is not None  # noqa: S101, PT018 - it is ready
    numbers = steps["_number"].cast(pl.Int64)
    counts = numbers - numbers.shift(1).fill_null(session.last)
    counts = counts.set(counts > MOST_STEPS, 1)
    placed = between_stamps(steps["_end"], counts, session.cursor)
    assert placed is not None  # noqa: S101 - ends do not fall
    begins, lengths, session.cursor = placed
    tokens = tokens_of_steps(steps.with_columns(numbers.alias("step")), counts, session)
    timeline.counts["reckoned"] += int(counts.sum()) if session.is_reckoned else 0
    lines = steps.with_columns(numbers.alias("step"), lengths, tokens, _count=counts, _begin=begins)
    add_lines(timeline, session, lines.drop("_number"))
    timeline.pass_on(lines.row(-1, named=True), session)


def _is_numbered(form: TextFormat) -> pl.Expr:
    """Lines of steps that have the number of the bar behind them."""
    behind = [number for number, line in enumerate(form.lines) if line.behind_bar]
    return _is_of(form, "step") & ~pl.col("kind").is_in(behind) & pl.col("step").is_null()


def _is_of(form: TextFormat, kind: str) -> pl.Expr:
    return pl.col("kind").is_in(form.numbers_of(kind))
