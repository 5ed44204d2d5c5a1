"""Small frames for metric tests, written as one would say them. Times are hours after `START`, GPUs are whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import polars as pl

from metrics import frames
from metrics.categories import ALLOCATED, IDLE
from metrics.failures.diagnosis import EVENTS
from metrics.runs.runs import run_attempts

START = datetime(2026, 3, 2, tzinfo=UTC)
GPUS_PER_NODE = 8

Row = Mapping[str, object]


def at(hours: float = 0, *, minutes: float = 0, seconds: float = 0) -> datetime:
    return START + timedelta(hours=hours, minutes=minutes, seconds=seconds)


def moment(hours: float | None) -> datetime | None:
    return None if hours is None else at(hours)


def rows(schema: frames.Schema, *result: Row) -> pl.DataFrame:
    """A frame of the schema; what a row does not say is null."""
    complete = [dict.fromkeys(schema, None) | dict(row) for row in result]
    return pl.DataFrame(complete, schema=schema)


def attempt(
    job: str,
    submitted: float,
    started: float | None,
    ended: float | None,
    state: str = "COMPLETED",
    *,
    gpus: float = 8,
    **more: object,
) -> dict[str, object]:
    """An attempt by alice that was eligible when submitted; its nodes have 8 GPUs. `more` overrides any column."""
    return {
        "cluster": "c",
        "scheduler": "slurm",
        "job_id": job,
        "submitted_at": at(submitted),
        "eligible_at": at(submitted),
        "started_at": moment(started),
        "ended_at": moment(ended),
        "state": state,
        "exit_code": 0,
        "user": "alice",
        "account": "lab",
        "partition": "main",
        "name": "train",
        "suspended_s": 0.0,
        "n_nodes": max(1, round(gpus / GPUS_PER_NODE)),
        "req_milli_gpus": round(gpus * 1000),
        "milli_gpus": round(gpus * 1000),
    } | more


def attempts(*result: Row) -> pl.DataFrame:
    return rows(frames.ATTEMPTS, *result)


def on_nodes(ran: pl.DataFrame, nodes: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """Which nodes the attempts of each job id held."""
    return rows(
        frames.ATTEMPT_NODES,
        *(
            {name: row[name] for name in (*frames.ATTEMPT_KEY, "started_at", "ended_at", "suspended_s")}
            | {"node": node, "milli_gpus": row["milli_gpus"] // len(nodes[row["job_id"]])}
            for row in ran.iter_rows(named=True)
            for node in nodes.get(row["job_id"], ())
        ),
    )


def event(node: str, when: datetime, kind: str = "xid", **more: object) -> dict[str, object]:
    """A critical event that an exporter told of."""
    reported = {"cluster": "c", "node": node, "ts": when, "kind": kind, "detail": f"{kind} seen"}
    return reported | {"severity": "critical", "evidence": "telemetry"} | more


def events(*result: Row) -> pl.DataFrame:
    return rows(EVENTS, *result)


def interruption(job: str, started: float, ended: float, kind: str = "infrastructure", **more: object) -> Row:
    """An interruption of an 8-GPU attempt, submitted when it started."""
    return {
        "cluster": "c",
        "scheduler": "slurm",
        "job_id": job,
        "submitted_at": at(started),
        "run_id": job,
        "attempt_no": 1,
        "ended_at": at(ended),
        "state": "NODE_FAIL",
        "class": kind,
        "cause": "node_fail",
        "n_nodes": 1,
        "milli_gpus": 8000,
        "runtime_s": (ended - started) * 3600,
        "incident": f"{job}@{ended}",
        "evidence": "accounting",
    } | more


def spent(
    category: str,
    gpu_hours: float,
    *,
    evidence: str = "log",
    subject: str = "c",
    cluster: str = "c",
    cause: str | None = None,
) -> Row:
    """GPU-time in one category of the ledger; the state follows from the category."""
    state = "allocated" if category in ALLOCATED else "idle" if category in IDLE else "unavailable"
    return {
        "cluster": cluster,
        "subject": subject,
        "state": state,
        "category": category,
        "cause": cause,
        "evidence": evidence,
        "gpu_seconds": round(gpu_hours * 3600),
    }


def sums(*result: Row) -> pl.DataFrame:
    return rows(frames.LEDGER_SUMS, *result)


def joined(ran: pl.DataFrame) -> pl.DataFrame:
    return run_attempts(ran)


def of_keys(held: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    """Attempts on nodes, only those of some attempts."""
    return held.join(keys, on=list(frames.ATTEMPT_KEY), how="semi")
