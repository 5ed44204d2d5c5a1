"""Which nodes fail more often than chance would have it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from app.corrections import records as adjudications
from app.results.source import memo_of_cache
from app.window import Window
from ingest.slurm.formats.nodelist import NodeListError, expand
from metrics import frames
from metrics.corrections import beginnings, corrected_states
from metrics.failures import lemons

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.window import RowSource

NODE_SCORES: Final = (
    "cluster", "node", "window_from", "window_until", "failures", "expected", "p_value", "q_value", "rate_eb",
    "families", "verdict", "exposure_gpu_days", "charged", "single_node_failures", "multi_node_failures",
    "hardware_kinds", "out_count", "excluded_by", "detectable_factor", "note",
)  # fmt: skip
"""Columns of the table `node_scores`."""


def judged(window: Window) -> Window:
    """The part of a window that nodes are judged by: its last 28 days."""
    since = window.until - timedelta(days=lemons.WINDOW_DAYS)
    return replace(window, since=max(since, window.since))


@dataclass(frozen=True)
class Failed:
    """What is read once for all windows: interruptions, the nodes of those without one to blame, states of nodes."""

    interruptions: pl.DataFrame
    unblamed: pl.DataFrame
    states: pl.DataFrame


def failed(source: RowSource, window: Window) -> Failed:
    """What nodes did wrong in a window; states as persons corrected them."""
    return memo_of_cache(source, ("failed", window), lambda: _failed(source, window))


def _failed(source: RowSource, window: Window) -> Failed:
    period = {"cluster": window.cluster, "since": window.since, "until": window.until}
    reported = frames.conform(source.query("node_states", cluster=window.cluster), frames.NODE_STATES)
    return Failed(
        source.query("interruptions", **period).filter(pl.col("class") == "infrastructure"),
        source.query("nodes_of_unblamed", **period),
        beginnings(corrected_states(reported, adjudications.fixes(source, window.cluster).states)),
    )


def node_score_rows(source: RowSource, window: Window, past: Failed | None = None) -> pl.DataFrame:
    """Every node against what is expected by chance, the worst first: `metrics.failures.lemons.lemon_nodes`.

    Args:
        source: where to read.
        window: to judge.
        past: `failed` of a window that holds it, where that is at hand.
    """
    period = {"cluster": window.cluster, "since": window.since, "until": window.until}
    known = failed(source, window) if past is None else past
    signals = lemons.Signals(
        source.query("node_critical_kinds", **period),
        known.states,
        excluded_nodes(source.query("exclusions", **period)),
    )
    return lemons.lemon_nodes(
        source.query("node_exposure", **period),
        known.interruptions,
        known.unblamed,
        signals,
        since=window.since,
        until=window.until,
    )


def stored_node_scores(source: RowSource, windows: Sequence[Window]) -> pl.DataFrame:
    """Rows of the table `node_scores` of windows of one cluster, each judged by its last 28 days.

    Nodes of which nothing is expected (no other one ran) are left out.
    """
    whole = Window(windows[0].cluster, min(each.since for each in windows), max(each.until for each in windows))
    past = failed(source, whole)
    periods = dict.fromkeys(judged(window) for window in windows)
    scores = pl.concat([node_score_rows(source, window, past) for window in periods])
    return scores.filter(pl.col("expected").is_not_null()).select(NODE_SCORES)


_EXCLUDES = r"\s(?:-x\s*|--exclude[ =])(\S+)"


def excluded_nodes(lines: pl.DataFrame) -> pl.DataFrame:
    """How many jobs excluded each node on the command line they were submitted with.

    Args:
        lines: `cluster`, `submit_line`, `n_jobs`. A list that is no list of nodes (a file's name) excludes no node.

    Returns:
        `metrics.failures.lemons.EXCLUSIONS`.
    """
    listed = lines.select("cluster", pl.col("submit_line").str.extract(_EXCLUDES).alias("listed"), "n_jobs")
    rows = [
        {"cluster": row["cluster"], "node": node, "excluded_by": row["n_jobs"]}
        for row in listed.drop_nulls().group_by("cluster", "listed").agg(pl.col("n_jobs").sum()).to_dicts()
        for node in _named(row["listed"])
    ]
    table = pl.DataFrame(rows, schema=lemons.EXCLUSIONS)
    return table.group_by("cluster", "node").agg(pl.col("excluded_by").sum()).sort("cluster", "node")


def _named(listed: str) -> list[str]:
    try:
        return [] if "/" in listed else expand(listed.strip("'\""))
    except NodeListError:
        return []
