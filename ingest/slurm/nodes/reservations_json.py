"""Slurm's reservations in JSON, from slurmrestd or `scontrol show reservation --json`: the same result as from text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from ingest.slurm.formats.json_answer import Whole, Words, read_rows, words
from ingest.slurm.nodes.inventory_json import in_their_places, plain, record
from ingest.slurm.nodes.reservations import NO_RESERVATIONS, parse_reservations
from ingest.tables import RAW_LIMIT, REJECTS, Parsed

if TYPE_CHECKING:
    from ingest.context import ParseContext


class ReservationRecord(msgspec.Struct, gc=False):
    """Nodes set aside for a time; who may use them is one text."""

    name: str
    start_time: Whole = None
    end_time: Whole = None
    node_list: str | None = None
    node_count: Whole = None
    partition: str | None = None
    flags: Words = None
    users: str | None = None
    accounts: str | None = None


def parse_reservations_json(data: bytes, context: ParseContext) -> Parsed:
    """The current reservations; as from text (`ingest.slurm.nodes.reservations.parse_reservations`).

    The `line` of a refused reservation is its number in the list.

    The time of the request must always be passed; the cluster where the answer does not name it (none does before
    0.0.40).

    Raises:
        SlurmAnswerError: The answer holds errors.
        InputError: The answer as a whole cannot be read, or its time is unknown.
    """
    origin = context.origin
    rows = read_rows(data, "reservations", ReservationRecord, origin=origin)
    named = context.cluster or rows.form.cluster
    nameless = [(number, "no name", "{}") for number, one in rows.rows if not one.name.strip()]
    rows = rows._replace(
        rows=[(number, one) for number, one in rows.rows if one.name.strip()], refused=[*rows.refused, *nameless]
    )
    refused = [
        (named or "unknown", "slurm.reservations", origin, number, reason, raw[:RAW_LIMIT])
        for number, reason, raw in rows.refused
    ]
    text = "\n".join(_reservation_record(one) for _, one in rows.rows) or NO_RESERVATIONS
    parsed = parse_reservations(text.encode(), replace(context, cluster=named, timezone="UTC"))
    return in_their_places(parsed, rows, pl.DataFrame(refused, schema=REJECTS, orient="row"))


def _reservation_record(one: ReservationRecord) -> str:
    """The reservation as one line of `scontrol show reservation -o`."""
    fields = {
        "ReservationName": one.name,
        "StartTime": plain(one.start_time),
        "EndTime": plain(one.end_time),
        "Nodes": one.node_list,
        "NodeCnt": plain(one.node_count),
        "PartitionName": one.partition,
        "Flags": ",".join(words(one.flags)),
        "Users": one.users,
        "Accounts": one.accounts,
        "State": "known",  # the text parser takes a record without a State for cut off
    }
    return record(fields)
