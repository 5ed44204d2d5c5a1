"""The contents of the SLA report: one plain value, made of the numbers of `app.results` and `app.claims`.

Nothing is computed here that has a definition of its own: this module queries, sorts, counts and adds up. The value is
the report's JSON form; `app.reports.sla.page` renders it as HTML.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import re
from collections import Counter
from decimal import Decimal
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from app.claims import verify as verify_claims
from app.corrections import records as adjudications
from app.corrections.describe import describe
from app.errors import UsageError
from app.json_text import as_json, finite
from app.reports.sla import terms
from app.results import headlines, references
from app.results.constants import constants_of
from app.results.coverage import coverage_of, covered, gaps_in, share_without
from app.results.ettr import ettr_rows
from app.results.failures.failure_rates import failure_rate_rows
from app.results.failures.interruptions import interruption_costs, restart_rows
from app.results.goodput import goodput_rows, lost_rows
from app.results.mfu import mfu_rows
from app.results.nodes.capacity import nodes_by_accounting
from app.results.windows import ledger_sums
from app.times import iso, parse_period
from app.window import Window
from dashboards.palette import SWATCHES, Swatch
from ingest.load_warnings import from_records, messages
from ingest.slurm.parsers import SNAPSHOTS
from metrics import catalog
from metrics.categories import EVIDENCE_KINDS
from queries.sql_files import literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, tzinfo
    from pathlib import Path

    from app.claims.contract import Contract
    from app.results.coverage import Interval
    from metrics.claims.verdict import Claim, Judged
    from metrics.mfu.mfu import Convention
    from queries.warehouse import Reader

Document = dict[str, Any]

FORM_VERSION = 2
"""Counts up when a reader of the JSON form would have to change."""

INCIDENTS_SHOWN = 40
"""Interruptions that are listed; the others are counted."""


def origin_of_claims(path: Path | None) -> dict[str, str | None]:
    """The origin of the claims: the file's name and digest; null for Trackside's own."""
    if path is None:
        return {"file": None, "sha256": None}
    return {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def document(  # noqa: PLR0917 - all are needed, in their natural order
    source: Reader,
    requested: Window,
    period_text: str,
    contract: Contract,
    origin: dict[str, str | None],
    earlier: Document | None = None,
) -> Document:
    """The report of a period as a value that JSON can hold.

    Args:
        source: a published copy.
        requested: the cluster and the period.
        period_text: the period as typed.
        contract: the objectives to judge, and their terms.
        origin: of the claims.
        earlier: the report of an earlier period, to compare with what the data give for it now.

    Raises:
        UsageError: nothing has been computed, or the period has no data.
    """
    computed = _computed(source, requested.cluster)
    constants = constants_of(computed["constants"])
    period, period_text = _period(requested, period_text, contract.time_zone)
    claims = contract.claims
    coverage = covered(source, period)
    window = coverage.window
    judged = verify_claims.verify(source, period, claims)
    shown = {each.metric: each for each in headlines.headlines(source, window)}
    trends = terms.trends(source, contract, window.cluster, period_text)
    outcomes = [terms.outcome_of(contract, each) for each in judged]
    return {
        "report": "sla",
        "form_version": FORM_VERSION,
        "trackside": importlib.metadata.version("trackside"),
        "cluster": window.cluster,
        "period": {"asked": period_text, "since": iso(period.since), "until": iso(period.until)},
        "covered": {
            "since": iso(window.since),
            "until": iso(window.until),
            "share": coverage.share,
            "missing_s": sum((high - low).total_seconds() for low, high in coverage.gaps),
            "gaps": [{"since": iso(low), "until": iso(high)} for low, high in coverage.gaps],
        },
        "data": {
            "version": source.data_version,
            "computed_at": iso(computed["computed_at"]),
            "ledger_since": iso(computed["since"]),
            "ledger_until": iso(computed["until"]),
            "loads_since_computed": int(source.query("loads_since_computed", cluster=window.cluster)["loads"].item()),
        },
        "claims": origin,
        "status": terms.status(contract, period, computed["until"], computed["computed_at"]),
        "contract": terms.parties(contract, period),
        "credits": terms.credits(contract, outcomes, period_text),
        "summary": {
            verdict: sum(each.verdict == verdict for each in judged)
            for verdict in ("supported", "refuted", "undetermined")
        },
        "objectives": [
            _objective(each, _parts_of(source, window, each, shown))
            | {"outcome": result, "budget": terms.budget_of(source, window, each)}
            | {"trend": trends.get(each.claim.id, []), "before": terms.change(each, trends.get(each.claim.id, []))}
            for each, result in zip(judged, outcomes, strict=True)
        ],
        "headlines": [_headline(each) for each in shown.values()],
        "gpu_time": _gpu_time(source, window),
        "daily": _daily(source, window, claims),
        "incidents": _incidents(source, window),
        "failure_rates": _failure_rates(source, window),
        "exclusions": {
            "declared": [
                {"claim": one.claim.id, "says": each.words()} for one in judged for each in one.claim.exclusions
            ],
            "gpu_seconds": exact(sum((_excluded(each) for each in judged), Decimal(0))),
        },
        "adjudications": [
            {
                "id": each.id,
                "author": each.author,
                "made_at": iso(each.made_at),
                "says": describe(each),
                "reason": each.reason,
            }
            for each in adjudications.counting_in(source, window)
        ],
        "corrected": None if earlier is None else terms.corrections(earlier, trends, window.cluster),
        "definitions": _definitions(claims, shown),
        "ledger_categories": [
            {"category": each.name, "state": each.state, "title": each.label, "says": each.meaning} for each in SWATCHES
        ],
        "constants": constants,
        "data_quality": _data_quality(source, period, constants["coverage_gap_hours"] * 3600),
        "reproduce": _reproduce(period, window, period_text, claims, origin["file"]),
    }


def read_report(path: Path) -> Document:
    """A report from its JSON form.

    Raises:
        UsageError: it cannot be read, is none of this form, or is not as it was written.
    """
    try:
        made = json.loads(path.read_bytes())
        if (made["report"], made["form_version"]) != ("sla", FORM_VERSION):
            raise UsageError(f"{path}: a report of form {made['form_version']}; this Trackside reads {FORM_VERSION}")
        claimed, counted = made["sha256"], digest(made)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{path} is no SLA report in JSON (trackside report sla --format json)") from None
    if claimed != counted:
        raise UsageError(f"{path} is not as it was written: its digest is {claimed}, its contents give {counted}")
    return cast("Document", made)


def sealed(made: Document) -> Document:
    """The report with the digest of its other contents."""
    plain: Document = finite(made)
    return plain | {"sha256": digest(plain)}


def digest(made: Document) -> str:
    """sha256 over the report without its own digest: JSON with sorted keys, no blanks, UTF-8."""
    rest = {key: value for key, value in made.items() if key != "sha256"}
    return hashlib.sha256(as_json(rest, sort_keys=True, compact=True).encode()).hexdigest()


def encoded(made: Document) -> bytes:
    """The JSON form."""
    return (as_json(made, indent=2) + "\n").encode()


def _computed(source: Reader, cluster: str) -> dict[str, Any]:
    computed = source.query("computed", cluster=cluster)
    if computed.is_empty():
        raise UsageError(f"{cluster}: nothing has been computed yet. Run: trackside compute")
    return computed.row(0, named=True)


def _period(requested: Window, text: str, zone: tzinfo) -> tuple[Window, str]:
    """The whole of all shares: the named period, or the window itself where it goes beyond the period."""
    since, until = parse_period(text, zone)
    if since <= requested.since and requested.until <= until:
        return Window(requested.cluster, since, until), text.strip()
    return requested, f"{_moment(requested.since)}..{_moment(requested.until)}"


# Objectives ------------------------------------------------------------------------------------------------------


def _parts_of(source: Reader, window: Window, judged: Judged, shown: dict[str, headlines.Headline]) -> dict[str, Any]:
    """Numerator, denominator and evidence of a claim's metric, as `show` prints them.

    The number of a part of the cluster or of another window, which `show` does not print, is as measured.
    """
    claim, measured = judged.claim, judged.measured
    if claim.narrowed is not None:
        parts = {"numerator": measured.numerator, "denominator": measured.denominator}
        return parts | {"evidence": dict(measured.evidence), "note": None}
    headline = shown.get(claim.metric)
    if headline is not None and headlines.headline_is_of(claim, headline):
        return _parts(headline)
    if claim.metric == "mttf" and claim.gpus is not None:
        return _parts(headlines.mttf_at(source, window, claim.gpus))
    if claim.metric == "mfu":
        rows = mfu_rows(source, window, cast("Convention | None", claim.flop_convention))
    else:
        rows = ettr_rows(source, window, min_run_s=claim.min_run_s).filter(pl.col("metric") == claim.metric)
    return _row_parts(rows.row(0, named=True)) if rows.height else _NOTHING


_NOTHING: dict[str, Any] = {"numerator": None, "denominator": None, "evidence": {}, "note": None}


def _parts(headline: headlines.Headline) -> dict[str, Any]:
    return {
        "numerator": headline.numerator,
        "denominator": headline.denominator,
        "evidence": dict(headline.evidence),
        "note": headline.note,
    }


def _row_parts(row: dict[str, Any]) -> dict[str, Any]:
    shares = {kind: row[f"evidence_{kind}"] for kind in EVIDENCE_KINDS if row[f"evidence_{kind}"]}
    return {
        "numerator": row["numerator"],
        "denominator": row["denominator"],
        "evidence": shares,
        "note": row["note"],
    }


def _objective(judged: Judged, behind: dict[str, Any]) -> Document:
    claim, measured = judged.claim, judged.measured
    return {
        "id": claim.id,
        "verdict": judged.verdict,
        "quoted": claim.quoted,
        "read_as": claim.read_as,
        "kind": claim.kind,
        "metric": claim.metric,
        "unit": claim.unit,
        "direction": claim.direction,
        "target": claim.target,
        "gpus": claim.gpus,
        "min_run_s": claim.min_run_s,
        "flop_convention": claim.flop_convention,
        "dtype": claim.dtype,
        "value": measured.value,
        "low": _finite(measured.low),
        "high": _finite(measured.high),
        "no_upper_limit": measured.high == math.inf,
        "n": measured.n,
        "method": measured.method,
        "needed": measured.needed if judged.verdict == "undetermined" else None,
        "narrowed": claim.narrowed,
        "beside": list(measured.beside),
        "level": measured.level,
        "excluded_s": measured.excluded_s,
        "excluded_gpu_seconds": measured.excluded_gpu_s,
        "adjudications": judged.adjudications,
        **behind,
        "definition": catalog.BY_NAME[claim.metric].formula,
    }


def _excluded(judged: Judged) -> Decimal:
    """GPU-seconds that a claim leaves out, to the millisecond."""
    return Decimal(str(round(judged.measured.excluded_gpu_s or 0.0, 3)))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _headline(each: headlines.Headline) -> Document:
    return {
        "metric": each.metric,
        "title": each.title,
        "unit": each.unit,
        "value": each.value,
        "numerator": each.numerator,
        "denominator": each.denominator,
        "n": each.n,
        "bound_low": each.bound_low,
        "bound_high": each.bound_high,
        "ci_low": each.ci_low,
        "ci_high": each.ci_high,
        "evidence": dict(each.evidence),
        "note": each.note,
        "show": each.show,
    }


# GPU-time --------------------------------------------------------------------------------------------------------


def _gpu_time(source: Reader, window: Window) -> Document:
    """Every GPU-second of the window by category, and whether they add up to capacity."""
    rows = lost_rows(source, window).to_dicts()
    capacity = source.query("capacity_in", **window.parameters).item()
    total = sum((row["gpu_seconds"] for row in rows), Decimal(0))
    return {
        "capacity_gpu_seconds": exact(capacity or Decimal(0)),
        "capacity_note": nodes_by_accounting(source, window),
        "ledger_gpu_seconds": exact(total),
        "sums_to_capacity": total == (capacity or Decimal(0)),
        "categories": [_category(each, rows) for each in SWATCHES],
    }


def _category(swatch: Swatch, rows: Iterable[dict[str, Any]]) -> Document:
    own = [row for row in rows if row["category"] == swatch.name]
    seconds = sum((row["gpu_seconds"] for row in own), Decimal(0))
    return {
        "category": swatch.name,
        "state": swatch.state,
        "title": swatch.label,
        "gpu_seconds": exact(seconds),
        "gpu_hours": float(seconds) / 3600,
        "share": sum(row["share"] for row in own),
        "parts": [
            {
                "cause": row["cause"],
                "evidence": row["evidence"],
                "gpu_seconds": exact(row["gpu_seconds"]),
                "share": row["share"],
            }
            for row in own
        ],
    }


def exact(amount: Decimal) -> str:
    """A decimal number as text, with all its digits and no more.

    >>> exact(Decimal("7200.500000000")), exact(Decimal("7200.000000000")), exact(Decimal(0))
    ('7200.5', '7200', '0')
    """
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _daily(source: Reader, window: Window, claims: Sequence[Claim]) -> Document:
    """Day by day (UTC): where the GPU-time went, and the ratios of the objectives."""
    daily = (claim.metric for claim in claims if "day" in catalog.BY_NAME[claim.metric].by)
    metrics = dict.fromkeys(["goodput_allocated", *daily])
    ratios = goodput_rows(source, window, "day").sort("subject")
    sums = (
        ledger_sums(source, window, "day")
        .group_by("subject", "category")
        .agg(pl.col("gpu_seconds").sum())
        .sort("subject", "category")
    )
    days = sorted(set(sums["subject"]))
    by_day: dict[str, dict[str, str]] = {day: {} for day in days}
    for day, category, seconds in sums.iter_rows():
        by_day[day][category] = exact(seconds)
    columns = ("value", "bound_low", "bound_high", "numerator", "denominator")
    return {
        "days": days,
        "gpu_seconds": [by_day[day] for day in days],
        "metrics": {
            metric: [
                {"day": row["subject"], **{name: row[name] for name in columns}}
                for row in ratios.filter(pl.col("metric") == metric).iter_rows(named=True)
            ]
            for metric in metrics
        },
    }


# Failures --------------------------------------------------------------------------------------------------------


def _incidents(source: Reader, window: Window) -> Document:
    """Interruptions by infrastructure, those of most GPUs first."""
    period = window.parameters
    everything = source.query("interruptions", **period)
    which = ["run_id", "attempt_no"]
    restarted = restart_rows(source, window).select(*which, "restarted_at", "time_to_job_restart_s")
    costs = interruption_costs(source, window, "infrastructure").select(*which, "cost_gpu_s")
    people = source.query("runs", **period).select("run_id", "user", "account")
    interrupted = (
        everything.filter(pl.col("class") == "infrastructure")
        .join(restarted, on=which, how="left")
        .join(costs, on=which, how="left")
        .join(people, on="run_id", how="left")
        .sort("n_gpus", "ended_at", "job_id", "submitted_at", descending=[True, False, False, False], nulls_last=True)
    )
    classes = Counter(everything["class"])
    rest = interrupted.slice(INCIDENTS_SHOWN)
    return {
        "n": interrupted.height,
        "n_incidents": interrupted["incident"].n_unique() if interrupted.height else 0,
        "cost_gpu_hours": math.fsum(interrupted["cost_gpu_s"].drop_nulls()) / 3600,
        "n_without_cost": interrupted["cost_gpu_s"].null_count(),
        "shown": [_incident(row) for row in interrupted.head(INCIDENTS_SHOWN).iter_rows(named=True)],
        "not_shown": {"n": rest.height, "gpus": float(rest["n_gpus"].sum() or 0)},
        "by_cause": dict(sorted(Counter(interrupted["cause"]).items(), key=lambda each: (-each[1], each[0]))),
        "interruptions_by_class": dict(sorted(classes.items(), key=lambda each: (-each[1], each[0]))),
    }


def _incident(row: dict[str, Any]) -> Document:
    return {
        "ended_at": iso(row["ended_at"]),
        "run_id": row["run_id"],
        "attempt_no": row["attempt_no"],
        "user": row["user"],
        "account": row["account"],
        "state": row["state"],
        "cause": row["cause"],
        "node": row["node"],
        "n_gpus": None if row["n_gpus"] is None else float(row["n_gpus"]),
        "runtime_s": row["runtime_s"],
        "incident": row["incident"],
        "evidence": row["evidence"],
        "detail": row["detail"],
        "restarted_at": None if row["restarted_at"] is None else iso(row["restarted_at"]),
        "time_to_job_restart_s": row["time_to_job_restart_s"],
        "cost_gpu_hours": None if row["cost_gpu_s"] is None else row["cost_gpu_s"] / 3600,
    }


_RATE = ("class", "counted", "size", "n_failures", "n_attempts", "n_censored", "exposure_gpu_days",
         "rate_per_gpu_day", "phi", "phi_p", "rate_low", "rate_high", "mttf_d", "mttf_low_d", "mttf_high_d",
         "note")  # fmt: skip


def _failure_rates(source: Reader, window: Window) -> list[Document]:
    rates = failure_rate_rows(source, window).filter((pl.col("n_attempts") > 0) | (pl.col("n_failures") > 0))
    return rates.select(_RATE).to_dicts()


# What it rests on ------------------------------------------------------------------------------------------------


def _definitions(claims: Sequence[Claim], shown: Iterable[str]) -> list[Document]:
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


def _data_quality(source: Reader, period: Window, gap_s: float) -> Document:
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


def _source(source: Reader, row: dict[str, Any], period: Window, gap_s: float) -> Document:
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


def _reproduce(
    requested: Window, window: Window, period_text: str, claims: Sequence[Claim], file: str | None
) -> list[Document]:
    """Commands that reproduce every number of the report.

    They name the requested period: a verdict is on the whole of it, whatever part the data cover.
    """
    where = (
        f"--cluster {_quoted(requested.cluster)} --since {_moment(requested.since)} --until {_moment(requested.until)}"
    )
    own = f" --claims {_quoted(file)}" if file else ""
    sizes = sorted({claim.gpus for claim in claims if claim.metric == "mttf" and claim.gpus})
    period = f"--period {_quoted(period_text)} --cluster {_quoted(requested.cluster)}"
    commands = [
        ("this report", f"trackside report sla {period}{own}"),
        ("the verdicts", f"trackside verify {where}{own}"),
        ("goodput, occupancy, availability", f"trackside show goodput {where} --explain"),
        ("the same by day", f"trackside show goodput --by day {where}"),
        ("ETTR", f"trackside show ettr {where} --explain"),
        ("MFU", f"trackside show mfu {where} --explain"),
        *((f"MTTF at {size:,.10g} GPUs", f"trackside show mttf --at {size:g} {where} --explain") for size in sizes),
        ("restarts, each", f"trackside show restarts --by event {where}"),
        ("where the GPU-time went", f"trackside show lost {where} --explain"),
        ("interruptions, each", f"trackside show interruptions {where}"),
        ("the ledger by category, in SQL", f"trackside sql {_in_shell(ledger_sql(window))}"),
        ("all the rows of the ledger", "trackside export gpu_time -o gpu_time.parquet"),
        ("refused input rows", "trackside export rejects"),
    ]
    with_mfu = any(claim.metric == "mfu" for claim in claims)
    return [{"what": what, "command": command} for what, command in commands if what != "MFU" or with_mfu]


def ledger_sql(window: Window) -> str:
    """SQL that sums the ledger by category within the window, for readers to run and check."""
    low, high = (f"TIMESTAMPTZ '{moment.isoformat()}'" for moment in (window.since, window.until))
    return (
        "SELECT state, category, SUM(gpus * (epoch_us(LEAST(ended_at, "  # noqa: S608 - printed, never run by us
        f"{high})) - epoch_us(GREATEST(started_at, {low}))) / 1e6) AS gpu_seconds FROM gpu_time "
        f"WHERE cluster = {literal(window.cluster)} AND ended_at > {low} AND started_at < {high} "
        "GROUP BY ALL ORDER BY ALL"
    )


def _in_shell(sql: str) -> str:
    """SQL as an argument that people can still read, unless a cluster's name forbids it."""
    return _quoted(sql) if re.search(r'["$`\\!]', sql) else f'"{sql}"'


def _moment(moment: datetime) -> str:
    """A moment with all its digits: windows may begin within a second."""
    return moment.isoformat().replace("+00:00", "Z")


def _quoted(text: str) -> str:
    import shlex  # noqa: PLC0415 - only here

    return shlex.quote(text)
