"""Attribution of samples of nodes again, slowly: plain Python, one second at a time, written from the definitions.

Times are whole seconds from 0 and must agree exactly with `metrics.telemetry.node_attribution`; values as exactly as it
states.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction

HOLD = 5
HOUR = 60
"""Seconds of an hour, so that tests are quick; a sample that knows all of it but one of sixty parts is an hour's."""

Series = tuple[str, str, str]


@dataclass(frozen=True)
class Sample:
    node: str
    metric: str
    device: str
    at: int
    lasts: int | None
    value: float

    @property
    def series(self) -> Series:
        return self.node, self.metric, self.device


@dataclass(frozen=True)
class Stay:
    job: int
    node: str
    start: int
    end: int
    owner: int
    milli_gpus: int = 0
    check: bool = False


@dataclass
class Attributed:
    """By (owner, metric, device) and by (node, metric, device)."""

    owners: defaultdict[tuple[int, str, str], Counter[str]]
    nodes: defaultdict[Series, Counter[str]]


def spans(samples: list[Sample], step: int) -> dict[Sample, int]:
    """For how long each sample speaks: as it says, else for five steps, at most to the series' next one."""
    result = {}
    ordered = sorted(samples, key=lambda s: (s.series, s.at))
    for sample, after in zip(ordered, [*ordered[1:], None], strict=True):
        lasts = HOLD * step if sample.lasts is None else sample.lasts
        follows = after is not None and after.series == sample.series
        result[sample] = min(lasts, after.at - sample.at) if after is not None and follows else lasts
    return result


def attribute(samples: list[Sample], stays: list[Stay], lasts: dict[Sample, int]) -> Attributed:
    """What samples tell; no series has two at one time."""
    result = Attributed(defaultdict(Counter), defaultdict(Counter))
    nodes: defaultdict[tuple[int, str, str], set[str]] = defaultdict(set)
    for sample in samples:
        what = sample.metric, sample.device
        torn = lasts[sample] >= HOUR * 59 / 60 and _changes(sample, sample.at + max(lasts[sample], HOUR), stays)
        for second in range(sample.at, sample.at + lasts[sample]):
            there = {(s.owner, s.check) for s in stays if s.node == sample.node and s.start <= second < s.end}
            value: Fraction = Fraction(sample.value)
            kind = "outside"
            alone = len(there) == 1 and not torn
            if alone:
                kind = "checks" if next(iter(there))[1] else "attributed"
            elif there or torn:
                kind = "shared"
            node = result.nodes[sample.series]
            _add(node, "observed", "value", value)
            _add(node, kind, f"{kind}_value", value)
            for owner, _ in there:
                sums = result.owners[owner, *what]
                nodes[owner, *what].add(sample.node)
                _add(sums, "observed" if alone else "shared", "value" if alone else "shared_value", value)
    for key, names in nodes.items():
        result.owners[key]["n_nodes"] = len(names)
    return result


def _changes(sample: Sample, end: int, stays: list[Stay]) -> bool:
    """Whether who is there changes between the sample's beginning and a second."""
    here = [s for s in stays if s.node == sample.node]
    who = [{s.owner for s in here if s.start <= second < s.end} for second in range(sample.at, end)]
    return any(owners != who[0] for owners in who)


def _add(sums: Counter[str], seconds: str, name: str, value: Fraction) -> None:
    sums[seconds] += 1000
    sums[name] += value  # type: ignore[assignment]  # sums of fractions, among counts
