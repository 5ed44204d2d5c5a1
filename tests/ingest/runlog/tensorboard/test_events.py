"""TensorBoard's event files as tensorboardX wrote them: a run that was killed and resumed, every second step logged."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import InputError
from ingest.runlog.binary import BAD_CHECKSUM, BAD_MESSAGE
from ingest.runlog.formats.registry import recognised
from ingest.runlog.lines import CUT
from ingest.runlog.tensorboard.framing import masked_crc32c
from ingest.runlog.tensorboard.messages import event
from tests.support.logs.binary_logs import EVENT_FILES, parsed, read, truth

FIRST, SECOND = (file.read_bytes() for file in EVENT_FILES)
NAME = "runs/tiny/events.out.tfevents.1795417488.n1.12.0"


@pytest.mark.parametrize("number", [0, 1])
def test_logged_steps_are_those_of_the_loop(number: int) -> None:
    steps = read(EVENT_FILES[number]).frames["steps"].sort("step")
    knew = {step["step"]: step for step in truth("tensorboard")[number]}
    assert steps["step"].to_list() == list(knew)  # those between two logged ones, too
    for row in steps.filter(steps["step"] % 2 == 0).iter_rows(named=True):
        step = knew[row["step"]]
        assert row["duration_s"] <= step["duration_s"] + 1e-6
        assert row["ts"].timestamp() + row["duration_s"] == pytest.approx(step["end"], abs=0.1)
        assert row["loss"] == pytest.approx(step["loss"], rel=1e-6)
    assert steps.filter(steps["step"] % 2 == 1)["loss"].null_count() == steps.height // 2


def test_both_files_are_sessions_of_the_run_of_their_folder() -> None:
    sessions = [read(file).frames["run_sessions"].row(0, named=True) for file in EVENT_FILES]
    assert [(session["run_id"], session["node"]) for session in sessions] == [("tiny", "vm")] * 2
    assert [(session["layers"], session["hidden"], session["gated"]) for session in sessions] == [(4, 64, True)] * 2


def test_processes_of_one_trainer_are_one_run() -> None:
    names = [f"out/llama/runs/Nov30_08-4{n}-20_vm/events.out.tfevents.1795417488.vm.12.0" for n in (1, 2)]
    runs = [
        parsed(data, name).frames["run_sessions"]["run_id"][0]
        for data, name in zip((FIRST, SECOND), names, strict=True)
    ]
    assert runs == ["llama", "llama"]


def test_what_no_event_file_records_is_stated() -> None:
    (session,) = parsed(SECOND, NAME, run_id="r", job_id="29", n_gpus=8).frames["run_sessions"].rows(named=True)
    assert (session["run_id"], session["scheduler"], session["job_id"], session["n_gpus"]) == ("r", "slurm", "29", 8)
    assert session["node"] == "n1"
    (packed,) = parsed(SECOND, f"{NAME}.zst").frames["run_sessions"].rows(named=True)
    assert (packed["node"], packed["run_id"]) == ("n1", "tiny")


def test_a_batch_and_a_length_give_the_tokens_of_a_step() -> None:
    assert set(parsed(SECOND, NAME).frames["steps"]["tokens"]) == {None}
    assert set(parsed(SECOND, NAME, global_batch=16, seq_len=128).frames["steps"]["tokens"]) == {2048}


def test_a_cut_record_is_refused_and_the_rest_is_read() -> None:
    result = parsed(SECOND[:-20], NAME)
    assert result.rejects["reason"].to_list() == [CUT]
    assert result.frames["steps"]["step"].max() == 28


def test_a_flipped_bit_costs_its_record_alone() -> None:
    place = SECOND.index(b"train/step_time")
    result = parsed(SECOND[:place] + b"T" + SECOND[place + 1 :], NAME)
    assert result.rejects["reason"].to_list() == [BAD_CHECKSUM]
    assert result.frames["steps"].height == parsed(SECOND, NAME).frames["steps"].height


def test_a_damaged_length_loses_only_what_is_before_a_record() -> None:
    result = parsed(SECOND + b"\x00" * 5000 + b"junk" + SECOND, NAME)
    assert result.rejects["reason"].to_list() == [BAD_CHECKSUM]
    assert result.frames["steps"].equals(parsed(SECOND, NAME).frames["steps"])


def test_a_file_written_twice_is_the_file_once() -> None:
    once, twice = parsed(SECOND, NAME), parsed(SECOND + SECOND, NAME)
    assert twice.frames["steps"].equals(once.frames["steps"])
    assert twice.rejects.is_empty()


def framed(message: bytes) -> bytes:
    length = struct.pack("<Q", len(message))
    return length + struct.pack("<I", masked_crc32c(length)) + message + struct.pack("<I", masked_crc32c(message))


def test_a_record_that_is_no_event_is_refused() -> None:
    assert parsed(SECOND + framed(b"\xff"), NAME).rejects["reason"].to_list() == [BAD_MESSAGE]


def test_a_file_without_an_event_is_named() -> None:
    head = b"\x09" + struct.pack("<d", 0.0)
    with pytest.raises(InputError, match="without a readable event"):
        parsed(framed(head), NAME)


@pytest.mark.parametrize("head", [b"", b"{}", bytes(64), b'{"type":"run"}\n'])
def test_other_files_are_no_event_file(head: bytes) -> None:
    assert recognised(head) is None


def scalar(*tensor: bytes) -> bytes:
    body = b"".join(tensor)
    value = b"\x0a\x01a" + b"\x42" + bytes([len(body)]) + body
    summary = b"\x0a" + bytes([len(value)]) + value
    return b"\x2a" + bytes([len(summary)]) + summary


SHAPE_OF_2 = b"\x12\x04\x12\x02\x08\x02"


@pytest.mark.parametrize(
    ("message", "number"),
    [
        (scalar(b"\x08\x01", b"\x2a\x04", struct.pack("<f", 2.5)), 2.5),  # float_val
        (scalar(b"\x08\x01", b"\x22\x04", struct.pack("<f", 2.5)), 2.5),  # tensor_content
        (scalar(b"\x08\x02", b"\x32\x08", struct.pack("<d", 2.5)), 2.5),  # double_val
        (scalar(b"\x08\x0e", b"\x22\x02", struct.pack("<f", 2.5)[2:]), 2.5),  # bfloat16
        (scalar(b"\x08\x09", b"\x52\x01\x07"), 7),  # int64_val
        (scalar(b"\x08\x01", SHAPE_OF_2, b"\x22\x08", bytes(8)), None),  # two numbers
    ],
)
def test_scalars_come_as_tensors_too(message: bytes, number: float | None) -> None:
    assert event(message).scalars == ({} if number is None else {"a": number})


@given(st.data())
def test_damage_never_invents_a_step(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(SECOND)))
    cut = data.draw(st.integers(at, len(SECOND)))
    junk = data.draw(st.binary(max_size=40))
    try:
        result = parsed(b"".join([FIRST[:100], SECOND[:at], junk, SECOND[cut:]]), NAME)
    except InputError:
        return
    logged = {step["step"] for step in truth("tensorboard")[1]}
    assert set(result.frames["steps"]["step"]) <= logged
