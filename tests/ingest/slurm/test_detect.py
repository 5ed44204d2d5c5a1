from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from ingest.errors import DelimiterError, InputError, TruncatedInputError, UnrecognisedInputError
from ingest.files.input import Input
from ingest.slurm.accounting.sacct import DOCUMENTED_ORDER
from ingest.slurm.detect import detect_kind
from tests.support.slurm.parsing import DATA, ROW, text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("kill-requeue.sacct.txt", "slurm.accounting"),
        ("torn.sacct-all.txt", "slurm.accounting"),
        ("events.sacctmgr.txt", "slurm.events"),
        ("events-utc.sacctmgr.txt", "slurm.events"),
        ("nodes.scontrol.txt", "slurm.nodes"),
        ("nodes-o.scontrol.txt", "slurm.nodes"),
        ("config.scontrol.txt", "slurm.config"),
    ],
)
def test_each_kind_of_text_is_detected_by_its_beginning(name: str, kind: str) -> None:
    assert detect_kind((DATA / name).read_bytes()) == kind


def test_the_documented_order_is_detected_without_a_header() -> None:
    lower = {name.lower(): value for name, value in ROW.items()} | {"elapsed": "00:01:40"}
    assert detect_kind("|".join(lower.get(name, "") for name in DOCUMENTED_ORDER).encode()) == "slurm.accounting"


def test_a_job_comment_like_a_node_does_not_mislead() -> None:
    assert detect_kind(text({"JobName": "x\nNodeName=n1"})) == "slurm.accounting"


@pytest.mark.parametrize("data", [b"hello\n", b"REASON|USER|TIMESTAMP|NODELIST\nx|y|z|n1\n", b"\x00\x01", b"\x1c"])
def test_anything_else_is_shown_with_what_is_accepted(data: bytes) -> None:
    with pytest.raises(UnrecognisedInputError, match="sacctmgr -P show event"):
        detect_kind(data)


def test_empty_file_is_reported() -> None:
    with pytest.raises(UnrecognisedInputError, match="empty"):
        detect_kind(b"\n")


def test_human_readable_table_differs_from_other_commands() -> None:
    with pytest.raises(DelimiterError):
        detect_kind(b"JobID           JobName  Partition    State\n--- ---\n")
    with pytest.raises(UnrecognisedInputError):
        detect_kind(b"REASON               USER      TIMESTAMP           NODELIST\n")


def test_gzip_is_unpacked_whatever_the_file_is_called(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(gzip.compress(b"hello"))
    (tmp_path / "b.gz").write_bytes(b"hello")
    assert Input(str(tmp_path / "a.txt")).whole() == Input(str(tmp_path / "b.gz")).whole() == b"hello"


def test_a_gzip_stream_that_was_cut_is_truncated(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"hello" * 1000)[:-12])
    with pytest.raises(TruncatedInputError, match="cut off"):
        Input(str(path)).whole()


def test_damaged_gzip_and_a_missing_file_are_input_errors(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(b"\x1f\x8b" + b"x" * 50)
    with pytest.raises(InputError, match="damaged"):
        Input(str(path)).whole()
    with pytest.raises(InputError, match="No such file"):
        Input(str(tmp_path / "none")).whole()
