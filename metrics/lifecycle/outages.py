"""Outages of nodes: from the failure (or the beginning of maintenance) until the node is back, stage by stage.

An outage is a longest time in which at least one state takes a node out of service: states that overlap or touch are
one outage. Each of its moments is in exactly one stage, and the GPU-time of the ledger within it is cut in the same
places: what the ledger has as down, drained or maintenance is `lost`, what attempts held (while a node drains, or is
dead) is `held`. So the stages add up to the ledger, and nothing is counted here that it does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames
from metrics.intervals import sweep, union

if TYPE_CHECKING:
    from datetime import datetime

STATES: Final[frames.Schema] = frames.NODE_STATES | {
    "stage": frames.TEXT,
    "cause": frames.TEXT,
    "by": frames.TEXT,
    "silent": frames.FLAG,
}
"""`frames.NODE_STATES` with the facts parsed from the reason, and `silent`: the time before Slurm noticed."""

UNAVAILABLE_TIME: Final[frames.Schema] = {
    "cluster": frames.TEXT,
    "node": frames.TEXT,
    "started_at": frames.TIME,
    "ended_at": frames.TIME,
    "state": frames.TEXT,
    "category": frames.TEXT,
    "milli_gpus": frames.COUNT,
}
"""Rows of the ledger that are unavailable, or allocated at nodes that are out of service."""

OUT: Final = ("maintenance", "down", "drained")
"""States that make an outage, by the precedence that the ledger gives them."""

STAGES: Final = (
    "verification", "replacement", "reboot", "triage", "down", "maintenance", "drained", "undetected"
)  # fmt: skip
"""Stages of states; where several are in force at once the first counts."""

DRAINING: Final = "draining"
"""The stage in which a node that is not down is to go out of service, while attempts still hold GPUs of it."""

SYMPTOMS: Final = ("not_responding", "reboot", "check")
"""Causes that are only how a failure showed: a more specific one that was given later counts."""

RELAPSE_S: Final = 24 * 3600
"""An unplanned outage within so long after the last one is a relapse: the node had not been repaired."""

OUTAGES: Final[frames.Schema] = {
    "cluster": frames.TEXT,
    "node": frames.TEXT,
    "outage": frames.COUNT,
    "failed_at": frames.TIME,
    "noticed_at": frames.TIME,
    "back_at": frames.TIME,
    "out_s": frames.NUMBER,
    "planned": frames.FLAG,
    "cause": frames.TEXT,
    "by": frames.TEXT,
    "outcome": frames.TEXT,
    "relapse": frames.FLAG,
    "reason": frames.TEXT,
    "lost_gpu_s": frames.NUMBER,
    "held_gpu_s": frames.NUMBER,
}
"""`back_at` is null while it lasts, and `out_s` then is how long it has lasted; `outcome` is open, replaced, triaged,
rebooted or returned (without a sign of what was done)."""

STAGE_ROWS: Final[frames.Schema] = {
    "cluster": frames.TEXT,
    "node": frames.TEXT,
    "outage": frames.COUNT,
    "stage": frames.TEXT,
    "started_at": frames.TIME,
    "ended_at": frames.TIME,
    "open": frames.FLAG,
    **{f"{name}_gpu_s": frames.NUMBER for name in OUT},
    "held_gpu_s": frames.NUMBER,
}

_KEY = ["cluster", "node"]
_SPAN = (pl.col("started_at").dt.epoch("us").alias("started"), pl.col("ended_at").dt.epoch("us").alias("ended"))
_US = 1e6
_UNITS = 1e9
"""Thousandths of GPUs times microseconds in a GPU-second."""


def outages(
    states: pl.DataFrame, unavailable: pl.DataFrame, *, known_until: datetime
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Outages of nodes, and their stages.

    Args:
        states: `STATES`; null `ended_at` means that it still lasts. States that make no outage are passed over.
        unavailable: `UNAVAILABLE_TIME`, of the window that GPU-time is to be counted in.
        known_until: the last moment that the data cover. An outage that lasts until then is open, and one that
            begins later is left out (maintenance that is announced).

    Returns:
        `OUTAGES` and `STAGE_ROWS`, each sorted by cluster, node and time.
    """
    end = int(pl.Series([known_until], dtype=frames.TIME).dt.epoch("us")[0])
    lanes = states.select(_KEY).unique().sort(_KEY).with_row_index("lane")
    placed = _placed(states, lanes, end)
    whole = union(placed.select("lane", "started", "ended")).with_row_index("outage")
    stages = _stages(placed, _time_of(unavailable, lanes, end), whole, end)
    found = _described(placed, whole, stages, end)
    named = lanes.select("lane", *_KEY)
    return (
        frames.conform(found.join(named, on="lane").sort(*_KEY, "failed_at"), OUTAGES),
        frames.conform(stages.join(named, on="lane").sort(*_KEY, "started_at"), STAGE_ROWS),
    )


def _placed(states: pl.DataFrame, lanes: pl.DataFrame, end: int) -> pl.DataFrame:
    """States that make outages, in numbers, with the stage that each means by itself."""
    silent = pl.col("silent").fill_null(value=False)
    stage = pl.when(silent).then(pl.lit("undetected")).otherwise(pl.coalesce("stage", "state"))
    return (
        states.filter(pl.col("state").is_in(OUT))
        .join(lanes, on=_KEY)
        .with_columns(*_SPAN, silent=silent, stage=stage)
        .with_columns(pl.col("ended").fill_null(end).clip(upper_bound=end))
        .filter(pl.col("started") < pl.col("ended"))
    )


def _time_of(unavailable: pl.DataFrame, lanes: pl.DataFrame, end: int) -> pl.DataFrame:
    """GPUs by what the ledger has them as: `lost_*` columns and `held`."""
    placed = unavailable.join(lanes, on=_KEY).with_columns(*_SPAN).filter(pl.col("started") < end)
    gpus = pl.col("milli_gpus")
    return placed.select(
        "lane",
        "started",
        pl.col("ended").clip(upper_bound=end),
        *(pl.when(pl.col("category") == name).then(gpus).otherwise(0).alias(f"lost_{name}") for name in OUT),
        pl.when(pl.col("state") == "allocated").then(gpus).otherwise(0).alias("held"),
    )


def _stages(placed: pl.DataFrame, time: pl.DataFrame, whole: pl.DataFrame, end: int) -> pl.DataFrame:
    """Stages of outages in their order: `lane`, `outage` and the columns of `STAGE_ROWS` after it."""
    one = pl.lit(1, dtype=pl.Int64)
    layers = [placed.filter(pl.col("stage") == name).select(*_PLACE, one.alias(name)) for name in STAGES]
    dead = placed.filter((pl.col("state") == "down") | pl.col("silent")).select(*_PLACE, one.alias("dead"))
    pieces = sweep([*layers, dead, time]).filter(pl.sum_horizontal(STAGES) > 0)
    in_force = pl.coalesce(*(pl.when(pl.col(name) > 0).then(pl.lit(name)) for name in STAGES))
    draining = (pl.col("held") > 0) & (pl.col("dead") == 0)
    length = pl.col("ended") - pl.col("started")
    cut = (
        pieces.with_columns(stage=pl.when(draining).then(pl.lit(DRAINING)).otherwise(in_force))
        .join_asof(whole.select("lane", "outage", began="started"), left_on="started", right_on="began", by="lane",
                   strategy="backward", check_sortedness=False)
    )  # fmt: skip
    continues = (pl.col("outage") == pl.col("outage").shift(1)) & (pl.col("stage") == pl.col("stage").shift(1))
    return (
        cut.with_columns(_part=(~continues.fill_null(value=False)).cum_sum())
        .group_by("lane", "outage", "_part", "stage", maintain_order=True)
        .agg(
            pl.col("started").min(),
            pl.col("ended").max(),
            *(_gpu_seconds(pl.col(f"lost_{name}") * length).alias(f"{name}_gpu_s") for name in OUT),
            _gpu_seconds(pl.col("held") * length).alias("held_gpu_s"),
        )
        .with_columns(
            open=pl.col("ended") >= end, started_at=frames.from_us("started"), ended_at=frames.from_us("ended")
        )
    )


def _gpu_seconds(units: pl.Expr) -> pl.Expr:
    return (units.sum() / _UNITS).round(9)  # polars multiplies by the reciprocal, which is no short decimal


_PLACE = ("lane", "started", "ended")


def _described(placed: pl.DataFrame, whole: pl.DataFrame, stages: pl.DataFrame, end: int) -> pl.DataFrame:
    """Outages with their cause, who acted, how they ended and what they cost; `lane` in the place of names."""
    ordered = placed.sort("lane", "started", "silent", "ended", "state", "reason", descending=False)
    states = ordered.join_asof(
        whole.select("lane", "outage", began="started"), left_on="started", right_on="began", by="lane",
        strategy="backward", check_sortedness=False,
    ).with_columns(_symptom=pl.col("cause").is_in(SYMPTOMS))  # fmt: skip
    noticed = ~pl.col("silent")
    reasons = states.group_by("outage", maintain_order=True).agg(
        pl.col("started").filter(noticed).min().alias("noticed"),
        pl.col("planned").fill_null(value=False).all(),
        pl.col("cause").filter(~pl.col("_symptom")).drop_nulls().first().alias("_cause"),
        pl.col("cause").drop_nulls().first().alias("_symptom"),
        pl.col("by").drop_nulls().first(),
        pl.col("reason").drop_nulls().first(),
    )
    spent = stages.group_by("outage").agg(
        pl.sum_horizontal([f"{name}_gpu_s" for name in OUT]).sum().alias("lost_gpu_s"),
        pl.col("held_gpu_s").sum(),
        *(pl.col("stage").is_in([name]).any().alias(f"_{name}") for name in _OUTCOMES),
    )
    is_open = pl.col("ended") >= end
    outcome = pl.coalesce(
        pl.when(is_open).then(pl.lit("open")),
        *(pl.when(f"_{name}").then(pl.lit(word)) for name, word in _OUTCOMES.items()),
        pl.lit("returned"),
    )
    cause = pl.coalesce("_cause", "_symptom", pl.when("planned").then(pl.lit("maintenance")))
    gap = pl.col("started") - pl.col("ended").shift(1).over("lane")
    return (
        whole.join(reasons, on="outage")
        .join(spent, on="outage", maintain_order="left")
        .sort("lane", "started")
        .with_columns(
            cause=cause,
            outcome=outcome,
            relapse=(~pl.col("planned") & (gap <= RELAPSE_S * _US)).fill_null(value=False),
            failed_at=frames.from_us("started"),
            noticed_at=frames.from_us("noticed"),
            back_at=pl.when(~is_open).then(frames.from_us("ended")),
            out_s=(pl.col("ended") - pl.col("started")) / _US,
        )
    )


_OUTCOMES = {"replacement": "replaced", "triage": "triaged", "reboot": "rebooted"}
"""Action taken, by the stages of an outage: the first stage that it has names it."""
