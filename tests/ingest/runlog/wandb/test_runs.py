"""W&B's files as real versions wrote them: a run that was killed, resumed and ended by its own bug."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingest.errors import InputError, UnrecognisedInputError
from ingest.runlog.binary import BAD_CHECKSUM, BAD_MESSAGE, Damage, Record
from ingest.runlog.lines import CUT
from ingest.runlog.series import Names
from ingest.runlog.wandb.framing import HEADER, INCOMPLETE, records
from ingest.runlog.wandb.messages import history
from tests.support.logs.binary_logs import DATA, WANDB, parsed, read, truth, wandb_folder

if TYPE_CHECKING:
    from pathlib import Path

NEWEST = (DATA / "wandb" / WANDB[-1] / "first.wandb").read_bytes()
SECOND = (DATA / "wandb" / WANDB[-1] / "second.wandb").read_bytes()


@pytest.mark.parametrize("version", WANDB)
@pytest.mark.parametrize(("process", "number"), [("first", 0), ("second", 1)])
def test_steps_are_those_of_the_loop(version: str, process: str, number: int, tmp_path: Path) -> None:
    result = read(wandb_folder(version, process, tmp_path))
    knew = {step["step"]: step for step in truth(f"wandb/{version}")[number]}
    steps = result.frames["steps"].sort("ts")
    assert steps["step"].to_list() == list(knew)[: steps.height]
    assert steps.height == len(knew) if process == "second" else steps.height > 40  # the killed one lost its buffer
    for row in steps.iter_rows(named=True):
        step = knew[row["step"]]
        assert row["duration_s"] == pytest.approx(step["duration_s"], abs=1e-6)
        assert row["ts"].timestamp() + row["duration_s"] == pytest.approx(step["end"], abs=0.1)
        assert (row["loss"], row["tokens"]) == (pytest.approx(step["loss"]), 2048)


@pytest.mark.parametrize("version", WANDB)
def test_the_run_line_has_the_job_and_the_model(version: str, tmp_path: Path) -> None:
    (session,) = read(wandb_folder(version, "second", tmp_path)).frames["run_sessions"].rows(named=True)
    assert (session["run_id"], session["node"], session["rank"]) == ("tiny1", "vm", 0)
    assert [session[name] for name in ("layers", "hidden", "heads", "head_dim", "gated", "seq_len", "n_gpus")] == [
        4, 64, 4, 16, True, 128, 8,
    ]  # fmt: skip
    job = ("alpha", "slurm", "4711", 1) if version != "0.16.6" else ("c", "none", None, None)  # it did not record it
    assert (session["cluster"], session["scheduler"], session["job_id"], session["restart_count"]) == job


@pytest.mark.parametrize("version", WANDB)
def test_killed_leaves_a_cut_record_and_failed_an_exit_code(version: str, tmp_path: Path) -> None:
    killed = read(wandb_folder(version, "first", tmp_path / "1"))
    assert killed.rejects["reason"].to_list() == [CUT]
    assert killed.frames["run_events"].is_empty()
    failed = read(wandb_folder(version, "second", tmp_path / "2"))
    assert failed.rejects.is_empty()
    assert failed.frames["run_events"].select("kind", "detail").rows() == [("exit", "exit code 1")]


def test_a_job_that_no_version_recorded_is_stated(tmp_path: Path) -> None:
    log = wandb_folder("0.16.6", "second", tmp_path)
    (session,) = read(log, job_id="4711", run_id="mine").frames["run_sessions"].rows(named=True)
    assert (session["scheduler"], session["job_id"], session["run_id"]) == ("slurm", "4711", "mine")


def test_facts_of_the_log_go_before_stated_ones(tmp_path: Path) -> None:
    log = wandb_folder("0.31.0", "second", tmp_path)
    (session,) = read(log, job_id="1", n_gpus=64, gpu_model="H100").frames["run_sessions"].rows(named=True)
    assert (session["job_id"], session["n_gpus"], session["gpu_model"]) == ("4711", 8, "H100")


def test_names_can_be_stated() -> None:
    steps = parsed(SECOND, "run-a.wandb", loss_key="eval/loss", step_key="_step").frames["steps"]
    assert steps["loss"].drop_nulls().to_list() == []  # eval is logged after 30 steps only
    assert steps["step"].to_list() == list(range(8))


def test_a_log_written_twice_is_the_log_once() -> None:
    once, twice = parsed(SECOND, "a.wandb"), parsed(SECOND + SECOND, "a.wandb")
    assert twice.rejects.is_empty()
    assert twice.frames["steps"].equals(once.frames["steps"])


def test_a_file_of_another_version_is_named() -> None:
    with pytest.raises(InputError, match="version 7"):
        parsed(HEADER[:-1] + b"\x07" + SECOND[7:], "a.wandb")


def test_a_file_in_which_nothing_was_logged_is_named() -> None:
    with pytest.raises(InputError, match="nothing is logged"):
        parsed(HEADER, "a.wandb")


def test_a_flipped_bit_costs_its_record_alone() -> None:
    place = SECOND.rindex(b"train/loss")
    result = parsed(SECOND[:place] + b"T" + SECOND[place + 1 :], "a.wandb")
    assert result.rejects["reason"].to_list() == [BAD_CHECKSUM]
    assert parsed(SECOND, "a.wandb").frames["steps"].height - result.frames["steps"].height in {0, 1}


def test_what_is_behind_zeros_of_a_lost_power_is_read() -> None:
    zeros = bytes(3 * 32_768)
    result = parsed(NEWEST[:20_000] + zeros + NEWEST[20_000 + len(zeros) % 32_768 :], "a.wandb")
    whole = parsed(NEWEST, "a.wandb")
    assert result.rejects.filter(reason=BAD_CHECKSUM).height == 1
    assert 0 < result.frames["steps"].height < whole.frames["steps"].height


def fragment(kind: int, data: bytes) -> bytes:
    return struct.pack("<IHB", zlib.crc32(data, zlib.crc32(bytes([kind]))), len(data), kind) + data


def written(*messages: bytes) -> bytes:
    """A file as the format's description has it: a second implementation."""
    file = bytearray(HEADER)
    for message in messages:
        rest, first = message, True
        while True:
            left = 32_768 - len(file) % 32_768
            if left < 7:
                file += bytes(left)
                continue
            part, rest = rest[: left - 7], rest[left - 7 :]
            kind = (1 if not rest else 2) if first else (4 if not rest else 3)
            file += fragment(kind, part)
            first = False
            if not rest:
                break
    return bytes(file)


@given(st.lists(st.integers(0, 100_000), max_size=6), st.integers(1, 50_000))
@example([32_768 - 14], 7)
@example([32_768 - 14 - 6, 3], 7)
@example([32_768 - 14 - 7, 0, 3], 7)
def test_records_of_any_length_come_from_chunks_of_any_length(sizes: list[int], chunk: int) -> None:
    messages = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    file = written(*messages)
    found = list(records([file[at : at + chunk] for at in range(0, len(file), chunk)], "a"))
    assert [each.data for each in found if isinstance(each, Record)] == messages
    assert len(found) == len(messages)


def test_a_record_without_its_end_is_one_damage() -> None:
    file = written(b"a" * 50_000, b"b")
    found = list(records([file[:32_768] + written(b"c")], "a"))
    assert [each.reason for each in found if isinstance(each, Damage)] == [INCOMPLETE]
    assert [each.data for each in found if isinstance(each, Record)] == [b"c"]


def test_a_record_that_is_no_message_is_refused() -> None:
    result = parsed(SECOND + written(b"\xff\xff")[7:], "a.wandb")
    assert result.rejects["reason"].to_list() == [BAD_MESSAGE]


@pytest.mark.slow
@given(st.data())
def test_damage_never_invents_a_step(data: st.DataObject) -> None:
    at = data.draw(st.integers(7, len(NEWEST)))
    cut = data.draw(st.integers(at, len(NEWEST)))
    junk = data.draw(st.binary(max_size=40))
    try:
        result = parsed(NEWEST[:at] + junk + NEWEST[cut:], "a.wandb")
    except InputError:
        return
    genuine = {(row[0], row[1]) for row in parsed(NEWEST, "a.wandb").frames["steps"].select("step", "loss").rows()}
    assert set(result.frames["steps"].select("step", "loss").rows()) <= genuine


def test_of_several_writers_of_one_run_the_first_rank_counts() -> None:
    """In shared mode (feature 67 of the telemetry) each process writes the same run."""
    shared = bytes([0x5A, 5, 0x1A, 3, 0x98, 0x04, 0x01])
    procid = b"\n\x06procid\x12\x013"
    slurm = b"\xda\x01" + bytes([len(procid)]) + procid
    environment = b"\xd2\x01" + bytes([len(slurm)]) + slurm
    result = parsed(SECOND + written(shared, environment), "run-a.wandb")
    assert result.frames["run_sessions"]["rank"].to_list() == [3]
    assert result.frames["steps"].is_empty()
    assert result.rows_skipped > 0


def test_log_of_events_that_were_drawn_is_no_process() -> None:
    """What `trackside run RUN --events FILE.py` writes days after the run would be a process without a step."""
    item = b"\n\x19infrastructure/lost_steps\x82\x01\x011"
    stamp = b"\n\x0a_timestamp\x82\x01\x0c1795417415.0"
    row = b"".join(b"\n" + bytes([len(each)]) + each for each in (item, stamp)) + b"\x12\x00"
    with pytest.raises(UnrecognisedInputError, match="only events that Trackside drew into the run"):
        parsed(written(b"\x12" + bytes([len(row)]) + row), "run-a.wandb")


def test_a_log_without_a_known_name_is_counted_with_its_names() -> None:
    item = b"\n\x06my_nll\x82\x01\x031.5"
    stamp = b"\n\x0a_timestamp\x82\x01\x0c1795417415.0"
    row = b"".join(b"\n" + bytes([len(each)]) + each for each in (item, stamp)) + b"\x12\x00"  # HistoryStep 0
    record = b"\x12" + bytes([len(row)]) + row
    result = parsed(written(record), "a.wandb")
    assert result.rejects.select("reason", "raw").rows() == [
        ("no value in it is known to be one of a training step; name it: --set loss_key=NAME", "my_nll")
    ]
    steps = parsed(written(record), "a.wandb", loss_key="my_nll", global_batch=16, seq_len=128).frames["steps"]
    assert steps.select("loss", "tokens").rows() == [(1.5, 2048)]


@pytest.mark.parametrize(
    ("item", "value"),
    [
        (b"\x18\x00", None),
        (b"\x20\x01", True),
        (b"\x28\x03", -2),
        (b"\x31" + struct.pack("<d", 2.5), 2.5),
        (b"\x3a\x02hi", "hi"),
        (b"\x82\x01\x03NaN", pytest.approx(float("nan"), nan_ok=True)),
    ],
)
def test_values_have_types_of_their_own_since_0_28(item: bytes, value: object) -> None:
    entry = b"\n\x01x" + item
    assert history(b"\n" + bytes([len(entry)]) + entry) == {"x": value}


def test_nested_values_have_names_with_dots() -> None:
    """`run.log({"train": {"loss": 1.5}})`; W&B's own objects, such as a histogram, are values."""
    entry = b'\n\x05train\x82\x01\x30{"loss":1.5,"grad":{"_type":"histogram"},"a":{}}'
    row = history(b"\n" + bytes([len(entry)]) + entry)
    assert row == {"train.loss": 1.5, "train.grad": {"_type": "histogram"}}
    assert Names({}).chosen(row) == {"loss_key": 1.5}
