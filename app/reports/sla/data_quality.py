"""What the SLA report rests on: definitions, loads and their gaps, rejected rows, checks."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import polars as pl

from app.results import references
from app.results.coverage import coverage_of, gaps_in, share_without
from app.times import iso
from ingest.load_warnings import from_records, messages
from ingest.slurm.parsers import SNAPSHOTS
from metrics import catalog

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from app.results.coverage import Interval
    from app.window import Window
    from metrics.claims.verdict import Claim
    from queries.warehouse import Reader


def definitions(claims: Sequence[Claim], shown: Iterable[str]) -> list[dict[str, Any]]:
    """Catalog entries of every metric that the report names, in the catalog's order."""
    named = {*shown, *(claim.metric for claim in claims)}
    return [
        {
            "metric": metric.name,
            "unit": metric.unit,
            "says": metric.summary,
            "definition": metric.formula,
            "uncertainty": metric.interval,
            "source": references.readable(metric.source),
            "computed_by": metric.computed_by,
        }
        for metric in catalog.METRICS
        if metric.name in named
    ]


def data_quality(source: Reader, period: Window, gap_s: float) -> dict[str, Any]:
    """The period's loads with their gaps, the rejected rows by reason, and the checks that failed."""
    own = pl.col("cluster") == period.cluster
    loaded = source.query("status_sources").filter(own).sort("source")
    rejects = source.query("status_rejects").filter(own)
    return {
        "sources": [_source(source, row, period, gap_s) for row in loaded.iter_rows(named=True)],
        "rejected": [
            {"source": row["source"], "reason": row["reason"], "n": row["n"]} for row in rejects.iter_rows(named=True)
        ],
        "checks": [
            {"name": each.check.name, "says": each.check.description, "n": each.count, "severity": each.check.severity}
            for each in source.failed_checks()
        ],
        "checks_are_of": sorted(str(name) for name in source.query("clusters")["cluster"]),
    }


_COVERED_BY = {"prometheus.gpu": "prometheus.gpu_hours"}
"""Sources whose gaps another source covers: hourly roll-ups are made of samples."""

_NEVER_SILENT = SNAPSHOTS | {"slurm.config", "slurm.transactions"}
"""Sources without gaps: a snapshot holds until the next one, and account changes are rare."""


def _source(source: Reader, row: dict[str, Any], period: Window, gap_s: float) -> dict[str, Any]:
    """A source's loads, and its gaps in the period that are longer than those that are closed.

    A gap is `covered_by` another source of the same measurements if that source covers its time. Snapshots hold until
    the next one; like settings they have no gaps.
    """
    timed = row["covers_from"] is not None and row["source"] not in _NEVER_SILENT
    gaps = _gaps(source, row["source"], period, gap_s) if timed else ()
    counts = ("loads", "rows_read", "rows_loaded", "rows_duplicate", "rows_skipped", "rows_rejected")
    other = _COVERED_BY.get(row["source"])
    unfilled = _gaps(source, other, period, gap_s) if other else gaps
    listed: list[tuple[datetime, datetime, str | None]] = [(*each, None) for each in _both(gaps, unfilled)]
    listed += [(*each, other) for each in _both(gaps, _between(unfilled, period))]
    return {
        "source": row["source"],
        **{name: row[name] for name in counts},
        "covers_from": iso(row["covers_from"]) if row["covers_from"] else None,
        "covers_until": iso(row["covers_until"]) if row["covers_until"] else None,
        "share_of_period": share_without(period, gaps) if timed else None,
        "gaps": [
            {"since": iso(low), "until": iso(high), "covered_by": by}
            for low, high, by in sorted(listed, key=itemgetter(0))
            if (high - low).total_seconds() > gap_s
        ],
        "warnings": messages(from_records(row["last_warnings"])),
    }


def _gaps(source: Reader, name: str, period: Window, gap_s: float) -> tuple[Interval, ...]:
    return gaps_in(period, coverage_of(source, period.cluster, name, gap_s))


def _both(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    """The time that is in an interval of each."""
    overlaps = [(max(low, start), min(high, end)) for low, high in one for start, end in other]
    return [(low, high) for low, high in overlaps if low < high]


def _between(gaps: Sequence[Interval], period: Window) -> list[Interval]:
    """The time of a period that is in no gap; gaps are in order."""
    lows = [period.since, *(high for _, high in gaps)]
    highs = [*(low for low, _ in gaps), period.until]
    return list(zip(lows, highs, strict=True))
