"""Small tools for reading and writing sacct text in tests."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.context import ParseContext
from ingest.slurm.accounting.sacct import parse_accounting

if TYPE_CHECKING:
    import polars as pl

    from ingest.tables import Parsed

DATA = Path(__file__).parents[2] / "data" / "slurm"

ROW = {
    "JobID": "7",
    "JobIDRaw": "7",
    "DBIndex": "70",
    "Cluster": "c1",
    "Partition": "main",
    "User": "alice",
    "UID": "2001",
    "Submit": "1795247700",
    "Eligible": "1795247700",
    "Start": "1795247786",
    "End": "1795247886",
    "ElapsedRaw": "100",
    "State": "COMPLETED",
    "ExitCode": "0:0",
    "NNodes": "2",
    "ReqTRES": "cpu=2,gres/gpu=16,node=2",
    "AllocTRES": "billing=2,cpu=2,gres/gpu:h100=16,gres/gpu=16,mem=2000M,node=2",
    "NodeList": "n[1-2]",
    "JobName": "train",
}
"""A job that ran 100 s on two nodes with 8 GPUs each."""

NEVER_RAN = {
    "Start": "None",
    "End": "1795247886",
    "ElapsedRaw": "0",
    "State": "CANCELLED by 2001",
    "NNodes": "1",
    "NodeList": "None assigned",
}


def text(*rows: dict[str, str], columns: list[str] | None = None, delimiter: str = "|") -> bytes:
    """Sacct text of rows that differ from ROW in the values given."""
    full = [{**ROW, **row} for row in rows]
    names = columns or list(dict.fromkeys(name for row in full for name in row))
    lines = [delimiter.join(names), *(delimiter.join(row.get(name, "") for name in names) for row in full)]
    return ("\n".join(lines) + "\n").encode()


def parse(data: bytes, *, timezone: str | None = None, cluster: str | None = None, **options: object) -> Parsed:
    """Parse accounting text whose name does not matter."""
    return parse_accounting(data, ParseContext(origin="jobs.txt", timezone=timezone, cluster=cluster, **options))  # type: ignore[arg-type]  # the parser's own options


def attempt(*rows: dict[str, str], **options: object) -> dict[str, object]:
    """The one attempt that the rows make."""
    parsed = parse(text(*rows), **options)  # type: ignore[arg-type]  # as above
    assert parsed.rejects["reason"].to_list() == []
    return parsed.frames["attempts"].row(0, named=True)


def refusals(parsed: Parsed) -> list[tuple[int, str]]:
    """Line and reason of each refused row."""
    return parsed.rejects.select("line", "reason").rows()


def at(epoch: int, microseconds: int = 0) -> datetime:
    """A moment by its epoch."""
    return datetime.fromtimestamp(epoch, UTC).replace(microsecond=microseconds)


def same_rows(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    """Whether two frames have the same rows, in any order."""
    key = ["cluster", "scheduler", "job_id", "submitted_at"]
    return one.sort(key).equals(other.select(one.columns).sort(key))
