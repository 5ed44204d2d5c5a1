"""States of nodes in parts, where their objects show that a repair began in between.

A cordon keeps only its last reason, and a node that is replaced keeps its name. So a cordon under a fault which becomes
maintenance is unplanned until then, and a node that gets a new object while it is out of service is being replaced
from then on.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from ingest.kubernetes.nodes import FAULTS, PLANNED
from ingest.node_reasons import meaning_of

REPLACED: Final = "replaced: a new node object of this name"

_NODE: Final = ["cluster", "node"]


def with_repairs(states: pl.DataFrame, conditions: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """States with another part from where a repair began; a state has one such part at most of each kind.

    Args:
        states: rows of `node_states`, as `states_of` returns them.
        conditions: rows of `node_conditions`.
        nodes: rows of `nodes`: a second one begins with another object.
    """
    maintained = _split(states, _maintenance(states, conditions))
    return _split(maintained, _replacements(maintained, nodes)).select(states.columns)


def _split(states: pl.DataFrame, cuts: pl.DataFrame) -> pl.DataFrame:
    """States in two parts at `cut_at`, with the values `*_before` and `*_after` of the cuts."""
    key = [*_NODE, "started_at", "state"]
    rows = states.join(cuts, on=key, how="left")
    whole = rows.filter(pl.col("cut_at").is_null())
    parts = rows.filter(pl.col("cut_at").is_not_null())
    before = parts.with_columns(ended_at="cut_at", reason="reason_before", planned="planned_before")
    after = parts.with_columns(started_at="cut_at", reason="reason_after", planned="planned_after")
    return pl.concat([frame.select(states.columns) for frame in (whole, before, after)]).sort(*_NODE, "started_at")


def _maintenance(states: pl.DataFrame, conditions: pl.DataFrame) -> pl.DataFrame:
    """Cordons for maintenance that began under a fault, with the beginning of the maintenance."""
    planned = states.filter((pl.col("state") == "drained") & pl.col("planned"))
    begun = conditions.filter(pl.col("condition").str.contains(PLANNED)).select(*_NODE, cut_at="since")
    at = planned.join(begun, on=_NODE).filter(_inside()).group_by(*_NODE, "started_at", "state")
    first = at.agg(pl.col("cut_at").min(), pl.col("reason").first())
    held = first.join(_faults(conditions), on=_NODE).filter(
        (pl.col("since") <= pl.col("cut_at")) & (pl.col("last_seen_at") >= pl.col("started_at"))
    )
    named = held.sort("since", "fault").group_by(*_NODE, "started_at", "state", "cut_at", "reason", maintain_order=True)
    return named.agg(pl.col("fault").unique(maintain_order=True).str.join(", ").alias("reason_before")).select(
        *_NODE, "started_at", "state", "cut_at", "reason_before",
        planned_before=pl.lit(value=False), reason_after="reason", planned_after=pl.lit(value=True),
    )  # fmt: skip


def _faults(conditions: pl.DataFrame) -> pl.DataFrame:
    """Conditions that are faults of a node, with their words: `fault`."""
    rows = conditions.with_columns(
        fault=pl.when(pl.col("reason").is_null())
        .then("condition")
        .otherwise(pl.format("{} ({})", "condition", "reason"))
    )
    causes = [meaning_of(text).cause for text in rows["fault"]]
    known = rows.with_columns(cause=pl.Series(causes, dtype=pl.String))
    return known.filter(pl.col("cause").is_in(FAULTS)).select(*_NODE, "since", "last_seen_at", "fault")


def _replacements(states: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """Outages in which a node got another object, with the time of that."""
    objects = nodes.select(*_NODE, cut_at="valid_from").unique().sort(*_NODE, "cut_at")
    later = objects.filter(pl.int_range(pl.len()).over(_NODE) > 0)
    out = states.filter(pl.col("state").is_in(["down", "drained"])).join(later, on=_NODE).filter(_inside())
    first = out.sort("cut_at").group_by(*_NODE, "started_at", "state", maintain_order=True)
    return first.agg(pl.col("cut_at", "reason", "planned").first()).select(
        *_NODE, "started_at", "state", "cut_at", reason_before="reason", planned_before="planned",
        reason_after=pl.concat_str(pl.lit(REPLACED), "reason", separator="; ", ignore_nulls=True),
        planned_after="planned",
    )  # fmt: skip


def _inside() -> pl.Expr:
    """Whether a moment is within a state, and not its beginning."""
    until = (pl.col("cut_at") < pl.col("ended_at")).fill_null(value=True)
    return (pl.col("cut_at") > pl.col("started_at")) & until
