"""The frames that sources are turned into: columns, types and units as the warehouse declares them.

The tables themselves are declared in `queries/schema`; a test there holds these schemas to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import polars as pl

if TYPE_CHECKING:
    from datetime import datetime

Schema: TypeAlias = dict[str, pl.DataType]
SourceName: TypeAlias = Literal[
    "slurm.accounting",
    "slurm.events",
    "slurm.nodes",
    "slurm.config",
    "slurm.topology",
    "slurm.reservations",
    "slurm.associations",
    "slurm.qos",
    "slurm.transactions",
    "slurm.diag",
    "slurm.runaway",
    "slurm.jobs",
    "prometheus.gpu",
    "prometheus.gpu_hours",
    "prometheus.node",
    "prometheus.health",
    "prometheus.slurm",
    "prometheus.kubernetes",
    "runlog",
]

TIME: Final = pl.Datetime("us", "UTC")
GPUS: Final = pl.Decimal(12, 3)
TEXT: Final = pl.String()
WHOLE: Final = pl.Int64()
REAL: Final = pl.Float64()
FLAG: Final = pl.Boolean()
TEXTS: Final = pl.List(pl.String())

RAW_LIMIT = 4_000
"""Characters of a refused row that are kept."""

ATTEMPT_KEY: Final = ("cluster", "scheduler", "job_id", "submitted_at")

ATTEMPTS: Final[Schema] = {
    "cluster": TEXT,
    "scheduler": TEXT,
    "job_id": TEXT,
    "submitted_at": TIME,
    "display_id": TEXT,
    "array_job_id": TEXT,
    "array_task_id": WHOLE,
    "het_job_id": TEXT,
    "het_offset": WHOLE,
    "db_index": WHOLE,
    "eligible_at": TIME,
    "started_at": TIME,
    "ended_at": TIME,
    "end_guessed": FLAG,
    "state": TEXT,
    "cancelled_by": TEXT,
    "exit_code": WHOLE,
    "exit_signal": WHOLE,
    "derived_exit_code": WHOLE,
    "derived_exit_signal": WHOLE,
    "reason": TEXT,
    "user": TEXT,
    "uid": WHOLE,
    "account": TEXT,
    "group": TEXT,
    "partition": TEXT,
    "qos": TEXT,
    "name": TEXT,
    "work_dir": TEXT,
    "comment": TEXT,
    "reservation": TEXT,
    "priority": WHOLE,
    "time_limit_s": REAL,
    "elapsed_s": REAL,
    "suspended_s": REAL,
    "req_nodes": WHOLE,
    "n_nodes": WHOLE,
    "req_cpus": WHOLE,
    "n_cpus": WHOLE,
    "req_gpus": GPUS,
    "n_gpus": GPUS,
    "gpus_steps": GPUS,
    "gpus_asked": GPUS,
    "exclusive": FLAG,
    "gpu_model": TEXT,
    "req_mem_bytes": WHOLE,
    "alloc_mem_bytes": WHOLE,
    "req_tres": TEXT,
    "alloc_tres": TEXT,
    "node_list": TEXT,
    "sluid": TEXT,
    "restarts": WHOLE,
    "flags": TEXT,
    "failed_node": TEXT,
    "constraints": TEXT,
    "wckey": TEXT,
    "admin_comment": TEXT,
    "submit_line": TEXT,
    "env_run": TEXT,
}

NODE_LISTS: Final[Schema] = {
    "node_list": TEXT,
    "nodes": TEXTS,
}

NODES: Final[Schema] = {
    "cluster": TEXT,
    "node": TEXT,
    "valid_from": TIME,
    "last_seen_at": TIME,
    "n_gpus": GPUS,
    "gpu_model": TEXT,
    "n_cpus": WHOLE,
    "memory_bytes": WHOLE,
    "partitions": TEXTS,
    "topology": TEXTS,
    "labels": TEXTS,
    "evidence": TEXT,
}

NODE_STATES: Final[Schema] = {
    "cluster": TEXT,
    "node": TEXT,
    "started_at": TIME,
    "source": TEXT,
    "ended_at": TIME,
    "state": TEXT,
    "state_raw": TEXT,
    "reason": TEXT,
    "actor": TEXT,
    "planned": FLAG,
}

JOB_GPUS: Final[Schema] = {
    "cluster": TEXT,
    "job_id": TEXT,
    "submitted_at": TIME,
    "gpus_held": GPUS,
    "gpus_asked": GPUS,
    "exclusive": FLAG,
}

CLUSTER_SETTINGS: Final[Schema] = {"cluster": TEXT, "name": TEXT, "value": TEXT}

NODE_TOPOLOGY: Final[Schema] = {
    "cluster": TEXT,
    "node": TEXT,
    "valid_from": TIME,
    "last_seen_at": TIME,
    "plugin": TEXT,
    "path": TEXTS,
}

RESERVATIONS: Final[Schema] = {
    "cluster": TEXT,
    "name": TEXT,
    "started_at": TIME,
    "ended_at": TIME,
    "node_list": TEXT,
    "n_nodes": WHOLE,
    "partition": TEXT,
    "flags": TEXTS,
    "users": TEXTS,
    "accounts": TEXTS,
    "maintenance": FLAG,
    "last_seen_at": TIME,
}

USERS: Final[Schema] = {
    "cluster": TEXT,
    "user": TEXT,
    "account": TEXT,
    "association": TEXT,
    "admin_level": TEXT,
    "provisioned_at": TIME,
    "first_job_at": TIME,
}

ASSOCIATIONS: Final[Schema] = {
    "cluster": TEXT,
    "account": TEXT,
    "user": TEXT,
    "partition": TEXT,
    "association": WHOLE,
    "parent": TEXT,
    "fairshare": TEXT,
    "default_qos": TEXT,
    "qos": TEXTS,
    "limits": TEXTS,
    "first_seen_at": TIME,
    "last_seen_at": TIME,
}

QOS: Final[Schema] = {
    "cluster": TEXT,
    "name": TEXT,
    "priority": WHOLE,
    "preempts": TEXTS,
    "preempt_mode": TEXT,
    "flags": TEXTS,
    "usage_factor": REAL,
    "grace_s": REAL,
    "limits": TEXTS,
    "first_seen_at": TIME,
    "last_seen_at": TIME,
}

TRANSACTIONS: Final[Schema] = {
    "cluster": TEXT,
    "ts": TIME,
    "actor": TEXT,
    "action": TEXT,
    "subject": TEXT,
    "detail": TEXT,
}

SCHEDULER_STATS: Final[Schema] = {
    "cluster": TEXT,
    "ts": TIME,
    "section": TEXT,
    "name": TEXT,
    "value": REAL,
}

RUNAWAY_JOBS: Final[Schema] = {
    "cluster": TEXT,
    "job_id": TEXT,
    "submitted_at": TIME,
    "started_at": TIME,
    "state": TEXT,
    "first_seen_at": TIME,
    "last_seen_at": TIME,
}

GPU_SAMPLES: Final[Schema] = {
    "cluster": TEXT,
    "node": TEXT,
    "gpu": TEXT,
    "ts": TIME,
    "interval_s": pl.Float32(),
    "gpu_util": pl.Float32(),
    "gr_engine_active": pl.Float32(),
    "sm_active": pl.Float32(),
    "tensor_active": pl.Float32(),
    "dram_active": pl.Float32(),
    "memory_used_bytes": pl.Float32(),
    "power_w": pl.Float32(),
    "temperature_c": pl.Float32(),
    "sm_clock_hz": pl.Float32(),
}

GPU_HOURS: Final[Schema] = {
    "cluster": TEXT,
    "node": TEXT,
    "gpu": TEXT,
    "ts": TIME,
    "metric": TEXT,
    "mean": REAL,
    "max": REAL,
    "p95": REAL,
    "active_s": REAL,
    "covered_s": REAL,
    "threshold": REAL,
    "above_s": REAL,
}

NODE_SAMPLES: Final[Schema] = {
    "cluster": TEXT,
    "node": TEXT,
    "metric": TEXT,
    "device": TEXT,
    "ts": TIME,
    "interval_s": pl.Float32(),
    "value": pl.Float32(),
}

CLUSTER_SAMPLES: Final[Schema] = {name: kind for name, kind in NODE_SAMPLES.items() if name != "node"}

NODE_HOURS: Final[Schema] = {
    "cluster": TEXT,
    "node": TEXT,
    "metric": TEXT,
    "device": TEXT,
    "ts": TIME,
    "mean": REAL,
    "max": REAL,
    "p95": REAL,
    "threshold": REAL,
    "above_s": REAL,
    "covered_s": REAL,
}

NODE_ALIASES: Final[Schema] = {"cluster": TEXT, "source": TEXT, "name": TEXT, "valid_from": TIME, "node": TEXT}

HEALTH_EVENTS: Final[Schema] = {
    "cluster": TEXT,
    "node": TEXT,
    "gpu": TEXT,
    "ts": TIME,
    "kind": TEXT,
    "code": TEXT,
    "class": TEXT,
    "severity": TEXT,
    "source": TEXT,
    "evidence": TEXT,
    "detail": TEXT,
    "device": TEXT,
    "value": REAL,
    "action": TEXT,
}

RUN_SESSIONS: Final[Schema] = {
    "cluster": TEXT,
    "run_id": TEXT,
    "scheduler": TEXT,
    "job_id": TEXT,
    "restart_count": WHOLE,
    "rank": WHOLE,
    "started_at": TIME,
    "ended_at": TIME,
    "world": WHOLE,
    "node": TEXT,
    "gpu_model": TEXT,
    "n_gpus": WHOLE,
    "dtype": TEXT,
    "params": REAL,
    "params_active": REAL,
    "layers": WHOLE,
    "heads": WHOLE,
    "head_dim": WHOLE,
    "seq_len": WHOLE,
    "flops_per_token": REAL,
    "flop_convention": TEXT,
    "hidden": WHOLE,
    "ffn_hidden": WHOLE,
    "kv_heads": WHOLE,
    "vocab": WHOLE,
    "gated": FLAG,
    "tied": FLAG,
    "attention_layers": WHOLE,
    "experts": WHOLE,
    "top_k": WHOLE,
    "shared_experts": WHOLE,
    "expert_ffn_hidden": WHOLE,
    "expert_layers": WHOLE,
    "expert_params": REAL,
    "recompute": TEXT,
    "origin": TEXT,
    "read_at": TIME,
}

STEPS: Final[Schema] = {
    "cluster": TEXT,
    "run_id": TEXT,
    "scheduler": TEXT,
    "job_id": TEXT,
    "submitted_at": TIME,
    "step": WHOLE,
    "ts": TIME,
    "duration_s": REAL,
    "tokens": REAL,
    "loss": REAL,
}

RUN_EVENTS: Final[Schema] = {
    "cluster": TEXT,
    "run_id": TEXT,
    "ts": TIME,
    "kind": TEXT,
    "scheduler": TEXT,
    "job_id": TEXT,
    "submitted_at": TIME,
    "ended_at": TIME,
    "step": WHOLE,
    "durable_at": TIME,
    "blocking": FLAG,
    "detail": TEXT,
}

REJECTS: Final[Schema] = {
    "cluster": TEXT,
    "source": TEXT,
    "origin": TEXT,
    "line": WHOLE,
    "reason": TEXT,
    "raw": TEXT,
}

SCHEMAS: Final[dict[str, Schema]] = {
    "attempts": ATTEMPTS,
    "node_lists": NODE_LISTS,
    "nodes": NODES,
    "node_states": NODE_STATES,
    "cluster_settings": CLUSTER_SETTINGS,
    "job_gpus": JOB_GPUS,
    "node_topology": NODE_TOPOLOGY,
    "reservations": RESERVATIONS,
    "users": USERS,
    "associations": ASSOCIATIONS,
    "qos": QOS,
    "transactions": TRANSACTIONS,
    "scheduler_stats": SCHEDULER_STATS,
    "runaway_jobs": RUNAWAY_JOBS,
    "gpu_samples": GPU_SAMPLES,
    "gpu_hours": GPU_HOURS,
    "node_samples": NODE_SAMPLES,
    "cluster_samples": CLUSTER_SAMPLES,
    "node_hours": NODE_HOURS,
    "node_aliases": NODE_ALIASES,
    "health_events": HEALTH_EVENTS,
    "run_sessions": RUN_SESSIONS,
    "steps": STEPS,
    "run_events": RUN_EVENTS,
    "rejects": REJECTS,
}


@dataclass(frozen=True)
class Parsed:
    """One input, understood: the rows for each table, the refused rows, and an account of every row read.

    `rows_read` is always the sum of loaded, duplicate, skipped and rejected rows, and `rejects` has one row for
    each rejected one. `covers_from` and `covers_until` are aware; both are None where the input tells no time.
    `rows_new`, how many were not known before, is told by whoever writes them.
    """

    source: SourceName
    clusters: frozenset[str]
    frames: dict[str, pl.DataFrame]
    rejects: pl.DataFrame
    rows_read: int
    rows_loaded: int
    rows_duplicate: int = 0
    rows_skipped: int = 0
    rows_rejected: int = 0
    rows_new: int | None = None
    columns: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    covers_from: datetime | None = None
    covers_until: datetime | None = None

    def __post_init__(self) -> None:
        told = self.rows_loaded + self.rows_duplicate + self.rows_skipped + self.rows_rejected
        least = min(self.rows_loaded, self.rows_duplicate, self.rows_skipped)
        if told != self.rows_read or self.rows_rejected != self.rejects.height or least < 0:
            message = f"{self.source}: {self.rows_read} rows read, {told} accounted for, {self.rejects.height} kept"
            raise AssertionError(message)
        for name, frame in (*self.frames.items(), ("rejects", self.rejects)):
            if dict(frame.schema) != SCHEMAS[name]:
                message = f"{self.source}: frame {name} is not as declared: {frame.schema}"
                raise AssertionError(message)


def empty(schema: Schema) -> pl.DataFrame:
    """A frame of that schema without rows."""
    return pl.DataFrame(schema=schema)


def conform(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """The columns of the schema, in its order and types; those that the frame lacks are null.

    >>> conform(pl.DataFrame({"name": ["a"], "more": [1]}), {"name": TEXT, "value": TEXT}).row(0)
    ('a', None)
    """
    return frame.select(
        (pl.col(name) if name in frame.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in schema.items()
    )
