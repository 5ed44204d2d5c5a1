"""The contents of the SLA report: one plain value, made of the numbers of `app.results` and `app.claims`.

Nothing is computed here that has a definition of its own: this module queries, sorts, counts and adds up. The value is
the report's JSON form; `app.reports.sla.page` renders it as HTML.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from app.claims import verify as verify_claims
from app.corrections import records as adjudications
from app.corrections.describe import describe
from app.errors import UsageError
from app.json_text import as_json, finite
from app.reports.sla import terms
from app.reports.sla.commands import precise, reproduce
from app.reports.sla.data_quality import data_quality, definitions
from app.reports.sla.gpu_time import daily, exact, gpu_time
from app.reports.sla.incidents import failure_rates, incidents, published_rates
from app.reports.sla.objectives import excluded, headline_row, objective, parts_of
from app.results import headlines
from app.results.constants import constants_of
from app.results.coverage import covered
from app.times import iso, parse_period
from app.window import Window
from dashboards.palette import SWATCHES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from app.claims.contract import Contract
    from app.results.coverage import CoveredPeriod
    from metrics.claims.claim import Judged
    from queries.warehouse import Reader

Document = dict[str, Any]

FORM_VERSION = 2
"""Counts up when a reader of the JSON form would have to change."""


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
        "covered": _covered(coverage),
        "data": _data(source, computed, window.cluster),
        "claims": origin,
        "status": terms.status(contract, period, computed["until"], computed["computed_at"]),
        "contract": terms.parties(contract, period),
        "credits": terms.credits(contract, outcomes, period_text),
        "summary": {
            verdict: sum(each.verdict == verdict for each in judged)
            for verdict in ("supported", "refuted", "undetermined")
        },
        "objectives": [
            objective(each, parts_of(source, window, each, shown))
            | {"outcome": result, "budget": terms.budget_of(source, window, each)}
            | {"trend": trends.get(each.claim.id, []), "before": terms.change(each, trends.get(each.claim.id, []))}
            for each, result in zip(judged, outcomes, strict=True)
        ],
        "headlines": [headline_row(each) for each in shown.values()],
        "gpu_time": gpu_time(source, window),
        "daily": daily(source, window, claims),
        "incidents": incidents(source, window),
        "failure_rates": failure_rates(source, window),
        "published_rates": published_rates(source, window),
        "exclusions": _exclusions(judged),
        "adjudications": _adjudications(source, window),
        "corrected": None if earlier is None else terms.corrections(earlier, trends, window.cluster),
        "definitions": definitions(claims, shown),
        "ledger_categories": [
            {"category": each.name, "state": each.state, "title": each.label, "says": each.meaning} for each in SWATCHES
        ],
        "constants": constants,
        "data_quality": data_quality(source, period, constants["coverage_gap_hours"] * 3600),
        "reproduce": reproduce(period, window, period_text, claims, origin["file"]),
    }


def _covered(coverage: CoveredPeriod) -> dict[str, Any]:
    """The part of the period that data cover."""
    window = coverage.window
    return {
        "since": iso(window.since),
        "until": iso(window.until),
        "share": coverage.share,
        "missing_s": sum((high - low).total_seconds() for low, high in coverage.gaps),
        "gaps": [{"since": iso(low), "until": iso(high)} for low, high in coverage.gaps],
    }


def _data(source: Reader, computed: dict[str, Any], cluster: str) -> dict[str, Any]:
    """The state of the warehouse, and of the computation that the report is from."""
    return {
        "version": source.data_version,
        "computed_at": iso(computed["computed_at"]),
        "ledger_since": iso(computed["since"]),
        "ledger_until": iso(computed["until"]),
        "loads_since_computed": int(source.query("loads_since_computed", cluster=cluster)["loads"].item()),
    }


def _exclusions(judged: Sequence[Judged]) -> dict[str, Any]:
    """What the claims leave out, and the GPU-seconds of it."""
    declared = [{"claim": one.claim.id, "says": each.words()} for one in judged for each in one.claim.exclusions]
    return {"declared": declared, "gpu_seconds": exact(sum((excluded(each) for each in judged), Decimal(0)))}


def _adjudications(source: Reader, window: Window) -> list[dict[str, Any]]:
    """The corrections that count in the window."""
    return [
        {
            "id": each.id,
            "author": each.author,
            "made_at": iso(each.made_at),
            "says": describe(each),
            "reason": each.reason,
        }
        for each in adjudications.counting_in(source, window)
    ]


def read_report(path: Path, forms: Mapping[str, int] | None = None) -> Document:
    """A report from its JSON form.

    Args:
        path: of the file.
        forms: kinds of reports, each with its form's version; None: SLA reports.

    Raises:
        UsageError: it cannot be read, is none of this form, or is not as it was written.
    """
    try:
        made = json.loads(path.read_bytes())
        readable = ({"sla": FORM_VERSION} if forms is None else forms)[made["report"]]
        if made["form_version"] != readable:
            raise UsageError(f"{path}: a report of form {made['form_version']}; this Trackside reads {readable}")
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
    return requested, f"{precise(requested.since)}..{precise(requested.until)}"
