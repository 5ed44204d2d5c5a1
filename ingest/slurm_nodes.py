"""Slurm nodes: when they were out of service, what they are, and the settings that numbers depend on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import polars as pl

from ingest import scontrol, values
from ingest.errors import InputError, MissingColumnError, UnrecognisedInputError, shorten
from ingest.frames import (
    CLUSTER_SETTINGS,
    NODE_STATES,
    NODES,
    RAW_LIMIT,
    REJECTS,
    TIME,
    Parsed,
    SourceName,
    conform,
)
from ingest.header import Layout
from ingest.lines import LINE, Rows, clean, read_rows
from ingest.live import Fetched, Runner, run
from ingest.times import Instants, read_instants, settle

PLANNED_REASONS: Final = (r"\bmaint", r"\bplanned\b", r"\bupgrade", r"\breboot asap\b")
"""A node taken out for one of these reasons (upper or lower case) was taken out on purpose."""

EVENTS_COMMAND: Final = (
    "SLURM_TIME_FORMAT=%s sacctmgr -P show event Start=2026-11-01 "
    "Format=Cluster,NodeName,TimeStart,TimeEnd,State,StateRaw,Reason,User > events.txt"
)
_TIME = re.compile(r"\d{8,12}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*|unknown|none|n/?a|0|", re.IGNORECASE | re.ASCII)
_WORD = re.compile(r"\S*")

EVENTS: Final = Layout(
    kind="sacctmgr show event output",
    known=frozenset("cluster clusternodes nodename timestart timeend state stateraw reason user tres duration".split())
    | {"event", "eventraw", "start", "end", "cpucount", "conditionflags"},
    used=frozenset("cluster nodename timestart timeend state stateraw reason user".split()),
    free_text=frozenset({"reason"}),
    shapes={
        **dict.fromkeys(("timestart", "timeend"), _TIME),
        **dict.fromkeys(("cluster", "nodename", "clusternodes", "state", "user", "tres"), _WORD),
        "stateraw": re.compile(r"\d*", re.ASCII),
        "duration": re.compile(r"[\d:-]*", re.ASCII),
        "#end": re.compile(""),
    },
    command=EVENTS_COMMAND,
)

SETTINGS: Final = (
    "ClusterName",
    "SLURM_VERSION",
    "AccountingStorageTRES",
    "AuthInfo",
    "JobRequeue",
    "KillWait",
    "MinJobAge",
    "PreemptMode",
    "PreemptType",
    "PrivateData",
    "SelectType",
    "SlurmdTimeout",
)
"""The settings that are kept. Everything else stays where it is: a configuration holds passwords and key paths."""

_OUT_OF_SERVICE: Final = (
    ("maintenance", ("MAINT", "POW", "REBOOT")),
    ("down", ("DOWN", "FAIL", "ERROR", "INVAL")),
    ("drained", ("DRAIN", "DRNG")),
)
_IN_SERVICE: Final = (
    *("IDLE", "MIX", "ALLOC", "COMP", "RES", "BLOCKED", "BOOT", "CLOUD", "DYNAMIC", "NOT_RESPONDING", "PERFCTRS"),
    *("PLANNED", "PLND"),
)
"""PLANNED: backfill keeps the idle node for a job that waits. That is demand, not maintenance."""

_DOWN_BITS: Final = frozenset({1, 4})
_DRAIN_BIT: Final = 0x200


def node_state(text: str | None, raw: str | None = None) -> str | None:
    """The state that takes a node out of service: down, drained, maintenance or unknown; None for one in service.

    Suffixes (`DOWN*`: not responding) are no part of the word. A powered-down node is neither broken nor draining.
    Where there is no text, StateRaw tells: its low four bits are the base state, 512 is the drain flag.

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


def parse_events(
    data: bytes,
    *,
    origin: str,
    cluster: str | None = None,
    timezone: str | None = None,
    delimiter: str | None = None,
    accept_truncated: bool = False,
    planned_reasons: Sequence[str] = PLANNED_REASONS,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Parsed:
    """Intervals in which nodes were out of service, from `sacctmgr -P show event` with any of its columns.

    Rows without a node name are about the cluster: skipped, but they tell from when on there are events. So are rows of
    a state that leaves a node in service. An event that was down or drained for a planned reason is `maintenance`. Events of one node that begin in the same second and
    state are one; the one that has ended, or ended later, is kept.

    Raises:
        InputError: The text as a whole cannot be read.
    """
    rows = read_rows(data, EVENTS, origin=origin, delimiter=delimiter, accept_truncated=accept_truncated)
    _require(rows, cluster, origin)
    table = _event_table(rows, cluster, timezone, origin)
    about_nodes = table.filter("named")
    bad = about_nodes.filter(pl.col("problem").is_not_null()).select(LINE, "cluster", "problem")
    good = about_nodes.filter(pl.col("problem").is_null())
    states = _one_each(_as_node_states(good, "slurm.events", planned_reasons))
    rejects = _rejects(rows, bad, cluster, origin)
    return Parsed(
        source="slurm.events",
        clusters=frozenset(states["cluster"].unique()),
        frames={"node_states": states},
        rejects=rejects,
        rows_read=rows.n_read,
        rows_loaded=states.height,
        rows_duplicate=good.height - states.height,
        rows_skipped=rows.n_skipped + table.height - about_nodes.height,
        rows_rejected=rejects.height,
        columns=list(rows.header.shown),
        warnings=rows.warnings,
        covers_from=since or _moment(table["started_at"].min()),
        covers_until=until or _moment(table.select(pl.max_horizontal("started_at", "ended_at")).to_series().max()),
    )


def _require(rows: Rows, cluster: str | None, origin: str) -> None:
    names = set(rows.header.names)
    missing = [name for name in ("NodeName", "TimeStart", "TimeEnd") if name.lower() not in names]
    missing += [] if names & {"state", "stateraw"} else ["State or StateRaw"]
    missing += [] if cluster or "cluster" in names else ["Cluster (or say --cluster NAME)"]
    if missing:
        message = (
            f"{origin}: missing columns: {', '.join(missing)}\nfound: {', '.join(rows.header.shown)}\n"
            f"A command that gets all of them:\n  {EVENTS_COMMAND}"
        )
        raise MissingColumnError(message)


def _event_table(rows: Rows, cluster: str | None, timezone: str | None, origin: str) -> pl.DataFrame:
    """The events with their times read, and what is wrong with each."""
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
    return settle(submit=start, eligible=start, start=start, end=end, elapsed_s=nothing, suspended_s=nothing)


def _as_node_states(table: pl.DataFrame, source: SourceName, planned_reasons: Sequence[str]) -> pl.DataFrame:
    """Rows of `node_states`: what was down or drained for a planned reason is maintenance."""
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


def _one_each(states: pl.DataFrame) -> pl.DataFrame:
    """One row per key (cluster, node, started_at, source); of several the one that knows most, by content only."""
    order = ["ended_at", "state", "state_raw", "reason", "actor", "planned"]
    key = ["cluster", "node", "started_at", "source"]
    return states.sort([*key, *order], nulls_last=False).unique(key, keep="last", maintain_order=True)


def _rejects(rows: Rows, bad: pl.DataFrame, cluster: str | None, origin: str) -> pl.DataFrame:
    usual = cluster or next(iter(bad["cluster"].drop_nulls()), None) or "unknown"
    torn = [(usual, "slurm.events", origin, one.line, one.reason, one.raw) for one in rows.refused]
    wrong = [
        (named or usual, "slurm.events", origin, line, problem, rows.raw(line))
        for line, named, problem in bad.select(LINE, "cluster", "problem").rows()
    ]
    return pl.DataFrame(sorted([*torn, *wrong], key=lambda row: row[3]), schema=REJECTS, orient="row")


def _moment(value: object) -> datetime | None:
    return value if isinstance(value, datetime) else None


# --- inventory -----------------------------------------------------------------------------------------

_STAMP = re.compile(r"\s*\[([^@\[\]]+)@([^\[\]]+)\]\s*$")
_SEEN = ("BootTime", "SlurmdStartTime", "LastBusyTime")


def parse_nodes(
    data: bytes,
    *,
    origin: str,
    cluster: str,
    timezone: str | None = None,
    as_of: datetime | None = None,
    planned_reasons: Sequence[str] = PLANNED_REASONS,
) -> Parsed:
    """Inventory from `scontrol show node` (with or without -o), and the nodes that are out of service now.

    `as_of` says when the command ran; else it is the latest time in the text, which is never after that. A node out of
    service is so since the stamp in its Reason (since `as_of` where there is none), and still is.

    Raises:
        UnrecognisedInputError: There is no `NodeName=` record.
        TimeZoneError: The times are local and no zone is given.
    """
    text, warnings = clean(data, origin)
    records = [(line, scontrol.node_values(record), record) for line, record in scontrol.node_records(text.decode())]
    if not records:
        message = f"{origin}: no NodeName= record; it begins with\n  {shorten(text.decode().splitlines()[0])}"
        raise UnrecognisedInputError(message)
    moments = _moments([values for _, values, _ in records], timezone, origin)
    seen_at = as_of or max(filter(None, moments.values()), default=None)
    if seen_at is None:
        message = f"{origin}: no BootTime, SlurmdStartTime or LastBusyTime tells when this was; say it with --as-of"
        raise InputError(message)
    good, bad = [], []
    for line, values_, record in records:
        try:
            good.append(_node_row(values_, cluster, seen_at))
        except ValueError as error:
            bad.append((cluster, "slurm.nodes", origin, line, str(error), record[:RAW_LIMIT]))
    nodes = pl.DataFrame(good, schema=NODES, orient="row").unique(["cluster", "node"], keep="last", maintain_order=True)
    rejects = pl.DataFrame(bad, schema=REJECTS, orient="row")
    states = _states_now([values for _, values, _ in records], cluster, seen_at, moments)
    return Parsed(
        source="slurm.nodes",
        clusters=frozenset({cluster}),
        frames={"nodes": nodes, "node_states": _one_each(_as_node_states(states, "slurm.nodes", planned_reasons))},
        rejects=rejects,
        rows_read=len(records),
        rows_loaded=nodes.height,
        rows_duplicate=len(good) - nodes.height,
        rows_rejected=rejects.height,
        columns=sorted({key for _, values, _ in records for key in values}),
        warnings=warnings,
        covers_from=seen_at,
        covers_until=seen_at,
    )


def _moments(records: list[dict[str, str]], timezone: str | None, origin: str) -> dict[str, datetime | None]:
    """All time texts of the records, read once each."""
    texts = {values[key] for values in records for key in _SEEN if key in values}
    texts |= {stamp[2] for values in records if (stamp := _STAMP.search(values.get("Reason", "")))}
    column = pl.Series("BootTime", sorted(texts), pl.String)
    return dict(zip(column, read_instants(column, timezone=timezone, origin=origin).early, strict=True))


def _node_row(node: dict[str, str], cluster: str, seen_at: datetime) -> dict[str, object]:
    """One row of `nodes`. GPUs come from CfgTRES where it has them, else from Gres (the type often only there)."""
    configured = values.read_tres(node.get("CfgTRES", ""))
    if configured.error:
        raise ValueError(configured.error)
    counted, kind = values.read_gres(node.get("Gres", ""))
    return {
        "cluster": cluster,
        "node": node["NodeName"],
        "valid_from": seen_at,
        "last_seen_at": seen_at,
        "n_gpus": configured.gpus or counted,
        "gpu_model": configured.model or kind,
        "n_cpus": _whole(node.get("CPUTot")) or configured.cpus,
        "memory_bytes": _megabytes(node.get("RealMemory")) or configured.memory_bytes,
        "partitions": _names(node.get("Partitions")),
        "topology": None,
        "labels": _names(node.get("ActiveFeatures") or node.get("AvailableFeatures")),
        "evidence": "accounting",
    }


def _whole(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"\d{1,18}", text, re.ASCII) else None


def _megabytes(text: str | None) -> int | None:
    size = _whole(text)
    return None if size is None or size >= 1 << 40 else size << 20


def _names(text: str | None) -> list[str]:
    return [name for name in re.split(r"[,\s]+", text or "") if name and name != "(null)"]


def _states_now(
    records: list[dict[str, str]], cluster: str, seen_at: datetime, moments: dict[str, datetime | None]
) -> pl.DataFrame:
    rows = []
    for node in records:
        state = node_state(node.get("State"))
        if state is None:
            continue
        reason = node.get("Reason", "")
        stamp = _STAMP.search(reason)
        since = moments.get(stamp[2]) if stamp else None
        words, actor = (reason[: stamp.start()], stamp[1]) if stamp else (reason, None)
        rows.append((cluster, node["NodeName"], since or seen_at, state, node["State"], words or None, actor))
    schema = {name: pl.String() for name in ("cluster", "node", "started_at", "state", "state_raw", "reason", "actor")}
    return pl.DataFrame(rows, schema={**schema, "started_at": TIME}, orient="row")


# --- settings ------------------------------------------------------------------------------------------


def parse_settings(data: bytes, *, origin: str, cluster: str | None = None) -> Parsed:
    """The few settings of `scontrol show config` that numbers depend on; `30 sec` becomes `30`.

    Of AuthInfo only `cred_expire` is kept: the rest are paths and may be secrets.

    Raises:
        MissingColumnError: Neither the text nor the caller names the cluster.
        UnrecognisedInputError: None of the settings is there.
    """
    text, warnings = clean(data, origin)
    found = scontrol.settings(text.decode())
    kept = {name: _setting(name, found[name]) for name in SETTINGS if name in found}
    if not kept:
        message = f"{origin}: not the output of scontrol show config; it begins with\n  {shorten(text.decode()[:200])}"
        raise UnrecognisedInputError(message)
    named = kept.get("ClusterName") or cluster
    if not named:
        message = f"{origin}: no ClusterName in it; say which cluster it is with --cluster NAME"
        raise MissingColumnError(message)
    frame = pl.DataFrame(
        [(named, name, value) for name, value in kept.items() if value], schema=CLUSTER_SETTINGS, orient="row"
    )
    return Parsed(
        source="slurm.config",
        clusters=frozenset({named}),
        frames={"cluster_settings": frame},
        rejects=pl.DataFrame(schema=REJECTS),
        rows_read=len(found),
        rows_loaded=frame.height,
        rows_skipped=len(found) - frame.height,
        columns=list(kept),
        warnings=warnings,
    )


def _setting(name: str, value: str) -> str:
    if name == "AuthInfo":
        return ",".join(part for part in value.split(",") if part.startswith("cred_expire="))
    return "" if value == "(null)" else re.sub(r"^(\d+) sec$", r"\1", value)


# --- live ----------------------------------------------------------------------------------------------

_CONTROLLER_HINT = "slurmctld looks down or cannot be reached: check `scontrol ping`. Nothing was loaded."
_DATABASE_HINT = "slurmdbd looks down or cannot be reached: check `sacctmgr show cluster`. Nothing was loaded."


def fetch_events(runner: Runner, *, since: datetime, until: datetime, clusters: Sequence[str] | None = None) -> Fetched:
    """Ask sacctmgr for the node events of [since, until). Without a Start it would tell the current ones only."""
    if until <= since:
        message = f"the window is empty: from {since.isoformat()} to {until.isoformat()}"
        raise InputError(message)
    window = [
        f"{name}={moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}" for name, moment in (("Start", since), ("End", until))
    ]
    chosen = [f"Clusters={','.join(clusters)}"] if clusters else []
    columns = "Format=Cluster,NodeName,TimeStart,TimeEnd,State,StateRaw,Reason,User"
    return run(runner, ["sacctmgr", "-P", "show", "event", *chosen, *window, columns], hint=_DATABASE_HINT)


def fetch_nodes(runner: Runner) -> Fetched:
    """Ask scontrol for all nodes, one line each."""
    return run(runner, ["scontrol", "show", "node", "-o"], hint=_CONTROLLER_HINT)


def fetch_settings(runner: Runner) -> Fetched:
    """Ask scontrol for the configuration."""
    return run(runner, ["scontrol", "show", "config"], hint=_CONTROLLER_HINT)
