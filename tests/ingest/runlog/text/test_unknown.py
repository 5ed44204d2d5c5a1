"""A log of which nothing is known: what the message says, and that the entry in it works as it stands."""

from __future__ import annotations

import tomllib
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from ingest.errors import UnrecognisedInputError
from ingest.runlog.formats.text.unknown import suggestion
from ingest.runlog.text_format import builtin, parse_format
from tests.ingest.runlog.text import test_megatron as megatron
from tests.support.command import trackside
from tests.support.logs.foreign_logs import DAY, read, steps

if TYPE_CHECKING:
    from pathlib import Path

LINES = {
    "it {n}: loss 2.5, batch {n}, time 2000.00ms": 2.0,
    "step {n:5d}/19560 | loss 2.500000 (+nanz)| norm 15.3 | lr 8.57e-07 | 2000.00 ms | 45.7% bf16 MFU": None,
    "Epoch 1 | iter {n}7 step {n} | loss: 2.5 | iter time: 500.00 ms": None,
    '{{"global_step": {n}, "train_loss": 2.5, "step_time": 2.0}}': None,
    "2026-10-01 08:00:{n:02d} batch={n} 'loss': 2.5 elapsed (s): 2.0": 2.0,
    "Step[{n}] loss=2.5 took 2.0 sec": 2.0,
}


SINCE_THE_BEGINNING = [
    ("step:{n}/9 ran_time:{ms}ms step_avg:2000.00ms", "elapsed"),
    ("iter {n} loss 2.5 elapsed: {ms} ms", "elapsed"),
    ("iter {n} loss 2.5 elapsed {s}.0 s", "elapsed"),
    ("iter {n} loss 2.5 elapsed {s}.0 s, step time 2.0 s", "duration_s"),
    ("iter {n} loss 2.5 time (ms): {ms}", None),
]


@pytest.mark.parametrize(("line", "field"), SINCE_THE_BEGINNING)
def test_a_time_that_only_grows_is_no_duration(line: str, field: str | None) -> None:
    text = "".join(line.format(n=n, s=2 * n + 60, ms=2_000 * n + 60_000) + "\n" for n in range(1, 6))
    message = unknown(text)
    form = parse_format(tomllib.loads(message[message.index("[[runlog") :])["runlog"]["format"][0], origin="message")
    (one,) = form.lines
    assert {name for name, _ in one.fields} & {"elapsed", "duration_s", "duration_ms"} == ({field} - {None})
    if field is not None:
        lengths = read(text, formats=(form,), begin=DAY).frames["steps"]["duration_s"]
        assert lengths[1:].to_list() == pytest.approx([2.0] * 4)


@pytest.mark.parametrize(
    "line", ["step {n} | val_loss 3.5 | train_loss 2.5", "step {n} train loss: 2.5, validation loss: 3.5"]
)
def test_the_loss_of_training_goes_before_others(line: str) -> None:
    before = "step 0 | val_loss 9.5 | \n"
    message = unknown(before + "".join(line.format(n=n) + "\n" for n in range(1, 6)))
    form = parse_format(tomllib.loads(message[message.index("[[runlog") :])["runlog"]["format"][0], origin="message")
    text = "".join(f"2026-10-01T08:00:0{n}Z {line.format(n=n)}\n" for n in range(1, 6))
    assert read(text, formats=(form,)).frames["steps"]["loss"].to_list() == [2.5] * 5


def unknown(text: str) -> str:
    with pytest.raises(UnrecognisedInputError) as caught:
        read(text)
    return str(caught.value)


@pytest.mark.parametrize("line", LINES)
def test_the_suggested_entry_reads_the_log(line: str) -> None:
    text = "loading data\n" + "".join(line.format(n=n) + "\n" for n in range(1, 6))
    message = unknown(text)
    entry = message[message.index("[[runlog.format]]") :]
    form = parse_format(tomllib.loads(entry)["runlog"]["format"][0], origin="message")
    if LINES[line] is None:
        text = "".join(
            f"{DAY + timedelta(hours=8, seconds=2 * n):%Y-%m-%dT%H:%M:%SZ} {line.format(n=n)}\n" for n in range(1, 6)
        )
    parsed = read(text, formats=(form,), begin=DAY + timedelta(hours=8))
    assert [step for step, _, _ in steps(parsed)] == [1, 2, 3, 4, 5]
    assert parsed.frames["steps"]["loss"].to_list() == [2.5] * 5
    assert LINES[line] in {None, *parsed.frames["steps"]["duration_s"]}


def test_the_message_names_what_was_looked_for() -> None:
    message = unknown("\n\nhello world\nbye\n")
    assert "begins with\n  hello world\n" in message
    assert all(form.title in message for form in builtin())
    assert "Nearest" not in message
    assert "No line looks like a step" in message


def test_a_log_that_ended_before_its_first_step_is_near() -> None:
    cut = megatron.line(1, "08:00:10")[:60]
    message = unknown(f"{megatron.HEAD}{cut}\n")
    assert "Nearest" in message
    assert "Megatron-LM and Megatron-Bridge: " in message.partition("Nearest")[2]
    assert "start" in message
    assert "damaged line of Megatron-LM" in message


@pytest.mark.parametrize("title", ["Train step of epoch 0", "Epoch 0"])
def test_a_bar_of_an_epoch_is_answered_with_other_logs(title: str) -> None:
    bars = "".join(f"\r{title}:  {n}%|##   | {n}/40 [00:0{n}<02:00,  3.00s/it, gpt_loss=2.5]" for n in range(1, 9))
    with pytest.raises(UnrecognisedInputError, match=r"counts the batches of one epoch(?s:.*)TensorBoard"):
        read(bars, begin=DAY)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            "INFO:levanter.tracker:Progress on:train 1.23kit/10.0kit rate:2.0s/it elapsed:41:00 postfix:loss=2.5",
            "round",
        ),
        ("========================= Step 3/100 =========================", "NeMo-RL"),
        ("Epoch 0:   2%|#  | 1/50 [00:02<01:38,  0.50it/s, v_num=0, train_loss=2.3]", "Lightning"),
        ("Epoch 0/9 ━━━━━━╸━━━━ 1/50 0:00:02 • 0:01:38 0.50it/s v_num: 0 train_loss: 2.3", "Lightning"),
        ("Train Epoch: 0 [    64/109468 (0%)] Loss: 1.0672 (1.067) Batch (t): 18.2", "samples"),
    ],
)
def test_unreliable_numbers_are_answered_with_other_logs(line: str, why: str) -> None:
    with pytest.raises(UnrecognisedInputError, match=rf"{why}(?s:.*)W&B"):
        read(f"loading data\n{line}\n  • Loss: 0.1234\n", begin=DAY)


def test_no_entry_is_made_of_a_line_without_a_step() -> None:
    assert suggestion("nothing here") is None
    assert "batch" in (suggestion("batch 'x' 3 batch\t7") or "")


def test_the_entry_for_a_bar_of_steps_reads_its_number() -> None:
    bars = "".join(f"\rSteps: {2 * n:3d}%|#  | {n}/50 [00:0{2 * n}<01:38,  0.50it/s, step_loss=2.5]" for n in (1, 2, 3))
    message = unknown(bars)
    assert "counts the batches" not in message
    form = parse_format(tomllib.loads(message[message.index("[[runlog") :])["runlog"]["format"][0], origin="message")
    assert steps(read(bars, formats=(form,), begin=DAY))[1:] == [(2, 2, 2.0), (3, 4, 2.0)]
    assert "# steps_per_epoch" in unknown("Training Epoch: 1/3, step 0/40 completed (loss: 2.2)\n")


def test_a_user_reads_an_unknown_log_by_the_message_alone(tmp_path: Path) -> None:
    log, config, store = tmp_path / "nano.log", tmp_path / "trackside.toml", str(tmp_path / "w")
    log.write_text("".join(f"it {n}: loss 2.5, batch {n}, time 2000.00ms\n" for n in range(1, 9)))
    refused = trackside("ingest", "runlog", str(log), "--warehouse", store)
    assert refused.returncode != 0
    config.write_text(refused.stderr[refused.stderr.index("[[runlog.format]]") :])
    options = ("--config", str(config), "--warehouse", store, "--begin", "2026-10-01T08:00:00Z")
    loaded = trackside("ingest", "runlog", str(log), *options)
    assert loaded.returncode == 0, loaded.stderr
    assert "8" in loaded.stdout + loaded.stderr


def test_a_folder_without_logs_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "notes.txt").write_text("nothing\n")
    refused = trackside("ingest", "runlog", str(folder), "--warehouse", str(tmp_path / "w"))
    assert "none of 1 file below this folder is a known log" in refused.stderr
