"""The question of `trackside show` about health: what went wrong with hardware, where, and whom it touched."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import polars as pl

from app.formatting import display
from app.show.answer import MOST_EXPLAINED, Answer, Question
from app.show.registry import question
from app.times import iso
from ingest.counted import counted
from metrics import frames
from metrics.failures.health_incidents import SEVERITIES
from metrics.failures.interruptions import AFTER_END_S, BEFORE_END_S, MERGE_S
from metrics.ledger.capacity import coverage

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader

EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


@question(
    "health",
    "incidents of nodes and the attempts they touch",
    help="incidents of nodes (XID, ECC, links, mounts, conditions), the attempts they touch, and what to do\n"
    "--by node, attempt, kind",
    by=("incident", "node", "attempt", "kind"),
    position=16,
)
def health(source: Reader, window: Window, question: Question) -> Answer:
    """Incidents of nodes: each, or by node, by the attempts that they touch, or by kind of event."""
    by = question.dimension
    answers = {"incident": _by_incident, "node": _by_node, "attempt": _by_attempt, "kind": _by_kind}
    return answers[by](source, window)


_INCIDENT: Final = (
    f"Events of one node that follow each other within {MERGE_S / 60:g} minutes are one incident. It touches "
    "the attempts that held the node meanwhile, and may be why one ended if it has an event between "
    f"{BEFORE_END_S / 60:g} minutes before that end and {AFTER_END_S / 60:g} after."
)

_NONE: Final = (
    "No health events in this window. They come from telemetry (XIDs, ECC, row remapping, NVLink, throttling, "
    "InfiniBand, lost mounts, Kubernetes conditions): is it loaded (trackside status), and was `trackside compute` run "
    "since?\nTo add it:\n  trackside ingest prometheus --url http://HOST:9090"
)


def _incidents(source: Reader, window: Window) -> pl.DataFrame:
    return source.query("incidents_in", **window.parameters)


def _empty(source: Reader, window: Window) -> str:
    """Why there are none: no events are loaded at all, or none of this window."""
    ever = source.query("incidents_in", cluster=window.cluster, since=EARLIEST, until=LATEST)["started_at"]
    last = ever.max()
    if not isinstance(last, datetime):
        return _NONE
    others = f"there are {len(ever)} outside of it" if len(ever) > 1 else "there is one outside of it"
    return f"No health events in this window; {others}, the last of {iso(last)}."


def _coverage_note(source: Reader, window: Window) -> tuple[str, ...]:
    """How much of the window telemetry of health covers."""
    whole_s = (window.until - window.since).total_seconds()
    loads = [source.query("coverage", cluster=window.cluster, source=name) for name in _TELLING]
    low, high = (pl.lit(moment, dtype=frames.TIME) for moment in (window.since, window.until))
    clipped = (
        coverage(frames.conform(pl.concat(loads), frames.COVERAGE), gap_s=0)
        .select(pl.max_horizontal("started_at", low).alias("a"), pl.min_horizontal("ended_at", high).alias("b"))
        .filter(pl.col("a") < pl.col("b"))
    )
    covered_s = clipped.select(frames.seconds(pl.col("b") - pl.col("a")).sum()).item()
    if covered_s >= whole_s:
        return ()
    return (
        f"Telemetry of health covers {display(covered_s, 'seconds')} of these "
        f"{display(whole_s, 'seconds')}: what happened in the rest is unknown.",
    )


_TELLING: Final = ("prometheus.gpu", "prometheus.health")
"""Sources of health events."""


def _by_incident(source: Reader, window: Window) -> Answer:
    rows = _incidents(source, window)
    return Answer(
        "Incidents, the newest first",
        rows,
        {
            "started_at": ("when", "time"),
            "node": ("node", "text"),
            "gpus": ("GPU", "text"),
            "severity": ("severity", "text"),
            "kinds": ("what", "text"),
            "n_events": ("events", "count"),
            "n_attempts": ("attempts", "count"),
            "n_ended": ("ended by it?", "count"),
            "action": ("action", "text"),
        },
        headline=_headline(rows),
        ranked=("node", "severity", "kinds", "n_attempts", "n_ended", "action"),
        queries=("incidents_in",),
        notes=(*_worst(rows), *_coverage_note(source, window), _INCIDENT) if rows.height else (),
        when_empty=_empty(source, window),
        worth_explaining=pl.int_range(pl.len()) < MOST_EXPLAINED,
        parts={"subject": "node", "started_at": "started_at", "value": "n_events", "attempts": "n_attempts"},
    )


def _by_node(source: Reader, window: Window) -> Answer:
    incidents = _incidents(source, window)
    rows = by_node(incidents)
    return Answer(
        "Nodes with incidents, the worst first",
        rows,
        {
            "node": ("node", "text"),
            "critical": ("critical", "count"),
            "warning": ("warnings", "count"),
            "info": ("info", "count"),
            "n_attempts": ("attempts", "count"),
            "n_ended": ("ended by it?", "count"),
            "gpus": ("GPU", "text"),
            "kinds": ("what", "text"),
            "last_at": ("last", "time"),
            "action": ("action", "text"),
        },
        headline=_headline(incidents),
        ranked=("critical", "warning", "n_attempts", "n_ended", "kinds", "action"),
        queries=("incidents_in",),
        notes=(*_worst(incidents), *_coverage_note(source, window), _INCIDENT) if rows.height else (),
        when_empty=_empty(source, window),
        worth_explaining=pl.int_range(pl.len()) < MOST_EXPLAINED,
        parts={"subject": "node", "value": "critical", "attempts": "n_attempts", "ended": "n_ended"},
    )


def by_node(incidents: pl.DataFrame) -> pl.DataFrame:
    """Incidents put together by node, the worst first.

    Args:
        incidents: rows of the named query `incidents_in`.

    Returns:
        `cluster`, `node`, how many are `critical`, `warning` and `info`, `n_events`, `n_attempts` touched and `n_ended`
        (each counted once per incident), `gpus` named, `kinds` (with in how many) and `action` of its worst incidents,
        `last_at`.
    """
    key = ["cluster", "node"]
    rank = pl.col("severity").replace_strict({name: n for n, name in enumerate(SEVERITIES)}, default=len(SEVERITIES))
    worst = incidents.sort(rank, "started_at", descending=[False, True])
    gpus = pl.col("gpus").filter(pl.col("gpus") != "").str.split(",").explode().str.strip_chars()
    of_worst = worst.filter(rank == rank.min().over(key))
    return (
        worst.group_by(key, maintain_order=True)
        .agg(
            *((pl.col("severity") == name).sum().cast(pl.Int64).alias(name) for name in SEVERITIES),
            pl.col("n_events", "n_attempts", "n_ended").sum(),
            gpus.unique().sort().str.join(", ").alias("gpus"),
            pl.col("ended_at").max().alias("last_at"),
        )
        .join(_times_each(of_worst, "kinds", ", ", "{} ({})"), on=key, how="left")
        .join(_times_each(of_worst, "action", "; ", "{}"), on=key, how="left")
        .sort("critical", "n_ended", "warning", "last_at", "node", descending=[True, True, True, True, False])
    )


def _times_each(incidents: pl.DataFrame, name: str, separator: str, form: str) -> pl.DataFrame:
    """The entries of a column of lists by node: every entry once, the most frequent first.

    Args:
        incidents: with `cluster` and `node`.
        name: of the column.
        separator: of its entries.
        form: of an entry and of how many incidents have it.
    """
    key = ["cluster", "node"]
    listed = pl.col(name).cast(pl.String).str.split(separator).list.unique(maintain_order=True)
    entries = incidents.select(*key, listed).explode(name).filter(pl.col(name) != "")
    counts = entries.group_by(*key, name, maintain_order=True).agg(pl.len())
    ordered = counts.sort("len", descending=True, maintain_order=True)
    described = pl.format(form, name, "len") if form.count("{}") == 2 else pl.col(name)
    return ordered.group_by(key, maintain_order=True).agg(described.str.join(separator).alias(name))


def _by_attempt(source: Reader, window: Window) -> Answer:
    of_it = pl.when("at_end").then(pl.lit("yes")).otherwise(pl.lit("no"))
    rows = source.query("incident_attempts_in", **window.parameters).with_columns(of_it.alias("ended_of_it"))
    return Answer(
        "Attempts that incidents touched, the newest first",
        rows,
        {
            "started_at": ("when", "time"),
            "job_id": ("job", "text"),
            "user": ("user", "text"),
            "run_id": ("run", "text"),
            "node": ("node", "text"),
            "gpus": ("GPUs", "text"),
            "severity": ("severity", "text"),
            "kinds": ("what", "text"),
            "n_events": ("events", "count"),
            "state": ("attempt", "text"),
            "ended_at": ("ended", "time"),
            "ended_of_it": ("may be why", "text"),
        },
        headline=_touched(rows),
        ranked=("job_id", "node", "kinds", "state", "ended_of_it", "severity", "user"),
        queries=("incident_attempts_in",),
        notes=(_INCIDENT,) if rows.height else (),
        when_empty=(
            _empty(source, window)
            if _incidents(source, window).is_empty()
            else "No incident of this window touched an attempt."
        ),
        worth_explaining=pl.int_range(pl.len()) < MOST_EXPLAINED,
        parts={
            "subject": "job_id",
            "node": "node",
            "started_at": "started_at",
            "value": "n_events",
            "at_end": "at_end",
        },
    )


def _by_kind(source: Reader, window: Window) -> Answer:
    rows = source.query("health_kinds_in", **window.parameters)
    return Answer(
        "Health events by kind, the worst first",
        rows,
        {
            "kind": ("kind", "text"),
            "code": ("code", "text"),
            "severity": ("severity", "text"),
            "class": ("class", "text"),
            "n_events": ("events", "count"),
            "n_nodes": ("nodes", "count"),
            "n_gpus": ("GPUs", "count"),
            "last_at": ("last", "time"),
            "last_node": ("on", "text"),
            "action": ("action", "text"),
        },
        headline=_worst_kind(rows),
        queries=("health_kinds_in",),
        notes=("class: where such an event usually comes from: a prior, not a finding.",) if rows.height else (),
        when_empty=_empty(source, window),
        parts={"subject": "kind", "code": "code", "value": "n_events", "nodes": "n_nodes", "gpus": "n_gpus"},
    )


def _touched(rows: pl.DataFrame) -> str:
    """How many attempts incidents touched, and how many may have ended because of them."""
    if rows.is_empty():
        return ""
    attempts = counted(rows.select(frames.ATTEMPT_KEY).n_unique(), "attempt")
    ended = rows.filter("at_end").select(frames.ATTEMPT_KEY).n_unique()
    return f"Incidents touched {attempts}, of which {ended:,} may have ended because of them."


def _worst_kind(rows: pl.DataFrame) -> str:
    """The number of events, and the first kind: the worst."""
    if rows.is_empty():
        return ""
    first = rows.row(0, named=True)
    name = " ".join(filter(None, (first["kind"], first["code"])))
    return (
        f"{counted(int(rows['n_events'].sum()), 'event')} of {counted(rows.height, 'kind')}; the worst: {name} "
        f"({first['severity']}), {first['n_events']:,} on {counted(first['n_nodes'], 'node')}."
    )


def _headline(incidents: pl.DataFrame) -> str:
    """How many there are, how severe, and what they ended."""
    if incidents.is_empty():
        return ""
    critical = incidents.filter(pl.col("severity") == "critical").height
    ended = int(incidents["n_ended"].sum())
    nodes = counted(incidents["node"].n_unique(), "node")
    effect = f"; {counted(ended, 'attempt')} may have ended because of them" if ended else ""
    return f"{counted(incidents.height, 'incident')} on {nodes}, {critical:,} critical{effect}."


def _worst(incidents: pl.DataFrame) -> tuple[str, ...]:
    """What a person may do about the node with the most critical incidents. Trackside does nothing itself."""
    worst = by_node(incidents.filter(pl.col("severity") == "critical")).head(1).to_dicts()
    if not worst:
        return ()
    node, ended = worst[0]["node"], worst[0]["n_ended"]
    described = f"{counted(worst[0]['critical'], 'critical incident')}: {worst[0]['kinds']}"
    effect = f" {counted(ended, 'attempt')} may have ended because of them." if ended else ""
    action = f" The catalogue recommends: {worst[0]['action']}." if worst[0]["action"] else ""
    reason = shlex.quote(f"trackside: {described}")
    return (
        f"{node} had {described}.{effect}{action} To take it out for a check (Trackside only prints it):",
        f"  scontrol update NodeName={shlex.quote(node)} State=DRAIN Reason={reason}",
    )
