"""The states that Hugging Face's Trainer saves with its checkpoints: of each run only the newest is read.

    out/checkpoint-500/trainer_state.json     each has all entries up to its own step
    out/checkpoint-1000/trainer_state.json
    out/trainer_state.json                    the last one, where training ended by itself

A state has no times. Where another log lies beside it, below the folder of its run, that one is read and no state.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from ingest.errors import InputError
from ingest.files.input import Input

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ingest.files.archive import Member
    from ingest.runlog.folders import SkippedFiles

_NAME: Final = "trainer_state.json"

OLDER: Final = "states of older checkpoints"
TIMED: Final = "states without times, beside other logs of their run"

_CHECKPOINT: Final = re.compile(r"checkpoint-(\d+)")
_STEP: Final = re.compile(rb'"global_step"\s*:\s*(\d+)')


def newest_states(members: Sequence[Member], named: Collection[str], passed_over: SkippedFiles) -> list[Member]:
    """The files with only the newest state of each run, and without states beside other logs of their run.

    Args:
        members: all files to read.
        named: those that a person named; they are read whatever lies beside them.
        passed_over: gets the states that are not read.
    """
    runs: dict[PurePath, list[Member]] = {}
    others: set[PurePath] = set()
    for member in members:
        path = PurePath(member.shown)
        if path.name == _NAME:
            runs.setdefault(_run_folder(path), []).append(member)
        else:
            others.update(path.parents)
    left_out: set[str] = set()
    for folder, states in runs.items():
        newest = max(states, key=_progress) if len(states) > 1 else states[0]
        for older in (state for state in states if state is not newest):
            passed_over.add(str(PurePath(older.shown).parent), OLDER)
            left_out.add(older.shown)
        if folder in others and newest.shown not in named:
            passed_over.add(newest.shown, TIMED)
            left_out.add(newest.shown)
    return [member for member in members if member.shown not in left_out]


def _run_folder(path: PurePath) -> PurePath:
    """The folder of the run whose state this is.

    >>> [str(_run_folder(PurePath(f"out/{name}"))) for name in ("checkpoint-500/trainer_state.json", _NAME)]
    ['out', 'out']
    """
    return path.parent.parent if _CHECKPOINT.fullmatch(path.parent.name) else path.parent


def _progress(state: Member) -> tuple[int, bool]:
    """The step at which a state was saved; of two at one step the one beside the checkpoints is the later."""
    folder = _CHECKPOINT.fullmatch(PurePath(state.shown).parent.name)
    try:
        with Input(state.path) as source:
            step = _STEP.search(source.head)
    except (InputError, OSError):
        step = None
    reached = int(step[1]) if step is not None else int(folder[1]) if folder is not None else 0
    return reached, folder is None
