"""Why a name does not join the jobs that have it: some of them ran at the same time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metrics.runs.naming import APART

if TYPE_CHECKING:
    from datetime import datetime

    from app.window import Window
    from queries.warehouse import Reader

_PIECE = re.compile(rf"(?P<name>.+){APART}(?P<job>[^{APART}]+)-\d{{8}}T\d{{6}}(\.\d{{6}})?Z")
"""The id of a piece of a name that was taken apart, as `metrics.runs.runs.run_attempts` gives it."""


def why_apart(source: Reader, window: Window, shown: list[str]) -> tuple[str, ...]:
    """Of each name that was taken apart, a line with two of its jobs that ran at the same time.

    Args:
        source: the warehouse.
        window: of which cluster.
        shown: ids of the runs that are shown. Of a single one, the line names it if it ran beside another.
    """
    names = dict.fromkeys(piece["name"] for piece in map(_PIECE.fullmatch, shown) if piece)
    return tuple(line for name in [*names][:MOST_NAMES] for line in _why(source, window, name, shown))


def _why(source: Reader, window: Window, name: str, shown: list[str]) -> tuple[str, ...]:
    matches = source.query("runs_of_name", cluster=window.cluster, called=name)
    rows = matches.select("run_id", "started_at", "until").rows()
    beside = _overlapping_pairs(
        [(run, started, until) for run, started, until in rows if started and _is_of(run, name)]
    )
    if not beside:
        return ()
    one, other = next((pair for pair in beside if shown[0] in pair), beside[0])
    return (f"{_job(one)} and {_job(other)} ran at the same time, so the name {name} does not join them.",)


MOST_NAMES = 10
"""Names whose split a note explains, at most."""


def _is_of(run_id: str, name: str) -> bool:
    matches = _PIECE.fullmatch(run_id)
    return matches is not None and matches["name"] == name


def _job(run_id: str) -> str:
    matches = _PIECE.fullmatch(run_id)
    return run_id if matches is None else matches["job"]


def _overlapping_pairs(ran: list[tuple[str, datetime, datetime | None]]) -> list[tuple[str, str]]:
    """Pairs that ran at the same time: each run, by its start, with the one before it that lasted longest."""
    matches: list[tuple[str, str]] = []
    longest: tuple[str, datetime | None] | None = None
    for run, started, until in ran:
        if longest is not None and (longest[1] is None or started < longest[1]):
            matches.append((longest[0], run))
        if longest is None or (longest[1] is not None and (until is None or until > longest[1])):
            longest = (run, until)
    return matches
