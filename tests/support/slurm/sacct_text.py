"""Jobs whose truth is known, and the sacct text that tells of them: any columns, delimiter and kind of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from ingest.slurm.accounting.sacct import SENTINEL
from tests.support.slurm.parsing import at

Clock = Callable[[int], str]
"""How a moment is written."""

ZONES: Final = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Santiago", "UTC")
IDENTITY: Final = ("JobIDRaw", "Submit")
TYPED: Final = (
    *("JobID", "DBIndex", "Cluster", "Partition", "User", "Eligible", "Start", "End", "ElapsedRaw", "Suspended"),
    *("State", "ExitCode", "NNodes", "ReqTRES", "AllocTRES", "TimelimitRaw", "NodeList"),
)
TEXTS: Final = ("JobName", "Comment")
RARE: Final = ("|#", "\x1f", "^|^", ";|;", "::")
PLAIN: Final = ("|", ";", "\t", "~", *RARE)

# --- how a moment is written --------------------------------------------------------------------------


def epoch(moment: int) -> str:
    """As with SLURM_TIME_FORMAT=%s."""
    return str(moment)


def local(zone: str) -> Clock:
    """As sacct writes it: the machine's clock, without an offset."""
    return lambda moment: datetime.fromtimestamp(moment, ZoneInfo(zone)).strftime("%Y-%m-%dT%H:%M:%S")


def offset(zone: str) -> Clock:
    """As with SLURM_TIME_FORMAT=%Y-%m-%dT%H:%M:%S%z."""
    return lambda moment: datetime.fromtimestamp(moment, ZoneInfo(zone)).strftime("%Y-%m-%dT%H:%M:%S%z")


def occurs_twice(moment: int, zone: str | None) -> bool:
    """Whether the clock shows this time twice that night."""
    if zone is None:
        return False
    there = datetime.fromtimestamp(moment, ZoneInfo(zone))
    return there.replace(fold=0).utcoffset() != there.replace(fold=1).utcoffset()


# --- jobs ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """One attempt: seconds from the epoch, and what it held. `wait` is None for a job that never began."""

    number: int
    submit: int
    wait: int | None
    run: int
    suspended: int
    state: str
    task: int | None
    nodes: tuple[str, ...]
    node_list: str
    gpus: int
    model: str | None
    limit_min: int | None
    name: str
    comment: str

    @property
    def start(self) -> int | None:
        """When it began."""
        return None if self.wait is None else self.submit + self.wait

    @property
    def end(self) -> int | None:
        """When it ended."""
        if self.state in {"RUNNING", "PENDING"}:
            return None
        return self.submit + (self.wait or 0) + self.run + self.suspended

    @property
    def shown(self) -> str:
        """Its id as people see it."""
        return str(self.number) if self.task is None else f"900000_{self.task}"


def written(job: Job, clock: Clock) -> dict[str, str]:
    """Every column of the job's row."""
    total = total_gpus(job)
    return {
        "JobID": job.shown,
        "JobIDRaw": str(job.number),
        "DBIndex": str(job.number * 10),
        "Cluster": "c1",
        "Partition": "main",
        "User": "alice",
        "Submit": clock(job.submit),
        "Eligible": clock(job.submit),
        "Start": "Unknown" if job.start is None else clock(job.start),
        "End": "Unknown" if job.end is None else clock(job.end),
        "ElapsedRaw": str(job.run),
        "Suspended": f"{job.suspended // 3600:02d}:{job.suspended // 60 % 60:02d}:{job.suspended % 60:02d}",
        "State": job.state,
        "ExitCode": "0:15" if job.state.startswith("CANCELLED") else "0:0",
        "NNodes": str(len(job.nodes)),
        "ReqTRES": f"cpu=1,gres/gpu={total},node={len(job.nodes)}",
        "AllocTRES": f"cpu=1,{_gpus(job, total)}mem=1G,node={len(job.nodes)}",
        "TimelimitRaw": "UNLIMITED" if job.limit_min is None else str(job.limit_min),
        "NodeList": "None assigned" if job.wait is None else job.node_list,
        "JobName": job.name,
        "Comment": job.comment,
    }


def total_gpus(job: Job) -> int:
    """GPUs of all its nodes."""
    return job.gpus * len(job.nodes)


def _gpus(job: Job, total: int) -> str:
    """The typed count, the untyped one, or both, as sites list them."""
    typed = f"gres/gpu:{job.model}={total}," if job.model else ""
    return typed if typed and job.number % 3 == 0 else f"{typed}gres/gpu={total},"


def wanted(job: Job) -> dict[str, object]:
    """What must be read of the job, whatever the columns' order."""
    held = job.wait is not None
    state, _, by = job.state.partition(" by ")
    ended = None if job.end is None else at(job.end)
    return {
        "cluster": "c1",
        "job_id": str(job.number),
        "submitted_at": at(job.submit),
        "display_id": job.shown,
        "array_job_id": None if job.task is None else "900000",
        "array_task_id": job.task,
        "db_index": job.number * 10,
        "started_at": None if job.start is None else at(job.start),
        "ended_at": ended,
        "state": state,
        "cancelled_by": by or None,
        "user": "alice",
        "time_limit_s": None if not job.limit_min else job.limit_min * 60.0,
        "elapsed_s": float(job.run),
        "n_nodes": len(job.nodes) if held else 0,
        "n_gpus": total_gpus(job) if held else 0,
        "req_gpus": total_gpus(job),
        "node_list": job.node_list if held else None,
        "suspended_s": float(job.suspended),
        "exit_signal": 15 if state == "CANCELLED" else 0,
    }


def render(jobs: Sequence[Job], columns: Sequence[str], delimiter: str = "|", clock: Clock = epoch) -> bytes:
    """The dump."""
    rows = [written(job, clock) for job in jobs]
    lines = [delimiter.join(columns), *(delimiter.join(row[name] for name in columns) for row in rows)]
    return ("\n".join(lines) + "\n").encode()


# --- any jobs -----------------------------------------------------------------------------------------

ANY_CHARACTER = st.characters(exclude_categories=["Cs", "Cc"])
WORDS = st.text(ANY_CHARACTER, max_size=12)
TORN_WORDS = st.text(st.one_of(ANY_CHARACTER, st.sampled_from("\n|#;:^~\t")), max_size=12)


@st.composite
def node_lists(draw: st.DrawFn) -> tuple[tuple[str, ...], str]:
    """Nodes, and their short form."""
    prefix, suffix = draw(st.sampled_from(["n", "gpu-", "r1-h100-"])), draw(st.sampled_from(["", "-ib", ".cluster"]))
    numbers = sorted(draw(st.sets(st.integers(1, 30), min_size=1, max_size=6)))
    names = tuple(f"{prefix}{number:02d}{suffix}" for number in numbers)
    if len(names) == 1:
        return names, names[0]
    short = f"{prefix}[{','.join(f'{number:02d}' for number in numbers)}]{suffix}"
    return names, draw(st.sampled_from([short, ",".join(names)]))


@st.composite
def jobs(draw: st.DrawFn, number: int, *, zone: str | None = None, text: st.SearchStrategy[str] = WORDS) -> Job:
    """A job of any kind. It was submitted at a time that occurs once: no rule could settle that one."""
    submit = draw(st.integers(1_700_000_000, 1_830_000_000).filter(lambda moment: not occurs_twice(moment, zone)))
    nodes, node_list = draw(node_lists())
    ended = ("COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "CANCELLED by 2001", "PREEMPTED", "REQUEUED")
    job = Job(
        number=number,
        submit=submit,
        wait=draw(st.integers(0, 9_000)),
        run=draw(st.integers(0, 90_000)),
        suspended=draw(st.sampled_from([0, 0, 1, 500])),
        state=draw(st.sampled_from(ended)),
        task=draw(st.none() | st.integers(0, 40)),
        nodes=nodes,
        node_list=node_list,
        gpus=draw(st.integers(0, 8)),
        model=draw(st.sampled_from([None, "h100", "nvidia_h100_80gb_hbm3"])),
        limit_min=draw(st.none() | st.integers(1, 20_000)),
        name=draw(text),
        comment=draw(text),
    )
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return replace(job, state="RUNNING")
    if kind == 1:
        return replace(job, state="PENDING", wait=None, run=0, suspended=0)
    return job


@st.composite
def tables(
    draw: st.DrawFn, *, zone: str | None = None, text: st.SearchStrategy[str] = WORDS, most: int = 6
) -> list[Job]:
    """A few jobs, each with an id of its own."""
    return [draw(jobs(number, zone=zone, text=text)) for number in range(1, draw(st.integers(1, most)) + 1)]


def any_order() -> st.SearchStrategy[list[str]]:
    """All columns in any order."""
    return st.permutations([*IDENTITY, *TYPED, *TEXTS])


@st.composite
def telling_order(draw: st.DrawFn, texts: Sequence[str]) -> list[str]:
    """As our own command asks for them: what is typed at both ends, text anywhere between."""
    return [*IDENTITY, *draw(st.permutations([*TYPED, *texts])), SENTINEL]
