"""Parsed inputs into the warehouse: one transaction each, merged with what is there, and an account of every load."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.frames import ATTEMPTS, NODES, Parsed, conform
from ingest.merge import attempt_nodes, merge_attempts
from ingest.node_merge import merge_node_states, merge_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from queries.warehouse import Writer


@dataclass(frozen=True)
class Report:
    """What came of one input: loaded (`parsed`), or not (`error`)."""

    origin: str
    parsed: Parsed | None = None
    error: Exception | None = None


def load(
    writer: Writer, parsed: Parsed, *, origin: str, data: bytes, now: datetime, cluster: str | None = None
) -> None:
    """Write one parsed input: its rows merged with those that are there, its rejects, and an account of it.

    An input without a row that could be loaded still speaks for its time, and its refused rows for themselves: they
    are booked under `cluster`.
    """
    if not parsed.clusters:
        told = set(parsed.rejects["cluster"]) or ({cluster} if cluster else set())
        parsed = replace(parsed, clusters=frozenset(told))
    with writer.transaction():
        for name, frame in parsed.frames.items():
            if name in WAYS:
                WAYS[name](writer, frame)
        writer.append_new("rejects", parsed.rejects, keys=["cluster", "source", "reason", "raw"])
        for name in sorted(parsed.clusters):
            writer.append("loads", account_row(parsed, name, origin=origin, data=data, now=now))


def _write_attempts(writer: Writer, attempts: pl.DataFrame) -> None:
    jobs = attempts.select("cluster", "scheduler", "job_id").unique()
    there = writer.query_with("existing_attempts", {"incoming": jobs})
    merged = merge_attempts(conform(there, ATTEMPTS), attempts)
    keys = ["cluster", "scheduler", "job_id"]
    writer.replace("attempts", merged, keys=keys)
    writer.delete("attempt_nodes", jobs)
    writer.append("attempt_nodes", attempt_nodes(merged))


def _write_node_states(writer: Writer, states: pl.DataFrame) -> None:
    there = writer.query_with("existing_node_states", {"incoming": states.select("cluster", "node")})
    writer.replace("node_states", merge_node_states(there, states), keys=["cluster", "node"])


def _write_nodes(writer: Writer, nodes: pl.DataFrame) -> None:
    there = writer.query_with("existing_nodes", {"incoming": nodes.select("cluster", "node")})
    writer.replace("nodes", merge_nodes(conform(there, NODES), nodes), keys=["cluster", "node"])


def _write_settings(writer: Writer, settings: pl.DataFrame) -> None:
    writer.replace("cluster_settings", settings, keys=["cluster", "name"])


WAYS: Final[Mapping[str, Callable[[Writer, pl.DataFrame], None]]] = {
    "attempts": _write_attempts,
    "node_states": _write_node_states,
    "nodes": _write_nodes,
    "cluster_settings": _write_settings,
}
"""How the rows of each table are put together with those that the warehouse has. Others follow from these."""


def account_row(parsed: Parsed, cluster: str, *, origin: str, data: bytes, now: datetime) -> pl.DataFrame:
    """The row of `loads`. Where an input has several clusters its row counts stand with the first of them."""
    first = cluster == min(parsed.clusters)
    counts = {
        "rows_read": parsed.rows_read,
        "rows_loaded": parsed.rows_loaded,
        "rows_duplicate": parsed.rows_duplicate,
        "rows_skipped": parsed.rows_skipped,
        "rows_rejected": parsed.rows_rejected,
    }
    return pl.DataFrame(
        {
            "cluster": [cluster],
            "source": [parsed.source],
            "origin": [origin],
            "digest": [hashlib.sha256(data).hexdigest()],
            "loaded_at": [now],
            "covers_from": [parsed.covers_from],
            "covers_until": [parsed.covers_until],
            **{name: [count if first else 0] for name, count in counts.items()},
            "columns": [parsed.columns],
            "warnings": [parsed.warnings if first else []],
        },
        schema_overrides={"columns": pl.List(pl.String), "warnings": pl.List(pl.String)},
    )


def first_error(reports: Sequence[Report]) -> Exception | None:
    """The error that decides the exit status, if any input failed."""
    return next((report.error for report in reports if report.error is not None), None)
