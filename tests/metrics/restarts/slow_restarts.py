"""The stages of restarts, the slow and obvious way: moment by moment in plain Python, in seconds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.metrics.runs.slow_steps import Attempt, Session, Step

BEFORE = 600
TELLING = re.compile("nccl|watchdog|hang|fault|error|crash|abort|exception", re.IGNORECASE)
FAILED = ("NODE_FAIL", "FAILED")

Stages = dict[str, float | None]


@dataclass(frozen=True)
class CriticalEvent:
    """What the one node of a job told: a critical event."""

    at: int
    kind: str = "xid"


def restarts(tried: list[Attempt], reported: list[CriticalEvent]) -> dict[tuple[bool, int], Stages]:
    """Stages by (within the allocation, end of what broke off)."""
    result: dict[tuple[bool, int], Stages] = {}
    for number, attempt in enumerate(tried):
        result |= _in_place(tried, attempt, reported)
        if attempt.state == "COMPLETED" or number + 1 == len(tried):
            continue
        following = tried[number + 1]
        t0, since, step = _last_step(attempt.sessions)
        signal_at = [e.at for e in reported if max(attempt.start, attempt.end - BEFORE) <= e.at <= attempt.end]
        signal_at.append(attempt.end)
        signal_at += _failures_logged(attempt.sessions, since, attempt.end)
        t1 = min(signal_at) if attempt.state in FAILED else None
        result[False, attempt.end] = _stages(
            (t0, t1, attempt.end, following.start), _beginning(following.sessions), _again(tried, t0, step)
        )
    return result


def _in_place(tried: list[Attempt], attempt: Attempt, reported: list[CriticalEvent]) -> dict[tuple[bool, int], Stages]:
    result: dict[tuple[bool, int], Stages] = {}
    for place in range(1, len(attempt.sessions)):
        before, session = attempt.sessions[:place], attempt.sessions[place]
        t0, since, step = _last_step(before)
        if t0 is None or t0 > session.start:
            continue
        t2 = min(_end(before[-1]), session.start)
        signal_at = [e.at for e in reported if max(attempt.start, t2 - BEFORE) <= e.at <= t2] + _failures_logged(
            before, since, t2
        )
        moments = (t0, min(signal_at, default=None), t2, session.start)
        stages = _stages(moments, _beginning((session,)), _again(tried, t0, step))
        result[True, t2] = stages | {"launch_s": None}
    return result


def _end(session: Session) -> int:
    return max([session.start, *(s.begin + s.length for s in session.steps), *(e for _, _, e in session.events)])


def _last_step(sessions: tuple[Session, ...]) -> tuple[int | None, int | None, int | None]:
    """End, begin and number of the last step."""
    steps = [step for session in sessions for step in session.steps]
    if not steps:
        return None, None, None
    last = max(steps, key=lambda step: step.begin)
    return last.begin + last.length, last.begin, last.number


def _failures_logged(sessions: tuple[Session, ...], since: int | None, until: int) -> list[int]:
    """When logs told of a failure, once the last step had begun."""
    if since is None:
        return []
    events = [e for session in sessions for e in session.events]
    return [begin for kind, begin, _ in events if TELLING.search(kind) and since <= begin <= until]


def _beginning(sessions: tuple[Session, ...]) -> tuple[int | None, int | None, int | None]:
    """First log line, end of the checkpoint load before the first step, end of the first step."""
    t5 = min((session.start for session in sessions), default=None)
    steps: list[Step] = sorted((s for session in sessions for s in session.steps), key=lambda step: step.begin)
    if not steps:
        return t5, None, None
    loads = [e for session in sessions for kind, _, e in session.events if kind == "checkpoint_load"]
    t6 = max((e for e in loads if e <= steps[0].begin), default=None)
    return t5, t6, steps[0].begin + steps[0].length


def _again(tried: list[Attempt], t0: int | None, step: int | None) -> int | None:
    if t0 is None or step is None:
        return None
    steps = [s for attempt in tried for session in attempt.sessions for s in session.steps]
    ends = [s.begin + s.length for s in steps if s.number in {step, step + 1}]
    return min((end for end in ends if end > t0), default=None)


def _stages(
    moments: tuple[int | None, int | None, int, int],
    beginning: tuple[int | None, int | None, int | None],
    t8: int | None,
) -> Stages:
    t0, t1, t2, t4 = moments
    t5, t6, t7 = beginning
    if t1 is not None:
        t1 = min(max(t1, t1 if t0 is None else t0), t2)
    ready = t5 if t6 is None else t6
    return {
        "time_to_detect_s": _between(t0, t1),
        "time_to_terminate_s": _between(t1, t2),
        "time_to_job_restart_s": _between(t2, t4),
        "launch_s": _between(t4, t5),
        "load_s": _between(t5, t6),
        "warm_up_s": _between(ready, t7),
        "time_to_first_step_s": _between(t0, t7),
        "time_to_recover_s": _between(t0, t8),
    }


def _between(begin: int | None, end: int | None) -> float | None:
    return None if begin is None or end is None else float(end - begin)
