"""Binary logs as an attacker, or a broken disk, would write them: an answer or a reason, in bounded memory."""

from __future__ import annotations

import gzip
import random
import struct
import tracemalloc
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import InputError
from ingest.files.input import Input
from ingest.runlog.binary import LARGEST_RECORD
from ingest.runlog.formats.registry import chunks_of_run_log
from ingest.runlog.tensorboard.framing import masked_crc32c
from ingest.runlog.translation import Findings, LogRequest
from ingest.runlog.wandb.framing import BLOCK, HEADER
from tests.support.logs.binary_logs import DATA, EVENT_FILES, parsed, wandb_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

PIECE = 1 << 20


def wandb_fragment(kind: int, data: bytes) -> bytes:
    return struct.pack("<IHB", zlib.crc32(bytes([kind]) + data), len(data), kind) + data


def event_record(data: bytes, length: int | None = None) -> bytes:
    size = struct.pack("<Q", len(data) if length is None else length)
    return size + struct.pack("<I", masked_crc32c(size)) + data + struct.pack("<I", masked_crc32c(data))


EVENT = event_record(b"\x09" + struct.pack("<d", 1.79e9) + b"\x1a\x0dbrain.Event:2")
"""How an event file begins."""


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


MESSAGES = (
    b"\xff" * 4_000,  # a number without end
    varint(1 << 3 | 2) + varint(1 << 62),  # a text of exabytes
    varint(1 << 3 | 2) + varint(3) + b"ab",  # one that is cut
    varint((1 << 60) << 3 | 0) + b"\x01",  # a field of a high number
    varint(17 << 3 | 3) * 5_000,  # groups within groups
    b"\x0a\x02" * 10_000,  # texts within each other
)


def outcome(data: bytes, name: str) -> int:
    """How many steps are read; -1 where it is refused with a reason."""
    try:
        return parsed(data, name).frames["steps"].height
    except InputError:
        return -1


@given(st.binary(max_size=4_000), st.sampled_from([HEADER, EVENT]))
def test_random_bytes_are_no_steps(data: bytes, head: bytes) -> None:
    assert outcome(head + data, "run") <= 0


@pytest.mark.parametrize("message", MESSAGES, ids=range(len(MESSAGES)))
def test_messages_that_claim_too_much_are_no_steps(message: bytes) -> None:
    assert outcome(HEADER + wandb_fragment(1, message[: BLOCK - 20]), "a.wandb") <= 0
    assert outcome(EVENT + event_record(message), "events.out.tfevents.1.n") <= 0


@pytest.mark.parametrize("length", [1 << 31, 1 << 32, 1 << 62, (1 << 64) - 1])
def test_a_huge_length_with_its_checksum_is_one_damage(length: int) -> None:
    good = EVENT_FILES[0].read_bytes()
    whole = outcome(good, EVENT_FILES[0].name)
    assert whole > 0
    assert outcome(good + event_record(b"x" * 50, length), EVENT_FILES[0].name) == whole


@pytest.mark.slow
def test_files_cut_at_any_byte_have_the_steps_before(tmp_path: Path) -> None:
    logs = [wandb_folder("0.31.0", "second", tmp_path), EVENT_FILES[0]]
    for log in logs:
        data = log.read_bytes()
        places = random.Random(1).sample(range(len(data)), 40)
        counts = [outcome(data[:at], log.name) for at in sorted(places)]
        assert counts == sorted(counts)
        assert max(counts) <= outcome(data, log.name)


def zeros(size: int) -> Iterator[bytes]:
    yield from (bytes(PIECE) for _ in range(size // PIECE))


def endless_wandb_record(size: int) -> Iterator[bytes]:
    """A record that begins and does not end: its fragments fill blocks."""
    yield HEADER + wandb_fragment(2, bytes(BLOCK - 14))
    block = wandb_fragment(3, bytes(BLOCK - 7))
    yield from (block * 32 for _ in range(size // BLOCK // 32))


def behind(head: bytes, filler: Callable[[int], Iterable[bytes]]) -> Callable[[int], Iterator[bytes]]:
    def made(size: int) -> Iterator[bytes]:
        yield head
        yield from filler(size)

    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    "filler",
    [behind(HEADER, zeros), endless_wandb_record, behind(EVENT + event_record(b"", 1 << 40)[:12], zeros)],
    ids=["wandb-zeros", "wandb-endless", "events-huge"],
)
def test_memory_is_bounded_whatever_follows(filler: Callable[[int], Iterator[bytes]]) -> None:
    size = 4 * LARGEST_RECORD
    tracemalloc.start()
    try:
        _drained(filler(size))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < size * 0.75


def _drained(chunks: Iterable[bytes]) -> None:
    request: dict[str, Any] = {"run_id": "r", "cluster": "c"}
    try:
        for _ in chunks_of_run_log(chunks, "run", LogRequest(request), Findings()):
            pass
    except InputError:
        pass


@pytest.mark.slow
def test_a_bomb_of_gzip_is_read_in_pieces(tmp_path: Path) -> None:
    size = 1 << 28
    path = tmp_path / "run.wandb.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(HEADER)
        for piece in zeros(size):
            file.write(piece)
    assert path.stat().st_size < size / 100
    tracemalloc.start()
    try:
        _drained(Input(str(path)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < size * 0.75


def test_the_fixtures_are_read(tmp_path: Path) -> None:
    assert DATA.exists()
    log = wandb_folder("0.31.0", "second", tmp_path)
    assert outcome(log.read_bytes(), log.name) > 0
