"""The unknowns of a run on its page: why each is unknown, and which data would supply it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.results.mfu import headline_mfu
from app.run_page import texts
from app.run_page.efficiency import gpu_lines
from metrics.goodput.goodput import SWITCH_ON

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.run_page.contents import RunContents


@dataclass(frozen=True)
class Unknown:
    """A number that is not on the page.

    Attributes:
        what: its name.
        because: why it is unknown, and which data would supply it.
    """

    what: str
    because: str


def unknowns(contents: RunContents) -> list[Unknown]:
    """The unknowns of a run, the most important first."""
    return (
        list(_ettr(contents))
        + list(_logs(contents))
        + list(_telemetry(contents))
        + list(_use(contents))
        + list(_of_log(contents))
    )


def _ettr(contents: RunContents) -> Iterator[Unknown]:
    row = contents.ettr
    if not contents.started:
        yield Unknown("ETTR", "it has never started, so no GPU has been held")
    elif not contents.choice.logged_only and contents.gpus is None:
        yield Unknown("ETTR, GPU-hours", f"the number of its GPUs is unknown: {SWITCH_ON}")
    elif not contents.choice.logged_only and contents.gpus == 0:
        yield Unknown("ETTR, GPU-hours", "it held no GPUs")
    elif row is None or not row["wall_gpu_s"]:
        yield Unknown("ETTR", "it held no GPUs for any time within the data")
    elif row["ettr"] is None:
        unseen = texts.share(row["unseen_share"])
        yield Unknown(
            "ETTR", f"what its GPUs did is unobserved for {unseen} of the time: a run log or telemetry shows it"
        )


def _logs(contents: RunContents) -> Iterator[Unknown]:
    if not contents.started or contents.run["n_gpus"] == 0:
        return
    if contents.steps is None:
        steps = "no step is logged" if contents.choice.logged_only else "no run log; add one: trackside recorder --help"
        yield Unknown("Steps, MFU, checkpoints", steps)
        return
    if headline_mfu(contents.mfu, contents.convention) is None:
        notes = [str(row["note"]) for row in contents.mfu if row["note"]]
        yield Unknown("MFU", notes[0] if notes else _without_mfu(contents.log_lacks))
    if contents.checkpoints is None or not contents.checkpoints["n_checkpoints"]:
        yield Unknown("How often to save", "no checkpoint is logged: log.checkpoint(step), trackside recorder --help")


def _without_mfu(lacks: tuple[str, ...]) -> str:
    """Why there is no MFU, and where what the log lacks can be given."""
    if not lacks:
        return "its steps would need more than its GPUs can do: are tokens, GPUs and their model right?"
    settable = [_EXAMPLES[name] for name in lacks if name in _EXAMPLES]
    given = f": in start() of the recorder; of another log: trackside ingest runlog FILE {' '.join(settable)}"
    return f"the log lacks {', '.join(lacks)}{given if settable else ' of its steps'}"


_EXAMPLES: Final = {
    "tokens": "--set seq_len=8192 --set global_batch=512",
    "n_gpus": "--set n_gpus=16",
    "gpu_model": "--set gpu_model=H100",
    "dtype": "--set dtype=bf16",
    "params": "--set params=8e9",
}
"""Options that state what a log lacks."""


def _telemetry(contents: RunContents) -> Iterator[Unknown]:
    if contents.choice.logged_only or not contents.started or not contents.gpus:
        return
    if contents.activity is None or not contents.activity["observed_s"]:
        if not gpu_lines(contents):
            yield Unknown("Utilisation", "no telemetry of its GPUs: trackside ingest prometheus")
    elif contents.memory is None:
        yield Unknown("GPU memory", "no hourly samples of it are stored")


def _use(contents: RunContents) -> Iterator[Unknown]:
    if contents.choice.logged_only or not contents.started:
        return
    if all(row["cpu_share"] is None and row["used_bytes"] is None for row in contents.recorded):
        yield Unknown("CPUs and memory used", "no record of its steps (sacct without -X, -o ALL)")


def _of_log(contents: RunContents) -> Iterator[Unknown]:
    if not contents.choice.logged_only:
        return
    yield Unknown("Queue, failures, their nodes", "no accounting of its jobs is computed: trackside ingest slurm")
    if not contents.gpus:
        yield Unknown("GPU-hours", "the log does not record the number of GPUs: n_gpus of trackside_log.start")
