"""Lines of the frameworks' newest versions: evaluations, staged checkpoints, and formats that came later."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ingest.errors import UntimedError
from tests.ingest.runlog.text import test_megatron as megatron
from tests.ingest.runlog.text import test_torchtitan as titan
from tests.support.logs.foreign_logs import DAY, events, read, starts, steps

NEW_TITAN = titan.FRESH.replace("Starting job: Llama 3 8B training", "torchtitan version: 0.3.0 (0.0.0 means")


def stamp(seconds: int) -> str:
    return f"{DAY + timedelta(hours=8, seconds=seconds):%H:%M:%S}"


def test_a_validation_of_torchtitan_is_no_step() -> None:
    validated = titan.note("validate step:  1  loss:  3.1042  memory: 30.12GiB(37.90%)  tps: 21,310", "08:00:35,000")
    parsed = read(NEW_TITAN + titan.line(1, "08:00:30,000") + validated + titan.line(2, "08:00:39,000"))
    assert steps(parsed) == [(1, 28820, 10.0), (2, 28835, 4.0)]
    assert events(parsed) == [("eval", 1, 28830, 28835)]
    assert parsed.rejects.is_empty()


def test_a_validation_behind_a_checkpoint_holds_up_once() -> None:
    text = (
        NEW_TITAN
        + titan.line(1, "08:00:30,000")
        + titan.note("Saving the checkpoint.", "08:00:30,000")
        + titan.note("Finished saving the checkpoint in 3.00 seconds.", "08:00:33,000")
        + titan.note("validate step:  1  loss:  3.1  memory: 30.12GiB(37.90%)  tps: 21,310", "08:00:38,000")
        + titan.line(2, "08:00:42,000")
    )
    parsed = read(text)
    assert events(parsed) == [("checkpoint_save", 1, 28830, 28833), ("eval", 1, 28833, 28838)]
    assert steps(parsed)[1] == (2, 28838, 4.0)


def test_a_staged_checkpoint_of_torchtitan_is_not_safe() -> None:
    text = (
        NEW_TITAN
        + titan.line(1, "08:00:30,000")
        + titan.note("Staging the checkpoint.", "08:00:30,000")
        + titan.note("Finished staging the checkpoint in 3.00 seconds.", "08:00:33,000")
        + titan.line(2, "08:00:37,000")
    )
    parsed = read(text)
    assert events(parsed) == [("checkpoint_save", 1, 28830, 28833)]
    assert parsed.frames["run_events"]["durable_at"].to_list() == [None]
    assert steps(parsed)[1] == (2, 28833, 4.0)


def test_a_new_process_of_torchtitan_says_its_version() -> None:
    again = NEW_TITAN.replace("08:00:", "08:10:").replace("at step 1", "at step 2")
    parsed = read(NEW_TITAN + titan.line(1, "08:00:30,000") + again + titan.line(2, "08:10:30,000"))
    assert len(starts(parsed)) == 2


def test_an_evaluation_of_megatron_ends_with_the_next_step() -> None:
    said = " validation loss at iteration {} | lm loss value: 2.3E+00 | lm loss PPL: 1.0E+01 | \n"
    text = megatron.HEAD + megatron.line(1, "08:00:10") + said.format(1) + megatron.line(2, "08:00:42")
    parsed = read(text + said.format(2))
    assert events(parsed) == [("eval", 1, 28810, 28840)]
    assert steps(parsed) == [(1, 28808, 2.0), (2, 28840, 2.0)]


def test_trainer_dictionaries_may_go_on_behind_the_epoch() -> None:
    started = "[INFO|trainer.py:1] 2026-10-01 08:00:00,000 >> ***** Running training *****\n"
    bar = "\r {0}%|█         | {0}/9 [00:0{0}<01:10, 1.0s/it]\n"
    text = "".join(bar.format(n) + f"{{'loss': '2.5', 'epoch': '0.{n}', 'num_tokens': 81}}\n" for n in (1, 2, 3))
    parsed = read(started + text)
    assert [step for step, _, _ in steps(parsed)] == [1, 2, 3]
    assert parsed.rejects.is_empty()


def test_a_long_log_of_the_trainer_keeps_its_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.runlog.formats.text.blocks.BLOCK", 40_000)
    process = "[INFO|trainer.py:1] 2026-10-01 {},000 >> ***** Running training *****\n"
    noise = "NCCL INFO Channel 00/32 and what else a program prints\n" * 2_000
    bars = "".join(
        f"\r {n}%|█    | {n}/9 [00:{n:02d}<01:10, 1.0s/it]\n{{'loss': 2.5, 'epoch': 0.{n}}}\n" for n in (1, 2)
    )
    text = process.format("08:00:00") + bars + noise + process.format("09:00:00") + bars + noise
    assert starts(read(text, chunk=10_000)) == [8 * 3_600, 9 * 3_600]


def test_maxtext_is_read() -> None:
    line = (
        "I1001 {}.943716 138304841739136 metric_logger.py:226] completed step: {}, seconds: 10.000, TFLOP/s/device: "
        "350.869, Tokens/s/device: 19222.175, total_weights: 1572864, loss: 12.980, lm_loss: 12.980\n"
    )
    parsed = read("".join(line.format(stamp(10 * n), n) for n in range(3)), year=2026)
    assert [(step, length) for step, _, length in steps(parsed)] == [(0, 10.0), (1, 10.0), (2, 10.0)]
    assert set(parsed.frames["steps"]["tokens"]) == {1_572_864}
    assert parsed.frames["run_sessions"]["printed_tflops"].to_list() == [pytest.approx(350.869)]


def test_nanotron_is_read() -> None:
    line = (
        "[default0]:10/01/2026 {} [INFO|DP=0|PP=0|TP=0|n1]: iteration: {} / 20000 | consumed_tokens: 12.6M | "
        "elapsed_time_per_iteration_ms: 1.25K | tokens_per_sec: 839K | tokens_per_sec_per_gpu: 13.1K | "
        "global_batch_size: 1.02K | lm_loss: 8.42 | lr: 0.000036 | model_tflops_per_gpu: 412 | grad_norm: 1.1\n"
    )
    parsed = read("".join(line.format(stamp(2 * n), n) for n in (1, 2)), facts={"seq_len": 100})
    assert steps(parsed) == [(1, 28800.75, 1.25), (2, 28802.75, 1.25)]
    assert set(parsed.frames["steps"]["tokens"]) == {102_000}


def test_olmo_core_is_read_by_its_stamps() -> None:
    line = "2026-10-01 {}.000\tn1:0\tolmo_core.train.callbacks.console_logger:82\tINFO\t[step={}/9,epoch=1,eta=1h]\n"
    text = "".join(line.format(stamp(4 * n), n) + "    train/CE loss=2.5\n" for n in (1, 2, 3))
    parsed = read(text, facts={"seq_len": 10, "global_batch": 4})
    assert [(step, length) for step, _, length in steps(parsed)] == [(1, None), (2, 4.0), (3, 4.0)]
    assert set(parsed.frames["steps"]["tokens"]) == {40}


def test_llama_factory_needs_to_know_when_it_began() -> None:
    line = (
        '{{"current_steps": {}, "total_steps": 9, "loss": 1.7, "lr": 4e-05, "epoch": 1.0, "elapsed_time": "0:00:{}"}}\n'
    )
    text = "".join(line.format(n, 10 * n) for n in (1, 2, 3))
    with pytest.raises(UntimedError, match="LLaMA-Factory"):
        read(text)
    parsed = read(text, begin=DAY)
    assert [(step, at) for step, at, _ in steps(parsed)][1:] == [(2, 10), (3, 20)]


def test_verl_is_read_without_tokens() -> None:
    line = "(TaskRunner pid=4711) step:{} - actor/pg_loss:-0.01 - perf/total_num_tokens:1048576 - timing_s/step:60.5\n"
    parsed = read("".join(line.format(n) for n in (1, 2)), begin=DAY)
    assert steps(parsed) == [(1, 0, 60.5), (2, 60.5, 60.5)]
    assert parsed.frames["steps"]["tokens"].null_count() == 2


def test_verl_resumes_and_validates_before_its_first_step() -> None:
    day = "2026-10-01T08:00:0"
    text = f"{day}0Z step:0 - val-core/gsm8k/acc:0.5\n{day}2Z step:1 - timing_s/step:2.0\n"
    text += f"{day}2Z local_global_step_folder: out/global_step_1\n{day}4Z step:2 - timing_s/step:2.0\n"
    parsed = read(f"{text}{day}6Z Setting global step to 1\n{day}9Z step:2 - timing_s/step:2.0\n")
    assert steps(parsed) == [(1, 28800, 2.0), (2, 28802, 2.0), (2, 28807, 2.0)]
    assert [(kind, step) for kind, step, _, _ in events(parsed)] == [("checkpoint_save", 1), ("checkpoint_load", 1)]


def test_ms_swift_numbers_its_steps() -> None:
    line = "{{'loss': 2.5, 'epoch': 0.1, 'global_step/max_steps': '{0}/9', 'elapsed_time': '1m {1}s'}}\n"
    text = "".join(f"\rTrain:  9%|# | {n}/9 [00:10<00:01,  5.00s/it]{line.format(n, 5 * n)}" for n in (1, 2, 3))
    assert steps(read(text, begin=DAY))[1:] == [(2, 65, 5.0), (3, 70, 5.0)]


def test_the_steps_of_an_epoch_are_counted_on() -> None:
    line = "Train: {} [{:>4d}/3 ( 50%)]  Loss: 2.5 (2.5)  Time: 0.500s, 8/s  LR: 1e-5  Data: 0.01 (0.02)\n"
    text = "".join(line.format(epoch, n) for epoch in (0, 1) for n in (0, 2))
    assert steps(read(text, begin=DAY)) == [(step, 0.5 * step - 0.5, 0.5) for step in range(1, 7)]


def test_the_driver_that_nvidia_smi_printed_is_an_event() -> None:
    smi = "| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |\n"
    parsed = read(smi + megatron.HEAD + megatron.line(1, "08:00:10") + megatron.HEAD + megatron.line(1, "09:00:10"))
    driver = parsed.frames["run_events"].filter(kind="driver")
    assert driver["detail"].to_list() == ["570.86.15"]
    assert driver["ts"].to_list() == [parsed.frames["run_sessions"]["started_at"].min()]


@pytest.mark.parametrize("arguments", ["Namespace(lr=0.1, num_updates=500)", '{"loss": "mse", "num_updates": 500}'])
def test_arguments_with_num_updates_are_no_step_of_fairseq(arguments: str) -> None:
    text = f"{arguments}\n" + "".join(f"iter {n}: loss 2.5000, time 2000.00ms, mfu 31.20%\n" for n in (1, 2, 3))
    assert steps(read(text, begin=DAY)) == [(1, 0.0, 2.0), (2, 2.0, 2.0), (3, 4.0, 2.0)]
