"""Attribution again, slowly: plain Python, one second at a time, written from the definitions and not from the code.

It must agree with `metrics.telemetry.gpu_attribution` exactly. Times are whole seconds from 0.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

MS = 1000
HOLD = 5
HOUR = 60
"""Seconds of an hour, so that tests are quick; a sample that knows all of it but one of sixty parts is an hour's."""


@dataclass(frozen=True)
class Sample:
    node: str
    gpu: str
    at: int
    lasts: int | None
    util: float | None
    power: float | None


@dataclass(frozen=True)
class Holder:
    job: int
    node: str
    start: int
    end: int
    milli_gpus: int
    user: str | None = "al"
    partition: str | None = "p"
    unsure: bool = False
    check: bool = False


@dataclass(frozen=True)
class Era:
    node: str
    start: int
    end: int
    capacity: int


@dataclass
class Attributed:
    """By attempt, by (user, partition) and by node: sums by name."""

    attempts: defaultdict[int, Counter[str]]
    users: defaultdict[tuple[str | None, str | None], Counter[str]]
    nodes: defaultdict[str, Counter[str]]


def spans(samples: list[Sample], step: int) -> dict[Sample, int]:
    """For how long each sample speaks: as it says, else for five steps, at most to the GPU's next one."""
    result = {}
    ordered = sorted(samples, key=lambda s: (s.node, s.gpu, s.at))
    for sample, after in zip(ordered, [*ordered[1:], None], strict=True):
        lasts = HOLD * step if sample.lasts is None else sample.lasts
        follows = after is not None and (after.node, after.gpu) == (sample.node, sample.gpu)
        result[sample] = min(lasts, after.at - sample.at) if after is not None and follows else lasts
    return result


def attribute(
    samples: list[Sample], holders: list[Holder], eras: list[Era], lasts: dict[Sample, int], idle: float
) -> Attributed:
    """What the samples of a day tell; no GPU has two at one time."""
    result = Attributed(defaultdict(Counter), defaultdict(Counter), defaultdict(Counter))
    for node in {s.node for s in samples}:
        own = [s for s in samples if s.node == node]
        here = [h for h in holders if h.node == node]
        _node(node, own, here, [e for e in eras if e.node == node], lasts, idle, result)
    return result


def _node(  # noqa: PLR0917 - a test's helper
    node: str,
    samples: list[Sample],
    holders: list[Holder],
    eras: list[Era],
    lasts: dict[Sample, int],
    idle: float,
    result: Attributed,
) -> None:
    series = len({s.gpu for s in samples})
    stays = [h for h in holders if h.start < h.end]  # others were never there, and cut nothing
    cuts = sorted({t for h in stays for t in (h.start, h.end)} | {t for e in eras for t in (e.start, e.end)})
    picked: defaultdict[tuple[object, ...], list[tuple[Sample, int]]] = defaultdict(list)
    unknown: Counter[tuple[object, ...]] = Counter()
    for sample in samples:
        for second in range(sample.at, sample.at + lasts[sample]):
            result.nodes[node]["observed"] += MS
            there = tuple(h for h in holders if h.start <= second < h.end)
            if not there:
                result.nodes[node]["outside"] += MS
                continue
            era = next((e for e in eras if e.start <= second < e.end), None)
            # Time without a known inventory is cut where it is interrupted by a known one.
            stretch = era if era is not None else sum(e.start <= second for e in eras)
            piece = sum(cut <= second for cut in cuts)
            room = max(era.capacity if era is not None else 0, series * 1000)
            comes_and_goes = (
                any(sample.at < t < sample.at + max(lasts[sample], HOUR) for h in stays for t in (h.start, h.end))
                and lasts[sample] >= HOUR * 59 / 60
            )
            held = sum(h.milli_gpus for h in there)
            users = {h.user for h in there}
            sole = len(there) == 1
            of_one = sole or (len(users) == 1 and None not in users and not any(h.check for h in there))
            countable = held % 1000 == 0 and room == series * 1000
            clear = of_one and not any(h.unsure for h in there) and (held >= room or countable)
            unclear = not clear or comes_and_goes
            if unclear or not sole:
                unknown[stretch, piece, there, room, "all"] += MS
            if unclear:
                unknown[stretch, piece, there, room, "unclear"] += MS
                continue
            partitions = {h.partition for h in there}
            partition = partitions.pop() if len(partitions) == 1 else None
            owner = there[0].job if sole else (there[0].user, partition)
            whole = held >= room
            picked[owner, stretch, None if whole else held, there].append((sample, second))
    _pick(node, picked, idle, result, {h.job for h in holders if h.check})
    _share(node, unknown, result)


def _pick(
    node: str,
    picked: dict[tuple[object, ...], list[tuple[Sample, int]]],
    idle: float,
    result: Attributed,
    checks: set[int],
) -> None:
    busy: defaultdict[tuple[object, object], Counter[str]] = defaultdict(Counter)
    for (owner, stretch, held, _), seconds in picked.items():
        if held is not None:
            for sample, _second in seconds:
                busy[owner, stretch][sample.gpu] += int(sample.util is not None and sample.util > idle)
    for (owner, stretch, held, _), seconds in picked.items():
        longest = sorted(busy[owner, stretch].items(), key=lambda each: (-each[1], each[0]))
        for sample, second in seconds:
            if isinstance(held, int) and sample.gpu not in {gpu for gpu, _ in longest[: held // 1000]}:
                result.nodes[node]["outside"] += MS
                continue
            sums = result.attempts[owner] if isinstance(owner, int) else result.users[owner]  # type: ignore[index]  # a pair
            what = "of_users" if not isinstance(owner, int) else "verification" if owner in checks else "attributed"
            result.nodes[node][what] += MS
            _add(sums, sample, second, idle)


def _add(sums: Counter[str], sample: Sample, second: int, idle: float) -> None:
    sums["observed"] += MS
    sums["n_samples"] += int(sample.at == second)
    if sample.util is not None:
        sums["idle_known"] += MS
        sums["gpu_util_known"] += MS
        sums["idle_sum"] += MS * (sample.util <= idle)
        sums["gpu_util_sum"] += MS * round(sample.util * 1_000_000)
    if sample.power is not None:
        sums["power_w_known"] += MS
        sums["power_w_sum"] += MS * round(sample.power * 1000)


def _share(node: str, unknown: Counter[tuple[object, ...]], result: Attributed) -> None:
    all_of: Counter[tuple[Holder, object, int]] = Counter()
    unclear: Counter[tuple[Holder, object, int]] = Counter()
    for (stretch, _, there, room, kind), observed in unknown.items():
        assert isinstance(there, tuple)
        assert isinstance(room, int)
        held = sum(h.milli_gpus for h in there)
        weight = observed * room // held if held > room else observed
        for holder in there:
            (unclear if kind == "unclear" else all_of)[holder, stretch, room] += weight
        result.nodes[node]["outside"] += observed if kind == "unclear" else 0
    for (holder, _, room), weight in all_of.items():
        result.attempts[holder.job]["unattributed"] += holder.milli_gpus * weight // room
    for (holder, _, room), weight in unclear.items():
        share = holder.milli_gpus * weight // room
        result.attempts[holder.job]["unclear"] += share
        result.nodes[node]["unattributed"] += share
        result.nodes[node]["outside"] -= share
