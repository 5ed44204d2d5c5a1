"""One loop under real Slurm that logs with the recorder and with W&B offline: both logs give the same account of it.

Two slurmds are killed under the job, its second restart ends by the loop's own bug, and its user submits it again. Each
log is loaded into a warehouse of its own beside the same accounting. Where they may differ is W&B's last block, which a
killed process does not write.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.results.runs.runs import run_steps
from ingest.runlog.recorder import trackside_log
from queries.warehouse import open_reader
from tests.lab import loggers
from tests.lab.loops import two_logs_loop
from tests.lab.scenario.played import played
from tests.metrics.oracles.flops import flops_per_token
from tests.support.command import trackside

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab import SlurmLab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab")]

LAST = 23
KILLED_AT = (8, 13)
RESUMED_AT = (5, 10, 15)  # the loop saves behind every fifth step, and the bug is in step 18
PEAK = 989e12
UNWRITTEN = 3
"""Steps that W&B may not have written: its last block of 32 KiB, at 30 kB a step, and what it still works on."""


@dataclass(frozen=True)
class Logged:
    """What the loop itself wrote down, and a warehouse for each of its logs."""

    jobs: tuple[int, int]
    truth: list[dict[str, Any]]
    recorder: Path
    wandb: Path

    def process(self, number: int) -> list[dict[str, Any]]:
        """Steps of one of the four processes."""
        job, restarts = (self.jobs[0], number) if number < 3 else (self.jobs[1], 0)
        return [line for line in self.truth if (int(line["job"]), line["restarts"]) == (job, restarts)]


def run(warehouse: Path, *arguments: str, lab: SlurmLab | None = None) -> str:
    done = trackside(*arguments, "--warehouse", str(warehouse), env=None if lab is None else dict(lab.env))
    assert done.returncode == 0, done.stderr
    return done.stdout


def show(warehouse: Path, *arguments: str) -> list[dict[str, Any]]:
    """Rows of a `show` in JSON."""
    rows: list[dict[str, Any]] = json.loads(run(warehouse, "show", *arguments, "--format", "json"))
    return rows


def without_measures(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows without numbers that follow from step times."""
    return [{name: value for name, value in row.items() if not isinstance(value, float)} for row in rows]


def steps_of(warehouse: Path) -> pl.DataFrame:
    with open_reader(warehouse) as reader:
        return run_steps(reader, "bench", "lab-llama").sort("ts")


def truth_of(work: Path) -> list[dict[str, Any]]:
    path = work / "truth.jsonl"
    whole = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in whole]


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    loggers.need_loggers()
    with played(lambda lab: _play(lab, tmp_path_factory.mktemp("two-logs"))) as scenario:
        yield scenario


def _play(lab: SlurmLab, folder: Path) -> Logged:
    work = lab.layout.base / "training"
    work.mkdir()
    work.chmod(0o777)
    for module in (trackside_log, two_logs_loop):
        shutil.copy(str(module.__file__), work)
    places = " ".join(f"WANDB_{name}_DIR={work}" for name in ("CACHE", "CONFIG", "DATA", "ARTIFACT"))
    script = (
        f"export WANDB_MODE=offline WANDB_SILENT=true WANDB_DISABLE_GIT=true {places}\n"
        f"cd {work} && exec {loggers.PYTHON} two_logs_loop.py {work} {LAST}"
    )
    options = ("-p", "main", "-N2", "--ntasks-per-node=1", "--gres=gpu:8", "--requeue")
    job = lab.sbatch(script, *options)
    for restarts, step in enumerate(KILLED_AT):
        _kill_batch_host(lab, work, restarts, step)
    lab.wait_for(job, "FAILED", timeout=120)
    again = lab.sbatch(script, *options)
    lab.wait_for(again, "COMPLETED", timeout=60)
    recorder, wandb = folder / "recorder", folder / "wandb"
    run(recorder, "ingest", "slurm", lab=lab)
    shutil.copytree(recorder, wandb)
    run(recorder, "ingest", "runlog", str(work / "run.jsonl"))
    run(wandb, "ingest", "runlog", str(work / "wandb"))
    for warehouse in (recorder, wandb):
        run(warehouse, "compute")
    return Logged((job, again), truth_of(work), recorder, wandb)


def _kill_batch_host(lab: SlurmLab, work: Path, restarts: int, step: int) -> None:
    """Kill the node that the loop runs on once it has done a step of this attempt."""
    lab.wait_until(
        lambda: any((line["restarts"], line["step"]) == (restarts, step) for line in truth_of(work)),
        90,
        f"step {step} after {restarts} restarts",
        seldom=0.1,  # before the next checkpoint
    )
    host = next(start.node for start in reversed(lab.truth.script_starts()) if start.restart_count == restarts)
    lab.kill_node(host)


def test_both_logs_have_the_loops_steps(logged: Logged) -> None:
    recorded, seen = steps_of(logged.recorder), steps_of(logged.wandb)
    assert recorded["step"].to_list() == [line["step"] for line in logged.truth]
    for number in range(4):
        knew = logged.process(number)
        own = seen.filter(pl.col("ts").dt.epoch("us").is_between(knew[0]["begin"] * 1e6 - 1e5, knew[-1]["end"] * 1e6))
        steps = [line["step"] for line in knew]
        assert own["step"].to_list() == steps[: own.height]
        assert len(steps) - own.height <= (UNWRITTEN if number < 2 else 0)
        for row, line in zip(own.iter_rows(named=True), knew, strict=False):
            assert row["ts"].timestamp() == pytest.approx(line["begin"], abs=0.3)
            assert row["duration_s"] == pytest.approx(line["end"] - line["begin"], abs=0.2)


def test_both_give_one_run_of_the_same_attempts(logged: Logged) -> None:
    recorded, seen = (show(each, "runs", "--run", "lab-llama") for each in (logged.recorder, logged.wandb))
    assert [(row["n_attempts"], row["joined_by"], row["state"], row["n_gpus"]) for row in recorded] == [
        (4, "explicit", "COMPLETED", 16)
    ]
    assert without_measures(seen) == without_measures(recorded)
    assert seen[0]["ettr"] == pytest.approx(recorded[0]["ettr"], rel=0.02)


def test_lost_steps_are_those_run_twice_in_both(logged: Logged) -> None:
    resumed = [logged.process(number)[0]["step"] for number in (1, 2, 3)]
    assert tuple(resumed) == RESUMED_AT
    for warehouse, unwritten in ((logged.recorder, 0), (logged.wandb, 2 * UNWRITTEN)):
        steps = steps_of(warehouse)
        lost = steps.filter(~pl.col("kept"))["step"].to_list()
        twice = [
            line["step"] for number in range(3) for line in logged.process(number) if line["step"] >= resumed[number]
        ]
        assert set(lost) <= set(twice)
        assert len(twice) - len(lost) <= unwritten
        assert steps.filter("kept")["step"].to_list() == list(range(LAST))


def test_both_have_the_causes_of_the_same_interruptions(logged: Logged) -> None:
    recorded, seen = (show(each, "interruptions") for each in (logged.recorder, logged.wandb))  # the newest first
    assert [row["class"] for row in reversed(recorded)] == ["infrastructure", "infrastructure", "user"]
    assert without_measures(seen) == without_measures(recorded)


def test_restart_times_are_the_loops_in_both(logged: Logged) -> None:
    for warehouse in (logged.recorder, logged.wandb):
        rows = [row for row in show(warehouse, "restarts", "--by", "event") if row["run_id"] == "lab-llama"]
        assert len(rows) == 3
        steps = steps_of(warehouse)
        for number, row in enumerate(sorted(rows, key=lambda row: row["interrupted_at"])):
            first = logged.process(number + 1)[0]
            before = steps.filter(pl.col("ts").dt.epoch("us") < (first["begin"] - 0.1) * 1e6).row(-1, named=True)
            t0 = before["ts"].timestamp() + before["duration_s"]
            assert row["time_to_first_step_s"] == pytest.approx(first["end"] - t0, abs=0.5)


def test_mfu_is_the_same_by_both_and_the_loops_own(logged: Logged) -> None:
    per_token = flops_per_token("palm_full", params=8.03e9, layers=32, heads=32, head_dim=128, seq_len=8192)
    busy = sum(_busy_s(logged.process(n), (*RESUMED_AT, LAST)[n]) for n in range(4))
    for warehouse in (logged.recorder, logged.wandb):
        (row,) = (r for r in show(warehouse, "mfu", "--run", "lab-llama") if r["convention"] == "palm_full")
        assert row["numerator"] == pytest.approx(per_token * two_logs_loop.TOKENS * LAST)
        assert row["value"] == pytest.approx(per_token * two_logs_loop.TOKENS * LAST / (16 * PEAK * busy), rel=0.02)


def _busy_s(process: list[dict[str, Any]], until: int) -> float:
    """Seconds of a process's steps below `until`: a step lasts until the next one begins."""
    ends = [line["begin"] for line in process[1:]] + [process[-1]["end"]]
    return float(sum(end - line["begin"] for line, end in zip(process, ends, strict=True) if line["step"] < until))
