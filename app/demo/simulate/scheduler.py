"""The simulated cluster at work: one scheduler, its queue, nodes that fail, jobs that are requeued. Event by event.

What Slurm would see is in whole seconds; what goes on inside an execution is in milliseconds.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from app.demo.simulate.plan import BEGIN, GPUS_PER_NODE, REQUEUE_HOLD_S, FaultPlan, Maintenance, NodeFault, Settings
from app.demo.simulate.trace import Item, unfold
from app.demo.simulate.work import OF_KUBERNETES, SimulatedJob, jobs

if TYPE_CHECKING:
    from collections.abc import Callable

CUT = -1
"""Step of what was cut off: it is in no log, and nothing can resume from a checkpoint that was."""

CYCLE_S = 60
"""Longest time between two passes over the queue."""

AGED_S = 3 * 3600
"""A job that has waited so long is not overtaken any more."""

GRACE_S = 300
"""From the signal to stop to the kill: the GraceTime of the quality of service."""


@dataclass(eq=False)
class Attempt:
    """One execution of a job, or its wish for one.

    `places` are the node numbers with the GPU indices held on each. `items` cover `started` to the end exactly.
    """

    job: SimulatedJob
    number: int
    db_index: int
    submitted: int
    eligible: int
    first_step: int = 1
    started: int | None = None
    ended: int | None = None
    state: str = "PENDING"
    exit_code: str = "0:0"
    reason: str = "None"
    places: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    failure: NodeFault | None = None
    dead_node: int | None = None
    stops: int | None = None
    ends: int | None = None
    ends_as: str = ""
    after: tuple[Item, ...] = ()

    @property
    def nodes(self) -> list[int]:
        """Numbers of the nodes held."""
        return [node for node, _ in self.places]

    @property
    def doomed(self) -> bool:
        """Whether it was stopped from outside, and only waits for its end."""
        return self.stops is not None


class NodeState(NamedTuple):
    """A node out of service; `ended` is None while it lasts, `noticed` is when Slurm wrote it down."""

    node: int
    began: int
    noticed: int
    ended: int | None
    category: str
    raw: int
    reason: str
    user: str


_OUT = {"silent": ("down", 2049), "health": ("down", 1), "crash": ("drained", 514), "hang": ("drained", 514)}
"""State of a node after a fault: category, and Slurm's number for the state."""


def _user(failure: NodeFault) -> str:
    return "slurm(64030)" if failure.kind == "silent" else "root(0)"


@dataclass
class _SimulatedNode:
    number: int
    free: list[int]
    up: bool = True
    blocked: bool = False
    attempts: list[Attempt] = field(default_factory=list)
    out: NodeState | None = None
    maintained: Maintenance | None = None

    @property
    def usable(self) -> bool:
        """Whether new work may be placed on it."""
        return self.up and not self.blocked and self.maintained is None


@dataclass(frozen=True)
class History:
    """Everything that happened: the truth behind all files."""

    settings: Settings
    plan: FaultPlan
    attempts: list[Attempt]
    states: list[NodeState]
    struck: list[tuple[NodeFault, list[Attempt]]]

    @property
    def of_slurm(self) -> list[Attempt]:
        """The attempts in Slurm's accounting."""
        return [attempt for attempt in self.attempts if attempt.job.partition != OF_KUBERNETES]


def play(settings: Settings, ahead: FaultPlan) -> History:
    """Run the cluster from its first second to its last."""
    return _SimulatedCluster(settings, ahead).play()


class _SimulatedCluster:
    def __init__(self, settings: Settings, ahead: FaultPlan) -> None:
        self.settings, self.ahead = settings, ahead
        self.chance = np.random.default_rng([settings.seed, 3])
        self.nodes = [_SimulatedNode(number, list(range(GPUS_PER_NODE))) for number in range(settings.n_nodes)]
        self.queue: list[Attempt] = []
        self.attempts: list[Attempt] = []
        self.states: list[NodeState] = []
        self.struck: list[tuple[NodeFault, list[Attempt]]] = []
        self.heap: list[tuple[int, int, Callable[[int], None]]] = []
        self.order, self.index = count(), count(1)
        self.pass_at: int | None = None
        self.next_failures: dict[int, list[int]] = {}
        for failure in ahead.failures:
            self.next_failures.setdefault(failure.node, []).append(failure.at)

    def play(self) -> History:
        for job in jobs(self.settings):
            self._at(job.submitted, partial(self._submit, job))
        for failure in self.ahead.failures:
            self._at(failure.at, partial(self._fail, failure))
        for window in self.ahead.maintenance:
            self._at(window.begin, partial(self._maintain, window))
        while self.heap and self.heap[0][0] < self.settings.end:
            now, _, act = heapq.heappop(self.heap)
            act(now)
        self._close()
        return History(self.settings, self.ahead, self.attempts, self.states, self.struck)

    def _at(self, when: int, act: Callable[[int], None]) -> None:
        heapq.heappush(self.heap, (when, next(self.order), act))

    # --- the queue -------------------------------------------------------------------------------------

    def _submit(self, job: SimulatedJob, now: int) -> None:
        self._enqueue(Attempt(job, 0, next(self.index), now, now), now)

    def _enqueue(self, attempt: Attempt, now: int) -> None:
        self.attempts.append(attempt)
        if attempt.job.gives_up_after_s is not None:
            self._at(now + attempt.job.gives_up_after_s, lambda later: self._give_up(attempt, later))
        if attempt.eligible <= now:
            self._wait(attempt, now)
        else:
            self._at(attempt.eligible, lambda later: self._wait(attempt, later))

    def _wait(self, attempt: Attempt, now: int) -> None:
        if attempt.state == "PENDING":
            self.queue.append(attempt)
            self._want_pass(now)

    def _give_up(self, attempt: Attempt, now: int) -> None:
        if attempt.state == "PENDING":
            attempt.state, attempt.ended = f"CANCELLED by {attempt.job.uid}", now
            if attempt in self.queue:
                self.queue.remove(attempt)

    def _want_pass(self, now: int) -> None:
        """Plan the next scheduling pass: within a minute; at once only in the very first second."""
        if self.pass_at is None:
            self.pass_at = now if now == BEGIN else now + int(self.chance.integers(1, CYCLE_S + 1))
            self._at(self.pass_at, self._pass)

    def _pass(self, now: int) -> None:
        """Start what fits: most urgent first, others may overtake unless one has waited for long."""
        self.pass_at = None
        self.queue.sort(key=lambda a: (-self._urgency(a), a.eligible, a.job.id))
        closed: set[str] = set()
        for attempt in list(self.queue):
            job = attempt.job
            if job.partition in closed:
                continue
            places = self._places(job)
            if places is None:
                if job.qos == "pretrain":
                    self._preempt(job, now)
                if job.qos == "pretrain" or (now - attempt.eligible > AGED_S and job.partition == "train"):
                    closed.add(job.partition)
                attempt.reason = "Resources" if job.partition not in closed else "Priority"
                continue
            self.queue.remove(attempt)
            self._start(attempt, places, now)

    @staticmethod
    def _urgency(attempt: Attempt) -> int:
        return attempt.job.priority + (50 if attempt.number else 0)

    def _places(self, job: SimulatedJob) -> list[tuple[int, tuple[int, ...]]] | None:
        """Nodes on which a job fits now: whole nodes from the first on; of shared nodes the fullest with room."""
        if job.partition == "train":
            free = [
                node.number
                for node in self.nodes[: self.settings.n_whole]
                if node.usable and len(node.free) == GPUS_PER_NODE
            ]
            if len(free) < job.n_nodes:
                return None
            # Small jobs fill from the back, so that large ones stay together.
            chosen = free[: job.n_nodes] if job.n_nodes > 1 else free[-1:]
            return [(number, tuple(range(GPUS_PER_NODE))) for number in chosen]
        fits = [n for n in self.nodes[self.settings.n_whole :] if n.usable and len(n.free) >= job.gpus_per_node]
        if not fits:
            return None
        best = min(fits, key=lambda node: (len(node.free), node.number))
        return [(best.number, tuple(best.free[: job.gpus_per_node]))]

    def _preempt(self, job: SimulatedJob, now: int) -> None:
        """Make room for pre-training: jobs that give way are signalled to stop, the youngest and least urgent first."""
        usable = [node for node in self.nodes[: self.settings.n_whole] if node.usable]
        lacking = job.n_nodes - sum(len(node.free) == GPUS_PER_NODE for node in usable)
        holders = {id(a): a for node in usable for a in node.attempts if a.job.qos != "pretrain"}
        lacking -= sum(a.job.n_nodes for a in holders.values() if a.doomed)
        for victim in sorted(holders.values(), key=lambda a: (a.job.priority, -(a.started or 0), a.job.id)):
            if lacking <= 0:
                return
            if not victim.doomed:
                lacking -= victim.job.n_nodes
                self._signal_stop(victim, now, "PREEMPTED")

    # --- attempts ---------------------------------------------------------------------------------------

    def _start(self, attempt: Attempt, places: list[tuple[int, tuple[int, ...]]], now: int) -> None:
        attempt.started, attempt.places, attempt.state = now, places, "RUNNING"
        for number, gpus in places:
            node = self.nodes[number]
            node.free = [gpu for gpu in node.free if gpu not in gpus]
            node.attempts.append(attempt)
        job, held = attempt.job, set(attempt.nodes)
        chance = np.random.default_rng([self.settings.seed, 4, job.id, attempt.number])
        horizon = min(self.settings.end, *(self._next_failure(node, now) for node in held), now + job.limit_s)
        slow = [slow_period for slow_period in self.ahead.slow if slow_period.node in held]
        trace = unfold(job, now * 1000, horizon * 1000, first_step=attempt.first_step, slow=slow, chance=chance)
        attempt.items = trace.items
        own = _own_ending(job, trace.end if trace.done else None, now)
        # Processes take a while to go.
        end = -(-own.stop // 1000) + int(chance.integers(4, 26))
        self._at(end, partial(self._own_end, attempt, own))

    def _next_failure(self, node: int, now: int) -> int:
        return next((at for at in self.next_failures.get(node, ()) if at >= now), self.settings.end)

    def _own_end(self, attempt: Attempt, own: _Ending, now: int) -> None:
        if attempt.ended is not None or (attempt.stops is not None and attempt.stops <= own.stop):
            return
        attempt.stops, attempt.after = own.stop, (Item("teardown", own.stop, now * 1000),)
        attempt.exit_code, attempt.failure, attempt.dead_node = own.exit_code, None, None
        self._end(attempt, f"CANCELLED by {attempt.job.uid}" if own.state == "CANCELLED" else own.state, now)

    def _signal_stop(self, attempt: Attempt, now: int, state: str) -> None:
        """Signal the attempt to stop: a graceful job finishes its step and saves a checkpoint; the others just end."""
        stop, items = now * 1000, list[Item]()
        steps = [item for item in attempt.items if item.kind == "step" and item.begin < stop]
        if attempt.job.graceful and steps:
            stop = max(stop, steps[-1].end)
            saved = stop + int(1000 * attempt.job.checkpoint_s * 0.9)
            items.append(Item("checkpoint", stop, saved, steps[-1].step))
        at = items[-1].end if items else stop
        gone = min(now + GRACE_S, at // 1000 + 4)
        items.append(Item("teardown", at, gone * 1000))
        self._doom(attempt, stop, gone, state, tuple(items))

    def _doom(self, attempt: Attempt, stop: int, end: int, state: str, after: tuple[Item, ...]) -> None:
        """Stopped from outside. Of two such stops the earlier counts, and of two ends the earlier."""
        if attempt.stops is None or stop < attempt.stops:
            attempt.stops, attempt.after = stop, after
        if attempt.ends is None or end < attempt.ends:
            attempt.ends, attempt.ends_as = end, state
            self._at(end, partial(self._doomed_end, attempt))

    def _doomed_end(self, attempt: Attempt, now: int) -> None:
        if attempt.ended is None and attempt.ends == now:
            self._end(attempt, attempt.ends_as, now)

    def _end(self, attempt: Attempt, state: str, now: int) -> None:
        attempt.state, attempt.ended = state, now
        attempt.items = _cut(attempt, now * 1000)
        for number, gpus in attempt.places:
            node = self.nodes[number]
            node.free = sorted([*node.free, *gpus])
            node.attempts.remove(attempt)
            if node.maintained is not None and node.up and not node.attempts:
                self._take_out(node, node.maintained, now)
        if state in {"NODE_FAIL", "PREEMPTED", "REQUEUED"} and attempt.job.requeues:
            again = Attempt(
                attempt.job,
                attempt.number + 1,
                next(self.index),
                now,
                now + REQUEUE_HOLD_S,
                first_step=_resume_step(attempt),
                reason="BeginTime",
            )
            self._enqueue(again, now)
        self._want_pass(now)

    # --- nodes ------------------------------------------------------------------------------------------

    def _fail(self, failure: NodeFault, now: int) -> None:
        node = self.nodes[failure.node]
        if not node.up or node.blocked:
            return
        node.blocked = True
        victims = [attempt for attempt in node.attempts if attempt.stops is None or attempt.stops > now * 1000]
        self.struck.append((failure, victims))
        noticed = now + failure.notice_s
        if not node.attempts and failure.kind != "silent":
            noticed = now
        for attempt in list(node.attempts):
            if attempt in victims:
                attempt.failure = failure
                attempt.dead_node = failure.node if failure.kind == "silent" else None
            state, kind = "NODE_FAIL", "hang"
            if failure.kind in {"crash", "hang"}:
                state = "REQUEUED" if attempt.job.resubmits else "FAILED"
                attempt.exit_code = "1:0"
            if failure.kind == "crash":
                kind = "teardown"
            self._doom(attempt, now * 1000, noticed, state, (Item(kind, now * 1000, noticed * 1000),))
        self._at(noticed, lambda later: self._goes_down(failure, now, later))

    def _goes_down(self, failure: NodeFault, failed: int, now: int) -> None:
        node = self.nodes[failure.node]
        if not node.up:
            return
        node.up, node.blocked = False, False
        began = failed if failure.kind == "silent" else now
        node.out = NodeState(node.number, began, now, None, *_OUT[failure.kind], failure.reason, _user(failure))
        self._at(now + failure.repair_s, lambda later: self._comes_up(node, later))

    def _comes_up(self, node: _SimulatedNode, now: int) -> None:
        if node.out is not None:
            self.states.append(node.out._replace(ended=now))
        node.out, node.up = None, True
        if node.maintained is not None:
            if now < node.maintained.end:
                self._take_out(node, node.maintained, now)
                return
            node.maintained = None
        self._want_pass(now)

    def _maintain(self, window: Maintenance, now: int) -> None:
        """Take nodes out: what runs on them is requeued, and they follow when they are free."""
        for number in window.nodes:
            self.nodes[number].maintained = window
        for number in window.nodes:
            node = self.nodes[number]
            for attempt in list(node.attempts):
                if not attempt.doomed:
                    self._signal_stop(attempt, now, "REQUEUED")
            if node.up and not node.blocked and not node.attempts:
                self._take_out(node, window, now)

    def _take_out(self, node: _SimulatedNode, window: Maintenance, now: int) -> None:
        if node.blocked or now >= window.end:  # it is about to go down, or it is too late
            return
        node.up = False
        node.out = NodeState(node.number, now, now, None, "maintenance", 514, window.reason, "root(0)")

        def back(later: int) -> None:
            node.maintained = None
            self._comes_up(node, later)

        self._at(window.end, back)

    def _close(self) -> None:
        """Stop the film: what runs is RUNNING, what waits is PENDING, who is out of service stays so."""
        end = self.settings.end
        for attempt in self.attempts:
            if attempt.started is not None and attempt.ended is None:
                attempt.items = _cut(attempt, end * 1000, still_running=True)
        for node in self.nodes:
            if node.out is not None:
                self.states.append(node.out)
        self.states.sort(key=lambda state: (state.noticed, state.node))


class _Ending(NamedTuple):
    """How an execution ends without a signal; it stops in milliseconds."""

    stop: int
    state: str
    exit_code: str


def _own_ending(job: SimulatedJob, done: int | None, now: int) -> _Ending:
    """The first way in which a job may end on its own: done, cancelled by its user, broken, out of time."""
    endings = [_Ending((now + job.limit_s) * 1000, "TIMEOUT", "0:0")]
    if job.ends_after_s is not None:
        code = {"FAILED": "1:0", "OUT_OF_MEMORY": "0:125"}.get(job.ends_as, "0:0")
        endings.append(_Ending((now + job.ends_after_s) * 1000, job.ends_as, code))
    if done is not None:
        endings.append(_Ending(done, job.ends_as if job.kind == "interactive" else "COMPLETED", "0:0"))
    return min(endings)


def _cut(attempt: Attempt, end: int, *, still_running: bool = False) -> list[Item]:
    """Segments until the stop, then those after it, without a gap until `end`."""
    stop = min(end, attempt.stops if attempt.stops is not None else end)
    finished = [item for item in attempt.items if item.end <= stop]
    broken = next((item for item in attempt.items if item.begin < stop < item.end), None)
    if broken is not None:
        open_end = still_running and attempt.stops is None
        kind = ("open" if open_end else "unfinished") if broken.kind == "step" else broken.kind
        finished.append(Item(kind, broken.begin, stop, CUT))
    later = [Item(kind, begin, min(done, end), step) for kind, begin, done, step in attempt.after if begin < end]
    return _without_gaps([*finished, *later], (attempt.started or 0) * 1000, end)


def _without_gaps(items: list[Item], begin: int, end: int) -> list[Item]:
    """The segments, with each gap filled by `teardown`: the end of the processes."""
    items_: list[Item] = []
    reached = begin
    for item in (*items, Item("teardown", end, end)):
        if reached < item.begin:
            items_.append(Item("teardown", reached, item.begin))
        if item.begin < item.end:
            items_.append(item)
        reached = max(reached, item.end)
    return items_


def _resume_step(attempt: Attempt) -> int:
    """The step after the last checkpoint that is whole."""
    saved = [item.step for item in attempt.items if item.kind == "checkpoint" and item.step > 0]
    return max(saved, default=attempt.first_step - 1) + 1
