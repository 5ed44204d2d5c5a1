"""Fleets of any size for benchmarks, made with numpy: always the same for the same size."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from metrics import frames

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Fleet:
    """Inputs of the ledger."""

    inputs: dict[str, Any]


def fleet(attempts: int, *, nodes: int = 256) -> Fleet:
    """Attempts one after the other on each node, with gaps, and a few nodes going down."""
    chance = np.random.default_rng(5)
    per_node = attempts // nodes + 1
    runs = chance.integers(600, 20_000, (nodes, per_node))
    gaps = chance.integers(0, 600, (nodes, per_node))
    ends = np.cumsum(runs + gaps, axis=1)
    starts = ends - runs
    names = np.array([f"n{i:04d}" for i in range(nodes)])
    day = timedelta(seconds=int(ends.max()))
    rows = pl.DataFrame(
        {
            "cluster": "c",
            "scheduler": "slurm",
            "job_id": np.arange(starts.size).astype(str),
            "submitted_at": starts.ravel(),
            "node": np.repeat(names, per_node),
            "started_at": starts.ravel(),
            "ended_at": ends.ravel(),
            "suspended_s": 0.0,
            "milli_gpus": 8000,
        }
    )
    begin = pl.lit(BEGIN, dtype=frames.TIME)
    times = ["submitted_at", "started_at", "ended_at"]
    rows = rows.with_columns((begin + pl.duration(seconds=pl.col(name))).alias(name) for name in times)
    downs = max(1, attempts // 1000)
    at = chance.integers(0, int(ends.max()), downs)
    states = pl.DataFrame(
        {
            "cluster": "c",
            "node": names[chance.integers(0, nodes, downs)],
            "started_at": at,
            "ended_at": at + 3600,
            "state": "down",
            "reason": "Not responding",
            "planned": False,
        }
    ).with_columns((begin + pl.duration(seconds=pl.col(name))).alias(name) for name in ("started_at", "ended_at"))
    covered = pl.DataFrame({"cluster": ["c"], "started_at": [BEGIN], "ended_at": [BEGIN + day]}, schema=frames.COVERAGE)
    inventory = pl.DataFrame({"node": names}).with_columns(
        cluster=pl.lit("c"),
        started_at=begin,
        ended_at=pl.lit(BEGIN + day, dtype=frames.TIME),
        milli_gpus=pl.lit(8000),
        evidence=pl.lit("accounting"),
    )
    return Fleet(
        {
            "inventory": frames.conform(inventory, frames.INVENTORY),
            "attempt_nodes": frames.conform(rows, frames.ATTEMPT_NODES),
            "node_states": frames.conform(states, frames.NODE_STATES),
            "demand": frames.empty({"cluster": frames.TEXT, "node": frames.TEXT, "started_at": frames.TIME,
                                    "ended_at": frames.TIME}),
            "states_known": covered,
            "covered": covered,
        }
    )  # fmt: skip


def sacct_text(jobs: int) -> str:
    """Accounting of so many jobs, 25 columns, about 400 bytes a row."""
    chance = np.random.default_rng(9)
    submit = 1_767_225_600 + np.sort(chance.integers(0, 30_000_000, jobs))
    wait = chance.integers(1, 3600, jobs)
    length = chance.integers(60, 86_400, jobs)
    width = chance.choice([1, 2, 4, 16], jobs)
    first = chance.integers(1, 200, jobs)
    states = np.array(["COMPLETED", "FAILED", "NODE_FAIL", "CANCELLED by 1001", "TIMEOUT"])[
        chance.choice(5, jobs, p=[0.7, 0.2, 0.01, 0.06, 0.03])
    ]
    header = (
        "JobID|JobIDRaw|Cluster|Partition|QOS|Account|Group|GID|User|UID|Submit|Eligible|Start|End|Elapsed|ExitCode|State|"
        "NNodes|NCPUS|ReqMem|ReqTRES|AllocTRES|Timelimit|NodeList|JobName"
    )
    lines = [header]
    for i in range(jobs):
        n, g = int(width[i]), int(width[i]) * 8
        start, end = submit[i] + wait[i], submit[i] + wait[i] + length[i]
        days, rest = divmod(int(length[i]), 86_400)
        elapsed = f"{f'{days}-' if days else ''}{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
        tres = f"billing={g * 8},cpu={g * 8},gres/gpu:h100={g},gres/gpu={g},mem={g * 64}G,node={n}"
        lines.append(
            f"{i + 1}|{i + 1}|bench|main|normal|llm|users|2000|user{i % 97}|{2000 + i % 97}|{submit[i]}|{submit[i]}|"
            f"{start}|{end}|{elapsed}|0:0|{states[i]}|{n}|{g * 8}|{g * 64}G|{tres}|{tres}|1-00:00:00|"
            f"node[{first[i]:04d}-{first[i] + n - 1:04d}]|train-llama-{i % 1000}-pretrain-phase-{i % 7}"
        )
    return "\n".join(lines) + "\n"
