"""Slurm accounting in JSON, from `sacct --json` or slurmrestd's slurmdb jobs: the same attempts as from text.

A job object becomes one row under sacct's own column names and in sacct's own words, and is then parsed like text.
Values that the JSON lacks are null (`LOST` lists them with the reason), never 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl

from ingest.delimited.header import words as names_of
from ingest.delimited.reader import LINE
from ingest.load_warnings import LoadWarning, summed
from ingest.slurm.accounting.attempts import SCHEDULER, AttemptRows, read_facts
from ingest.slurm.accounting.json_job import (
    Array,
    Association,
    Comments,
    Exit,
    JobRecord,
    Required,
    Resources,
    StepRecord,
    TresRecord,
)
from ingest.slurm.accounting.json_steps import step_rows
from ingest.slurm.accounting.merge import merge_attempts
from ingest.slurm.accounting.step_gpus import STEP_GPUS, with_steps
from ingest.slurm.accounting.usage import step_usage
from ingest.slurm.formats.json_answer import SUPPORTED_VERSIONS, AnswerRows, Whole, read_rows, whole, words
from ingest.slurm.formats.tres import tres_columns
from ingest.tables import RAW_LIMIT, REJECTS, Parsed, conform, latest_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.context import ParseContext

__all__ = ["LOST", "parse_accounting_json"]

SOURCE: Final = "slurm.accounting"

_ALWAYS: Final = {
    "db_index": "no version has it: two rows of one id and second are one attempt",
    "uid": "only the name is there",
    "cancelled_by": "a login name, where text has the uid",
}
_OLD_EXIT: Final = "every plain exit reads SUCCESS 0 (Slurm 22.05); only signals are recorded"
_LATER: Final = {
    **_ALWAYS,
    "restarts": "restart_cnt came with Slurm 25.11",
    "sluid": "sluid came with Slurm 26.05",
}
_WHOLE_EXIT: Final = "a status of 128 and more is whole, where text takes 128 off"
LOST: Final[Mapping[str, Mapping[str, str]]] = {
    "0.0.38": {
        **_LATER,
        **dict.fromkeys(("exit_code", "exit_signal", "derived_exit_code", "derived_exit_signal"), _OLD_EXIT),
        "flags": "StartReceived is missing from them",
        "reservation": "its name reads 0",
        **dict.fromkeys(("submit_line", "gpus_asked", "exclusive"), "submit_line is not there yet"),
        "failed_node": "not there yet",
    },
    **{version: {**_LATER, "exit_code": _WHOLE_EXIT} for version in SUPPORTED_VERSIONS[1:]},
}
"""Columns of `attempts` that a version lacks, or has in another form than text, with the reason. Where they are present
all the same (a newer release behind an older version) they are read."""

EXIT_CODES_FROM: Final = "0.0.39"
"""From this version on a plain exit code is right."""

COLUMNS: Final = names_of(
    "jobid jobidraw cluster partition qos account group user submit eligible start end elapsedraw suspended exitcode "
    "derivedexitcode state nnodes reqcpus reqmem reqtres alloctres timelimitraw priority nodelist sluid restarts flags "
    "failednode reservation reason constraints wckey workdir comment admincomment submitline jobname"
)
"""sacct's names of the fields read from a job object, in the order of `_row`."""

FLAGS: Final = {
    "STARTED_ON_SUBMIT": "SchedSubmit",
    "STARTED_ON_SCHEDULE": "SchedMain",
    "STARTED_ON_BACKFILL": "SchedBackfill",
    "START_RECEIVED": "StartReceived",
}
"""The words that text has for the flags of 0.0.39 and later. Others keep their own."""

NO_FLAGS: Final = frozenset({"NONE", "CLEAR_SCHEDULING"})
"""Marks that do not describe the job."""

OVERLAID: Final = ("RESIZING", "REQUEUED", "REVOKED")
"""Of several words of a state text shows this one: it is a flag over the state that the job was in."""

MAX_TASKS: Final = 1 << 22
"""Bits of a task bitmap beyond which it is left as it is: Slurm's largest array is four million tasks."""


def parse_accounting_json(data: bytes, context: ParseContext) -> Parsed:
    """Attempts and the nodes they held, from `sacct --json` or slurmrestd's slurmdb jobs.

    As from text (`ingest.slurm.accounting.sacct.parse_accounting`), with two differences: the steps inside a job object
    are no rows (their GPUs are read where the job's own TRES names none), and the `line` of a refused job is its number
    in the list. `LOST` lists the columns that are null with this transport.

    Raises:
        SlurmAnswerError: The answer holds errors instead of jobs.
        InputError: The answer as a whole cannot be read; see `ingest.errors`.
    """
    rows = read_rows(data, "jobs", JobRecord, origin=context.origin, accept_truncated=context.accept_truncated)
    named = context.cluster or rows.form.cluster
    frame = _frame(rows)
    facts = read_facts(frame, cluster=named, timezone=None, origin=context.origin, now=context.now)
    attempts, _ = with_steps(merge_attempts(facts.attempts), _step_gpus(rows, named))
    usage = step_usage(step_rows(rows, named), cluster=named, timezone=None, origin=context.origin, now=context.now)
    rejects = _rejects(rows, facts, named, context.origin)
    first = attempts.select(pl.coalesce(pl.col("started_at").min(), pl.col("submitted_at").min())).item()
    others = sorted(set(attempts["cluster"].unique()) - {context.cluster}) if context.cluster else []
    foreign = [LoadWarning("other_clusters", len(others), f"{context.cluster}: {', '.join(others)}")] if others else []
    warnings = summed([*(_of_list(warning) for warning in facts.warnings), *usage.warnings])
    return Parsed(
        source=SOURCE,
        clusters=frozenset(attempts["cluster"].unique()),
        frames={
            "attempts": attempts,
            "node_lists": facts.lists,
            "step_usage": usage.rows,
            "job_summaries": facts.summaries,
        },
        rejects=rejects,
        rows_read=rows.n_read,
        rows_loaded=attempts.height,
        rows_duplicate=facts.attempts.height - attempts.height,
        rows_rejected=rejects.height,
        columns=rows.names,
        warnings=[*rows.form.warnings, *_lost_codes(rows), *rows.warnings, *foreign, *warnings],
        covers_from=context.since or first,
        covers_until=context.until or latest_time(facts.until),
    )


def _of_list(warning: LoadWarning) -> LoadWarning:
    """A warning of accounting, worded for a list from slurmrestd: sacct was not run."""
    if warning.code == "times_truncated":
        return LoadWarning("times_truncated_in_list", warning.count)
    return warning


_FAR: Final = 1 << 36
"""Epochs beyond which a time is none."""

_STEPS: Final = msgspec.json.Decoder(list[StepRecord])


def _step_gpus(rows: AnswerRows, cluster: str | None) -> pl.DataFrame:
    """The GPUs of the steps of jobs whose own TRES names none: a job object has its steps within it."""
    parsed = [
        (_cluster(job) or cluster, SCHEDULER, str(job.job_id), began, tres)
        for _, job in rows.rows
        if not _names_gpus(job.tres.allocated if job.tres else [])
        # As the attempt: a requeued one may show the Start of the first.
        and 0 < (began := max(whole(job.time.start) or 0, whole(job.time.submission) or 0)) < _FAR
        for tres in _of_steps(job)
    ]
    names = {name: pl.Int64() if name == "began" else pl.String() for name in STEP_GPUS}
    table = pl.DataFrame(parsed, schema=names, orient="row")
    return conform(
        table.with_columns(
            pl.from_epoch("began", "s").cast(pl.Datetime("us")).dt.replace_time_zone("UTC"),
            tres_columns(table["step_gpus"])["gpus"].alias("step_gpus"),
        ).drop_nulls(),
        STEP_GPUS,
    )


def _of_steps(job: JobRecord) -> list[str]:
    """The TRES of its steps with GPUs; none where they cannot be read, for the job itself is read without them."""
    if b"gpu" not in bytes(job.steps):
        return []
    try:
        steps = _STEPS.decode(job.steps)
    except msgspec.MsgspecError:
        return []
    return [
        text
        for step in steps
        if step.tres and _names_gpus(step.tres.allocated) and (text := _tres(step.tres.allocated))
    ]


def _names_gpus(items: list[TresRecord]) -> bool:
    return any(item.type == "gres" and (item.name or "").partition(":")[0] == "gpu" for item in items)


def _lost_codes(rows: AnswerRows) -> list[LoadWarning]:
    """Warnings about exit codes that the JSON lacks; these matter most to readers."""
    if rows.form.version >= EXIT_CODES_FROM or not rows.n_read:
        return []
    return [LoadWarning("exit_codes_lacking", None, rows.form.version)]


def _rejects(rows: AnswerRows, facts: AttemptRows, cluster: str | None, origin: str) -> pl.DataFrame:
    unbelieved = facts.refused.select(LINE, "reason", "cluster").rows()
    raws = rows.as_they_came() if unbelieved else []
    usual = cluster or (str(facts.attempts["cluster"].min()) if facts.attempts.height else "unknown")
    accounted = [(usual, number, reason, raw) for number, reason, raw in rows.refused]
    accounted += [(named or usual, number, reason, raws[number - 1].decode()) for number, reason, named in unbelieved]
    return pl.DataFrame(
        [
            (named, SOURCE, origin, number, reason, raw[:RAW_LIMIT])
            for named, number, reason, raw in sorted(accounted, key=lambda each: each[1])
        ],
        schema=REJECTS,
        orient="row",
    )


def _frame(rows: AnswerRows) -> pl.DataFrame:
    """The jobs as a table of sacct's columns, all text, and their numbers as the lines."""
    plain = rows.form.version >= EXIT_CODES_FROM
    table = [_row(job, plain=plain) for _, job in rows.rows]
    schema = dict.fromkeys(COLUMNS, pl.String())
    frame = pl.DataFrame(table, schema=schema, orient="row")
    return frame.with_columns(pl.Series(LINE, [number for number, _ in rows.rows], pl.Int64))


def _row(job: JobRecord, *, plain: bool) -> tuple[str | None, ...]:
    """One job in the order of `COLUMNS`. `plain`: whether its exit codes can be used."""
    resources = job.tres or Resources()
    booked = job.association or Association()
    time, required, comment = job.time, job.required or Required(), job.comment or Comments()
    state = _state(job)
    failed = state == "FAILED"
    requested = _tres(resources.requested)
    reservation = job.reservation.name if job.reservation else None
    return (
        _display(job),
        str(job.job_id),
        _cluster(job),
        job.partition,
        job.qos,
        job.account or booked.account,
        job.group,
        job.user or booked.user,
        _number(time.submission),
        _number(time.eligible),
        _number(time.start),
        _number(time.end),
        _number(time.elapsed),
        _number(time.suspended),
        _exit(job.exit_code, plain=plain and not failed),
        _exit(job.derived_exit_code, plain=plain),
        state,
        _number(job.allocation_nodes),
        _number(required.cpus),
        _memory(resources.requested, required),
        requested,
        _tres(resources.allocated),
        _number(time.limit),
        _number(job.priority),
        job.nodes,
        job.sluid,
        _number(job.restart_cnt),
        _flags(job.flags) if plain else None,
        job.failed_node,
        reservation if isinstance(reservation, str) else None,
        job.state.reason,
        job.constraints,
        job.wckey.text if job.wckey else None,
        job.working_directory or None,
        comment.job,
        comment.administrator,
        job.submit_line,
        job.name or None,
    )


def _cluster(job: JobRecord) -> str | None:
    return job.cluster or (job.association.cluster if job.association else None)


def _number(value: Whole) -> str | None:
    number = whole(value)
    return None if number is None else str(number)


def _display(job: JobRecord) -> str:
    """The id as text shows it: `9_3`, `10_[2-4%2]`, `11+1`, or plain."""
    array = whole(job.array.job_id) if job.array else None
    if job.array and array:
        task = whole(job.array.task_id)
        return f"{array}_{task}" if task is not None else f"{array}_[{_waiting(job.array)}]"
    het = whole(job.het.job_id) if job.het else None
    if job.het and het:
        return f"{het}+{whole(job.het.job_offset) or 0}"
    return str(job.job_id)


def _waiting(array: Array) -> str:
    """The tasks not yet split off, with the limit of those that run at a time."""
    most = array.limits.max.running if array.limits and array.limits.max else None
    limit = whole(most.tasks) if most else None
    tasks = array.task or ""
    return f"{_ranges(tasks)}%{limit}" if limit and "%" not in tasks else _ranges(tasks)


def _ranges(tasks: str) -> str:
    """Ranges from a bitmap in hex, its lowest bit task 0; any other text as it is.

    >>> _ranges("0x3FC"), _ranges("0x15"), _ranges("1-4:2")
    ('2-9', '0,2,4', '1-4:2')
    """
    if not tasks.lower().startswith("0x"):
        return tasks
    try:
        bits = int(tasks, 16)
    except ValueError:
        return tasks
    if bits.bit_length() > MAX_TASKS:
        return tasks
    parsed: list[str] = []
    text, at = f"{bits:b}"[::-1], 0
    while (first := text.find("1", at)) >= 0:
        at = text.find("0", first)
        at = len(text) if at < 0 else at
        parsed.append(str(first) if at == first + 1 else f"{first}-{at - 1}")
    return ",".join(parsed)


def _state(job: JobRecord) -> str | None:
    states = words(job.state.current)
    state = next((word for word in OVERLAID if word in states), states[0] if states else None)
    return f"{state} by {job.kill_request_user}" if state == "CANCELLED" and job.kill_request_user else state


def _exit(code: Exit | None, *, plain: bool) -> str | None:
    """`status:signal`; null where a 0 may be none."""
    if code is None:
        return None
    signal = (whole(code.signal.id) or whole(code.signal.signal_id)) if code.signal else None
    if signal:
        return f"0:{signal}"
    number = whole(code.return_code)
    return f"{number}:0" if number or (number == 0 and plain) else None


def _tres(items: list[TresRecord]) -> str | None:
    """The resources as text writes them, in its order; what was not measured (energy) is left out."""
    states = [
        f"{item.type}/{item.name}={item.count:.0f}"
        if item.name
        else f"{item.type}={item.count:.0f}{'M' if item.type == 'mem' else ''}"
        for item in items
        if item.count is not None and item.count >= 0
    ]
    return ",".join(sorted(states)) or None


def _memory(requested: list[TresRecord], required: Required) -> str | None:
    """Memory requested, in all: text takes it from the TRES, too. Where they have none, per node or per core."""
    for item in requested:
        if item.type == "mem" and item.count is not None:
            return f"{item.count:.0f}M"
    per_cpu, per_node = whole(required.memory_per_cpu), whole(required.memory_per_node)
    return f"{per_cpu}Mc" if per_cpu else f"{per_node}Mn" if per_node else None


def _flags(flags: list[str] | None) -> str | None:
    return ",".join(FLAGS.get(flag, flag) for flag in flags or () if flag not in NO_FLAGS) or None
