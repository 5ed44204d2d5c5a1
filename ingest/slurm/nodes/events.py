"""Node events of Slurm: when nodes were down, drained or in maintenance."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.delimited.header import DumpLayout, words
from ingest.delimited.reader import LINE, DumpRows, read_rows
from ingest.errors import InputError, MissingColumnError
from ingest.slurm.formats import values
from ingest.slurm.formats.timestamps import Instants, consistent_times, read_instants
from ingest.slurm.nodes.merge import merge_node_states
from ingest.tables import NODE_STATES, REJECTS, Parsed, SourceName, conform, earliest_time, latest_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.context import ParseContext

EVENTS_COMMAND: Final = (
    "SLURM_TIME_FORMAT=%s sacctmgr -P show event Start=2026-11-01 "
    "Format=Cluster,NodeName,TimeStart,TimeEnd,State,StateRaw,Reason,User > events.txt"
)
_TIME = re.compile(r"\d{8,12}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*|unknown|none|n/?a|0|", re.IGNORECASE | re.ASCII)
_WORD = re.compile(r"\S*")

EVENTS: Final = DumpLayout(
    kind="sacctmgr show event output",
    known=frozenset(
        words("cluster clusternodes nodename timestart timeend state stateraw reason user tres duration event")
    ),
    used=frozenset(words("cluster nodename timestart timeend state stateraw reason user")),
    free_text=frozenset({"reason"}),
    shapes={
        **dict.fromkeys(("timestart", "timeend"), _TIME),
        **dict.fromkeys(("cluster", "nodename", "clusternodes", "state", "user", "tres"), _WORD),
        "stateraw": re.compile(r"\d*", re.ASCII),
        "duration": re.compile(r"[\d:-]*", re.ASCII),
        "#end": re.compile(""),
    },
    lists=frozenset({"tres"}),
    command=EVENTS_COMMAND,
)

_OUT_OF_SERVICE: Final = (
    ("maintenance", ("MAINT", "POW", "REBOOT")),
    ("down", ("DOWN", "FAIL", "ERROR", "INVAL")),
    ("drained", ("DRAIN", "DRNG")),
)
_IN_SERVICE: Final = (
    *("IDLE", "MIX", "ALLOC", "COMP", "RES", "BLOCKED", "BOOT", "CLOUD", "DYNAMIC", "NOT_RESPONDING", "PERFCTRS"),
    *("PLANNED", "PLND"),
)
"""PLANNED: backfill keeps an idle node for a waiting job, which is demand, not maintenance."""

_DOWN_BITS: Final = frozenset({1, 4})
_DRAIN_BIT: Final = 0x200


def node_state(text: str | None, raw: str | None = None) -> str | None:
    """The state that takes a node out of service: down, drained, maintenance or unknown; None for one in service.

    Suffixes (`DOWN*`: not responding) are no part of the word. A powered-down node is neither broken nor draining.
    Where there is no text, StateRaw decides: its low four bits are the base state, 512 is the drain flag.

    >>> [node_state(text) for text in ("DOWN*", "IDLE+DRAIN", "POWERED_DOWN~", "mixed-", "UNK")]
    ['down', 'drained', 'maintenance', None, 'unknown']
    >>> node_state(None, "514")
    'drained'
    """
    words = [word.strip().strip("*~#!%$@^-").upper() for word in (text or "").split("+")]
    words = [word for word in words if word]
    if not words and raw and re.fullmatch(r"\d{1,18}", raw, re.ASCII):
        return _state_of_bits(int(raw))
    for state, beginnings in _OUT_OF_SERVICE:
        if any(word.startswith(beginnings) for word in words):
            return state
    return None if words and all(word.startswith(_IN_SERVICE) for word in words) else "unknown"


def _state_of_bits(bits: int) -> str | None:
    if bits & 0xF in _DOWN_BITS:
        return "down"
    return "drained" if bits & _DRAIN_BIT else "unknown" if bits & 0xF == 0 else None


def parse_events(data: bytes, context: ParseContext) -> Parsed:
    """Intervals in which nodes were out of service, from `sacctmgr -P show event` with any of its columns.

    Rows without a node name are about the cluster: skipped, but they mark the beginning of all events. Rows of a state
    that leaves a node in service are skipped, too. A node down or drained for a planned reason is in `maintenance`.
    The same event seen twice is one row; see :func:`ingest.slurm.nodes.merge.merge_node_states`.

    Raises:
        InputError: The text as a whole cannot be read.
    """
    rows = read_rows(
        data, EVENTS, origin=context.origin, delimiter=context.delimiter, accept_truncated=context.accept_truncated
    )
    _require(rows, context.cluster, context.origin)
    table = _event_table(rows, context.cluster, context.timezone, context.origin)
    about_nodes = table.filter("named")
    bad = about_nodes.filter(pl.col("problem").is_not_null()).select(LINE, "cluster", "problem")
    good = about_nodes.filter(pl.col("problem").is_null())
    states = merge_node_states(as_node_states(good, "slurm.events", context.planned_reasons))
    rejects = _rejects(rows, bad, context.cluster, context.origin)
    return Parsed(
        source="slurm.events",
        clusters=frozenset(states["cluster"].unique()),
        frames={"node_states": states},
        rejects=rejects,
        rows_read=rows.n_read,
        rows_loaded=states.height,
        rows_duplicate=good.height - states.height,
        rows_of_headers=rows.n_skipped,
        rows_skipped=rows.n_skipped + table.height - about_nodes.height,
        rows_rejected=rejects.height,
        columns=list(rows.header.shown),
        warnings=rows.warnings,
        covers_from=context.since or earliest_time(table["started_at"]),
        covers_until=context.until
        or latest_time(table.select(pl.max_horizontal("started_at", "ended_at")).to_series()),
    )


def _require(rows: DumpRows, cluster: str | None, origin: str) -> None:
    names = set(rows.header.names)
    missing = [name for name in ("NodeName", "TimeStart", "TimeEnd") if name.lower() not in names]
    missing += [] if names & {"state", "stateraw"} else ["State or StateRaw"]
    missing += [] if cluster or "cluster" in names else ["Cluster (or pass --cluster NAME)"]
    if missing:
        message = (
            f"{origin}: missing columns: {', '.join(missing)}\nfound: {', '.join(rows.header.shown)}\n"
            f"A command that gets all of them:\n  {EVENTS_COMMAND}"
        )
        raise MissingColumnError(message)


def _event_table(rows: DumpRows, cluster: str | None, timezone: str | None, origin: str) -> pl.DataFrame:
    """The events with parsed times, and the problem of each."""
    frame = rows.frame
    texts = {name: _column(frame, name) for name in sorted(EVENTS.used)}
    start, end = (read_instants(texts[name], timezone=timezone, origin=origin) for name in ("timestart", "timeend"))
    times = _in_order(start, end)
    pairs = pl.struct(a=texts["state"], b=texts["stateraw"], eager=True).to_list()
    table = frame.select(LINE).with_columns(
        values.blank_to_null(texts["cluster"]).fill_null(pl.lit(cluster, pl.String)).alias("cluster"),
        values.blank_to_null(texts["nodename"]).alias("node"),
        times["start"].alias("started_at"),
        times["end"].alias("ended_at"),
        pl.Series("state", [node_state(pair["a"], pair["b"]) for pair in pairs], pl.String),
        texts["state"].fill_null(texts["stateraw"]).alias("state_raw"),
        texts["reason"].alias("reason"),
        texts["user"].alias("actor"),
        pl.Series("start_error", start.error),
        pl.Series("end_error", end.error),
    )
    named = pl.col("node").is_not_null() & (pl.col("state").is_not_null() | pl.col("state_raw").is_null())
    return table.with_columns(named.alias("named"), _event_problem().alias("problem"))


def _event_problem() -> pl.Expr:
    return pl.coalesce(
        pl.when(pl.col("cluster").is_null()).then(pl.lit("no cluster name")),
        "start_error",
        pl.when(pl.col("started_at").is_null()).then(pl.lit("no TimeStart")),
        "end_error",
        pl.when(pl.col("ended_at") < pl.col("started_at")).then(pl.lit("TimeEnd is before TimeStart")),
        pl.when(pl.col("state_raw").is_null()).then(pl.lit("no state")),
    )


def _column(frame: pl.DataFrame, name: str) -> pl.Series:
    if name in frame.columns:
        return frame[name]
    return pl.Series(name, [None], pl.String).new_from_index(0, frame.height)


def _in_order(start: Instants, end: Instants) -> pl.DataFrame:
    """In the repeated hour an event takes the earlier readings that do not end before they begin."""
    nothing = pl.Series([None], dtype=pl.Float64).new_from_index(0, len(start.early))
    return consistent_times(submit=start, eligible=start, start=start, end=end, elapsed_s=nothing, suspended_s=nothing)


def as_node_states(table: pl.DataFrame, source: SourceName, planned_reasons: Sequence[str]) -> pl.DataFrame:
    """Rows of `node_states`: nodes down or drained for a planned reason are in maintenance."""
    reason = pl.col("reason").fill_null("")
    try:
        patterns = [re.compile(pattern, re.IGNORECASE) for pattern in planned_reasons]
    except re.error as error:
        message = f"planned_reasons: {error.pattern!r} is not a regular expression: {error}"
        raise InputError(message) from None
    reasons = table["reason"].drop_nulls().unique().to_list()
    planned_texts = [text for text in reasons if any(pattern.search(text) for pattern in patterns)]
    planned = (pl.col("state") == "maintenance") | (reason.is_in(planned_texts) & (pl.col("state") != "unknown"))
    table = table.with_columns(
        planned.alias("planned"),
        pl.when(planned).then(pl.lit("maintenance")).otherwise("state").alias("state"),
        pl.lit(source).alias("source"),
        pl.col("state_raw").fill_null(""),
    )
    return conform(table, NODE_STATES)


def _rejects(rows: DumpRows, bad: pl.DataFrame, cluster: str | None, origin: str) -> pl.DataFrame:
    usual = cluster or next(iter(bad["cluster"].drop_nulls()), None) or "unknown"
    torn = [(usual, "slurm.events", origin, one.line, one.reason, one.raw) for one in rows.refused]
    wrong = [
        (named or usual, "slurm.events", origin, line, problem, rows.raw(line))
        for line, named, problem in bad.select(LINE, "cluster", "problem").rows()
    ]
    return pl.DataFrame(sorted([*torn, *wrong], key=lambda row: row[3]), schema=REJECTS, orient="row")
