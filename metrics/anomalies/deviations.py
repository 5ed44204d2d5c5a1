"""Deviation of GPUs, ports and mounts from the middle of their peers, hour by hour.

Peers are what the same attempt held for the whole of the same hour: their work is alike, and what dips for all of them
moves their middle. A subject with fewer than three peers is not compared.

Power is compared at equal work and temperature at equal power: what the deviation of the one explains of that of the
other is taken out, by a line through the medians of the outer thirds (Tukey, Exploratory Data Analysis, 1977,
chapter 10: the resistant line), one slope for all GPUs of a day.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from metrics import frames
from metrics.anomalies.signals import ACTIVITY, BY_NAME, OF_GPUS, POWER, SM_CLOCK, TEMPERATURE

if TYPE_CHECKING:
    from metrics.statistics import FloatArray

MIN_PEERS: Final = 3
"""With fewer peers nothing is compared."""

LEAST_RANGE: Final = 0.02
"""Least distance of the outer thirds; where it is less, a line through them has no slope."""

LINKS: Final = ("pcie", "nvlink")
LEAST_BYTES_PER_S: Final = 1e8
"""A link counts as carrying so much at least: what is less is idle."""

_FEWEST_OF_A_LINE: Final = 30

GPU_HOURS: frames.Schema = {
    "node": frames.TEXT,
    "gpu": frames.TEXT,
    "hour": frames.COUNT,
    "attempt": frames.COUNT,
    "work": frames.NUMBER,
    "sm_clock_hz": frames.NUMBER,
    "power_w": frames.NUMBER,
    "temperature_c": frames.NUMBER,
    "pcie_bytes_per_s": frames.NUMBER,
    "nvlink_bytes_per_s": frames.NUMBER,
}
"""Means of a busy GPU over an hour (hours since 1970), and a number of the attempt that held its node; null: unknown.
`work` is its tensor activity, else its SM activity. The traffic of a link is the greater of both directions."""

NODE_HOURS: frames.Schema = {
    "node": frames.TEXT,
    "device": frames.TEXT,
    "signal": frames.TEXT,
    "hour": frames.COUNT,
    "attempt": frames.COUNT,
    "value": frames.NUMBER,
}
"""A quantity of a port or mount over an hour; `signal` is a name of `signals.OF_NODES`."""

DEVIATIONS: frames.Schema = {
    "signal": frames.TEXT,
    "level": frames.TEXT,
    "node": frames.TEXT,
    "device": frames.TEXT,
    "hour": frames.COUNT,
    "attempt": frames.COUNT,
    "deviation": frames.NUMBER,
}
"""A subject (`signal`, `level`, `node`, `device`: a GPU, a port, a mount, or empty for the node) in an hour, and the
attempt whose GPUs, ports or mounts are its peers."""

_HOUR: Final = ("attempt", "hour")


def gpu_deviations(hours: pl.DataFrame) -> pl.DataFrame:
    """Deviations of GPUs, and of nodes by the middle one of their GPUs.

    Args:
        hours: `GPU_HOURS`, of one day; rows without an attempt have no peers.

    Returns:
        `DEVIATIONS`, unsorted. Values that are null, not finite or not positive have no deviation.
    """
    held = frames.conform(hours, GPU_HOURS).filter(pl.col("attempt").is_not_null())
    relative = held.select(
        "node",
        "gpu",
        *_HOUR,
        _from_middle(_logarithm("work")).alias(ACTIVITY.name),
        _from_middle(_logarithm("sm_clock_hz")).alias(SM_CLOCK.name),
        _from_middle(_logarithm("power_w")).alias(POWER.name),
        _from_middle(pl.when(pl.col("temperature_c").is_finite()).then("temperature_c")).alias(TEMPERATURE.name),
        *(
            _from_middle(_logarithm(f"{link}_bytes_per_s", LEAST_BYTES_PER_S)).alias(f"{link}_throughput")
            for link in LINKS
        ),
    )
    equal = _at_equal(_at_equal(relative, TEMPERATURE.name, POWER.name), POWER.name, ACTIVITY.name)
    for link in LINKS:
        equal = _at_equal(equal, f"{link}_throughput", ACTIVITY.name)
    gpus = equal.rename({"gpu": "device"}).with_columns(level=pl.lit("gpu"))
    names = [signal.name for signal in OF_GPUS]
    nodes = (
        equal.group_by("node", *_HOUR)
        .agg(pl.col(names).median())
        .with_columns(_from_middle(pl.col(name)).alias(name) for name in names)
        .with_columns(device=pl.lit(""), level=pl.lit("node"))
    )
    return pl.concat([_by_signal(gpus, names), _by_signal(nodes, names)])


def node_deviations(hours: pl.DataFrame) -> pl.DataFrame:
    """Deviations of ports and mounts from the same ones of the other nodes of the attempt.

    Args:
        hours: `NODE_HOURS`, of one day; rows without an attempt have no peers.

    Returns:
        `DEVIATIONS`, unsorted.
    """
    held = frames.conform(hours, NODE_HOURS).filter(
        pl.col("attempt").is_not_null(), pl.col("signal").is_in(list(BY_NAME))
    )
    relative = held.with_columns(
        deviation=_from_middle(_logarithm("value"), "signal", "device"), level=pl.lit("node")
    ).filter(pl.col("deviation").is_not_null())
    return frames.conform(relative, DEVIATIONS)


def _logarithm(name: str, least: float | None = None) -> pl.Expr:
    """Natural logarithm of what is positive; of less than `least` that of `least`, so that idle links are alike."""
    usable = pl.col(name).is_finite() & ((pl.col(name) > 0) if least is None else (pl.col(name) >= 0))
    return pl.when(usable).then(pl.col(name).clip(lower_bound=least).log())


def _from_middle(value: pl.Expr, *within: str) -> pl.Expr:
    """A value less the median of its peers and itself; null where the peers are too few."""
    by = (*_HOUR, *within)
    return pl.when(value.count().over(by) > MIN_PEERS).then(value - value.median().over(by))


def _at_equal(relative: pl.DataFrame, name: str, cause: str) -> pl.DataFrame:
    """The deviation of one quantity without what that of another explains; where the other is unknown, as it is."""
    pairs = relative.select(cause, name).drop_nulls()
    slope = resistant_slope(pairs[cause].to_numpy(), pairs[name].to_numpy())
    return relative.with_columns(pl.col(name) - slope * pl.col(cause).fill_null(0.0))


def resistant_slope(x: FloatArray, y: FloatArray) -> float:
    """Slope of the line through the medians of the outer thirds by x, at least 0; 0 where these hardly differ in x.

    >>> resistant_slope(np.arange(60.0), 2 * np.arange(60.0))
    2.0
    """
    third = len(x) // 3
    if len(x) < _FEWEST_OF_A_LINE:
        return 0.0
    order = np.argsort(x, kind="stable")
    low, high = order[:third], order[len(order) - third :]
    across = float(np.median(x[high]) - np.median(x[low]))
    if across < LEAST_RANGE:
        return 0.0
    return max(0.0, float(np.median(y[high]) - np.median(y[low])) / across)


def _by_signal(relative: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    parts = relative.unpivot(
        on=names, index=["level", "node", "device", "hour", "attempt"], variable_name="signal", value_name="deviation"
    )
    return frames.conform(parts.filter(pl.col("deviation").is_not_null()), DEVIATIONS)
