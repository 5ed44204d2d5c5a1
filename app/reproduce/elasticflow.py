"""ElasticFlow's traces of ten clusters of Microsoft's ITP: 69,351 jobs of two months of 2021, as accounting."""

from __future__ import annotations

import csv
import io
import math
import re
import tarfile
import zlib
from typing import TYPE_CHECKING, Final

import polars as pl

from app.errors import UsageError
from app.reproduce.publication import Comparison, Publication, Sources, computed_windows
from app.results.goodput import goodput_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from app.window import Window
    from queries.warehouse import Reader

BEGIN: Final = 1_614_816_000
"""2021-03-04T00:00:00Z, the day on which the traces begin; times in them are seconds from the beginning."""

COLUMNS: Final = {"job_id", "submission_time", "duration", "num_gpu"}

PUBLISHED_GPU_HOURS: Final = {
    "cluster-01": 22_740.1,
    "cluster-02": 123_748.4,
    "cluster-03": 165_442.5,
    "cluster-04": 705_682.9,
    "cluster-05": 14_303.1,
    "cluster-06": 123_878.7,
    "cluster-07": 366_799.8,
    "cluster-08": 67_100.0,
    "cluster-09": 39_000.8,
    "cluster-10": 4_023.5,
}
TOTAL_GPU_HOURS: Final = 1_632_719.7


def read(path: Path) -> Sources:
    """The CSV files below a path, or in its archive, one cluster each.

    Raises:
        UsageError: there are none, or one cannot be read.
    """
    sources = Sources()
    for number, (name, text) in _numbered(_files(path)):
        rows = csv.DictReader(io.StringIO(text))
        if not set(rows.fieldnames or ()) >= COLUMNS:
            sources.left_out.append(f"{name}: its columns are not {', '.join(sorted(COLUMNS))}")
            continue
        for at, row in enumerate(rows, 1):
            try:
                sources.accounting.append(_job(f"cluster-{number:02d}", at, row))
            except (ValueError, TypeError) as error:
                sources.left_out.append(f"{name}, row {at}: {error}")
    if not sources.accounting:
        raise UsageError(
            f"{path}: no trace of ElasticFlow: ten CSV files with job_id, submission_time, duration, num_gpu"
        )
    return sources


def _numbered(files: Iterable[tuple[str, str]]) -> list[tuple[int, tuple[str, str]]]:
    """Each file with the number in its name; those without one, or with one that is taken, after the others.

    >>> [(number, name) for number, (name, _) in _numbered([("b.csv", ""), ("cluster-3.csv", ""), ("c1.csv", "")])]
    [(1, 'c1.csv'), (3, 'cluster-3.csv'), (4, 'b.csv')]
    """
    numbered: dict[int, tuple[str, str]] = {}
    others = []
    for name, text in sorted(files):
        match = _NUMBER.search(name)
        number = int(match[1]) if match else 0
        if match is None or number in numbered:
            others.append((name, text))
        else:
            numbered[number] = (name, text)
    return [*sorted(numbered.items()), *enumerate(others, max(numbered, default=0) + 1)]


_NUMBER: Final = re.compile(r"(\d{1,4})(?=\D*$)")
"""The last number in a name."""


def _files(path: Path) -> Iterator[tuple[str, str]]:
    """The CSV files: unpacked ones, else those in archives, since a folder may hold both.

    Raises:
        UsageError: one cannot be read.
    """
    unpacked = sorted(path.rglob("*.csv")) if path.is_dir() else []
    archives = sorted(path.rglob("*.tar.gz")) if path.is_dir() else [path]
    try:
        for file in unpacked:
            yield file.name, file.read_text("utf-8")
        for archive in [] if unpacked else archives:
            yield from _packed(archive)
    except (OSError, EOFError, zlib.error, tarfile.TarError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


def _packed(archive: Path) -> Iterator[tuple[str, str]]:
    with tarfile.open(archive) as opened:
        for member in opened:
            stream = opened.extractfile(member) if member.name.endswith(".csv") else None
            if stream is not None:
                yield member.name.rpartition("/")[2], stream.read().decode()


def _job(cluster: str, number: int, row: dict[str, str]) -> tuple[object, ...]:
    """A job as accounting: it starts when it is submitted, on one node of its own."""
    gpus = int(row["num_gpu"])
    begin = BEGIN + int(row["submission_time"])
    end = begin + int(row["duration"])
    who = ("itp", "itp", "batch", row["job_id"], "COMPLETED", "0:0")
    return (number, number, cluster, *who, begin, begin, begin, end, 1, f"n{number}", f"gres/gpu={gpus},node=1")


def compare(reader: Reader, _: Sources) -> list[Comparison]:
    """GPU-hours of each cluster's ledger, and their total."""
    hours = {window.cluster: _gpu_hours(reader, window) for window in computed_windows(reader)}
    rows = [
        Comparison(f"GPU-hours of {name}", "GPU-h", PUBLISHED_GPU_HOURS.get(name), value)
        for name, value in hours.items()
    ]
    return [*rows, Comparison("GPU-hours of all", "GPU-h", TOTAL_GPU_HOURS, math.fsum(hours.values()))]


def _gpu_hours(reader: Reader, window: Window) -> float:
    rows = goodput_rows(reader, window).filter(pl.col("metric") == "goodput_allocated")
    return float(rows["denominator"][0]) / 3600


PUBLICATION: Final = Publication(
    "elasticflow",
    "ElasticFlow (ASPLOS 2023): GPU-hours of ten clusters of Microsoft",
    "github.com/microsoft/elasticflow-traces (MIT): raw-traces.tar.gz",
    read,
    compare,
)
