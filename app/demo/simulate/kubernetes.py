"""Output of Kubernetes about the hosts of the simulated nodes, with disagreements with Slurm.

slurmd runs in a pod on each host. A host that dies is not ready before Slurm notices, and a repaired one is ready
before Slurm has it back. One host was cordoned for hours and Slurm never drained it; a pod of another one was deleted,
and did not end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from app.demo.simulate import kubernetes_work
from app.demo.simulate.kubernetes_work import host
from app.demo.simulate.plan import BEGIN, DAY_S, GPUS_PER_NODE, HOUR_S
from app.demo.simulate.times import spelled
from app.json_text import as_json

if TYPE_CHECKING:
    from app.demo.simulate.scheduler import NodeState
    from app.demo.simulate.world import World

GRACE_S: Final = 40
"""A host is not ready when its kubelet has been silent for so long."""

READY_BEFORE_S: Final = 120
"""A repaired host is ready so long before Slurm has the node back."""

CORDONED_S: Final = 6 * HOUR_S
LISTED_S: Final = HOUR_S
"""The list after the last one with the cordon."""


class Disagreement(NamedTuple):
    """A time in which the two disagree about a node; seconds since 1970, `until` is None while it lasts."""

    node: str
    kind: str
    since: int
    until: int | None


class _Odd(NamedTuple):
    """Planted facts: the node that is cordoned, the one whose pod does not end, and the times."""

    cordoned: int | None
    cordoned_at: int
    terminating: int | None
    terminating_at: int


def texts(world: World) -> list[str]:
    """Output of a watch of nodes and pods, and two lists of nodes: the last with the cordon, and the next one."""
    odd, nodes = _odd(world), range(world.settings.n_nodes)
    turns = ((node, turn) for node in nodes for turn in _turns(world, node))
    watched = [_host(world, node, turn, world.settings.end) for node, turn in turns]
    last_with = odd.cordoned_at + CORDONED_S - LISTED_S
    lists = [
        as_json({"kind": "List", "items": [_host_at(world, node, at, odd) for node in nodes]})
        for at in (last_with, last_with + LISTED_S)
    ]
    daemons = (_pod(world, node, odd) for node in nodes)
    stream = "\n".join(as_json(each) for each in (*watched, *daemons, *kubernetes_work.objects(world)))
    return [stream, *lists]


def disagreements(world: World) -> list[Disagreement]:
    """Those that were planted, where nothing else happened to the node at the same time."""
    odd, settings = _odd(world), world.settings
    found = []
    for state in _silent(world):
        name, again = settings.name(state.node), _ready_again(state)
        found.append(Disagreement(name, "not_ready", state.began + GRACE_S, state.noticed))
        if state.ended is not None and again is not None and again < state.ended:
            found.append(Disagreement(name, "out_of_slurm", again, state.ended))
    if odd.cordoned is not None:
        last_with = odd.cordoned_at + CORDONED_S - LISTED_S
        found.append(Disagreement(settings.name(odd.cordoned), "cordoned", odd.cordoned_at, last_with))
    if odd.terminating is not None:
        found.append(Disagreement(settings.name(odd.terminating), "terminating", odd.terminating_at, None))
    return sorted(found, key=lambda each: (each.since, each.node))


def _silent(world: World) -> list[NodeState]:
    """Nodes that died, of whom nothing else is reported at the same time."""
    states = world.history.states
    end = world.settings.end

    def alone(state: NodeState) -> bool:
        low, high = state.began - DAY_S, (state.ended or end) + DAY_S
        near = [each for each in states if each.node == state.node and each.began < high and (each.ended or end) > low]
        reserved = any(
            state.node in window.nodes and window.begin < high and window.end > low
            for window in world.history.plan.maintenance
        )
        return len(near) == 1 and not reserved

    return [state for state in states if state.category == "down" and state.raw == 2049 and alone(state)]


def _ready_again(state: NodeState) -> int | None:
    if state.ended is None:
        return None
    return max(state.noticed, state.ended - READY_BEFORE_S)


def _turns(world: World, node: int) -> list[tuple[int, bool]]:
    """When a host became ready or ceased to be."""
    turns = [(BEGIN, True)]
    for state in _silent(world):
        if state.node == node:
            turns.append((state.began + GRACE_S, False))
            again = _ready_again(state)
            turns += [] if again is None else [(again, True)]
    return turns


def _odd(world: World) -> _Odd:
    settings = world.settings
    span = settings.days * DAY_S
    cordoned_at, terminating_at = (BEGIN + int(share * span) // HOUR_S * HOUR_S for share in (0.4, 0.8))
    quiet = _quiet(world, cordoned_at - DAY_S, cordoned_at + CORDONED_S + DAY_S)
    cordoned = next(iter(quiet), None)
    later = [node for node in _quiet(world, terminating_at - DAY_S, settings.end) if node != cordoned]
    return _Odd(cordoned, cordoned_at, next(iter(later), None), terminating_at)


def _quiet(world: World, low: int, high: int) -> list[int]:
    """Nodes to which nothing happened in a time."""
    end = world.settings.end
    busy = {each.node for each in world.history.states if each.began < high and (each.ended or end) > low}
    windows = [each for each in world.history.plan.maintenance if each.begin < high and each.end > low]
    busy |= {node for each in windows for node in each.nodes}
    return [node for node in range(world.settings.n_nodes) if node not in busy]


def _host(world: World, node: int, turn: tuple[int, bool], seen: int, cordoned: int | None = None) -> dict[str, Any]:
    since, ready = turn
    taints = [] if cordoned is None else [{"key": "node.kubernetes.io/unschedulable", "timeAdded": spelled(cordoned)}]
    name = host(world, node)
    condition = {
        "type": "Ready",
        "status": "True" if ready else "Unknown",
        "reason": "KubeletReady" if ready else "NodeStatusUnknown",
        "lastTransitionTime": spelled(since),
        "lastHeartbeatTime": spelled(seen),
    }
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "creationTimestamp": spelled(BEGIN)},
        "spec": {"unschedulable": bool(taints), "taints": taints},
        "status": {"capacity": {"nvidia.com/gpu": str(GPUS_PER_NODE)}, "conditions": [condition]},
    }


def _host_at(world: World, node: int, at: int, odd: _Odd) -> dict[str, Any]:
    turn = [turn for turn in _turns(world, node) if turn[0] <= at][-1]
    on = node == odd.cordoned and at < odd.cordoned_at + CORDONED_S
    return _host(world, node, turn, at, odd.cordoned_at if on else None)


def _pod(world: World, node: int, odd: _Odd) -> dict[str, Any]:
    """The pod that slurmd runs in."""
    name, began = world.settings.name(node), spelled(BEGIN)
    going = {"deletionTimestamp": spelled(odd.terminating_at + 60), "deletionGracePeriodSeconds": 60}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": f"pod-{name}", "namespace": "slurm", "creationTimestamp": began,
                     "ownerReferences": [{"kind": "NodeSet", "name": "h100", "uid": "nodeset", "controller": True}],
                     **(going if node == odd.terminating else {})},
        "spec": {"nodeName": host(world, node), "containers": [{"name": "slurmd"}]},
        "status": {"phase": "Running",
                   "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": began}]},
    }  # fmt: skip
