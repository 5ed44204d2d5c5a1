"""What a step on a warehouse costs in CPU time and memory, and what it leaves on disk: each is a process of its own."""

from __future__ import annotations

import multiprocessing
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from ingest.registry import SOURCES
from queries import directory
from tests.bench.engine import Cost, run, trackside

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DAYS: Final = 7
HOURS: Final = 6
"""How much telemetry there is."""

ACCOUNTING, LOGS, TELEMETRY = "accounting", "run logs", "telemetry"
FIRST, NEW_DAY, NOTHING = "compute, the first", "compute, a new day", "compute, nothing new"
COMMIT, COMMIT_DAY, SHOW = "copy into a lake, the first", "copy into the lake, a new day", "show goodput, of the lake"

LEDGER: Final = "ledger and results"


@dataclass(frozen=True)
class Step:
    """What a step cost, and how many bytes the warehouse has grown by (of a lake: those of its files).

    Attributes:
        name: of the step.
        days: of how many days' data.
        cpu_s: CPU seconds of the process, all threads.
        peak_mib: its most memory; None where the process that started it had more.
        bytes: on disk.
    """

    name: str
    days: float
    cpu_s: float
    peak_mib: float | None
    bytes: int


@dataclass(frozen=True)
class Size:
    """A cluster of so many GPUs.

    Attributes:
        gpus: how many.
        samples: how many samples of it a day has.
        load: of the machine, when the measurement began.
        steps: what was done, in order.
        first, last: bytes of the lake's files by part, at the first copy and at the last.
    """

    gpus: int
    samples: int
    load: float
    steps: tuple[Step, ...]
    first: dict[str, int]
    last: dict[str, int]

    def step(self, name: str) -> Step:
        """A step by its name."""
        return next(step for step in self.steps if step.name == name)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


class Bench:
    """A warehouse, and the lake that it is copied into.

    Attributes:
        parts: bytes of the lake's files by part, after each copy.
    """

    def __init__(self, folder: Path, cluster: str, url: str = "") -> None:
        self._root, self._files = folder / "w", folder / "files"
        self._lake = f"ducklake:sqlite:{folder}/lake.sqlite"
        self._config = folder / "trackside.toml"
        server = f'[prometheus]\nurl = "{url}"\ninterval_s = 30\n' if url else ""
        self._config.write_text(f'cluster = "{cluster}"\n{server}')
        self.parts: list[dict[str, int]] = []

    def step(self, name: str, days: float, *verb: str) -> Step:
        """Run a verb on the warehouse."""
        before = self._bytes()
        cost = trackside(self._root, *verb, "--config", str(self._config))
        return _step(name, days, cost, self._bytes() - before)

    def copy(self, name: str, days: float) -> Step:
        """Copy it into the lake."""
        before = _bytes_below(self._files)
        cost = run("warehouse", "copy", str(self._root), self._lake, "--data-path", str(self._files))
        self.parts.append(bytes_by_part(self._files))
        return _step(name, days, cost, _bytes_below(self._files) - before)

    def of_lake(self, name: str, *verb: str) -> Step:
        """Run a verb on the lake."""
        return _step(name, 1, trackside(self._lake, *verb), 0)

    def _bytes(self) -> int:
        """Of the published copy and the files of samples: the database has as much again, or twice, beside it."""
        copy = directory.current_copy(self._root)
        return 0 if copy is None else copy.stat().st_size + _bytes_below(self._root / "raw")


def _step(name: str, days: float, cost: Cost, size: int) -> Step:
    return Step(name, days, cost.cpu_s, cost.peak_mib, size)


def _bytes_below(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


_TABLE_FILE: Final = re.compile(r"[^/]+/tables/(?:\w+\.)?(?P<table>\w+)/.*")
_SAMPLE_FILE: Final = re.compile(r"[^/]+/raw/(?P<table>\w+)/.*")


def bytes_by_part(files: Path) -> dict[str, int]:
    """Bytes of a lake's files by what they come from; of those of a table's month only the newest one counts."""
    newest: dict[Path, tuple[str, int]] = {}
    for file in sorted(files.rglob("*.parquet")):
        name = file.relative_to(files).as_posix()
        if found := _TABLE_FILE.fullmatch(name):
            newest[file.parent] = (found["table"], file.stat().st_size)
        elif found := _SAMPLE_FILE.fullmatch(name):
            newest[file] = (found["table"], file.stat().st_size)
    result = dict.fromkeys((ACCOUNTING, LOGS, TELEMETRY, LEDGER), 0)
    for table, size in newest.values():
        result[part_of(table)] += size
    return result


_PARTS: Final = {"slurm": ACCOUNTING, "runlog": LOGS, "prometheus": TELEMETRY}


def part_of(table: str) -> str:
    """Which source feeds a table; of those that `compute` makes: the ledger."""
    fed = (_PARTS.get(source.name.partition(".")[0]) for source in SOURCES if table in source.feeds)
    return next(filter(None, fed), LEDGER)


def in_a_process(work: Callable[..., None], *arguments: object) -> None:
    """Do something in another process: this one must stay small, or the memory of its children is not known."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        message = f"{work.__name__} failed"
        raise RuntimeError(message)
