"""One execution of a job, second by second, if nothing interrupts it. Times are milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.demo.simulate.plan import Slow
    from app.demo.simulate.work import SimulatedJob


class Item(NamedTuple):
    """One thing that an execution does; `step` is the optimizer step where there is one."""

    kind: str
    begin: int
    end: int
    step: int = 0


CATEGORY: dict[str, tuple[str, str | None]] = {
    "step": ("productive", None),
    "init": ("startup", "init"),
    "checkpoint_load": ("startup", "checkpoint_load"),
    "compile": ("startup", "compile"),
    "checkpoint": ("checkpoint", None),
    "data": ("stalled", "data_stall"),
    "eval": ("other_work", "evaluation"),
    "load": ("other_work", "evaluation"),
    "evaluate": ("other_work", "evaluation"),
    "interact": ("other_work", "interactive"),
    "idle": ("stalled", "idle_gpus"),
    "hang": ("stalled", "hang"),
    "node_down": ("stalled", "node_down"),
    "teardown": ("teardown", None),
    "unfinished": ("lost", "unfinished_step"),
    "open": ("productive", "unfinished_step"),
}
"""Category and cause of what an execution does. A step that was done again later is lost instead."""

ACTIVE = ("step", "unfinished", "open", "eval", "evaluate", "interact")
"""Segments that keep GPUs busy."""

STEP_NOISE = 0.012
"""Relative spread of step times."""

STALLS_PER_STEP_S = 1 / 43_200
"""Data stalls per second of training."""


class ExecutionTrace(NamedTuple):
    """An execution left alone: what it does, when it is done, and whether it ran to its end within the horizon."""

    items: list[Item]
    end: int
    done: bool


def unfold(
    job: SimulatedJob, begin: int, horizon: int, *, first_step: int, slow: Sequence[Slow], chance: np.random.Generator
) -> ExecutionTrace:
    """Play an execution from `begin` until it is done, or a little beyond `horizon`."""
    if job.kind == "train":
        return _training(job, begin, horizon, first_step, slow, chance)
    if job.kind == "eval":
        loaded = begin + int(chance.integers(20_000, 90_000))
        end = max(loaded, begin + 1000 * job.duration_s)
        return ExecutionTrace([Item("load", begin, loaded), Item("evaluate", loaded, end)], end, done=True)
    return _notebook(begin, begin + 1000 * job.duration_s, chance)


def _notebook(begin: int, end: int, chance: np.random.Generator) -> ExecutionTrace:
    """A user works for a while, goes away, comes back, and forgets to give the GPUs back."""
    items, at = [], begin
    while at < end:
        busy = min(end, at + int(chance.uniform(10, 60) * 60_000))
        idle = min(end, busy + int(chance.lognormal(np.log(80), 0.9) * 60_000))
        items += [Item("interact", at, busy), Item("idle", busy, idle)]
        at = idle
    return ExecutionTrace([item for item in items if item.begin < item.end], end, done=True)


def _training(  # noqa: PLR0917 - private, and every one of them is needed
    job: SimulatedJob, begin: int, horizon: int, first_step: int, slow: Sequence[Slow], chance: np.random.Generator
) -> ExecutionTrace:
    items, at = _startup(job, begin, first_step, chance)
    step, noise = first_step, _Noise(job, chance)
    hang = horizon + 1 if job.hangs_after_s is None else begin + 1000 * job.hangs_after_s
    while step <= job.steps and at < horizon:
        if at >= hang:
            return ExecutionTrace([*items, Item("hang", at, max(horizon, at) + 1)], horizon + 1, done=False)
        length, stall = noise.draw()
        for slow_period in slow:
            if slow_period.begin * 1000 <= at < slow_period.end * 1000:
                length = int(length * slow_period.factor)
        items.append(Item("step", at, at + length, step))
        at += length
        for kind, pause in _pauses(job, step, stall, chance):
            items.append(Item(kind, at, at + pause, step))
            at += pause
        step += 1
    return ExecutionTrace(items, at, done=step > job.steps)


class _Noise:
    """Step lengths in milliseconds and data stalls, drawn a thousand at a time."""

    def __init__(self, job: SimulatedJob, chance: np.random.Generator) -> None:
        self._job, self._chance = job, chance
        self._drawn: list[tuple[int, bool]] = []

    def draw(self) -> tuple[int, bool]:
        """Length of the next step, and whether the data loader stalls after it."""
        if not self._drawn:
            lengths = 1000 * self._job.step_s * self._chance.normal(1, STEP_NOISE, 1000).clip(0.9, 1.1)
            stalls = self._chance.random(1000) < self._job.step_s * STALLS_PER_STEP_S
            self._drawn = list(zip(np.maximum(1, lengths).astype(int).tolist(), stalls.tolist(), strict=True))
        return self._drawn.pop()


def _startup(job: SimulatedJob, begin: int, first_step: int, chance: np.random.Generator) -> tuple[list[Item], int]:
    """Launch and collective initialisation, loading a checkpoint where there is one, compilation."""
    grown = 1 + np.log2(job.n_nodes)
    lengths = [
        ("init", int(1000 * chance.uniform(15, 40) * grown)),
        ("checkpoint_load", int(1000 * chance.uniform(15, 40) * grown) if first_step > 1 else 0),
        ("compile", int(1000 * chance.uniform(8, 40) * grown)),
    ]
    items, at = [], begin
    for kind, length in lengths:
        if length:
            items.append(Item(kind, at, at + length))
            at += length
    return items, at


def _pauses(job: SimulatedJob, step: int, stall: bool, chance: np.random.Generator) -> list[tuple[str, int]]:  # noqa: FBT001 - private, one caller
    """Segments between this step and the next."""
    pauses = []
    if step % job.checkpoint_steps == 0 or step == job.steps:
        pauses.append(("checkpoint", int(1000 * job.checkpoint_s * chance.uniform(0.85, 1.3))))
    if job.eval_steps and step % job.eval_steps == 0 and step < job.steps:
        pauses.append(("eval", int(chance.uniform(3, 9) * 60_000)))
    if stall and step < job.steps:
        pauses.append(("data", int(chance.uniform(1, 12) * 60_000)))
    return pauses
