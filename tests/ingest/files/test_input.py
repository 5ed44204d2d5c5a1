"""Inputs that are no plain files, and text whose lines do not end: refused with a reason, without waiting for ever."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import random
import socket
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from ingest.errors import InputError
from ingest.files import input as input_stream
from ingest.files.input import CHUNK, LONGEST_LINE, Input
from ingest.files.safe_open import open_input
from tests.support.command import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

SHORT_S = 0.2


def test_a_pipe_that_nothing_writes_into_is_refused_in_time(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    threads = threading.active_count()
    with pytest.raises(InputError, match="a named pipe that nothing writes into; start the command"):
        open_input(tmp_path / "pipe", writer_s=SHORT_S)
    assert threading.active_count() == threads


def test_a_pipe_whose_writer_comes_late_and_is_slow_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    script = f"sleep 0.2; exec > {tmp_path / 'pipe'}; echo one; sleep 0.3; echo two"
    with subprocess.Popen(["/bin/sh", "-c", script]), open_input(tmp_path / "pipe", writer_s=60) as file:
        assert file.read() == b"one\ntwo\n"


def test_process_substitution_is_an_input_like_others() -> None:
    read, write = os.pipe()
    os.write(write, b"here\n")
    os.close(write)
    try:
        assert Input(f"/dev/fd/{read}").whole() == b"here\n"
    finally:
        os.close(read)


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/urandom", "/dev/full"])
def test_a_device_is_no_input(name: str) -> None:
    with pytest.raises(InputError, match=f"{name}: this is a device, not a file"):
        Input(name)


def test_nothing_is_an_empty_input() -> None:
    assert Input(os.devnull).whole() == b""


def test_a_socket_is_no_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("here")
        with pytest.raises(InputError, match="here: this is a socket, not a file"):
            Input("here")


def test_a_folder_is_no_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Is a directory; name the files in it"):
        Input(str(tmp_path))


def test_a_link_to_nothing_is_no_input(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(InputError, match="link: No such file or directory"):
        Input(str(tmp_path / "link"))


def test_a_link_to_itself_is_no_input(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(InputError, match="link: "):
        Input(str(tmp_path / "link"))


def test_a_name_with_a_nul_is_no_input() -> None:
    with pytest.raises(InputError, match=r"'a\\x00b': no file can have this name"):
        Input("a\0b")


def test_a_name_that_is_no_text_is_one_where_it_is_kept(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")
    Path(name).write_bytes(b"here")
    source = Input(name)
    assert source.whole() == b"here"
    assert source.name == f"{tmp_path}/\\xff.txt"


def opened(path: Path) -> bool:
    """Whether this process has a file open."""
    return str(path) in {os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()}


def test_an_input_that_is_broken_off_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(b"line\n" * CHUNK)
    with Input(str(path)) as source:
        chunks = iter(source)
        next(chunks)
        assert opened(path)
    assert not opened(path)


# --- lines without an end


def packed(path: Path, text: bytes, times: int, end: bytes = b"") -> str:
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(times):
            file.write(text)
        file.write(end)
    return str(path)


@pytest.mark.parametrize("begin", [b"JobID|State\n", b'{"jobs":[{"name":"', b"NodeName=n1 State=IDLE\n"])
def test_text_without_ends_is_refused_before_it_is_read(tmp_path: Path, begin: bytes) -> None:
    name = packed(tmp_path / "bomb.gz", b"x" * (1 << 20), 64)
    (tmp_path / "both.gz").write_bytes(gzip.compress(begin) + Path(name).read_bytes())
    source = Input(str(tmp_path / "both.gz"))
    read: list[int] = []
    with pytest.raises(InputError, match="is longer than 1,048,576 bytes; is the file damaged"):
        read.extend(len(piece) for piece in source.in_lines())
    assert sum(read) <= CHUNK
    assert not opened(tmp_path / "both.gz")


def test_text_whose_lines_end_is_read_whole(tmp_path: Path) -> None:
    line = b"y" * (LONGEST_LINE - 1) + b"\n"
    name = packed(tmp_path / "long.gz", line, 20)
    assert b"".join(Input(name).in_lines()) == line * 20
    assert b"".join(Input(name).with_short_lines()) == line * 20


@pytest.mark.slow
def test_json_in_one_line_is_text_whose_strings_end(tmp_path: Path) -> None:
    name = packed(tmp_path / "one.gz", b'{"name":"job"},', 3 << 20)
    (tmp_path / "json.gz").write_bytes(gzip.compress(b'\xef\xbb\xbf{"jobs":[') + Path(name).read_bytes())
    assert len(b"".join(Input(str(tmp_path / "json.gz")).in_lines())) == (3 << 20) * 15 + 12


@pytest.mark.parametrize("piece", [1 << 10, 1 << 16, CHUNK])
def test_lines_after_a_hole_in_a_run_log_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(input_stream, "CHUNK", piece)
    before, behind = b'{"a":1}\n{"b":', b'{"c":3}\n{"d":4}\n'
    (tmp_path / "log").write_bytes(before + b"\0" * (40 << 20) + behind)
    source = Input(str(tmp_path / "log"))
    text = b"".join(source.with_short_lines())
    lines = text.split(b"\n")
    assert source.digest() == hashlib.sha256(text).hexdigest()
    assert (lines[0], lines[2:]) == (b'{"a":1}', [b'{"d":4}', b""])
    assert lines[1].startswith(b'{"b":\0\0')
    assert lines[1].endswith(b'\0{"c":3}')
    assert len(lines[1]) <= LONGEST_LINE + (1 << 17) or piece == CHUNK


_PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": lambda data: bz2.compress(data, 1),
    "zstd": lambda data: bytes(pa.compress(data, codec="zstd", asbytes=True)),
}
_TEXT = random.Random(1).randbytes(1 << 18)


@pytest.mark.parametrize("packing", _PACK)
def test_a_packed_file_is_read_as_what_is_in_it(tmp_path: Path, packing: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(_PACK[packing](_TEXT))
    assert Input(str(path)).whole() == _TEXT


@pytest.mark.parametrize("packing", _PACK)
def test_a_packed_file_that_is_cut_off_is_refused(tmp_path: Path, packing: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(_PACK[packing](_TEXT)[:-100])
    with pytest.raises(InputError, match=f"the {packing} stream is cut off"):
        Input(str(path)).whole()


_LINES = b"".join(b"step %d loss %d\n" % (step, step * 7919 % 10_007) for step in range(20_000))


@pytest.mark.parametrize("packing", _PACK)
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_cut_file_that_may_be_cut_is_read_to_its_cut(tmp_path: Path, packing: str, share: float) -> None:
    whole = _PACK[packing](_LINES)
    path = tmp_path / "log"
    path.write_bytes(whole[: int(len(whole) * share)])
    source = Input(str(path), may_be_cut=True)
    text = source.whole()
    assert _LINES.startswith(text)
    assert len(text) > share / 2 * len(_LINES)
    assert (source.cut, source.n_unpacked) == (packing, len(text))


@pytest.mark.parametrize("packing", _PACK)
def test_cut_file_is_refused_if_none_of_it_is_unpacked(tmp_path: Path, packing: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(_PACK[packing](_TEXT)[:12])
    with pytest.raises(InputError, match=f"the {packing} stream is cut off"):
        Input(str(path), may_be_cut=True).whole()


@pytest.mark.parametrize("packing", _PACK)
def test_whole_file_that_may_be_cut_is_not(tmp_path: Path, packing: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(_PACK[packing](_LINES))
    source = Input(str(path), may_be_cut=True)
    assert source.whole() == _LINES
    assert source.cut is None


def test_gzip_gives_every_byte_before_its_cut(tmp_path: Path) -> None:
    """As zlib alone unpacks it: what is left in it at the end of the input counts, too."""
    whole = gzip.compress(b"a" * 300_000)
    path = tmp_path / "log"
    for size in range(40, len(whole)):
        path.write_bytes(whole[:size])
        knew = zlib.decompressobj(31).decompress(whole[:size])
        assert Input(str(path), may_be_cut=True).whole() == knew


@pytest.mark.parametrize("packing", ["gzip", "xz", "bzip2"])
def test_a_packed_file_that_is_damaged_is_refused(tmp_path: Path, packing: str) -> None:
    path = tmp_path / "log"
    whole = _PACK[packing](_TEXT)
    path.write_bytes(whole[:200_000] + b"\0" * 1_000 + whole[201_000:])
    with pytest.raises(InputError, match=f"the {packing} stream is damaged"):
        Input(str(path)).whole()


@pytest.mark.parametrize(
    ("packing", "between"), [*((packing, b"") for packing in _PACK), ("xz", b"\0" * 4), ("gzip", b"\0" * 4)]
)
def test_joined_packed_files_are_read_whole(tmp_path: Path, packing: str, between: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(_PACK[packing](b"first\n") + between + _PACK[packing](_TEXT))
    assert Input(str(path)).whole() == b"first\n" + _TEXT


@pytest.mark.parametrize("packing", ["xz", "bzip2"])
@pytest.mark.parametrize("at", [0, 3, 8])
def test_damaged_later_stream_is_not_left_out(tmp_path: Path, packing: str, at: int) -> None:
    later = bytearray(_PACK[packing](_TEXT))
    later[at] ^= 0xFF
    path = tmp_path / "log"
    path.write_bytes(_PACK[packing](b"first\n") + later)
    with pytest.raises(InputError):
        Input(str(path)).whole()


def test_xz_that_requests_gigabytes_is_refused(tmp_path: Path) -> None:
    whole = bytearray(lzma.compress(b"step 1\n"))
    header = whole[12:24]  # of the first block: its dictionary's size is one byte
    header[4] = 40
    header[8:] = zlib.crc32(bytes(header[:8])).to_bytes(4, "little")
    whole[12:24] = header
    path = tmp_path / "log.xz"
    path.write_bytes(whole)
    with pytest.raises(InputError, match="the xz stream is damaged"):
        Input(str(path)).whole()


def test_text_that_begins_like_bzip2_is_text(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"BZhang|gpu|100\n")
    assert Input(str(path)).whole() == b"BZhang|gpu|100\n"


MEMORY = """
import resource, sys
from ingest.files.input import Input
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
print(sum(map(len, getattr(Input(sys.argv[1]), sys.argv[3])())))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["in_lines", "with_short_lines"])
def test_gigabyte_line_in_a_small_file_needs_little_memory(tmp_path: Path, how: str) -> None:
    name = packed(tmp_path / "bomb.gz", b"x" * (1 << 20), 1 << 10)
    assert Path(name).stat().st_size < 1 << 23
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, name, str(1 << 29), how], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if how == "in_lines":
        assert "InputError: " in done.stderr.splitlines()[-1]
    else:
        assert int(done.stdout) <= LONGEST_LINE + CHUNK
