"""The ledger again, slowly: plain Python, one second at a time, written from the definitions and not from the code.

It must agree with `metrics.ledger.sweep` exactly. Times are whole seconds from 0; a cluster is one node or a few. What
a log or telemetry says is a category, or a category and a cause: `stalled:idle_gpus`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Attempt:
    job: int
    node: str
    start: int
    end: int | None
    milli_gpus: int
    suspended: int = 0
    guessed: bool = False
    logged: tuple[tuple[int, int, str, int], ...] = ()  # start, end, category, thousandths of its GPUs
    active: tuple[tuple[int, int, str, int], ...] = ()  # start, end, category, thousandths of GPUs
    trains: bool = True


@dataclass(frozen=True)
class State:
    node: str
    start: int
    end: int | None
    kind: str
    silent: bool = False  # Slurm noticed it only after its time-out, `SILENCE` seconds


SILENCE = 4


@dataclass(frozen=True)
class Cluster:
    until: int
    gpus: dict[str, int]  # node -> thousandths of GPUs, for all the time
    attempts: tuple[Attempt, ...] = ()
    states: tuple[State, ...] = ()
    waits: tuple[tuple[int, int, str | None], ...] = ()  # start, end, cause
    states_known_from: int = 0
    since: int = 0


def shares(held: list[tuple[int, int]], capacity: int) -> dict[int, int]:
    """What each (attempt, milli GPUs) gets of so much room: largest remainder."""
    total = sum(gpus for _, gpus in held)
    if total <= capacity:
        return dict(held)
    floors = {attempt: gpus * capacity // total for attempt, gpus in held}
    left = capacity - sum(floors.values())
    by_remainder = sorted(held, key=lambda each: (-(each[1] * capacity % total), each[0]))
    for attempt, _ in by_remainder[:left]:
        floors[attempt] += 1
    return floors


def given(cluster: Cluster, held: list[tuple[int, int]], capacity: int) -> dict[int, int]:
    """What is known comes first; attempts whose split is a guess share what is left."""
    known = shares([each for each in held if not cluster.attempts[each[0]].guessed], capacity)
    rest = [each for each in held if cluster.attempts[each[0]].guessed]
    return known | shares(rest, capacity - sum(known.values()))


def milli_gpu_seconds(cluster: Cluster) -> Counter[tuple[str, int | None, str, str | None]]:
    """Thousandths of GPU-seconds by (node, index of the attempt, category, cause)."""
    result: Counter[tuple[str, int | None, str, str | None]] = Counter()
    for second in range(cluster.since, cluster.until):
        for node, capacity in cluster.gpus.items():
            for key, gpus in _one_second(cluster, node, capacity, second).items():
                result[key] += gpus
    return result


def _one_second(
    cluster: Cluster, node: str, capacity: int, second: int
) -> Counter[tuple[str, int | None, str, str | None]]:
    states = {
        s.kind
        for s in cluster.states
        if s.node == node
        and s.start - (SILENCE if s.silent else 0) <= second
        and (10**9 if s.end is None else s.end) > second
    }
    held = []
    for index, attempt in enumerate(cluster.attempts):
        end = cluster.until if attempt.end is None else attempt.end
        if attempt.node == node and attempt.start <= second < end:
            held.append((index, attempt.milli_gpus))
    result: Counter[tuple[str, int | None, str, str | None]] = Counter()
    held_now = given(cluster, held, capacity)
    for index, gpus in held_now.items():
        attempt = cluster.attempts[index]
        end = cluster.until if attempt.end is None else attempt.end
        if "down" in states:
            result[node, index, "stalled", "node_down"] += gpus
        elif second >= end - attempt.suspended:
            result[node, index, "stalled", "suspended"] += gpus
        else:
            for output, part in _seen(attempt, gpus, second).items():
                category, _, cause = output.partition(":")
                if not attempt.trains and cause != "idle_gpus":
                    category, cause = "other_work", "eval"
                result[node, index, category, cause or None] += part
    left = capacity - sum(held_now.values())
    if left:
        category, why = _out_of_use(cluster, states, second)
        result[node, None, category, why] += left
    return Counter({key: gpus for key, gpus in result.items() if gpus})


def _seen(attempt: Attempt, gpus: int, second: int) -> Counter[str]:
    """What the log says, then what telemetry says of the GPUs that the log does not speak for."""
    result: Counter[str] = Counter()
    by_log = [(c, attempt.milli_gpus * share // 1000) for a, b, c, share in attempt.logged if a <= second < b]
    by_telemetry = [(c, milli) for a, b, c, milli in attempt.active if a <= second < b]
    left = gpus
    for output in (by_log, by_telemetry):
        wanted: Counter[str] = Counter()
        for category, milli in output:
            wanted[category] += milli
        for category in sorted(wanted, key=lambda name: (name.startswith("productive"), name)):
            part = min(left, wanted[category])
            result[category] += part
            left -= part
    result["unattributed"] += left
    return result


def _out_of_use(cluster: Cluster, states: set[str], second: int) -> tuple[str, str | None]:
    for kind in ("maintenance", "down", "drained", "unknown"):
        if kind in states:
            return kind, None
    if second < cluster.states_known_from:
        return "unknown", None
    causes = {cause for start, end, cause in cluster.waits if start <= second < end}
    if causes:
        return "pending_demand", min((cause for cause in causes if cause is not None), default=None)
    return "no_demand", None
