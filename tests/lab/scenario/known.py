"""What an outsider knows of every attempt of `kinds`, column by column, and how a row is held against it.

The outsider knows what was asked and when (our clock around sbatch), what was done to the job and when, and what the
witnesses of `tests.lab.truth` saw. A fact is a value, or for moments and durations the range in which it must lie:
Slurm cuts to whole seconds, and the witnesses are within 1.5 s of it and the gap between two of their looks
(tests/lab/truth.py).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from tests.lab.config import A100_NODES, CLUSTER, USERS
from tests.lab.scenario.kinds import BEGIN_IN_S, End, Job, Kinds
from tests.lab.truth import expand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.lab.truth import ObservedAttempt

PRECISION_S: Final = 1.5
CREDENTIAL_S: Final = 6
"""cred_expire + 1: a requeued job is not eligible before."""

CLEANING_S: Final = 8
"""A requeued job's next row opens when its last node is clean: KillWait (3 s) and an epilog on a busy machine."""

DEFAULT_MINUTES: Final = 30
ACCOUNTS: Final = {"alice": "llm", "bob": "llm", "carol": "vision"}
MEBIBYTE: Final = 1 << 20

UNKNOWABLE: Final = frozenset({"db_index", "priority", "flags"})
"""Columns of `attempts` of which nobody outside accounting knows the value: its own key, and the scheduler's doings."""


GPUS_BESIDE_TRES: Final = ("gpus_asked", "exclusive", "gpus_steps")
"""What may tell of GPUs where accounting has no TRES of them: here only the submit line does."""


class Between(NamedTuple):
    """Epoch seconds or seconds, both ends included."""

    low: float
    high: float

    def widened(self, low: float, high: float | None = None) -> Between:
        """Wider on both sides."""
        return Between(self.low - low, self.high + (low if high is None else high))

    def after(self, seconds: float) -> Between:
        """So much later."""
        return Between(self.low + seconds, self.high + seconds)


Fact: TypeAlias = "str | float | Between | None"


@dataclass(frozen=True)
class Known:
    """What is known of one attempt of a kind: facts by column of `attempts`, and the GPUs it held by node."""

    kind: str
    attempt: int
    facts: dict[str, Fact]
    nodes: dict[str, Fact]

    def as_json(self) -> dict[str, Any]:
        """Plain data; ranges become {"from": ..., "to": ...}."""
        return asdict(self) | {"facts": _plain(self.facts), "nodes": _plain(self.nodes)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Known:
        """The inverse of `as_json`."""
        return cls(data["kind"], data["attempt"], _ranged(data["facts"]), _ranged(data["nodes"]))


def _plain(facts: Mapping[str, Fact]) -> dict[str, Any]:
    return {
        name: {"from": round(fact.low, 3), "to": round(fact.high, 3)} if isinstance(fact, Between) else fact
        for name, fact in facts.items()
    }


def _ranged(facts: Mapping[str, Any]) -> dict[str, Fact]:
    return {name: Between(fact["from"], fact["to"]) if isinstance(fact, dict) else fact for name, fact in facts.items()}


def contradictions(row: Mapping[str, Any], facts: Mapping[str, Fact]) -> dict[str, tuple[Any, Fact]]:
    """Where a row of the warehouse is not as known: the value found and the fact, by column."""
    return {name: (row[name], fact) for name, fact in facts.items() if not _agrees(row[name], fact)}


def _agrees(value: object, fact: Fact) -> bool:
    if isinstance(value, datetime):
        value = value.timestamp()
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(fact, Between):
        return isinstance(value, (int, float)) and fact.low <= value <= fact.high
    return bool(value == fact)


class Stay(NamedTuple):
    """One holding of nodes, as the witnesses saw it."""

    start: Between
    end: Between | None
    nodes: tuple[str, ...]
    gpus_per_node: int


def known(kinds: Kinds, read: tuple[float, float]) -> list[Known]:
    """All attempts of all jobs as they must read when accounting is asked between the two moments of `read`.

    Slurm's clock has whole seconds: at 90.9 it is 90.
    """
    asked = Between(math.floor(read[0]), read[1])
    return [each for job in kinds.jobs.values() for each in _known_of(kinds, job, asked)]


def _known_of(kinds: Kinds, job: Job, read: Between) -> list[Known]:
    stays = _stays(kinds, job)
    held = [end for end in job.order.ends if end.held]
    if len(stays) != len(held):
        message = f"{job.key} ({job.job_id}): {len(held)} stays were meant, {len(stays)} seen: {stays}"
        raise AssertionError(message)
    result: list[Known] = []
    submit = Between(math.floor(job.asked[0]), job.asked[1])
    eligible: Between | None = submit.widened(0, 1)
    remaining = list(stays)
    for number, end in enumerate(job.order.ends):
        stay = remaining.pop(0) if end.held else None
        if stay:  # nothing starts before it is submitted
            stay = stay._replace(start=Between(max(stay.start.low, submit.low), stay.start.high))
        facts = {
            **_identity(job),
            **_labels(job),
            **_requests(job),
            **_fate(end),
            **_holdings(job, stay),
            "submitted_at": submit,
            "first_submitted_at": Between(math.floor(job.asked[0]), job.asked[1]),
            "eligible_at": _eligible(job, end, stay, eligible),
            "end_guessed": None,
            **_times(kinds, job, end, stay, submit, read),
        }
        facts |= _special(job, number, stays, read)
        if _shrunk(job, number):
            facts = {name: fact for name, fact in facts.items() if name not in {"alloc_tres", "gpu_model"}}
        nodes: dict[str, Fact] = dict.fromkeys(stay.nodes, float(stay.gpus_per_node)) if stay else {}
        if _shrunk(job, number):
            nodes = dict.fromkeys(nodes, Between(1, 2))
        result.append(Known(job.key, number, facts, nodes))
        if stay and stay.end:
            submit = stay.end.widened(0, CLEANING_S)
            eligible = submit.after(0 if end.state == "RESIZING" else CREDENTIAL_S)
    return result


def _stays(kinds: Kinds, job: Job) -> list[Stay]:
    """From the poller and the scripts; of what was too short for both, prolog and epilog tell."""
    stays = [
        Stay(_started(one), _ended(one), one.nodes, one.gpus_per_node) for one in kinds.lab.truth.attempts(job.job_id)
    ]
    if job.key == "resized":  # the poller may miss the shorter stay; when it began and where is our own doing
        shrunk = Between(*kinds.deeds["resize"]).widened(PRECISION_S)
        rest = Stay(shrunk, stays[-1].end, stays[0].nodes[:1], stays[0].gpus_per_node)
        return [stays[0]._replace(end=shrunk), rest]
    calls = kinds.lab.truth.hook_calls(job.job_id)
    if stays or not calls:
        return stays
    began = [call for call in calls if call.what == "prolog"]
    first, last = min(call.at for call in calls), max(call.at for call in calls)
    return [
        Stay(
            Between(math.floor(job.asked[0]), first),
            Between(first - PRECISION_S, last + PRECISION_S),
            tuple(sorted({call.node for call in began})),
            len(began[0].gpus),
        )
    ]


def _started(one: ObservedAttempt) -> Between:
    """Between the last look that did not see it and the first that did, or its script's own word; cut by Slurm."""
    reported = [moment for moment in (one.first_seen_start, one.script_start) if moment is not None]
    if one.first_seen_start is None:
        return Between(one.start, one.start).widened(PRECISION_S + one.uncertainty_s)
    return Between(2 * one.start - min(reported), min(reported)).widened(PRECISION_S, PRECISION_S / 3)


def _ended(one: ObservedAttempt) -> Between | None:
    """Between the last look that saw it and the next; cut by Slurm."""
    if one.end is None:
        return None
    if one.last_seen is None:
        return Between(one.end, one.end).widened(PRECISION_S + one.uncertainty_s)
    return Between(one.last_seen, 2 * one.end - one.last_seen).widened(PRECISION_S, PRECISION_S / 3)


def _identity(job: Job) -> dict[str, Fact]:
    array, het = job.array or (None, None), job.het or (None, None)
    return {
        "cluster": CLUSTER,
        "scheduler": "slurm",
        "job_id": str(job.job_id),
        "display_id": job.display_id or str(job.job_id),
        "array_job_id": None if array[0] is None else str(array[0]),
        "array_task_id": array[1],
        "het_job_id": None if het[0] is None else str(het[0]),
        "het_offset": het[1],
        "sluid": None,  # columns that this Slurm does not have
        "restarts": None,
        "failed_node": None,
        "env_run": None,
    }


def _labels(job: Job) -> dict[str, Fact]:
    order = job.order
    return {
        "user": order.user,
        "uid": USERS[order.user],
        "group": order.user,
        "account": ACCOUNTS[order.user],
        "partition": order.partition,
        "qos": "normal",
        # Slurm stores back-quotes for double quotes in a name.
        "name": (order.name or job.key.split()[0]).replace('"', "`"),
        "work_dir": "/tmp",
        "comment": order.comment,
        "submit_line": job.submit_line,
        "reservation": None,
        "constraints": None,
        "wckey": None,
        "admin_comment": None,
        "time_limit_s": (order.minutes or DEFAULT_MINUTES) * 60,
    }


def _requests(job: Job) -> dict[str, Fact]:
    order = job.order
    nodes, gpus = order.n_nodes, order.gpus * order.n_nodes
    return {
        "req_nodes": nodes,
        "req_cpus": nodes,
        "req_gpus": gpus,
        "req_mem_bytes": _mebibytes(job) * nodes * MEBIBYTE,
        "req_tres": _tres(nodes, {order.gpu_type: gpus}, _mebibytes(job)),
    }


def _mebibytes(job: Job) -> int:
    """Of each node: what was asked for, or the lab's default for one CPU."""
    return int((job.order.memory or "1000M").removesuffix("M"))


def _tres(nodes: int, gpus: Mapping[str | None, int], mebibytes: int) -> str:
    """As accounting spells it: each kind of GPU, then all of them, and neither for none."""
    kinds = [f"gres/gpu:{kind}={count}" for kind, count in sorted(gpus.items(), key=str) if kind and count]
    total = [f"gres/gpu={sum(gpus.values())}"] if sum(gpus.values()) else []
    return ",".join([f"billing={nodes},cpu={nodes}", *kinds, *total, f"mem={mebibytes * nodes}M,node={nodes}"])


def _fate(end: End) -> dict[str, Fact]:
    facts: dict[str, Fact] = {
        "state": end.state,
        "cancelled_by": end.cancelled_by,
        "exit_code": end.exit[0],
        "exit_signal": end.exit[1],
        "derived_exit_code": end.derived[0],
        "derived_exit_signal": end.derived[1],
    }
    return facts | ({"reason": end.reason} if end.state == "PENDING" else {})  # else whatever the scheduler met last


def _holdings(job: Job, stay: Stay | None) -> dict[str, Fact]:
    if stay is None:
        asked = job.order.gpu_type if job.order.gpus else None
        nothing: dict[str, Fact] = dict.fromkeys(("n_nodes", "n_gpus", "n_cpus"), 0)
        unknown: dict[str, Fact] = dict.fromkeys(("node_list", "alloc_tres", "alloc_mem_bytes", *GPUS_BESIDE_TRES))
        return nothing | unknown | {"gpu_model": asked}
    models: dict[str | None, int] = {}
    for node in stay.nodes:
        model = "a100" if node in A100_NODES else "h100"
        models[model] = models.get(model, 0) + stay.gpus_per_node
    held = len(stay.nodes)
    return {
        "n_nodes": held,
        "n_cpus": held,
        "n_gpus": stay.gpus_per_node * held,
        **dict.fromkeys(GPUS_BESIDE_TRES),
        "gpus_asked": job.order.gpus * held or None,
        "node_list": _folded(stay.nodes),
        "gpu_model": "+".join(sorted(str(model) for model, count in models.items() if count)) or None,
        "alloc_mem_bytes": _mebibytes(job) * held * MEBIBYTE,
        "alloc_tres": _tres(held, models, _mebibytes(job)),
    }


def _folded(nodes: Sequence[str]) -> str:
    """Names as Slurm writes them, of one node or two."""
    if len(nodes) == 1:
        return nodes[0]
    low, high = (int(node[1:]) for node in nodes)
    folded = f"n[{low}{'-' if high == low + 1 else ','}{high}]"
    assert expand(folded) == tuple(nodes)
    return folded


def _eligible(job: Job, end: End, stay: Stay | None, eligible: Between | None) -> Fact:
    if end.reason == "JobHeldUser" and len(job.order.ends) == 1:
        return None
    if job.key == "later":
        return Between(math.floor(job.asked[0]), job.asked[1]).after(BEGIN_IN_S)
    if end.reason == "JobArrayTaskLimit":  # its turn comes when another task has ended
        return Between(math.floor(job.asked[0]), stay.start.high) if stay else None
    return eligible


def _times(  # noqa: PLR0917 - private, and each of them is needed
    kinds: Kinds, job: Job, end: End, stay: Stay | None, submit: Between, read: Between
) -> dict[str, Fact]:
    suspended = Between(0, 0)
    if job.key == "suspended":
        (first, second), (third, fourth) = kinds.deeds["suspend"], kinds.deeds["resume"]
        suspended = Between(third - second, fourth - first).widened(PRECISION_S)
    if stay is None:
        ended = _ended_without_start(kinds, job, submit) if end.state != "PENDING" else None
        waited: dict[str, Fact] = {"started_at": None, "ended_at": ended, "elapsed_s": 0}
        return waited | {"suspended_s": 0}
    until = stay.end or read
    ran = Between(until.low - stay.start.high - suspended.high, until.high - stay.start.low - suspended.low)
    return {
        "started_at": stay.start,
        "ended_at": stay.end,
        "elapsed_s": Between(max(0, ran.low), ran.high),
        "suspended_s": suspended if suspended.high else 0,
    }


def _ended_without_start(kinds: Kinds, job: Job, submit: Between) -> Between:
    if job.key == "refused":
        return submit
    if job.key in kinds.deeds:
        return Between(*kinds.deeds[job.key]).widened(PRECISION_S)
    ended = next(began for state, began in kinds.lab.truth.states(job.job_id) if state == job.order.ends[0].state)
    return Between(ended, ended).widened(PRECISION_S)


def _shrunk(job: Job, number: int) -> bool:
    return job.key == "resized" and number == 1


def _special(job: Job, number: int, stays: Sequence[Stay], read: Between) -> dict[str, Fact]:
    """What Slurm tells differently of the row after a resize: the run so far again, and the smaller request.

    On a busy machine its record may still count the CPUs, memory and GPUs of the node that was given back.
    """
    if not _shrunk(job, number):
        return {}
    until, mebibytes = stays[1].end or read, _mebibytes(job)
    return {
        "elapsed_s": Between(until.low - stays[0].start.high, until.high - stays[0].start.low),
        "req_nodes": 1,
        "req_tres": _tres(2, {None: 2}, mebibytes).replace("node=2", "node=1"),
        "n_cpus": Between(1, 2),
        "n_gpus": Between(1, 2),
        "alloc_mem_bytes": Between(mebibytes * MEBIBYTE, 2 * mebibytes * MEBIBYTE),
    }
