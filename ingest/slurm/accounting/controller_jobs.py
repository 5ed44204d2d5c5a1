"""GPUs of jobs as slurmctld shows them: `scontrol show job -d`, and its jobs in JSON (squeue --json, slurmrestd).

slurmctld has the GPUs that a job holds whether or not accounting records them, but only until it forgets the job
(MinJobAge). No attempts are created from these rows: they complete those of accounting with the same id and second of
submission.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from ingest.delimited.reader import clean
from ingest.errors import InputError, MissingColumnError
from ingest.slurm.accounting.gpu_requests import GpuRequest, detail, gpus_in
from ingest.slurm.formats.json_answer import Whole, Words, is_json, read_rows, whole, words
from ingest.slurm.formats.nodelist import expand_column
from ingest.slurm.formats.timestamps import read_instants
from ingest.tables import JOB_GPUS, RAW_LIMIT, REJECTS, Parsed, conform

if TYPE_CHECKING:
    from ingest.context import ParseContext

SOURCE: Final = "slurm.jobs"

IS_LISTING: Final = re.compile(r"(?m)^\s*JobId=\d+ ")
"""How a text of `scontrol show job` begins."""

_RECORD: Final = re.compile(r"(?m)^[ \t]*(?=JobId=\d)")
_NAME: Final = re.compile(r"\sJobName=.*?(?=\sUserId=\S+\(\d+\))")
"""Free text, which may hold anything."""
_END: Final = re.compile(r"\s(?:Command|Comment|AdminComment|SystemComment|WorkDir|SubmitLine)=")
"""Only free text follows."""
_VALUE: Final = re.compile(r"(?:^|\s)([A-Za-z_:/]+)=(\S*)")
_HELD: Final = re.compile(r"\sNodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)")


def parse_jobs(data: bytes, context: ParseContext) -> Parsed:
    """The GPUs of slurmctld's jobs: rows of `frames.JOB_GPUS`; jobs without any are skipped.

    Raises:
        MissingColumnError: The cluster's name is missing.
        TimeZoneError: The times are local and no zone is given.
        InputError: The text cannot be read.
    """
    if context.cluster is None:
        message = f"{context.origin}: it does not name its cluster; name it with --cluster NAME"
        raise MissingColumnError(message)
    cleaned, _ = clean(data, context.origin)
    records = _of_json(cleaned, context) if is_json(cleaned) else _of_text(cleaned.decode(), context.origin)
    table = pl.DataFrame(records, schema=_READ, orient="row")
    times = read_instants(table["submitted"].alias("SubmitTime"), timezone=context.timezone, origin=context.origin)
    missing = pl.when(pl.col("submitted_at").is_null()).then(pl.lit("no SubmitTime"))
    table = table.with_columns(
        times.early.dt.truncate("1s").alias("submitted_at"),
        times.error.alias("error"),
        pl.lit(context.cluster).alias("cluster"),
    ).with_columns(pl.coalesce("error", missing).alias("reason"))
    refused = table.filter(pl.col("reason").is_not_null())
    informative = pl.any_horizontal(pl.col("gpus_held", "gpus_asked", "exclusive").is_not_null())
    good = table.filter(pl.col("reason").is_null() & informative)
    once = merge_job_gpus(conform(good, JOB_GPUS))
    rejects = refused.select(
        "cluster", pl.lit(SOURCE).alias("source"), pl.lit(context.origin).alias("origin"), "line", "reason",
        pl.col("job_id").str.slice(0, RAW_LIMIT).alias("raw"),
    )  # fmt: skip
    return Parsed(
        source=SOURCE,
        clusters=frozenset({context.cluster}),
        frames={"job_gpus": once},
        rejects=conform(rejects, REJECTS),
        rows_read=table.height,
        rows_loaded=once.height,
        rows_duplicate=good.height - once.height,
        rows_skipped=table.height - good.height - refused.height,
        rows_rejected=refused.height,
        columns=list(JOB_GPUS),
    )


_READ: Final = {
    "line": pl.Int64,
    "job_id": pl.String,
    "submitted": pl.String,
    "gpus_held": pl.Float64,
    "gpus_asked": pl.Float64,
    "exclusive": pl.Boolean,
}

_Row = tuple[int, str, str | None, float | None, float | None, bool | None]


def merge_job_gpus(*frames: pl.DataFrame) -> pl.DataFrame:
    """One row per job and second of submission, with the largest number: the order of loads does not matter."""
    rows = pl.concat([frame.select(list(JOB_GPUS)) for frame in frames])
    key = ["cluster", "job_id", "submitted_at"]
    return rows.group_by(key).agg(pl.col("gpus_held", "gpus_asked", "exclusive").max()).sort(key)


# --- scontrol show job -d ------------------------------------------------------------------------------


def _of_text(text: str, origin: str) -> list[_Row]:
    starts = [match.end() for match in _RECORD.finditer(text)]
    if not starts:
        message = f"{origin}: no job in it (JobId=...): this is not what `scontrol show job -d` prints"
        raise InputError(message)
    rows = []
    for start, stop in zip(starts, [*starts[1:], len(text)], strict=True):
        record = _NAME.sub("", text[start:stop], count=1)
        end = _END.search(record)
        rows.append(_row_of_text(text.count("\n", 0, start) + 1, record[: end.start()] if end else record))
    return rows


def _row_of_text(line: int, record: str) -> _Row:
    fields: dict[str, str] = {}
    for key, value in _VALUE.findall(record):
        fields.setdefault(key, value)
    lists = _HELD.findall(record)
    held = _held_on([(nodes, gres) for nodes, gres in lists]) if lists else None
    requested = GpuRequest(
        total=gpus_in(fields.get("TresPerJob")),
        per_node=gpus_in(fields.get("TresPerNode")),
        per_task=gpus_in(fields.get("TresPerTask")),
        tasks=_count(fields.get("NumTasks")),
    )
    exclusive = fields.get("OverSubscribe") in {"NO", "EXCLUSIVE"} or None
    n_nodes = _count(fields.get("NumNodes"))
    return line, fields["JobId"], fields.get("SubmitTime"), held, requested.gpus(n_nodes), exclusive


def _held_on(lists: list[tuple[str, str]]) -> float | None:
    """GPUs on all nodes: `Nodes=n[1-2] ... GRES=gpu:h100:8(IDX:0-7)` are so many on each. No GRES on any: none held."""
    nodes = {text: names for text, names, _ in expand_column(pl.Series([text for text, _ in lists])).iter_rows()}
    total = 0.0
    for text, gres in lists:
        gpus, names = detail(gres) if gres and gres != "(null)" else 0.0, nodes[text]
        if gpus is None or names is None:
            return None
        total += gpus * len(names)
    return total


def _count(text: str | None) -> int | None:
    match = re.match(r"\d{1,9}", text or "", re.ASCII)
    return int(match[0]) if match else None


# --- JSON ----------------------------------------------------------------------------------------------


class ControllerJob(msgspec.Struct, gc=False):
    """The fields that are read of a job of squeue --json or slurmrestd's /slurm/ jobs."""

    job_id: int
    submit_time: Whole = None
    gres_detail: list[str] | None = None
    tres_per_job: str | None = None
    tres_per_node: str | None = None
    tres_per_task: str | None = None
    node_count: Whole = None
    tasks: Whole = None
    shared: Words = None
    exclusive: Any = None


def _of_json(data: bytes, context: ParseContext) -> list[_Row]:
    rows = read_rows(data, "jobs", ControllerJob, origin=context.origin, accept_truncated=context.accept_truncated)
    if rows.refused:
        number, reason, _ = rows.refused[0]
        message = f"{context.origin}: job {number} of the list cannot be read: {reason}"
        raise InputError(message)
    return [_row_of_json(number, job) for number, job in rows.rows]


def _row_of_json(number: int, job: ControllerJob) -> _Row:
    requested = GpuRequest(
        total=gpus_in(job.tres_per_job),
        per_node=gpus_in(job.tres_per_node),
        per_task=gpus_in(job.tres_per_task),
        tasks=whole(job.tasks),
    )
    submitted = whole(job.submit_time)
    exclusive = "none" in words(job.shared) or (isinstance(job.exclusive, list) and "true" in job.exclusive) or None
    held = detail(",".join(job.gres_detail)) if job.gres_detail else None
    gpus = requested.gpus(whole(job.node_count))
    return number, str(job.job_id), None if submitted is None else str(submitted), held, gpus, exclusive
