"""Source of a file by its beginning: the hint where a person named another source, or none."""

from __future__ import annotations

import shlex
from pathlib import Path

from ingest.errors import InputError
from ingest.files.input import Input
from ingest.prometheus.files.api_json import is_api_json
from ingest.prometheus.files.parquet_tables import MAGIC
from ingest.ranks.flight_recorder import is_dump
from ingest.ranks.kineto import is_kineto
from ingest.ranks.parse import TYPE as RANK_LINE
from ingest.runlog.folders import why_no_log
from ingest.runlog.formats.registry import is_run_log
from ingest.slurm.detect import detect_kind, is_telemetry


def command_for(name: str) -> str | None:
    """The command that loads a file; None where it is none that is known, or cannot be read."""
    source = source_of(name)
    return None if source is None else f"trackside ingest {source} {shlex.quote(name)}"


def source_of(name: str) -> str | None:
    """The folder of sources that a file is of.

    Args:
        name: of a file; no standard input, which is read once.
    """
    try:
        if not Path(name).is_file():
            return None
        with Input(name) as source:
            head = source.head
        by_content = _by_content(head)
        if by_content is not None:
            return by_content
        if head.startswith(MAGIC) or is_api_json(head) or is_telemetry(head.decode("utf-8", "replace")):
            return "prometheus"
        if is_run_log(head) or why_no_log(name, name) is None:
            return "runlog"
        return detect_kind(head, origin=name).partition(".")[0]
    except (InputError, OSError, ValueError):
        return None


def _by_content(head: bytes) -> str | None:
    """The folder of a file that bears the mark of its source; None where it bears none."""
    if b"apiVersion" in head:
        return "kubernetes"
    if b"allocation_id" in _first_line(head):
        return "determined"
    return "ranks" if _is_of_ranks(head) else None


def _is_of_ranks(head: bytes) -> bool:
    """Whether a file begins as rank times, a profile of PyTorch or a dump of the NCCL flight recorder."""
    return f'"{RANK_LINE}"'.encode() in _first_line(head) or is_kineto(head) or is_dump(head)


def _first_line(head: bytes) -> bytes:
    return head.lstrip().partition(b"\n")[0].lower()
