"""The reports that were written, as rows: with what has become of their files."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from app.reports import records

if TYPE_CHECKING:
    from app.reports.records import ReportRecord

SCHEMA = {
    "written_at": pl.String,
    "report": pl.String,
    "cluster": pl.String,
    "period": pl.String,
    "form": pl.String,
    "state": pl.String,
    "supported": pl.Int64,
    "refuted": pl.Int64,
    "undetermined": pl.Int64,
    "file": pl.String,
    "path": pl.String,
    "claims": pl.String,
    "sha256": pl.String,
}


def listed(root: Path, *, cluster: str | None = None, period: str | None = None) -> pl.DataFrame:
    """The reports written, the newest first.

    Args:
        root: the warehouse directory.
        cluster: only of this one.
        period: only of this one, as it was requested.

    Returns:
        `SCHEMA`. `state` is final or provisional; `file` what has become of the file: unchanged, changed, gone,
        or unknown where it was no file.
    """
    found = [
        each
        for each in reversed(records.read(root))
        if cluster in {None, each.cluster} and period in {None, each.period}
    ]
    rows = [asdict(each) | {"state": "final" if each.final else "provisional", "file": _fate(each)} for each in found]
    return pl.DataFrame(rows, schema=SCHEMA, strict=False)


def _fate(record: ReportRecord) -> str:
    if record.file_sha256 is None:
        return "unknown"
    try:
        content = Path(record.path).read_bytes()
    except OSError:
        return "gone"
    return "unchanged" if hashlib.sha256(content).hexdigest() == record.file_sha256 else "changed"
