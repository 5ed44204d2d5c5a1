"""Makes the fixtures of this folder: a run with real wandb, offline, killed and resumed; and what its loop knew.

    python -m venv env && env/bin/pip install wandb==0.31.0
    env/bin/python make.py OUT             # OUT/first.wandb, OUT/second.wandb, OUT/truth.json, OUT/*.json (metadata)

The first process is killed after step 89, when wandb has
written its first block of 32 KiB (some 45 steps); the second one goes on from step 60, or the one that is a second
argument, and raises at its end (exit code 1).
"""

# ruff: noqa: T201, TID251 - a script, run by the Python of another environment

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

ENVIRONMENT = {
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",
    "WANDB_DISABLE_GIT": "true",
    "WANDB_DISABLE_CODE": "true",
    "SLURM_JOB_ID": "4711",
    "SLURM_CLUSTER_NAME": "alpha",
    "SLURM_PROCID": "0",
}
CONFIG = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "seq_len": 128}


def train(first: int, steps: int, *, killed: bool) -> None:
    """Log some steps; prints what the loop knows of each."""
    wandb = import_module("wandb")

    run = wandb.init(project="tiny", id="tiny1", group="sweep", config=CONFIG, resume="allow", dir=".")
    for step in range(first, first + steps):
        begin = time.time()
        time.sleep(0.01)
        took = time.time() - begin
        values = {"train/loss": 4 / (step + 1), "train/global_step": step, "train/step_time": took}
        run.log(values | {"tokens_per_step": 2048})
        print(json.dumps({"step": step, "end": time.time(), "duration_s": took, "loss": 4 / (step + 1)}), flush=True)
        if step % 30 == 29:
            run.log({"eval/loss": 2.5})
    run.config.update({"n_gpus": 8}, allow_val_change=True)
    if killed:
        time.sleep(3)  # what is buffered is written
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError("the loop's own bug")


def main(out: Path, resumed: int = 60) -> None:
    """Run both processes, and keep what they wrote."""
    out.mkdir(parents=True, exist_ok=True)
    truth = []
    for name, first, steps in (("first", 0, 90), ("second", resumed, 8)):
        command = [sys.executable, __file__, "train", str(first), str(steps), name]
        restarts = {"SLURM_RESTART_COUNT": "1"} if name == "second" else {}
        with Path("steps").open("w") as steps_file:  # not a pipe: W&B's own process, which outlives ours, would keep it
            process = os.environ | ENVIRONMENT | restarts
            subprocess.run(command, env=process, stdout=steps_file, stderr=subprocess.DEVNULL, timeout=120, check=False)
        truth.append([json.loads(line) for line in Path("steps").read_text().splitlines() if line[:7] == '{"step"'])
        time.sleep(5)
        (log,) = Path("wandb").glob("offline-run-*/*.wandb")
        shutil.copy(log, out / f"{name}.wandb")
        for metadata in log.parent.glob("files/wandb-metadata.json"):
            shutil.copy(metadata, out / f"{name}.json")
        shutil.rmtree("wandb")
    (out / "truth.json").write_text(json.dumps(truth) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(int(sys.argv[2]), int(sys.argv[3]), killed=sys.argv[4] == "first")
    else:
        main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
