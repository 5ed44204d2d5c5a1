"""Every text format, mutated as logs are in life: cut, CRLF, NULs, colours, doubled lines, ranks behind each other.

The rows of the whole log come out, or fewer with counted rejects, and never a step that the log does not have.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import UnrecognisedInputError, UntimedError
from ingest.runlog.text_format import builtin
from tests.ingest.runlog.text import test_megatron as megatron
from tests.ingest.runlog.text import test_torchtitan as titan
from tests.support.logs.foreign_logs import DAY, read, steps

if TYPE_CHECKING:
    from ingest.tables import Parsed

N = 9


def clock(n: int, form: str = "%H:%M:%S") -> str:
    return f"{DAY + timedelta(hours=8, seconds=20 + 4 * n):{form}}"


def lines_of(line: str, form: str = "%H:%M:%S", first: int = 1) -> list[str]:
    return [line.format(n=n, at=clock(n, form), e=f"0:00:{4 * n:02d}") + "\n" for n in range(first, first + N)]


LINES: dict[str, list[str]] = {
    "megatron": [megatron.line(n, clock(n), ms=4000.0) for n in range(1, 1 + N)],
    "megatron-untimed": [megatron.old_line(n, ms=4000.0) for n in range(1, 1 + N)],
    "torchtitan": [titan.line(n, clock(n) + ",000") for n in range(1, 1 + N)],
    "nemo": lines_of(
        "[2026-10-01T{at}+00:00] Training epoch 0, iteration {n}/999 | lr: 0.0001 | global_batch_size: 32 | "
        "global_step: {n} | reduced_train_loss: 3.06 | train_step_timing in s: 4.0 | consumed_samples: 16928"
    ),
    "nemo-untimed": lines_of(
        "Training epoch 0, iteration {n}/999 | lr: 0.0001 | global_batch_size: 32 | global_step: {n} | "
        "reduced_train_loss: 3.06 | train_step_timing in s: 4.0 | consumed_samples: 16928"
    ),
    "deepspeed": lines_of(
        "[2026-10-01 {at},000] [INFO] [logging.py:96:log_dist] [Rank 0] step={n}, skipped=0, lr=[1e-05], "
        "mom=[(0.9, 0.95)]"
    ),
    "transformers": lines_of("  8%|###    | {n}/99 [{e}<20:27:23,  4.00s/it]\n{{'loss': 2.5, 'epoch': 0.1}}"),
    "litgpt": lines_of(
        "2026-10-01T{at}Z Epoch 1 | iter {n} step {n} | loss train: 2.500, val: n/a | iter time: 4000.00 ms (step) "
        "remaining time: 0:10:00"
    ),
    "maxtext": lines_of(
        "I1001 {at}.000000 1 metric_logger.py:226] completed step: {n}, seconds: 4.000, TFLOP/s/device: 350.8, "
        "Tokens/s/device: 19222.1, total_weights: 1572864, loss: 12.980"
    ),
    "nanotron": lines_of(
        "10/01/2026 {at} [INFO|DP=0|PP=0|TP=0]: iteration: {n} / 20000 | consumed_tokens: 12M | "
        "elapsed_time_per_iteration_ms: 4K | tokens_per_sec: 839K | global_batch_size: 512 | lm_loss: 8.42 | lr: 0.1"
    ),
    "olmo-core": lines_of("2026-10-01 {at}.000\tn1:0\tolmo_core:82\tINFO\t[step={n}/9,epoch=1,eta=1h 02m]"),
    "automodel": lines_of(
        "2026-10-01 {at} | INFO | root | step {n} | epoch 0 | loss 1.2345 | grad_norm 3.1000 | lr 1.00e-05 | "
        "mem 10.20 GiB | tps 8967.00(1120.88/gpu) | num_label_tokens 1234"
    ),
    "nanogpt": lines_of("iter {n}: loss 2.5000, time 4000.00ms, mfu 31.20%"),
    "llama-factory": lines_of(
        '{{"current_steps": {n}, "total_steps": 150, "loss": 1.7, "lr": 4.5e-05, "elapsed_time": "{e}"}}'
    ),
    "verl": lines_of("(TaskRunner pid=4) step:{n} - actor/pg_loss:-0.01 - timing_s/step:4.0 - training/global_step:1"),
    "slime": lines_of(
        "(MegatronTrainRayActor pid=4) [2026-10-01 {at}] model.py:690 - step {n}: {{'train/loss': 0.5, "
        "'train/grad_norm': 0.4, 'train/step': {n}}}"
    ),
    "modded-nanogpt": [
        f"step:{n}/1480 train_loss:2.5 train_time:{4000 * n}ms step_avg:4000.00ms\n" for n in range(1, 1 + N)
    ],
    "paddlenlp": lines_of(
        "[2026-10-01 {at},000] [    INFO] - loss: 2.5, learning_rate: 2e-06, global_step: {n}, interval_runtime: 4.0, "
        "interval_samples_per_second: 64.0, interval_steps_per_second: 0.25, progress_or_epoch: 0.0"
    ),
    "torchtune": lines_of(
        "2026-10-01T{at}Z Step {n} | loss:2.5 lr:9.9e-05 tokens_per_second_per_gpu:101.2 grad_norm:0.5"
    ),
    "axlearn": lines_of("I1001 {at}.000000 1 trainer.py:905] trainer process   0 step {n:8d}] loss=2.4312 aux={{}}"),
    "fairseq": lines_of(
        '2026-10-01 {at} | INFO | train_inner | {{"epoch": 1, "loss": "2.5", "wpb": "512", "num_updates": "{n}"}}'
    ),
    "timm": [f"Train: 0 [{n:>4d}/99 ( 1%)]  Loss: 6.9 (6.9)  Time: 4.0s, 9/s  Data: 0.0 (0.0)\n" for n in range(N)],
    "llama-cookbook": [
        f"Training Epoch: 1/3, step {n - 1}/99 completed (loss: 1.2): 5%|# | {n}/99 "
        f"[{4 * n // 60:02d}:{4 * n % 60:02d}<1:30]\n"
        for n in range(1, 1 + N)
    ],
    "metric-logger": [
        f"Epoch: [0]  [{n:>3d}/99]  eta: 0:01:00  loss: 2.4 (2.8)  time: 4.0  data: 0.0  max mem: 1\n" for n in range(N)
    ],
    "mmengine": lines_of(
        "2026/10/01 {at} - mmengine - INFO - Epoch(train)  [1][{n:3d}/99]  lr: 1.0e-02  time: 4.0  loss: 1.2"
    ),
    "detectron2": [
        f"[10/01 08:{4 * n // 60:02d}:{4 * n % 60:02d} d2.utils.events]:  eta: 1:02:03  iter: {n - 1}  "
        "total_loss: 1.2  lr: 0.001  max_mem: 3012M\n"
        for n in range(1, 1 + N)
    ],
    "composer": lines_of("2026-10-01T{at}Z Train time/batch: {n}", first=0),
}
BEGUN = {
    "megatron-untimed", "nemo-untimed", "transformers", "llama-factory", "modded-nanogpt", "nanogpt", "verl", "timm",
    "metric-logger", "llama-cookbook",
}  # fmt: skip
"""Logs without times."""

RANKS = [name for name in LINES if name not in {"transformers", "llama-factory"}]
"""Formats whose lines several ranks may print."""


def parsed(name: str, text: str | bytes) -> Parsed:
    return read(text, begin=DAY if name in BEGUN else None, year=2026)


def adds_up(log: Parsed) -> bool:
    return log.rows_read == log.rows_loaded + log.rows_duplicate + log.rows_skipped + log.rows_rejected


class Whole(dict[str, list[tuple[int, float | None, float | None]]]):
    """The steps of each whole log, read when a test needs them: every worker imports this module."""

    def __missing__(self, name: str) -> list[tuple[int, float | None, float | None]]:
        self[name] = steps(parsed(name, "".join(LINES[name])))
        return self[name]


WHOLE = Whole()


def test_every_format_is_mutated() -> None:
    assert {form.name for form in builtin()} == {name.removesuffix("-untimed") for name in LINES}
    assert all([step for step, _, _ in rows] == list(range(1, 1 + N)) for rows in map(WHOLE.__getitem__, LINES))


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
@settings(max_examples=15, deadline=None)
@given(at=st.integers(1, 3_000))
def test_a_cut_log_has_the_steps_before_the_cut(name: str, at: int) -> None:
    text = "".join(LINES[name])
    try:
        log = parsed(name, text[: at % len(text)])
    except (UnrecognisedInputError, UntimedError):
        return
    assert adds_up(log)
    assert steps(log) == WHOLE[name][: len(steps(log))]


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("change", ["crlf", "nuls", "coloured", "blank", "zeroed"])
def test_what_surrounds_lines_makes_no_difference(name: str, change: str) -> None:
    lines = LINES[name]
    text = {
        "crlf": "".join(line.replace("\n", "\r\n") for line in lines),
        "nuls": "\0\0\0\n".join(lines),
        "coloured": "".join(f"\x1b[36m{line[:-1]}\x1b[0m\n" for line in lines),
        "blank": "\n \n".join(lines),
        "zeroed": "".join(lines[:4]) + "\0" * 9_000 + "\n" + "".join(lines[4:]),
    }[change]
    log = parsed(name, text)
    assert steps(log) == WHOLE[name]
    assert adds_up(log)


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
@settings(max_examples=10, deadline=None)
@given(twice=st.sets(st.integers(0, N - 1), min_size=1))
def test_a_doubled_line_counts_once(name: str, twice: set[int]) -> None:
    log = parsed(name, "".join(line * (2 if n in twice else 1) for n, line in enumerate(LINES[name])))
    assert steps(log) == WHOLE[name]
    assert adds_up(log)


@pytest.mark.slow
@pytest.mark.parametrize("name", RANKS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), late=st.integers(0, 5))
def test_ranks_that_are_lines_apart_are_one_run(name: str, seed: int, late: int) -> None:
    chance, mixed, behind = random.Random(seed), [], 0
    for n, line in enumerate(LINES[name]):
        mixed.append(f"0: {line}")
        while behind <= n and (n - behind >= late or chance.random() < 0.3):
            mixed.append(f"1: {LINES[name][behind]}")
            behind += 1
    mixed += [f"1: {line}" for line in LINES[name][behind:]]
    log = parsed(name, "".join(mixed))
    assert steps(log) == WHOLE[name]
    assert log.rows_duplicate == N


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
@settings(max_examples=15, deadline=None)
@given(n=st.integers(0, N - 1), at=st.integers(0, 200), byte=st.sampled_from([b"\0", b"\xff", b"\r", b"", b"\x1b["]))
def test_a_damaged_byte_makes_no_step(name: str, n: int, at: int, byte: bytes) -> None:
    lines = [line.encode() for line in LINES[name]]
    at %= len(lines[n])
    lines[n] = lines[n][:at] + byte + lines[n][at + 1 :]
    try:
        log = parsed(name, b"".join(lines))
    except (UnrecognisedInputError, UntimedError):
        return
    assert adds_up(log)
    assert len(steps(log)) <= N + 1
