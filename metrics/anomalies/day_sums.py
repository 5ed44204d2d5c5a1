"""The tests of a day, from its deviations and from what its past left: sums that days can be joined by.

Each subject is tested against its peers, and against its own past: the median of the daily medians of up to 14 days
before. How far a deviation goes beyond what does not matter (a least effect, or as much more as subjects differ anyway)
is summed up over the hours, and starts again at 0 where the sum would be negative: Page's cumulative sum. The sum is in
units of its own tail. An hour adds 6 at most, so no single hour decides.

The contribution of an hour follows from its day and the 14 days before, so a day is summed up by itself, for any later
query: the sum of all its hours, the highest sum from its beginning on, the highest of any stretch, and the sum at its
end. From these the sums of any days in a row follow (`metrics.anomalies.scan`). How subjects differed on those 14 days
depends on their pasts in turn: a day depends on `REACH_DAYS` before it.

Sources: Page, Biometrika 41 (1954); the tail: Siegmund, Sequential Analysis (1985), chapter 2; scales by the median
absolute deviation: Rousseeuw and Croux, J. Am. Stat. Assoc. 88 (1993).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from metrics import frames
from metrics.anomalies.deviations import DEVIATIONS
from metrics.anomalies.signals import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from metrics.statistics import FloatArray

SPREAD: Final = 4.0
"""Robust standard deviations by which subjects differ that do not matter either."""

BIAS: Final = 3.0
"""Of these, how many a sound subject may lie away from the middle."""

PAST_DAYS: Final = 14
MIN_PAST_DAYS: Final = 3
"""Of the days before, how many count, and on how many of them a subject needs data to be compared with them."""

REACH_DAYS: Final = 2 * PAST_DAYS
"""So many days after a day depend on it."""

MIN_SUBJECTS: Final = 4
"""With fewer subjects on a day nothing is known of how they differ, and none is tested on it."""

MIN_OF_ATTEMPT: Final = 8
"""From so many subjects of one attempt on it counts how these differ, too."""

CAP: Final = 6.0
"""Largest amount that an hour adds to a sum or takes from it."""

HOURS_A_DAY: Final = 24

_MAD_TO_SIGMA: Final = 1.4826
_FINEST: Final = 0.1
"""Of the least effect: no scatter is taken as smaller."""

_LARGEST: Final = {"ratio": float(np.log(4)), "kelvin": 60.0}
"""Deviations count as no larger than these in the mean of a stretch."""

SUBJECT: Final = ("signal", "level", "node", "device")
TEST: Final = (*SUBJECT, "against", "sign")
GROUP: Final = ("signal", "level")
_ONCE: Final = (*GROUP, "against")

SUMS: frames.Schema = {
    **dict.fromkeys((*SUBJECT, "against"), frames.TEXT),
    **dict.fromkeys(("sign", "day", "n"), frames.COUNT),
    **dict.fromkeys(("median", "apart", "immaterial", "rate", "sigma"), frames.NUMBER),
    **dict.fromkeys(("gain", "moved"), pl.Float32()),
    **dict.fromkeys(("lead", "lead_moved"), pl.Float32()),
    **dict.fromkeys(("lead_hours", "lead_until"), frames.COUNT),
    **dict.fromkeys(("height", "total"), pl.Float32()),
    **dict.fromkeys(("start", "hours"), frames.COUNT),
    **dict.fromkeys(("top", "top_total"), pl.Float32()),
    **dict.fromkeys(("top_start", "top_until", "top_hours"), frames.COUNT),
}
"""A test on a day (since 1970) of `n` hours; with `sign` 0 and `n` 0 a subject that was not tested on it.

`median` is the subject's of the day, `apart` how subjects differ; `rate` is what a unit beyond `immaterial` adds, and
`sigma` how hours scatter. All hours add `gain`, and deviate by `moved` together. `lead` is the highest sum from the
day's beginning on (of `lead_hours`, until the hour `lead_until`, since 1970); `height` the cumulative sum at its end,
from the hour `start` on; `top` the highest cumulative sum on the way, from `top_start` to `top_until`."""

MEDIANS: frames.Schema = {**dict.fromkeys(SUBJECT, frames.TEXT), "day": frames.COUNT, "median": frames.NUMBER}
APARTS: frames.Schema = {**dict.fromkeys(_ONCE, frames.TEXT), "day": frames.COUNT, "apart": frames.NUMBER}


class Past(NamedTuple):
    """Summary of days, kept for later days.

    Attributes:
        medians: `MEDIANS`, each subject's by day.
        aparts: `APARTS`, how subjects differed by day.
    """

    medians: pl.DataFrame
    aparts: pl.DataFrame

    @classmethod
    def of(cls, sums: pl.DataFrame) -> Past:
        """Summary of days from their `SUMS`."""
        medians = sums.filter(pl.col("against") == "peers").unique([*SUBJECT, "day"], keep="any")
        aparts = sums.filter(pl.col("apart").is_not_null()).unique([*_ONCE, "day"], keep="any")
        return cls(frames.conform(medians, MEDIANS), frames.conform(aparts, APARTS))

    @classmethod
    def joined(cls, days: Iterable[Past]) -> Past:
        """Summary of several days together."""
        each = [cls(frames.empty(MEDIANS), frames.empty(APARTS)), *days]
        return cls(pl.concat([one.medians for one in each]), pl.concat([one.aparts for one in each]))


def day_sums(deviations: pl.DataFrame, past: Past, within: tuple[int, int] | None = None) -> pl.DataFrame:
    """The tests of a day.

    Args:
        deviations: `deviations.DEVIATIONS` of all hours of the day.
        past: what the days before left; of those more than 14 days ago nothing is used.
        within: hours (since 1970) that are summed up, from the first to before the last; all of the day's if None.

    Returns:
        `SUMS`, in no order.
    """
    rows = frames.conform(deviations, DEVIATIONS)
    if rows.is_empty():
        return frames.empty(SUMS)
    first_hour = int(rows["hour"].min())  # type: ignore[arg-type]  # polars types min() broadly
    day = first_hour // HOURS_A_DAY
    of_day, grid = _daily(rows, first_hour)
    daily = of_day.join(_baselines(past.medians, day), on=SUBJECT, how="left", maintain_order="left")
    recent = past.aparts.filter(pl.col("day").is_between(day - PAST_DAYS + 1, day - 1))
    tests = pl.concat([_tests_of_day(daily, recent, against) for against in ("peers", "past")])
    if within is not None:
        hours = first_hour + np.arange(grid.shape[1])
        grid = np.where((hours >= within[0]) & (hours < within[1]), grid, np.nan)
    summed = tests.with_columns(**_sums(tests, grid, first_hour))
    untested = daily.join(tests.select(SUBJECT).unique(), on=SUBJECT, how="anti")
    left = untested.select(*SUBJECT, "median", against=pl.lit("peers"), sign=0, n=0)
    return frames.conform(pl.concat([summed, left], how="diagonal_relaxed").with_columns(day=pl.lit(day)), SUMS)


def _baselines(medians: pl.DataFrame, day: int) -> pl.DataFrame:
    """Subjects with enough of a past, and the middle of it."""
    recent = medians.filter(pl.col("day").is_between(day - PAST_DAYS, day - 1))
    middle = recent.group_by(SUBJECT).agg(past=pl.col("median").median(), n=pl.len())
    return middle.filter(pl.col("n") >= MIN_PAST_DAYS).drop("n")


def _tests_of_day(daily: pl.DataFrame, recent: pl.DataFrame, against: str) -> pl.DataFrame:
    """The tests of a day, with how subjects differed on this day or on any of the last ones."""
    most = recent.filter(pl.col("against") == against).group_by(GROUP).agg(recent=pl.col("apart").max())
    measured = _levels(daily, against).join(most, on=GROUP, how="left", maintain_order="left")
    return _tests(measured, against)


def _daily(deviations: pl.DataFrame, first_hour: int) -> tuple[pl.DataFrame, FloatArray]:
    """Each subject's day: its median, how much its hours scatter around it, and how alike neighbouring hours are.

    Returns:
        A row a subject, and deviations by subject (in the same order) and hour from `first_hour` on; nan where there
        is none.
    """
    subjects, row = _numbered(deviations)
    hours = deviations["hour"].to_numpy() - first_hour
    shape = subjects.height, int(hours.max()) + 1
    grid, attempts = np.full(shape, np.nan), np.zeros(shape, dtype=np.int64)
    grid[row, hours] = deviations["deviation"].to_numpy()
    attempts[row, hours] = deviations["attempt"].to_numpy()
    present = ~np.isnan(grid)
    last = shape[1] - 1 - np.argmax(present[:, ::-1], axis=1)
    median = _middles(grid)
    daily = subjects.with_columns(
        median=pl.Series(median),
        attempt=pl.Series(attempts[np.arange(shape[0]), last]),
        scatter=pl.Series(_MAD_TO_SIGMA * _middles(np.abs(grid - median[:, None]))),
        correlation=pl.Series(_alikeness(grid, present)).fill_nan(None),
    )
    return daily, grid


def _numbered(deviations: pl.DataFrame) -> tuple[pl.DataFrame, npt.NDArray[np.intp]]:
    """The subjects, sorted, and of each deviation the row of its subject; equal neighbours are looked up once."""
    run = deviations.select(pl.struct(SUBJECT).rle_id()).to_series().to_numpy()
    names = deviations.select(SUBJECT)[np.flatnonzero(np.diff(run, prepend=run[:1] + 1))]
    subjects = names.unique().sort(SUBJECT)
    numbered = subjects.with_row_index("row")
    numbers = names.join(numbered, on=SUBJECT, how="left", nulls_equal=True, maintain_order="left")
    return subjects, numbers["row"].to_numpy().astype(np.intp)[run]


def _middles(grid: FloatArray) -> FloatArray:
    """Median of each row's numbers; every row has one."""
    ordered, n = np.sort(grid, axis=1), np.count_nonzero(~np.isnan(grid), axis=1)
    each = np.arange(len(grid))
    middles: FloatArray = (ordered[each, (n - 1) // 2] + ordered[each, n // 2]) / 2
    return middles


def _alikeness(grid: FloatArray, present: npt.NDArray[np.bool_]) -> FloatArray:
    """Correlation of each row's neighbouring numbers, those next to a gap included; nan where they do not differ."""
    if not present.all():
        order = np.argsort(~present, axis=1, kind="stable")
        grid, present = np.take_along_axis(grid, order, axis=1), np.take_along_axis(present, order, axis=1)
    centred = np.where(present, grid, 0.0) - (np.where(present, grid, 0.0).sum(1) / present.sum(1))[:, None]
    centred = np.where(present, centred, 0.0)
    squares, lagged = (centred**2).sum(axis=1), (centred[:, 1:] * centred[:, :-1]).sum(axis=1)
    alike: FloatArray = np.divide(lagged, squares, out=np.full(len(grid), np.nan), where=squares > 0)
    return alike


def _levels(daily: pl.DataFrame, against: str) -> pl.DataFrame:
    """The level of each subject's day, less its past if it is tested against that, and how subjects differ in it.

    They may differ more within an attempt of which the GPUs have unequal work (stages of a pipeline).
    """
    offset = pl.lit(0.0) if against == "peers" else pl.col("past")
    levels = (
        daily.with_row_index("row")
        .with_columns(offset=offset)
        .filter(pl.col("offset").is_not_null())
        .filter(pl.len().over(GROUP) >= MIN_SUBJECTS)
        .with_columns(level_of_day=pl.col("median") - pl.col("offset"))
    )
    within = (*GROUP, "attempt")
    of_attempt = pl.when(pl.len().over(within) >= MIN_OF_ATTEMPT).then(_scatter_over(within))
    return levels.with_columns(apart=_scatter_over(GROUP), apart_of_attempt=of_attempt)


def _scatter_over(by: tuple[str, ...]) -> pl.Expr:
    value = pl.col("level_of_day")
    return _MAD_TO_SIGMA * (value - value.median().over(by)).abs().median().over(by)


def _tests(levels: pl.DataFrame, against: str) -> pl.DataFrame:
    """The tests of a day: a row for each subject and direction, with what is immaterial, and the rate of its sum.

    How subjects differ is the scatter of their medians, and how hours scatter that of the middle subject: an anomalous
    one does not hide itself. Hours that are alike count for fewer: by their correlation r the variance of a sum grows
    by (1 + r) / (1 - r).
    """
    by_name = {name: signal.least for name, signal in BY_NAME.items()}
    least = pl.col("signal").replace_strict(by_name, return_dtype=pl.Float64)
    alike = pl.col("correlation").median().over(GROUP).fill_null(0.0).clip(0.0, 0.9)
    signs = {name: list(signal.signs) for name, signal in BY_NAME.items()}
    return (
        levels.with_columns(widest=pl.max_horizontal("apart_of_attempt", "apart", "recent"))
        .with_columns(
            immaterial=pl.max_horizontal(least, SPREAD * pl.col("widest")),
            sigma=pl.max_horizontal(pl.col("scatter").median().over(GROUP), _FINEST * least)
            * ((1 + alike) / (1 - alike)).sqrt(),
        )
        .with_columns(drift=pl.max_horizontal(pl.col("immaterial") - BIAS * pl.col("widest"), pl.col("immaterial") / 4))
        .select(
            "row",
            *SUBJECT,
            pl.lit(against).alias("against"),
            pl.col("signal").replace_strict(signs, return_dtype=pl.List(pl.Int64)).alias("sign"),
            "median",
            "offset",
            "apart",
            "immaterial",
            "sigma",
            rate=2 * pl.col("drift") / pl.col("sigma") ** 2,
        )
        .explode("sign")
    )


def _sums(tests: pl.DataFrame, grid: FloatArray, first_hour: int) -> dict[str, pl.Series]:
    """Contribution of a day's hours to each test, as columns of `SUMS`."""
    sign, offset, immaterial, rate = (
        tests[name].to_numpy()[:, None] for name in ("sign", "offset", "immaterial", "rate")
    )
    values = sign * (grid[tests["row"].to_numpy()] - offset)
    largest = tests["signal"].replace_strict({name: _LARGEST[one.scale] for name, one in BY_NAME.items()}).to_numpy()
    added = np.clip(rate * (values - immaterial), -CAP, CAP) - np.exp(-CAP)
    sums = _HourSums(len(tests))
    for place in range(grid.shape[1]):
        sums.add(added[:, place], np.clip(values[:, place], -largest, largest), first_hour + place)
    sums.of["lead"][sums.of["n"] == 0] = 0.0
    return {name: pl.Series(numbers) for name, numbers in sums.of.items()}


class _HourSums:
    """Sums of many tests side by side, over the hours of a day."""

    def __init__(self, n: int) -> None:
        names = ("n", *list(SUMS)[list(SUMS).index("gain") :])
        self.of: dict[str, FloatArray] = {name: np.zeros(n) for name in names}
        self.of["lead"][:] = -np.inf

    def add(self, added: FloatArray, values: FloatArray, hour: int) -> None:
        """One more hour: what it adds to each sum, and its deviation; nan where there is none."""
        of, present = self.of, ~np.isnan(added)
        added, values = np.where(present, added, 0.0), np.where(present, values, 0.0)
        fresh = present & (of["height"] <= 0)
        of["n"] += present
        of["gain"] += added
        of["moved"] += values
        of["start"] = np.where(fresh, hour, of["start"])
        of["hours"] = np.where(fresh, 0, of["hours"]) + present
        of["total"] = np.where(fresh, 0.0, of["total"]) + values
        of["height"] = np.maximum(of["height"] + added, 0.0)
        self._note("lead", present & (of["gain"] > of["lead"]), {"": "gain", "_moved": "moved", "_hours": "n"}, hour)
        higher = present & (of["height"] > of["top"])
        self._note("top", higher, {"": "height", "_total": "total", "_hours": "hours", "_start": "start"}, hour)

    def _note(self, what: str, higher: npt.NDArray[np.bool_], parts: dict[str, str], hour: int) -> None:
        """Keep how sums are now, where they are higher than before."""
        for part, name in parts.items():
            self.of[f"{what}{part}"] = np.where(higher, self.of[name], self.of[f"{what}{part}"])
        self.of[f"{what}_until"] = np.where(higher, hour + 1, self.of[f"{what}_until"])
