"""`trackside` alone: what the warehouse holds, and the three commands that make sense next.

It imports no polars and no configuration, so that it answers at once.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final, NamedTuple

from ingest.counted import counted
from ingest.registry import FOLDERS, SOURCES
from metrics.units import DAY_S

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WIDTH: Final = 80
SHOWN: Final = 10
"""Clusters that are listed."""

START: Final = (
    ("trackside demo", "everything, on a simulated cluster"),
    ("trackside ingest slurm", "your cluster: with sacct, or from files"),
    ("trackside ingest kubernetes FILE", "your cluster: kubectl get -o json"),
    ("trackside ingest runlog FILE", "the log of a training run"),
)
"""Commands where there is no warehouse yet."""

_CALLED: Final = {folder.name: folder.called or folder.name for folder in FOLDERS}
"""Names of the rows of each folder of sources, in the order of the folders."""

_JOBS: Final = {source.name for source in SOURCES if "attempts" in source.feeds}
"""Sources that record which jobs ran; the numbers need one of them."""

MORE: Final = (
    "Questions: trackside show. In a browser: trackside explore.\nVerbs: trackside --help. A topic: trackside help ettr"
)


class ClusterOverview(NamedTuple):
    """A cluster as the query `overview` returns it; times are seconds since 1970, None where there is none."""

    name: str
    covers_from: float | None
    covers_until: float | None
    sources: Sequence[str]
    computed_from: float | None
    computed_until: float | None
    newer_loads: int


def text(root: Path, *, now: float) -> str:
    """The overview of a warehouse directory.

    Args:
        root: the directory; it need not exist.
        now: seconds since 1970.

    Raises:
        WarehouseError: there is a warehouse, and it cannot be read.
    """
    from queries import directory
    from queries.warehouse import current_copy, open_reader

    if not (root / directory.DATABASE).exists() and current_copy(root) is None:
        return f"There is no warehouse in {root} yet. To start:\n{_commands(START)}\n{MORE}"
    with open_reader(root) as reader:
        clusters = [ClusterOverview(*row) for row in reader.rows("overview")]
    if not clusters:
        return f"Nothing has been loaded into {root} yet. To start:\n{_commands(START)}\n{MORE}"
    return "\n".join([f"Warehouse {root}:", describe(clusters, now), "Next:", _commands(next_commands(clusters)), MORE])


def describe(clusters: Sequence[ClusterOverview], now: float) -> str:
    """Each cluster in a few lines; of many the first ones, and how many more there are."""
    lines = [_cluster(each, now) for each in clusters[:SHOWN]]
    if len(clusters) > SHOWN:
        lines.append(f"  and {counted(len(clusters) - SHOWN, 'more cluster')}: trackside status")
    return "\n".join(lines)


def next_commands(clusters: Sequence[ClusterOverview]) -> list[tuple[str, str]]:
    """The three commands that make sense next, each with what it gives."""
    accounted = [each for each in clusters if not _JOBS.isdisjoint(each.sources)]
    if not accounted and any("runlog" in each.sources for each in clusters):
        first = [
            ("trackside run", "the newest run, by its log"),
            ("trackside ingest slurm", "the accounting of its job"),
        ]
    elif not accounted:
        first = [("trackside ingest slurm", "the accounting of these jobs"), ("trackside compute", "the numbers")]
    elif any(each.computed_until is None for each in accounted):
        first = [("trackside compute", "build the ledger and the numbers")]
    elif newer := sum(each.newer_loads for each in clusters):
        first = [("trackside compute", f"count what came since, in {newer:,} load{'s' * (newer != 1)}")]
    else:
        first = []
    usual = [
        ("trackside show goodput", "which share of the GPU-time was productive"),
        ("trackside run", "your last run on one page (another: trackside run ID)"),
        ("trackside show lost", "where the rest went"),
    ]
    return [*first, *usual][:3] if accounted else [*first, ("trackside status", "what was read and rejected")]


def _commands(commands: Sequence[tuple[str, str]]) -> str:
    width = max(len(command) for command, _ in commands)
    return "\n".join(f"  {command:<{width}}  {purpose}" for command, purpose in commands)


def _cluster(cluster: ClusterOverview, now: float) -> str:
    """The state of a cluster, in lines of the width of a terminal."""
    present: dict[str, list[str]] = {}
    for source in sorted(cluster.sources, key=_position):
        folder, _, kind = source.partition(".")
        present.setdefault(folder, []).extend([kind] if kind else [])
    kinds = "; ".join(f"{_CALLED.get(name, name)}{_listed(kinds)}" for name, kinds in present.items())
    absent = ", ".join(title for name, title in _CALLED.items() if name not in present)
    parts = [f"{cluster.name}: {_time(cluster, now)}", f"loaded: {kinds}"]
    parts += [f"not loaded: {absent}"] if absent else []
    lines = [textwrap.fill(part, WIDTH, initial_indent="    ", subsequent_indent="      ") for part in parts]
    return "\n".join(["  " + lines[0].lstrip(), *lines[1:]])


def _position(source: str) -> tuple[int, str]:
    """Position of a source in the list: in the order of the folders, then by name."""
    folder = source.partition(".")[0]
    return list(_CALLED).index(folder) if folder in _CALLED else len(_CALLED), source


def _listed(kinds: Sequence[str]) -> str:
    return f" ({', '.join(kind.replace('_', ' ') for kind in kinds)})" if kinds else ""


def _time(cluster: ClusterOverview, now: float) -> str:
    """The time that the loads cover, and the age of the newest data."""
    if cluster.covers_until is None:
        return "no time is covered yet"
    low = cluster.covers_until if cluster.covers_from is None else cluster.covers_from
    days = max(1, round((cluster.covers_until - low) / DAY_S))
    interval = f"{_date(low)} to {_date(cluster.covers_until)} ({days:,} day{'s' * (days != 1)})"
    return f"{interval}, newest data {age(now - cluster.covers_until)} old"


def _date(moment: float) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d}"


def age(seconds: float) -> str:
    """A length of time in its largest whole unit.

    >>> age(-5), age(90), age(3600), age(23 * 3600), age(86_400 * 22.4)
    ('0 minutes', '1 minute', '1 hour', '23 hours', '22 days')
    """
    for unit, length in (("day", DAY_S), ("hour", 3600), ("minute", 60)):
        count = int(max(0.0, seconds) // length)
        if count or unit == "minute":
            break
    return f"{count:,} {unit}{'s' * (count != 1)}"
