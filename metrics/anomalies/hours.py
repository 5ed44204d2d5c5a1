"""Hours in which GPUs were busy, from samples in blocks: each block is added up once, and an hour may lie in several.

Rows of a GPU lie together and in the order of time, as samples are stored. An hour of a GPU is then a stretch of rows,
and its sums are taken between the places where stretches begin: no row is hashed, and no text is compared but at those
places. Sums are of single precision, added pairwise: they are right to six digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from metrics import frames

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from metrics.statistics import FloatArray

    Places = npt.NDArray[np.intp]

HOUR_US: Final = 3_600_000_000

LEAST_BUSY_S: Final = 1800.0
"""An hour counts if its busy samples cover so much of it."""

PLACE: Final = ("node", "gpu", "ts", "interval_s")
AVERAGED: Final = ("sm_clock_hz", "power_w", "temperature_c", "pcie_bytes_per_s", "nvlink_bytes_per_s")
MEASURED: Final = ("tensor_active", *AVERAGED)
INSTEAD: Final = ("sm_active", "gr_engine_active", "gpu_util")
"""Columns of samples that are read only where some have no tensor activity."""

MEANS: Final = (*MEASURED, "sm_active")

PART: Final = 122_880
"""Rows that are added up at a time: those of a row group, whose columns are then used where they lie."""

_KEY: Final = ("node", "gpu", "hour")

SUMS: Final[frames.Schema] = {
    "node": frames.TEXT,
    "gpu": frames.TEXT,
    "hour": frames.COUNT,
    "busy_s": frames.NUMBER,
    **{f"{name}_{what}": frames.NUMBER for name in MEANS for what in ("sum", "known")},
}
"""A part of an hour (since 1970) of a GPU: seconds that busy samples cover, and sum and number of each quantity."""

BUSY_HOURS: Final[frames.Schema] = {
    "node": frames.TEXT,
    "gpu": frames.TEXT,
    "hour": frames.COUNT,
    **dict.fromkeys(("work", *AVERAGED), pl.Float32()),
}
"""Means of a GPU over an hour while it was busy; null: unknown. `work` is its tensor activity, else its SM activity."""


HOURS: Final[frames.Schema] = {
    **{name: BUSY_HOURS[name] for name in _KEY},
    "busy_s": frames.NUMBER,
    **{name: BUSY_HOURS[name] for name in ("work", *AVERAGED)},
}
"""The same of hours in which a GPU was busy for `busy_s` seconds, however few."""


class Limits(NamedTuple):
    """Thresholds of a busy GPU: tensor, else engine activity from these on, else utilisation above this."""

    active_tensor: float
    active_gr_engine: float
    active_gpu_util: float


def hour_sums(rows: pl.DataFrame, first: int, last: int, limits: Limits) -> pl.DataFrame:
    """Sums over the busy samples of a block, by hour.

    Args:
        rows: `PLACE` and `MEASURED`, and `INSTEAD` too if a sample has no tensor activity. Any other
            column that is left out is unknown.
        first: the first hour, since 1970.
        last: the hour after the last one.
        limits: when a sample is busy.

    Returns:
        `SUMS`; a GPU's hour has one row, or more where its rows do not lie together.
    """
    if rows.is_empty():
        return frames.empty(SUMS)
    names = rows.select("node", "gpu")
    parts = [_HourRows(part, first, last) for part in rows.drop("node", "gpu").iter_slices(PART)]
    begins = np.concatenate([number * PART + part.begins for number, part in enumerate(parts)])
    ends = np.concatenate([number * PART + part.ends for number, part in enumerate(parts)])
    of_begins, of_ends = (names.select(pl.all().gather(at)) for at in (begins, ends))
    if not of_begins.equals(of_ends):
        return pl.concat(hour_sums(part, first, last, limits) for _, part in rows.group_by(["node", "gpu"]))
    sums = [part.sums(limits) for part in parts]
    columns = {name: np.concatenate([each[name] for each in sums]) for name in sums[0]}
    named = of_begins.hstack([pl.Series(name, values) for name, values in columns.items()])
    return frames.conform(named.filter(pl.col("busy_s") > 0), SUMS)


class _HourRows:
    """Rows that fit a processor's cache, as arrays, and the stretches of an hour in them.

    A stretch begins with another hour or an earlier moment. Where another GPU's rows begin later in the same hour, only
    the names distinguish them, which `hour_sums` compares: then GPUs are added up each by itself.

    Attributes:
        begins: first row of each stretch.
        ends: last row of each.
    """

    def __init__(self, rows: pl.DataFrame, first: int, last: int) -> None:
        self._of = {name: rows[name].to_numpy() for name in rows.columns if name != "ts"}
        moments = rows["ts"].dt.epoch("us").to_numpy()
        hours = moments // HOUR_US
        change = (hours[1:] != hours[:-1]) | (moments[1:] <= moments[:-1])
        self.begins: Places = np.concatenate([[0], np.flatnonzero(change) + 1])
        self.ends: Places = np.concatenate([self.begins[1:], [len(hours)]]) - 1
        self._hours = hours[self.begins]
        within = (self._hours >= first) & (self._hours < last)
        self._within = None if within.all() else (hours >= first) & (hours < last)

    def sums(self, limits: Limits) -> dict[str, npt.NDArray[np.generic]]:
        """Columns of `SUMS` but the names, a row a stretch."""
        busy = self._busy(limits)
        if self._within is not None:
            busy &= self._within
        every = bool(busy.all())
        sums: dict[str, npt.NDArray[np.generic]] = {"hour": self._hours}
        sums["busy_s"], _ = self._summed("interval_s", busy, every=every)
        for name in MEANS:
            if name in self._of:
                sums[f"{name}_sum"], sums[f"{name}_known"] = self._summed(name, busy, every=every)
        return sums

    def _busy(self, limits: Limits) -> npt.NDArray[np.bool_]:
        tensor = self._of["tensor_active"]
        busy: npt.NDArray[np.bool_] = tensor >= np.float32(limits.active_tensor)  # an unknown one compares as false
        if "gr_engine_active" not in self._of:
            return busy
        engine, util = self._of["gr_engine_active"], self._of["gpu_util"]
        active = engine >= np.float32(limits.active_gr_engine)
        instead = np.where(np.isfinite(engine), active, util > np.float32(limits.active_gpu_util))
        return np.where(np.isfinite(tensor), busy, instead)

    def _summed(self, name: str, busy: npt.NDArray[np.bool_], *, every: bool) -> tuple[FloatArray, FloatArray]:
        """Sum and number of the known values of busy samples, by stretch."""
        values = self._of[name]
        if every:
            with np.errstate(over="ignore", invalid="ignore"):  # of infinite ones
                sums = np.add.reduceat(values, self.begins)
            if np.isfinite(sums).all():  # then every value is
                return sums.astype(float), (self.ends - self.begins + 1).astype(float)
        counted = busy & np.isfinite(values)
        sums = np.add.reduceat(np.where(counted, values, np.float32(0)), self.begins)
        return sums.astype(float), np.add.reduceat(counted, self.begins, dtype=np.int64).astype(float)


def hour_means(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Hours with a busy sample, however short.

    Args:
        parts: `SUMS` of blocks, in any order.

    Returns:
        `HOURS`, in the order of GPUs and hours.
    """
    sums = pl.concat([frames.empty(SUMS), *parts]).group_by(_KEY).sum()

    def mean(name: str) -> pl.Expr:
        known = pl.col(f"{name}_known")
        return pl.when(known > 0).then(pl.col(f"{name}_sum") / known)

    means = sums.select(
        *_KEY,
        "busy_s",
        work=pl.coalesce(mean("tensor_active"), mean("sm_active")),
        **{name: mean(name) for name in AVERAGED},
    )
    return frames.conform(means, HOURS).sort(_KEY)


def busy_hours(hours: pl.DataFrame, rolled: pl.DataFrame) -> pl.DataFrame:
    """Hours in which GPUs were busy for at least half of the time; roll-ups where no sample was.

    Args:
        hours: `HOURS`.
        rolled: `BUSY_HOURS` of hours that were busy by a roll-up.

    Returns:
        `BUSY_HOURS`, in the order of GPUs and hours.
    """
    busy = frames.conform(hours.filter(pl.col("busy_s") >= LEAST_BUSY_S), BUSY_HOURS)
    others = frames.conform(rolled, BUSY_HOURS).join(hours, on=_KEY, how="anti")
    return pl.concat([busy, others]).sort(_KEY)
