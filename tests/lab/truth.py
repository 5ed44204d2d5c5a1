"""What happened in the lab, seen from outside and without asking accounting.

Three witnesses: each job script reports its own start (`starts.jsonl`), prolog and epilog report on
each node (`hooks.jsonl`), and `Truth` looks at squeue and sinfo twice a second. None of them is sacct
or slurmdbd, so what they say can be held against both.

Precision: a look takes some 20 ms and comes every 0.5 s, and Slurm cuts its times to whole seconds.
Starts and ends here are therefore within 1.5 s of Slurm's on a quiet machine, and always within 1.5 s
and their own `uncertainty_s`, which is 0.3 then.
While slurmctld does not answer nobody sees anything, and the uncertainty grows by just that gap.

Not seen at all: a job that had its nodes for less than a look and never came to its script (cancelled
in its prolog, say). `states` tells what was seen of it. Job ids must not be given out twice.
"""

import json
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from tests.lab.config import Layout
from tests.lab.processes import now

INTERVAL_S = 0.5

# Slurm holds the nodes for the job in all of these; CONFIGURING is the prolog's time.
HOLDING = frozenset({"RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"})

# Fixed widths, since squeue escapes nothing and a waiting job's node list is empty.
SQUEUE_WIDTHS = {"JobID": 12, "RestartCnt": 8, "State": 20, "tres-alloc": 200, "NodeList": 200}


@dataclass(frozen=True)
class ScriptStart:
    """The line of one job script as it began."""

    job_id: int
    restart_count: int
    node: str
    t_ns: int
    nodes: tuple[str, ...]
    gpus: tuple[int, ...]

    @property
    def at(self) -> float:
        """Epoch seconds."""
        return self.t_ns / 1e9


@dataclass(frozen=True)
class HookCall:
    """One run of prolog or epilog on one node. `restart_count` is None where Slurm did not tell it."""

    what: str
    job_id: int
    restart_count: int | None
    node: str
    t_ns: int
    gpus: tuple[int, ...]

    @property
    def at(self) -> float:
        """Epoch seconds."""
        return self.t_ns / 1e9


@dataclass(frozen=True)
class ObservedAttempt:
    """One stay of a job on its nodes; all times are epoch seconds by our clock.

    `start` and `end` are the middle of the time in which they must lie, `uncertainty_s` is half of the
    longer such time. `end` and `end_state` are None while the stay lasts; `end_state` is the first
    state after it other than COMPLETING, so PENDING for a requeued job.
    `first_seen_start` and `last_seen` are the first and the last look that saw the job hold its nodes;
    both are None for a stay too short to be seen, which only its script reported.
    A change of the node list (`scontrol update NumNodes=`) ends an attempt with `end_state` RESIZING.
    `gpus` is Slurm's total; `gpus_per_node` is that shared out evenly, which --gpus need not do.
    """

    job_id: int
    index: int
    first_seen_start: float | None
    last_seen: float | None
    start: float
    end: float | None
    end_state: str | None
    nodes: tuple[str, ...]
    gpus_per_node: int
    gpus: int
    restart_count: int
    script_start: float | None
    uncertainty_s: float


@dataclass(frozen=True)
class NodeInterval:
    """A node stayed in one state; `end` is None while it lasts. The `*` of a node not responding is cut off."""

    node: str
    state: str
    start: float
    end: float | None


@dataclass(frozen=True)
class JobLook:
    """What squeue said of a job."""

    state: str
    restart_count: int
    nodelist: str
    gpus: int

    @property
    def holding(self) -> bool:
        """Whether the job has its nodes."""
        return self.state in HOLDING

    def same_stay(self, other: "JobLook") -> bool:
        """Whether both looks saw the job in one stay on one set of nodes."""
        return (self.restart_count, self.nodelist) == (other.restart_count, other.nodelist)


Seen = TypeVar("Seen")


@dataclass
class Sighting(Generic[Seen]):
    """Looks in a row that saw the same. It began after `after` and no later than `first`."""

    value: Seen
    after: float
    first: float
    last: float

    @property
    def began(self) -> float:
        """The best guess at when it began."""
        return (self.after + self.first) / 2


@dataclass(frozen=True)
class _Stay:
    """Sightings of one attempt, and of what came after it."""

    held: Sequence[Sighting[JobLook]]
    later: Sequence[Sighting[JobLook]]


class History(Generic[Seen]):
    """For each job or node what it was seen as, oldest first."""

    def __init__(self, since: float) -> None:
        self.of: dict[str, list[Sighting[Seen]]] = {}
        self._previous = since

    def add(self, looks: Mapping[str, Seen], began: float, ended: float) -> None:
        """Take in one look at everything. The truth it saw is of some moment between `began` and `ended`."""
        for key, value in looks.items():
            sightings = self.of.setdefault(key, [])
            if sightings and sightings[-1].value == value:
                sightings[-1].last = began
            else:
                sightings.append(Sighting(value, after=self._previous, first=ended, last=began))
        self._previous = began


def expand(nodelist: str) -> tuple[str, ...]:
    """Names in a node list of this lab (one bracket, no leading zeros); independent of the parser under test.

    >>> expand("n[1-2,5]")
    ('n1', 'n2', 'n5')
    >>> expand("n3"), expand("")
    (('n3',), ())
    """
    bracket = re.fullmatch(r"(\w+)\[([\d,-]+)\]", nodelist)
    if not bracket:
        return (nodelist,) if nodelist else ()
    names: list[str] = []
    for part in bracket[2].split(","):
        low, _, high = part.partition("-")
        names += [f"{bracket[1]}{number}" for number in range(int(low), int(high or low) + 1)]
    return tuple(names)


def _indices(text: str) -> tuple[int, ...]:
    return tuple(int(index) for index in text.split(",") if index)


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    # A line is one write, but a reader may come between its halves: only lines with their end count.
    return (json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n"))


class Truth:
    """The witnesses of one lab. `start` begins to look, `stop` ends it; what was seen stays readable."""

    def __init__(self, layout: Layout, env: Mapping[str, str]) -> None:
        self._layout = layout
        self._env = dict(env)
        self._jobs: History[JobLook] = History(now())
        self._nodes: History[str] = History(now())
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lab-truth", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            self.look()

    def look(self) -> None:
        """Look at all jobs and nodes now. Does nothing after `stop` or while slurmctld does not answer."""
        if self._ended.is_set():
            return
        fields = ",".join(f"{name}:{width}" for name, width in SQUEUE_WIDTHS.items())
        with self._lock:
            began = now()
            if (text := self._ask("squeue", "-h", "-a", "-t", "all", "-O", fields)) is not None:
                self._jobs.add(dict(map(_job_look, text.splitlines())), began, now())
            began = now()
            if (text := self._ask("sinfo", "-h", "-N", "-p", "scav", "-o", "%N %T")) is not None:
                self._nodes.add(dict(map(_node_look, text.splitlines())), began, now())

    def _ask(self, *command: str) -> str | None:
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else None

    def script_starts(self, job_id: int | None = None) -> list[ScriptStart]:
        """What job scripts said of their starts, in order; of one job or of all."""
        starts = [
            ScriptStart(
                line["job_id"],
                line["restart_count"],
                line["node"],
                line["t_ns"],
                expand(line["nodelist"]),
                _indices(line["gpus"]),
            )
            for line in _json_lines(self._layout.script_starts)
        ]
        return [start for start in starts if job_id in (None, start.job_id)]

    def hook_calls(self, job_id: int | None = None) -> list[HookCall]:
        """What prolog and epilog said, in order; of one job or of all."""
        calls = [
            HookCall(
                line["what"],
                line["job_id"],
                line["restart_count"],
                line["node"],
                line["t_ns"],
                _indices(line["gpus"]),
            )
            for line in _json_lines(self._layout.hook_calls)
        ]
        return [call for call in calls if job_id in (None, call.job_id)]

    def states(self, job_id: int) -> list[tuple[str, float]]:
        """Each state squeue showed for a job, and when about it began."""
        self.look()
        with self._lock:
            return [(seen.value.state, seen.began) for seen in self._jobs.of.get(str(job_id), [])]

    def attempts(self, job_id: int | None = None) -> list[ObservedAttempt]:
        """All stays of one job or of all, by job and time."""
        self.look()
        starts = {(start.job_id, start.restart_count): start for start in self.script_starts()}
        with self._lock:
            jobs = {int(key): sightings for key, sightings in self._jobs.of.items() if job_id in (None, int(key))}
            return [attempt for job in sorted(jobs) for attempt in attempts_of(job, jobs[job], starts)]

    def nodes_down(self, *states: str) -> list[NodeInterval]:
        """When sinfo showed nodes as down, by node and time; or in `states`, such as "drained".

        Up to a second late: sinfo may call a node mixed that went down under a job.
        """
        self.look()
        wanted = states or ("down",)
        with self._lock:
            return [
                interval
                for node, sightings in sorted(self._nodes.of.items())
                for interval in intervals_of(node, sightings)
                if interval.state in wanted
            ]


def _job_look(line: str) -> tuple[str, JobLook]:
    cells = []
    for width in SQUEUE_WIDTHS.values():
        cells.append(line[:width].strip())
        line = line[width:]
    job_id, restarts, state, tres, nodelist = cells
    gpus = re.search(r"\bgres/gpu=(\d+)", tres)
    return job_id, JobLook(state, int(restarts), nodelist, int(gpus[1]) if gpus else 0)


def _node_look(line: str) -> tuple[str, str]:
    node, state = line.split()
    return node, state.rstrip("*~#!%$@^-+")


def intervals_of(node: str, sightings: Sequence[Sighting[str]]) -> Iterator[NodeInterval]:
    """The states of a node, one after the other without a gap."""
    for index, seen in enumerate(sightings):
        end = sightings[index + 1].began if index + 1 < len(sightings) else None
        yield NodeInterval(node, seen.value, seen.began, end)


def _stays(sightings: Sequence[Sighting[JobLook]]) -> Iterator[_Stay]:
    index = 0
    while index < len(sightings):
        first = index
        while (
            index < len(sightings)
            and sightings[index].value.holding
            and sightings[index].value.same_stay(sightings[first].value)
        ):
            index += 1
        if index > first:
            yield _Stay(sightings[first:index], sightings[index:])
        else:
            index += 1


def attempts_of(
    job_id: int, sightings: Sequence[Sighting[JobLook]], starts: Mapping[tuple[int, int], ScriptStart]
) -> list[ObservedAttempt]:
    """Seen stays, and those only their script told of; numbered by time."""
    unseen = {key: start for key, start in starts.items() if key[0] == job_id}
    result = []
    for stay in _stays(sightings):
        key = (job_id, stay.held[0].value.restart_count)
        unseen.pop(key, None)
        result.append(_seen_attempt(job_id, stay, starts.get(key)))
    result += [_unseen_attempt(start, sightings) for start in unseen.values()]
    result.sort(key=lambda attempt: attempt.start)
    return [replace(attempt, index=index) for index, attempt in enumerate(result)]


def _seen_attempt(job_id: int, stay: _Stay, script: ScriptStart | None) -> ObservedAttempt:
    first, last = stay.held[0], stay.held[-1]
    if script and script.at <= first.after:
        script = None  # after a resize: the script began in the stay before this one
    # The script begins after the allocation, so where it was quicker than our look it narrows the start.
    start_by = min(first.first, script.at) if script else first.first
    end = (last.last + stay.later[0].first) / 2 if stay.later else None
    widths = [start_by - first.after, stay.later[0].first - last.last if stay.later else 0.0]
    nodes = expand(first.value.nodelist)
    return ObservedAttempt(
        job_id=job_id,
        index=0,
        first_seen_start=first.first,
        last_seen=last.last,
        start=(first.after + start_by) / 2,
        end=end,
        end_state=_end_state(first.value, stay.later),
        nodes=nodes,
        gpus_per_node=first.value.gpus // len(nodes),
        gpus=first.value.gpus,
        restart_count=first.value.restart_count,
        script_start=script.at if script else None,
        uncertainty_s=max(widths) / 2,
    )


def _end_state(look: JobLook, later: Sequence[Sighting[JobLook]]) -> str | None:
    for seen in later:
        if seen.value.holding and seen.value.restart_count == look.restart_count:
            return "RESIZING"
        if seen.value.state != "COMPLETING":
            return seen.value.state
    return None


def _unseen_attempt(script: ScriptStart, sightings: Sequence[Sighting[JobLook]]) -> ObservedAttempt:
    """It came and went between two looks, of which its script's start is the one moment known."""
    earlier = [seen.last for seen in sightings if seen.last < script.at]
    later = [seen for seen in sightings if seen.first > script.at]
    after = max(earlier, default=min(later[0].after, script.at) if later else script.at)
    end_by = later[0].first if later else None
    return ObservedAttempt(
        job_id=script.job_id,
        index=0,
        first_seen_start=None,
        last_seen=None,
        start=(after + script.at) / 2,
        end=(script.at + end_by) / 2 if end_by else None,
        end_state=next((seen.value.state for seen in later if seen.value.state != "COMPLETING"), None),
        nodes=script.nodes,
        gpus_per_node=len(script.gpus),
        gpus=len(script.gpus) * len(script.nodes),
        restart_count=script.restart_count,
        script_start=script.at,
        uncertainty_s=max(script.at - after, (end_by or script.at) - script.at) / 2,
    )
