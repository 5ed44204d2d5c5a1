"""GPUs, nodes, ports and mounts that deviate for hours on end, from the sums of days (`metrics.anomalies.day_sums`).

The cumulative sums of days in a row follow from those of each day. By chance a sum goes beyond h with a probability of
at most n exp(-h) in n hours. Its highest value is the evidence, and its last start before that is the begin. False
discoveries are controlled over all subjects that were tested in the requested window: of each subject its
clearest test counts, times how many tests it had.

What is kept from one day to the next is a few numbers per test and what 14 days left of each subject, however long the
time is.

Sources: the tail: Siegmund, Sequential Analysis (1985), chapter 2; Benjamini and Hochberg, J. R. Statist. Soc. B 57
(1995).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from metrics import frames
from metrics.anomalies.day_sums import CAP, SUBJECT, TEST
from metrics.anomalies.signals import BY_NAME
from metrics.statistics import adjusted

if TYPE_CHECKING:
    from metrics.statistics import FloatArray

MIN_HOURS: Final = 6
"""With fewer hours a subject is not tested."""

LEVEL: Final = 0.05
"""False discovery rate."""

_POWER_Z: Final = 0.84
"""Standard normal quantile of 0.8."""

_SUM: Final = ("height", "total", "start", "hours")
_TOP: Final = ("top", "top_total", "top_start", "top_until", "top_hours")
_LIMITS: Final = ("immaterial", "rate", "sigma")

_STATE: frames.Schema = {
    **dict.fromkeys((*SUBJECT, "against"), frames.TEXT),
    **dict.fromkeys(("sign", "n"), frames.COUNT),
    **dict.fromkeys((*_LIMITS, "height", "total", "top", "top_total"), frames.NUMBER),
    **dict.fromkeys(("start", "hours", "top_start", "top_until", "top_hours"), frames.COUNT),
}
"""A test so far: `height` is the sum now, with the beginning, hours and deviations of its stretch; `top_` as they were
when it was highest; limits are those of its last day."""

ANOMALIES: frames.Schema = {
    **dict.fromkeys(SUBJECT, frames.TEXT),
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


class Joined:
    """Joins the sums of days, in the order of time."""

    def __init__(self) -> None:
        self.tests = frames.empty(_STATE)

    def add(self, sums: pl.DataFrame) -> None:
        """Take the sums of the next day (`day_sums.SUMS`)."""
        today = sums.filter(pl.col("n") > 0)
        if today.is_empty():
            return
        before = self.tests.select(*TEST, pl.col("n", *_SUM, *_TOP).name.prefix("before_"))
        both = today.join(before, on=TEST, how="left", maintain_order="left")
        moved = frames.conform(_moved(both), _STATE)
        self.tests = pl.concat([self.tests.join(today, on=TEST, how="anti"), moved])

    def result(self) -> pl.DataFrame:
        """All subjects with at least one hour that was tested: `ANOMALIES`, the clearest first."""
        return _result(self.tests)


def _moved(both: pl.DataFrame) -> pl.DataFrame:
    """Tests after one more day: what they were before it is in the columns `before_`, null for the first day.

    A sum that was above 0 goes on: it is what it was and what all hours of the day add, unless it came to 0 on the way;
    then it is that of the day alone. So is the highest one, which may also lie where the sum from before was highest.
    """
    was = pl.col("before_height").fill_null(0.0)
    continues = (was > 0) & (was + pl.col("gain") > pl.col("height"))
    ended = {
        "height": was + pl.col("gain"),
        "total": pl.col("before_total") + pl.col("moved"),
        "start": pl.col("before_start"),
        "hours": pl.col("before_hours") + pl.col("n"),
    }
    led = {
        "top": was + pl.col("lead"),
        "top_total": pl.col("before_total") + pl.col("lead_moved"),
        "top_start": pl.col("before_start"),
        "top_until": pl.col("lead_until"),
        "top_hours": pl.col("before_hours") + pl.col("lead_hours"),
    }
    before = pl.col("before_top").fill_null(0.0)
    leads = (was > 0) & (led["top"] > before) & (led["top"] >= pl.col("top"))
    stays = ~leads & (before >= pl.col("top")) & (before > 0)
    return both.with_columns(
        n=pl.col("n") + pl.col("before_n").fill_null(0),
        **{name: pl.when(continues).then(value).otherwise(name) for name, value in ended.items()},
        **{
            name: pl.when(leads).then(value).when(stays).then(f"before_{name}").otherwise(name)
            for name, value in led.items()
        },
    )


def _result(tests: pl.DataFrame) -> pl.DataFrame:
    p_values = _p_values(tests)
    every = tests.with_columns(p_value=pl.Series(p_values, dtype=pl.Float64).fill_nan(None))
    number = pl.col("p_value").count().over(SUBJECT)
    order = ("p_value", "top", "against", "sign")
    worst = (
        every.with_columns(p_value=(number * pl.col("p_value")).clip(upper_bound=1.0), tests=number)
        .sort(*SUBJECT, *order, descending=[*(False for _ in SUBJECT), False, True, False, False], nulls_last=True)
        .unique(SUBJECT, keep="first", maintain_order=True)
    )
    q_values = adjusted(worst["p_value"].cast(pl.Float64).fill_null(float("nan")).to_numpy())
    return _shown(worst.with_columns(q_value=pl.Series(q_values, dtype=pl.Float64).fill_nan(None)))


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
        *SUBJECT,
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
    return frames.conform(rows, ANOMALIES).sort("q_value", "p_value", *SUBJECT, nulls_last=True)


def _detectable(tested: int) -> pl.Expr:
    """The lasting deviation that a test of so many hours would flag in 8 of 10 cases, were its subject the only one."""
    n = pl.col("n")
    height = (n * pl.col("tests") * max(tested, 1) / LEVEL).log()
    reach = (height / pl.col("rate") + _POWER_Z * pl.col("sigma") * n.sqrt()) / n
    return pl.when((n >= MIN_HOURS) & (n * CAP > height)).then(pl.col("immaterial") + reach)
