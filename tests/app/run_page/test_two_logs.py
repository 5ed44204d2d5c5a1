"""A run that logged with the recorder and with W&B at once, both loaded: its page counts each step once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support.command import trackside
from tests.support.logs.binary_logs import truth, wandb_folder

if TYPE_CHECKING:
    from pathlib import Path


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
