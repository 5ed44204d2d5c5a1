"""Slurm nodes: their hardware, those out of service now, and the settings that metrics depend on."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.context import untimed
from ingest.delimited.reader import clean
from ingest.errors import InputError, MissingColumnError, UnrecognisedInputError, shorten
from ingest.future import latest
from ingest.plausible import CPUS_PER_NODE, GPUS_PER_NODE, MEMORY_PER_NODE, Bound
from ingest.slurm.commands.runner import Fetched, Runner, run
from ingest.slurm.formats import scontrol
from ingest.slurm.formats.timestamps import read_instants
from ingest.slurm.formats.tres import read_gres, read_tres
from ingest.slurm.nodes.events import EVENTS, as_node_states, node_state, parse_events
from ingest.slurm.nodes.merge import merge_node_states
from ingest.slurm.nodes.topology import node_path
from ingest.tables import CLUSTER_SETTINGS, NODES, RAW_LIMIT, REJECTS, TIME, Parsed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.context import ParseContext

__all__ = [
    "EVENTS",
    "SETTINGS",
    "fetch_events",
    "fetch_nodes",
    "fetch_reservation_history",
    "fetch_reservations",
    "fetch_settings",
    "fetch_topology",
    "parse_events",
    "parse_nodes",
    "parse_settings",
]

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
"""The settings that are stored. Everything else is dropped: a configuration holds passwords and key paths."""

# --- inventory -----------------------------------------------------------------------------------------

_STAMP = re.compile(r"\s*\[([^@\[\]]+)@([^\[\]]+)\]\s*$")
_TIME_KEYS = ("BootTime", "SlurmdStartTime", "LastBusyTime")


def parse_nodes(data: bytes, context: ParseContext) -> Parsed:
    """Inventory from `scontrol show node` (with or without -o), and the nodes that are out of service now.

    `until` is when the command ran; else it is the latest time in the text, which is never after that. `reached`
    is the fallback where there is none. A time later than `now` is ignored: one wrong clock must not date them all.
    A node out of service has been so since the stamp in its Reason (since `until` where there is none), and still is.

    Raises:
        UnrecognisedInputError: There is no `NodeName=` record.
        TimeZoneError: The times are local and no zone is given.
        InputError: Its time is unknown.
    """
    cluster = context.cluster or ""
    text, warnings = clean(data, context.origin)
    records = scontrol.node_records(text.decode())
    if not records:
        beginning = text.decode().strip().partition("\n")[0]
        message = f"{context.origin}: no NodeName= record; it begins with\n  {shorten(beginning)}"
        raise UnrecognisedInputError(message)
    node_values = [scontrol.node_values(record) for _, record in records]
    moments = _moments(node_values, context.timezone, context.origin, context.now)
    seen_at = context.until or max(filter(None, moments.values()), default=None) or context.reached
    if seen_at is None:
        raise untimed(context.origin)
    nodes, rejects = _inventory(records, node_values, cluster, seen_at, context.origin)
    states = as_node_states(_states_now(node_values, cluster, seen_at, moments), "slurm.nodes", context.planned_reasons)
    once = nodes.unique(["cluster", "node"], keep="last", maintain_order=True)
    return Parsed(
        source="slurm.nodes",
        clusters=frozenset({cluster}),
        frames={"nodes": once, "node_states": merge_node_states(states)},
        rejects=rejects,
        rows_read=len(records),
        rows_loaded=once.height,
        rows_duplicate=nodes.height - once.height,
        rows_rejected=rejects.height,
        columns=sorted({key for node in node_values for key in node}),
        warnings=warnings,
        covers_from=seen_at,
        covers_until=seen_at,
    )


def _inventory(
    records: list[tuple[int, str]], node_values: list[dict[str, str]], cluster: str, seen_at: datetime, origin: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of `nodes`, and the records that are refused."""
    good, bad = [], []
    for (line, record), node in zip(records, node_values, strict=True):
        try:
            good.append(_node_row(node, cluster, seen_at))
        except ValueError as error:
            bad.append((cluster, "slurm.nodes", origin, line, str(error), record[:RAW_LIMIT]))
    return pl.DataFrame(good, schema=NODES, orient="row"), pl.DataFrame(bad, schema=REJECTS, orient="row")


def _moments(
    records: list[dict[str, str]], timezone: str | None, origin: str, now: datetime | None
) -> dict[str, datetime | None]:
    """All time texts of the records, parsed once each. Times later than `now` are null."""
    texts = {node[key] for node in records for key in _TIME_KEYS if key in node}
    texts |= {stamp[2] for node in records if (stamp := _STAMP.search(node.get("Reason", "")))}
    column = pl.Series("BootTime", sorted(texts), pl.String)
    times = read_instants(column, timezone=timezone, origin=origin).early
    if now is not None:
        times = times.set((times > latest(now)).fill_null(value=False), None)
    return dict(zip(column, times, strict=True))


def _node_row(node: dict[str, str], cluster: str, seen_at: datetime) -> dict[str, object]:
    """One row of `nodes`. GPUs come from CfgTRES where it has them, else from Gres (the type often only there)."""
    if not node.get("NodeName"):
        message = "no node name"
        raise ValueError(message)
    configured = read_tres(node.get("CfgTRES", ""))
    if configured.error:
        raise ValueError(configured.error)
    counted, kind = read_gres(node.get("Gres", ""))
    n_gpus = configured.gpus or counted
    if n_gpus > GPUS_PER_NODE.most:
        message = f"{n_gpus:,.0f} GPUs in a node cannot be (at most {GPUS_PER_NODE.most:g}: {GPUS_PER_NODE.why})"
        raise ValueError(message)
    return {
        "cluster": cluster,
        "node": node["NodeName"],
        "valid_from": seen_at,
        "last_seen_at": seen_at,
        "n_gpus": n_gpus,
        "gpu_model": configured.model or kind,
        "n_cpus": _within(_whole(node.get("CPUTot")) or configured.cpus, CPUS_PER_NODE),
        "memory_bytes": _within(_megabytes(node.get("RealMemory")) or configured.memory_bytes, MEMORY_PER_NODE),
        "partitions": _names(node.get("Partitions")),
        "topology": node_path(node.get("Topology")),
        "labels": _names(node.get("ActiveFeatures") or node.get("AvailableFeatures")),
        "evidence": "accounting",
    }


def _whole(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"\d{1,18}", text, re.ASCII) else None


def _within(value: int | None, bound: Bound) -> int | None:
    return value if value is None or value <= bound.most else None


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
        state = node_state(node["State"]) if node.get("State") else None
        if state is None or not node.get("NodeName"):
            continue
        reason = node.get("Reason", "")
        stamp = _STAMP.search(reason)
        since = moments.get(stamp[2]) if stamp else None
        text, actor = (reason[: stamp.start()], stamp[1]) if stamp else (reason, None)
        rows.append((cluster, node["NodeName"], since or seen_at, state, node["State"], text or None, actor))
    schema = {name: pl.String() for name in ("cluster", "node", "started_at", "state", "state_raw", "reason", "actor")}
    return pl.DataFrame(rows, schema={**schema, "started_at": TIME}, orient="row")


# --- settings ------------------------------------------------------------------------------------------


def parse_settings(data: bytes, context: ParseContext) -> Parsed:
    """The few settings of `scontrol show config` that metrics depend on; `30 sec` becomes `30`.

    Of AuthInfo only `cred_expire` is stored: the rest are paths and may be secrets.

    Raises:
        MissingColumnError: Neither the text nor the caller names the cluster.
        UnrecognisedInputError: None of the settings is there.
    """
    text, warnings = clean(data, context.origin)
    settings = scontrol.settings(text.decode())
    selected = {name: _setting(name, settings[name]) for name in SETTINGS if name in settings}
    if not selected:
        beginning = shorten(text.decode()[:200])
        message = f"{context.origin}: not the output of scontrol show config; it begins with\n  {beginning}"
        raise UnrecognisedInputError(message)
    named = selected.get("ClusterName") or context.cluster
    if not named:
        message = f"{context.origin}: no ClusterName in it; name the cluster with --cluster NAME"
        raise MissingColumnError(message)
    frame = pl.DataFrame(
        [(named, name, value) for name, value in selected.items() if value], schema=CLUSTER_SETTINGS, orient="row"
    )
    return Parsed(
        source="slurm.config",
        clusters=frozenset({named}),
        frames={"cluster_settings": frame},
        rejects=pl.DataFrame(schema=REJECTS),
        rows_read=len(settings),
        rows_loaded=frame.height,
        rows_skipped=len(settings) - frame.height,
        columns=list(selected),
        warnings=warnings,
    )


def _setting(name: str, value: str) -> str:
    if name == "AuthInfo":
        return ",".join(part for part in value.split(",") if part.startswith("cred_expire="))
    return "" if value == "(null)" else re.sub(r"^(\d+) sec$", r"\1", value)


# --- live ----------------------------------------------------------------------------------------------

_REST = "This part was not read; the others are loaded all the same. Run it again later."
_CONTROLLER_HINT = f"slurmctld seems to be down or unreachable: check `scontrol ping`.\n{_REST}"
_DATABASE_HINT = f"slurmdbd seems to be down or unreachable: check `sacctmgr show cluster`.\n{_REST}"


def fetch_events(runner: Runner, *, since: datetime, until: datetime, clusters: Sequence[str] | None = None) -> Fetched:
    """Query sacctmgr for the node events of [since, until). Without a Start it would list the current ones only."""
    columns = "Format=Cluster,NodeName,TimeStart,TimeEnd,State,StateRaw,Reason,User"
    return run(runner, [*_show_command("event", since, until, clusters), columns], hint=_DATABASE_HINT)


def fetch_nodes(runner: Runner) -> Fetched:
    """Query scontrol for all nodes, one line each."""
    return run(runner, ["scontrol", "show", "node", "-o"], hint=_CONTROLLER_HINT)


def fetch_settings(runner: Runner) -> Fetched:
    """Query scontrol for the configuration."""
    return run(runner, ["scontrol", "show", "config"], hint=_CONTROLLER_HINT)


def fetch_topology(runner: Runner) -> Fetched:
    """Query scontrol for the network."""
    return run(runner, ["scontrol", "show", "topology"], hint=_CONTROLLER_HINT)


def fetch_reservations(runner: Runner) -> Fetched:
    """Query scontrol for the reservations, including future ones."""
    return run(runner, ["scontrol", "show", "reservation", "-o"], hint=_CONTROLLER_HINT)


def fetch_reservation_history(
    runner: Runner, *, since: datetime, until: datetime, clusters: Sequence[str] | None = None
) -> Fetched:
    """Query sacctmgr for the reservations of [since, until), with their real ends; those to come are not among them."""
    columns = "Format=Associations,Cluster,ID,Name,Start,End,NodeNames,Flags,TRES,UnusedWall"
    return run(runner, [*_show_command("reservation", since, until, clusters), columns], hint=_DATABASE_HINT)


def _show_command(what: str, since: datetime, until: datetime, clusters: Sequence[str] | None) -> list[str]:
    """The beginning of a sacctmgr command for a window; sacctmgr's default window is today at most."""
    if until <= since:
        message = f"the window is empty: from {since.isoformat()} to {until.isoformat()}"
        raise InputError(message)
    window = [
        f"{name}={moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}" for name, moment in (("Start", since), ("End", until))
    ]
    chosen = [f"Clusters={','.join(clusters)}"] if clusters else []
    return ["sacctmgr", "-P", "show", what, *chosen, *window]
