"""W&B's and TensorBoard's files as their newest releases write them: a run killed and resumed in the middle."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from queries.warehouse import open_reader
from tests.lab import loggers
from tests.support.command import trackside
from tests.support.logs.binary_logs import DATA

if TYPE_CHECKING:
    import polars as pl

Truth = list[list[dict[str, Any]]]
"""What the loop of each process knew of its steps."""


def written_by(script: Path, out: Path, *arguments: str) -> tuple[Truth, Path]:
    """Run a script that makes fixtures with the newest packages: what its loops knew, and the folder of its logs."""
    loggers.need_loggers()
    out.mkdir()
    done = subprocess.run(
        [str(loggers.PYTHON), str(script), str(out), *arguments],
        cwd=out, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads((out / "truth.json").read_text()), out


def loaded(folder: Path, run_id: str) -> tuple[pl.DataFrame, int]:
    """The executed steps of the logs of a folder, by the command line, and how many of them are lost."""
    warehouse = str(folder.parent / "warehouse")
    done = trackside("ingest", "runlog", str(folder), "--warehouse", warehouse)
    assert done.returncode == 0, done.stderr
    page = json.loads(trackside("run", run_id, "--format", "json", "--warehouse", warehouse).stdout)
    with open_reader(Path(warehouse)) as reader:
        return reader.table("steps").sort("ts"), page["steps"]["lost"]


def assert_loaded(folder: Path, run_id: str, truth: Truth, *, every: int = 1) -> None:
    """Ends are those that the loops knew, and durations where each step is logged; what was run twice is lost once."""
    steps, n_lost = loaded(folder, run_id)
    first, second = truth
    resumed = second[0]["step"]
    written = steps.height - len(second)
    assert resumed < written <= len(first)
    knew = [*first[:written], *second]
    assert steps["step"].to_list() == [line["step"] for line in knew]
    assert n_lost == written - resumed
    for row, line in zip(steps.iter_rows(named=True), knew, strict=True):
        if line["step"] % every == 0:
            assert row["ts"].timestamp() + row["duration_s"] == pytest.approx(line["end"], abs=2)
            assert row["duration_s"] <= line["duration_s"] + 1e-6
            assert every > 1 or row["duration_s"] == pytest.approx(line["duration_s"], abs=1e-6)


@pytest.mark.slow
def test_wandb_of_today(tmp_path: Path) -> None:
    truth, out = written_by(DATA / "wandb" / "make.py", tmp_path / "out", "30")
    for name in ("first", "second"):
        folder = out / f"offline-run-20261123_070000-{name}"
        folder.mkdir()
        (out / f"{name}.wandb").rename(folder / "run-tiny1.wandb")
    assert_loaded(out, "tiny1", truth)


@pytest.mark.slow
def test_tensorboard_of_today(tmp_path: Path) -> None:
    truth, out = written_by(DATA / "tensorboard" / "make.py", tmp_path / "out", "tensorboard")
    assert_loaded(out, "tiny", truth, every=2)
