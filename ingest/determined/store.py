"""`trackside ingest determined`: allocations into the warehouse, one transaction per file, and their attempts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from ingest.determined.attempts import attempts_of
from ingest.determined.parse import KEY, latest, parse_allocations
from ingest.determined.sources import SCHEDULER, SOURCES
from ingest.files.input import Input
from ingest.future import without_future
from ingest.store.clusters import only_cluster
from ingest.store.each_file import load_each
from ingest.store.loads import Repetition, write_account
from ingest.store.request import from_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from ingest.store.report import LoadReport
    from ingest.tables import Parsed
    from queries.warehouse import Writer


def ingest_files(
    writer: Writer,
    files: Sequence[str],
    *,
    cluster: str | None,
    now: datetime,
    progress: Callable[[str, int, int], None],
) -> list[LoadReport]:
    """Load exports, each in a transaction of its own, in any order and any number of times.

    Args:
        writer: the warehouse.
        files: names of files; `-` is standard input.
        cluster: their cluster; if None, the only one with accounting.
        now: stored as the time of loading; rows of later are refused.
        progress: called with the current file, its number, and the number of files.

    Returns:
        One report for each file. A file that cannot be used is reported and leaves nothing behind.
    """

    def named() -> str:
        return cluster or only_cluster(writer, "an export of Determined names")

    return load_each(files, partial(_load, writer, now=now), cluster=named, progress=progress)


def _load(writer: Writer, name: str, cluster: str, *, now: datetime) -> Parsed:
    source = Input(name)
    parsed = parse_allocations(source.whole_text(), origin=source.name, cluster=cluster)
    parsed = without_future(parsed, origin=source.name, now=now)
    request, digest = from_file(source.name), source.digest()
    with writer.transaction():
        repetition = Repetition(writer, SOURCES[0], request=request, digest=digest)
        _write(writer, parsed.frames["determined_allocations"])
        derive(writer, cluster)
        parsed = repetition.counted(parsed)
        write_account(writer, parsed, request=request, digest=digest, now=now)
    return parsed


def _write(writer: Writer, allocations: pl.DataFrame) -> None:
    existing = writer.matching("determined_allocations", allocations, keys=KEY).select(allocations.columns)
    writer.replace("determined_allocations", latest(pl.concat([existing, allocations])), keys=KEY)


def derive(writer: Writer, cluster: str) -> None:
    """Derive attempts again from all allocations of a cluster: those with loaded pods are attempts of the pods."""
    key = pl.DataFrame({"cluster": [cluster]})
    allocations = writer.matching("determined_allocations", key, keys=["cluster"])
    attempts = attempts_of(allocations, writer.matching("pods", key, keys=["cluster"]))
    made = key.with_columns(scheduler=pl.lit(SCHEDULER))
    writer.delete("stored.attempts", made)
    writer.append("stored.attempts", attempts)
    writer.run("name_pods_of_determined")
    writer.delete("resubmissions", made)
    writer.run("add_resubmissions", {"jobs": attempts.select("cluster", "scheduler", "job_id").unique()})
