"""Why work waited beside idle GPUs, slowly: tick by tick, job by job, from the definitions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    partitions: tuple[str, ...]
    start: int
    end: int
    gpus: int
    nodes: int | None = None
    segment: int | None = None
    rule: bool = False


@dataclass(frozen=True)
class Place:
    """A node: its GPUs and partitions (none: serves all), its block, who holds GPUs when, when it is out of service.

    Where the number of GPUs that somebody holds is None, it is unknown.
    """

    gpus: int
    partitions: tuple[str, ...]
    block: str | None = None
    held: tuple[tuple[int, int, int | None], ...] = ()
    out: tuple[tuple[int, int], ...] = ()

    def idle(self, tick: int) -> int:
        if any(a <= tick < b for a, b in self.out):
            return 0
        held = [n for a, b, n in self.held if a <= tick < b]
        return 0 if None in held else max(0, self.gpus - sum(n for n in held if n is not None))

    def serves(self, partition: str) -> bool:
        return not self.partitions or partition in self.partitions


Places = dict[str, Place]
Seconds = Counter[tuple[str, int, str | None]]


def ticks(places: Places, jobs: list[Job], until: int, hour: int) -> Seconds:
    """Ticks in which work waited for idle GPUs of a node, by node, hour and cause."""
    result: Seconds = Counter()
    for tick in range(until):
        for name, place in places.items():
            if place.idle(tick) and any(_waits_for(job, place, tick) for job in jobs):
                result[name, tick // hour, _cause(places, place, jobs, tick)] += 1
    return result


def _waits_for(job: Job, place: Place, tick: int) -> bool:
    return job.start <= tick < job.end and any(place.serves(p) for p in job.partitions)


def _cause(places: Places, place: Place, jobs: list[Job], tick: int) -> str | None:
    waiting = [
        (job, _how(places, partition, job, tick))
        for job in jobs
        if job.start <= tick < job.end
        for partition in job.partitions
        if place.serves(partition)
    ]
    free = {how for job, how in waiting if not job.rule}
    for how, cause in (("fits", None), ("fragmented", "fragmentation"), ("misplaced", "topology")):
        if how in free:
            return cause
    return "limits" if not free and any(how == "fits" for _, how in waiting) else None


def _how(places: Places, partition: str, job: Job, tick: int) -> str:
    pool = [place for place in places.values() if place.serves(partition)]
    enough = sum(place.idle(tick) for place in pool) >= job.gpus
    each = None if job.nodes is None else -(-job.gpus // job.nodes)
    if each is None or job.nodes is None or each > max(place.gpus for place in pool):
        return "fits" if enough else "short"
    roomy = [place for place in pool if place.idle(tick) >= each]
    if len(roomy) < job.nodes:
        return "fragmented" if enough else "short"
    if job.segment is None or any(place.block is None for place in pool):
        return "fits"
    by_block = Counter(place.block for place in roomy)
    return "fits" if sum(n // job.segment for n in by_block.values()) >= job.nodes // job.segment else "misplaced"
