"""A year of a large cluster, made with numpy: attempts of many sizes on nodes, node failures, inventory, demand.

Nodes stand in blocks of 16. Within a block all jobs have one width, so nobody's nodes overlap but those of the shared
nodes, where two jobs with half of the GPUs each run side by side. About 3.6 node rows come to an attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from metrics import frames

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
YEAR_S = 365 * 86_400
NODES = 2048
ATTEMPTS = 2_600_000
BLOCK = 16
GPUS = 8
FAILURES_A_WEEK = 50

WIDTHS = ((1, 0.10), (2, 0.15), (4, 0.15), (8, 0.30), (16, 0.30))
"""Nodes of a job, and the share of the blocks that run such jobs."""
SHARED = 0.03
"""Share of the blocks whose nodes each run two jobs at once."""

_BEGIN = int(BEGIN.timestamp())


@dataclass(frozen=True)
class Year:
    """Attempts and node events.

    Attributes:
        jobs: `job`, `user`, `name`, `first` (node), `width`, `gpus` (on each node), `submit`, `start`, `end` (seconds
            from the beginning; null while it runs), `state`.
        downs: `node` (number), `start`, `end`.
        nodes: how many there are.
        until: seconds from the beginning to the end of the data.
    """

    jobs: pl.DataFrame
    downs: pl.DataFrame
    nodes: int
    until: int


def year(attempts: int = ATTEMPTS, *, nodes: int = NODES, until: int = YEAR_S) -> Year:
    """About so many attempts (to a thousandth) over the time on so many nodes; the same for the same arguments."""
    chance = np.random.default_rng([6, attempts, nodes])
    places = _places(nodes, chance)
    mean = until * places.height / attempts
    per_place = int(attempts / places.height * 1.1) + 8
    gaps = (chance.exponential(mean * 0.08, (places.height, per_place))).astype(np.int64)
    runs = chance.exponential(mean * 0.92, (places.height, per_place)).astype(np.int64) + 5
    ends = np.cumsum(gaps + runs, axis=1)
    starts = ends - runs
    there = starts < until
    count = int(there.sum())
    lane = np.broadcast_to(np.arange(places.height)[:, None], there.shape)[there]
    start, end = starts[there], ends[there]
    wait = np.minimum(start, (chance.exponential(600, count) * (chance.random(count) < 0.5)).astype(np.int64))
    jobs = (
        pl.DataFrame({"lane": lane, "start": start, "end": end, "submit": start - wait})
        .join(places.with_row_index("lane").cast({"lane": pl.Int64}), on="lane")
        .sort("submit", "lane")
        .with_columns(
            job=pl.int_range(pl.len()) + 1_000_000,
            user=pl.Series(chance.integers(0, 400, count)),
            name=pl.Series(chance.integers(0, 5000, count)),
            state=pl.Series(
                chance.choice(["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"], count, p=[0.7, 0.2, 0.07, 0.03])
            ),
            end=pl.when(pl.col("end") < until).then("end"),
        )
    )
    ended = np.flatnonzero(jobs["end"].is_not_null().to_numpy())
    failed = chance.choice(ended, max(1, round(FAILURES_A_WEEK * until / 604_800 * nodes / NODES)), replace=False)
    broken = jobs[np.sort(failed)]
    downs = broken.select(
        (pl.col("first") + pl.Series(chance.integers(0, BLOCK, broken.height)) % pl.col("width")).alias("node"),
        pl.col("end").alias("start"),
        (pl.col("end") + pl.Series(chance.integers(600, 40_000, broken.height))).alias("end"),
    )
    fails = pl.Series(np.isin(np.arange(count), failed))
    jobs = jobs.with_columns(
        state=pl.when(pl.col("end").is_null())
        .then(pl.lit("RUNNING"))
        .when(fails)
        .then(pl.lit("NODE_FAIL"))
        .otherwise("state")
    )
    return Year(jobs.drop("lane"), downs, nodes, until)


def _places(nodes: int, chance: np.random.Generator) -> pl.DataFrame:
    """Where jobs run one after the other: first node, width, GPUs on each node."""
    blocks = nodes // BLOCK
    widths = chance.permutation(np.repeat([w for w, _ in WIDTHS], _shares([s for _, s in WIDTHS], blocks)))
    result = []
    shared = set(np.flatnonzero(widths == 1)[: max(1, round(SHARED * blocks))].tolist())
    for block, width in enumerate(widths.tolist()):
        for first in range(block * BLOCK, (block + 1) * BLOCK, width):
            result += [(first, width, GPUS // 2)] * 2 if block in shared else [(first, width, GPUS)]
    return pl.DataFrame(result, schema={"first": pl.Int64, "width": pl.Int64, "gpus": pl.Int64}, orient="row")


def _shares(parts: list[float], whole: int) -> list[int]:
    edges = np.round(np.cumsum([0.0, *parts]) * whole).astype(int)
    return [int(each) for each in np.diff(edges)]


def _node(number: pl.Expr) -> pl.Expr:
    return pl.format("n{}", number.cast(pl.String).str.zfill(4))


def _at(column: str) -> pl.Expr:
    seconds = pl.from_epoch(pl.col(column) + _BEGIN, time_unit="s")
    return seconds.dt.cast_time_unit("us").dt.replace_time_zone("UTC")


def attempt_nodes(made: Year) -> pl.DataFrame:
    """`frames.ATTEMPT_NODES`."""
    rows = made.jobs.with_columns(node=pl.int_ranges("first", pl.col("first") + pl.col("width"))).explode("node")
    return frames.conform(
        rows.select(
            pl.lit("c").alias("cluster"),
            pl.lit("slurm").alias("scheduler"),
            pl.col("job").cast(pl.String).alias("job_id"),
            _at("submit").alias("submitted_at"),
            _node(pl.col("node")).alias("node"),
            _at("start").alias("started_at"),
            _at("end").alias("ended_at"),
            pl.lit(0.0).alias("suspended_s"),
            (pl.col("gpus") * 1000).alias("milli_gpus"),
            pl.lit("accounting").alias("evidence"),
        ),
        frames.ATTEMPT_NODES,
    )


def inputs(made: Year) -> dict[str, Any]:
    """Arguments of `metrics.ledger.inputs.index_inputs`."""
    begin, end = BEGIN, BEGIN + timedelta(seconds=made.until)
    covered = pl.DataFrame({"cluster": ["c"], "started_at": [begin], "ended_at": [end]}, schema=frames.COVERAGE)
    names = pl.select(_node(pl.int_range(made.nodes)).alias("node"))
    inventory = names.with_columns(
        cluster=pl.lit("c"), started_at=pl.lit(begin, dtype=frames.TIME), ended_at=pl.lit(end, dtype=frames.TIME),
        milli_gpus=pl.lit(GPUS * 1000), evidence=pl.lit("accounting"),
    )  # fmt: skip
    states = made.downs.select(
        pl.lit("c").alias("cluster"), _node(pl.col("node")).alias("node"), _at("start").alias("started_at"),
        _at("end").alias("ended_at"), pl.lit("down").alias("state"), pl.lit("Not responding").alias("reason"),
        pl.lit(value=False).alias("planned"),
    )  # fmt: skip
    # A queue that is empty for two hours of each day.
    hours = pl.select(pl.int_range(0, made.until, 86_400).alias("start")).with_columns(end=pl.col("start") + 79_200)
    demand = names.join(hours, how="cross").select(
        pl.lit("c").alias("cluster"), "node", _at("start").alias("started_at"), _at("end").alias("ended_at")
    )
    return {
        "inventory": frames.conform(inventory, frames.INVENTORY),
        "attempt_nodes": attempt_nodes(made),
        "node_states": frames.conform(states, frames.NODE_STATES),
        "demand": frames.conform(demand, frames.DEMAND),
        "states_known": covered,
        "covered": covered,
    }


def write_dumps(made: Year, folder: Path) -> list[Path]:
    """What `sacct`, `sacctmgr show event` and `scontrol show node` would tell, as files."""
    sacct, events, nodes = folder / "sacct.txt", folder / "events.txt", folder / "scontrol-nodes.txt"
    g = pl.col("gpus") * pl.col("width")
    tres = pl.format(
        "billing={},cpu={},gres/gpu:h100={},gres/gpu={},mem={}G,node={}", g * 8, g * 12, g, g, g * 64, pl.col("width")
    )
    last = pl.col("first") + pl.col("width") - 1
    many = pl.format("n[{}-{}]", pl.col("first").cast(pl.String).str.zfill(4), last.cast(pl.String).str.zfill(4))
    text = made.jobs.select(
        pl.col("job").alias("JobID"),
        pl.col("job").alias("JobIDRaw"),
        pl.lit("bench").alias("Cluster"),
        pl.lit("train").alias("Partition"),
        pl.lit("normal").alias("QOS"),
        pl.format("team-{}", pl.col("user") // 20).alias("Account"),
        pl.format("user{}", pl.col("user")).alias("User"),
        (pl.col("submit") + _BEGIN).alias("Submit"),
        (pl.col("submit") + _BEGIN).alias("Eligible"),
        (pl.col("start") + _BEGIN).alias("Start"),
        (pl.col("end") + _BEGIN).cast(pl.String).fill_null("Unknown").alias("End"),
        pl.when(pl.col("state") == "FAILED").then(pl.lit("1:0")).otherwise(pl.lit("0:0")).alias("ExitCode"),
        pl.col("state").alias("State"),
        pl.col("width").alias("NNodes"),
        (g * 12).alias("NCPUS"),
        tres.alias("ReqTRES"),
        tres.alias("AllocTRES"),
        pl.when(pl.col("width") > 1).then(many).otherwise(_node(pl.col("first"))).alias("NodeList"),
        pl.format("train-{}", pl.col("name")).alias("JobName"),
    )
    text.write_csv(sacct, separator="|", quote_style="never")
    reported = [
        "Cluster|NodeName|TimeStart|TimeEnd|State|StateRaw|Reason|User",
        f"bench||{_BEGIN}|Unknown||0|Cluster Registered TRES|",
    ]
    reported += [
        f"bench|n{node:04d}|{start + _BEGIN}|{end + _BEGIN}|DOWN*|2049|Not responding|slurm(64030)"
        for node, start, end in made.downs.sort("start").iter_rows()
    ]
    events.write_text("\n".join(reported) + "\n")
    now = made.until + _BEGIN
    nodes.write_text(
        "".join(
            f"NodeName=n{node:04d} Arch=x86_64 CoresPerSocket=48 CPUTot=96 Gres=gpu:h100:{GPUS} RealMemory=512000 "
            f"State=IDLE Partitions=train BootTime={_BEGIN} SlurmdStartTime={_BEGIN} LastBusyTime={now} "
            f"CfgTRES=cpu=96,mem=500G,billing=96,gres/gpu={GPUS},gres/gpu:h100={GPUS}\n"
            for node in range(made.nodes)
        )
    )
    return [sacct, events, nodes]
