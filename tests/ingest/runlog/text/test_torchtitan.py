"""torchtitan's stdout: no durations, colours, all ranks or one, checkpoints with their length."""

from __future__ import annotations

import pytest

from tests.support.logs.foreign_logs import events, read, starts, steps

HEAD = """\
[rank0]:[titan] 2026-10-01 08:00:00,500 - root - INFO - Starting job: Llama 3 8B training
[rank0]:[titan] 2026-10-01 08:00:05,000 - root - INFO - Building 1-D device mesh with ['dp_shard'], [8]
[rank0]:[titan] 2026-10-01 08:00:09,000 - root - INFO - Model llama3 8B size: 8,030,261,248 total parameters
[rank0]:[titan] 2026-10-01 08:00:20,000 - root - INFO - Trainer is initialized with local batch size 1, \
global batch size 8, gradient accumulation steps 1, sequence length 8192, total steps 1000 (warmup 200)
[rank0]:[titan] 2026-10-01 08:00:20,000 - root - INFO - Training starts at step {}
"""


def line(step: int, stamp: str, *, rank: int = 0, tps: str = "4,096") -> str:
    return (
        f"[rank{rank}]:[titan] 2026-10-01 {stamp} - root - INFO - \x1b[31mstep: {step:2}  \x1b[32mloss:  2.5000  "
        f"\x1b[33mmemory: 49.66GiB(52.28%)  \x1b[34mtps: {tps}  \x1b[36mtflops: 342.67  \x1b[35mmfu: 34.65%\x1b[39m\n"
    )


def old_line(step: int, stamp: str) -> str:
    """As of spring 2024: words per second, no TFLOP/s."""
    return (
        f"[rank0]:2026-10-01 {stamp} - root - INFO - \x1b[36mstep: {step:2}  \x1b[32mloss: 10.9388  "
        "\x1b[33mmemory: 24.10GiB(25.35%)  \x1b[34mwps: 4,096  \x1b[35mmfu: 2.95%\x1b[39m\n"
    )


def note(text: str, stamp: str) -> str:
    return f"[rank0]:[titan] 2026-10-01 {stamp} - root - INFO - {text}\n"


FRESH = HEAD.format(1)


@pytest.mark.parametrize("of", [line, old_line])
def test_a_step_takes_the_time_since_the_line_before(of: type) -> None:
    parsed = read(FRESH + of(1, "08:00:30,000") + of(3, "08:00:34,000"))
    assert steps(parsed) == [(1, 28820, 10.0), (2, 28830, 2.0), (3, 28832, 2.0)]
    assert set(parsed.frames["steps"]["tokens"]) == {8 * 8192}
    session = parsed.frames["run_sessions"].row(0, named=True)
    assert (session["n_gpus"], session["params"], session["seq_len"]) == (8, 8_030_261_248, 8192)


@pytest.mark.parametrize(
    ("words", "model"),
    [
        ("CUDA capacity: NVIDIA H100 80GB HBM3 with 79.18GiB memory", "NVIDIA H100 80GB HBM3"),
        ("GPU capacity: NVIDIA H100 (0) with 95.04GiB memory", "NVIDIA H100"),
        ("Applied FSDP to the model", None),
    ],
)
def test_model_of_the_gpus_is_read(words: str, model: str | None) -> None:
    parsed = read(FRESH + note(words, "08:00:21,000") + line(1, "08:00:30,000"))
    assert parsed.frames["run_sessions"]["gpu_model"].to_list() == [model]


def test_tokens_follow_from_the_rate_without_a_batch() -> None:
    text = note("Training starts at step 1", "08:00:20,000") + line(1, "08:00:30,000")
    assert read(text, facts={"n_gpus": 8}).frames["steps"]["tokens"].to_list() == [4096 * 8 * 10]
    assert read(text).frames["steps"]["tokens"].to_list() == [None]


def test_checkpoints_are_no_part_of_a_step() -> None:
    text = (
        FRESH
        + line(1, "08:00:30,000")
        + note("Saving the checkpoint (or staging if async is enabled).", "08:00:30,000")
    )
    text += note("Finished saving the checkpoint (or staging if async is enabled)in 6.00 seconds.", "08:00:36,000")
    parsed = read(text + line(2, "08:00:40,000"))
    assert events(parsed) == [("checkpoint_save", 1, 28830, 28836)]
    assert parsed.frames["run_events"]["durable_at"].to_list() == [None]  # staging is not safe yet
    assert steps(parsed) == [(1, 28820, 10.0), (2, 28836, 4.0)]


def test_lines_of_all_ranks_are_one_log() -> None:
    ranks = "".join(line(step, f"08:00:{30 + step}.{10 + rank}", rank=rank) for step in (1, 2, 3) for rank in (2, 0, 1))
    bare = ranks.replace("[rank0]:", "").replace("[rank1]:", "").replace("[rank2]:", "")
    for text in (ranks, bare):
        parsed = read(text)
        assert [step for step, _, _ in steps(parsed)] == [1, 2, 3]
        assert parsed.rows_duplicate == 6


def test_a_resumed_run_runs_steps_again() -> None:
    first = FRESH + line(10, "08:01:00,000") + line(20, "08:01:20,000") + line(30, "08:01:40,000")
    load = note("Loading the checkpoint from ./outputs/checkpoint/step-20.", "08:10:01,000")
    load += note("Finished loading the checkpoint in 9.00 seconds.", "08:10:10,000")
    second = HEAD.replace("08:00:", "08:09:").format(21).splitlines(keepends=True)
    text = first + "".join(second[:-1]) + load + note("Training starts at step 21", "08:10:10,000")
    parsed = read(text + line(30, "08:10:30,000") + line(40, "08:10:50,000"))
    assert starts(parsed) == [28800.5, 29340.5]
    numbers = [step for step, _, _ in steps(parsed)]
    assert numbers == [*range(1, 31), *range(21, 41)]
    assert ("checkpoint_load", 20, 29401, 29410) in events(parsed)
