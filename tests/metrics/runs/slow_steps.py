"""What a log says of each second of an attempt, slowly: plain Python, second by second, from the definitions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Step:
    number: int
    begin: int
    length: int


@dataclass(frozen=True)
class Session:
    start: int
    steps: tuple[Step, ...] = ()
    events: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True)
class Attempt:
    start: int
    end: int
    state: str
    sessions: tuple[Session, ...] = ()


HANG_STEPS, HANG_MIN = 10, 30
MEANS = {
    "checkpoint_save": ("checkpoint", None),
    "eval": ("other_work", "evaluation"),
    "checkpoint_load": ("startup", "checkpoint_load"),
    "compile": ("startup", "compile"),
    "init": ("startup", "init"),
}


Losses = dict[tuple[int, int], str]


def losses(attempts: list[Attempt]) -> Losses:
    """Why each execution, (number, begin), that was undone was: a later one of the same or an earlier step followed."""
    every = [(index, s) for index, a in enumerate(attempts) for session in a.sessions for s in session.steps]
    result = {}
    for index, step in every:
        undone_in = [i for i, other in every if other.begin > step.begin and other.number <= step.number]
        if index in undone_in:
            result[step.number, step.begin] = "restart_in_place"
        elif undone_in:
            result[step.number, step.begin] = lost_to(attempts[index].state)
    return result


def lost_to(state: str) -> str:
    """What the end of an attempt costs is booked to."""
    return "rerun" if state == "COMPLETED" else state


def seconds(attempts: list[Attempt], index: int) -> Counter[tuple[str, str | None]]:
    """Seconds of an attempt by category and cause."""
    attempt, lost = attempts[index], losses(attempts)
    result: Counter[tuple[str, str | None]] = Counter()
    for second in range(attempt.start, attempt.end):
        if not is_unknown(attempt, second):
            result[_cause(attempt, lost, second)] += 1
    return result


def is_unknown(attempt: Attempt, second: int) -> bool:
    """Whether a log with neither step nor event leaves open what a completed attempt did."""
    is_silent = bool(attempt.sessions) and not any(session.steps or session.events for session in attempt.sessions)
    return is_silent and attempt.state == "COMPLETED" and second >= attempt.sessions[-1].start


def first_step_extra(attempts: list[Attempt], index: int) -> float:
    """Seconds that the attempt's first step took beyond the ideal one of the run's others; 0 if it was undone."""
    first: dict[int, tuple[Step, float]] = {}
    others = []
    for number, attempt in enumerate(attempts):
        for session in attempt.sessions:
            for place, step in enumerate(session.steps):
                own = _own_seconds(session, place)
                if number not in first:
                    first[number] = (step, own)
                elif own >= 1:
                    others.append(own)
    if index not in first or not others:
        return 0.0
    usual = median(others)
    limit = usual + 3 * median(abs(own - usual) for own in others)
    calm = [own for own in others if own <= limit]
    step, own = first[index]
    undone = (step.number, step.begin) in losses(attempts)
    return 0.0 if undone else max(0.0, own - sum(calm) / len(calm))


def _own_seconds(session: Session, place: int) -> float:
    """Seconds of a step that no event takes."""
    reach, _ = _reach(session, place)
    begin = session.steps[place].begin
    return float(sum(not any(b <= t < e for _, b, e in session.events if b >= begin) for t in range(begin, reach)))


def _cause(attempt: Attempt, lost: Losses, second: int) -> tuple[str, str | None]:
    first_step = min((s.begin for session in attempt.sessions for s in session.steps), default=attempt.end)
    for kind, meaning in MEANS.items():
        if any(k == kind and b <= second < e for session in attempt.sessions for k, b, e in session.events):
            return meaning
    if any(k == "data" and b <= second < e for session in attempt.sessions for k, b, e in session.events):
        begin = max(b for session in attempt.sessions for k, b, e in session.events if k == "data" and b <= second < e)
        return ("startup", "data") if begin < first_step else ("stalled", "data_stall")
    current = None
    for number, session in enumerate(attempt.sessions):
        if second >= session.start:
            current = number
    if current is None:
        return "startup", "launch"
    session = attempt.sessions[current]
    final = current == len(attempt.sessions) - 1
    ended = attempt.state if final else "GONE"
    ready = session.steps[0].begin if session.steps else max((e for _, _, e in session.events), default=session.start)
    if second < ready:
        return "startup", "init"
    if not session.steps:
        return ("teardown", None) if ended == "COMPLETED" else ("startup", "never_stepped")
    until = attempt.end if final else attempt.sessions[current + 1].start
    return _among_steps(session, lost, second, until=until, ended=ended)


def _among_steps(session: Session, lost: Losses, second: int, *, until: int, ended: str) -> tuple[str, str | None]:
    usual = median(step.length for step in session.steps)
    hang = max(usual * HANG_STEPS, HANG_MIN)
    place = max(i for i, step in enumerate(session.steps) if step.begin <= second)
    step = session.steps[place]
    reach, following = _reach(session, place)
    if second < reach:
        why = lost.get((step.number, step.begin))
        return ("productive", None) if why is None else ("lost", why)
    if second < following:
        return "stalled", "hang"
    if ended == "COMPLETED":
        return "teardown", None
    if second < following + usual:
        return "lost", "restart_in_place" if ended == "GONE" else ended
    return _rest_of_a_broken_one(ended, long=until - following > hang)


def _reach(session: Session, place: int) -> tuple[int, int]:
    """What a step lasts to, and when what follows it begins: between them lies a hang."""
    hang = max(median(step.length for step in session.steps) * HANG_STEPS, HANG_MIN)
    last_event = max((e for _, _, e in session.events), default=0)
    step = session.steps[place]
    is_last = place == len(session.steps) - 1
    following = max(last_event, step.begin + step.length) if is_last else session.steps[place + 1].begin
    busy = sum(any(b <= t < e for _, b, e in session.events if b >= step.begin) for t in range(step.begin, following))
    pause = following - (step.begin + step.length) - busy
    return (following if pause <= hang else step.begin + step.length), following


def _rest_of_a_broken_one(ended: str, *, long: bool) -> tuple[str, str | None]:
    if ended == "NODE_FAIL":
        return "stalled", "NODE_FAIL"
    if long:
        return "stalled", "hang"
    return ("stalled", "restart_in_place") if ended == "GONE" else ("teardown", None)
