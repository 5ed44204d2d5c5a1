"""Eight real ranks under real Slurm, through the recorder: a slow one is named, uneven batches are no node's fault."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingest.runlog.recorder import trackside_log
from tests.lab.loops.rank_loop import SLOW_RANK
from tests.lab.scenario.played import played

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab import SlurmLab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab")]

STEPS = {"slow": 80, "uneven": 320}
"""Steps by shape of work: of uneven batches so many that no rank has much more work than another by chance."""

NODES = ("n1", "n2", "n3", "n4")


@dataclass(frozen=True)
class Ranks:
    """The jobs by the shape of their work, and the warehouse."""

    jobs: dict[str, int]
    warehouse: Path

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """Rows of `show stragglers` in JSON."""
        shown = trackside(self.warehouse, "show", "stragglers", *arguments, "--format", "json")
        result: list[dict[str, Any]] = json.loads(shown)
        return result


def trackside(warehouse: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "app.cli.main", *arguments, "--warehouse", str(warehouse)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    with played(lambda lab: _play(lab, tmp_path_factory)) as scenario:
        yield scenario


def _play(lab: SlurmLab, tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    work = lab.layout.base / "ranks"
    work.mkdir()
    work.chmod(0o777)
    shutil.copy(Path(trackside_log.__file__), work / "trackside_log.py")
    shutil.copy(Path(__file__).parents[2] / "lab" / "loops" / "rank_loop.py", work / "loop.py")
    jobs = {}
    for shape, steps in STEPS.items():
        jobs[shape] = lab.sbatch(
            f"cd {work} && srun /usr/bin/python3 loop.py {work} {shape} {steps}",
            "-p", "main", "-w", ",".join(NODES), "-N4", "--ntasks-per-node=2",
        )  # fmt: skip
        lab.wait_for(jobs[shape], "COMPLETED", timeout=240)
    warehouse = tmp_path_factory.mktemp("ranks") / "warehouse"
    files = sorted(map(str, work.glob("ranks-*.jsonl")))
    assert len(files) == 2 * len(NODES)
    trackside(warehouse, "ingest", "ranks", *files, "--cluster", "bench")
    return Ranks(jobs, warehouse)


def test_the_rank_that_shares_its_core_is_named_with_its_node(ranks: Ranks) -> None:
    (session,) = ranks.rows("--run", "lab-slow")
    assert (session["cause"], session["nodes"], session["session"]) == ("node", "n3", f"{ranks.jobs['slow']}.0")
    (slow,) = (row for row in ranks.rows("--by", "rank", "--run", "lab-slow") if row["slow"])
    assert (slow["rank"], slow["node"], slow["since_step"]) == (SLOW_RANK, "n3", 0)


def test_uneven_batches_are_blamed_on_no_node(ranks: Ranks) -> None:
    (session,) = ranks.rows("--run", "lab-uneven")
    assert (session["cause"], session["nodes"]) == ("job_shape", "")
    assert session["slowdown"] > 1.1
