"""A training loop as people write them, run inside jobs of the lab: it logs with the recorder copied beside it.

Steps sleep. Every fifth one is checkpointed; a restart goes on behind the last checkpoint. What really happened goes
to a file of its own (`truth.jsonl`), written by other means than the recorder: that is what Trackside is held to.

Arguments: a folder, and how many steps to do. Standard library only: the lab's users run it with Debian's Python.
"""

import json
import os
import sys
import time

TOKENS = 100_000
STEP_S = 0.4
SAVE_S = 0.3
SAVE_EVERY = 5


def main(folder: str, last: int) -> None:
    """Train."""
    import trackside_log  # type: ignore[import-not-found]  # lies beside this file where it runs

    def tell(**what: object) -> None:
        """One line of the truth, on disk before anything else happens."""
        with open(os.path.join(folder, "truth.jsonl"), "a") as out:  # noqa: PTH118, PTH123 - a plain script for any Python
            out.write(json.dumps(what) + "\n")
            out.flush()
            os.fsync(out.fileno())

    attempt = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    tell(kind="begun", attempt=attempt, at=time.time())  # noqa: TID251 - a training job's own clock
    log = trackside_log.start(
        os.path.join(folder, "run.jsonl"),  # noqa: PTH118 - as above
        run_id="lab-llama",
        n_gpus=16,
        gpu_model="NVIDIA H100 80GB HBM3",
        dtype="bf16",
        params_active=8.03e9,
        layers=32,
        heads=32,
        head_dim=128,
        seq_len=8192,
    )
    saved = os.path.join(folder, "checkpoint")  # noqa: PTH118 - as above
    first = 0
    with log.event("checkpoint_load"):
        time.sleep(0.5)
        if os.path.exists(saved):  # noqa: PTH110 - as above
            with open(saved) as file:  # noqa: PTH123 - as above
                first = int(file.read()) + 1
    for step in range(first, last):
        began = time.time()  # noqa: TID251 - as above
        with log.step(step, tokens=TOKENS) as this:
            time.sleep(STEP_S)
            this.loss = 10 / (1 + step)
        tell(kind="step", attempt=attempt, step=step, begin=began, end=time.time())  # noqa: TID251 - as above
        if step % SAVE_EVERY == SAVE_EVERY - 1:
            began = time.time()  # noqa: TID251 - as above
            with log.checkpoint(step):
                time.sleep(SAVE_S)
                with open(saved, "w") as file:  # noqa: PTH123 - as above
                    file.write(str(step))
            tell(kind="save", attempt=attempt, step=step, begin=began, end=time.time())  # noqa: TID251 - as above
    log.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
