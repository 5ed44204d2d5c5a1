"""What to change: where GPU-time could have been won or was held without work, the largest first.

Each line is about time of its own kind; kinds overlap, so the GPU-hours of several lines are no sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from app.formatting import duration, percent
from metrics.waste.waste import SHORT

if TYPE_CHECKING:
    import polars as pl

LEAST_GPU_S: Final = 3600.0
"""What is about less than a GPU-hour is not worth a change."""

MOST: Final = 10
"""So many lines at most."""

_KINDS: Final = {
    "unused_gpus": "some of its GPUs were never used: request fewer, or start a process on each",
    "never_stepped": "attempts never reached a step: try the start on one node before",
    "failed_at_once": "attempts failed at once, again and again: stop after the first, and read its log",
}
"""What to do about a kind of waste. Idle time is what is left after GPUs that were never used."""

_LIMIT: Final = f"it was done in less than {percent(SHORT, digits=0)} of its time limit: a shorter limit starts sooner"
"""Not about time that was lost, so it is last."""

_IDLE: Final = "GPUs were idle: see `trackside show stalls`, and end jobs that only wait"


def advice(checkpoints: pl.DataFrame, waste: pl.DataFrame) -> list[dict[str, Any]]:
    """Lines of advice.

    Args:
        checkpoints: `run_id`, `advice`, `interval_s`, `optimal_s`, `gain_gpu_s` of the runs.
        waste: by run (`subject`): `gpu_s_KIND` of each kind.

    Returns:
        `run_id`, `says`, `gpu_seconds`: what would have been won, or was held so, at least.
    """
    changes = [_checkpoint(row) for row in checkpoints.iter_rows(named=True)]
    found = [each for each in changes if each is not None]
    found += [line for row in waste.iter_rows(named=True) for line in _waste(row)]
    worth = [line for line in found if line["gpu_seconds"] >= LEAST_GPU_S]
    return sorted(worth, key=lambda line: (line["says"] == _LIMIT, -line["gpu_seconds"], line["run_id"], line["says"]))[
        :MOST
    ]


def _checkpoint(row: dict[str, Any]) -> dict[str, Any] | None:
    if row["advice"] not in {"save less often", "save more often"} or None in {row["gain_gpu_s"], row["interval_s"]}:
        return None
    every = f"every {duration(row['optimal_s'])} instead of every {duration(row['interval_s'])}"
    return {"run_id": row["run_id"], "says": f"{row['advice']}: {every}", "gpu_seconds": row["gain_gpu_s"]}


def _waste(row: dict[str, Any]) -> list[dict[str, Any]]:
    amounts = {kind: row[f"gpu_s_{kind}"] or 0.0 for kind in _KINDS}
    lines = [{"run_id": row["subject"], "says": text, "gpu_seconds": amounts[kind]} for kind, text in _KINDS.items()]
    standing = (row["gpu_s_idle"] or 0.0) - amounts["unused_gpus"]
    lines.append({"run_id": row["subject"], "says": _IDLE, "gpu_seconds": standing})
    return [*lines, {"run_id": row["subject"], "says": _LIMIT, "gpu_seconds": row["gpu_s_short_of_limit"] or 0.0}]
