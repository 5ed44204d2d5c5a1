"""The numbers of a digest as texts, the same in each of its forms."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from app.formatting import display, measured
from app.reports.sla.formats import covered_percent, moment, period_title
from dashboards.palette import SWATCHES
from ingest.counted import counted

if TYPE_CHECKING:
    from app.reports.digest.document import Document

_NAMES = {each.name: each.label for each in SWATCHES}


def words_of(digest: Document) -> dict[str, Any]:
    """Texts of a digest: `title`, `interval`, `facts` (name, value), `tables` (title, note, header, rows), `until`."""
    until = datetime.fromisoformat(digest["period"]["until"])
    return {
        "title": title_of(digest),
        "interval": _interval(digest),
        "facts": _facts(digest),
        "tables": [_advice(digest), _time(digest), _runs(digest), _interruptions(digest)],
        "until": [until.year, until.month, until.day],
    }


def title_of(digest: Document) -> str:
    """One line: whose, on which period, on which cluster."""
    subject = digest["subject"]
    name, cluster = (" ".join(text.split()) for text in (subject["name"], digest["cluster"]))
    return f"{subject['kind'].capitalize()} {name} on {cluster}: {period_title(digest['period']['asked'])}"


def summary_of(digest: Document) -> str:
    """What it held and lost, in a few words."""
    use = digest["use"]
    if not use["gpu_s"]:
        return "held no GPUs"
    return f"{_hours(use['gpu_s'])} held, {_hours(use['lost_s'])} lost, {_productive(use)} productive"


def lines_of(digest: Document) -> list[str]:
    """The digest in lines, as the body of a mail or a message: facts, and what to change."""
    facts = [f"{name}: {value}" for name, value in _facts(digest)]
    changes = [f"- {each['run_id']}: {each['says']} ({_hours(each['gpu_seconds'])})" for each in digest["advice"]]
    return [" ".join(line.split()) for line in [*facts, *(["What to change:", *changes] if changes else [])]]


def _interval(digest: Document) -> str:
    period, covered = digest["period"], digest["covered"]
    text = f"{moment(period['since'])} to {moment(period['until'])} UTC"
    return text if covered["share"] == 1 else f"{text}; data cover {covered_percent(covered['share'])} of it"


def _hours(gpu_s: float | str | None) -> str:
    return "unknown" if gpu_s is None else f"{display(float(gpu_s), 'gpu_h')} GPU-h"


def _between(low: float, high: float) -> str:
    least, most = _hours(low), _hours(high)
    return least if least == most else f"{least}, at most {most}"


def _productive(use: Document) -> str:
    low, high = (measured(use[name], "ratio") for name in ("productive_share", "productive_share_high"))
    return low if low == high else f"{low} to {high}"


def _facts(digest: Document) -> list[tuple[str, str]]:
    use = digest["use"]
    if not use["gpu_s"]:
        return [("GPU-time held", "none in this period")]
    return [
        ("GPU-time held", f"{_hours(use['gpu_s'])}, {measured(use['share'], 'ratio')} of all that was held"),
        ("Productive", f"{_productive(use)} of it (steps that were kept; the range is unobserved time)"),
        ("Lost", f"{_hours(use['lost_s'])} (steps run again, and unfinished ones)"),
        ("Standing still", _between(use["idle_s"], use["idle_high_s"])),
        ("Runs that held GPUs", f"{use['n_runs']:,}, in {counted(use['n_attempts'], 'attempt')}"),
        (
            "Attempts that ended",
            f"{use['n_ended']:,}: {use['n_completed']:,} completed, {use['n_cancelled']:,} cancelled,"
            f" {use['n_failed']:,} failed, {use['n_preempted']:,} preempted or requeued;"
            f" {use['n_infrastructure']:,} of them interrupted by infrastructure",
        ),
        *_cost(digest["cost"]),
    ]


def _cost(cost: Document) -> list[tuple[str, str]]:
    found = []
    if cost["cost"] is not None:
        unit = f" {cost['currency']}" if cost["currency"] else ""
        part = "" if cost["priced_gpu_s"] == cost["gpu_s"] else f", for the {_hours(cost['priced_gpu_s'])} with a price"
        lost = "" if cost["lost_cost"] is None else f"; lost time {cost['lost_cost']:,.2f}{unit}"
        found.append(("Cost", f"{cost['cost']:,.2f}{unit}{part}{lost}"))
    if cost["energy_kwh"]:
        found.append(
            ("Energy of GPUs", f"{cost['energy_kwh']:,.0f} kWh in {_hours(cost['energy_gpu_s'])} of known power")
        )
    return found


def _table(title: str, note: str, header: list[str], rows: list[list[str]]) -> dict[str, Any]:
    return {"title": title, "note": note, "header": header, "rows": rows}


def _advice(digest: Document) -> dict[str, Any]:
    rows = [[each["run_id"], each["says"], display(each["gpu_seconds"], "gpu_h")] for each in digest["advice"]]
    note = "GPU-h: what the change would have saved, or the time that it is about, at least. Lines can overlap."
    return _table("What to change", note if rows else "Nothing of a GPU-hour or more.", ["run", "what", "GPU-h"], rows)


def _time(digest: Document) -> dict[str, Any]:
    rows = [
        [_NAMES.get(each["category"], each["category"]), _cause(each), each["evidence"] or "-",
         display(float(each["gpu_seconds"]), "gpu_h"), measured(each["share"], "ratio")]
        for each in digest["time"]
    ]  # fmt: skip
    note = "Every GPU-second that was held, once." if rows else "Nothing was held."
    return _table("Where the GPU-time went", note, ["category", "cause", "evidence", "GPU-h", "share"], rows)


def _cause(row: Document) -> str:
    """A cause as the explorer writes it: `node fail`."""
    return row["cause"].replace("_", " ") if row["cause"] else "-"


def _runs(digest: Document) -> dict[str, Any]:
    shown = digest["runs"]["shown"]
    rows = [
        [each["run_id"], each["name"] or "-", display(each["n_gpus"], "count"), display(each["n_attempts"], "count"),
         each["state"] or "-", display(each["allocated"], "gpu_h"), _ettr(each)]
        for each in shown
    ]  # fmt: skip
    header = ["run", "name", "GPUs", "attempts", "state", "GPU-h", "ETTR"]
    count, held = digest["runs"]["count"], digest["use"]["n_runs"] or 0
    none = f" {count - held:,} of them held no GPUs in this period." if count > held else ""
    return _table("Runs", _of(len(shown), count, "that held most") + none, header, rows)


def _ettr(run: Document) -> str:
    low, high = (measured(run[name], "ratio") for name in ("ettr_low", "ettr_high"))
    return low if low == high else f"{low} to {high}"


def _interruptions(digest: Document) -> dict[str, Any]:
    shown = digest["interruptions"]["shown"]
    rows = [
        [moment(each["ended_at"]), each["run_id"], str(each["attempt_no"]), each["class"] or "-", _cause(each),
         each["node"] or "-", "unknown" if each["cost_gpu_s"] is None else display(each["cost_gpu_s"], "gpu_h")]
        for each in shown
    ]  # fmt: skip
    header = ["ended", "run", "attempt", "class", "cause", "node", "cost GPU-h"]
    note = _of(len(shown), digest["interruptions"]["count"], "that cost most")
    return _table("Attempts that ended without completing", note, header, rows)


def _of(shown: int, count: int, which: str) -> str:
    if not count:
        return "None."
    return f"All {count:,}." if shown == count else f"The {shown:,} {which}, of {count:,}."
