"""The ledger as a person would write it with pandas: a loop over nodes, and within each over its moments.

It is what `bench_year` compares with, and it must come to the same totals. From accounting and node events only.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

Totals = dict[str, int]

_DAY = 86_400


def pandas_ledger(inputs: Mapping[str, pl.DataFrame]) -> tuple[pd.DataFrame, Totals]:
    """Rows of the ledger, and thousandths of GPU-seconds by category.

    Args:
        inputs: as `tests.bench.year.inputs` makes them; whole seconds, one inventory of each node.
    """
    frames = {name: _seconds(inputs[name]) for name in ("inventory", "attempt_nodes", "node_states", "demand")}
    by_node = {name: dict(list(frame.groupby("node"))) for name, frame in frames.items()}
    rows: list[dict[str, object]] = []
    for node, there in by_node["inventory"].items():
        first, last = int(there["started"].iloc[0]), int(there["ended"].iloc[0])
        capacity = int(there["milli_gpus"].iloc[0])
        parts = {name: by_node[name].get(node) for name in ("attempt_nodes", "node_states", "demand")}
        rows += _of_node(str(node), first, last, capacity, parts)
    result = pd.DataFrame(rows)
    result["milli_gpu_seconds"] = result["milli_gpus"] * (result["ended"] - result["started"])
    sums = result.groupby("category")["milli_gpu_seconds"].sum()
    return result, {str(name): int(value) for name, value in sums.items()}


def _seconds(frame: pl.DataFrame) -> pd.DataFrame:
    table = frame.to_pandas()
    for name in ("started", "ended"):
        moments = table[f"{name}_at"].fillna(pd.Timestamp("2200-01-01", tz="UTC"))
        table[name] = (moments - pd.Timestamp("1970-01-01", tz="UTC")) // pd.Timedelta(seconds=1)
    return table


Moments = dict[int, list[tuple[str, object, int]]]


def _of_node(
    node: str, first: int, last: int, capacity: int, parts: Mapping[str, pd.DataFrame | None]
) -> list[dict[str, object]]:
    moments = _moments(first, last, parts)
    rows: list[dict[str, object]] = []
    held: dict[object, int] = {}
    states = {"node_states": 0, "demand": 0}
    edges = sorted(moments)
    for moment, following in zip(edges, [*edges[1:], last], strict=True):
        for name, what, change in moments[moment]:
            if name in states:
                states[name] += change
                continue
            held[what] = held.get(what, 0) + change
            if not held[what]:
                del held[what]
        if moment < following:
            common = {"node": node, "started": moment, "ended": following}
            rows += _at_one_time(common, held, capacity, down=states["node_states"] > 0, waiting=states["demand"] > 0)
    return rows


def _moments(first: int, last: int, parts: Mapping[str, pd.DataFrame | None]) -> Moments:
    moments: Moments = defaultdict(list)
    for name, frame in parts.items():
        for _, row in frame.iterrows() if frame is not None else ():
            start, end = max(first, row["started"]), min(last, row["ended"])
            if start < end:
                what, gpus = (row["job_id"], row["milli_gpus"]) if name == "attempt_nodes" else (None, 1)
                moments[start].append((name, what, gpus))
                moments[end].append((name, what, -gpus))
    for midnight in range(first - first % _DAY, last + 1, _DAY):
        moments[max(first, midnight)] += []
    moments[last] += []
    return moments


def _at_one_time(
    common: dict[str, object], held: Mapping[object, int], capacity: int, *, down: bool, waiting: bool
) -> list[dict[str, object]]:
    category = "stalled" if down else "unattributed"
    rows = [common | {"job_id": job, "milli_gpus": gpus, "category": category} for job, gpus in held.items()]
    left = capacity - sum(held.values())
    if left:
        category = "down" if down else "pending_demand" if waiting else "no_demand"
        rows.append(common | {"job_id": None, "milli_gpus": left, "category": category})
    return rows
