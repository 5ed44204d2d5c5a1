"""Outages and their stages, the slow and obvious way: second by second in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field

RANKS = ("verification", "replacement", "reboot", "triage", "down", "maintenance", "drained", "undetected")


@dataclass(frozen=True)
class State:
    """A node in a state from one second to another; `stage` is what the reason tells."""

    node: str
    begin: int
    end: int | None
    state: str
    stage: str | None = None
    silent: bool = False
    cause: str | None = None
    planned: bool = False


@dataclass(frozen=True)
class Spent:
    """GPUs of a node that the ledger has as lost (`category`) or as held by attempts (None)."""

    node: str
    begin: int
    end: int
    category: str | None
    gpus: int


@dataclass
class Outage:
    """Seconds by stage in their order, and GPU-seconds by stage and what the ledger has them as."""

    begin: int
    end: int
    stages: list[tuple[str, int, int]] = field(default_factory=list)
    spent: dict[tuple[str, str], int] = field(default_factory=dict)


def stage_at(states: list[State], held: int) -> str | None:
    """The stage in force, given the states of one second."""
    if not states:
        return None
    dead = any(each.state == "down" or each.silent for each in states)
    if held and not dead:
        return "draining"
    return min(("undetected" if each.silent else each.stage or each.state for each in states), key=RANKS.index)


def outages(states: list[State], spent: list[Spent], until: int) -> dict[str, list[Outage]]:
    """Outages of each node, walked through second by second."""
    result: dict[str, list[Outage]] = {}
    for node in sorted({each.node for each in states}):
        own = [each for each in states if each.node == node]
        now: Outage | None = None
        for second in range(until):
            there = [each for each in own if each.begin <= second < (until if each.end is None else each.end)]
            costs = [each for each in spent if each.node == node and each.begin <= second < each.end]
            stage = stage_at(there, sum(each.gpus for each in costs if each.category is None))
            if stage is None:
                now = None
                continue
            if now is None:
                now = Outage(second, second)
                result.setdefault(node, []).append(now)
            now.end = second + 1
            if now.stages and now.stages[-1][0] == stage:
                now.stages[-1] = (stage, now.stages[-1][1], second + 1)
            else:
                now.stages.append((stage, second, second + 1))
            for each in costs:
                key = (stage, each.category or "held")
                now.spent[key] = now.spent.get(key, 0) + each.gpus
    return result
