"""Runs killed and resumed in the middle, as each framework prints them now: what is read is what the loop knew.

And however the text gets to us (launchers' prefixes, ranks, carriage returns, colours, other output), it is that.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.support.logs.foreign_logs import events, read, starts, steps
from tests.support.logs.framework_loops import PRINTERS, run_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingest.tables import Parsed

NAMES = sorted(PRINTERS)
FACTS = {"run_id": "r", "n_gpus": 8, "seq_len": 4096}
NOISE = (
    "NCCL INFO Channel 00/32 : 0 1 2 3",
    "\x1b[33mW1001 08:00:00.123000 4012 torch/distributed/run.py:774] OMP_NUM_THREADS\x1b[0m",
    "\rLoading checkpoint shards:  50%|#####     | 1/2 [00:12<00:12, 12.02s/it]\r",
    "",
)


def lines_of(name: str) -> list[str]:
    return run_of(PRINTERS[name]).lines


def read_of(lines: Sequence[str]) -> Parsed:
    return read("".join(f"{line}\n" for line in lines), facts=FACTS)


def told(parsed: Parsed) -> tuple[object, ...]:
    """Everything but the lines' numbers."""
    return starts(parsed), steps(parsed), events(parsed), parsed.frames["steps"]["loss"].to_list()


@pytest.mark.parametrize("name", NAMES)
def test_steps_are_those_of_the_loop(name: str) -> None:
    run, parsed = run_of(PRINTERS[name]), read_of(lines_of(name))
    found = steps(parsed)
    assert [step for step, _, _ in found] == [step for step, _ in run.steps]
    for (_, begin, length), (step, knew) in zip(found, run.steps, strict=True):
        if step > 40 or name != "transformers":  # its bar does not say when a save ended
            assert begin == pytest.approx(
                knew, abs=6 if name == "transformers" else 1 + (length is None or name == "nemo")
            )
    assert parsed.rejects.is_empty()


@pytest.mark.parametrize("name", NAMES)
def test_sessions_begin_as_processes_did(name: str) -> None:
    assert starts(read_of(lines_of(name))) == pytest.approx(run_of(PRINTERS[name]).starts, abs=1)


@pytest.mark.parametrize("name", NAMES)
def test_checkpoints_are_those_of_the_loop(name: str) -> None:
    run, found = run_of(PRINTERS[name]), events(read_of(lines_of(name)))
    saves = [(step, begin) for kind, step, begin, _ in found if kind == "checkpoint_save"]
    assert [step for step, _ in saves] == [step for step, _, _ in run.saves]
    assert [begin for _, begin in saves] == pytest.approx([begin for _, begin, _ in run.saves], abs=1)
    ends = [end for kind, _, _, end in found[:-1] if kind == "checkpoint_save"]
    if name != "transformers":
        knew = [end for _, _, end in run.saves]
        assert ends[:2] == pytest.approx(knew[:2], abs=1)
    loads = [(step, begin) for kind, step, begin, _ in found if kind == "checkpoint_load"]
    assert [step for step, _ in loads] == [None if name == "nemo" else run.loads[0][0]]
    assert run.starts[1] <= (loads[0][1] or 0) <= run.starts[1] + 20


def colour(lines: list[str]) -> list[str]:
    return [f"\x1b[1;32m{line}\x1b[0m" if "\r" not in line else line for line in lines]


def windows(lines: list[str]) -> list[str]:
    return [f"{line}\r" for line in lines]


def between_noise(lines: list[str]) -> list[str]:
    chance = random.Random(1)
    return [part for line in lines for part in (chance.choice(NOISE), line)]


def labelled(form: str) -> Callable[[list[str]], list[str]]:
    return lambda lines: [form.format(0) + line for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        colour,
        windows,
        between_noise,
        *map(labelled, ("{}: ", "[rank{}]:", "[1,{}]<stdout>:", "node-{}: ", "[default{}]:")),
    ],
    ids=["colours", "crlf", "noise", "srun", "torchrun", "mpirun", "pdsh", "tee"],
)
def test_what_is_around_lines_changes_nothing(change: Callable[[list[str]], list[str]]) -> None:
    for name in NAMES:
        lines = lines_of(name)
        if name != "transformers" or change in {colour, windows, between_noise}:  # no prefix stands before a bar
            assert told(read_of(change(lines))) == told(read_of(lines)), name


def of_ranks(lines: list[str], form: str, lag: int) -> list[str]:
    """The lines of four ranks, each so many lines behind the one before."""
    late = [(n + rank * lag, rank, form.format(rank) + line) for rank in range(4) for n, line in enumerate(lines)]
    return [line for _, _, line in sorted(late)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "lag"),
    [("megatron", 0), ("nemo", 0), *((name, lag) for name in ("torchtitan", "deepspeed") for lag in (0, 3))],
)
@pytest.mark.parametrize("form", ["{}: ", "[rank{}]:", "[1,{}]<stdout>:", "node-{}: "])
def test_all_ranks_together_are_one_run(name: str, lag: int, form: str) -> None:
    lines = lines_of(name)
    assert steps(read_of(of_ranks(lines, form, lag))) == steps(read_of(lines))


def test_steps_by_the_last_rank_and_saves_by_the_first() -> None:
    lines = lines_of("megatron")
    assert told(read_of([("63: " if "] iteration" in line else "0: ") + line for line in lines])) == told(
        read_of(lines)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_log_cut_anywhere_has_the_steps_before(name: str) -> None:
    lines = lines_of(name)
    text, whole = "".join(f"{line}\n" for line in lines), steps(read_of(lines))
    for share in (0.5, 0.7, 0.9):
        cut = steps(read(text[: int(len(text) * share)], facts=FACTS))
        assert [step for step, _, _ in cut] == [step for step, _, _ in whole[: len(cut)]]
        assert len(cut) > len(whole) * (share - 0.25)
