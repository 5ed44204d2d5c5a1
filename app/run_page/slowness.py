"""What made a run slow: nodes or the shape of its work, by times of its ranks, and its stalls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from app.formatting import minute
from app.results.steps.stalls import stalls_of, step_gaps
from app.run_page import texts
from metrics.stragglers.verdict import STRAGGLING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.run_page.one_run import OneRun
    from app.window import Window
    from metrics.runs.steps import StepRules

    Row = dict[str, Any]

_MOST: Final = 3


def slowness(source: OneRun, window: Window, name: str, rules: StepRules) -> tuple[list[Row], list[Row]]:
    """Sessions with times of ranks (`SESSION_STRAGGLERS`), and stalls (`STALLS`), the costliest first.

    Args:
        source: of the run.
        window: of the run.
        name: of the run or of its job, as its logs have it.
        rules: when a pause is a stall.
    """
    gaps = step_gaps(source, window, rules, name)
    stalls = stalls_of(source, window, gaps).to_dicts() if gaps.height else []
    of_window = {"cluster": window.cluster, "since": window.since, "until": window.until}
    if source.query("rank_sessions", **of_window, run=name).is_empty():
        return [], stalls
    from app.results.steps.stragglers import rank_times  # noqa: PLC0415 - few runs have times of ranks
    from metrics.stragglers.sessions import session_stragglers  # noqa: PLC0415 - as above

    return session_stragglers(rank_times(source, window, name)).to_dicts(), stalls


def lines(stragglers: Sequence[Row], stalls: Sequence[Row]) -> list[tuple[str, str]]:
    """Lines of the page: label and text."""
    slow = [row for row in stragglers if row["cause"] not in {"none", "unknown"} or row["slowdown"] >= STRAGGLING]
    facts = [("Stragglers" if not at else "", _straggler(row)) for at, row in enumerate(slow[:_MOST])]
    facts += [("Stalls" if not at else "", _stall(row)) for at, row in enumerate(stalls[:_MOST])]
    return facts + [("", f"{len(stalls) - _MOST:,} more stalls")] * (len(stalls) > _MOST)


def _straggler(row: Row) -> str:
    """What ranks waited for the slowest: an overlay on productive time, added to nothing."""
    nodes = ", ".join(map(texts.name, row["nodes"][:_MOST]))
    what = f"suspected: {nodes}" if row["cause"] == "node" else row["cause"].replace("_", " ")
    cost = f"{texts.hours(row['lost_gpu_s'], 'GPU-h')} waited for the slowest rank, a part of productive time"
    return f"{what}; {texts.name(row['reason'])}; {cost}. {row['action'] or ''}".rstrip()


def _stall(row: Row) -> str:
    cost = "" if row["lost_gpu_s"] is None else f", {texts.hours(row['lost_gpu_s'], 'GPU-h')}"
    lasted = f"{row['seconds'] / 60:,.0f} min"
    return f"{minute(row['began_at'])}  {row['kind']}, {lasted}{cost}: {texts.name(row['reason'])}"
