"""What a person may do about what the numbers show, or where nothing can be read. Trackside itself only prints it."""

from __future__ import annotations

import shlex

import polars as pl

WITHOUT_SLURM = """\
What can be done instead:
  trackside ingest slurm FILE   load what Slurm's commands printed elsewhere (--help lists them);
  run this on a machine where `sacct` shows jobs (SLURM_CONF says where slurm.conf is);
  or ask slurmrestd, by the configuration (trackside.toml): under [slurm] road = "rest", and
  rest_url = "unix:/path/of/the.socket" or "http://HOST:PORT"."""
"""What a person may do where a running Slurm cannot be asked."""

REPEATED = 3
"""From so many interruptions on a node is worth a look (metric-definitions 7.4: k >= 3 in 28 days)."""


def drain(blamed: pl.DataFrame) -> tuple[str, str] | None:
    """What a person may do about the node whose repeated failures cost most. Trackside does nothing itself.

    Args:
        blamed: `results.node_failures`.

    Returns:
        What is wrong with the node, and the command that keeps Slurm from giving it out again, quoted for a shell.
        None if no node failed often enough.
    """
    worst = blamed.filter(pl.col("interruptions") >= REPEATED).head(1).to_dicts()
    if not worst:
        return None
    node, times, cost = worst[0]["node"], worst[0]["interruptions"], "what that cost cannot be told"
    if worst[0]["cost_gpu_s"] is not None:
        least = "at least " if worst[0]["unpriced"] else ""
        cost = f"which cost {least}{worst[0]['cost_gpu_s'] / 3600:,.0f} GPU-h"
    mostly = f", mostly {worst[0]['cause']}" if worst[0]["cause"] else ""
    reason = shlex.quote(f"trackside: {times} interruptions{mostly}")
    return (
        f"{node} interrupted {times:,} attempts, {cost}. How many chance would give is not judged yet. "
        "To take it out for a check (Trackside only prints it):",
        f"scontrol update NodeName={shlex.quote(node)} State=DRAIN Reason={reason}",
    )
