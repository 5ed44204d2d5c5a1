"""Composer, torchtune and AXLearn as they print; Axolotl and TRL, whose Trainer is Hugging Face's."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ingest.errors import UntimedError
from tests.support.logs.foreign_logs import DAY, codes, events, read, starts, steps

EIGHT = DAY + timedelta(hours=8)


def block(batch: int, *, hours: float, of: int = 7) -> str:
    """The console logger's block behind a batch, in a run that is as long as some epochs."""
    return (
        f"[epoch={1 + (batch - 1) // of}][batch={(batch - 1) % of + 1}/{of}]:\n"
        f"\t Train time/batch: {batch - 1}\n"
        f"\t Train time/batch_in_epoch: {(batch - 1) % of}\n"
        f"\t Train time/token: {2048 * (batch - 1)}\n"
        f"\t Train loss/train/total: {10 - batch / 10:.4f}\n"
        "\t Train metrics/train/LanguageCrossEntropy: 10.4162\n"
        "\t Train throughput/batches_per_sec: 0.0277\n"
        f"\t Train time/train: {hours:.4f}\n"
    )


def test_composer_blocks_are_steps_by_their_hours() -> None:
    text = "".join(block(batch, hours=batch * 36 / 3600) for batch in (1, 10, 20, 30))
    parsed = read(text, begin=EIGHT)
    assert steps(parsed) == [(step, 28800 + 36 * (step - 1), 36.0) for step in range(1, 31)]
    assert codes(parsed) == ["steps_averaged", "times_reckoned"]
    rows = parsed.frames["steps"].sort("step")
    assert rows["tokens"].to_list() == [None] * 10 + [2048.0] * 20
    assert [loss for loss in rows["loss"] if loss is not None] == [9.9, 9.0, 8.0, 7.0]


def test_composer_hours_go_on_behind_a_restart() -> None:
    start = (
        "2026-10-01 08:{}:00,000: rank0[1][MainThread]: INFO: llmfoundry.command_utils.train: Starting training...\n"
    )
    text = start.format("00") + "".join(block(batch, hours=batch / 100) for batch in (1, 2, 3))
    text += start.format("30") + "".join(block(batch, hours=batch / 100) for batch in (3, 4))
    parsed = read(text)
    assert steps(parsed) == [(1, 28800, 36), (2, 28836, 36), (3, 28872, 36), (3, 30600, 36), (4, 30636, 36)]
    assert starts(parsed) == [28800, 30600]


@pytest.mark.parametrize("chunk", [97, 1 << 20])
def test_composer_rejects_a_cut_block(chunk: int) -> None:
    whole = block(1, hours=0.01) + block(2, hours=0.02)
    parsed = read(whole[: whole.rindex("time/batch: 1") + len("time/batch: 1")], begin=DAY, chunk=chunk)
    assert [step for step, _, _ in steps(parsed)] == [1]
    assert parsed.rejects["raw"].to_list() == ["\t Train time/batch: 1"]


TUNE = "Step {} | loss:1.5400923490524292 lr:9.9e-05 tokens_per_second_per_gpu:512.0 \n"
TUNE_BAR = "{}|{}|Loss: 1.54:  12%|█▎        | {}/4 [{}<09:41,  2.52s/it]"


def test_torchtune_lines_with_stamps() -> None:
    text = "".join(f"2026-10-01T08:00:{4 * step:02d}Z {TUNE.format(step)}" for step in range(1, 5))
    parsed = read(text, facts={"n_gpus": 8})
    assert steps(parsed)[1:] == [(2, 28804, 4.0), (3, 28808, 4.0), (4, 28812, 4.0)]
    assert parsed.frames["steps"]["tokens"].to_list()[1:] == [512.0 * 8 * 4] * 3


def test_torchtune_lines_alone_are_refused() -> None:
    with pytest.raises(UntimedError, match="torchtune"):
        read("".join(TUNE.format(step) for step in range(1, 5)), begin=DAY)


def test_torchtune_bars_and_lines_are_one_step() -> None:
    text = ""
    for step in range(1, 9):
        bar = TUNE_BAR.format(1 + (step - 1) // 4, step, (step - 1) % 4 + 1, f"00:{4 * ((step - 1) % 4 + 1):02d}")
        text += f"\r{bar}\r{bar}{TUNE.format(step)}"
        if step == 4:
            text += "INFO:torchtune.utils._logging:Model checkpoint of size 4.98 GiB saved to /out/epoch_0/model.bin\n"
    parsed = read(text, begin=DAY)
    assert steps(parsed)[1:] == [(step, 4.0 * (step - 1), 4.0) for step in range(2, 9)]
    assert [(kind, step) for kind, step, _, _ in events(parsed)] == [("checkpoint_save", 4)]
    assert len(starts(parsed)) == 1


def test_the_bar_of_the_next_epoch_goes_on_behind_the_last() -> None:
    bar = (
        "Epoch {}:   1%|          | {}/4 [00:{:02d}<08:01, 41.36s/it, loss=3.1, v_num=, reduced_train_loss=3.090, "
        "global_step={}.0, consumed_samples=1.63e+6]\n"
    )
    text = "".join(bar.format((n - 1) // 4, (n - 1) % 4 + 1, 4 * ((n - 1) % 4 + 1), n) for n in range(1, 9))
    parsed = read(text, begin=DAY)
    assert [begin for _, begin, _ in steps(parsed)] == [4.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 28.0]
    assert "times_reckoned" in codes(parsed)


def test_axlearn_hundreds_have_their_mean_time() -> None:
    line = "I1001 08:{:02d}:{:02d}.000000 140123 trainer.py:905] trainer process   0 step {:8}] {}\n"
    text = line.format(0, 0, 0, "##################### Model analysis #####################")
    for step in (1, 2, 3, 4, 5, 100, 200):
        text += line.format(step // 60, step % 60, step, "loss=2.4312 aux={}")
        if step % 100 == 0:
            text += line.format(step // 60, step % 60, step, "Average step time: 1.0 seconds")
    parsed = read(text, year=2026)
    assert [step for step, _, _ in steps(parsed)] == list(range(1, 201))
    assert steps(parsed)[-1] == (200, 28999, 1.0)
    assert starts(parsed) == [28800]


def test_axlearn_resumed_goes_on_from_its_step() -> None:
    """The mean comes every hundred steps of the process, the loss every hundred of the run."""
    line = "I1001 08:{:02d}:{:02d}.000000 140123 trainer.py:905] trainer process   0 step {:8}] {}\n"
    text = ""
    for at, first, last in ((0, 0, 230), (600, 150, 400)):
        text += line.format(*divmod(at, 60), first, "##################### Model analysis #####################")
        text += line.format(*divmod(at, 60), first, "Training state size: 52.11 GiB")
        for step in range(first + 1, last + 1):
            at += 1  # noqa: PLW2901 - a second a step
            if step % 100 == 0 or step <= 5:
                text += line.format(*divmod(at, 60), step, "loss=2.4312 aux={}")
            if (step - first) % 100 == 0:
                text += line.format(*divmod(at, 60), step, "Average step time: 1.0 seconds")
    parsed = read(text, year=2026)
    assert [step for step, _, _ in steps(parsed)] == [*range(1, 201), *range(151, 401)]
    assert steps(parsed)[200] == (151, 28800 + 600, 1.0)
    assert starts(parsed) == [28800, 28800 + 600]


@pytest.mark.parametrize(
    "more",
    [
        "'loss': 1.2, 'grad_norm': 0.5, 'learning_rate': 2e-05, 'memory/max_active (GiB)': 11.2, ",
        "'loss': 0.01, 'grad_norm': 0.2, 'num_tokens': 12345.0, 'completions/mean_length': 200.5, 'reward': 0.5, ",
    ],
)
def test_dictionaries_of_axolotl_and_trl_are_the_trainers(more: str) -> None:
    text = "[2026-10-01 08:00:00,123] [INFO] [axolotl.train.train:200] [PID:77] [RANK:0] Starting trainer...\n"
    for step in range(1, 9):
        text += (
            f"  {step}%|###       | {step}/99 [00:{4 * step:02d}<20:27:23,  4.00s/it]\n{{{more}'epoch': 0.{step}}}\n"
        )
    parsed = read(text, begin=EIGHT)
    assert steps(parsed) == [(step, 28800 + 4 * (step - 1), 4.0) for step in range(1, 9)]


def test_trl_counts_tokens_of_fine_tuning_only() -> None:
    """It counts from the begin of a process; GRPO counts generated tokens, too, and rounded ones tell nothing."""

    def log(tokens: str, steps_done: range, behind: str = "'mean_token_accuracy': 0.5") -> str:
        bar = "\r  {n}%|#| {n}/99 [00:{s:02d}<06:36,  4.00s/it]"
        line = f"{bar}\n{{{{'loss': 2.5, 'num_tokens': {{t}}, {{b}}, 'epoch': 0.1}}}}\n{bar}"
        return "".join(line.format(n=n, s=4 * n, t=tokens.format(n), b=behind) for n in steps_done)

    began = "***** Running training *****\n"
    resumed = f"{began}  Continuing training from global step 3\n{log('1{0}00.0', range(4, 7))}"
    parsed = read(began + log("{0}000.0", range(1, 6)) + resumed, begin=EIGHT)
    assert parsed.frames["steps"]["step"].to_list() == [1, 2, 3, 4, 5, 4, 5, 6]
    assert parsed.frames["steps"]["tokens"].to_list() == [1000.0] * 5 + [None, 100.0, 100.0]
    for other in (log("{0}000.0", range(1, 6), "'completions/mean_length': 9.5"), log("'{0}.5e+04'", range(1, 6))):
        assert read(began + other, begin=EIGHT).frames["steps"]["tokens"].to_list() == [None] * 5


def test_steps_of_slime_are_those_of_the_actor() -> None:
    line = "(MegatronTrainRayActor pid=4711) [2026-10-01 08:00:{:02d}] {}\n"
    text = ""
    for step in range(4):
        text += line.format(4 * step, f"model.py:690 - step {step}: {{'train/loss': 0.5, 'train/step': {step}}}")
        text += line.format(4 * step, f"model.py:690 - critic-step {step}: {{'train/critic-loss': 9.5}}")
        text += line.format(4 * step, f"train_metric_utils.py:44 - perf {step}: {{'perf/step_time': 4.0}}")
    text += line.format(12, "timer.py:24 - Timer save_model start")
    text += line.format(20, "timer.py:32 - Timer save_model end (elapsed: 8.0s)")
    text += line.format(24, "model.py:690 - step 4: {'train/loss': 0.5, 'train/step': 4}")
    parsed = read(text)
    assert steps(parsed)[1:] == [(1, 28800, 4.0), (2, 28804, 4.0), (3, 28808, 4.0), (4, 28820, 4.0)]
    assert parsed.frames["steps"]["loss"].to_list() == [0.5] * 5
    assert events(parsed) == [("checkpoint_save", 3, 28812, 28820)]
    assert parsed.frames["run_events"]["durable_at"].to_list() == [None]


def test_modded_nanogpt_times_steps_without_validation() -> None:
    text = "step:0/9 val_loss:10.8 train_time:0ms step_avg:nanms\n"
    text += "".join(f"step:{n}/9 train_time:{500 * n}ms step_avg:nanms\n" for n in (1, 2, 3))
    text += "".join(f"step:{n}/9 train_loss:2.5 train_time:{250 * (n - 3)}ms step_avg:250.00ms\n" for n in (4, 5))
    text += "step:5/9 val_loss:4.36 train_time:500ms step_avg:250.00ms\n"
    text += "step:6/9 train_loss:2.5 train_time:750ms step_avg:250.00ms\n"
    parsed = read(text, begin=EIGHT)
    expected = [(2, 28800.5, 0.5), (3, 28801, 0.5), (4, 28801.5, 0.25), (5, 28801.75, 0.25), (6, 28802, 0.25)]
    assert steps(parsed)[1:] == expected
    assert parsed.frames["steps"]["loss"].to_list() == [None] * 3 + [2.5] * 3
    stamped = "".join(f"2026-10-01T08:00:0{2 * n}Z {line}\n" for n, line in enumerate(text.splitlines()[4:]))
    assert ("eval", 5, 28802, 28804) in events(read(stamped))
