"""NeMo, DeepSpeed and the Trainer of Hugging Face: what their stdout gives, and what it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.errors import UntimedError
from ingest.load_warnings import messages
from ingest.runlog.formats.text import timeline
from ingest.runlog.text_format import parse_format
from tests.support.logs.foreign_logs import DAY, codes, events, read, starts, steps

NEMO = (
    "Training epoch 0, iteration {0}/99 | lr: 6.897e-06 | global_batch_size: 128 | global_step: {0} | "
    "reduced_train_loss: 11.96 | train_step_timing in s: 2.000 | consumed_samples: 5888\n"
)


def test_nemo_steps_follow_the_time_of_its_logger() -> None:
    head = "0: [NeMo I 2026-10-01 08:00:00 utils:662] Setting up optimizer\n"
    parsed = read(head + NEMO.format(0) + NEMO.format(1), facts={"seq_len": 8192})
    assert steps(parsed) == [(0, 28800, 2.0), (1, 28802, 2.0)]
    assert set(parsed.frames["steps"]["tokens"]) == {128 * 8192}
    assert codes(parsed) == ["times_reckoned"]


def test_nemo_lines_with_stamps_and_gaps_between_steps() -> None:
    text = "[2026-10-01T16:00:02+08:00] " + NEMO.format(9) + "[2026-10-01T16:00:22+08:00] " + NEMO.format(19)
    parsed = read(text, timezone=None)
    assert steps(parsed) == [(step, 28800 + 2 * (step - 9), 2.0) for step in range(9, 20)]


def test_nemo_progress_bar_is_a_step_once() -> None:
    bar = (
        "Epoch 0:   1%|          | {0}/77 [{1}<08:01, 41.36s/it, loss=3.1, v_num=, reduced_train_loss=3.090, "
        "global_step={0}.0, consumed_samples=1.63e+6]"
    )
    text = "\r".join(bar.format(step, f"00:{10 * step:02d}") for step in (1, 1, 2, 3)) + "\n"
    parsed = read(text, begin=DAY)
    assert [(step, begin) for step, begin, _ in steps(parsed)] == [(1, 10), (2, 10), (3, 20)]
    assert parsed.rows_duplicate == 1


DEEPSPEED = (
    "[2026-10-01 {1}] [INFO] [logging.py:96:log_dist] [Rank 0] step={0}, skipped=0, lr=[1e-05], mom=[[0.9, 0.99]]\n"
)


def test_deepspeed_steps_take_the_time_between_lines() -> None:
    text = "[2026-10-01 08:00:00,000] [INFO] [logging.py:96:log_dist] [Rank -1] DeepSpeed info: version=0.14.0\n"
    text += DEEPSPEED.format(10, "08:01:00,000") + "[timer.py:260:stop] epoch=0/micro_step=10/global_step=10\n"
    parsed = read(text + DEEPSPEED.format(20, "08:01:20,000"))
    assert steps(parsed) == [(10, 28860, None), *((step, 28860 + 2 * (step - 11), 2.0) for step in range(11, 21))]
    assert starts(parsed) == [28800]


def test_deepspeed_checkpoints_and_a_resumed_run() -> None:
    torch = "[2026-10-01 {}] [INFO] [torch_checkpoint_engine.py:33:commit] [Torch] {}\n"
    text = DEEPSPEED.format(10, "08:01:00,000") + torch.format(
        "08:01:00,000", "Checkpoint global_step10 is about to be saved!"
    )
    text += torch.format("08:01:05,000", "Checkpoint global_step10 is ready now!") + DEEPSPEED.format(
        20, "08:01:25,000"
    )
    text += torch.format("08:09:00,000", "Loaded checkpoint from /ckpt/global_step10/mp_rank_00_model_states.pt.")
    parsed = read(text + DEEPSPEED.format(20, "08:09:40,000"))
    assert ("checkpoint_save", 10, 28860, 28865) in events(parsed)
    assert [step for step, _, _ in steps(parsed)] == [10, *range(11, 21), *range(11, 21)]
    assert steps(parsed)[1] == (11, 28865, 2.0)


def test_a_save_just_behind_a_line_moves_no_step_before_it() -> None:
    torch = "[2026-10-01 {}] [INFO] [torch_checkpoint_engine.py:33:commit] [Torch] {}\n"
    text = DEEPSPEED.format(10, "08:01:00,000")
    text += torch.format("08:01:00,010", "Checkpoint global_step10 is about to be saved!")
    text += torch.format("08:01:05,010", "Checkpoint global_step10 is ready now!")
    rows = steps(read(text + DEEPSPEED.format(14, "08:01:13,010")))
    begins = [begin or 0.0 for _, begin, _ in rows]
    assert begins == sorted(begins)
    number, *times = rows[1]
    assert number == 11
    assert times == pytest.approx([28865.0, 2.0025], abs=1e-3)


def test_deepspeed_pipeline_lines_need_begin() -> None:
    text = "".join(f"steps: {n} loss: 5.5508 iter time (s): 2.000 samples/sec: 16.000\n" for n in (10, 20))
    with pytest.raises(UntimedError, match="DeepSpeed"):
        read(text)
    warnings = messages(read(text, begin=DAY, facts={"n_gpus": 8}).warnings)
    assert warnings[-1].endswith("own values: --set seq_len=8192 --set global_batch=512")
    parsed = read(text, begin=DAY, facts={"seq_len": 100})
    assert [(step, begin) for step, begin, _ in steps(parsed)][-2:] == [(19, 18), (20, 20)]
    assert set(parsed.frames["steps"]["tokens"]) == {3200}


def test_lines_of_megatron_deepspeed_are_read_once() -> None:
    text = DEEPSPEED.format(1, "08:01:00,000") + (
        " iteration        1/    1000 | consumed samples:          256 | elapsed time per iteration (ms): 2000.0 | "
        "learning rate: 1E-05 | lm loss: 2.373574E+00 | number of skipped iterations:   0 |\n"
    )
    assert steps(read(text)) == [(1, 28860, 2.0)]


BAR = "\r {0}%|##        | {0}/100 [{1}<05:00,  2.00s/it]"


def trainer(*steps_logged: int, quoted: bool = False) -> str:
    """Bars of single steps, a dictionary, and the bar that is drawn again behind it."""
    quote = "'" if quoted else ""
    text = ""
    for step in range(1, max(steps_logged) + 1):
        bar = BAR.format(step, f"00:{2 * step:02d}")
        text += bar
        if step in steps_logged:
            text += f"\r{{'loss': {quote}2.5{quote}, 'learning_rate': 5e-05, 'epoch': {quote}0.1{quote}}}\n"
            text += bar
    return text + "\n"


@pytest.mark.parametrize("quoted", [False, True])
def test_trainer_steps_have_number_and_time_of_the_bar(*, quoted: bool) -> None:
    parsed = read(trainer(5, 10, quoted=quoted), begin=DAY)
    assert steps(parsed) == [(step, 2 * (step - 1), 2.0) for step in range(1, 11)]
    assert parsed.frames["steps"]["loss"].drop_nulls().to_list() == [2.5, 2.5]


def test_trainer_steps_without_a_bar_are_refused() -> None:
    text = "{'loss': 2.5, 'learning_rate': 5e-05, 'epoch': 0.1}\n" * 3
    with pytest.raises(UntimedError, match="Hugging Face Trainer"):
        read(text, begin=DAY)
    parsed = read(trainer(5) + text + BAR.format(20, "00:40") + "\n", begin=DAY)
    assert parsed.rejects["reason"].unique().to_list() == [
        "step of Hugging Face Trainer without a number: no progress bar alone behind it has one"
    ]
    assert parsed.rejects["raw"].unique().to_list() == [text.partition("\n")[0]]


def test_steps_that_no_bar_can_number_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_TEXTS", 3)
    held, wait = [], timeline.Timeline._wait_for_bar  # noqa: SLF001 - what it holds is the subject

    def watched(self: timeline.Timeline, *line: Any) -> None:
        wait(self, *line)
        held.append(len(self.pending))

    monkeypatch.setattr(timeline.Timeline, "_wait_for_bar", watched)
    line = "{'loss': 2.5, 'learning_rate': 5e-05, 'epoch': 0.1}\n"
    parsed = read(
        trainer(5) + line * 8 + BAR.format(20, "00:40") + "\n" + line + BAR.format(21, "00:42") + "\n", begin=DAY
    )
    assert max(held) == 1
    assert [bool(text) for text in parsed.rejects["raw"]] == [True] * 3 + [False] * 5
    assert 21 in parsed.frames["steps"]["step"].to_list()  # the next bar numbers again


def test_an_own_format_with_times_of_day() -> None:
    own = parse_format(
        {
            "name": "mine",
            "line": [
                {
                    "kind": "step",
                    "starts": r"it \d+:",
                    "ends": "tokens$",
                    "needs": ["step"],
                    "fields": {"step": r"it (\d+):", "duration_s": r"([\d.]+) s,", "tokens": r"(\d+) tokens"},
                }
            ],
        },
        origin="here",
    )
    text = "23:59:59 it 1: 2.0 s, 512 tokens\n00:00:02 it 2: 3.0 s, 512 tokens\n"
    parsed = read(text, begin=DAY, formats=(own,))
    assert steps(parsed) == [(1, 86397, 2.0), (2, 86399, 3.0)]
    assert parsed.frames["steps"]["tokens"].to_list() == [512, 512]


def bar(step: int, seconds: int) -> str:
    return f"\r {5 * step:2}%|##| {step}/20 [00:{seconds:02}<00:30,  2.00s/it]"


def losses(step: int) -> str:
    return "" if step % 5 else "\r" + " " * 50 + "\r{'loss': 1.5, 'learning_rate': 1e-05, 'epoch': 0.5}\n"


def process(first: int, last: int) -> str:
    """What the Trainer draws from a step to another: its bar is at 0 until the first step is done."""
    steps_of = range(first, last + 1)
    drawn = ((step, 2 * (step - first + 1)) for step in steps_of)
    return bar(0, 0) + "".join(
        bar(step, at) + losses(step) + (bar(step, at) if step % 5 == 0 else "") for step, at in drawn
    )


def test_a_resumed_trainer_without_times_follows_the_first() -> None:
    parsed = read(process(1, 17) + "\nTraceback\n" + process(11, 20), begin=DAY)
    found = steps(parsed)
    assert [step for step, _, _ in found] == [*range(1, 16), *range(11, 21)]
    assert [begin for _, begin, _ in found] == [2.0 * n for n in range(15)] + [34.0 + 2 * n for n in range(10)]
    assert "times_reckoned" in codes(parsed)  # 17 steps are drawn; how long nothing ran is unknown


LOSS = "{'loss': 1.5, 'learning_rate': 1e-05, 'epoch': 0.5}\n"


def with_deepspeed(first: int, last: int, minute: int) -> str:
    """A process of the Trainer that DeepSpeed prints into, every tenth step."""
    text = (
        f"[2026-10-01 00:{minute:02}:00,000] [INFO] [logging.py:96:log_dist] [Rank -1] DeepSpeed info: version=0.14.0\n"
    )
    text += bar(0, 0)
    for step in range(first, last + 1):
        at = 2 * (step - first + 1)
        text += bar(step, at)
        text += "" if step % 10 else "\n" + DEEPSPEED.format(step, f"00:{minute:02}:{at:02},000")
        text += losses(step) + ("" if step % 5 else bar(step, at))
    return text + "\n"


def test_trainer_with_deepspeed_has_bars_losses_and_times() -> None:
    parsed = read(with_deepspeed(1, 17, 0) + "Traceback\n" + with_deepspeed(11, 20, 5))
    assert [step for step, _, _ in steps(parsed)] == [*range(1, 16), *range(11, 21)]
    assert [begin for _, begin, _ in steps(parsed)] == [2.0 * n for n in range(15)] + [300.0 + 2 * n for n in range(10)]
    assert parsed.frames["steps"]["loss"].drop_nulls().to_list() == [1.5] * 5
    assert starts(parsed) == [0.0, 300.0]
    assert parsed.rows_rejected == 0


@pytest.mark.parametrize("head", ["", LOSS])
def test_deepspeed_without_the_bar_counts_losses_as_rejects(head: str) -> None:
    text = head + "".join(DEEPSPEED.format(n, f"00:00:{2 * n:02},000") + LOSS for n in range(1, 4))
    parsed = read(text)
    assert [step for step, _, _ in steps(parsed)] == [1, 2, 3]
    assert parsed.rows_rejected == 3 + bool(head)
    assert "load trainer_state.json" in parsed.rejects["reason"][0]


def test_deepspeed_step_0_is_the_start_of_a_process() -> None:
    text = DEEPSPEED.format(0, "00:00:00,000") + DEEPSPEED.format(1, "00:00:04,000")
    text += DEEPSPEED.format(0, "00:05:00,000") + DEEPSPEED.format(2, "00:05:09,000")
    parsed = read(text)
    assert [step for step, _, _ in steps(parsed)] == [1, 2]
    assert starts(parsed) == [0.0, 300.0]
