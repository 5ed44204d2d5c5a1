"""Logs of the training loops of the simulated cluster: run log v1, one file per run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from app.demo.simulate.plan import CLUSTER
from app.demo.simulate.world import logged_items
from app.json_text import as_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.demo.simulate.scheduler import Attempt
    from app.demo.simulate.trace import Item
    from app.demo.simulate.work import SimulatedJob
    from app.demo.simulate.world import World

GPU_MODEL = "NVIDIA H100 80GB HBM3"
LAUNCH_SHARE = 4
"""The process writes its first record after a quarter of the launch."""


def write_run_logs(world: World, folder: Path) -> list[Path]:
    """Write the logs of all runs that keep one, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, attempts in _logged(world):
        text = "".join(line for attempt in attempts for line in _session(attempt, world))
        if text:
            files.append(folder / name)
            files[-1].write_text(text, encoding="utf-8")
    return files


def names(world: World) -> list[str]:
    """Names of all files that there may be: a run that never got to log anything has none."""
    return [name for name, _ in _logged(world)]


def _logged(world: World) -> Iterator[tuple[str, list[Attempt]]]:
    """The runs that keep a log: the name of its file, and the attempts of the run."""
    for places in world.chains.values():
        attempts = [world.attempts[index] for index in places]
        if attempts[0].job.logged:
            yield f"{attempts[0].job.name}.jsonl", attempts


def _session(attempt: Attempt, world: World) -> Iterator[str]:
    """The lines of one attempt; none if it ended before its first record."""
    first = next((item for item in attempt.items if item.kind == "init"), None)
    if first is None or first.step < 0:
        return
    began = first.begin + (first.end - first.begin) // LAUNCH_SHARE
    yield _run_line(attempt, began, world)
    losses = _Loss(attempt.job)
    tokens = round(attempt.job.tokens)
    for item in logged_items(attempt):
        begin = _s(began if item is first else item.begin)
        if item.kind == "step":
            yield (
                f'{{"type":"step","step":{item.step},"t":{begin},"duration_s":{_s(item.end - item.begin)},'
                f'"tokens":{tokens},"loss":{losses.at(item.step):.4f}}}\n'
            )
        elif item.kind == "checkpoint":
            yield _checkpoint_line(item)
        elif item.kind in {"init", "compile", "data", "checkpoint_load", "eval"}:
            yield f'{{"type":"event","kind":"{item.kind}","begin":{begin},"end":{_s(item.end)}}}\n'


def _checkpoint_line(item: Item) -> str:
    end = _s(item.end)
    return (
        f'{{"type":"ckpt","step":{item.step},"begin":{_s(item.begin)},"end":{end},"durable":{end},"blocking":true}}\n'
    )


def _s(milliseconds: int) -> str:
    """Seconds with three decimals, exactly."""
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}"


def _run_line(attempt: Attempt, began: int, world: World) -> str:
    job = attempt.job
    model = job.model
    if model is None:  # only training logs
        raise AssertionError(job.name)
    values = {
        "type": "run",
        "v": 1,
        "t": began / 1000,
        "run_id": job.name,
        "cluster": CLUSTER,
        "scheduler": "slurm",
        "job_id": str(job.id),
        "restart_count": attempt.number,
        "node": world.settings.name(attempt.nodes[0]),
        "rank": 0,
        "world": job.gpus,
        "gpu_model": GPU_MODEL,
        "n_gpus": job.gpus,
        "dtype": "bf16",
        "params": model.params,
        "params_active": model.params,
        "layers": model.layers,
        "heads": model.heads,
        "head_dim": model.head_dim,
        "seq_len": model.seq_len,
        "flops_per_token": None,
        "flop_convention": "palm_full",
        "hidden": model.hidden,
        "ffn_hidden": model.ffn_hidden,
        "kv_heads": model.kv_heads,
        "vocab": model.vocab,
        "gated": True,
        "tied": model.tied,
        "recompute": model.recompute,
    }
    return as_json(values, compact=True) + "\n"


class _Loss:
    """A training loss that falls as they do: the same step has the same loss whenever it is done."""

    def __init__(self, job: SimulatedJob) -> None:
        chance = np.random.default_rng([job.id, 5])
        self._wobble = chance.normal(0, 0.015, 997).tolist()

    def at(self, step: int) -> float:
        """Loss of a step."""
        return float(1.62 + 9.3 * (step + 6.0) ** -0.42 + self._wobble[step % 997])
