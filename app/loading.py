"""Parsed inputs into the warehouse: one transaction each, merged with what is there, and an account of every load."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl
from polars.exceptions import PanicException, PolarsError

from app import loading_nodes, loading_people
from app.attempts import AttemptWriter
from app.errors import UsageError
from ingest import registry
from ingest.errors import InputError
from ingest.future import without_future
from ingest.slurm.accounting.controller_jobs import merge_job_gpus
from ingest.slurm.nodes.merge import merge_node_states, merge_nodes, merge_topology
from ingest.slurm.nodes.reservations import maintenance_states, merge_reservations
from ingest.tables import JOB_GPUS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Sequence
    from datetime import datetime

    from ingest.tables import Parsed, SourceName
    from queries.warehouse import Writer

    MergeSpells = Callable[[pl.DataFrame, pl.DataFrame, pl.DataFrame], pl.DataFrame]


FAULTS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError,
    PanicException, PolarsError,
)  # fmt: skip
"""Errors of code and data. What stops all inputs (a full disk, a signal to stop) is none of them."""


class InputFaultError(RuntimeError):
    """An input could not be loaded, for a reason that nobody foresaw. The others are."""


def fault_of(origin: str, error: BaseException) -> Exception:
    """What to report of one input that could not be loaded, so that the others are."""
    if isinstance(error, (InputError, UsageError)):
        return error
    if isinstance(error, MemoryError):
        return InputError(f"{origin}: it needs more memory than there is here; load it in parts")
    first = next(iter(str(error).splitlines()), "")
    fault = InputFaultError(f"{origin} could not be loaded ({type(error).__name__}: {first}); please report it")
    fault.__cause__ = error
    return fault


@dataclass(frozen=True)
class Report:
    """What came of one input: loaded (`parsed`), or not (`error`); `said_before` are warnings that nobody need hear."""

    origin: str
    parsed: Parsed | None = None
    error: Exception | None = None
    said_before: Collection[str] = ()

    @property
    def fresh(self) -> list[str]:
        """The warnings that are to be said."""
        return [each for each in self.parsed.warnings if each not in self.said_before] if self.parsed else []


class Growth:
    """Counts the rows that come to the table which an input feeds; begun before they are written."""

    def __init__(self, writer: Writer, source: SourceName) -> None:
        self._writer = writer
        self._before = {table: self._height(table) for table in registry.source(source).feeds}

    def counted(self, parsed: Parsed, fed: Container[str]) -> Parsed:
        """The input with its new rows: by how much the first of the source's tables grew that is among those `fed`.

        Merging may make one row of two that were there; a table that shrinks has nothing new. An input's row that makes
        several of the table (a switch, its nodes) is one.
        """
        table = next((name for name in self._before if name in fed), None)
        grown = 0 if table is None else self._height(table) - self._before[table]
        return replace(parsed, rows_new=min(max(grown, 0), parsed.rows_loaded))

    def _height(self, table: str) -> int:
        return self._writer.height("stored.attempts" if table == "attempts" else table)


def load(
    writer: Writer, parsed: Parsed, *, origin: str, data: bytes, now: datetime, cluster: str | None = None
) -> Parsed:
    """Write one parsed input: its rows merged with those that are there, its rejects, and an account of it.

    An input without a row that could be loaded still speaks for its time, and its refused rows for themselves: they
    are booked under `cluster`.

    Returns:
        The input with the warnings that follow from what was there, and how many of its rows are new.
    """
    with writer.transaction():
        growth = Growth(writer, parsed.source)
        parsed = without_future(parsed, origin=origin, now=now)
        parsed = replace(parsed, warnings=[*parsed.warnings, *loading_nodes.removed(writer, parsed)])
        ways = WAYS if parsed.rejects.is_empty() else WAYS | IN_PART
        for name, frame in parsed.frames.items():
            if name in ways:
                ways[name](writer, frame)
        if "attempts" in parsed.frames:
            loading_people.set_first_jobs(writer)
        fed = {name for name, frame in parsed.frames.items() if frame.height}
        parsed = growth.counted(parsed, fed)
        digest = hashlib.sha256(data).hexdigest()
        write_account(writer, _under_clusters(parsed, cluster), origin=origin, digest=digest, now=now)
    return parsed


def booked(parsed: Parsed, cluster: str | None) -> Parsed:
    """A dump under its clusters, or else under `cluster`; one without any row says so."""
    return _under_clusters(replace(parsed, warnings=[*parsed.warnings, *empty(parsed)]), cluster)


def empty(parsed: Parsed) -> list[str]:
    """A warning for a dump that has no rows. A quiet window is no mistake, but a wrong one looks the same."""
    asked = _ASKED_FOR.get(parsed.source)
    if parsed.rows_read or asked is None:
        return []
    if parsed.columns:
        return [f"0 rows: header only; {asked}"]
    return [f"0 rows: an empty list; {asked}"] if parsed.source == "slurm.accounting" else []


_ASKED_FOR: Final[dict[SourceName, str]] = {
    "slurm.accounting": "did the window hold any jobs?",
    "slurm.events": "did the window hold any node events?",
    "slurm.reservations": "were there any reservations?",
    "slurm.transactions": "did the window hold any account changes?",
    "slurm.associations": "was whoever made it allowed to see them?",
    "slurm.qos": "was whoever made it allowed to see them?",
}
"""What to ask oneself where a dump has no rows. That there are no runaway jobs is good news."""


def _under_clusters(parsed: Parsed, cluster: str | None) -> Parsed:
    """The input under the clusters that it tells of, or that its refused rows do, or else under `cluster`."""
    if parsed.clusters:
        return parsed
    told = set(parsed.rejects["cluster"]) or ({cluster} if cluster else set())
    return replace(parsed, clusters=frozenset(told))


def write_account(writer: Writer, parsed: Parsed, *, origin: str, digest: str, now: datetime) -> None:
    """Keep the refused rows, and what came of all rows; within the transaction that wrote the others."""
    writer.append_new("rejects", parsed.rejects, keys=["cluster", "source", "reason", "raw"])
    for name in sorted(parsed.clusters):
        writer.append("loads", _account(parsed, name, origin=origin, digest=digest, now=now))


def _write_attempts(writer: Writer, attempts: pl.DataFrame) -> None:
    attempt_writer = AttemptWriter(writer)
    attempt_writer.add(attempts)
    attempt_writer.finish()


def _write_node_lists(writer: Writer, lists: pl.DataFrame) -> None:
    writer.append_new("node_lists", lists, keys=["node_list"])


def _write_node_states(writer: Writer, states: pl.DataFrame) -> None:
    there = writer.query_with("existing_node_states", {"incoming": states.select("cluster", "node")})
    writer.replace("node_states", merge_node_states(there, states), keys=["cluster", "node"])


def _write_nodes(writer: Writer, nodes: pl.DataFrame, *, whole: bool = True) -> None:
    merge = partial(merge_nodes, whole=whole)
    _write_spells(writer, "nodes", nodes, merge, existing="existing_nodes", source="slurm.nodes")


def _write_topology(writer: Writer, places: pl.DataFrame, *, whole: bool = True) -> None:
    merge = partial(merge_topology, whole=whole)
    _write_spells(writer, "node_topology", places, merge, existing="existing_topology", source="slurm.topology")


def _write_spells(
    writer: Writer, table: str, seen: pl.DataFrame, merge: MergeSpells, *, existing: str, source: SourceName
) -> None:
    """What a snapshot sees may end or cut the spells of nodes that it lacks: the whole cluster is written again."""
    clusters = seen.select("cluster").unique()
    there = writer.query_with(existing, {"incoming": clusters})
    looks = writer.query_with("looks", {"incoming": clusters}, source=source)
    writer.replace(table, merge(there, seen, looks), keys=["cluster"])


def _write_reservations(writer: Writer, reservations: pl.DataFrame) -> None:
    """Reservations, and the maintenance that follows from all of them: it may have been longer or elsewhere before."""
    clusters = reservations.select("cluster").unique()
    there = writer.query_with("existing_reservations", {"incoming": clusters})
    merged = merge_reservations(there, reservations)
    writer.replace("reservations", merged, keys=["cluster"])
    writer.delete("node_states", clusters.with_columns(source=pl.lit("slurm.reservations")))
    writer.append("node_states", maintenance_states(merged))


def _write_settings(writer: Writer, settings: pl.DataFrame) -> None:
    writer.replace("cluster_settings", settings, keys=["cluster", "name"])


def _write_job_gpus(writer: Writer, jobs: pl.DataFrame) -> None:
    there = writer.query_with("existing_job_gpus", {"incoming": jobs})
    writer.replace("job_gpus", merge_job_gpus(there.cast(JOB_GPUS), jobs), keys=["cluster", "job_id", "submitted_at"])  # type: ignore[arg-type]  # a schema is a mapping


WAYS: Final[dict[str, Callable[[Writer, pl.DataFrame], None]]] = {
    "attempts": _write_attempts,
    "node_lists": _write_node_lists,
    "node_states": _write_node_states,
    "nodes": _write_nodes,
    "node_topology": _write_topology,
    "reservations": _write_reservations,
    "cluster_settings": _write_settings,
    "job_gpus": _write_job_gpus,
    "associations": loading_people.write_associations,
    "users": loading_people.write_users,
    "qos": loading_people.write_qos,
    "transactions": loading_people.write_transactions,
    "scheduler_stats": loading_people.write_scheduler_stats,
    "runaway_jobs": loading_people.write_runaway,
}
"""How the rows of each table are put together with those that the warehouse has. Others follow from these."""

IN_PART: Final[dict[str, Callable[[Writer, pl.DataFrame], None]]] = {
    "nodes": partial(_write_nodes, whole=False),
    "node_topology": partial(_write_topology, whole=False),
}
"""The same where some rows of the input were refused: what it lacks may be among those."""


def account_row(parsed: Parsed, cluster: str, *, origin: str, data: bytes, now: datetime) -> pl.DataFrame:
    """The row of `loads` for an input that is at hand as a whole."""
    return _account(parsed, cluster, origin=origin, digest=hashlib.sha256(data).hexdigest(), now=now)


def _account(parsed: Parsed, cluster: str, *, origin: str, digest: str, now: datetime) -> pl.DataFrame:
    """The row of `loads`. Where an input has several clusters its row counts stand with the first of them."""
    first = cluster == min(parsed.clusters)
    counts = {
        "rows_read": parsed.rows_read,
        "rows_loaded": parsed.rows_loaded,
        "rows_duplicate": parsed.rows_duplicate,
        "rows_skipped": parsed.rows_skipped,
        "rows_rejected": parsed.rows_rejected,
        "rows_new": parsed.rows_new,
    }
    return pl.DataFrame(
        {
            "cluster": [cluster],
            "source": [parsed.source],
            "origin": [origin],
            "digest": [digest],
            "loaded_at": [now],
            "covers_from": [parsed.covers_from],
            "covers_until": [parsed.covers_until],
            **{name: [count if first else 0] for name, count in counts.items()},
            "columns": [parsed.columns],
            "warnings": [parsed.warnings if first else []],
        },
        schema_overrides={"rows_new": pl.Int64, "columns": pl.List(pl.String), "warnings": pl.List(pl.String)},
    )


def first_error(reports: Sequence[Report]) -> Exception | None:
    """The error that decides the exit status, if any input failed."""
    return next((report.error for report in reports if report.error is not None), None)
