"""Times as Slurm writes them: epoch seconds, ISO with an offset, or local ISO without one.

A local time in the hour that occurs twice in autumn has two readings; one in the hour left out in spring has none. The
readings of Start and End are chosen so that they agree with the elapsed time, which Slurm counts in true seconds.
"""

from __future__ import annotations

from functools import cache
from typing import Final, Literal, NamedTuple

import polars as pl

from ingest.errors import TimeZoneError
from ingest.plausible import DAY_S, EARLIEST_S, LATEST_S
from ingest.slurm.formats.values import NO_NUMBER, UNSET, blank_to_null
from ingest.tables import TIME

_MARKS_S: Final = (0, NO_NUMBER, NO_NUMBER + 1)
"""Numbers that stand for "no time" in Slurm's database: 1970, and 2106."""


_ISO = "%Y-%m-%dT%H:%M:%S%.f"
_PLAIN_LENGTH = len("2026-11-21T07:31:00")


class Instants(NamedTuple):
    """A column of times. `late` differs from `early` in the repeated hour only; `error` is why a time is null."""

    early: pl.Series
    late: pl.Series
    error: pl.Series


def read_instants(text: pl.Series, *, timezone: str | None, origin: str) -> Instants:
    """Read a column of times, the forms mixed as they come; `Unknown`, `None`, `N/A`, 0 and the like are null.

    >>> when = read_instants(pl.Series("End", ["1795247786", "Unknown", "0", "soon"]), timezone=None, origin="x")
    >>> when.early.dt.to_string("%H:%M:%S").to_list()
    ['07:56:26', None, None, None]
    >>> when.error.to_list()
    [None, None, None, "End: not a time: 'soon'"]

    Raises:
        TimeZoneError: There are local times, and the zone is not given or does not exist.
    """
    early, unset = _read_epochs(text)
    rest = _unread(text, early, unset)
    if not len(rest):
        return Instants(early, early, _none(text))
    worded = _read_words(text[rest], timezone=timezone, origin=origin)
    error = _none(text).scatter(rest, worded.error)
    late = early.clone().scatter(rest, worded.late)
    return Instants(early.scatter(rest, worded.early), late, error)


def _read_epochs(text: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The times written as epochs, and which numbers mean that there is none."""
    times, unset = text.cast(pl.Int64, strict=False).to_frame().select(*_EPOCHS).get_columns()
    return times, unset


_EPOCHS: Final = (
    pl.when(pl.first().is_between(EARLIEST_S, LATEST_S)).then(pl.first() * 1_000_000).cast(TIME),
    pl.first().is_in(_MARKS_S).fill_null(value=False).alias("#unset"),
)


def _unread(text: pl.Series, times: pl.Series, unset: pl.Series | None = None) -> pl.Series:
    """Rows that have a text, but no time. There is no time without a text."""
    if times.null_count() == text.null_count():
        return pl.Series([], dtype=pl.UInt32)
    unread = text.is_not_null() & times.is_null()
    return (unread if unset is None else unread & ~unset).arg_true()


def _none(text: pl.Series) -> pl.Series:
    return pl.Series(text.name, [None], pl.String).new_from_index(0, len(text))


def _read_words(text: pl.Series, *, timezone: str | None, origin: str) -> Instants:
    """The times that are not plain epochs. Nearly all are 19 characters without an offset."""
    name = text.name
    naive = text.to_frame().select(_PLAIN).to_series()
    aware = pl.Series(name, [None], TIME).new_from_index(0, len(text))
    rest = _unread(text, naive)
    if len(rest):
        words = blank_to_null(text[rest])
        spelled = words.str.replace(r"^(\d{4}-\d\d-\d\d) ", "${1}T").str.replace(r"[Zz]$", "+0000")
        naive = naive.scatter(rest, spelled.str.to_datetime(_ISO, strict=False, time_unit="us"))
        offset = spelled.str.to_datetime(_ISO + "%z", strict=False, time_unit="us")
        padded, unset = _read_epochs(words)  # numbers with blanks around them
        aware = aware.scatter(rest, offset.fill_null(padded))
        text = text.scatter(rest, words.set(unset | words.is_in(list(UNSET)).fill_null(value=False), None))
    early = late = aware
    if naive.count():
        local = _localise(naive, timezone, origin, name, text.filter(naive.is_not_null())[0])
        early, late = aware.fill_null(local[0]), aware.fill_null(local[1])
    return _plausible(text, naive, early, late)


_PLAIN: Final = (
    pl.when(pl.first().str.len_bytes() == _PLAIN_LENGTH)
    .then(pl.first())
    .str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False, time_unit="us")
)


def _plausible(text: pl.Series, naive: pl.Series, early: pl.Series, late: pl.Series) -> Instants:
    """Times without the marks for "no time" (1970 and 2106 in any zone) and without mistakes (other far years)."""
    seconds = early.dt.epoch("s")
    far = seconds.to_frame().select(_FAR).to_series()
    if far.any():
        near = [(seconds - mark).abs() <= DAY_S for mark in _MARKS_S]
        text = text.set((near[0] | near[1]).fill_null(value=False), None)
        early, late = early.set(far, None), late.set(far, None)
    return Instants(early, late, _errors(text, naive, early, far))


_FAR: Final = ~pl.first().is_between(EARLIEST_S, LATEST_S).fill_null(value=True)


def _errors(text: pl.Series, naive: pl.Series, early: pl.Series, far: pl.Series) -> pl.Series:
    """Reason why a text is not a time."""
    if early.null_count() == text.null_count():  # there is no time without a text
        return _none(text)
    lost = text.is_not_null() & early.is_null()
    reason = (
        pl.when("far")
        .then(pl.lit("not between the years 2000 and 2100"))
        .when(pl.col("naive").is_null())
        .then(pl.lit("not a time"))
        .otherwise(pl.lit("no such time in the zone"))
    )
    sentence = pl.format("{}: {}: '{}'", pl.lit(text.name), reason, pl.col("text").str.slice(0, 60))
    table = pl.DataFrame({"text": text, "naive": naive, "lost": lost, "far": far})
    return table.select(pl.when("lost").then(sentence)).to_series()


def _localise(
    naive: pl.Series, timezone: str | None, origin: str, name: str, sample: str
) -> tuple[pl.Series, pl.Series]:
    """Both readings of local times in UTC."""
    if timezone is None:
        raise TimeZoneError(origin, name, sample)
    try:
        early, late = naive.to_frame().select(*_readings(timezone)).get_columns()
    except pl.exceptions.ComputeError:
        raise TimeZoneError(origin, name, sample, timezone) from None
    return early, late


@cache
def _readings(timezone: str) -> tuple[pl.Expr, ...]:
    folds: tuple[Literal["earliest", "latest"], ...] = ("earliest", "latest")
    return tuple(
        pl.first()
        .dt.replace_time_zone(timezone, ambiguous=fold, non_existent="null")
        .dt.convert_time_zone("UTC")
        .alias(fold)
        for fold in folds
    )


def consistent_times(
    *,
    submit: Instants,
    eligible: Instants,
    start: Instants,
    end: Instants,
    elapsed_s: pl.Series,
    suspended_s: pl.Series,
) -> pl.DataFrame:
    """One reading of each time: columns `submit`, `eligible`, `start`, `end`; `unsure` where another fits as well.

    Of the readings of Start and End, the pair wins whose distance is the elapsed time plus suspension, or exceeds it
    least (a dump may lack the suspension). Without an elapsed time, and for Submit and Eligible, the earlier reading
    is taken that is not before the time preceding it.
    """
    table = pl.DataFrame(
        {
            "submit": submit.early,
            "submit_late": submit.late,
            "eligible": eligible.early,
            "eligible_late": eligible.late,
            "start": start.early,
            "start_late": start.late,
            "end": end.early,
            "end_late": end.late,
            "run": elapsed_s + suspended_s.fill_null(0),
        }
    )
    if all((time.early == time.late).all() for time in (submit, eligible, start, end)):
        return table.select("submit", "eligible", "start", "end", pl.lit(value=False).alias("unsure"))
    eligible_at = pl.when(pl.col("eligible") < pl.col("submit")).then("eligible_late").otherwise("eligible")
    pairs = [("start", "end"), ("start", "end_late"), ("start_late", "end"), ("start_late", "end_late")]
    costs = table.select(_misfit(*pair).alias(str(number)) for number, pair in enumerate(pairs))
    best = pl.concat_list(costs.columns).list.arg_min()
    table = table.hstack(costs).with_columns(costs.select(best.alias("best"))["best"], _is_tied(pairs))
    chosen_start = pl.when(pl.col("best") >= 2).then("start_late").otherwise("start")
    chosen_end = pl.when(pl.col("best") % 2 == 1).then("end_late").otherwise("end")
    # Submit is never later than what follows it, so sometimes that determines its hour; nothing else does.
    followed = pl.min_horizontal("eligible_late", chosen_start, chosen_end)
    open_submit = (pl.col("submit_late") > pl.col("submit")) & (pl.col("submit_late") <= followed).fill_null(value=True)
    return table.select(
        "submit",
        eligible_at.alias("eligible"),
        chosen_start.alias("start"),
        chosen_end.alias("end"),
        (open_submit.fill_null(value=False) | pl.col("tied")).alias("unsure"),
    )


def _is_tied(pairs: list[tuple[str, str]]) -> pl.Expr:
    """Whether two pairs of readings that are different times fit best together; the costs are columns 0 to 3."""
    costs = [pl.col(str(number)) for number in range(len(pairs))]
    fits = [cost <= pl.min_horizontal(costs) for cost in costs]
    times = [[pl.when(fit).then(pair[at]) for pair, fit in zip(pairs, fits, strict=True)] for at in (0, 1)]
    differ = [pl.max_horizontal(some) > pl.min_horizontal(some) for some in times]
    return pl.any_horizontal(differ).fill_null(value=False).alias("tied")


def _misfit(start: str, end: str) -> pl.Expr:
    """How badly a pair of readings fits; the first of equals is taken, and that is the earlier one."""
    excess = (pl.col(end) - pl.col(start)).dt.total_seconds() - pl.col("run")
    by_elapsed = pl.when(excess >= 0).then(excess).otherwise(1e9 - excess)
    by_order = pl.when(pl.col(end) < pl.col(start)).then(1e9).otherwise(0.0)
    before_submit = (pl.col(start) < pl.col("submit")).fill_null(value=False) * 0.25
    return by_elapsed.fill_null(by_order).fill_null(0.0) + before_submit
