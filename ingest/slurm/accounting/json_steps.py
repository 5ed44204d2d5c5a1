"""The steps inside job objects of JSON as rows with sacct's column names, for `usage.step_usage`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl

from ingest.delimited.header import words as names_of
from ingest.slurm.accounting.json_job import CpuTime, StepRecord, StepResources, StepTimes, Usage, Used
from ingest.slurm.formats.json_answer import AnswerRows, Whole, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.slurm.accounting.json_job import JobRecord

COLUMNS: Final = names_of(
    "jobidraw cluster start end elapsedraw suspended nnodes ntasks totalcpu maxrss maxrssnode maxrsstask "
    "tresusageinmax tresusageintot consumedenergyraw"
)
"""sacct's names of the fields read from a step, in the order of `_row`."""

_STEPS: Final = msgspec.json.Decoder(list[StepRecord])


def step_rows(rows: AnswerRows, cluster: str | None) -> pl.DataFrame:
    """The steps of all jobs of an answer, all text. Those of a job whose steps cannot be read are left out.

    Args:
        rows: the jobs.
        cluster: of jobs that do not name one.
    """
    table = [row for _, job in rows.rows for row in _of_job(job, cluster)]
    return pl.DataFrame(table, schema=dict.fromkeys(COLUMNS, pl.String()), orient="row")


def _of_job(job: JobRecord, cluster: str | None) -> Iterator[tuple[str | None, ...]]:
    if not bytes(job.steps):
        return
    try:
        steps = _STEPS.decode(job.steps)
    except (msgspec.MsgspecError, RecursionError):
        return
    named = job.cluster or (job.association.cluster if job.association else None) or cluster
    for step in steps:
        name = _name(step)
        if name is not None:
            yield _row(step, f"{job.job_id}.{name}", named)


def _name(step: StepRecord) -> str | None:
    """`batch` or `0`, of the forms of all versions."""
    value = step.step.id if step.step else None
    if isinstance(value, dict):
        value = value.get("step_id")
    if value is None or value == "" or isinstance(value, dict):
        return None
    return str(value).rpartition(".")[2].lower()


def _row(step: StepRecord, job_step: str, cluster: str | None) -> tuple[str | None, ...]:
    time, used = step.time or StepTimes(), (step.tres or StepResources()).requested or Usage()
    memory = next((each for each in used.max if each.type == "mem"), None)
    energy = step.statistics.energy if step.statistics else None
    return (
        job_step,
        cluster,
        _text(time.start),
        _text(time.end),
        _text(time.elapsed),
        _text(time.suspended),
        _text(step.nodes.count if step.nodes else None),
        _text(step.tasks.count if step.tasks else None),
        _seconds(time.total),
        _text(memory.count if memory else None),
        memory.node if memory else None,
        _text(memory.task if memory else None),
        _tres(used.max),
        _tres(used.total),
        _text(energy.consumed if energy else None),
    )


def _text(value: Whole) -> str | None:
    number = whole(value)
    return None if number is None else str(number)


def _seconds(time: CpuTime | None) -> str | None:
    """CPU time as a number of seconds."""
    seconds = whole(time.seconds) if time else None
    if time is None or seconds is None:
        return None
    return f"{seconds + (whole(time.microseconds) or 0) / 1e6:.6f}"


def _tres(items: list[Used]) -> str | None:
    """The memory and the GPUs of a list as text writes them."""
    parts = (
        f"{item.type}/{item.name}={item.count:.0f}" if item.name else f"{item.type}={item.count:.0f}"
        for item in items
        if item.count is not None and item.count >= 0 and item.type in {"mem", "gres"}
    )
    return ",".join(parts) or None
