"""Slurm's nodes and clusters in JSON: the same result as from the text of scontrol.

Each node object, from slurmrestd, `sinfo --json` (22.05) or `scontrol show node --json`, is written as the record that
`scontrol show node -o` would print, and read by the parser of those.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from ingest.cluster_names import which_cluster
from ingest.errors import MissingColumnError
from ingest.slurm.formats.json_answer import AnswerRows, SlurmAnswerError, Whole, Words, read_rows, whole, words
from ingest.slurm.nodes.inventory import parse_nodes
from ingest.tables import CLUSTER_SETTINGS, RAW_LIMIT, REJECTS, Parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.context import ParseContext

_SPACE = re.compile(r"\s+")


class NodeRecord(msgspec.Struct, gc=False):
    """One node of slurmctld's list. Names and features are a text up to 0.0.38, lists later."""

    name: str
    state: Words = None
    state_flags: list[str] | None = None
    cpus: Whole = None
    real_memory: Whole = None
    gres: str | None = None
    tres: str | None = None
    features: Words = None
    active_features: Words = None
    partitions: Words = None
    reason: str | None = None
    reason_changed_at: Whole = None
    reason_set_by_user: str | None = None
    boot_time: Whole = None
    slurmd_start_time: Whole = None
    last_busy: Whole = None
    version: str | None = None
    slurmd_version: str | None = None


def parse_nodes_json(data: bytes, context: ParseContext) -> Parsed:
    """Inventory, and the nodes that are out of service now; as from text (`ingest.slurm.nodes.inventory.parse_nodes`).

    The `line` of a refused node is its number in the list. Before 0.0.40 no answer names its cluster: the context does.
    Without a time of the request, the latest time in the answer is its time.

    Raises:
        SlurmAnswerError: The answer holds errors, or no node at all: then slurmctld did not answer.
        InputError: The answer as a whole cannot be read; see `ingest.errors`.
    """
    rows = read_rows(data, "nodes", NodeRecord, origin=context.origin)
    if not rows.n_read:
        message = f"{context.origin}: no nodes. Did slurmctld answer (scontrol ping)? Nothing was changed."
        raise SlurmAnswerError(message)
    named = context.cluster or rows.form.cluster or ""
    rows = _with_names(rows)
    refused = [
        (named, "slurm.nodes", context.origin, number, reason, raw[:RAW_LIMIT]) for number, reason, raw in rows.refused
    ]
    rejects = pl.DataFrame(refused, schema=REJECTS, orient="row")
    if not rows.rows:
        return _nothing_good(rows, rejects, named)
    text = "\n".join(_node_record(node) for _, node in rows.rows).encode()
    parsed = parse_nodes(text, replace(context, cluster=named, timezone="UTC", reached=None))
    return in_their_places(parsed, rows, rejects)


def in_their_places(parsed: Parsed, rows: AnswerRows, rejects: pl.DataFrame) -> Parsed:
    """The parsed records of an answer, with the row numbers of the answer in place of line numbers.

    Args:
        parsed: The parsed records.
        rows: The rows behind the records.
        rejects: Rows without a record.
    """
    places = dict(enumerate((number for number, _ in rows.rows), 1))
    theirs = parsed.rejects.with_columns(pl.col("line").replace_strict(places, return_dtype=pl.Int64))
    every = pl.concat([rejects, theirs]).sort("line")
    return replace(
        parsed,
        rejects=every,
        rows_read=rows.n_read,
        rows_rejected=every.height,
        columns=rows.names,
        warnings=[*rows.form.warnings, *rows.warnings, *parsed.warnings],
    )


def _with_names(rows: AnswerRows) -> AnswerRows:
    """Refuse nodes without a name: such a record would be read as part of the one before."""
    nameless = [number for number, node in rows.rows if not node.name.strip()]
    if not nameless:
        return rows
    named_rows = [(number, node) for number, node in rows.rows if number not in nameless]
    refused = [*rows.refused, *((number, "no node name", "{}") for number in nameless)]
    return rows._replace(rows=named_rows, refused=refused)


def _nothing_good(rows: AnswerRows, rejects: pl.DataFrame, cluster: str) -> Parsed:
    nothing = Parsed("slurm.nodes", frozenset({cluster}), {}, rejects.clear(), rows_read=0, rows_loaded=0)
    return in_their_places(nothing, rows, rejects)


def _node_record(node: NodeRecord) -> str:
    """The node as one line of `scontrol show node -o`; its free text last."""
    state = "+".join(word.upper() for word in (*words(node.state), *(node.state_flags or ())))
    fields = {
        "NodeName": node.name,
        "CPUTot": plain(node.cpus),
        "RealMemory": plain(node.real_memory),
        "Gres": node.gres,
        "State": state,
        "Partitions": ",".join(words(node.partitions)),
        "AvailableFeatures": ",".join(words(node.features)),
        "ActiveFeatures": ",".join(words(node.active_features)),
        "BootTime": plain(node.boot_time),
        "SlurmdStartTime": plain(node.slurmd_start_time),
        "LastBusyTime": plain(node.last_busy),
        "Version": node.version or node.slurmd_version,
        "CfgTRES": node.tres,
        "Reason": _reason(node),
    }
    return record(fields)


def record(fields: Mapping[str, str | None]) -> str:
    """One line of `Key=value`, as scontrol prints with -o; missing values are left out."""
    return " ".join(f"{key}={_SPACE.sub(' ', value.strip())}" for key, value in fields.items() if value)


class ClusterRecord(msgspec.Struct, gc=False):
    """One cluster of slurmdbd's list."""

    name: str


def parse_settings_json(data: bytes, context: ParseContext) -> Parsed:
    """The cluster's name and Slurm's release, from slurmrestd's slurmdb clusters. It has no other settings.

    The context names the cluster where slurmdbd has several and the answer does not name the one (before 0.0.40).

    Raises:
        MissingColumnError: There are several clusters, and none was chosen.
        InputError: The answer as a whole cannot be read; see `ingest.errors`.
    """
    rows = read_rows(data, "clusters", ClusterRecord, origin=context.origin)
    names = sorted({one.name for _, one in rows.rows})
    named = context.cluster or rows.form.cluster or (names[0] if len(names) == 1 else None)
    if named is None:
        raise MissingColumnError(
            which_cluster(context.origin, names, "--cluster NAME, or `cluster` in the configuration")
        )
    settings = [(named, "ClusterName", named)]
    settings += [(named, "SLURM_VERSION", rows.form.release)] if rows.form.release else []
    refused = [
        (named, "slurm.config", context.origin, number, why, raw[:RAW_LIMIT]) for number, why, raw in rows.refused
    ]
    return Parsed(
        source="slurm.config",
        clusters=frozenset({named}),
        frames={"cluster_settings": pl.DataFrame(settings, schema=CLUSTER_SETTINGS, orient="row")},
        rejects=pl.DataFrame(refused, schema=REJECTS, orient="row"),
        rows_read=rows.n_read,
        rows_loaded=rows.n_read - len(refused),
        rows_rejected=len(refused),
        columns=rows.names,
        warnings=[*rows.form.warnings, *rows.warnings],
    )


def plain(value: Whole) -> str | None:
    """A number as text; None where it is not set."""
    number = whole(value)
    return None if number is None else str(number)


def _reason(node: NodeRecord) -> str | None:
    """The reason with its author and time, in brackets as in text."""
    if not node.reason:
        return None
    when = whole(node.reason_changed_at)
    return f"{node.reason} [{node.reason_set_by_user or 'unknown'}@{when}]" if when else node.reason
