"""Verdicts as text: `compute` stores them with the data version, and who verifies the same claims reads them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from metrics.claims.claim import Judged, Measurement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.window import Window
    from metrics.claims.claim import Claim


def fact_of(cluster: str) -> str:
    """Fact of the warehouse that holds a cluster's verdicts; the named query `stored_verdicts` reads it."""
    return f"verdicts of {cluster}"


def as_text(judged: Sequence[Judged], requested: Window) -> str:
    """The verdicts on claims in a requested period, as JSON."""
    return json.dumps({_digest(each.claim, requested): _row(each) for each in judged})


def from_text(text: str, requested: Window, claims: Sequence[Claim]) -> list[Judged] | None:
    """The verdicts on these claims; None if there is none on one of them in that period."""
    rows = json.loads(text)
    stored = [(claim, rows.get(_digest(claim, requested))) for claim in claims]
    return None if any(row is None for _, row in stored) else [_judged(claim, row) for claim, row in stored]


def _row(judged: Judged) -> dict[str, Any]:
    return {
        "measured": asdict(judged.measured),
        "verdict": judged.verdict,
        "since": judged.since and judged.since.isoformat(),
        "until": judged.until and judged.until.isoformat(),
        "adjudications": judged.adjudications,
        "share": judged.share,
    }


def _judged(claim: Claim, row: dict[str, Any]) -> Judged:
    since, until = (row[end] and datetime.fromisoformat(row[end]) for end in ("since", "until"))
    return Judged(
        claim, _measurement(row["measured"]), row["verdict"], since, until, row["adjudications"], row["share"]
    )


def _measurement(values: dict[str, Any]) -> Measurement:
    lists = {"beside": tuple(values["beside"]), "evidence": tuple((kind, share) for kind, share in values["evidence"])}
    return Measurement(**values | lists)


def _digest(claim: Claim, requested: Window) -> str:
    """Changes when the claim does, or the period, or what a measurement consists of."""
    ends = requested.since.timestamp(), requested.until.timestamp()
    text = repr((_MEASURED, claim, requested.cluster, *ends))
    return hashlib.sha256(text.encode()).hexdigest()


_MEASURED: Final = tuple(field.name for each in (Measurement, Judged) for field in fields(each))
