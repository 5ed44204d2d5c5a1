"""What a person may do about what the numbers show, or where nothing can be read. Trackside itself only prints it."""

from __future__ import annotations

import shlex
from typing import Any

import polars as pl

from ingest.counted import counted

REPEATED = 3
"""From so many interruptions within 28 days on, a node is worth a look."""


def drain(blamed: pl.DataFrame) -> tuple[str, str] | None:
    """What a person may do about the node whose repeated failures cost most. Trackside does nothing itself.

    Args:
        blamed: `results.node_failures`.

    Returns:
        The node's failures, and the command that drains it in Slurm, quoted for a shell.
        None if no node failed often enough.
    """
    worst = blamed.filter(pl.col("interruptions") >= REPEATED).head(1).to_dicts()
    if not worst:
        return None
    node, times, cost = worst[0]["node"], worst[0]["interruptions"], "at unknown cost"
    if worst[0]["cost_gpu_s"] is not None:
        least = "at least " if worst[0]["unpriced"] else ""
        hours = worst[0]["cost_gpu_s"] / 3600
        cost = f"which cost {least}{hours:,.{0 if hours >= 100 else 2}f} GPU-h"
    mostly = f", mostly {worst[0]['cause']}" if worst[0]["cause"] else ""
    reason = shlex.quote(f"trackside: {counted(times, 'interruption')}{mostly}")
    return (
        f"{node} interrupted {counted(times, 'attempt')}, {cost}. Whether chance explains it: trackside show lemons. "
        "To take it out for a check (Trackside only prints it):",
        _drained(node, reason),
    )


def drain_lemons(flagged: pl.DataFrame) -> tuple[str, list[str]] | None:
    """What a person may do about lemons and suspects. Trackside does nothing itself.

    Args:
        flagged: rows of `results.node_score_rows` whose verdict is not `none`.

    Returns:
        What to do, and a command for each node, quoted for a shell: lemons are kept from being given out again,
        suspects are looked at. None if no node is flagged.
    """
    rows = flagged.to_dicts()
    if not rows:
        return None
    lemons, suspects = ([row for row in rows if row["verdict"] == verdict] for verdict in ("lemon", "suspect"))
    todo = [f"to take {'it' if len(lemons) == 1 else 'them'} out for a check"] if lemons else []
    todo += ["to see why a suspect was last out of service"] if suspects else []
    orders = ", ".join(todo)
    commands = [for_flagged(row) for row in (*lemons, *suspects)]
    return f"{orders[0].upper()}{orders[1:]} (Trackside only prints it):", commands


def for_flagged(row: dict[str, Any]) -> str:
    """The command for a flagged node: a lemon is drained, a suspect is looked at.

    Args:
        row: of `results.node_score_rows`.
    """
    if row["verdict"] == "lemon":
        return _drained(row["node"], shlex.quote(_why(row)))
    return f"scontrol show node {shlex.quote(row['node'])}"


def _why(row: dict[str, Any]) -> str:
    failures = counted(row["failures"], "failure")
    return f"trackside: {failures}, {row['expected']:.2g} expected by chance (q {row['q_value']:.2g})"


def _drained(node: str, reason: str) -> str:
    """The command that drains a node; `reason` is quoted already."""
    return f"scontrol update NodeName={shlex.quote(node)} State=DRAIN Reason={reason}"
