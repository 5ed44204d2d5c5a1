"""Which tables are in a bundle, and what becomes of each of their columns. A column that has no line here stays out.

A rule is `keep` or the kind of name that a pseudonym replaces. Free texts (comments, command lines, details of
events) stay out; of reasons only what a configured pattern recognises is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

KEEP: Final = "keep"

JOB_ID: Final = "job_id"
"""Rule of ids of jobs: Slurm's numbers stay; those of Kubernetes are made of names, so they get pseudonyms."""

_ATTEMPT: Final = {"cluster": KEEP, "scheduler": KEEP, "job_id": JOB_ID, "submitted_at": KEEP}
_SLURM_JOB: Final = {"cluster": KEEP, "job_id": KEEP, "submitted_at": KEEP}


def _kept(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, KEEP)


@dataclass(frozen=True)
class Shipped:
    """A table of a bundle.

    Attributes:
        columns: name -> rule.
        when: SQL that keeps the rows of the period (`$since`, `$until`); all rows where it is empty.
        by_run: whether rows of runs that touch the period are kept whole, whatever their time.
        by_day: whether it is a table of samples, in files by day; the column of their time is `ts`.
    """

    columns: dict[str, str]
    when: str = ""
    by_run: bool = False
    by_day: bool = False


TABLES: Final[dict[str, Shipped]] = {
    "loads": Shipped(
        _kept("cluster", "source", "transport", "requested_from", "requested_until", "partial", "loaded_at")
        | _kept("covers_from", "covers_until", "rows_read", "rows_loaded", "rows_duplicate", "rows_skipped")
        | _kept("rows_rejected", "rows_new", "columns")
        | {"origin": "load"}
    ),
    "cluster_settings": Shipped(
        _kept("cluster", "name", "value"), "name IN ('SlurmdTimeout', 'AccountingStorageTRES')"
    ),
    "nodes": Shipped(
        _kept("cluster", "valid_from", "last_seen_at", "n_gpus", "gpu_model", "n_cpus", "memory_bytes", "evidence")
        | {"node": "node", "partitions": "partition", "topology": "switch"}
    ),
    "node_aliases": Shipped({**_kept("cluster", "source", "valid_from"), "name": "node", "node": "node"}),
    "node_states": Shipped(
        _kept("cluster", "started_at", "source", "ended_at", "state", "planned")
        | {"node": "node", "state_raw": "state", "reason": "reason", "actor": "person"},
        "started_at < $until AND COALESCE(ended_at, 'infinity') > $since",
    ),
    "reservations": Shipped(
        _kept("cluster", "started_at", "ended_at", "n_nodes", "flags", "maintenance", "last_seen_at")
        | {"name": "reservation", "node_list": "node_list", "partition": "partition"},
    ),
    "node_topology": Shipped(
        {**_kept("cluster", "valid_from", "last_seen_at", "plugin"), "node": "node", "path": "switch"}
    ),
    "stored.attempts": Shipped(
        _ATTEMPT
        | _kept("array_job_id", "array_task_id", "het_job_id", "het_offset", "db_index", "eligible_at")
        | _kept("started_at", "ended_at", "end_guessed", "state", "exit_code", "exit_signal", "derived_exit_code")
        | _kept("derived_exit_signal", "priority", "time_limit_s", "elapsed_s", "suspended_s", "req_nodes", "n_nodes")
        | _kept("req_cpus", "n_cpus", "req_gpus", "n_gpus", "gpu_model", "req_mem_bytes", "alloc_mem_bytes", "restarts")
        | _kept("req_tres", "alloc_tres", "gpus_steps", "gpus_asked", "exclusive")
        | {"cancelled_by": "person", "user": "user", "account": "account", "partition": "partition", "qos": "qos"}
        | {"name": "job", "node_list": "node_list", "failed_node": "node", "env_run": "env_run", "display_id": JOB_ID},
        "submitted_at < $until AND COALESCE(ended_at, 'infinity') > $since",
        by_run=True,
    ),
    "placements": Shipped(_ATTEMPT | _kept("started_at", "ended_at", "n_gpus") | {"node": "node"}),
    "outlived_jobs": Shipped(_kept("cluster", "job_id", "ended_at", "lived_until") | {"pod": "pod"}),
    "resubmissions": Shipped(_ATTEMPT | _kept("first_submitted_at")),
    "node_lists": Shipped({"node_list": "node_list", "nodes": "node"}),
    "job_gpus": Shipped(_SLURM_JOB | _kept("gpus_held", "gpus_asked", "exclusive")),
    "runaway_jobs": Shipped(_SLURM_JOB | _kept("started_at", "state", "first_seen_at", "last_seen_at")),
    "run_sessions": Shipped(
        _kept("cluster", "scheduler", "restart_count", "rank", "started_at", "ended_at", "world", "gpu_model")
        | _kept("n_gpus", "dtype", "params", "params_active", "layers", "heads", "head_dim", "seq_len")
        | _kept("flops_per_token", "flop_convention", "read_at", "hidden", "ffn_hidden", "kv_heads", "vocab", "gated")
        | _kept("tied", "attention_layers", "experts", "top_k", "shared_experts", "expert_ffn_hidden", "expert_layers")
        | _kept("expert_params", "recompute", "global_batch", "learning_rate", "time_factor", "tensor_parallel")
        | _kept("pipeline_parallel", "data_parallel", "context_parallel", "expert_parallel")
        | {"run_id": "run", "node": "node", "origin": "load", "recipe": "recipe", "job_id": JOB_ID}
    ),
    "run_events": Shipped(
        _kept("cluster", "ts", "kind", "scheduler", "submitted_at", "ended_at", "step", "durable_at")
        | {"blocking": KEEP, "run_id": "run", "job_id": JOB_ID}
    ),
    "steps": Shipped(
        _kept("cluster", "scheduler", "submitted_at", "step", "ts", "duration_s", "tokens", "loss")
        | {"run_id": "run", "job_id": JOB_ID},
        by_day=True,
    ),
    "gpu_samples": Shipped(
        _kept("cluster", "ts", "interval_s", "gpu_util", "gr_engine_active", "sm_active", "tensor_active")
        | {"node": "node", "gpu": "gpu"},
        "ts < $until AND ts >= $since",
        by_day=True,
    ),
    "gpu_hours": Shipped(
        _kept("cluster", "ts", "metric", "mean", "max", "p95", "active_s", "covered_s", "threshold", "above_s")
        | {"node": "node", "gpu": "gpu"},
        "ts < $until AND ts >= $since AND active_s IS NOT NULL",
    ),
    "health_events": Shipped(
        _kept("cluster", "ts", "kind", "code", "class", "severity", "source", "evidence", "value", "action")
        | {"node": "node", "gpu": "gpu"}
    ),
    "adjudications": Shipped(
        _kept("cluster", "made_at", "kind", "withdrawn_at")
        | {"id": "correction", "author": "person", "reason": "text", "subject": "json", "before": "json"}
        | {"after": "json", "withdrawn_by": "person", "withdrawn_reason": "text"}
    ),
}
"""The tables, in the order in which they are written."""
