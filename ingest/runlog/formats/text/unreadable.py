"""Output of training that has no number of a step to rely on, and what to load instead."""

from __future__ import annotations

import re
from typing import Final

_BAR: Final = r"^[^|]*?\d{1,3}%\|[^|]*\| \d+/\d+ \[[\d:]+<"
_TITLE: Final = r"\s*(?:(?!epoch)[^|%\d])*\bsteps?\b(?:(?!epoch)[^|%\d])*"
BAR_OF_STEPS: Final = rf"(?i)^({_TITLE})\d{{1,3}}%\|[^|]*\| \d+/\d+ \[[\d:]+<"
"""Pattern of a bar that counts steps by its title, which is its first group (in the syntax of Python)."""

_LIGHTNING: Final = (
    r"^\s*Epoch \d+(?:/-?\d+)?:? +"
    r"(?:\d{1,3}%\|[^|]*\| \d+/\d+ \[[\d:]+<.*\bv_num=|\S*[━╸╺]\S* +\d+/\d+ )"  # tqdm's, or rich's
)
_SAMPLES: Final = r"\bTrain Epoch: \d+ \[ *\d+/\d+ \(\d+%\)\]"
_LOGGED_BAR: Final = r"\bProgress on:\S+ [\d.]+k?\w*/[\d.]+k?\w* rate:"
_NEMO_RL: Final = r"={10,} Step \d+/\d+ ={10,}"

PATTERN: Final = "|".join(f"(?:{one})" for one in (_BAR, _LIGHTNING, _SAMPLES, _LOGGED_BAR, _NEMO_RL))
"""Pattern of such a line (in the syntax of Rust and of Python)."""

_OF_BARS: Final = (
    "It is a progress bar (OpenRLHF and ColossalAI draw such ones): it counts the batches of one epoch, of which\n"
    "several may be one step, and begins anew with the next. Load what the loop logs of its steps instead: its\n"
    "TensorBoard folder (--use_tensorboard, --tensorboard_dir) or W&B's (WANDB_MODE=offline)"
)
_OF_LIGHTNING: Final = (
    "It has Lightning's progress bar: it counts the batches of an epoch, of which several may be one step, and has no\n"
    "times. Load what Lightning's logger wrote of the steps instead: lightning_logs/version_0 (metrics.csv, or\n"
    "TensorBoard's events) or W&B's folder"
)
_OF_SAMPLES: Final = (
    "It counts the samples of one epoch, not steps (OpenCLIP prints such lines). Load what the loop logs of its steps\n"
    "instead: its TensorBoard folder (--report-to tensorboard) or W&B's (--report-to wandb, WANDB_MODE=offline)"
)
_OF_LOGGED_BARS: Final = (
    "It has lines of tqdm-loggable (Levanter prints such ones): they round the number of the step from 1,000 on.\n"
    "Load what the loop logs of its steps instead: W&B's folder (WANDB_MODE=offline) or TensorBoard's"
)
_OF_NEMO_RL: Final = (
    "It has the headings of NeMo-RL: they number the steps of each epoch anew, at their begin, without a time.\n"
    "Load what NeMo-RL logs of its steps instead: its TensorBoard folder (logger.tensorboard_enabled=true) or W&B's"
)


def advice(line: str) -> str:
    """Advice on what to load instead of a log with this line; empty if the line is none of these.

    >>> advice("Progress on:train 1.23kit/10.0kit rate:2.0s/it remaining:4:52:06 elapsed:41:00").partition(" (")[0]
    'It has lines of tqdm-loggable'
    >>> advice("step 3")
    ''
    """
    if re.search(BAR_OF_STEPS, line):
        return ""
    for pattern, text in _ADVICE:
        if re.search(pattern, line):
            return text
    return ""


_ADVICE: Final = (
    (_LOGGED_BAR, _OF_LOGGED_BARS),
    (_NEMO_RL, _OF_NEMO_RL),
    (_LIGHTNING, _OF_LIGHTNING),
    (_SAMPLES, _OF_SAMPLES),
    (_BAR, _OF_BARS),
)
