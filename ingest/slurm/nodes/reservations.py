"""Reservations of Slurm: nodes set aside for a time, and the maintenance that follows from them.

`scontrol show reservation` lists the current reservations with their users, partition and planned end.
`sacctmgr show reservation` lists past ones, with their real ends: Slurm closes a record when its
reservation is deleted or its nodes change, and opens another one for the rest.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.delimited.header import DumpLayout, words
from ingest.delimited.reader import LINE, clean
from ingest.errors import MissingColumnError
from ingest.slurm.formats import scontrol, values
from ingest.slurm.formats.nodelist import expand_column
from ingest.slurm.formats.text_table import read_table
from ingest.slurm.formats.timestamps import read_instants
from ingest.tables import NODE_STATES, RAW_LIMIT, REJECTS, RESERVATIONS, TEXT, Parsed, conform

if TYPE_CHECKING:
    from datetime import datetime

    from ingest.context import ParseContext
    from ingest.delimited.reader import DumpRows
    from ingest.tables import Schema

HISTORY_COMMAND: Final = (
    "SLURM_TIME_FORMAT=%s sacctmgr -P show reservation Start=2026-11-01 End=now "
    "Format=Cluster,ID,Name,Start,End,NodeNames,Flags,TRES,UnusedWall,Associations > reservations.txt"
)
_TIME = re.compile(r"\d{8,12}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*|unknown|none|n/?a|0|", re.IGNORECASE | re.ASCII)

HISTORY: Final = DumpLayout(
    kind="sacctmgr show reservation output",
    known=frozenset(words("assocs cluster timeend flags id name nodename timestart tres unusedwall comment")),
    used=frozenset(words("cluster timeend flags name nodename timestart")),
    free_text=frozenset({"name", "comment"}),
    shapes={
        **dict.fromkeys(("timestart", "timeend"), _TIME),
        "id": re.compile(r"\d*", re.ASCII),
        "unusedwall": re.compile(r"[\d.]*", re.ASCII),
        "#end": re.compile(""),
    },
    command=HISTORY_COMMAND,
    lists=frozenset(words("nodename tres assocs flags")),
)

NO_RESERVATIONS: Final = "No reservations in the system"
"""What scontrol prints in place of an empty list."""

_KEY: Final = ("cluster", "name", "started_at")
_COLUMNS: Final[Schema] = {
    "cluster": TEXT,
    "name": TEXT,
    "start": TEXT,
    "end": TEXT,
    "nodes": TEXT,
    "n_nodes": TEXT,
    "partition": TEXT,
    "flags": TEXT,
    "users": TEXT,
    "accounts": TEXT,
    "state": TEXT,
}
"""A reservation as unparsed text."""


def parse_reservations(data: bytes, context: ParseContext) -> Parsed:
    """Reservations, from `scontrol show reservation` (with or without -o) or `sacctmgr -P show reservation`.

    Neither records when the command ran. Of a reservation that repeats itself (DAILY, WEEKLY) only the occurrences that
    were listed are included.

    Raises:
        InputError: The text as a whole cannot be read; or its cluster or its time is unknown.
    """
    origin, cluster, seen_at = context.origin, context.cluster, context.seen_at()
    since = context.since
    text, warnings = clean(data, origin)
    if is_listing(text.decode()):
        listed = scontrol.reservation_records(text.decode())
        columns_as_text = pl.DataFrame(
            [(line, cluster, *_listed(scontrol.reservation_values(record))) for line, record in listed],
            schema={LINE: pl.Int64(), **_COLUMNS},
            orient="row",
        )
        raw = {line: record[:RAW_LIMIT] for line, record in listed}
        columns = sorted({key for _, record in listed for key in scontrol.reservation_values(record)})
        rows, skipped, since = None, 0, seen_at
    else:
        rows = read_table(data, HISTORY, context)
        _require(rows, cluster, origin)
        columns_as_text, columns, warnings = _history(rows, cluster), list(rows.header.shown), rows.warnings
        raw = {line: rows.raw(line) for line in columns_as_text[LINE]}
        skipped = rows.n_skipped
    table = _read(columns_as_text, context.timezone, seen_at, origin)
    bad = table.filter(pl.col("problem").is_not_null())
    good = conform(table.filter(pl.col("problem").is_null()), RESERVATIONS)
    if context.until is None and rows is not None:
        good = _with_final_ends(good)
    once = merge_reservations(good)
    refused = [(cluster, one.line, one.reason, one.raw) for one in rows.refused] if rows else []
    refused += [
        (named, line, problem, raw[line]) for named, line, problem in bad.select("cluster", LINE, "problem").rows()
    ]
    rejects = _rejects(refused, cluster or next(iter(once["cluster"]), "unknown"), origin)
    return Parsed(
        source="slurm.reservations",
        clusters=frozenset(once["cluster"].unique()) or frozenset({cluster} if cluster else ()),
        frames={"reservations": once},
        rejects=rejects,
        rows_read=columns_as_text.height + skipped + (len(rows.refused) if rows else 0),
        rows_loaded=once.height,
        rows_duplicate=good.height - once.height,
        rows_skipped=skipped,
        rows_rejected=rejects.height,
        columns=columns,
        warnings=warnings,
        covers_from=since,
        covers_until=seen_at if since else None,
    )


def is_listing(text: str) -> bool:
    r"""Whether a text is scontrol's: records of `Key=value`, or its word for none.

    >>> is_listing("ReservationName=maint StartTime=1795281817\n"), is_listing("Cluster|Name|TimeStart\n")
    (True, False)
    """
    return bool(scontrol.reservation_records(text)) or NO_RESERVATIONS in text[:1000]


def merge_reservations(*frames: pl.DataFrame) -> pl.DataFrame:
    """One row per reservation and beginning: the last reading counts, since reservations are extended and cut short.

    A record whose end had passed when it was read is final: Slurm closed it. Where Slurm opened another record for
    changed nodes, its list still shows the same beginning, but with today's nodes and end. No list changes a final
    record, whenever the list was made. Of two final records, and of two contradicting texts of one moment, the earlier
    end counts: the history has a change before the end. Users and accounts are combined from all records: sacctmgr does
    not list them.

    Args:
        frames: rows of `reservations`.

    Returns:
        The same columns, sorted by cluster, name and beginning.
    """
    every = pl.concat([conform(frame, RESERVATIONS) for frame in frames])
    latest = ["ended_at", "node_list", "n_nodes", "flags", "maintenance"]
    # When a closed record was read does not count: what is merged holds the last time that anything was read of it.
    closed = (pl.col("ended_at") <= pl.col("last_seen_at")).fill_null(value=False)
    order = [
        closed,
        pl.when(~closed).then("last_seen_at"),
        -pl.col("ended_at").dt.epoch("us").fill_null(2**62),
        pl.col("node_list").fill_null(""),
        pl.col("n_nodes").fill_null(-1),
        pl.col("flags").list.join(","),
    ]
    return conform(
        every.sort(*order, nulls_last=False)
        .group_by(_KEY)
        .agg(
            pl.col(*latest).last(),
            pl.col("last_seen_at").max(),
            pl.col("partition").max(),
            *(pl.col(name).list.explode(empty_as_null=False).drop_nulls().unique().sort() for name in _PEOPLE),
        ),
        RESERVATIONS,
    ).sort(_KEY)


_PEOPLE: Final = ("users", "accounts")


def maintenance_states(reservations: pl.DataFrame) -> pl.DataFrame:
    """The node states that follow from reservations for maintenance, one per node.

    A name is used once at a time: where a reservation of the same name begins before another one's end, the earlier
    record ends there (its nodes or its terms were changed). `state_raw` holds the reservation's name.

    Args:
        reservations: rows of `reservations`, all of their clusters.

    Returns:
        Rows of `node_states` with the source `slurm.reservations`.
    """
    ordered = reservations.sort(_KEY)
    following = pl.col("started_at").shift(-1).over("cluster", "name")
    effective = ordered.with_columns(ended_at=pl.min_horizontal("ended_at", following)).filter(
        pl.col("maintenance") & pl.col("node_list").is_not_null()
    )
    names = expand_column(effective["node_list"])
    return conform(
        effective.join(names, left_on="node_list", right_on="text")
        .explode("nodes", empty_as_null=False)
        .select(
            "cluster",
            pl.col("nodes").alias("node"),
            "started_at",
            "ended_at",
            pl.lit("slurm.reservations").alias("source"),
            pl.lit("maintenance").alias("state"),
            pl.col("name").alias("state_raw"),
            pl.format("reservation {}", "name").alias("reason"),
            pl.lit(value=True).alias("planned"),
        ),
        NODE_STATES,
    ).sort("cluster", "node", "started_at", "state_raw")


def _listed(fields: dict[str, str]) -> tuple[str | None, ...]:
    keys = words("ReservationName StartTime EndTime Nodes NodeCnt PartitionName Flags Users Accounts State")
    return tuple(fields.get(key) for key in keys)


def _require(rows: DumpRows, cluster: str | None, origin: str) -> None:
    shown = {"name": "Name", "timestart": "TimeStart", "timeend": "TimeEnd", "nodename": "NodeName", "flags": "Flags"}
    missing = [name for column, name in shown.items() if column not in rows.header.names]
    missing += [] if cluster or "cluster" in rows.header.names else ["Cluster (or pass --cluster NAME)"]
    if missing:
        message = (
            f"{origin}: missing columns: {', '.join(missing)}\nfound: {', '.join(rows.header.shown)}\n"
            f"A command that gets all of them:\n  {HISTORY_COMMAND}"
        )
        raise MissingColumnError(message)


def _history(rows: DumpRows, cluster: str | None) -> pl.DataFrame:
    frame = rows.frame
    nothing = pl.lit(None, dtype=pl.String)
    named = pl.col("cluster") if "cluster" in frame.columns else nothing
    return frame.select(
        LINE,
        named.fill_null(pl.lit(cluster, dtype=pl.String)).alias("cluster"),
        "name",
        pl.col("timestart").alias("start"),
        pl.col("timeend").alias("end"),
        pl.col("nodename").alias("nodes"),
        *(nothing.alias(name) for name in ("n_nodes", "partition")),
        "flags",
        *(nothing.alias(name) for name in _PEOPLE),
        pl.lit("known").alias("state"),
    )


def _with_final_ends(history: pl.DataFrame) -> pl.DataFrame:
    """Mark history records that another record continues: their ends are final, whenever the text was made."""
    following = history.select("cluster", "name", pl.col("started_at").alias("ended_at"))
    continued = history.join(following.unique(), on=["cluster", "name", "ended_at"], how="semi")
    ended = continued.filter(pl.col("started_at") < pl.col("ended_at"))
    closed = ended.select(*_KEY, "ended_at", pl.col("ended_at").alias("final_at")).unique()
    return conform(
        history.join(closed, on=[*_KEY, "ended_at"], how="left").with_columns(
            last_seen_at=pl.max_horizontal("last_seen_at", "final_at")
        ),
        RESERVATIONS,
    )


def _read(columns: pl.DataFrame, timezone: str | None, seen_at: datetime, origin: str) -> pl.DataFrame:
    """The reservations with parsed values, and the problem of each (`problem`)."""
    blank = [values.blank_to_null(columns[name]) for name in columns.columns if name != LINE]
    columns = columns.with_columns(blank)
    start, end = (
        read_instants(columns[name].rename(shown), timezone=timezone, origin=origin)
        for name, shown in (("start", "StartTime"), ("end", "EndTime"))
    )
    lists = expand_column(columns["nodes"])
    table = (
        columns.with_columns(
            start.early.alias("started_at"),
            # In the repeated hour the end takes the earlier reading that is not before the beginning.
            pl.when(end.early < start.early).then(end.late).otherwise(end.early).alias("ended_at"),
            start.error.alias("start_error"),
            end.error.alias("end_error"),
        )
        .join(lists, left_on="nodes", right_on="text", how="left", maintain_order="left")
        .rename({"nodes_right": "expanded", "error": "list_error"})
    )
    flags = _list_of("flags").list.eval(pl.element().str.to_uppercase())
    return table.with_columns(
        pl.when(pl.col("expanded").list.len() > 0).then("nodes").alias("node_list"),
        pl.coalesce(pl.col("n_nodes").cast(pl.Int64, strict=False), pl.col("expanded").list.len()).alias("n_nodes"),
        flags.alias("flags"),
        *(_list_of(name).alias(name) for name in _PEOPLE),
        flags.list.contains("MAINT").alias("maintenance"),
        pl.lit(seen_at, dtype=RESERVATIONS["last_seen_at"]).alias("last_seen_at"),
        pl.coalesce(
            pl.when(pl.col("cluster").is_null()).then(pl.lit("no cluster name")),
            pl.when(pl.col("name").is_null()).then(pl.lit("no name")),
            "start_error",
            pl.when(pl.col("started_at").is_null()).then(pl.lit("no StartTime")),
            "end_error",
            pl.when(pl.col("ended_at") < pl.col("started_at")).then(pl.lit("EndTime is before StartTime")),
            "list_error",
            pl.when(pl.col("state").is_null()).then(pl.lit("no State: the record is cut off")),
        ).alias("problem"),
    )


def _list_of(name: str) -> pl.Expr:
    return pl.col(name).str.split(",").fill_null([]).list.eval(pl.element().filter(pl.element() != ""))


def _rejects(refused: list[tuple[str | None, int, str, str]], usual: str, origin: str) -> pl.DataFrame:
    rows = [
        (cluster or usual, "slurm.reservations", origin, line, reason, raw) for cluster, line, reason, raw in refused
    ]
    return pl.DataFrame(sorted(rows, key=lambda row: row[3]), schema=REJECTS, orient="row")
