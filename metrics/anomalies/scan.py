"""Which GPUs, nodes, ports and mounts deviate for hours on end, from deviations that are read a day at a time.

Each is tested against its peers, and against its own past: the median of up to 14 earlier days' medians. How far a
deviation goes beyond what does not matter (a least effect, or as much more as subjects differ anyway) is summed up
over the hours, and starts again at 0 where the sum would be negative: Page's cumulative sum. The sum is in units of
its own tail: by chance it goes beyond h with a probability of at most n exp(-h) in n hours. Its highest value is
the evidence, and its last start before that tells since when. An hour adds 6 at most, so no single hour decides.
False discoveries are controlled over all subjects that were tested.

What is kept from one day to the next is a few numbers per test and 14 medians per subject, however long the
time is.

Sources: Page, Biometrika 41 (1954); the tail: Siegmund, Sequential Analysis (1985), chapter 2; scales by the
median absolute deviation: Rousseeuw and Croux, J. Am. Stat. Assoc. 88 (1993); Benjamini and Hochberg, J. R. Statist.
Soc. B 57 (1995).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from metrics import frames
from metrics.anomalies.deviations import DEVIATIONS
from metrics.anomalies.signals import BY_NAME
from metrics.statistics import adjusted

if TYPE_CHECKING:
    import numpy.typing as npt

    from metrics.statistics import FloatArray

SPREAD: Final = 4.0
"""Robust standard deviations by which subjects differ that do not matter either."""

BIAS: Final = 3.0
"""Of these, how many a sound subject may lie away from the middle."""

PAST_DAYS: Final = 14
MIN_PAST_DAYS: Final = 3
"""Earlier days that a subject is compared with, at most and at least."""

MIN_HOURS: Final = 6
"""With fewer hours a subject is not tested."""

MIN_SUBJECTS: Final = 4
"""With fewer subjects on a day nothing is known of how they differ, and none is tested on it."""

MIN_OF_ATTEMPT: Final = 8
"""From so many subjects of one attempt on it counts how these differ, too."""

LEVEL: Final = 0.05
"""False discovery rate."""

CAP: Final = 6.0
"""What an hour adds to a sum, or takes from it, at most."""

_POWER_Z: Final = 0.84
"""Standard normal quantile of 0.8."""

_MAD_TO_SIGMA: Final = 1.4826
_FINEST: Final = 0.1
"""Of the least effect: no scatter is taken as smaller."""

_LARGEST: Final = {"ratio": float(np.log(4)), "kelvin": 60.0}
"""Deviations count as no larger than these in the mean of a stretch."""

_SUBJECT: Final = ("signal", "level", "node", "device")
_TEST: Final = (*_SUBJECT, "against", "sign")
_GROUP: Final = ("signal", "level")

_STATE: frames.Schema = {
    **dict.fromkeys((*_SUBJECT, "against"), frames.TEXT),
    "sign": frames.COUNT,
    "n": frames.COUNT,
    **dict.fromkeys(("height", "total", "top", "top_total", "immaterial", "rate", "sigma"), frames.NUMBER),
    **dict.fromkeys(("start", "hours", "top_start", "top_until", "top_hours"), frames.COUNT),
}
"""A test so far: `height` is the sum now, with the beginning, hours and deviations of its stretch; `top_` as they were
when it was highest; `rate` is what a unit beyond `immaterial` adds."""

ANOMALIES: frames.Schema = {
    **dict.fromkeys(_SUBJECT, frames.TEXT),
    "anomalous": frames.FLAG,
    "against": frames.TEXT,
    "since": frames.TIME,
    "until": frames.TIME,
    "hours": frames.COUNT,
    "effect": frames.NUMBER,
    "scale": frames.TEXT,
    "tested_hours": frames.COUNT,
    "immaterial": frames.NUMBER,
    "detectable": frames.NUMBER,
    "p_value": frames.NUMBER,
    "q_value": frames.NUMBER,
}
"""A subject: `against` its `peers` or its `past`, whichever shows more; `since`, `until`, `hours` (with data) and
`effect` (winsorised mean) are of the stretch in which it deviated most. Effects are shares where `scale` is `ratio`
(-0.1: a tenth less), else kelvin. `detectable` is the lasting effect that would be flagged in 8 of 10 cases."""


class Scan:
    """Takes deviations day by day, in the order of time, and tests them all."""

    def __init__(self) -> None:
        self._tests = frames.empty(_STATE)
        self._apart: dict[tuple[str, ...], list[float]] = {}
        self._past = pl.DataFrame(schema={**dict.fromkeys(_SUBJECT, frames.TEXT), "medians": pl.List(frames.NUMBER)})

    def learn(self, deviations: pl.DataFrame) -> None:
        """Take a day (`deviations.DEVIATIONS`) into the past only, without a test."""
        self._remember(deviations.group_by(_SUBJECT).agg(median=pl.col("deviation").median()))

    def add(self, deviations: pl.DataFrame) -> None:
        """Test a day (`deviations.DEVIATIONS`), then take it into the past."""
        rows = frames.conform(deviations, DEVIATIONS)
        if rows.is_empty():
            return
        first_hour = int(rows["hour"].min())  # type: ignore[arg-type]  # polars types min() broadly
        of_day, grid = _daily(rows, first_hour)
        daily = of_day.join(self._baselines(), on=_SUBJECT, how="left", maintain_order="left")
        tests = pl.concat([self._tests_of_day(daily, against) for against in ("peers", "past")])
        self._advance(tests, grid, first_hour)
        self._remember(daily)

    def result(self) -> pl.DataFrame:
        """All subjects with at least one hour that was tested: `ANOMALIES`, the clearest first."""
        p_values = _p_values(self._tests)
        tests = self._tests.with_columns(p_value=pl.Series(p_values, dtype=pl.Float64).fill_nan(None))
        number = pl.col("p_value").count().over(_SUBJECT)
        order = ("p_value", "top", "against", "sign")
        worst = (
            tests.with_columns(p_value=(number * pl.col("p_value")).clip(upper_bound=1.0), tests=number)
            .sort(
                *_SUBJECT, *order, descending=[*(False for _ in _SUBJECT), False, True, False, False], nulls_last=True
            )
            .unique(_SUBJECT, keep="first", maintain_order=True)
        )
        q_values = adjusted(worst["p_value"].cast(pl.Float64).fill_null(float("nan")).to_numpy())
        return _shown(worst.with_columns(q_value=pl.Series(q_values, dtype=pl.Float64).fill_nan(None)))

    def _tests_of_day(self, daily: pl.DataFrame, against: str) -> pl.DataFrame:
        """The tests of a day, with how subjects differed on this day or on any of the last ones."""
        measured = _levels(daily, against)
        for *group, apart in measured.select(*_GROUP, "apart").unique().sort(_GROUP).iter_rows():
            days = self._apart.setdefault((*group, against), [])
            days[:] = [*days, apart][-PAST_DAYS:]
        keys = [(*key[:2], max(days)) for key, days in self._apart.items() if key[2] == against]
        recent = pl.DataFrame(keys, schema=dict.fromkeys(_GROUP, frames.TEXT) | {"recent": frames.NUMBER}, orient="row")
        return _tests(measured.join(recent, on=_GROUP, how="left", maintain_order="left"), against)

    def _baselines(self) -> pl.DataFrame:
        enough = pl.col("medians").list.len() >= MIN_PAST_DAYS
        return self._past.select(*_SUBJECT, past=pl.when(enough).then(pl.col("medians").list.median()))

    def _remember(self, daily: pl.DataFrame) -> None:
        today = daily.select(*_SUBJECT, "median")
        joined = self._past.join(today, on=_SUBJECT, how="full", coalesce=True)
        new = pl.concat_list(pl.col("medians").fill_null([]), pl.concat_list("median").list.drop_nulls().fill_null([]))
        self._past = joined.select(*_SUBJECT, medians=new.list.tail(PAST_DAYS))

    def _advance(self, of_day: pl.DataFrame, grid: FloatArray, first_hour: int) -> None:
        """Move the tests of a day on by its hours; the others stay as they are."""
        if of_day.is_empty():
            return
        limits = ("immaterial", "rate", "sigma")
        before = self._tests.drop(*limits)
        now = of_day.join(before, on=_TEST, how="left", maintain_order="left")
        sums = _Sums(now)
        offset = now["offset"].to_numpy()[:, None]
        sign = now["sign"].to_numpy()[:, None]
        values = sign * (grid[now["row"].to_numpy()] - offset)
        largest = now["signal"].replace_strict({name: _LARGEST[one.scale] for name, one in BY_NAME.items()}).to_numpy()
        beyond = now["rate"].to_numpy()[:, None] * (values - now["immaterial"].to_numpy()[:, None])
        added = np.clip(beyond, -CAP, CAP) - np.exp(-CAP)
        for place in range(grid.shape[1]):
            sums.add(added[:, place], np.clip(values[:, place], -largest, largest), first_hour + place)
        moved = frames.conform(now.with_columns(**sums.columns()), _STATE)
        self._tests = pl.concat([self._tests.join(of_day, on=_TEST, how="anti"), moved])


class _Sums:
    """Cumulative sums of many tests side by side."""

    def __init__(self, tests: pl.DataFrame) -> None:
        zero = {name: tests[name].fill_null(0).to_numpy(writable=True) for name in _STATE if name not in _FIXED}
        self._of: dict[str, FloatArray] = {name: values.astype(float) for name, values in zero.items()}

    def add(self, added: FloatArray, values: FloatArray, hour: int) -> None:
        """One more hour: what it adds to each sum, and its deviation; nan where there is none."""
        of, present = self._of, ~np.isnan(added)
        fresh = present & (of["height"] <= 0)
        height = np.where(present, np.maximum(of["height"] + added, 0.0), of["height"])
        of["n"] += present
        of["start"] = np.where(fresh, hour, of["start"])
        of["hours"] = np.where(fresh, 0, of["hours"]) + present
        of["total"] = np.where(fresh, 0.0, of["total"]) + np.where(present, values, 0.0)
        of["height"] = height
        higher = present & (height > of["top"])
        for name in ("start", "hours", "total"):
            of[f"top_{name}"] = np.where(higher, of[name], of[f"top_{name}"])
        of["top_until"] = np.where(higher, hour + 1, of["top_until"])
        of["top"] = np.where(higher, height, of["top"])

    def columns(self) -> dict[str, pl.Series]:
        """The sums as columns of `_STATE`."""
        return {name: pl.Series(values).cast(_STATE[name]) for name, values in self._of.items()}


_FIXED: Final = frozenset((*_TEST, "immaterial", "rate", "sigma"))


def _daily(deviations: pl.DataFrame, first_hour: int) -> tuple[pl.DataFrame, FloatArray]:
    """Each subject's day: its median, how much its hours scatter around it, and how alike neighbouring hours are.

    Returns:
        A row a subject, and deviations by subject (in the same order) and hour from `first_hour` on; nan where there
        is none.
    """
    grouped = deviations.group_by(_SUBJECT).agg("hour", "attempt", "deviation").sort(_SUBJECT)
    row = np.repeat(np.arange(grouped.height), grouped["hour"].list.len().to_numpy())
    hours = grouped["hour"].explode().to_numpy() - first_hour
    shape = grouped.height, int(hours.max()) + 1
    grid, attempts = np.full(shape, np.nan), np.zeros(shape, dtype=np.int64)
    grid[row, hours] = grouped["deviation"].explode().to_numpy()
    attempts[row, hours] = grouped["attempt"].explode().to_numpy()
    present = ~np.isnan(grid)
    last = shape[1] - 1 - np.argmax(present[:, ::-1], axis=1)
    median = _middles(grid)
    daily = grouped.select(_SUBJECT).with_columns(
        median=pl.Series(median),
        attempt=pl.Series(attempts[np.arange(shape[0]), last]),
        scatter=pl.Series(_MAD_TO_SIGMA * _middles(np.abs(grid - median[:, None]))),
        correlation=pl.Series(_alikeness(grid, present)).fill_nan(None),
    )
    return daily, grid


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
        .filter(pl.len().over(_GROUP) >= MIN_SUBJECTS)
        .with_columns(level_of_day=pl.col("median") - pl.col("offset"))
    )
    within = (*_GROUP, "attempt")
    of_attempt = pl.when(pl.len().over(within) >= MIN_OF_ATTEMPT).then(_scatter_over("level_of_day", within))
    return levels.with_columns(apart=_scatter_over("level_of_day", _GROUP), apart_of_attempt=of_attempt)


def _scatter_over(name: str, by: tuple[str, ...]) -> pl.Expr:
    value = pl.col(name)
    return _MAD_TO_SIGMA * (value - value.median().over(by)).abs().median().over(by)


def _tests(levels: pl.DataFrame, against: str) -> pl.DataFrame:
    """The tests of a day: a row for each subject and direction, with what is immaterial, and the rate of its sum.

    How subjects differ is the scatter of their medians, and how hours scatter that of the middle subject: an anomalous
    one does not hide itself. Hours that are alike count for fewer: by their correlation r the variance of a sum grows
    by (1 + r) / (1 - r).
    """
    by_name = {name: signal.least for name, signal in BY_NAME.items()}
    least = pl.col("signal").replace_strict(by_name, return_dtype=pl.Float64)
    alike = pl.col("correlation").median().over(_GROUP).fill_null(0.0).clip(0.0, 0.9)
    signs = {name: list(signal.signs) for name, signal in BY_NAME.items()}
    return (
        levels.with_columns(apart=pl.max_horizontal("apart_of_attempt", "recent"))
        .with_columns(
            immaterial=pl.max_horizontal(least, SPREAD * pl.col("apart")),
            sigma=pl.max_horizontal(pl.col("scatter").median().over(_GROUP), _FINEST * least)
            * ((1 + alike) / (1 - alike)).sqrt(),
        )
        .with_columns(drift=pl.max_horizontal(pl.col("immaterial") - BIAS * pl.col("apart"), pl.col("immaterial") / 4))
        .select(
            "row",
            *_SUBJECT,
            pl.lit(against).alias("against"),
            pl.col("signal").replace_strict(signs, return_dtype=pl.List(pl.Int64)).alias("sign"),
            "offset",
            "immaterial",
            "sigma",
            rate=2 * pl.col("drift") / pl.col("sigma") ** 2,
        )
        .explode("sign")
    )


def _p_values(tests: pl.DataFrame) -> FloatArray:
    n, top = tests["n"].to_numpy().astype(float), tests["top"].to_numpy()
    tail: FloatArray = np.minimum(1.0, n * np.exp(-np.minimum(top, 700.0)))
    return np.where(n >= MIN_HOURS, tail, np.nan)


def _shown(worst: pl.DataFrame) -> pl.DataFrame:
    """Rows of `ANOMALIES` of the worst test of each subject."""
    scales = {name: signal.scale for name, signal in BY_NAME.items()}
    named = worst.with_columns(scale=pl.col("signal").replace_strict(scales, return_dtype=pl.String))
    of_ratio = pl.col("scale") == "ratio"
    mean = pl.when(pl.col("top_hours") > 0).then(pl.col("sign") * pl.col("top_total") / pl.col("top_hours"))
    deviates = pl.col("top_hours") > 0

    def hour(name: str) -> pl.Expr:
        return pl.when(deviates).then(pl.from_epoch(pl.col(name) * 3600).cast(frames.TIME))

    def shown(value: pl.Expr) -> pl.Expr:
        return pl.when(of_ratio).then(value.exp() - 1).otherwise(value)

    tested = named.filter(pl.col("p_value").is_not_null()).height
    rows = named.select(
        *_SUBJECT,
        anomalous=pl.col("q_value") <= LEVEL,
        against="against",
        since=hour("top_start"),
        until=hour("top_until"),
        hours="top_hours",
        effect=shown(mean),
        scale="scale",
        tested_hours="n",
        immaterial=shown(pl.col("sign") * pl.col("immaterial")),
        detectable=shown(pl.col("sign") * _detectable(tested)),
        p_value="p_value",
        q_value="q_value",
    )
    return frames.conform(rows, ANOMALIES).sort("q_value", "p_value", *_SUBJECT, nulls_last=True)


def _detectable(tested: int) -> pl.Expr:
    """The lasting deviation that a test of so many hours would flag in 8 of 10 cases, were its subject the only one."""
    n = pl.col("n")
    height = (n * pl.col("tests") * max(tested, 1) / LEVEL).log()
    reach = (height / pl.col("rate") + _POWER_Z * pl.col("sigma") * n.sqrt()) / n
    return pl.when((n >= MIN_HOURS) & (n * CAP > height)).then(pl.col("immaterial") + reach)
