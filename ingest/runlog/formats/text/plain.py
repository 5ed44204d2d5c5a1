"""Lines of steps that follow each other plainly, taken together in a tenth of the time.

The result is that of `Timeline.take` for each.

Plain are lines of one kind and one writer, each of a later step than the one before, with nothing else of the format
between them, all of which have a time, or a duration, or both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ingest.runlog.formats.text.timeline import LONGEST_US, MOST_STEPS, US

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ingest.runlog.formats.text.sessions import TextSession
    from ingest.runlog.formats.text.timeline import Timeline

FEWEST: Final = 32
"""Lines that are taken one by one where fewer follow each other."""


def take_all(timeline: Timeline, records: pl.DataFrame) -> None:
    """Read records in the order of time."""
    for stretch, is_plain in _stretches(records, _is_step(timeline)):
        if is_plain:
            timeline.take(stretch.row(0, named=True))
            rest = stretch[1:]
            if _take_plain(timeline, rest):
                continue
            stretch = rest  # noqa: PLW2901 - the first line is taken
        for record in stretch.iter_rows(named=True):
            timeline.take(record)


def _is_step(timeline: Timeline) -> pl.Expr:
    steps = timeline.form.numbers_of("step")
    return pl.col("kind").is_in(steps)


def _stretches(records: pl.DataFrame, is_step: pl.Expr) -> Iterator[tuple[pl.DataFrame, bool]]:
    """Parts of the records, and whether a part is plain."""
    whole = is_step & pl.col("step").is_finite() & _placed_by().is_not_null()
    continues = whole & whole.shift(1) & (pl.col("step") > pl.col("step").shift(1))
    same = pl.all_horizontal(
        each.eq_missing(each.shift(1)) for each in (pl.col("kind"), pl.col("writer"), _placed_by())
    )
    follows = (continues & same).fill_null(value=False)
    numbered = records.select(stretch=(~follows).cum_sum()).to_series().rle().struct.unnest()
    yield from cut(records, ((size, True) for size in numbered["len"]))


def cut(records: pl.DataFrame, runs: Iterable[tuple[int, bool]]) -> Iterator[tuple[pl.DataFrame, bool]]:
    """The records in parts, and whether a part is a run that is wanted and long enough (`FEWEST`).

    Args:
        records: in their order.
        runs: the length of each, and whether it is wanted; together they are all records.
    """
    begin = since = 0
    for size, is_selected in runs:
        if is_selected and size >= FEWEST:
            if begin > since:
                yield records[since:begin], False
            yield records[begin : begin + size], True
            since = begin + size
        begin += size
    if begin > since:
        yield records[since:begin], False


_BOTH, _STAMP, _DURATION = "both", "stamp", "duration"
"""Values that place a line's steps in time: its stamp and its duration, the stamp alone, or the duration alone."""


def _placed_by() -> pl.Expr:
    """The values that place a line's steps (`_BOTH`, `_STAMP`, `_DURATION`); null if it is not plain."""
    at, length = pl.col("at"), pl.coalesce("duration_s", "duration_ms")
    is_length = (length >= 0) & (length < LONGEST_US / US)
    by_duration = at.is_null() & is_length & pl.col("elapsed_s").is_null()
    return (
        pl.when(pl.col("burst").list.len() == 0)
        .then(None)
        .when(at.is_not_null() & is_length)
        .then(pl.lit(_BOTH))
        .when(at.is_not_null() & length.is_null())
        .then(pl.lit(_STAMP))
        .when(by_duration)
        .then(pl.lit(_DURATION))
    )


def _take_plain(timeline: Timeline, records: pl.DataFrame) -> bool:
    """Take lines behind a step of their session; False where something of that session is open."""
    session = timeline.sessions[-1] if timeline.sessions else None
    first = records["step"][0]
    if session is None or session.last is None or session.previous != session.last or session.last >= first:
        return False
    cursor = session.cursor
    if cursor is None or session.untimed or session.held_until > cursor:
        return False
    steps = records["step"].cast(pl.Int64)
    counts = steps - steps.shift(1).fill_null(session.last)
    counts = counts.set(counts > MOST_STEPS, 1)
    placed = _placed(timeline, session, records, counts, cursor)
    if placed is None:
        return False
    begins, lengths, session.cursor = placed
    tokens = tokens_of_steps(records, counts, session)
    add_lines(timeline, session, records.with_columns(steps, lengths, tokens, _count=counts, _begin=begins))
    timeline.pass_on(records.row(-1, named=True), session)
    return True


def _placed(
    timeline: Timeline, session: TextSession, records: pl.DataFrame, counts: pl.Series, cursor: int
) -> tuple[pl.Series, pl.Series, int] | None:
    """When the first step of each line began, how long each is, and when the last one ended; None: not so plainly."""
    by, lengths = records.select(
        by=_placed_by(), _length=pl.coalesce(pl.col("duration_s") * US, pl.col("duration_ms") * 1_000)
    )
    if by[0] != _STAMP and not (counts * lengths).sum() < _NEVER:
        return None
    if by[0] != _DURATION:
        placed = _stamped(records, lengths, counts, cursor, is_long=by[0] == _BOTH)
        timeline.counts["reckoned"] += int(counts.sum()) if placed is not None and session.is_reckoned else 0
        return placed
    if session.bar is not None or cursor < (timeline.now or 0):
        return None
    ends = cursor + (counts * lengths).round(mode="half_to_even").cast(pl.Int64).cum_sum()
    timeline.counts["reckoned"] += int(counts.sum())
    return ends.shift(1).fill_null(cursor), lengths, int(ends[-1])


def _stamped(
    records: pl.DataFrame, lengths: pl.Series, counts: pl.Series, cursor: int, *, is_long: bool
) -> tuple[pl.Series, pl.Series, int] | None:
    """As `_placed`, of lines with the time at which they were written, and the length of their steps or not."""
    if not is_long:
        return between_stamps(records["at"], counts, cursor)
    begins, end = _begins(records, lengths, counts, cursor)
    return begins, lengths, end


def between_stamps(ends: pl.Series, counts: pl.Series, cursor: int) -> tuple[pl.Series, pl.Series, int] | None:
    """As `_placed`, of lines without a duration: their steps share the time since the line before."""
    begins = ends.shift(1).fill_null(cursor)
    return None if (begins > ends).any() else (begins, ((ends - begins) / counts).alias("_length"), int(ends[-1]))


def _begins(records: pl.DataFrame, lengths: pl.Series, counts: pl.Series, cursor: int) -> tuple[pl.Series, int]:
    """When the first step of each line began, and the last one ended: as `Timeline` has it without events between.

    A step that would begin before the one before it has ended begins when that did, and so ends later than its line was
    written, by at most the stamp's unit and a twentieth of a step; where that is more, its stamp is believed. How late
    it ends is a sum of overlaps that never falls below zero: the sum of all, less the least one so far.
    """
    ends = records["at"].to_numpy()
    took = np.rint(counts.to_numpy() * lengths.to_numpy()).astype(np.int64)
    firsts = ends - took
    overlaps = np.concatenate(([cursor], ends[:-1])) - firsts
    most = records["unit"].to_numpy() + lengths.to_numpy() / 20
    overlaps = np.where(overlaps > most, -_NEVER, overlaps)  # its stamp is believed, whatever was before
    late = np.zeros(len(ends), dtype=np.int64)
    since, size = 0, _SPAN
    while since < len(ends):
        span = slice(since, since + size)
        sums = np.cumsum(overlaps[span]) + (late[since - 1] if since else 0)
        own = sums - np.minimum(np.minimum.accumulate(sums), 0)
        believed = np.flatnonzero(own > most[span])
        stop = int(believed[0]) if believed.size else len(own)
        late[since : since + stop] = own[:stop]
        since += stop + bool(believed.size)
        size = min(_SPAN, 2 * stop + 32)
    return pl.Series(firsts + late, dtype=pl.Int64), int(ends[-1] + late[-1])


_SPAN: Final = 4_096
"""Lines that are summed at a time."""

_NEVER: Final = 1 << 50
"""Microseconds by which no step is late; so many lines' sum is a number."""


def add_lines(timeline: Timeline, session: TextSession, lines: pl.DataFrame) -> None:
    """Add the steps that lines stand for: `step`, `_count`, `_length` and `_begin` of the first of each."""
    batch = lines["samples"].drop_nulls()
    if batch.len():
        session.facts.setdefault("global_batch", str(batch[0]))
    count, number = pl.col("_count"), pl.col("_number")
    several = lines.with_columns(tokens=_tokens(timeline.facts_of(session)))
    if (lines["_count"] > 1).any():
        several = several.with_columns(_number=pl.int_ranges(0, count)).explode("_number")
    else:
        several = several.with_columns(_number=pl.lit(0, dtype=pl.Int64))
    several = several.with_columns(_step=pl.col("step") - count + 1 + number)
    loss = pl.when(number == count - 1).then("loss").otherwise(None)
    if lines["burst"].count():
        several = several.join(_losses(lines), on=["line", "part", "_step"], how="left", maintain_order="left")
        loss = pl.coalesce(loss, "_loss")
    made = several.select(
        step="_step",
        begin=pl.col("_begin") + (number * pl.col("_length")).round(mode="half_to_even").cast(pl.Int64),
        length="_length",
        tokens="tokens",
        loss=loss,
        line="line",
        tflops_per_gpu="tflops_per_gpu",
        mfu_percent="mfu_percent",
    )
    timeline.counts["averaged"] += int(lines.filter(count > 1)["_count"].sum())
    session.began = min([*([] if session.began is None else [session.began]), *made["begin"].bottom_k(1)])
    timeline.steps.extend(len(timeline.sessions) - 1, made)


def _losses(lines: pl.DataFrame) -> pl.DataFrame:
    """The losses of steps that lines stand for besides their own: `line`, `part`, `_step`, `_loss`."""
    others = lines.select("line", "part", "burst").explode("burst").drop_nulls("burst").unnest("burst")
    return others.select("line", "part", _step=pl.col("step").cast(pl.Int64), _loss="loss")


def tokens_of_steps(lines: pl.DataFrame, counts: pl.Series, session: TextSession) -> pl.Series:
    """Tokens of one step, where the lines count them: as `TextSession.tokens_of_step` has them of one that trains.

    Args:
        lines: of steps (`step`), with `tokens` and `total_tokens`.
        counts: steps that each stands for.
        session: gets the last total.
    """
    if not lines["total_tokens"].count():
        return lines["tokens"]
    total, number = pl.col("total_tokens"), pl.col("step").cast(pl.Int64)
    at = pl.when(total.is_not_null()).then(number)
    since = at.forward_fill().shift(1).fill_null(pl.lit(session.total_at, dtype=pl.Int64))
    own = pl.max_horizontal(number - since, pl.lit(counts))
    before = total.forward_fill().shift(1).fill_null(pl.lit(session.total_tokens, dtype=pl.Float64))
    rise = pl.when(total >= before).then(total - before) / own
    last = lines.filter(total.is_not_null()).select(number, total).row(-1)
    session.total_at, session.total_tokens = last
    return lines.select(pl.coalesce("tokens", rise).alias("tokens")).to_series()


def _tokens(facts: Mapping[str, Any]) -> pl.Expr:
    """Tokens of one step over all GPUs, from what is known of them: as `Timeline` has them of one line."""
    length = pl.when(pl.col("_length") > 0).then(pl.col("_length") / US)
    measured = (pl.col("samples_per_s") * length).round(mode="half_to_even")
    samples = pl.coalesce("samples", pl.lit(facts.get("global_batch"), dtype=pl.Float64), measured)
    by_samples = samples * facts["seq_len"] if facts.get("seq_len") else pl.lit(None, dtype=pl.Float64)
    took = pl.col("_length") / US
    a_gpu = pl.col("tokens_per_s_per_gpu") * (facts.get("n_gpus") or None) * took
    return pl.coalesce("tokens", by_samples, pl.col("tokens_per_s") * took, a_gpu)
