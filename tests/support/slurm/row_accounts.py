"""On which nodes attempts held how many GPUs, in plain Python: what the view `attempt_nodes` must agree with."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from ingest.tables import GPUS, TEXT, TIME, Schema

if TYPE_CHECKING:
    from ingest.tables import Parsed

ON_NODES: Final[Schema] = {
    "cluster": TEXT,
    "scheduler": TEXT,
    "job_id": TEXT,
    "submitted_at": TIME,
    "node": TEXT,
    "n_gpus": GPUS,
    "evidence": TEXT,
}


def on_nodes(parsed: Parsed) -> pl.DataFrame:
    """One row per attempt and node, `ON_NODES`."""
    lists = dict(parsed.frames["node_lists"].rows())
    rows = [row for attempt in parsed.frames["attempts"].iter_rows(named=True) for row in _of(attempt, lists)]
    return pl.DataFrame(rows, schema=ON_NODES, orient="row")


def _of(attempt: dict[str, Any], lists: dict[str, list[str]]) -> list[tuple[Any, ...]]:
    if attempt["node_list"] is None:
        return []
    key = tuple(attempt[name] for name in ("cluster", "scheduler", "job_id", "submitted_at"))
    nodes = lists[attempt["node_list"]]
    if attempt["n_gpus"] is None:  # accounting recorded none: the view decides
        return [(*key, node, None, None) for node in nodes]
    gpus = Decimal(attempt["n_gpus"])
    smallest = Decimal(1) if gpus == int(gpus) else Decimal("0.001")
    held = [smallest * (gpus // smallest // len(nodes)) for _ in nodes]
    for place in range(int((gpus - sum(held)) / smallest)):
        held[place] += smallest
    evidence = "accounting" if len(set(held)) == 1 else "assumed"
    return [(*key, node, share, evidence) for node, share in zip(nodes, held, strict=True)]
