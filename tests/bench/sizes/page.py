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
    from collections.abc import Iterator, Mapping, Sequence

PAGE: Final = Path(__file__).parents[3] / "app/docs/how-to/size-plan.md"
RESULTS: Final = Path(__file__).parent / "sizes.json"

BEGIN, END = "## Measured\n", "## What breaks first, and what to do then\n"
"""The headings between which the page is generated."""

PER: Final = 1000
CLUSTER: Final = 16_384
LARGEST: Final = 1_000_000
DAY_S: Final = 86_400

JOBS, TELEMETRY, ALONE = "jobs", "telemetry", "alone"
"""Groups of results: see `tests.bench.sizes.__main__`."""


@dataclass(frozen=True)
class Part:
    """A part of a day's work.

    Attributes:
        title: of it.
        group: of the results.
        step: its step there.
        days: of how many days' data the step is.
        stored: whose bytes of the lake it adds; empty: none.
    """

    title: str
    group: str
    step: str
    days: float = 1.0
    stored: str = ""


_SHARE: Final = measure.HOURS / 24

PARTS: Final = (
    Part("accounting", JOBS, measure.ACCOUNTING, stored=measure.ACCOUNTING),
    Part("run logs", JOBS, measure.LOGS, stored=measure.LOGS),
    Part("ledger and results", JOBS, measure.NEW_DAY, stored=measure.LEDGER),
    Part("telemetry at 30 s", TELEMETRY, measure.TELEMETRY, _SHARE, stored=measure.TELEMETRY),
    Part("ledger and results of telemetry", TELEMETRY, measure.NEW_DAY, _SHARE, stored=measure.LEDGER),
    Part("copy into a lake", TELEMETRY, measure.COMMIT_DAY, _SHARE),
)

SHOWN: Final = (measure.TELEMETRY, measure.NEW_DAY, measure.NOTHING, measure.COMMIT_DAY)
"""Steps of the telemetry that the page has: the others are of a cluster whose jobs do not grow with it."""


NOISE: Final = 0.25
"""A size between that is so far from the line shows that what grows is lost in what other work on the machine costs."""


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a day by GPUs. A `bound` takes all of the largest size's to grow: it is at most that."""

    fixed: float
    per_gpu: float
    bound: bool

    def shown(self, value: float, form: str) -> str:
        """A number that follows from it."""
        return f"{'< ' if self.bound else ''}{value:{form}}"


@dataclass(frozen=True)
class Line:
    """A cost by GPUs: `fixed` and `per_gpu`; `off` is how far the size between is from the line, as a ratio of it."""

    fixed: float
    per_gpu: float
    off: float


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
    sizes = {group: [_size(each) for each in results[group]["sizes"]] for group in (JOBS, TELEMETRY, ALONE)}
    return "\n".join([*_measured(results, sizes), "", *_per_thousand(sizes), "", *_extrapolated(sizes), ""])


def _size(document: Mapping[str, Any]) -> Size:
    steps = tuple(Step(**each) for each in document["steps"])
    return Size(**{**document, "steps": steps})


# Tables --------------------------------------------------------------------------------------------------------------


def _measured(results: Mapping[str, Any], sizes: Mapping[str, Sequence[Size]]) -> Iterator[str]:
    a_gpu = sizes[TELEMETRY][0].samples / sizes[TELEMETRY][0].gpus * _SHARE
    yield from (
        BEGIN,
        "By `python -m tests.bench.sizes` in a checkout, which writes this part of the page. Each step is a process of",
        "its own: CPU time of all threads, most memory, and by how many bytes the directory or the lake grew. Off the",
        "line: how far the middle size's CPU time lies from the line through the other two.",
        "",
        "Jobs: 0.43 attempts a GPU and day, and a run log for every 64 GPUs with a step every 10 s. Six days are there",
        f"already; the new day is the seventh. {_about(results[JOBS], sizes[JOBS])}",
        "",
        *_table(sizes[JOBS], [step.name for step in sizes[JOBS][0].steps]),
        "",
        f"Telemetry: {measure.HOURS} hours at 30 s, {a_gpu:,.0f} samples a GPU: dcgm-exporter's nine gauges, and of",
        "each node of eight GPUs eight InfiniBand ports, 96 CPUs (idle), disks, card and filesystem. The computation",
        f"after it makes the ledger of these hours anew. {_about(results[TELEMETRY], sizes[TELEMETRY])}",
        "",
        *_table(sizes[TELEMETRY], SHOWN),
        "",
        "Two hours of such telemetry of larger clusters, in chunks of four million averages (`chunk_samples`). "
        f"{_about(results[ALONE], sizes[ALONE])}",
        "",
        *_table(sizes[ALONE], [measure.TELEMETRY]),
    )


def _about(results: Mapping[str, Any], sizes: Sequence[Size]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    loads = ", ".join(f"{size.load:.0f}" for size in sizes)
    return f"{results['machine']}; {versions}; load {loads}."


def _table(sizes: Sequence[Size], names: Sequence[str]) -> Iterator[str]:
    yield f"| step | {' | '.join(f'{size.gpus:,} GPUs' for size in sizes)} | off the line |"
    yield "|---|" + "---:|" * (len(sizes) + 1)
    for name in names:
        of_step = [size.step(name) for size in sizes]
        off = line([(size.gpus, each.cpu_s) for size, each in zip(sizes, of_step, strict=True)]).off
        yield f"| {name} | {' | '.join(map(_cell, of_step))} | {off * 100:+.0f} % |"


def _cell(step: Step) -> str:
    memory = "" if step.peak_mib is None else f", {step.peak_mib:,.0f} MiB"
    return f"{step.cpu_s:.1f} s{memory}" + (f", {_shown(step.bytes)}" if step.bytes > 0 else "")


def _per_thousand(sizes: Mapping[str, Sequence[Size]]) -> Iterator[str]:
    samples = sizes[TELEMETRY][-1].samples / sizes[TELEMETRY][-1].gpus * PER
    yield from (
        "## Per 1,000 GPUs and day",
        "",
        f"{samples / 1e6:.0f} million samples are read. Bytes are those of a lake's Parquet files. Core minutes are",
        "CPU time: no command takes longer on a core of its own, but for waiting for its source. The fixed part comes",
        "with each run of a command, whatever the size; that of telemetry with a day's chunks. With a < what",
        "grows was lost in the noise of other work, so all of the largest size's is taken to grow.",
        "",
        "| part | on disk | CPU | core minutes | fixed |",
        "|---|---:|---:|---:|---:|",
    )
    for part in PARTS:
        cpu, stored = _cpu(sizes, part), _stored(sizes, part)
        on_disk = "" if stored is None else _shown(stored * PER)
        per = cpu.per_gpu * PER
        fixed = "" if cpu.bound else f"{cpu.fixed:.1f} s"
        yield f"| {part.title} | {on_disk} | {cpu.shown(per, '.1f')} s | {cpu.shown(per / 60, '.2f')} | {fixed} |"


def _stored(sizes: Mapping[str, Sequence[Size]], part: Part) -> float | None:
    """Bytes of a day by GPU."""
    if not part.stored:
        return None

    def added(size: Size) -> float:
        return (size.last[part.stored] - size.first[part.stored]) / part.days

    return max(line([(size.gpus, added(size)) for size in sizes[part.group]]).per_gpu, 0.0)


def _cpu(sizes: Mapping[str, Sequence[Size]], part: Part) -> Cost:
    """CPU seconds of a day. Hours of telemetry have a part of its fixed costs, which come with its chunks."""
    of = sizes[part.group]
    points = [(size.gpus, size.step(part.step).cpu_s) for size in of]
    whole, (gpus, most) = line(points), points[-1]
    if whole.per_gpu <= 0 or whole.fixed < 0 or abs(whole.off) > NOISE:
        return Cost(0.0, most / gpus / part.days, bound=True)
    fixed = whole.fixed / part.days if part.step == measure.TELEMETRY else whole.fixed
    return Cost(fixed, whole.per_gpu / part.days, bound=False)


def _extrapolated(sizes: Mapping[str, Sequence[Size]]) -> Iterator[str]:
    clusters = LARGEST / CLUSTER
    yield from (
        f"## {LARGEST:,} GPUs",
        "",
        f"As {clusters:.0f} clusters of {CLUSTER:,} GPUs, each command once a day. Cores: how many work all day.",
        "",
        f"| a day's | {CLUSTER:,} GPUs, on disk | core minutes | {LARGEST:,} GPUs, on disk | core hours | cores |",
        "|---|---:|---:|---:|---:|---:|",
    )
    total = 0.0
    for part in PARTS:
        cpu, stored = _cpu(sizes, part), _stored(sizes, part)
        seconds = cpu.fixed + cpu.per_gpu * CLUSTER
        total += seconds * clusters
        of_one, of_all = ("", "") if stored is None else (_shown(stored * CLUSTER), _shown(stored * LARGEST))
        hours, cores = seconds * clusters / 3600, seconds * clusters / DAY_S
        yield (
            f"| {part.title} | {of_one} | {cpu.shown(seconds / 60, '.1f')} | {of_all} | {cpu.shown(hours, '.1f')} | "
            f"{cpu.shown(cores, '.2f')} |"
        )
    yield f"| together | | | | {total / 3600:.1f} | {total / DAY_S:.2f} |"


def _shown(value: float) -> str:
    """Bytes for people.

    >>> _shown(1_234_000_000), _shown(435)
    ('1.23 GB', '0.435 kB')
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e3:.3g} kB"
