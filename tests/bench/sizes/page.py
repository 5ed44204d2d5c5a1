"""The numbers of the manual's size plan, from the results of `python -m tests.bench.sizes`.

What a step costs is taken as a fixed part and a part that grows with the GPUs: the straight line through the smallest
and the largest of the sizes. How far the one between lies from it says how good that is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.bench.sizes import measure
from tests.bench.sizes.measure import Size, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

PAGE: Final = Path(__file__).parents[3] / "app/docs/how-to/size-plan.md"
RESULTS: Final = Path(__file__).parent / "sizes.json"

BEGIN, END = "## Measured\n", "## What breaks first, and what to do then\n"
"""The headings between which the page is generated."""

PER: Final = 1000
CLUSTER: Final = 16_384
LARGEST: Final = 1_000_000

SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "accounting": (measure.ACCOUNTING,),
    "run logs": (measure.LOGS,),
    "telemetry at 30 s": (measure.TELEMETRY,),
    "ledger and results": (measure.NEW_DAY,),
    "lake, if there is one": (measure.COMMIT,),
}
"""Parts of a day's work, and the steps that they consist of."""


@dataclass(frozen=True)
class Line:
    """A cost by GPUs: `fixed` and `per_gpu`; `off` is how far the size between is from the line, as a ratio of it."""

    fixed: float
    per_gpu: float
    off: float

    def at(self, gpus: float) -> float:
        """The cost of so many GPUs."""
        return self.fixed + self.per_gpu * gpus


def line(points: Sequence[tuple[float, float]]) -> Line:
    """The line through the first and the last of three points (GPUs, cost)."""
    (low, least), (middle, between), (high, most) = points
    per_gpu = (most - least) / (high - low)
    fixed = least - per_gpu * low
    expected = fixed + per_gpu * middle
    return Line(fixed, per_gpu, between / expected - 1 if expected else 0.0)


def current() -> dict[str, Any]:
    """The results that the page has."""
    results: dict[str, Any] = json.loads(RESULTS.read_text())
    return results


def with_numbers(page: str, results: Mapping[str, Any]) -> str:
    """The page with the numbers of these results."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{numbers(results)}\n{END}{rest.partition(END)[2]}"


def numbers(results: Mapping[str, Any]) -> str:
    """The part of the page that is generated."""
    sizes = [_size(each) for each in results["sizes"]]
    return "\n".join([*_measured(results, sizes), "", *_per_thousand(sizes), "", *_extrapolated(sizes), ""])


def _size(document: Mapping[str, Any]) -> Size:
    steps = tuple(Step(**each) for each in document["steps"])
    return Size(document["gpus"], document["samples"], document["load"], steps)


# Tables --------------------------------------------------------------------------------------------------------------


def _measured(results: Mapping[str, Any], sizes: Sequence[Size]) -> Iterator[str]:
    gpus = " ".join(str(size.gpus) for size in sizes)
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    days = sizes[0].step(measure.ACCOUNTING).days
    yield from (
        BEGIN,
        f"By `python -m tests.bench.sizes {gpus}` in a checkout: simulated clusters of that many GPUs, accounting and run",
        f"logs of {days} days, telemetry of the last of them. It takes a few minutes, and writes this part of the page. {results['machine']};",
        f"{versions}; load {', '.join(f'{size.load:.0f}' for size in sizes)}.",
        "",
        "| step, a process each | " + " | ".join(f"{size.gpus:,} GPUs" for size in sizes) + " | off the line |",
        "|---|" + "---:|" * (len(sizes) + 1),
    )
    for step in sizes[0].steps:
        of_step = [size.step(step.name) for size in sizes]
        off = line([(size.gpus, each.cpu_s) for size, each in zip(sizes, of_step, strict=True)]).off
        yield f"| {step.name} | " + " | ".join(map(_cell, of_step)) + f" | {off:+.0%} |".replace("%", " %")


def _cell(step: Step) -> str:
    memory = "" if step.peak_mib is None else f", {step.peak_mib:,.0f} MiB"
    return f"{step.cpu_s:.1f} s{memory}" + (f", {_bytes(step.bytes)}" if step.bytes > 0 else "")


def _per_thousand(sizes: Sequence[Size]) -> Iterator[str]:
    samples = sizes[-1].samples / sizes[-1].gpus * PER
    yield from (
        "## Per 1,000 GPUs and day",
        "",
        f"{samples / 1e6:.0f} million samples are read of it. The fixed part comes with each run of a command, whatever the size.",
        "",
        "| part | on disk | CPU | fixed, each run |",
        "|---|---:|---:|---:|",
    )
    for part in SOURCES:
        cpu = _of(sizes, part, lambda step: step.cpu_s)
        size = _of(sizes, part, lambda step: step.bytes)
        on_disk = _bytes(size.per_gpu * PER + _replaced(sizes, part))
        yield f"| {part} | {on_disk} | {cpu.per_gpu * PER:.1f} s | {max(cpu.fixed, 0):.1f} s |"


def _replaced(sizes: Sequence[Size], part: str) -> float:
    """Bytes of a day of the ledger without telemetry, which come on top of what telemetry adds to it."""
    if measure.NEW_DAY not in SOURCES[part]:
        return 0.0
    return _line_of(sizes, measure.FIRST, lambda step: step.bytes / step.days).per_gpu * PER


def _of(sizes: Sequence[Size], part: str, value: Callable[[Step], float]) -> Line:
    """The line of a day of a part."""
    (name,) = SOURCES[part]
    return _line_of(sizes, name, lambda step: value(step) / step.days)


def _line_of(sizes: Sequence[Size], name: str, value: Callable[[Step], float]) -> Line:
    return line([(size.gpus, value(size.step(name))) for size in sizes])


def _extrapolated(sizes: Sequence[Size]) -> Iterator[str]:
    clusters = LARGEST / CLUSTER
    yield from (
        f"## {LARGEST:,} GPUs",
        "",
        f"As {clusters:.0f} clusters of {CLUSTER:,} GPUs, a run of each command a day. Cores: how many such work takes if it never rests.",
        "",
        f"| a day of | {CLUSTER:,} GPUs | | {LARGEST:,} GPUs | | |",
        "|---|---:|---:|---:|---:|---:|",
        "| | on disk | CPU minutes | on disk | CPU hours | cores |",
    )
    for part in SOURCES:
        cpu = _of(sizes, part, lambda step: step.cpu_s)
        size = _of(sizes, part, lambda step: step.bytes)
        day = (size.per_gpu + _replaced(sizes, part) / PER) * CLUSTER
        seconds = max(cpu.fixed, 0) + cpu.per_gpu * CLUSTER
        all_s = seconds * clusters
        yield (
            f"| {part} | {_bytes(day)} | {seconds / 60:.1f} | {_bytes(day * clusters)} | {all_s / 3600:.1f} | "
            f"{all_s / 86_400:.2f} |"
        )


def _bytes(value: float) -> str:
    """Bytes for people: 1.2 GB."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e3:.3g} kB"
