"""The columns that metrics expect and return. `tests/metrics/test_frames.py` compares them with the declared tables.

Times are aware UTC datetimes in microseconds. GPUs are counted in thousandths (`milli_gpus`), so that a share of
a GPU is a whole number and GPU-seconds stay exact.
"""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from typing import Final

import polars as pl

Schema = dict[str, pl.DataType]

TIME = pl.Datetime("us", "UTC")
TEXT = pl.String()
COUNT = pl.Int64()
NUMBER = pl.Float64()
FLAG = pl.Boolean()
GPUS = pl.Decimal(12, 3)


ATTEMPT_KEY = ("cluster", "scheduler", "job_id", "submitted_at")
_KEY: Schema = {"cluster": TEXT, "scheduler": TEXT, "job_id": TEXT, "submitted_at": TIME}

ATTEMPTS: Schema = _KEY | {
    "het_job_id": TEXT,
    "eligible_at": TIME,
    "started_at": TIME,
    "ended_at": TIME,
    "state": TEXT,
    "reason": TEXT,
    "exit_code": COUNT,
    "cancelled_by": TEXT,
    "user": TEXT,
    "account": TEXT,
    "partition": TEXT,
    "name": TEXT,
    "suspended_s": NUMBER,
    "n_nodes": COUNT,
    "req_nodes": COUNT,
    "req_segment": COUNT,
    "req_milli_gpus": COUNT,
    "milli_gpus": COUNT,
    "failed_node": TEXT,
}

ATTEMPT_LABELS: Schema = _KEY | {
    "array_job_id": TEXT,
    "work_dir": TEXT,
    "comment": TEXT,
    "admin_comment": TEXT,
    "wckey": TEXT,
    "submit_line": TEXT,
    "env_run": TEXT,
}

ATTEMPT_NODES: Schema = _KEY | {
    "node": TEXT,
    "started_at": TIME,
    "ended_at": TIME,
    "suspended_s": NUMBER,
    "milli_gpus": COUNT,
    "evidence": TEXT,
}

NODES: Schema = {
    "cluster": TEXT,
    "node": TEXT,
    "valid_from": TIME,
    "last_seen_at": TIME,
    "gone_at": TIME,
    "milli_gpus": COUNT,
    "gpu_model": TEXT,
    "partitions": pl.List(pl.String()),
}

NODE_STATES: Schema = {
    "cluster": TEXT,
    "node": TEXT,
    "started_at": TIME,
    "ended_at": TIME,
    "state": TEXT,
    "reason": TEXT,
    "actor": TEXT,
    "planned": FLAG,
}

DEMAND: Schema = {"cluster": TEXT, "node": TEXT, "started_at": TIME, "ended_at": TIME, "cause": TEXT}
"""Times at which eligible work waited that a node could have run, and what kept it waiting, where that is known."""

STRAGGLING: Schema = _KEY | {"day": pl.Date(), "share": NUMBER}
"""Share (0-1) of an attempt's kept steps' time on a UTC day that was over what the ideal step takes."""

OPERATIONS: Schema = {
    "dp_rank": COUNT,
    "stage": COUNT,
    "step": COUNT,
    "kind": TEXT,
    "number": COUNT,
    "chunk": COUNT,
    "place": COUNT,
    "started_s": NUMBER,
    "duration_s": NUMBER,
}
"""Operations of training steps: `number` counts those of a kind on a worker within a step, from 0; `chunk` is the model
chunk of the stage and `place` its place in the model, -1 where the operation belongs to none. Where they are
null the order of starts numbers, and each stage is one chunk."""

RANK_STEPS: Schema = {
    "cluster": TEXT,
    "session": TEXT,
    "run_id": TEXT,
    "rank": COUNT,
    "node": TEXT,
    "stage": COUNT,
    "first_step": COUNT,
    "steps": COUNT,
    "compute_s": NUMBER,
    "wait_s": NUMBER,
    "wall_s": NUMBER,
}
"""Time that a rank computed, and waited for others, in `steps` steps from `first_step` on, which took `wall_s` in all;
`stage` is null where the job has no pipeline stages."""

COVERAGE: Schema = {"cluster": TEXT, "started_at": TIME, "ended_at": TIME}

INVENTORY: Schema = {
    "cluster": TEXT,
    "node": TEXT,
    "started_at": TIME,
    "ended_at": TIME,
    "milli_gpus": COUNT,
    "gpu_model": TEXT,
    "evidence": TEXT,
}

LEDGER: Schema = {
    "cluster": TEXT,
    "node": TEXT,
    "scheduler": TEXT,
    "job_id": TEXT,
    "submitted_at": TIME,
    "started_at": TIME,
    "ended_at": TIME,
    "state": TEXT,
    "category": TEXT,
    "cause": TEXT,
    "evidence": TEXT,
    "milli_gpus": COUNT,
}

LEDGER_SUMS: Schema = {
    "cluster": TEXT,
    "subject": TEXT,
    "state": TEXT,
    "category": TEXT,
    "cause": TEXT,
    "evidence": TEXT,
    "gpu_seconds": pl.Decimal(38, 9),
    "straggling_gpu_seconds": pl.Decimal(38, 9),
}

RUN_ATTEMPTS: Schema = _KEY | {"run_id": TEXT, "attempt_no": COUNT, "joined_by": TEXT}

EVENTS: Schema = {
    "cluster": TEXT,
    "node": TEXT,
    "ts": TIME,
    "kind": TEXT,
    "detail": TEXT,
    "gpu": TEXT,
    "code": TEXT,
    "class": TEXT,
    "severity": TEXT,
    "evidence": TEXT,
}
"""Events of nodes, from exporters (`health_events`) or the scheduler (`failures.diagnosis.critical_states`)."""

MODEL: Schema = {
    "params": NUMBER,
    "params_active": NUMBER,
    "layers": COUNT,
    "attention_layers": COUNT,
    "heads": COUNT,
    "kv_heads": COUNT,
    "head_dim": COUNT,
    "hidden": COUNT,
    "ffn_hidden": COUNT,
    "vocab": COUNT,
    "gated": FLAG,
    "tied": FLAG,
    "experts": COUNT,
    "top_k": COUNT,
    "shared_experts": COUNT,
    "expert_ffn_hidden": COUNT,
    "expert_layers": COUNT,
    "expert_params": NUMBER,
    "seq_len": COUNT,
    "recompute": TEXT,
    "flops_per_token": NUMBER,
    "flop_convention": TEXT,
}
"""Properties of a session's model, as the run log names them."""

RECIPE: Schema = {"recipe": TEXT, "global_batch": NUMBER, "learning_rate": NUMBER, "time_factor": NUMBER}
"""Training settings of a session's model, as the run log names them."""

LAYOUT: Schema = {
    "tensor_parallel": COUNT,
    "pipeline_parallel": COUNT,
    "data_parallel": COUNT,
    "context_parallel": COUNT,
    "expert_parallel": COUNT,
    "wandb_run_id": TEXT,
    "pod": TEXT,
    "pod_namespace": TEXT,
    "pod_uid": TEXT,
    "printed_tflops": NUMBER,
    "printed_mfu": NUMBER,
    "printed_steps": COUNT,
}
"""Distribution of a model over GPUs, ids of other systems, and the speed that a log prints itself."""

SESSIONS: Schema = {
    "cluster": TEXT,
    "run_id": TEXT,
    "scheduler": TEXT,
    "job_id": TEXT,
    "restart_count": COUNT,
    "started_at": TIME,
    "ended_at": TIME,
    "read_at": TIME,
    "gpu_model": TEXT,
    "n_gpus": COUNT,
    "dtype": TEXT,
    **MODEL,
    **RECIPE,
    **LAYOUT,
}

STEPS: Schema = {
    "cluster": TEXT,
    "run_id": TEXT,
    "scheduler": TEXT,
    "job_id": TEXT,
    "step": COUNT,
    "ts": TIME,
    "duration_s": NUMBER,
    "tokens": NUMBER,
    "loss": NUMBER,
}

RUN_EVENTS: Schema = {
    "cluster": TEXT,
    "run_id": TEXT,
    "scheduler": TEXT,
    "job_id": TEXT,
    "ts": TIME,
    "ended_at": TIME,
    "kind": TEXT,
    "step": COUNT,
    "durable_at": TIME,
    "blocking": FLAG,
}

ACTIVITY: Schema = {
    "cluster": TEXT,
    "node": TEXT,
    "gpu": TEXT,
    "started_at": TIME,
    "ended_at": TIME,
    "active_share": NUMBER,
    "interval_s": NUMBER,
}

LOGGED: Schema = _KEY | {
    "started_at": TIME,
    "ended_at": TIME,
    "category": TEXT,
    "cause": TEXT,
    "milli_share": COUNT,
}

ACTIVE: Schema = _KEY | {
    "node": TEXT,
    "started_at": TIME,
    "ended_at": TIME,
    "category": TEXT,
    "cause": TEXT,
    "milli_gpus": COUNT,
}

INTERRUPTIONS: Schema = _KEY | {
    "run_id": TEXT,
    "attempt_no": COUNT,
    "ended_at": TIME,
    "state": TEXT,
    "class": TEXT,
    "cause": TEXT,
    "node": TEXT,
    "n_nodes": COUNT,
    "milli_gpus": COUNT,
    "runtime_s": NUMBER,
    "incident": TEXT,
    "evidence": TEXT,
    "detail": TEXT,
    "domains": TEXT,
    "events": TEXT,
    "made_room_for": TEXT,
    "made_room_for_attempt": COUNT,
    "second_order": FLAG,
    "adjudication": TEXT,
}

RESTARTS: Schema = _KEY | {
    "run_id": TEXT,
    "attempt_no": COUNT,
    "class": TEXT,
    "cause": TEXT,
    "milli_gpus": COUNT,
    "in_allocation": FLAG,
    "interrupted_at": TIME,
    "eligible_at": TIME,
    "restarted_at": TIME,
    "detected_at": TIME,
    "detected_by": TEXT,
    "time_to_detect_s": NUMBER,
    "time_to_terminate_s": NUMBER,
    "time_to_requeue_s": NUMBER,
    "queue_s": NUMBER,
    "time_to_job_restart_s": NUMBER,
    "launch_s": NUMBER,
    "load_s": NUMBER,
    "warm_up_s": NUMBER,
    "time_to_first_step_s": NUMBER,
    "time_to_recover_s": NUMBER,
}

RESULT: Schema = {
    "cluster": TEXT,
    "metric": TEXT,
    "window_from": TIME,
    "window_until": TIME,
    "dimension": TEXT,
    "subject": TEXT,
    "unit": TEXT,
    "value": NUMBER,
    "numerator": NUMBER,
    "denominator": NUMBER,
    "n": COUNT,
    "bound_low": NUMBER,
    "bound_high": NUMBER,
    "ci_low": NUMBER,
    "ci_high": NUMBER,
    "ci_method": TEXT,
    "evidence_log": NUMBER,
    "evidence_telemetry": NUMBER,
    "evidence_accounting": NUMBER,
    "evidence_assumed": NUMBER,
    "note": TEXT,
}


def empty(schema: Schema) -> pl.DataFrame:
    """A frame of this schema without rows; all callers share it, so none may change it in place."""
    return _empty(tuple(schema.items()))


@functools.cache
def _empty(columns: tuple[tuple[str, pl.DataType], ...]) -> pl.DataFrame:
    return pl.DataFrame(schema=dict(columns))


def conform(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Select the schema's columns in its order and types; columns the frame lacks become null."""
    has = frame.schema
    if all(has.get(name) == kind for name, kind in schema.items()):
        return frame[list(schema)]
    columns = [
        pl.col(name).cast(kind) if name in has else pl.lit(None, dtype=kind).alias(name)
        for name, kind in schema.items()
    ]
    return frame.select(columns)


def instant(moment: datetime) -> pl.Expr:
    """A moment as an expression of `TIME`. `pl.lit` of a time with a zone takes as long as four steps over few rows."""
    return pl.lit(microseconds(moment)).cast(TIME)


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (moment - _EPOCH) // _US


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_US: Final = timedelta(microseconds=1)


def ended_in(since: datetime, until: datetime) -> pl.Expr:
    """Whether an attempt ended in a window: at `until`, but not at `since`, since it ran before its end.

    So each failure is in the window of the exposure before it, and one that ends the data is not lost.
    """
    return (pl.col("ended_at") > instant(since)) & (pl.col("ended_at") <= instant(until))


def from_us(column: str) -> pl.Expr:
    """Microseconds since 1970 as a time."""
    return pl.from_epoch(column, time_unit="us").dt.replace_time_zone("UTC")


def seconds(span: pl.Expr) -> pl.Expr:
    """A duration as seconds, to the microsecond."""
    return span.dt.total_microseconds() / 1e6
