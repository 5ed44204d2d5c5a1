"""Steps whose record is in several lines: LitGPT's micro-batches before it, OLMo's values behind it."""

from __future__ import annotations

import pytest

from tests.support.logs.foreign_logs import DAY, codes, read, starts, steps

ACCUMULATED = 4


def litgpt(number: int) -> str:
    """The line of a micro-batch: of every fourth one, which also updates the weights, with the step that is done."""
    step, part = divmod(number, ACCUMULATED)
    time = "100.00 ms remaining time: 1:02:03" if part else "400.00 ms (step) remaining time: 1:02:03"
    return f"Epoch 1 | iter {number} step {step} | loss train: 2.{step}00, val: n/a | iter time: {time}\n"


@pytest.mark.parametrize("chunk", [100, 1 << 20])
def test_litgpt_steps_last_as_long_as_their_micro_batches(chunk: int) -> None:
    parsed = read("".join(map(litgpt, range(1, 13))), begin=DAY, chunk=chunk)
    assert steps(parsed) == [(1, 0.0, 0.7), (2, 0.7, 0.7), (3, 1.4, 0.7)]
    assert parsed.frames["steps"]["loss"].to_list() == [2.1, 2.2, 2.3]
    assert "durations_of_micro_batches" not in codes(parsed)


def test_litgpt_steps_without_their_micro_batches_are_estimated() -> None:
    parsed = read("".join(map(litgpt, range(4, 17, 4))), begin=DAY)
    assert steps(parsed) == [(1, 0.0, 1.6), (2, 1.6, 1.6), (3, 3.2, 1.6), (4, 4.8, 1.6)]
    assert [w.count for w in parsed.warnings if w.code == "durations_of_micro_batches"] == [4]


def test_litgpt_steps_with_stamps_last_from_one_to_the_next() -> None:
    parsed = read("".join(f"2026-10-01T00:00:{n:02d}Z {litgpt(n)}" for n in range(4, 17, 4)))
    assert steps(parsed) == [(1, 4.0, None), (2, 4.0, 4.0), (3, 8.0, 4.0), (4, 12.0, 4.0)]
    assert "durations_of_micro_batches" not in codes(parsed)


def test_litgpt_resumed_within_a_step_runs_it_again() -> None:
    resumed = "Resuming training from out/step-00000002/lit_model.pth\n"
    parsed = read("".join(map(litgpt, range(1, 16))) + resumed + "".join(map(litgpt, range(9, 17))), begin=DAY)
    assert [(step, length) for step, _, length in steps(parsed)] == [(step, 0.7) for step in (1, 2, 3, 3, 4)]
    assert starts(parsed) == [0.0, 2.1]


def olmo(step: int) -> str:
    """What OLMo prints of a step."""
    return (
        f"[2026-10-01 00:00:{10 * step:02d}] INFO     [olmo.train:816, rank=0] [step={step}/739328,epoch=0]\n"
        f"    train/CrossEntropyLoss=11.{step}0\n    train/Perplexity=76,631\n"
        f"    throughput/total_tokens={4_194_304 * step:,}\n    throughput/device/tokens_per_second=45,538\n"
    )


@pytest.mark.parametrize("chunk", [90, 1 << 20])
def test_olmo_values_are_of_the_step_before_them(chunk: int) -> None:
    parsed = read("".join(map(olmo, (1, 2, 3))), chunk=chunk)
    assert steps(parsed) == [(1, 10.0, None), (2, 10.0, 10.0), (3, 20.0, 10.0)]
    assert parsed.frames["steps"].select("loss", "tokens").rows() == [(loss, 4_194_304) for loss in (11.1, 11.2, 11.3)]


def test_olmo_values_without_their_step_are_refused() -> None:
    parsed = read("    train/CrossEntropyLoss=11.9\n" + olmo(1))
    assert parsed.rejects.select("line", "reason", "raw").rows() == [
        (1, "values of a step whose own line is not before them in this log", "    train/CrossEntropyLoss=11.9")
    ]


def test_a_step_before_any_time_is_refused_with_its_line() -> None:
    parsed = read("[step=1/9,epoch=0]\n" + olmo(2))
    assert [step for step, _, _ in steps(parsed)] == [2]
    ((line, reason, raw),) = parsed.rejects.select("line", "reason", "raw").rows()
    assert (line, raw) == (1, "[step=1/9,epoch=0]")
    assert "without a time" in reason


def test_olmo_core_totals_of_every_fifth_step() -> None:
    """A total of tokens is of all steps since the last one; steps whose lines have none keep none."""
    line = "2026-10-01 00:00:{0:02d}.000\tnode-1:0\tolmo_core.train:82\tINFO\t[step={0}/900,epoch=1]\n"
    values = "    train/CE loss=2.5\n    throughput/total tokens={:,}\n"
    text = "".join(line.format(n) + (values.format(4096 * n) if n % 5 == 0 else "") for n in range(1, 11))
    parsed = read(text)
    assert [tokens for tokens in parsed.frames["steps"]["tokens"] if tokens is not None] == [4096]


def test_totals_of_many_steps_are_taken_as_those_of_few() -> None:
    """Lines that are taken together have the tokens that they have one by one: of all steps since the last total."""
    values = "    throughput/total_tokens={:,}\n"
    text = "".join(
        f"2026-10-01 00:{n // 30:02d}:{2 * n % 60:02d}.000\tINFO\t[step={n}/900,epoch=1]\n"
        + (values.format(4096 * n) if n % 5 == 0 else "")
        for n in range(1, 101)
    )
    tokens = read(text).frames["steps"]["tokens"].to_list()
    assert tokens == [4096 if n % 5 == 0 and n > 5 else None for n in range(1, 101)]
