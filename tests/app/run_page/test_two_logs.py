"""A run that logged with the recorder and with W&B at once, both loaded: its page counts each step once."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.support.command import trackside
from tests.support.logs.binary_logs import truth, wandb_folder
from tests.support.logs.framework_loops import PRINTERS, run_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_a_step_that_two_logs_have_counts_once(tmp_path: Path) -> None:
    knew = truth("wandb/0.31.0")[1]
    began = knew[0]["end"] - knew[0]["duration_s"]
    names = {"cluster": "alpha", "scheduler": "slurm", "job_id": "4711", "restart_count": 1}
    lines = [{"type": "run", "v": 1, "t": began - 1, "run_id": "tiny1", **names}]
    for step in knew:
        begin = step["end"] - step["duration_s"]
        lines.append({"type": "step", "step": step["step"], "t": begin, "duration_s": step["duration_s"]})
    log = tmp_path / "run.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    warehouse = str(tmp_path / "warehouse")
    wandb = wandb_folder("0.31.0", "second", tmp_path / "wandb")
    assert trackside("ingest", "runlog", str(log), str(wandb), "--warehouse", warehouse).returncode == 0
    page = json.loads(trackside("run", "tiny1", "--format", "json", "--warehouse", warehouse).stdout)
    assert (page["steps"]["executed"], page["steps"]["lost"]) == (len(knew), 0)


@pytest.mark.slow
def test_logs_of_several_ranks_are_one_process(tmp_path: Path) -> None:
    lines = run_of(PRINTERS["torchtitan"]).lines
    for rank in range(3):
        late = [re.sub(r"(:\d\d),000", rf"\1,{rank * 7:03d}", line) for line in lines]
        (tmp_path / f"rank{rank}.log").write_text("\n".join(late) + "\n")
    logs = [str(tmp_path / f"rank{rank}.log") for rank in range(3)]
    options = ("--timezone", "UTC", "--set", "run_id=x", "--set", "n_gpus=8", "--set", "job_id=7")
    pages = []
    for count in (1, 3):
        warehouse = str(tmp_path / f"warehouse{count}")
        done = trackside("ingest", "runlog", *logs[:count], *options, "--warehouse", warehouse)
        assert done.returncode == 0, done.stderr
        pages.append(json.loads(trackside("run", "x", "--format", "json", "--warehouse", warehouse).stdout))
    alone, together = pages
    assert together["steps"]["executed"] == alone["steps"]["executed"] == 100
    assert together["checkpoints"]["n_checkpoints"] == alone["checkpoints"]["n_checkpoints"] > 0
