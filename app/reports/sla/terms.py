"""What a contract adds to the SLA report: outcomes, error budgets, credits, the periods before, and the cut-off."""

from __future__ import annotations

from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from app.claims import verify as verify_claims
from app.claims.contract import Terms
from app.claims.scope import EmptyScopeError, scoped_to
from app.errors import UsageError
from app.results.goodput import goodput_rows
from app.times import iso, parse_period, periods_before
from app.window import Window
from metrics import catalog
from metrics.claims.contract import Budget, budget, outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from app.claims.contract import Contract
    from metrics.claims.claim import Claim, Judged
    from metrics.claims.contract import Outcome
    from queries.warehouse import Reader

PERIODS_SHOWN = 12
"""Periods before the report's own in its trend."""

_BY_DAY = ("value", "bound_low", "bound_high", "denominator")


def parties(contract: Contract, period: Window) -> dict[str, Any]:
    """The contract as the report names it."""
    fee = contract.monthly_fee
    return {
        "agreed": contract.is_agreed,
        "provider": contract.provider,
        "customer": contract.customer,
        "number": contract.number,
        "monthly_fee": None if fee is None else f"{fee:f}",
        "currency": contract.currency,
        "credit_cap_percent": contract.credit_cap_percent,
        "zone": contract.zone or "UTC",
        "calendars": [
            {
                "file": each.file,
                "sha256": each.sha256,
                "events": sum(
                    bool(one.since and one.until and one.since < period.until and one.until > period.since)
                    for one in each.events
                ),
            }
            for each in contract.calendars
        ],
    }


def status(contract: Contract, period: Window, known_until: datetime, computed_at: datetime) -> dict[str, Any]:
    """Whether the report is final: its numbers were computed at the cut-off or later, from data of the whole period.

    Args:
        contract: with the days of the cut-off.
        period: of the report.
        known_until: where the ledger ends.
        computed_at: when the numbers were computed.
    """
    cutoff = period.until + timedelta(days=contract.cutoff_days)
    reasons = []
    if known_until < period.until:
        reasons.append(f"the data end at {iso(known_until)}, before the period does")
    if computed_at < cutoff:
        reasons.append(f"the numbers were computed at {iso(computed_at)}, before the cut-off")
    return {"final": not reasons, "cutoff": iso(cutoff), "cutoff_days": contract.cutoff_days, "reasons": reasons}


def outcome_of(contract: Contract, judged: Judged) -> dict[str, Any]:
    """The outcome of an objective by the contract's rule, with its credits."""
    terms = contract.terms.get(judged.claim.id, Terms())
    made = outcome(judged, terms.rule, terms.credits)
    return {
        "rule": made.rule,
        "result": made.result,
        "credits": [{"beyond": each.beyond, "percent": each.percent} for each in terms.credits],
        "credit_least_percent": made.credit_least,
        "credit_most_percent": _most(made, terms),
    }


def _most(made: Outcome, terms: Terms) -> float:
    """The most that may be due: all of the table where nothing was measured."""
    if made.credit_most is not None:
        return made.credit_most
    return max((each.percent for each in terms.credits), default=0.0)


def credits(contract: Contract, outcomes: Iterable[dict[str, Any]], period_text: str) -> dict[str, Any]:  # noqa: A001 - the contract's word
    """All credits of the period: percent of the fee, and the amount where the fee of the period is known.

    The fee is that of a calendar month, so amounts are of reports on one.
    """
    found = list(outcomes)
    cap = contract.credit_cap_percent
    least, most = (min(cap, sum(each[f"credit_{end}_percent"] for each in found)) for end in ("least", "most"))
    is_month = len(period_text) == len("2026-10") and period_text[5:].isdigit()
    fee = contract.monthly_fee if is_month else None
    return {
        "agreed": any(each["credits"] for each in found),
        "least_percent": least,
        "most_percent": most,
        "least_amount": _amount(fee, least),
        "most_amount": _amount(fee, most),
        "currency": contract.currency,
    }


def _amount(fee: Decimal | None, percent: float) -> str | None:
    """A share of a fee to the hundredth, half to even."""
    if fee is None:
        return None
    return f"{(fee * Decimal(repr(percent)) / 100).quantize(Decimal('0.01'), ROUND_HALF_EVEN):f}"


# Error budgets ---------------------------------------------------------------------------------------------------


def budget_of(source: Reader, window: Window, judged: Judged) -> dict[str, Any] | None:
    """The error budget of an objective, and how it was spent day by day where the metric is known by day."""
    metric = catalog.BY_NAME[judged.claim.metric]
    made = budget(judged, of_gpu_time=metric.parts is not None and metric.parts.unit == "gpu_h")
    if made is None:
        return None
    by_day = _spent_by_day(source, _own_window(window, judged), judged.claim) if "day" in metric.by else []
    return {
        "unit": made.unit,
        "allowed": made.allowed,
        "spent": made.spent,
        "spent_low": made.spent_low,
        "spent_high": made.spent_high,
        "state": _budget_state(made),
        "by_day": by_day,
    }


def _budget_state(made: Budget) -> str:
    if made.spent_low > made.allowed:
        return "exhausted"
    return "left" if made.spent_high is not None and made.spent_high <= made.allowed else "unknown"


def _own_window(window: Window, judged: Judged) -> Window:
    return Window(window.cluster, judged.since or window.since, judged.until or window.until)


def _spent_by_day(source: Reader, window: Window, claim: Claim) -> list[dict[str, Any]]:
    """What was lost by the end of each day (UTC), in GPU-seconds: at least, by the value, at most."""
    try:
        rows_of = scoped_to(source, window, claim) or source
    except EmptyScopeError:
        return []
    rows = goodput_rows(rows_of, window, "day").filter(pl.col("metric") == claim.metric).sort("subject")
    spent, found = dict.fromkeys(("spent_low", "spent", "spent_high"), 0.0), []
    unknown = False
    for day, value, low, high, whole in rows.select("subject", *_BY_DAY).iter_rows():
        if whole is None or low is None or high is None:
            continue
        unknown = unknown or value is None
        lost = {"spent_low": 1 - high, "spent": 1 - (value or 0.0), "spent_high": 1 - low}
        spent = {name: amount + lost[name] * whole for name, amount in spent.items()}
        found.append({"day": day, **spent, **({"spent": None} if unknown else {})})
    return found


# Periods before --------------------------------------------------------------------------------------------------


def trends(source: Reader, contract: Contract, cluster: str, period_text: str) -> dict[str, list[dict[str, Any]]]:
    """The same objectives in the periods of the same kind before, the last one last; by id of the objective.

    An objective with a window of its own has none. A period without data has no verdict.
    """
    claims = [claim for claim in contract.claims if claim.window is None]
    found: dict[str, list[dict[str, Any]]] = {claim.id: [] for claim in claims}
    for text in periods_before(period_text, PERIODS_SHOWN, contract.time_zone):
        for claim, row in _in_period(
            source, contract, Window(cluster, *parse_period(text, contract.time_zone)), claims
        ):
            found[claim.id].append({"period": text, **row})
    return found


def _in_period(
    source: Reader, contract: Contract, period: Window, claims: Sequence[Claim]
) -> list[tuple[Claim, dict[str, Any]]]:
    try:
        judged = verify_claims.verify(source, period, claims) if claims else []
    except UsageError:
        return [(claim, _NO_DATA) for claim in claims]
    return [(claim, _row(contract, each)) for claim, each in zip(claims, judged, strict=True)]


_NO_DATA: dict[str, Any] = {
    "value": None,
    "low": None,
    "high": None,
    "no_upper_limit": False,
    "n": None,
    "verdict": None,
    "result": None,
}


def _row(contract: Contract, judged: Judged) -> dict[str, Any]:
    measured = judged.measured
    unlimited = measured.high == float("inf")
    terms = contract.terms.get(judged.claim.id, Terms())
    return {
        "value": measured.value,
        "low": measured.low,
        "high": None if unlimited else measured.high,
        "no_upper_limit": unlimited,
        "n": measured.n,
        "verdict": judged.verdict,
        "result": outcome(judged, terms.rule).result,
    }


_COMPARED = ("value", "low", "high", "verdict")


def corrections(earlier: dict[str, Any], trend: dict[str, list[dict[str, Any]]], cluster: str) -> dict[str, Any]:
    """Numbers of an earlier report and those of the data now for its period, where the two differ.

    Args:
        earlier: the earlier report, as its JSON form has it.
        trend: the objectives in the periods before, as `trends` gives them.
        cluster: of the present report.

    Raises:
        UsageError: it is of another cluster, or of no period that the present report looks back on.
    """
    of, period = earlier["cluster"], earlier["period"]["asked"]
    if of != cluster:
        raise UsageError(f"the earlier report is on the cluster {of}, not on {cluster}")
    now = {name: row for name, rows in trend.items() for row in rows if row["period"] == period}
    if not now:
        raise UsageError(f"the earlier report is on {period}, which is none of the {PERIODS_SHOWN} periods before")
    changes = [
        {
            "objective": each["id"],
            "unit": each["unit"],
            "was": {name: each[name] for name in _COMPARED} | {"no_upper_limit": each["no_upper_limit"]},
            "now": {name: now[each["id"]][name] for name in (*_COMPARED, "no_upper_limit")},
        }
        for each in earlier["objectives"]
        if each["id"] in now and any(each[name] != now[each["id"]][name] for name in _COMPARED)
    ]
    return {
        "period": period,
        "sha256": earlier["sha256"],
        "data_version": earlier["data"]["version"],
        "claims": earlier["claims"],
        "changes": changes,
    }


def change(now: Judged, trend: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The difference to the period before: of the values, and whether the ranges lie apart."""
    before = trend[-1] if trend else None
    if before is None or before["verdict"] is None:
        return None
    measured = now.measured
    known = measured.value is not None and before["value"] is not None
    return {
        "period": before["period"],
        "value": before["value"],
        "difference": measured.value - before["value"] if known and measured.value is not None else None,
        "apart": _disjoint((measured.low, measured.high), (before["low"], _upper(before))),
    }


def _upper(row: dict[str, Any]) -> float | None:
    return float("inf") if row["no_upper_limit"] else row["high"]


def _disjoint(one: tuple[float | None, float | None], other: tuple[float | None, float | None]) -> bool | None:
    """Whether two ranges have no number in common; None where an end is unknown.

    >>> _disjoint((0.9, 0.95), (0.8, 0.85)), _disjoint((0.9, 0.95), (0.8, 0.9)), _disjoint((None, 1.0), (0.0, 1.0))
    (True, False, None)
    """
    if None in {*one, *other}:
        return None
    (low, high), (other_low, other_high) = cast("Sequence[tuple[float, float]]", (one, other))
    return high < other_low or other_high < low
