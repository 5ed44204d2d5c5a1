"""The numbers of the SLA report as texts, as PDF and Markdown print them, and HTML in part."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from app.claims.printed import word_of
from app.formatting import display, measured
from app.reports.sla import drawings, rates
from app.reports.sla.formats import covered_percent, days_of, exact_seconds, known_trend, moment, parts_of, period_title
from dashboards.palette import ORDER, swatch
from ingest.counted import counted
from metrics.catalog import METRICS

if TYPE_CHECKING:
    from app.reports.sla.document import Document

RULES = {
    "verdict": "the verdict decides",
    "value": "the value alone decides",
    "worse_end": "the end that is worse for the provider decides: unobserved time counts against it",
}
"""What a contract's rule means."""

BUDGETS = {
    "exhausted": "exhausted",
    "left": "not exhausted",
    "unknown": "unknown whether it is exhausted",
}
"""States of an error budget."""

KINDS = (
    "A delivered objective is about the past of the period. Its range is given by bounds: unobserved time counted all "
    "unproductive, and all productive. A capability is about what the system would do again. Its range is a 95 % "
    "confidence interval. An objective is supported if the whole range meets the target, refuted if none of it does, "
    "and otherwise undetermined."
)
"""How verdicts are made."""

_TITLES = {metric.name: metric.title for metric in METRICS}


def words_of(r: Document) -> dict[str, Any]:
    """The report's texts.

    Args:
        r: the report.

    Returns:
        Texts, lists of texts, and shares from 0 to 1 for what is drawn.
    """
    until = datetime.fromisoformat(r["period"]["until"]).date()
    days = days_of(r)
    return {
        "title": f"{r['cluster']}, {period_title(r['period']['asked'])}",
        "period": period_title(r["period"]["asked"]),
        "until": [until.year, until.month, until.day],
        "interval": _interval(r),
        "facts": _facts(r),
        "notices": _notices(r),
        "kinds": KINDS,
        "credits": credits_in_words(r),
        "objectives": [_objective(each, r) for each in r["objectives"]],
        "categories": [_category(each) for each in r["gpu_time"]["categories"] if each["gpu_seconds"] != "0"],
        "categories_alt": _shares(r),
        "sums": _sums(r),
        "days": _days(r, days),
        "days_alt": f"GPU-time by category for each of {len(days)} days; the table above has the sums.",
        "first_day": days[0],
        "last_day": days[-1],
        "incidents": _incidents(r["incidents"]),
        "incident_rows": [_incident(each) for each in r["incidents"]["shown"]],
        "rates": {"header": rates.RATES_HEADER, "rows": rates.rate_rows(r), "note": rates.RATES_NOTE},
        "published": {"header": rates.PUBLISHED_HEADER, "rows": rates.published_rows(r), "note": rates.PUBLISHED_NOTE},
        "exclusions": _exclusions(r),
        "sources": [_source(each) for each in r["data_quality"]["sources"]],
        "quality": _quality(r["data_quality"]),
        "constants": [(name, constant(value)) for name, value in sorted(r["constants"].items())],
    }


def _interval(r: Document) -> str:
    since, until = (moment(r["period"][end]) for end in ("since", "until"))
    zone = r["contract"]["zone"]
    local = "" if zone == "UTC" else f"; the period begins and ends at midnight of {zone}"
    return f"{since} to {until}, the end not included. All times are UTC{local}."


def _facts(r: Document) -> list[tuple[str, str]]:
    contract = r["contract"]
    parties = " for ".join(each for each in (contract["provider"], contract["customer"]) if each)
    named = ": ".join(each for each in (contract["number"], parties) if each)
    capacity = display(float(r["gpu_time"]["capacity_gpu_seconds"]), "gpu_h")
    return [
        ("Cluster", r["cluster"]),
        *([("Contract", named)] if named else []),
        ("Share of the period with data", covered_percent(r["covered"]["share"])),
        ("Capacity in that time", f"{capacity} GPU-hours"),
        ("State of this report", status_in_words(r["status"])),
        ("Objectives from", _origin(r["claims"])),
        ("Numbers computed", moment(r["data"]["computed_at"])),
        ("Data version, Trackside", f"{r['data']['version']}, {r['trackside']}"),
        ("This report", f"sha256 {r['sha256']}"),
    ]


def status_in_words(status: Document) -> str:
    """Whether the report is final, or until when and why it is not."""
    if status["final"]:
        return f"final: computed after the cut-off of {moment(status['cutoff'])}"
    days = f"{status['cutoff_days']} days after the period"
    return f"provisional until {moment(status['cutoff'])} ({days}): {'; '.join(status['reasons'])}"


def _origin(claims: Document) -> str:
    if claims["file"] is None:
        return "the vendor's headlines that come with Trackside: examples, not a contract"
    return f"{claims['file']}, sha256 {claims['sha256'][:16]}"


def _notices(r: Document) -> list[str]:
    covered, notices = r["covered"], []
    if covered["share"] < 1:
        missing, share = display(covered["missing_s"], "seconds"), covered_percent(covered["share"])
        notices.append(
            f"Only {share} of the period is covered by data; {missing} are missing and "
            "in no number below. Objectives about the whole period (kind: delivered) therefore stay undetermined. "
            f"Missing: {_gaps(covered['gaps'])}."
        )
    if r["data"]["loads_since_computed"]:
        notices.append(
            f"{counted(r['data']['loads_since_computed'], 'load')} of data came after the numbers were computed, and "
            "is not in them. Run trackside compute and write the report again."
        )
    return notices


def _gaps(gaps: list[Document]) -> str:
    """The first gaps, and how many more there are."""
    named = [f"{moment(gap['since'])} to {moment(gap['until'])}" for gap in gaps[:GAPS_SHOWN]]
    return "; ".join(named + ([f"and {len(gaps) - GAPS_SHOWN} more"] if len(gaps) > GAPS_SHOWN else []))


GAPS_SHOWN = 6
"""Times without data that are named."""


def credits_in_words(r: Document) -> str | None:
    """The credits of the period; None where none are agreed."""
    credits = r["credits"]  # noqa: A001 - the contract's word
    if not credits["agreed"]:
        return None
    percents = _ends(_number(credits["least_percent"]), _number(credits["most_percent"]))
    amounts = _ends(_money(credits["least_amount"]), _money(credits["most_amount"]))
    cap = r["contract"]["credit_cap_percent"]
    parts = [f"{percents} % of the fee"]
    parts += [f", {amounts} {credits['currency']}"] if amounts else []
    parts += [f" (at most {_number(cap)} %)"] if cap < 100 else []
    if credits["least_percent"] != credits["most_percent"]:
        parts.append(". The lower number is due in any case; the rest depends on what is still undecided")
    parts += [] if r["status"]["final"] else [". Provisional, as this report is"]
    return "".join(parts) + "."


def _money(amount: str | None) -> str | None:
    return None if amount is None else f"{Decimal(amount):,f}"


def _ends(low: str | None, high: str | None) -> str:
    return "" if low is None or high is None else low if low == high else f"{low} to {high}"


def _number(value: float) -> str:
    return f"{value:,.10g}"


# Objectives ------------------------------------------------------------------------------------------------------


def _objective(o: Document, r: Document) -> dict[str, Any]:
    unit = o["unit"]
    note = o["note"] if o["note"] and o["note"] not in (o["method"] or "") else None
    small = [o["definition"], f"Method: {o['method']}" if o["method"] else None, f"Note: {note}" if note else None]
    return {
        "measure": _measure(o),
        "target": _target(o),
        "verdict": word_of(o["verdict"], o["quoted"]),
        "value": measured(o["value"], unit, digits=2),
        "range": range_in_words(o, unit),
        "chart": drawings.range_of(o, _alternative(o)),
        "burn": drawings.burn_down_of(o["budget"], days_of(r)),
        "facts": _objective_facts(o, agreed=r["contract"]["agreed"]),
        "trend": [
            {
                "period": each["period"],
                "value": measured(each["value"], unit, digits=2, null="-"),
                "range": range_in_words(each, unit),
                "verdict": each["verdict"],
                "said": each["verdict"] and word_of(each["verdict"], o["quoted"]),
            }
            for each in [*known_trend(o), {"period": r["period"]["asked"], **o}]
        ],
        "needed": None if o["needed"] is None else f"{o['needed']}.",
        "small": " ".join(f"{each}." for each in small if each),
    }


def _alternative(o: Document) -> str:
    value = measured(o["value"], o["unit"], digits=2)
    return f"{_measure(o)}: target {_target(o)}; value {value}; range {range_in_words(o, o['unit'])}"


def _measure(o: Document) -> str:
    runs = f", runs of {o['min_run_s'] / 3600:,g} h or more" if o["min_run_s"] else ""
    return f"{_TITLES.get(o['metric'], o['metric'])}{runs}"


def _target(o: Document) -> str:
    return f"{'at least' if o['direction'] == 'at_least' else 'at most'} {measured(o['target'], o['unit'], digits=2)}"


def range_in_words(o: Document, unit: str) -> str:
    """The range of a measurement; a dash where there is none."""
    if o["low"] is None and o["high"] is None and not o["no_upper_limit"]:
        return "-"
    high = "no limit" if o["no_upper_limit"] else measured(o["high"], unit, digits=2)
    return f"{measured(o['low'], unit, digits=2)} to {high}"


def _objective_facts(o: Document, *, agreed: bool) -> list[tuple[str, str]]:
    above, below = parts_of(o)
    outcome, budget, before = o["outcome"], o["budget"], o["before"]
    facts = [
        ("Kind", o["kind"]),
        ("Target", _target(o)),
        ("Value", measured(o["value"], o["unit"], digits=2)),
        ("Bounds" if o["kind"] == "delivered" else "95 % interval", range_in_words(o, o["unit"])),
    ]
    facts += [("Events, runs or days", display(o["n"], "count"))] if o["n"] is not None else []
    facts += [("Numerator", above), ("Denominator", below)] if above != "-" else []
    facts += [("Scope", o["narrowed"])] if o["narrowed"] else []
    facts += [("Left out", left_out_in_words(o))] if leaves_out(o) else []
    facts += [("Contract", f"{outcome['result']}: {RULES[outcome['rule']]}")] if agreed else []
    facts += [("Credit", credit_in_words(o))] if outcome["credits"] else []
    facts += [("Error budget", budget_in_words(budget))] if budget else []
    facts += [("Period before", _before(o))] if before else []
    shares = ", ".join(f"{kind} {display(share, 'ratio')}" for kind, share in o["evidence"].items())
    return facts + ([("Evidence", shares)] if shares else [])


def leaves_out(o: Document) -> bool:
    """Whether exclusions took something out of an objective: a category takes GPU-time and no time of the window."""
    return bool(o["excluded_s"] or o["excluded_gpu_seconds"])


def left_out_in_words(o: Document) -> str:
    """The time that exclusions took out of an objective, with its GPU-hours where they are known."""
    time, amount = display(o["excluded_s"], "seconds"), o["excluded_gpu_seconds"]
    if amount is None:
        return time
    hours = f"{display(amount, 'gpu_h')} GPU-h"
    return f"{time}: {hours}" if o["excluded_s"] else hours


def credit_in_words(o: Document) -> str:
    """What is due for an objective, in percent of the fee, with the table of credits."""
    outcome, side = o["outcome"], "below" if o["direction"] == "at_least" else "above"
    percents = _ends(_number(outcome["credit_least_percent"]), _number(outcome["credit_most_percent"]))
    steps = "; ".join(
        f"{side} {measured(step['beyond'], o['unit'], digits=2)}: {_number(step['percent'])} %"
        for step in outcome["credits"]
    )
    return f"{percents} % of the fee ({steps})"


def budget_in_words(budget: Document) -> str:
    """An error budget: what was allowed, what was spent, and whether it is exhausted."""

    def amount(value: float | None) -> str:
        if value is None:
            return "unknown"
        if budget["unit"] == "gpu_s":
            return f"{display(value, 'gpu_h')} GPU-h"
        whole = value == int(value)
        return counted(int(value), "interruption") if whole else f"{display(value, 'number')} interruptions"

    spent = _ends(amount(budget["spent_low"]), amount(budget["spent_high"]))
    by_value = "" if budget["spent_low"] == budget["spent_high"] else f", by the value {amount(budget['spent'])}"
    return f"{amount(budget['allowed'])} allowed; spent {spent}{by_value}: {BUDGETS[budget['state']]}"


def _before(o: Document) -> str:
    before = o["before"]
    apart = {True: "; the ranges lie apart", False: "; the ranges overlap: no difference is shown", None: ""}
    return f"{measured(before['value'], o['unit'], digits=2)} in {before['period']}{apart[before['apart']]}"


# The rest --------------------------------------------------------------------------------------------------------


def _category(each: Document) -> dict[str, Any]:
    return {
        "title": each["title"],
        "state": each["state"],
        "meaning": swatch(each["category"]).meaning,
        "share": each["share"],
        "colour": swatch(each["category"]).colour,
        "gpu_seconds": f"{float(each['gpu_seconds']):,.0f}",
        "gpu_hours": display(each["gpu_hours"], "number"),
        "percent": display(each["share"], "ratio"),
    }


def _shares(r: Document) -> str:
    known = [each for each in r["gpu_time"]["categories"] if each["gpu_seconds"] != "0"]
    return "GPU-time by category: " + ", ".join(f"{each['title']} {100 * each['share']:.1f} %" for each in known)


def _sums(r: Document) -> str:
    g = r["gpu_time"]
    verdict = "yes, exactly" if g["sums_to_capacity"] else "NO: do not use this report"
    capacity = exact_seconds(g["capacity_gpu_seconds"])
    note = f" {g['capacity_note']}" if g["capacity_note"] else ""
    return f"Capacity of the inventory: {capacity} GPU-seconds. Sums to capacity: {verdict}.{note}"


def _days(r: Document, days: list[str]) -> list[list[tuple[float, str]]]:
    """Of each day the shares of its categories, from the bottom up, with their colours."""
    by_day = dict(zip(r["daily"]["days"], r["daily"]["gpu_seconds"], strict=True))
    found = []
    for day in days:
        seconds = {name: Decimal(amount) for name, amount in by_day.get(day, {}).items()}
        whole = sum(seconds.values())
        named = [name for name in ORDER if seconds.get(name)]
        found.append([(float(seconds[name] / whole), swatch(name).colour) for name in named])
    return found


def _incidents(i: Document) -> str:
    if not i["n"]:
        return "Infrastructure interrupted no attempt in the covered time."
    causes = ", ".join(f"{cause} {n}" for cause, n in i["by_cause"].items())
    more = f" The table has the first {len(i['shown'])}, those of most GPUs." if i["not_shown"]["n"] else ""
    attempts, incidents = display(i["n"], "count"), display(i["n_incidents"], "count")
    return (
        f"{attempts} attempts were interrupted by infrastructure, in {incidents} "
        f"incidents (interruptions on one node within 15 minutes are one incident). By cause: {causes}."
        f"{incident_cost(i)}{more}"
    )


def incident_cost(i: Document) -> str:
    """What the interruptions cost together, and of how many that is unknown; begins with a blank."""
    known, unknown = i["n"] - i["n_without_cost"], i["n_without_cost"]
    if not known:
        return " What they cost is unknown."
    apart = f", without {display(unknown, 'count')} of unknown cost" if unknown else ""
    return f" They cost {display(i['cost_gpu_hours'] * 3600, 'gpu_h')} GPU-hours{apart}."


def incident_run(e: Document) -> str:
    """The run and attempt of an interruption, and whose it was."""
    user = f" ({e['user']})" if e["user"] else ""
    return f"{e['run_id']}, {e['attempt_no']}{user}"


def incident_gpu_hours(e: Document) -> str:
    """What an interruption cost."""
    return "unknown" if e["cost_gpu_hours"] is None else display(e["cost_gpu_hours"] * 3600, "gpu_h")


def _incident(e: Document) -> list[str]:
    restarted = e["time_to_job_restart_s"]
    where = f" on {e['node']}" if e["node"] else ""
    detail = f"{e['detail']} " if e["detail"] else ""
    return [
        moment(e["ended_at"]),
        incident_run(e),
        display(e["n_gpus"], "count"),
        display(e["runtime_s"], "seconds"),
        incident_gpu_hours(e),
        f"{e['cause']}{where}: {detail}({e['evidence']})",
        "not restarted" if restarted is None else display(restarted, "seconds"),
    ]


def _exclusions(r: Document) -> list[str]:
    claims_by_exclusion: dict[str, list[str]] = {}
    for each in r["exclusions"]["declared"]:
        claims_by_exclusion.setdefault(each["says"], []).append(each["claim"])
    lines = [f"Left out of {', '.join(claims)}: {text}" for text, claims in claims_by_exclusion.items()]
    if lines:
        left_out = display(float(r["exclusions"]["gpu_seconds"]), "gpu_h")
        words = f"What is left out of objectives is {left_out} GPU-hours, summed over them"
        lines.insert(0, f"{words}; it is in every other number")
    lines += [
        f"Agreed maintenance from {each['file']}: {counted(each['events'], 'event')} in the period, "
        f"sha256 {each['sha256'][:16]}"
        for each in r["contract"]["calendars"]
    ]
    lines += [
        f"Correction {a['id']} by {a['author']} at {moment(a['made_at'])}: {a['says']} ({a['reason']})"
        for a in r["adjudications"]
    ]
    lines += corrections_in_words(r)
    none = "No exclusions are declared, and no correction by hand counts in these numbers."
    return lines or [none]


def corrections_in_words(r: Document) -> list[str]:
    """What the data give now for an earlier report's period; nothing where none was given."""
    corrected = r["corrected"]
    if corrected is None:
        return []
    named = f"the report on {corrected['period']} (sha256 {corrected['sha256'][:16]})"
    if not corrected["changes"]:
        return [f"Nothing of {named} has changed since"]
    return [
        f"Correction to {named}: {each['objective']} was {_short(each['was'], each['unit'])}, "
        f"is {_short(each['now'], each['unit'])}"
        for each in corrected["changes"]
    ]


def _short(measurement: Document, unit: str) -> str:
    value = measured(measurement["value"], unit, digits=2)
    return f"{value} ({range_in_words(measurement, unit)}), {measurement['verdict'] or 'no data'}"


def constant(value: str | float | list[str] | dict[str, str]) -> str:
    """A constant of the computation; patterns by their kind.

    >>> constant(300.0), constant(False), constant([]), constant({"evaluation": "^eval"})
    ('300', 'no', 'none', 'evaluation: ^eval')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float | int):
        return _number(value)
    words = [f"{name}: {pattern}" for name, pattern in value.items()] if isinstance(value, dict) else value
    return (words if isinstance(words, str) else "; ".join(words)) or "none"


def _source(s: Document) -> list[str]:
    share = s["share_of_period"]
    counts = ("loads", "rows_read", "rows_loaded", "rows_rejected")
    return [s["source"], *(display(s[name], "count") for name in counts),
            "-" if share is None else covered_percent(share)]  # fmt: skip


def _quality(q: Document) -> list[str]:
    lines = [
        f"No data of {s['source']}: {moment(gap['since'])} to {moment(gap['until'])}"
        for s in q["sources"]
        for gap in s["gaps"]
        if gap["covered_by"] is None
    ]
    lines += [
        f"Rejected: {display(each['n'], 'count')} of {each['source']}: {each['reason']}" for each in q["rejected"]
    ]
    lines += [f"{each['says']} ({display(each['n'], 'count')}; check {each['name']})" for each in q["checks"]]
    lines += [f"{s['source']}: {warning}" for s in q["sources"] for warning in s["warnings"]]
    return lines or ["No gaps, rejected rows or warnings."]
