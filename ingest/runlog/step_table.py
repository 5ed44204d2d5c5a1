"""The steps of a block of a run log as a table: placed in time, implausible values left out, moved to their days."""

from __future__ import annotations

import itertools
import math
from operator import attrgetter
from typing import TYPE_CHECKING

import polars as pl

from ingest.plausible import EARLIEST_S, LATEST_S, RUN_LOG
from ingest.runlog.columns import lines_of
from ingest.runlog.lines import (
    US,
    LoggedStep,
    RefusedLineError,
    microseconds,
)
from ingest.runlog.log import ParsedLog, in_the_future
from ingest.runlog.log_warnings import Implausible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def keep_steps(log: ParsedLog, session: int, new: int, first: int, lines: list[bytes]) -> None:
    """Move the steps of a block to `days`.

    Args:
        log: the log, with the steps of the block.
        session: the number of the session that its first steps belong to.
        new: the number of the first session that began in it.
        first: the number of its first line.
        lines: its lines.
    """
    steps, log.steps = log.steps, []
    numbers, log.step_lines = log.step_lines, []
    if not steps:
        return
    starts = [0, *(each.first_step for each in log.sessions[new:]), len(steps)]
    owners = pl.concat(
        pl.repeat(number, after - before, dtype=pl.Int32, eager=True)
        for number, (before, after) in zip(
            [session, *range(new, len(log.sessions))], itertools.pairwise(starts), strict=True
        )
    )
    bad: dict[int, str] = {}
    table = pl.DataFrame(
        {
            "step": _values(steps, "step", pl.Int64),
            "t": _moments(steps, bad),
            "duration_s": _values(steps, "duration_s", pl.Float64),
            "tokens": _values(steps, "tokens", pl.Float64),
            "loss": _values(steps, "loss", pl.Float64),
            "session": owners,
        }
    )
    _keep(log, _with_times(log, table, numbers, bad, lambda at: lines[numbers[at] - first]))


def keep_columns(log: ParsedLog, steps: pl.DataFrame) -> None:
    """Move steps that come as columns to `days`."""
    log.n_read += steps.height
    table = steps.with_columns(session=pl.lit(len(log.sessions) - 1, dtype=pl.Int32))
    numbers = steps["line"]
    _keep(log, _with_times(log, table, numbers, {}, lambda at: lines_of(steps[at : at + 1]).strip()))


def _keep(log: ParsedLog, table: pl.DataFrame) -> None:
    """Move the steps of rank 0 that have a time to `days`. Sessions record how far they reach."""
    whole = table.filter(pl.col("ts").is_not_null())
    for number, end in whole.group_by("session").agg(pl.col("end").max()).iter_rows():
        log.sessions[number].ended = max(log.sessions[number].ended, end)
    others = [number for number in whole["session"].unique() if log.sessions[number].rank]
    mine = whole.filter(~pl.col("session").is_in(others)) if others else whole
    log.n_skipped += whole.height - mine.height
    log.days.add(mine.select("session", "step", "ts", "duration_s", "tokens", "loss"))


def _with_times(
    log: ParsedLog,
    table: pl.DataFrame,
    numbers: Sequence[int] | pl.Series,
    bad: dict[int, str],
    raw: Callable[[int], bytes],
) -> pl.DataFrame:
    """The steps with `session`, `ts` and `end` in microseconds; those whose times cannot be are refused.

    Args:
        log: the log.
        table: the steps.
        numbers: of their lines.
        bad: those that are refused already, with the reason.
        raw: the line of a step.
    """
    moments, lengths, owners = table["t"], table["duration_s"], table["session"]
    end = pl.col("t") + pl.col("duration_s").fill_null(0)
    bound = RUN_LOG["duration_s"]
    too_long = table.select((pl.col("duration_s") > bound.most).arg_true()).to_series()
    bad |= {at: f"duration_s is {lengths[at]:g}, which is impossible: {bound.why}" for at in too_long}
    ahead = table.select((end * US > log.latest_us).fill_null(value=False).arg_true()).to_series()
    bad |= {at: in_the_future(moments[at] * US + (lengths[at] or 0) * US) for at in ahead if at not in bad}
    table = table.with_columns(_if_plausible(table, name, log, numbers) for name in ("tokens", "loss"))
    for at, reason in bad.items():
        log.refuse(numbers[at], reason, raw(at), owners[at])
    fine = pl.lit(value=True) if not bad else ~pl.int_range(pl.len()).is_in(list(bad))
    return table.with_columns(
        ts=pl.when(fine).then((pl.col("t") * US).round().cast(pl.Int64, strict=False)),
        end=pl.when(fine).then((end * US).round().cast(pl.Int64, strict=False)),
    )


def _values(steps: list[LoggedStep], name: str, kind: type[pl.DataType]) -> pl.Series:
    return pl.Series(list(map(attrgetter(name), steps)), dtype=kind)


def _moments(steps: list[LoggedStep], bad: dict[int, str]) -> pl.Series:
    """The beginnings of the steps in seconds; NaN for those that are no time, whose reasons are added to `bad`."""
    times = list(map(attrgetter("t"), steps))
    try:
        plain = pl.Series(times, dtype=pl.Float64)
    except TypeError:  # some are text
        pass
    else:
        if plain.is_between(EARLIEST_S, LATEST_S).all():
            return plain
    moments = []
    for at, each in enumerate(times):
        try:
            moments.append(microseconds("t", each) / US if not _is_moment(each) else each)
        except RefusedLineError as error:
            bad[at] = str(error)
            moments.append(math.nan)
    return pl.Series(moments, dtype=pl.Float64)


def _is_moment(moment: float | str) -> bool:
    return type(moment) is float and EARLIEST_S <= moment <= LATEST_S


def _if_plausible(table: pl.DataFrame, name: str, log: ParsedLog, numbers: Sequence[int] | pl.Series) -> pl.Series:
    """A column of the steps without the values that cannot be, which are counted for a warning."""
    wrong = table.select((pl.col(name).abs() > RUN_LOG[name].most).fill_null(value=False)).to_series()
    if not wrong.any():
        return table[name]
    at = int(wrong.arg_true()[0])
    counted = log.implausible.setdefault(name, Implausible(0, numbers[at], table[name][at]))
    counted.count += int(wrong.sum())
    return table[name].set(wrong, None)
