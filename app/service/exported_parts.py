"""Samples of `/metrics` other than the headline numbers: events, the network's blocks, waste, loads, claims.

Each function returns the samples of one part of a cluster, within the limit of its family. `app.service.exporter`
collects them: a part that fails is left out and reported, and the others stay.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl

from app.results.goodput import lost_rows
from app.results.nodes.lifecycle import lifecycle
from app.results.placement.rows import span_rows, standing_rows
from app.results.steps.stragglers import rank_times
from app.results.waste import waste_flags, waste_rows
from app.service.samples import ExportedSample, known
from app.times import iso
from dashboards import exported_metrics as families
from dashboards.exported_metrics import (
    EVENT_DAYS,
    MAX_BLOCKS,
    MAX_EVENTS,
    MAX_STRAGGLERS,
    MAX_USERS,
    STRAGGLER_DAYS,
)
from metrics.categories import COSTLY
from metrics.placement.room import blocks, segments
from metrics.stragglers.sessions import session_stragglers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from app.window import RowSource, Window
    from metrics.claims.verdict import Judged

UNNAMED = "(unknown)"
"""Label of what accounting does not name: an empty label would read as no label."""


def last(whole: Window, days: float) -> Window:
    """The last days of a cluster's data, or all of them where these are fewer."""
    return replace(whole, since=max(whole.since, whole.until - timedelta(days=days)))


def of_events(source: RowSource, whole: Window) -> Iterator[ExportedSample]:
    """Incidents of hardware, nodes that went out of service, and attempts that infrastructure interrupted."""
    recent = last(whole, EVENT_DAYS)
    incidents = source.query("incidents_in", **recent.parameters).filter(pl.col("severity") != "info")
    yield from _events(whole, "incident", incidents.select("node", "kinds", "started_at"))
    outages = lifecycle(source, recent).outages.filter(pl.col("failed_at") >= recent.since)
    why = pl.coalesce("cause", "outcome", pl.lit(UNNAMED))
    yield from _events(whole, "drain", outages.select("node", why.alias("what"), "failed_at"))
    broken = source.query("interruptions", **recent.parameters).filter(pl.col("class") == "infrastructure")
    yield from _events(whole, "interruption", broken.select(pl.col("node"), pl.col("run_id"), "ended_at"))


def _events(whole: Window, kind: str, rows: pl.DataFrame) -> Iterator[ExportedSample]:
    """Samples of rows of node, what happened and when: the latest of them."""
    latest = rows.unique(maintain_order=True).sort(rows.columns[2], descending=True, maintain_order=True)
    for node, what, at in latest.head(MAX_EVENTS).iter_rows():
        labels = (whole.cluster, kind, node or UNNAMED, what or UNNAMED, _moment(at))
        yield ExportedSample(families.EVENT, labels, at.timestamp())


def _moment(at: datetime) -> str:
    return iso(at.replace(microsecond=0))


def of_blocks(source: RowSource, whole: Window) -> Iterator[ExportedSample]:
    """Nodes and jobs by block, and the segments that idle nodes make: as of the end of the data."""
    nodes = standing_rows(source, whole)
    largest = blocks(nodes).sort("nodes", "block", descending=[True, False]).head(MAX_BLOCKS)
    for row in largest.iter_rows(named=True):
        key = (whole.cluster, row["block"])
        states = {"idle": row["idle"], "unavailable": row["out"]}
        states["allocated"] = row["nodes"] - row["idle"] - row["out"]
        for state, count in states.items():
            yield ExportedSample(families.BLOCK_NODES, (*key, state), float(max(0, count)))
        yield ExportedSample(families.BLOCK_JOBS, (*key, "across"), float(row["across"]))
        yield ExportedSample(families.BLOCK_JOBS, (*key, "within"), float(row["attempts"] - row["across"]))
    for row in segments(nodes).iter_rows(named=True):
        for what, count in (("idle", row["segments"]), ("whole", row["whole"])):
            yield ExportedSample(families.IDLE_SEGMENTS, (whole.cluster, str(row["segment"]), what), float(count))


def of_placement(source: RowSource, window: Window, key: tuple[str, str]) -> Iterator[ExportedSample]:
    """How many attempts on several nodes lay in the least number of blocks that would do."""
    spans = span_rows(source, window)
    known_place = pl.col("least").is_not_null()
    more = known_place & (pl.col("spanned") > pl.col("least"))
    counted = spans.select(
        unknown=(~known_place).sum(), more=more.sum(), least=(known_place & ~more.fill_null(value=False)).sum()
    ).row(0, named=True)
    for placement, count in counted.items():
        yield ExportedSample(families.SPANNED, (*key, placement), float(count))


def of_waste(source: RowSource, window: Window, key: tuple[str, str]) -> Iterator[ExportedSample]:
    """GPU-time by holder, and the part of it without work."""
    flags = waste_flags(source, window)
    accounts = flags.group_by("user").agg(pl.col("account").drop_nulls().mode().sort().first())
    account_of = dict(accounts.with_columns(pl.col("user").fill_null(UNNAMED)).iter_rows())
    rows = waste_rows(flags, "user")
    held = rows.group_by("subject").agg(pl.col("allocated_gpu_s").first())
    most = held.filter(pl.col("allocated_gpu_s") > 0).sort("allocated_gpu_s", "subject", descending=[True, False])
    for user, seconds in most.head(MAX_USERS).iter_rows():
        who = (*key, user, account_of.get(user) or UNNAMED)
        yield from known(families.HELD, who, seconds)
        of_user = rows.filter((pl.col("subject") == user) & (pl.col("gpu_s") > 0))
        for kind, wasted in of_user.select("kind", "gpu_s").iter_rows():
            yield from known(families.WASTE, (*who, kind), wasted)


def of_runs_lost(source: RowSource, whole: Window, runs: list[str]) -> Iterator[ExportedSample]:
    """GPU-time lost by runs that have series of their own, by category."""
    rows = lost_rows(source, whole, "run").filter(pl.col("subject").is_in(runs), pl.col("category").is_in(COSTLY))
    summed = rows.group_by("subject", "category").agg(pl.col("gpu_seconds").sum()).sort("subject", "category")
    for run, category, seconds in summed.iter_rows():
        yield from known(families.RUN_LOST, (whole.cluster, run, category), seconds)


def of_stragglers(source: RowSource, whole: Window) -> Iterator[ExportedSample]:
    """GPU-time for which ranks waited for the slowest one, by run and cause."""
    sessions = session_stragglers(rank_times(source, last(whole, STRAGGLER_DAYS)))
    slow = sessions.filter(pl.col("lost_gpu_s") > 0).with_columns(pl.col("nodes").list.join(" "))
    summed = slow.group_by("run_id", "cause", "nodes").agg(pl.col("lost_gpu_s").sum())
    worst = summed.sort("lost_gpu_s", "run_id", "nodes", descending=[True, False, False]).head(MAX_STRAGGLERS)
    for row in worst.iter_rows(named=True):
        labels = (whole.cluster, row["run_id"], row["cause"], row["nodes"] or UNNAMED)
        yield from known(families.STRAGGLERS, labels, row["lost_gpu_s"])


def of_loads(source: RowSource) -> Iterator[ExportedSample]:
    """The last load of each source."""
    for row in source.query("last_loads").sort("cluster", "source").to_dicts():
        key = (row["cluster"], row["source"])
        yield ExportedSample(families.LAST_LOAD, key, row["loaded_at"].timestamp())
        for result in ("read", "taken", "new", "skipped", "rejected"):
            yield from known(families.LAST_LOAD_ROWS, (*key, result), row[f"rows_{result}"])


def of_waiting(source: RowSource, whole: Window) -> Iterator[ExportedSample]:
    """Loads that are in no number yet."""
    waiting = source.query("loads_since_computed", cluster=whole.cluster)["loads"].item()
    yield ExportedSample(families.LOADS_WAITING, (whole.cluster,), float(waiting or 0))


def of_claim(key: tuple[str, str], judged: Judged) -> Iterator[ExportedSample]:
    """The value that a claim promises, and the measured one."""
    claim, measured = judged.claim, judged.measured
    yield ExportedSample(
        families.CLAIM_TARGET, (key[0], claim.id, claim.metric, claim.unit, claim.direction), claim.target
    )
    ends = {"point": measured.value, "lower": measured.low, "upper": measured.high}
    for bound, value in ends.items():
        yield from known(families.CLAIM_VALUE, (*key, claim.id, claim.unit, bound), value)
