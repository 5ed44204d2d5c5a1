"""Agreement of two control planes, the slow and obvious way: second by second in plain Python."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """Something that holds of a node from one second to another; None: it lasts."""

    node: str
    begin: int
    end: int | None
    what: str = ""
    gpus: int = 0

    def at(self, second: int) -> bool:
        return self.begin <= second and (self.end is None or second < self.end)


@dataclass(frozen=True)
class Pair:
    """A Slurm node on a host for a time; `asked` is when its pod was asked to end."""

    node: str
    host: str
    begin: int
    end: int | None
    asked: int | None = None


@dataclass(frozen=True)
class Story:
    """All that both sides recorded."""

    pairs: tuple[Pair, ...]
    slurm: tuple[Span, ...]
    hosts: tuple[Span, ...]
    jobs: tuple[Span, ...]
    there: tuple[Span, ...]


def slurm_at(story: Story, node: str, second: int) -> str:
    states = {each.what for each in story.slurm if each.node == node and each.at(second)}
    for state in ("maintenance", "down", "drained", "unknown"):
        if state in states:
            return state
    if not any(each.node == node and each.at(second) for each in story.there):
        return "absent"
    return "allocated" if any(each.node == node and each.at(second) for each in story.jobs) else "idle"


def host_at(story: Story, pair: tuple[str, str], second: int) -> str:
    on = [
        p for p in story.pairs if (p.node, p.host) == pair and p.begin <= second and (p.end is None or second < p.end)
    ]
    if not on:
        return "absent"
    states = {each.what for each in story.hosts if each.node == pair[1] and each.at(second)}
    for state, word in (("down", "not_ready"), ("unknown", "unknown"), ("drained", "cordoned")):
        if state in states:
            return word
    return "terminating" if any(p.asked is not None and p.asked <= second for p in on) else "ready"


def kind(slurm: str, host: str) -> str | None:
    serves = slurm in {"idle", "allocated"}
    if serves and host in {"cordoned", "not_ready", "terminating"}:
        return host
    if slurm in {"down", "drained"} and host == "ready":
        return "out_of_slurm"
    if slurm == "absent" and host in {"ready", "cordoned"}:
        return "only_kubernetes"
    return None


def disagreements(story: Story, until: int) -> list[tuple[str, str | None, str, int, int, int, int]]:
    """Node, host, kind, begin, end, GPU-seconds and held GPU-seconds of each interval."""
    nodes = {each.node for each in story.there}
    lanes: list[tuple[str, str | None]] = sorted({(p.node, p.host) for p in story.pairs})
    lanes += [(node, None) for node in sorted({p.node for p in story.pairs} & nodes)]
    result = []
    for node, host in lanes:
        open_: list[int | str] | None = None
        for second in range(until + 1):
            what = _what(story, node, host, second) if second < until else None
            if open_ is not None and what != open_[0]:
                result.append((node, host, str(open_[0]), open_[1], second, open_[2], open_[3]))
                open_ = None
            if what is not None:
                open_ = open_ or [what, second, 0, 0]
                open_[2] += sum(each.gpus for each in story.there if each.node == node and each.at(second))  # type: ignore[operator]  # a count
                open_[3] += sum(each.gpus for each in story.jobs if each.node == node and each.at(second))  # type: ignore[operator]  # a count
    return sorted(result, key=lambda row: (row[0], row[3], row[1] or ""))  # type: ignore[arg-type]  # as above


def _what(story: Story, node: str, host: str | None, second: int) -> str | None:
    slurm = slurm_at(story, node, second)
    if host is not None:
        return kind(slurm, host_at(story, (node, host), second))
    hosted = any(p.node == node and p.begin <= second and (p.end is None or second < p.end) for p in story.pairs)
    return "only_slurm" if slurm in {"idle", "allocated"} and not hosted else None
