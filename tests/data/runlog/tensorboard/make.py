"""Makes the fixtures of this folder: event files by real tensorboardX; a run that is killed and resumed.

    python -m venv env && env/bin/pip install tensorboardX==2.6.5
    env/bin/python make.py OUT

Only every second step is logged. The first process is killed after step 20; the second one goes on from step 14.
"""

# ruff: noqa: T201, TID251 - a script, run by the Python of another environment

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path


def train(out: str, first: int, last: int, *, killed: bool) -> None:
    """Log some steps; prints what the loop knows of each."""
    SummaryWriter = import_module("tensorboardX").SummaryWriter  # noqa: N806

    config = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4}
    writer = SummaryWriter(out, flush_secs=1)
    writer.add_text("model_config", json.dumps(config))
    for step in range(first, last):
        begin = time.time()
        time.sleep(0.02)
        took = time.time() - begin
        if step % 2 == 0:
            writer.add_scalar("train/loss", 4 / (step + 1), step)
            writer.add_scalar("train/step_time", took, step)
            writer.add_scalar("train/learning_rate", 0.001, step)
            if step == 0:
                writer.add_histogram("weights", list(range(50)), step)
        print(json.dumps({"step": step, "end": time.time(), "duration_s": took, "loss": 4 / (step + 1)}), flush=True)
    writer.flush()
    time.sleep(2)  # its thread writes
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)
    writer.close()


def main(out: Path) -> None:
    """Run both processes."""
    truth = []
    for first, last in ((0, 21), (14, 29)):
        command = [sys.executable, __file__, "train", str(out / "tiny"), str(first), str(last)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        truth.append([json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"step"')])
    (out / "truth.json").write_text(json.dumps(truth) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), killed=sys.argv[4] == "21")
    else:
        main(Path(sys.argv[1]))
