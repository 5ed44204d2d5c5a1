"""The truth in numbers: what Trackside ought to find, written next to the files that it sees."""

from __future__ import annotations

import itertools
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from app.demo.simulate import kubernetes, kubernetes_work, rank_times
from app.demo.simulate.exporters import silent_nodes
from app.demo.simulate.health import event_rows
from app.demo.simulate.plan import BEGIN, CLUSTER, DAY_S
from app.demo.simulate.telemetry import without_evidence
from app.demo.simulate.work import PEAK_FLOPS
from app.json_text import as_json
from ingest.tables import FLAG, TEXT, WHOLE, Schema

if TYPE_CHECKING:
    from pathlib import Path

    from app.demo.simulate.scheduler import Attempt
    from app.demo.simulate.world import World

CLAIMED_GPUS = 1024


def write_truth(world: World, folder: Path) -> None:
    """Write `truth.json` and `truth/*.parquet`."""
    tables = folder / "truth"
    tables.mkdir(parents=True, exist_ok=True)
    attempts = attempt_rows(world)
    interval_rows(world).write_parquet(tables / "intervals.parquet")
    attempts.write_parquet(tables / "attempts.parquet")
    failure_rows(world).write_parquet(tables / "failures.parquet")
    restart_rows(world).write_parquet(tables / "restarts.parquet")
    run_rows(world, attempts).write_parquet(tables / "runs.parquet")
    event_rows(world).write_parquet(tables / "health.parquet")
    text = as_json(summary(world, attempts), indent=2) + "\n"
    (folder / "truth.json").write_text(text, encoding="utf-8")


def _moment(name: str, per_second: int = 1) -> pl.Expr:
    return (pl.col(name) * (1_000_000 // per_second)).cast(pl.Datetime("us", "UTC"))


def interval_rows(world: World) -> pl.DataFrame:
    """Every GPU-second once, as in the ledger, with the node's name and the attempt's key."""
    keys = pl.DataFrame(
        [(index, str(a.job.id), a.submitted) for index, a in enumerate(world.attempts)],
        schema={"attempt": pl.Int64, "job_id": pl.String, "submitted": pl.Int64},
        orient="row",
    )
    names = pl.DataFrame(
        {
            "node": range(world.settings.n_nodes),
            "name": [world.settings.name(n) for n in range(world.settings.n_nodes)],
        },
        schema={"node": pl.Int64, "name": pl.String},
    )
    joined = world.intervals.join(names, on="node", maintain_order="left")
    return joined.join(keys, on="attempt", how="left", maintain_order="left").select(
        pl.col("name").alias("node"),
        "job_id",
        _moment("submitted").alias("submitted_at"),
        "state",
        "category",
        "cause",
        "active",
        _moment("begin", 1000).alias("started_at"),
        _moment("end", 1000).alias("ended_at"),
        "gpus",
    )


ALLOCATED = ("productive", "lost", "startup", "checkpoint", "stalled", "teardown", "other_work")


def attempt_rows(world: World) -> pl.DataFrame:
    """One row per attempt: what Slurm ought to report, GPU-seconds by category, steps kept and lost, FLOP kept."""
    amount = (pl.col("end") - pl.col("begin")) * pl.col("gpus")
    spent = world.allocated.group_by("attempt").agg(
        (amount.filter(pl.col("category") == name).sum() / 1000).alias(f"{name}_gpu_s") for name in ALLOCATED
    )
    waits = _waits_for_data(world)
    rows = [_attempt_row(index, attempt, world, waits.get(index)) for index, attempt in enumerate(world.attempts)]
    table = pl.DataFrame(rows, infer_schema_length=None).join(spent, on="attempt", how="left", maintain_order="left")
    return table.with_columns(pl.col([f"{name}_gpu_s" for name in ALLOCATED]).fill_null(0.0))


def _waits_for_data(world: World) -> dict[int, pl.DataFrame]:
    """When attempts waited for data amid their steps: `begin` and `end`, milliseconds."""
    waits = world.allocated.filter((pl.col("category") == "stalled") & (pl.col("cause") == "data_stall"))
    once = waits.select("attempt", "begin", "end").unique().sort("attempt", "begin")
    return {int(key[0]): rows for key, rows in once.partition_by("attempt", as_dict=True).items()}


def _attempt_row(index: int, attempt: Attempt, world: World, waits: pl.DataFrame | None) -> dict[str, Any]:
    job, steps = attempt.job, world.steps.get(index)
    n_kept = 0 if steps is None else int((~steps.lost).sum())
    kept_s = 0.0 if steps is None else float((steps.end - steps.begin)[~steps.lost].sum()) / 1000
    if steps is not None and waits is not None:  # waiting for data is a part of the step before it
        before = np.searchsorted(steps.begin, waits["begin"].to_numpy(), side="right") - 1
        mine = (before >= 0) & ~steps.lost[before]
        kept_s += float((waits["end"] - waits["begin"]).to_numpy()[mine].sum()) / 1000
    flops = 0.0 if job.model is None else n_kept * job.tokens * job.model.flops_per_token
    return {
        "attempt": index,
        "job_id": str(job.id),
        "run": job.name,
        "kind": job.kind,
        "restart_count": attempt.number,
        "db_index": attempt.db_index,
        "user": job.user,
        "partition": job.partition,
        "submitted": attempt.submitted,
        "eligible": attempt.eligible,
        "started": attempt.started,
        "ended": attempt.ended,
        "state": attempt.state.split()[0],
        "n_gpus": job.gpus if attempt.started is not None else 0,
        "nodes": [world.settings.name(node) for node in attempt.nodes],
        "logged": job.logged,
        "without_evidence": attempt.started is not None and without_evidence(world, attempt),
        "interrupted_by": None if attempt.failure is None else attempt.failure.kind,
        "steps_kept": n_kept,
        "steps_lost": 0 if steps is None else int(steps.lost.sum()),
        "kept_step_s": kept_s,
        "flops_kept": flops,
    }


def failure_rows(world: World) -> pl.DataFrame:
    """Every injected fault that struck a working node, with the jobs it interrupted."""
    rows = [
        {
            "at": failure.at,
            "node": world.settings.name(failure.node),
            "kind": failure.kind,
            "xid": failure.xid,
            "gpu": failure.gpu,
            "repair_s": failure.repair_s,
            "lemon": failure.node in world.history.plan.lemons,
            "job_ids": [str(attempt.job.id) for attempt in attempts if attempt.failure is failure],
        }
        for failure, attempts in world.history.struck
    ]
    schema: Schema = {"at": WHOLE, "node": TEXT, "kind": TEXT, "xid": WHOLE, "gpu": WHOLE,
              "repair_s": WHOLE, "lemon": FLAG, "job_ids": pl.List(TEXT)}  # fmt: skip
    return pl.DataFrame(rows, schema=schema)


def restart_rows(world: World) -> pl.DataFrame:
    """Every attempt that was followed by another of its job: how long that took; null where it still waits."""
    rows = []
    for places in world.chains.values():
        chain = [world.attempts[index] for index in places]
        for before, after in itertools.pairwise(chain):
            abandoned = after.ended is not None and after.started is None
            if before.ended is None or abandoned:
                continue
            waited = None if after.started is None else after.started - before.ended
            rows.append((str(before.job.id), before.number, before.failure is not None, before.ended, waited))
    schema: Schema = {"job_id": TEXT, "restart_count": WHOLE, "infrastructure": FLAG, "ended": WHOLE,
              "waited_s": WHOLE}  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


def run_rows(world: World, attempts: pl.DataFrame) -> pl.DataFrame:
    """One row per job that started: attempts, GPU-seconds by category and queued, ETTR, MFU."""
    end = world.settings.end
    before = pl.col("ended").shift(1).over("job_id")
    waited = pl.coalesce("started", "ended", pl.lit(end)) - pl.coalesce(before, "eligible")
    gpus = pl.col("n_gpus").max().over("job_id")
    queued = attempts.with_columns(
        queued_gpu_s=(waited * gpus).clip(lower_bound=0), initial=pl.col("restart_count") == 0
    )
    summed = queued.group_by("job_id", maintain_order=True).agg(
        pl.col("run", "kind", "user", "partition", "logged").first(),
        pl.len().alias("n_attempts"),
        pl.col("n_gpus").max(),
        pl.col([f"{name}_gpu_s" for name in ALLOCATED]).sum(),
        pl.col("steps_kept", "steps_lost", "kept_step_s", "flops_kept").sum(),
        pl.col("queued_gpu_s").filter(pl.col("initial")).sum().alias("queued_initial_gpu_s"),
        pl.col("queued_gpu_s").filter(~pl.col("initial")).sum().alias("queued_requeue_gpu_s"),
        pl.col("started").min(),
        pl.col("state").last(),
    )
    held = pl.sum_horizontal(f"{name}_gpu_s" for name in ALLOCATED)
    peak = pl.col("kept_step_s") * pl.col("n_gpus") * PEAK_FLOPS
    return (
        summed.filter(pl.col("started").is_not_null())
        .with_columns(allocated_gpu_s=held)
        .with_columns(
            ettr=pl.col("productive_gpu_s")
            / (pl.col("allocated_gpu_s") + pl.col("queued_initial_gpu_s") + pl.col("queued_requeue_gpu_s")),
            mfu=pl.when(peak > 0).then(pl.col("flops_kept") / peak),
        )
    )


def summary(world: World, attempts: pl.DataFrame) -> dict[str, Any]:
    """Totals, headline numbers, what was planted, and one row per large or logged run."""
    settings, history = world.settings, world.history
    runs = run_rows(world, attempts)
    return {
        "cluster": CLUSTER,
        "gpus": settings.gpus,
        "days": settings.days,
        "seed": settings.seed,
        "since": BEGIN,
        "until": settings.end,
        "capacity_gpu_s": world.capacity_gpu_s,
        "gpu_s": [
            {"state": state, "category": category, "cause": cause, "gpu_s": amount / 1000}
            for (state, category, cause), amount in world.totals.items()
        ],
        "headlines": headlines(world, attempts, runs),
        "n_attempts": attempts.height,
        "n_jobs": len(world.chains),
        "n_failures": len(history.struck),
        "lemons": [settings.name(node) for node in history.plan.lemons],
        "stragglers": [
            {"node": settings.name(s.node), "since": s.begin, "until": s.end, "factor": s.factor}
            for s in history.plan.slow
        ],
        "anomalies": _dimmed_rows(world),
        "stragglers_of_runs": rank_times.planted_rows(world),
        "disagreements": [each._asdict() for each in kubernetes.disagreements(world)],
        "kubernetes": kubernetes_work.truth(world),
        "outages": _outages(world),
        "health_events": dict(event_rows(world).filter("observed")["why"].value_counts().sort("why").iter_rows()),
        "without_exporter": [settings.name(node) for node in silent_nodes(world)],
        "maintenance": [
            {"nodes": [settings.name(node) for node in w.nodes], "since": w.begin, "until": w.end}
            for w in history.plan.maintenance
        ],
        "runs": runs.filter("logged").drop("logged").to_dicts(),
    }


def _outages(world: World) -> dict[str, Any]:
    """Unplanned outages that are over: how many there were, and the median of their length with the silence before."""
    lasted = [
        each.ended - each.began for each in world.history.states if each.category in {"down", "drained"} and each.ended
    ]
    return {"n": len(lasted), "median_s": float(median(lasted)) if lasted else None}


def _dimmed_rows(world: World) -> list[dict[str, Any]]:
    """GPUs that clock lower than their peers for a while."""
    return [
        {"node": world.settings.name(each.node), "gpu": str(each.gpu), "signal": "sm_clock", "since": each.begin,
         "until": each.end, "effect": round(each.clock - 1, 6)}
        for each in world.history.plan.dimmed
    ]  # fmt: skip


def headlines(world: World, attempts: pl.DataFrame, runs: pl.DataFrame) -> dict[str, float | None]:
    """The true values of the headline numbers, under their names in `metrics.catalog`."""
    sums: dict[str, float] = {}
    for (state, category, cause), amount in world.totals.items():
        gone = state == "unavailable" or cause == "node_down"
        for key in (state, category, *(("gone",) if gone else ())):
            sums[key] = sums.get(key, 0.0) + amount / 1000
    capacity, held = world.capacity_gpu_s, sums.get("allocated", 0.0)
    productive = sums.get("productive", 0.0)
    training = runs.filter(pl.col("kind") == "train").select(
        pl.sum_horizontal("allocated_gpu_s", "queued_initial_gpu_s", "queued_requeue_gpu_s").sum()
    )
    wall = float(training.item())
    interrupted = attempts.filter(pl.col("interrupted_by").is_not_null() & pl.col("ended").is_not_null()).height
    ran = attempts.filter(pl.col("started").is_not_null())
    exposure = ran.select(
        ((pl.col("ended").fill_null(world.settings.end) - pl.col("started")) * pl.col("n_gpus")).sum()
    )
    restarts = restart_rows(world).filter("infrastructure")["waited_s"].drop_nulls().to_list()
    logged = runs.filter("logged")
    peak = float((logged["kept_step_s"] * logged["n_gpus"]).sum()) * PEAK_FLOPS
    return {
        "goodput_allocated": productive / held if held else None,
        "goodput_capacity": productive / capacity,
        "occupancy": held / capacity,
        "availability": 1 - sums.get("gone", 0.0) / capacity,
        "ettr": productive / wall if wall else None,
        "mfu": float(logged["flops_kept"].sum()) / peak if peak else None,
        "mttf": exposure.item() / DAY_S / CLAIMED_GPUS / interrupted if interrupted else None,
        "time_to_job_restart": float(median(restarts)) if restarts else None,
    }
