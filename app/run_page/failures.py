"""What interrupted a run and how it got going again; of a log alone, its processes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from app.formatting import duration, minute
from app.run_page import texts
from app.terminal.cells import fit, width
from ingest.counted import counted

if TYPE_CHECKING:
    from app.run_page.contents import Row, RunContents
    from app.run_page.lines import TextPage

COSTLIEST: Final = 4
"""Interruptions that the page describes; `show interruptions` lists all."""

_PROCESSES: Final = 6

_STAGES: Final = (
    ("time_to_detect_s", "detect"),
    ("time_to_terminate_s", "end"),
    ("time_to_requeue_s", "scheduler's hold"),
    ("queue_s", "queue"),
    ("launch_s", "launch"),
    ("load_s", "load"),
    ("warm_up_s", "warm-up"),
)


def interrupted(page: TextPage, contents: RunContents) -> None:
    """Interruptions, the costliest described, and how the run got going again."""
    rows = contents.interruptions
    if not rows:
        return
    page.heading("What interrupted it", right=_cost_of_all(rows))
    causes = Counter(str(row["cause"]) for row in rows).most_common()
    page.text(", ".join(f"{n:,} x {texts.name(cause).replace('_', ' ')}" for cause, n in causes))
    again = {row["attempt_no"]: row for row in contents.restarts if not row["in_allocation"]}
    worst = sorted(rows, key=lambda row: (-(row["cost_gpu_s"] or 0.0), -row["ended_at"].timestamp()))[:COSTLIEST]
    for row in worst:
        _interruption(page, row, again.get(row["attempt_no"]))
    if len(rows) > COSTLIEST:
        page.text(f"and {len(rows) - COSTLIEST:,} more that did not cost more", first="  ", meaning="quiet")
    _restarts(page, contents.restarts)


def _cost_of_all(rows: list[Row]) -> str:
    known = [row["cost_gpu_s"] for row in rows if row["cost_gpu_s"] is not None]
    if not known:
        return "cost unknown: no log"
    return f"{'at least ' if len(known) < len(rows) else ''}{texts.hours(sum(known), 'GPU-h')}"


def _interruption(page: TextPage, row: Row, restart: Row | None) -> None:
    """When, why, where, its cost; the evidence, and when it ran again."""
    cost = "" if row["cost_gpu_s"] is None else texts.hours(row["cost_gpu_s"], "GPU-h")
    evidence, again = _evidence(row), "" if restart is None else _restarted(restart)
    head = f"  {minute(row['ended_at'])}  {_cause(row)}"
    if again and not evidence and width(head) + width(again) + width(cost) + 3 <= page.columns:
        head, again = f"{head}; {again}", ""
    page.add((fit(head, page.columns - width(cost) - 1), None), (f" {cost}" if cost else "", "bad"))
    below = "; ".join(text for text in (evidence, again) if text)
    if below:
        page.text(below, indent=_INDENT, first=_INDENT, meaning="quiet")


def _cause(row: Row) -> str:
    """Cause, class and node."""
    cause = texts.name(row["cause"]).replace("_", " ")
    kind = "" if row["class"] == _SAME.get(cause, cause) else f" ({row['class']})"
    return f"{cause}{kind}" + (f" on {texts.name(row['node'])}" if row["node"] else "")


_SAME: Final = {"preempted": "preemption"}
"""Causes that name their class in other words."""


def _evidence(row: Row) -> str:
    """The evidence, if it is more than the state that Slurm gave."""
    detail = texts.name(row["detail"], none="")
    if not detail or detail == f"state {row['state']}":
        detail = texts.name(row["events"], none="")
    return detail if len(detail) <= _DETAIL else f"{detail[:_DETAIL]}..."


_DETAIL: Final = 100
_INDENT: Final = " " * 4


def _restarted(row: Row) -> str:
    """When the run got going again."""
    if row["time_to_job_restart_s"] is None:
        return "still waits to start again"
    if row["time_to_first_step_s"] is not None:
        return f"trained again after {duration(row['time_to_first_step_s'])}"
    return f"started again after {duration(row['time_to_job_restart_s'])}"


def _restarts(page: TextPage, rows: list[Row]) -> None:
    """All restarts together: the medians of their stages."""
    outside = [row for row in rows if not row["in_allocation"]]
    inside = len(rows) - len(outside)
    total = _median_of(outside, "time_to_job_restart_s")
    words = [] if total is None else [f"{counted(len(outside), 'restart')}, median {duration(total)}"]
    first = _median_of(rows, "time_to_first_step_s")
    if first is not None:
        words.append(f"{duration(first)} from the failure to the first step")
    if inside:
        words.append(f"{inside:,} in place, without a new attempt")
    medians = ((word, _median_of(rows, name)) for name, word in _STAGES)
    stages = ", ".join(f"{word} {duration(value)}" for word, value in medians if value)
    if words:
        page.fact("Restarts", "; ".join(words))
        if stages:
            page.fact("", f"stages (medians): {stages}")


def _median_of(rows: list[Row], name: str) -> float | None:
    values = sorted(row[name] for row in rows if row[name] is not None)
    return _median(values) if values else None


def _median(values: list[float]) -> float:
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def processes(page: TextPage, contents: RunContents) -> None:
    """The processes of a log alone: their steps, and the gaps between them."""
    if not contents.choice.logged_only or len(contents.attempts) < 2:
        return
    rows = contents.attempts
    gaps = sum(row["gap_s"] or 0.0 for row in rows)
    page.heading("Its processes", right=f"{duration(gaps)} in gaps")
    shown = rows if len(rows) <= _PROCESSES else [*rows[:2], *rows[-(_PROCESSES - 2) :]]
    for row in shown:
        page.text(_process(row), indent=_INDENT, first="  ")
    if len(rows) > len(shown):
        page.text(f"{len(rows) - len(shown):,} more between these.", indent="  ", first="  ")


def _process(row: Row) -> str:
    after = f", {duration(row['gap_s'])} after the one before" if row["gap_s"] else ""
    lasted = duration((row["ended_at"] - row["started_at"]).total_seconds())
    if row["first"] is None:
        return f"{minute(row['started_at'])}  no step in {lasted}{after}"
    lost = f", {row['lost']:,} of them lost" if row["lost"] else ""
    return f"{minute(row['started_at'])}  steps {row['first']:,} to {row['last']:,} in {lasted}{lost}{after}"
