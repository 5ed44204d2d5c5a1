"""A training loop that logs with the recorder and with W&B offline at once, run inside jobs of the lab.

Steps sleep. Every fifth one is checkpointed; a restart continues behind the last checkpoint. The second restart ends by
the loop's own bug. What really happened goes to `truth.jsonl`, written by other means than both logs. As many people do
it logs the norm of each layer's gradients, too: W&B writes blocks of 32 KiB, and a killed process loses the last.

Arguments: a folder, and how many steps to do. Needs wandb.
"""

import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path

TOKENS = 100_000
STEP_S = 0.4
SAVE_EVERY = 5
BUGGY_RESTART = 2
BUGGY_STEP = 18
MODEL = {"params_active": 8.03e9, "layers": 32, "heads": 32, "head_dim": 128, "seq_len": 8192}
JOB = {"n_gpus": 16, "gpu_model": "NVIDIA H100 80GB HBM3", "dtype": "bf16", **MODEL}
PARTS = [f"{kind}/{part}" for kind in ("norm", "max", "std") for part in ("q", "k", "v", "o", "gate", "up", "down")]
NORMS = {f"grad/{layer}/{part}": 1.5 for layer in range(32) for part in PARTS}


def main(folder: Path, last: int) -> None:
    """Train."""
    trackside_log = import_module("trackside_log")  # lies beside this file where it runs
    restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    truth = (folder / "truth.jsonl").open("a")
    recorder = trackside_log.start(folder / "run.jsonl", run_id="lab-llama", **JOB)
    run = import_module("wandb").init(project="lab", id="lab-llama", resume="allow", dir=folder, config=JOB)
    saved = folder / "checkpoint"
    first = int(saved.read_text()) + 1 if saved.exists() else 0
    for step in range(first, last):
        began = time.time()  # noqa: TID251 - a training job's own clock
        with recorder.step(step, tokens=TOKENS) as this:
            time.sleep(STEP_S)
            this.loss = 10 / (1 + step)
            if (step, restarts) == (BUGGY_STEP, BUGGY_RESTART):
                raise ZeroDivisionError("the loop's own bug")
        ended = time.time()  # noqa: TID251 - as above
        job = os.environ["SLURM_JOB_ID"]
        line = {"job": job, "restarts": restarts, "step": step, "begin": began, "end": ended}
        truth.write(json.dumps(line) + "\n")
        truth.flush()
        os.fsync(truth.fileno())
        seen = {"train/loss": this.loss, "train/global_step": step, "train/step_time": ended - began}
        run.log({**seen, "tokens_per_step": TOKENS, **NORMS})
        if step % SAVE_EVERY == SAVE_EVERY - 1:
            with recorder.checkpoint(step):
                saved.write_text(str(step))
    recorder.close()
    run.finish()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
