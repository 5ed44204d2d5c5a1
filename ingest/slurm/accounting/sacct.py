"""Slurm accounting: sacct text to attempts, from a file or live."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from ingest.delimited.header import DumpLayout, Header, words
from ingest.delimited.reader import BLOCK, read_blocks
from ingest.errors import InputError, MissingColumnError, SourceError
from ingest.load_warnings import LoadWarning
from ingest.slurm.accounting.attempts import read_facts
from ingest.slurm.accounting.merge import merge_attempts
from ingest.slurm.accounting.row_counts import RowCounts
from ingest.slurm.accounting.step_gpus import gpu_steps, with_steps
from ingest.slurm.accounting.usage import step_usage
from ingest.slurm.commands.runner import Fetched, Runner, run, subprocess_runner
from ingest.slurm.formats import values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ingest.context import ParseContext
    from ingest.tables import Parsed

__all__ = ["ACCOUNTING", "fetch_accounting", "merge_attempts", "parse_accounting", "subprocess_runner"]

DOCUMENTED_ORDER: Final = words(
    "jobid jobidraw cluster partition qos account group gid user uid submit eligible start end elapsed exitcode "
    "state nnodes ncpus reqcpus reqmem reqtres alloctres timelimit nodelist jobname"
)
"""The columns of a dump without a header."""

REQUESTED_COLUMNS: Final = words(
    "JobID JobIDRaw DBIndex Cluster Partition QOS Account Group User UID Submit Eligible Start End ElapsedRaw "
    "Suspended ExitCode DerivedExitCode State NNodes AllocCPUS ReqNodes ReqCPUS ReqMem ReqTRES AllocTRES "
    "TimelimitRaw Priority NodeList SLUID Restarts Flags FailedNode NTasks TotalCPU MaxRSS MaxRSSNode MaxRSSTask "
    "ConsumedEnergyRaw TRESUsageInMax TRESUsageInTot Reservation Reason Constraints WCKey WorkDir "
    "Comment AdminComment SubmitLine JobName"
)
"""The columns that we request from sacct, free text last."""

SENTINEL: Final = "JobIDRaw"
"""Requested once more behind the free text: with a typed last column every torn row is recognised."""

COMMAND: Final = (
    "SLURM_TIME_FORMAT=%s sacct -a -D -P --noconvert --delimiter=$'\\x1f' -S 2026-11-01 -E now -o "
    + ",".join((*REQUESTED_COLUMNS, SENTINEL))
    + " > jobs.txt"
)
"""A whole command line to copy."""

_TIME = re.compile(r"\d{8,12}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*|unknown|none|n/?a|0|", re.IGNORECASE | re.ASCII)
_JOB = re.compile(r"\d+(_(\d+|\[[^\]]*\]?))?(\+\d+)?(\.\S+)?", re.ASCII)
_COUNT = re.compile(r"(\d+(\.\d+)?[KMGTP]?)?", re.ASCII)
_CLOCK = re.compile(r"(\d+-)?\d+(:\d+){0,2}(\.\d+)?|unlimited|partition_limit|invalid|", re.IGNORECASE | re.ASCII)
_EXIT = re.compile(r"(\d+:\d+)?", re.ASCII)
_STATE = re.compile(r"[A-Za-z_]+[+*]?( by \S+)?")
_TRES = re.compile(r"([^\s=,]+=[^\s=,]*(,[^\s=,]+=[^\s=,]*)*)?")
_WORD = re.compile(r"\S*")
_NODES = re.compile(r"\S*|none assigned|", re.IGNORECASE)
_NONE = re.compile("")

MEASURES: Final = words(
    "avecpu avecpufreq avediskread avediskwrite avepages averss avevmsize blockid consumedenergy consumedenergyraw "
    "container failednode flags layout licenses maxdiskread maxdiskreadnode maxdiskreadtask maxdiskwrite "
    "maxdiskwritenode maxdiskwritetask maxpages maxpagesnode maxpagestask maxrss maxrssnode maxrsstask maxvmsize "
    "maxvmsizenode maxvmsizetask mcslabel mincpu mincpunode mincputask ntasks plannedcpu plannedcpuraw qosreq "
    "reqcpufreq reqcpufreqgov reqcpufreqmax reqcpufreqmin resvcpu resvcpuraw restarts segmentsize sluid systemcpu "
    "totalcpu usercpu tresusageinave tresusageinmax tresusageinmaxnode tresusageinmaxtask tresusageinmin "
    "tresusageinminnode tresusageinmintask tresusageintot tresusageoutave tresusageoutmax tresusageoutmaxnode "
    "tresusageoutmaxtask tresusageoutmin tresusageoutminnode tresusageoutmintask tresusageouttot"
)
"""Columns that we do not use, but that help to decide where a torn row's fields belong: they never hold a blank."""

SHAPES: Final[dict[str, re.Pattern[str]]] = {
    **dict.fromkeys(MEASURES, _WORD),
    **dict.fromkeys(("user", "group", "partition", "qos", "cluster", "account", "reqmem"), _WORD),
    **dict.fromkeys(("submit", "eligible", "start", "end"), _TIME),
    **dict.fromkeys(("jobid", "jobidraw"), _JOB),
    **dict.fromkeys(words("uid gid nnodes allocnodes ncpus alloccpus reqcpus reqnodes dbindex priority"), _COUNT),
    **dict.fromkeys(words("elapsedraw cputimeraw qosraw associd wckeyid reservationid"), _COUNT),
    **dict.fromkeys(words("elapsed suspended timelimit timelimitraw cputime reserved planned"), _CLOCK),
    **dict.fromkeys(("exitcode", "derivedexitcode"), _EXIT),
    **dict.fromkeys(("alloctres", "reqtres"), _TRES),
    "constraints": _WORD,
    "state": _STATE,
    "nodelist": _NODES,
    "#end": _NONE,
}
FREE_TEXT: Final = frozenset(
    words(
        "jobname comment admincomment systemcomment submitline workdir reason constraints extra stdin stdout stderr "
        "wckey reservation"
    )
)
BEGINNINGS: Final[dict[str, re.Pattern[str]]] = {
    "submitline": re.compile(r"(\S*/)?(sbatch|srun|salloc)(\s|$)"),
    "workdir": re.compile("/"),
    **dict.fromkeys(("jobname", "comment", "admincomment"), re.compile(r"\S")),
}
"""A pipeline has blanks around its delimiters, `--wrap 'a | b'`: what begins with one is the rest of another text."""

USED: Final = frozenset(
    {name.lower() for name in REQUESTED_COLUMNS}
    | {"allocnodes", "ncpus", "elapsed", "timelimit", "allocgres", "reqgres", "consumedenergy", "tresusageinave"}
)

LISTS: Final = frozenset(
    (
        *words("alloctres reqtres allocgres reqgres nodelist partition flags licenses constraints"),
        *(name for name in MEASURES if name.startswith("tresusage")),
    )
)
"""Columns whose values hold commas."""

ACCOUNTING: Final = DumpLayout(
    kind="sacct output",
    known=USED | FREE_TEXT | frozenset(SHAPES),
    used=USED,
    free_text=FREE_TEXT,
    shapes=SHAPES,
    command=COMMAND,
    headerless=DOCUMENTED_ORDER,
    beginnings=BEGINNINGS,
    lists=LISTS,
)

REQUIRED: Final = (
    ("JobIDRaw", "JobID"),
    ("Submit",),
    ("Start",),
    ("End",),
    ("State",),
    ("NodeList",),
    ("AllocTRES", "AllocGRES"),
)
"""Without these there is no account of GPU time; of alternatives one is enough."""


def parse_accounting(data: bytes, context: ParseContext) -> Parsed:
    """Attempts and the node lists they held, written out, from sacct text with any columns in any order.

    Job steps and repeated headers are skipped (of steps the GPUs are read, see `ingest.slurm.accounting.step_gpus`),
    repeated rows of an attempt are merged, and implausible rows are refused with a reason. Without `since`
    and `until` of the requested window `covers_from` is the first start, and `covers_until` the last moment that any
    row covers.

    Raises:
        InputError: The text as a whole cannot be read; see `ingest.errors`.
    """
    counts = RowCounts(context.origin, context.cluster, context.since, context.until, context.now)
    [block] = accounting_blocks(
        [data],
        counts,
        timezone=context.timezone,
        delimiter=context.delimiter,
        accept_truncated=context.accept_truncated,
        block=2 * len(data) + 1,  # UTF-16 may grow
    )
    frames = {
        "attempts": block.attempts,
        "node_lists": block.lists,
        "step_usage": block.usage,
        "job_summaries": block.summaries,
    }
    return counts.parsed(frames, rows_loaded=block.attempts.height)


class AccountingBlock(NamedTuple):
    """The attempts in a part of a dump, the node lists in it, and the GPU steps of attempts that are not in it.

    Their schemas are `frames.ATTEMPTS`, `frames.NODE_LISTS` and `step_gpus.STEP_GPUS`. The recorded use of resources
    (`frames.STEP_USAGE`) and the summaries of jobstats (`frames.JOB_SUMMARIES`) come with them.
    """

    attempts: pl.DataFrame
    lists: pl.DataFrame
    steps: pl.DataFrame
    usage: pl.DataFrame
    summaries: pl.DataFrame


def accounting_blocks(
    blocks: Iterable[bytes],
    counts: RowCounts,
    *,
    timezone: str | None = None,
    delimiter: str | None = None,
    accept_truncated: bool = False,
    block: int = BLOCK,
) -> Iterator[AccountingBlock]:
    """The same for a dump of any size that comes in blocks: about `block` bytes at a time, at least one block.

    The account of it is kept in `counts`, which has the name and the cluster of the input.

    Raises:
        InputError: The text as a whole cannot be read; see `ingest.errors`.
    """
    reading = read_blocks(
        blocks, ACCOUNTING, origin=counts.origin, delimiter=delimiter, accept_truncated=accept_truncated, block=block
    )
    for rows in reading:
        _require(rows.header, counts.cluster, counts.origin)
        steps = _is_step(rows.frame)
        jobs = rows.frame.filter(~steps) if steps.any() else rows.frame
        facts = read_facts(jobs, cluster=counts.cluster, timezone=timezone, origin=counts.origin, now=counts.now)
        counts.add(rows, facts)
        held = gpu_steps(rows.frame.filter(steps), cluster=counts.cluster, timezone=timezone, origin=counts.origin)
        attempts, others = with_steps(merge_attempts(facts.attempts), held)
        usage = step_usage(rows.frame, cluster=counts.cluster, timezone=timezone, origin=counts.origin, now=counts.now)
        counts.warn(usage.warnings)
        yield AccountingBlock(attempts, facts.lists, others, usage.rows, facts.summaries)


def _require(header: Header, cluster: str | None, origin: str) -> None:
    """Raise one error with everything that is missing, and the command that gets it."""
    names = set(header.names)
    missing = [" or ".join(group) for group in REQUIRED if not names & {name.lower() for name in group}]
    if cluster is None and "cluster" not in names:
        missing.append("Cluster (or pass --cluster NAME)")
    if missing:
        message = (
            f"{origin}: missing columns: {', '.join(missing)}\nfound: {', '.join(header.shown)}\n"
            f"A command that gets all of them:\n  {COMMAND}"
        )
        raise MissingColumnError(message)


def _is_step(frame: pl.DataFrame) -> pl.Series:
    """Rows of steps (`9.batch`, `9.0`), which ran inside an allocation."""
    names = [name for name in ("jobidraw", "jobid") if name in frame.columns]
    pointed = [name for name in names if frame[name].str.contains(".", literal=True).any()]
    steps = pl.repeat(value=False, n=frame.height, eager=True)
    for name in pointed:
        steps |= frame[name].str.contains("^[^.]*" + values.STEP).fill_null(value=False)
    return steps


# --- live ----------------------------------------------------------------------------------------------

DOWN_HINT: Final = (
    "slurmdbd seems to be down or unreachable. Check `sacctmgr show cluster`, the slurmdbd log on its host,\n"
    "and that this user may read accounting (PrivateData). Loaded data stays; try again later."
)


NOT_EVERYWHERE: Final = frozenset(words("SLUID Restarts FailedNode SubmitLine AdminComment"))
"""Requested columns that came with some release: SubmitLine with 21.08, Restarts and SLUID with the newest ones."""


def fetch_accounting(
    runner: Runner, *, since: datetime, until: datetime, clusters: Sequence[str] | None = None, steps: bool = True
) -> Fetched:
    """Query sacct for all attempts, requeued ones too, that were held at any time in [since, until).

    With `steps` also for their steps, which hold the recorded use of CPUs, memory and GPUs.

    Only columns that this sacct has are requested. Times go out as UTC text, since sacct takes no offset, and come
    back as epochs. Jobs that never became eligible (held, dependent) are invisible to any window query of sacct.

    Raises:
        SourceMissingError: There is no sacct here.
        SourceDownError: sacct failed; nothing that it printed is used.
        InputError: The window is empty (sacct refuses it).
    """
    if until <= since:
        message = f"the window is empty: from {since.isoformat()} to {until.isoformat()}"
        raise InputError(message)
    columns, lacking = columns_of(runner)
    command = [*sacct(steps=steps), "-S", _utc(since), "-E", _utc(until)]
    command += ["-M", ",".join(clusters)] if clusters else []
    fetched = run(runner, [*command, "-o", ",".join(columns)], hint=DOWN_HINT)
    return fetched._replace(warnings=(*lacking, *fetched.warnings))


def sacct(*, steps: bool) -> list[str]:
    """The beginning of a command: all attempts of all users, and (with `steps`) their steps."""
    return ["sacct", "-a", "-D", *([] if steps else ["-X"]), "-P", "--noconvert", "--delimiter=\x1f"]


def columns_of(runner: Runner) -> tuple[list[str], list[LoadWarning]]:
    """The columns to request from this sacct, and a warning where it lacks one that every Slurm has had for years.

    Raises:
        SourceMissingError: There is no sacct here.
        SourceError: It has none of our columns.
    """
    available = {
        name.lower() for name in run(runner, ["sacct", "-e"], hint=DOWN_HINT).data.decode(errors="replace").split()
    }
    columns = [name for name in (*REQUESTED_COLUMNS, SENTINEL) if name.lower() in available]
    if not columns:
        message = "sacct -e named none of the columns that we need; is it really Slurm's sacct?"
        raise SourceError(message)
    lacking = [name for name in REQUESTED_COLUMNS if name.lower() not in available and name not in NOT_EVERYWHERE]
    warning = LoadWarning("columns_lacking", len(lacking), ", ".join(lacking))
    return columns, [warning] if lacking else []


def _utc(moment: datetime) -> str:
    """A moment as sacct takes it: UTC without an offset, cut to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
