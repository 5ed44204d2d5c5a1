"""Packed logs that are cut: what can be unpacked is loaded and said to be a part; the whole log takes its place."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pytest

from ingest.runlog import store
from ingest.runlog.translation import LogRequest
from queries.warehouse import open_reader, open_writer
from tests.support.command import assert_same, contents, trackside
from tests.support.logs.framework_loops import PRINTERS, run_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ingest.store.report import LoadReport

NOW = datetime(2026, 12, 1, tzinfo=UTC)
PACK: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": lambda data: bz2.compress(data, 1),
    "zstd": lambda data: bytes(pa.compress(data, codec="zstd", asbytes=True)),
}
RUN = b'{"type":"run","v":1,"t":1790812800,"run_id":"llama","cluster":"alpha"}\n'


def run_log(n_steps: int) -> bytes:
    chance = random.Random(n_steps)
    line = b'{"type":"step","step":%d,"t":%d,"duration_s":2,"loss":%.6f}\n'
    return RUN + b"".join(line % (step, 1790812800 + 2 * step, chance.random()) for step in range(n_steps))


def load(warehouse: Path, log: Path) -> LoadReport:
    stated = LogRequest(
        facts={"n_gpus": 8, "seq_len": 4096}, timezone="UTC", begin=datetime(2026, 10, 1, 8, tzinfo=UTC)
    )
    with open_writer(warehouse, verb="test", now=NOW) as writer:
        (report,) = store.ingest_files(
            writer, [str(log)], cluster="alpha", now=NOW, progress=lambda *_: None, logs=stated
        )
    return report


def cut_warnings(report: LoadReport) -> list[tuple[int | None, str]]:
    assert report.parsed is not None, report.error
    return [(each.count, each.detail) for each in report.parsed.warnings if each.code == "packed_log_cut"]


@pytest.mark.slow
@pytest.mark.parametrize("packing", PACK)
def test_cut_log_gives_the_steps_before_its_cut(tmp_path: Path, packing: str) -> None:
    text = run_log(6_000)
    whole = PACK[packing](text)
    log = tmp_path / "llama.jsonl.packed"
    log.write_bytes(whole[: len(whole) * 2 // 3])
    report = load(tmp_path / "w", log)
    [(n_read, said)] = cut_warnings(report)
    assert said == packing
    assert n_read is not None
    before = text[:n_read]
    assert contents(tmp_path / "w")["steps"].height == before.count(b"\n") - 1
    assert before.count(b"\n") > 2_000
    assert report.parsed is not None
    assert report.parsed.rows_rejected == (not before.endswith(b"\n"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torchtitan", "transformers"])
def test_whole_log_takes_the_place_of_a_cut_one(tmp_path: Path, name: str) -> None:
    """The cut one is loaded twice, then the whole one."""
    whole = gzip.compress("".join(f"{line}\n" for line in run_of(PRINTERS[name]).lines).encode())
    log = tmp_path / "train.log.gz"
    for size in (len(whole) * 9 // 10, len(whole) * 9 // 10):
        log.write_bytes(whole[:size])
        report = load(tmp_path / "w", log)
        assert cut_warnings(report)
    assert report.parsed is not None
    assert report.parsed.rows_new == 0
    log.write_bytes(whole)
    assert not cut_warnings(load(tmp_path / "w", log))
    load(tmp_path / "reference", log)
    assert_same(tmp_path / "w", tmp_path / "reference")


def lightning() -> list[str]:
    rows = [f"0,{step},{2 + step / 100:.2f},{10 + step / 100:.2f}" for step in range(40)]
    return ["epoch,step,train_loss,train_step_time", *rows]


def mlperf() -> list[str]:
    value = '{"train_step_time": 2.25, "reduced_train_loss": %.2f}'
    entry = f':::MLLOG {{"time_ms": %d, "key": "tracked_stats", "value": {value}, "metadata": {{"step": %d}}}}'
    return [entry % (1790812800000 + 2250 * at, 9 - at / 10, at) for at in range(1, 40)]


@pytest.mark.slow
@pytest.mark.parametrize("lines", [lightning, mlperf])
@pytest.mark.parametrize("left_out", range(1, 12, 2))
def test_last_line_that_is_cut_is_whole_later(tmp_path: Path, lines: Callable[[], list[str]], left_out: int) -> None:
    text = "".join(f"{line}\n" for line in lines()).encode()
    log = tmp_path / ("metrics.csv" if lines is lightning else "result_0.txt")
    log.write_bytes(text[:-left_out])
    report = load(tmp_path / "w", log)
    assert report.parsed is not None, report.error
    assert report.parsed.rows_rejected == (left_out > 1 or lines is lightning)
    log.write_bytes(text)
    assert load(tmp_path / "w", log).error is None
    load(tmp_path / "reference", log)
    assert_same(tmp_path / "w", tmp_path / "reference")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "share"), [("deepspeed", 0.3), ("torchtitan", 0.5)])
def test_growing_log_keeps_no_line_cut_in_its_middle(tmp_path: Path, name: str, share: float) -> None:
    text = "".join(f"{line}\n" for line in run_of(PRINTERS[name]).lines).encode()
    log = tmp_path / "train.log"
    n_rejects = []
    for end in (text[: int(len(text) * share)], text):
        log.write_bytes(end)
        report = load(tmp_path / "w", log)
        assert report.parsed is not None
        n_rejects.append(report.parsed.rows_rejected)
    assert n_rejects == [1, 0]
    assert contents(tmp_path / "w")["rejects"].is_empty()


def test_cut_log_without_steps_is_refused_as_cut(tmp_path: Path) -> None:
    whole = gzip.compress(b"loading data\n" * 2_000 + random.Random(1).randbytes(1_000))
    log = tmp_path / "train.log.gz"
    log.write_bytes(whole[:-500])
    report = load(tmp_path / "w", log)
    assert "no line in it is a step" in str(report.error)
    assert "The gzip stream is cut off: only its first" in str(report.error)


def test_cut_log_is_said_to_be_one_where_people_look(tmp_path: Path) -> None:
    whole = gzip.compress(run_log(5_000))
    log = tmp_path / "llama.jsonl.gz"
    log.write_bytes(whole[:-2_000])
    done = trackside("ingest", "runlog", "--warehouse", str(tmp_path / "w"), str(log))
    assert done.returncode == 0, done.stderr
    assert "the gzip stream is cut off: its unpacked beginning" in done.stderr
    with open_reader(tmp_path / "w") as reader:
        [warning] = reader.table("loads")["warnings"][0]
    assert warning["code"] == "packed_log_cut"
    assert warning["count"] > 100_000
    assert f"its unpacked beginning ({warning['count']:,} bytes)" in done.stderr
