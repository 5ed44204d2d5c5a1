"""Runaway jobs: accounting takes them for running or waiting, and the controller has forgotten them.

Their end was lost. `sacctmgr show runawayjobs` lists them, and then prompts whether to close them. It is never run from
here: without an answer it prompts for ever (22.05 fills the disk with its prompt), and a yes rewrites accounting. A
saved list is read from a file. Live, runaway jobs are detected by reading only: jobs that are open in sacct and not
listed by squeue.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.delimited.header import DumpLayout, words
from ingest.delimited.reader import LINE, clean
from ingest.errors import SourceError
from ingest.slurm.commands.privacy import ACCOUNTING, CONTROLLER, others_are_hidden
from ingest.slurm.commands.runner import Fetched, Runner, run
from ingest.slurm.formats.text_table import TableColumns, account, read_table, require
from ingest.slurm.formats.timestamps import read_instants
from ingest.slurm.people.merge import merge_runaway
from ingest.tables import RUNAWAY_JOBS, conform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.context import ParseContext
    from ingest.tables import Parsed

_TIME = re.compile(r"\d{8,12}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*|unknown|none|0|", re.IGNORECASE | re.ASCII)
_WORD = re.compile(r"[^\s|]*")

RUNAWAY_TABLE: Final = DumpLayout(
    kind="sacctmgr show runawayjobs output",
    known=frozenset(words("id name partition cluster state timesubmit timestart timeend")),
    used=frozenset(words("id cluster state timesubmit timestart")),
    free_text=frozenset({"name"}),
    shapes={
        **dict.fromkeys(("timesubmit", "timestart", "timeend"), _TIME),
        **dict.fromkeys(("partition", "cluster"), _WORD),
        "state": re.compile(r"[A-Za-z_ ]+"),
        "id": re.compile(r"\d+", re.ASCII),
        "#end": re.compile(""),
    },
    command="echo n | SLURM_TIME_FORMAT=%s sacctmgr -P show runawayjobs > runaway.txt",
)
RUNAWAY_COLUMNS: Final = frozenset({"timesubmit"})
NO_RUNAWAY_JOBS: Final = re.compile(r"(?m)^Runaway Jobs: No runaway jobs found(?: on cluster (\S+))?")

_NOTE = re.compile(rb"(?m)^NOTE: Runaway jobs are [^\n]*$")
_QUESTION = re.compile(rb"(?m)^Would you like to fix these runaway jobs\?")
_HEADER: Final = "ID|Cluster|State|TimeSubmit|TimeStart"


def parse_runaway(data: bytes, context: ParseContext) -> Parsed:
    """Runaway jobs from `sacctmgr -P show runawayjobs`; its note above and its question below are no rows.

    Raises:
        MissingColumnError: TimeSubmit, ID or State is missing, or its cluster is unknown.
        TimeZoneError: The times are local and no zone is given.
        InputError: The text cannot be read, or its time is unknown.
    """
    cleaned, _ = clean(data, context.origin)
    nothing = NO_RUNAWAY_JOBS.search(cleaned.decode())
    if nothing:
        cleaned = f"{_HEADER}\n".encode()
    question = _QUESTION.search(cleaned)
    listed = _NOTE.sub(b"", cleaned[: question.start()] if question else cleaned)
    rows = read_table(listed, RUNAWAY_TABLE, context)
    names = set(rows.header.names)
    lacking = [name for name in ("ID", "State", "TimeSubmit", "TimeStart") if name.lower() not in names]
    lacking += [] if context.cluster or "cluster" in names else ["Cluster (or pass --cluster NAME)"]
    require(lacking, rows, context, RUNAWAY_TABLE)
    seen_at = context.seen_at()
    columns = TableColumns(rows)
    submit, start = (
        read_instants(columns.word(name), timezone=context.timezone, origin=context.origin)
        for name in ("timesubmit", "timestart")
    )
    table = rows.frame.select(LINE).with_columns(
        columns.word("cluster").fill_null(pl.lit(context.cluster, pl.String)).alias("cluster"),
        columns.word("id").alias("job_id"),
        submit.early.alias("submitted_at"),
        start.early.alias("started_at"),
        columns.word("state").str.to_uppercase().alias("state"),
        pl.lit(seen_at).alias("first_seen_at"),
        pl.lit(seen_at).alias("last_seen_at"),
        pl.coalesce(submit.error, start.error).alias("time_error"),
    )
    problem = pl.coalesce(
        pl.when(pl.col("cluster").is_null()).then(pl.lit("no cluster name")),
        pl.when(pl.col("job_id").is_null()).then(pl.lit("no job id")),
        "time_error",
        pl.when(pl.col("submitted_at").is_null()).then(pl.lit("no TimeSubmit")),
        pl.when(pl.col("state").is_null()).then(pl.lit("no state")),
    )
    jobs = table.with_columns(problem=problem)
    good = jobs.filter(pl.col("problem").is_null())
    merged = merge_runaway(conform(good, RUNAWAY_JOBS))
    return account(
        rows,
        jobs,
        context,
        source="slurm.runaway",
        frames={"runaway_jobs": merged},
        clusters={nothing[1]} if nothing and nothing[1] else merged["cluster"].unique(),
        loaded=merged.height,
        covers=(seen_at, seen_at),
    )


# --- live ----------------------------------------------------------------------------------------------

_HINT: Final = (
    "slurmctld or slurmdbd seems to be down: check `scontrol ping` and `sacctmgr show cluster`.\n"
    "This part was not read; the others are loaded all the same. Run it again later."
)
_OPEN: Final = words("-a -D -X -n -P -s RUNNING,PENDING,SUSPENDED --format=JobIDRaw,Cluster,State,Submit,Start")
_SQUEUE_OPTIONS: Final = ("-a", "-h", "--local", "-t", "all", "-o", "%A")
_ID = re.compile(r"\d+", re.ASCII)


def fetch_runaway(runner: Runner, *, clusters: Sequence[str] | None = None) -> Fetched:
    """Jobs that sacct takes for open and squeue does not list, in the form of sacctmgr's own list. Changes nothing.

    squeue runs before and after, so that a job that came or went meanwhile is not taken for lost. Where others'
    jobs are hidden from us (`ingest.slurm.commands.privacy`) the result is unknown; an empty list would claim that
    there are none. While slurmdbd lags behind slurmctld, ended jobs may be listed: accounting records their ends later,
    and an attempt that has an end is not open.

    Raises:
        SourceError: There is no answer, or others' jobs are hidden.
    """
    origin = "sacct -s RUNNING,PENDING,SUSPENDED without the jobs of squeue"
    cluster_option = ("-M", ",".join(clusters)) if clusters else ()
    scontrol, *show = CONTROLLER
    if others_are_hidden(runner, (scontrol, *cluster_option, *show)) or others_are_hidden(runner, ACCOUNTING):
        message = "PrivateData hides other users' jobs from us: run this as root or an operator to find runaway jobs"
        raise SourceError(message)
    before = run(runner, ["squeue", *cluster_option, *_SQUEUE_OPTIONS], hint=_HINT)
    shown = run(runner, ["sacct", *(cluster_option or ("--local",)), *_OPEN], hint=_HINT)
    after = run(runner, ["squeue", *cluster_option, *_SQUEUE_OPTIONS], hint=_HINT)
    controller_jobs = {*before.data.decode().split(), *after.data.decode().split()}
    lost = []
    for line in shown.data.decode(errors="replace").splitlines():
        job = _ID.match(line)  # 10_[2-4] is the waiting rest of array 10, which the controller lists as 10
        if job is not None and job[0] not in controller_jobs:
            lost.append(job[0] + line[line.index("|") :])
    return Fetched("\n".join((_HEADER, *lost, "")).encode(), origin, shown.warnings)
