"""Outages of nodes with their stages: node states as corrected, stages from their reasons, and the ledger's time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from app.corrections import records as adjudications
from ingest.node_reasons import meaning_of
from metrics import frames
from metrics.corrections import corrected_states
from metrics.ledger.ledger import with_silence
from metrics.lifecycle.drains import candidates, whole_drains
from metrics.lifecycle.outages import STATES, UNAVAILABLE_TIME, outages

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from app.window import RowSource, Window
    from metrics.corrections import StateFix

_STATE = ["cluster", "node", "started_at", "state", "reason"]


class Lifecycle(NamedTuple):
    """Outages with time in a window, and their stages.

    Attributes:
        outages: `metrics.lifecycle.outages.OUTAGES`.
        stages: `metrics.lifecycle.outages.STAGE_ROWS`.
        known_until: the end of the data: what lasts until then is open.
    """

    outages: pl.DataFrame
    stages: pl.DataFrame
    known_until: datetime


def lifecycle(source: RowSource, window: Window) -> Lifecycle:
    """Outages of nodes with GPUs that have time in the window; their GPU-time is that within it."""
    computed = source.query("computed", cluster=window.cluster)
    known_until = computed["until"].max() if computed.height else window.until
    fixes = adjudications.fixes(source, window.cluster).states
    unavailable = source.query(
        "unavailable_gpu_time", **window.parameters, corrected=sorted({fix.node for fix in fixes})
    )
    found, stages = outages(
        _states(source, window, fixes),
        frames.conform(unavailable, UNAVAILABLE_TIME),
        known_until=known_until,  # type: ignore[arg-type]  # polars types max() broadly
    )
    until = frames.instant(window.until)
    inside = (pl.col("failed_at") < until) & (pl.col("back_at").is_null() | (pl.col("back_at") > window.since))
    within = found.filter(inside)
    overlap = (pl.col("started_at") < until) & (pl.col("ended_at") > window.since)
    return Lifecycle(within, stages.filter(overlap), known_until)  # type: ignore[arg-type]  # as above


def _states(source: RowSource, window: Window, fixes: Sequence[StateFix]) -> pl.DataFrame:
    """States of nodes with GPUs, as the ledger reads them, with stages from their reasons."""
    reported = source.query("node_states", cluster=window.cluster)
    if not candidates(reported).is_empty():
        reported = whole_drains(reported, source.query("attempt_nodes", cluster=window.cluster))
    states = corrected_states(frames.conform(reported, frames.NODE_STATES), fixes)
    noticed = with_silence(states, source.query("slurmd_timeout", cluster=window.cluster))
    silent = pl.int_range(pl.len()) >= states.height  # `with_silence` puts them behind the others
    marked = noticed.with_columns(silent=silent)
    raw = reported.select(*_STATE, "state_raw").unique(_STATE, keep="first", maintain_order=True)
    worded = marked.join(raw, on=_STATE, how="left", nulls_equal=True, maintain_order="left")
    with_gpus = source.query("nodes_with_gpus", cluster=window.cluster)
    return frames.conform(_with_meaning(worded).join(with_gpus, on=["cluster", "node"], how="semi"), STATES)


def _with_meaning(states: pl.DataFrame) -> pl.DataFrame:
    """States with `stage`, `cause` and `by`.

    The scheduler's own word for a state (`REBOOT_ISSUED`) names the stage where the reason does not.
    """
    stated = ["reason", "actor", "state_raw"]
    pairs = states.select(stated).unique(maintain_order=True)
    rows = []
    for reason, actor, raw in pairs.rows():
        meaning = meaning_of(reason, actor)
        rows.append((reason, actor, raw, meaning.by, meaning.stage or meaning_of(raw).stage, meaning.cause))
    schema = dict.fromkeys([*stated, "by", "stage", "cause"], frames.TEXT)
    known = pl.DataFrame(rows, schema=schema, orient="row")
    return states.join(known, on=stated, how="left", nulls_equal=True, maintain_order="left")
