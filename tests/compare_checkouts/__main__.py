"""The command: collect the outputs of both checkouts, compare them, print a table."""

from __future__ import annotations

import argparse
import fnmatch
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tests.compare_checkouts as package
from tests.compare_checkouts.collect import Checkout, collect
from tests.compare_checkouts.differences import Difference, compare_folders

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True)
class Expectation:
    """A difference that is intended: a pattern for `part: where`, and why."""

    pattern: str
    reason: str

    @classmethod
    def parse(cls, text: str) -> list[Expectation]:
        """The expectations of a file, one a line; lines without a pattern are comments."""
        lines = (line.partition("#") for line in text.splitlines())
        return [cls(pattern.strip(), reason.strip()) for pattern, _, reason in lines if pattern.strip()]

    def covers(self, difference: Difference) -> bool:
        """Whether the difference is this one. Brackets are ordinary characters."""
        pattern = self.pattern.replace("[", "[[]")
        return fnmatch.fnmatchcase(f"{difference.part}: {difference.where}", pattern)


def main(argv: Sequence[str] | None = None) -> int:
    """Compare two checkouts; 1 where something differs that is not expected."""
    options = _parser().parse_args(argv)
    expected = Expectation.parse(options.expect.read_text("utf-8")) if options.expect else []
    with tempfile.TemporaryDirectory() as temporary:
        keep = options.keep or Path(temporary)
        old = _outputs(options.old, options.old_python, keep / "old", options)
        new = _outputs(options.new, options.new_python, keep / "new", options)
        differences = compare_folders(old, new)
    lines, unexpected = table(differences, expected)
    print("\n".join(lines))  # noqa: T201 - it is a report
    return 1 if unexpected else 0


def table(
    differences: Mapping[str, Sequence[Difference]], expected: Sequence[Expectation]
) -> tuple[list[str], list[Difference]]:
    """The lines to print, and the differences that no expectation covers."""
    every = [difference for group in differences.values() for difference in group]
    covered = {each: next((one for one in expected if one.covers(each)), None) for each in every}
    unexpected = [difference for difference in every if covered[difference] is None]
    used = set(covered.values())
    lines = [
        *_same_folders(differences),
        *(_line(difference, covered[difference]) for difference in every),
        *(f"{one.pattern} | not met: the outputs are the same there" for one in expected if one not in used),
        f"{len(differences)} outputs: {_count_same(differences)} the same, {len(every)} differences,"
        f" {len(unexpected)} of them not expected",
    ]
    return lines, unexpected


def _same_folders(differences: Mapping[str, Sequence[Difference]]) -> Iterable[str]:
    same = Counter(Path(part).parent.as_posix() for part, group in differences.items() if not group)
    return (f"{folder}/ | same ({count} files)" for folder, count in sorted(same.items()))


def _count_same(differences: Mapping[str, Sequence[Difference]]) -> int:
    return sum(1 for group in differences.values() if not group)


def _line(difference: Difference, expectation: Expectation | None) -> str:
    verdict = "differs" if expectation is None else f"differs as expected ({expectation.reason})"
    return f"{difference.part} | {verdict} | {difference.where}: {difference.old!r} -> {difference.new!r}"


def _outputs(root: Path, python: Path | None, kept: Path, options: argparse.Namespace) -> Path:
    """The outputs of a checkout: as kept by an earlier run, or made now."""
    if not (root / "pyproject.toml").exists():
        return root
    checkout = Checkout(root.resolve(), python or root.resolve() / ".venv" / "bin" / "python")
    running = kept.parent / "running"
    collect(checkout, running, gpus=options.gpus, days=options.days, seed=options.seed)
    shutil.rmtree(kept, ignore_errors=True)
    return (running / "outputs").rename(kept)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.compare_checkouts",
        description=package.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", type=Path, help="a checkout, or the folder of outputs kept from it")
    parser.add_argument("new", type=Path, help="a checkout, or the folder of outputs kept from it")
    parser.add_argument("--old-python", type=Path, help="interpreter for OLD (default: its .venv)")
    parser.add_argument("--new-python", type=Path, help="interpreter for NEW (default: its .venv)")
    parser.add_argument("--expect", type=Path, metavar="FILE", help="differences that are intended")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the outputs there")
    parser.add_argument("--gpus", type=int, default=64, help="GPUs of the simulated cluster (default: 64)")
    parser.add_argument("--days", type=int, default=16, help="days of the simulated cluster (default: 16)")
    parser.add_argument("--seed", type=int, default=7, help="of the simulated cluster (default: 7)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
