"""What `make fuzz` runs. A property belongs to the first target that names its file; the last one takes the rest.

To add a target: a row here, and a test file with its properties.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class Target:
    """A group of properties and its share of the time."""

    name: str
    what: str
    files: tuple[str, ...]
    """Patterns below the repository's root."""
    weight: int = 1

    def modules(self) -> set[Path]:
        """Its test files that exist and have properties."""
        result = {path for pattern in self.files for path in ROOT.glob(pattern)}
        return {path for path in result if "from hypothesis" in path.read_text(encoding="utf-8")}


TARGETS: Final = (
    Target("slurm", "every parser of Slurm's text and JSON", ("tests/ingest/slurm/**/test_*.py",)),
    Target(
        "telemetry",
        "every parser of telemetry: OpenMetrics, Prometheus JSON, remote read, VictoriaMetrics",
        ("tests/ingest/prometheus/**/test_*.py",),
    ),
    Target("runlog", "the parser of run logs", ("tests/ingest/runlog/test_*.py",)),
    Target("gate", "the gate of `trackside sql`", ("tests/queries/sandbox/test_*.py",)),
    Target("configuration", "configuration and claims files", ("tests/app/config/test_*.py",)),
    Target("properties", "all other properties", ("tests/**/test_*.py",), weight=4),
)


def chosen(names: list[str]) -> tuple[Target, ...]:
    """The targets of these names; all of them if none is given."""
    return tuple(target for target in TARGETS if not names or target.name in names)


def targets_of_modules() -> dict[Path, Target]:
    """Each test file with properties and the first target that names it."""
    return {module: target for target in reversed(TARGETS) for module in target.modules()}
