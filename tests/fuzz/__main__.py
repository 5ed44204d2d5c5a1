"""`make fuzz`: all properties with new random examples, for as long as asked; not 0 if any fails.

Each process is a run with a seed of its own, which is printed and repeats its examples: `make fuzz SEED=7`.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

from tests.fuzz.profiles import FINDINGS, SECONDS, SEED
from tests.fuzz.targets import ROOT, TARGETS, Target, chosen, targets_of_modules

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

GRACE_S: Final = 330
"""How long a run may go on after its time: Hypothesis takes at most 300 s to simplify a failing example."""

PYTEST: Final = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "tests.fuzz.plugin", "-rfE", "--tb=short")


class Run:
    """A process with a seed of its own, whose output goes to a file."""

    def __init__(self, modules: list[str], seconds: float, seed: int) -> None:
        self.seed = seed
        self.report = FINDINGS / f"seed-{seed}.txt"
        self.patience = time.monotonic() + seconds + GRACE_S
        environment = os.environ | {SECONDS: str(seconds), SEED: str(seed)}
        with self.report.open("w", encoding="utf-8") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *PYTEST, *modules],
                cwd=ROOT,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def result(self) -> int:
        """Its exit status; a run that does not end gets a signal at which Python writes where it is."""
        try:
            return self.process.wait(max(0.0, self.patience - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            return self.process.wait()

    def stop(self) -> None:
        """End it, if it has not."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def explore(modules: list[str], minutes: float, seeds: Sequence[int]) -> int:
    """Run all seeds side by side, report their findings, and count those that have any."""
    FINDINGS.mkdir(exist_ok=True)
    runs = [Run(modules, minutes * 60, seed) for seed in seeds]
    try:
        return sum(report_findings(run.seed, run.report, run.result()) for run in runs)
    finally:
        for run in runs:
            run.stop()


def report_findings(seed: int, report: Path, status: int) -> bool:
    """Print what a run found, or that it found nothing; a report of nothing is not kept."""
    if status == 0:
        write(f"seed {seed}: nothing found\n")
        report.unlink()
        return False
    write(report.read_text(encoding="utf-8", errors="replace"))
    write(f"seed {seed}: FAILED (exit status {status}); the output above is kept in {report}.\n")
    write("The failing examples are kept beside it; the next run takes them first.\n")
    return True


def write(text: str) -> None:
    """To whoever waits for it."""
    sys.stdout.write(text)
    sys.stdout.flush()


def modules_of(targets: tuple[Target, ...]) -> list[str]:
    """The test files of these targets."""
    return sorted(str(module) for module, target in targets_of_modules().items() if target in targets)


def main() -> int:
    """Read the options, explore, and exit with 1 if anything was found."""
    listing = "; ".join(f"{target.name}: {target.what}" for target in TARGETS)
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__, epilog=listing)
    parser.add_argument("--minutes", type=float, default=10, help="for all targets together")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes, each with its own seed")
    parser.add_argument("--seed", type=int, help="the seed of the first process; the others count on from it")
    parser.add_argument("targets", nargs="*", choices=[[], *(target.name for target in TARGETS)], metavar="TARGET")
    arguments = parser.parse_args()
    modules = modules_of(chosen(arguments.targets))
    if not modules:
        parser.error("these targets have no properties")
    first = secrets.randbelow(10**9) if arguments.seed is None else arguments.seed
    seeds = range(first, first + arguments.jobs)
    write(f"seeds {seeds[0]} to {seeds[-1]}, {arguments.minutes:g} minutes\n")
    return 1 if explore(modules, arguments.minutes, seeds) else 0


if __name__ == "__main__":
    sys.exit(main())
