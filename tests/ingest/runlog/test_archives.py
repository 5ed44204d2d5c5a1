"""Archives of logs: as the logs themselves; cut, hostile and empty ones say so and leave nothing behind."""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from ingest.files import archive
from ingest.runlog import store
from queries.warehouse import open_writer
from tests.support.command import contents
from tests.support.logs.framework_loops import PRINTERS, run_of

if TYPE_CHECKING:
    from ingest.store.report import LoadReport

NOW = datetime(2026, 12, 1, tzinfo=UTC)
TITAN = "\n".join(run_of(PRINTERS["torchtitan"]).lines).replace(",000 - ", "Z - ").encode() + b"\n"
RUN_LOG = b"""\
{"type":"run","v":1,"t":1790812800,"run_id":"llama","cluster":"alpha"}
{"type":"step","step":1,"t":1790812801,"duration_s":2}
"""
FILES = {"logs/slurm-29.out": TITAN, "logs/rank0.jsonl": RUN_LOG, "logs/notes.txt": b"hello\n", "logs/none": b""}


def tar(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as out:
        out.addfile(_entry("logs", type=tarfile.DIRTYPE))
        out.addfile(_entry("logs/link", type=tarfile.SYMTYPE, linkname="/etc/passwd"))
        for name, data in files.items():
            out.addfile(_entry(name, size=len(data)), io.BytesIO(data))
    return made.getvalue()


def _entry(name: str, **fields: object) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(entry, field, value)
    return entry


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def load(warehouse: Path, *names: Path) -> list[LoadReport]:
    with open_writer(warehouse, verb="test", now=NOW) as writer:
        files = [str(name) for name in names]
        reports = store.ingest_files(writer, files, cluster="alpha", now=NOW, progress=lambda *_: None)
    assert not list(Path(tempfile.gettempdir()).glob("trackside-*/*"))
    return reports


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


@pytest.mark.slow
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd], ids=["plain", "gzip", "zstd"])
def test_an_archive_is_the_logs_in_it(tmp_path: Path, pack: type[bytes]) -> None:
    (tmp_path / "logs.bin").write_bytes(pack(tar(FILES)))
    for name, data in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    *reports, passed_over = load(tmp_path / "packed", tmp_path / "logs.bin")
    assert passed_over.origin.endswith("files without a step of training: 1 (notes.txt)")
    assert [(Path(report.origin).name, report.error) for report in reports] == [
        ("slurm-29.out", None),
        ("rank0.jsonl", None),
    ]
    load(tmp_path / "plain", tmp_path / "logs")
    packed, plain = (contents(tmp_path / one) for one in ("packed", "plain"))
    assert packed["steps"].height == 101
    assert_frame_equal(*(one["steps"].sort("run_id", "ts", "step") for one in (packed, plain)))
    assert set(packed["run_sessions"]["run_id"]) == {"slurm-29", "llama"}


@pytest.mark.slow
def test_a_log_in_zstandard_is_the_log(tmp_path: Path) -> None:
    (tmp_path / "train.log.zst").write_bytes(zstd(TITAN))
    (report,) = load(tmp_path / "w", tmp_path / "train.log.zst")
    assert report.parsed is not None
    assert set(contents(tmp_path / "w")["run_sessions"]["run_id"]) == {"train"}


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd], ids=["plain", "gzip", "zstd"])
def test_of_a_cut_archive_what_is_whole_is_loaded(tmp_path: Path, pack: type[bytes]) -> None:
    noise = bytes(range(256)) * 4_000
    whole = pack(tar({"a.jsonl": RUN_LOG, "noise": noise, "b.out": TITAN}))
    for share in (0.3, 0.9):
        (tmp_path / "logs").write_bytes(whole[: int(len(whole) * share)])
        *loaded, last = load(tmp_path / f"w{share}", tmp_path / "logs")
        assert "cut" in str(last.error)
        assert [Path(report.origin).name for report in loaded] in ([], ["a.jsonl"], ["a.jsonl", "b.out"])
        assert all(report.error is None for report in loaded)


def test_no_name_leads_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "logs.tar").write_bytes(tar({"../../up.jsonl": RUN_LOG, str(tmp_path / "abs.jsonl"): RUN_LOG}))
    assert [report.error for report in load(tmp_path / "w", tmp_path / "logs.tar")] == [None, None]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs.tar", "tmp", "w"]


def test_an_archive_without_logs_and_a_bomb_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "none.tar").write_bytes(tar({"notes": b"hello"}))
    assert "without a file that is read" in str(load(tmp_path / "w", tmp_path / "none.tar")[0].error)
    monkeypatch.setattr(archive, "LARGEST", 1 << 20)
    (tmp_path / "bomb.tgz").write_bytes(gzip.compress(tar({"zeros": bytes(1 << 21)})))
    assert "unpack it and name the files" in str(load(tmp_path / "w", tmp_path / "bomb.tgz")[0].error)
