"""The objectives and headlines of the SLA report: the value, its parts, and what the verdict rests on."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from app.results import headlines
from app.results.ettr import ettr_rows
from app.results.mfu import mfu_rows
from metrics import catalog
from metrics.categories import EVIDENCE_KINDS

if TYPE_CHECKING:
    from app.window import Window
    from metrics.claims.verdict import Judged
    from metrics.mfu.mfu import Convention
    from queries.warehouse import Reader


def parts_of(source: Reader, window: Window, judged: Judged, shown: dict[str, headlines.Headline]) -> dict[str, Any]:
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


def objective(judged: Judged, behind: dict[str, Any]) -> dict[str, Any]:
    """A verdict with its target, its measurement, and `behind`: the parts of the number."""
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


def excluded(judged: Judged) -> Decimal:
    """GPU-seconds that a claim leaves out, to the millisecond."""
    return Decimal(str(round(judged.measured.excluded_gpu_s or 0.0, 3)))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def headline_row(each: headlines.Headline) -> dict[str, Any]:
    """A headline as the report's JSON form holds it."""
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
