"""Telemetry into the warehouse: samples merged with existing ones, their hours rolled up, events, names."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.future import without_future
from ingest.prometheus.files.gpu_hours import without_duplicates
from ingest.prometheus.gpu import drivers
from ingest.prometheus.gpu.samples import end
from ingest.prometheus.health import events as health
from ingest.prometheus.node import kubernetes_nodes, kubernetes_pods
from ingest.prometheus.series.node_turns import node_turns
from ingest.prometheus.sources import BY_NAME
from ingest.prometheus.store import uuids
from ingest.prometheus.store.merge import merge
from ingest.prometheus.store.rollup import ActivityThresholds, nodes_rolled_up, rolled_up
from ingest.prometheus.tables import GPUS, NODES, TABLES, SampleTable
from ingest.store.loads import Repetition, write_account
from ingest.store.summary import added, without_rows
from ingest.tables import HEALTH_EVENTS, NODE_ALIASES, Parsed, conform, rows_absent_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ingest.prometheus.settings import TelemetrySettings
    from ingest.store.request import LoadRequest
    from queries.warehouse import Writer

ALIASES: Final = "prometheus"
"""Source in `node_aliases` of telemetry's names of nodes."""

_OF_GPUS: Final[tuple[str, ...]] = ("gpu_samples", "gpu_hours", "health_events")

_HOUR: Final = timedelta(hours=1)
"""Longest sample."""

ROWS_AT_ONCE: Final = 1 << 18
"""Approximate number of new samples merged and rolled up together: meanwhile a row takes a kilobyte."""


def load(
    writer: Writer,
    settings: TelemetrySettings,
    inputs: Sequence[Parsed],
    cluster: str,
    *,
    request: LoadRequest,
    digest: str,
    now: datetime,
) -> list[Parsed]:
    """Write the content of an input, source by source, in one transaction.

    All or nothing. Loading the same input again changes nothing.

    Args:
        writer: The warehouse.
        settings: All settings.
        inputs: The parsed input, source by source.
        cluster: Whose it is where it names none itself.
        request: The request, and its transport.
        digest: SHA-256 of the input, in hex.
        now: The time.

    Returns:
        The same, without future rows, and with `rows_new` 0 where a file was loaded before.
    """
    inputs = [without_future(parsed, origin=request.origin, now=now) for parsed in inputs]
    rows_new: dict[str, int | None] = {}
    with writer.transaction():
        for parsed in sorted(inputs, key=lambda each: "node_aliases" not in each.frames):  # names before their use
            repetition = Repetition(writer, BY_NAME[parsed.source], request=request, digest=digest)
            whole = replace(parsed, clusters=parsed.clusters or frozenset({cluster}))
            _write(writer, settings, whole)
            whole = repetition.counted(whole)
            write_account(writer, whole, request=request, digest=digest, now=now)
            rows_new[parsed.source] = whole.rows_new
    return [replace(parsed, rows_new=rows_new[parsed.source]) for parsed in inputs]


def load_parts(
    writer: Writer,
    settings: TelemetrySettings,
    parts: Iterable[Parsed],
    cluster: Callable[[], str],
    *,
    request: LoadRequest,
    digest: str,
    now: datetime,
) -> Parsed:
    """Write the content of an input of one source that comes in parts, each before the next one is made.

    As `load`, in one transaction and with one account; only one part is in memory at a time.

    Args:
        writer: The warehouse.
        settings: All settings.
        parts: The parsed input; at least one.
        cluster: Whose it is where it names none itself.
        request: The request, and its transport.
        digest: SHA-256 of the input, in hex.
        now: The time.

    Returns:
        The account of all parts, without their rows.
    """
    accounts: list[Parsed] = []
    repetition: Repetition | None = None
    with writer.transaction():
        for read in parts:
            part = without_future(read, origin=request.origin, now=now)
            if repetition is None:
                repetition = Repetition(writer, BY_NAME[part.source], request=request, digest=digest)
            _write(writer, settings, part)
            accounts.append(without_rows(part))
        if repetition is None:
            raise AssertionError(request.origin)
        named = [each for each in accounts if each.rows_loaded] or accounts
        clusters = frozenset[str]().union(*(each.clusters for each in named)) or frozenset({cluster()})
        whole = repetition.counted(replace(added(accounts), clusters=clusters, rows_new=None))
        write_account(writer, whole, request=request, digest=digest, now=now)
    return whole


def _write(writer: Writer, settings: TelemetrySettings, parsed: Parsed) -> None:
    """Write samples merged with existing ones, their hours rolled up, and events."""
    if "node_aliases" in parsed.frames:
        _write_aliases(writer, parsed.frames["node_aliases"])
    frames = {
        name: _renamed(writer, frame, parsed.clusters, RENAMED_AT.get(name, "ts"))
        for name, frame in parsed.frames.items()
    }
    spellings = _spellings(writer, frames)
    frames = {name: _spelled(frame, spellings) for name, frame in frames.items()}
    of_gpus = _by_index(writer, settings, frames)
    frames |= {name: pl.concat(parts) for name, parts in of_gpus.items()}
    for table in TABLES:
        if table.name in frames:
            for part in of_gpus.get(table.name, [frames[table.name]]):
                _write_samples(writer, settings, table, part)
    if "gpu_hours" in frames:
        _write_hours(writer, GPUS, without_duplicates(frames["gpu_hours"]))  # two names may have been one node
    if "node_hours" in frames:
        _write_hours(writer, NODES, frames["node_hours"].unique(list(NODES.key), keep="last", maintain_order=True))
    if "health_events" in frames:
        _write_events(writer, frames["health_events"])
    if "driver_versions" in frames:
        _write_drivers(writer, frames["driver_versions"])
    if "metered_pods" in frames:
        _write_pods(writer, frames["metered_pods"], frames["metered_namespaces"])
        _write_metered_nodes(writer, parsed.frames["metered_node_states"], parsed.frames["metered_nodes"])


def _by_index(
    writer: Writer, settings: TelemetrySettings, frames: Mapping[str, pl.DataFrame]
) -> dict[str, list[pl.DataFrame]]:
    """The frames about GPUs, each in parts of which none names a GPU twice, by index where that is known."""
    if "gpu_uuids" in frames:
        hours = uuids.HourWriter(partial(_write_hours, writer, GPUS), partial(roll_up, writer, settings, GPUS))
        uuids.write(writer, frames["gpu_uuids"], interval_s=settings.prometheus.interval_s, hours=hours)
    return {name: uuids.by_index(writer, frames[name]) for name in _OF_GPUS if name in frames}


def _write_drivers(writer: Writer, versions: pl.DataFrame) -> None:
    """Versions of drivers, merged with those of earlier readings."""
    existing = writer.matching("driver_versions", versions, keys=drivers.KEY).select(versions.columns)
    writer.replace("driver_versions", drivers.merged(pl.concat([existing, versions])), keys=drivers.KEY)


def _write_pods(writer: Writer, pods: pl.DataFrame, namespaces: pl.DataFrame) -> None:
    """Pods of kube-state-metrics, merged with those of earlier readings."""
    existing = writer.matching("metered_pods", pods, keys=kubernetes_pods.KEY).select(pods.columns)
    writer.replace("metered_pods", kubernetes_pods.merged(pl.concat([existing, pods])), keys=kubernetes_pods.KEY)
    writer.append_new("metered_namespaces", namespaces, keys=namespaces.columns)


def _write_metered_nodes(writer: Writer, states: pl.DataFrame, nodes: pl.DataFrame) -> None:
    """Nodes of kube-state-metrics, by Kubernetes' names, merged with those of earlier readings."""
    key = ["cluster", "node"]
    for table, rows, merge_rows in (
        ("metered_node_states", states, kubernetes_nodes.merged),
        ("metered_nodes", nodes, kubernetes_nodes.merged_nodes),
    ):
        existing = writer.matching(table, rows.select(key).unique(), keys=key).select(rows.columns)
        writer.replace(table, merge_rows(pl.concat([existing, rows])), keys=key)


# --- names of nodes


def _write_aliases(writer: Writer, aliases: pl.DataFrame) -> None:
    """Names in telemetry of nodes that the inventory or an attempt has; others are no nodes of the cluster.

    A name that still means the same node has one row, from its first use on.
    """
    in_slurm = writer.query_with("known_nodes", {"incoming": aliases.select("cluster", "node")})
    aliases_of_nodes = aliases.join(in_slurm, on=["cluster", "node"], how="semi").with_columns(source=pl.lit(ALIASES))
    for (cluster,), named in aliases_of_nodes.group_by("cluster", maintain_order=True):
        rows = writer.query("node_aliases", cluster=cluster, source=ALIASES).rename({"alias": "node"})
        stored = conform(rows.with_columns(cluster=pl.lit(cluster), source=pl.lit(ALIASES)), NODE_ALIASES)
        both = pl.concat([stored, named.select(stored.columns)]).sort("name", "valid_from", "node")
        once = both.unique(["name", "valid_from"], keep="last", maintain_order=True)
        merged = once.filter(pl.col("node").ne_missing(pl.col("node").shift().over("name")))
        if not merged.equals(stored):
            writer.replace("node_aliases", merged, keys=["cluster", "source", "name"])


RENAMED_AT: Final = {"driver_versions": "first_seen_at", "gpu_uuids": "first_seen_at"}
"""Columns of the time at which a row's node has its name, where that is not `ts`."""


def _renamed(writer: Writer, frame: pl.DataFrame, clusters: frozenset[str], moment: str = "ts") -> pl.DataFrame:
    """The frame with the scheduler's names of nodes, where `node_aliases` has other names for them at a `moment`."""
    if not {"node", moment} <= set(frame.columns):
        return frame
    for cluster in sorted(clusters):
        aliases = writer.query("node_aliases", cluster=cluster, source=ALIASES)
        if aliases.is_empty():
            continue
        numbered = frame.with_row_index("row")
        sorted_aliases = aliases.select(
            "name", "alias", pl.col("valid_from").cast(frame.schema[moment]), pl.lit(cluster).alias("cluster")
        )
        matched = numbered.sort(moment).join_asof(
            sorted_aliases.sort("valid_from"),
            left_on=moment,
            right_on="valid_from",
            by_left=["cluster", "node"],
            by_right=["cluster", "name"],
            check_sortedness=False,
        )
        renamed = matched.with_columns(node=pl.coalesce("alias", "node")).sort("row")
        frame = renamed.select(frame.columns)
    return frame


def _spellings(writer: Writer, frames: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Nodes that telemetry spells otherwise than Slurm (`N7`, or `n7` for `n7.local`): `cluster`, `node`, `spelled`.

    Names that an input has besides the scheduler's own spelling may be other hosts, and stay: so do several for one
    node.
    """
    key = ["cluster", "node"]
    named = [frame.select(key) for frame in frames.values() if {*key, "ts"} <= set(frame.columns)]
    names = pl.concat(named).unique() if named else pl.DataFrame()
    if names.is_empty():
        return names
    spellings = writer.query_with("spelled_nodes", {"incoming": names})
    once = spellings.filter(pl.len().over("cluster", "spelled") == 1)
    return once.join(names, left_on=["cluster", "spelled"], right_on=key, how="anti")


def _spelled(frame: pl.DataFrame, spellings: pl.DataFrame) -> pl.DataFrame:
    """The frame with Slurm's spelling of its nodes."""
    timed = {"ts", *RENAMED_AT.values()} & set(frame.columns)
    if spellings.is_empty() or not timed or not {"cluster", "node"} <= set(frame.columns):
        return frame
    joined = frame.join(spellings, on=["cluster", "node"], how="left", maintain_order="left")
    return joined.with_columns(node=pl.coalesce("spelled", "node")).select(frame.columns)


# --- samples and their hours


def _write_samples(writer: Writer, settings: TelemetrySettings, of: SampleTable, samples: pl.DataFrame) -> None:
    """Merge samples into the days that they fall in, and roll up the hours that they touch.

    Only existing samples of the same nodes in the same hours are read, and only those that the new ones overlap are
    merged: usually a chunk follows the one before it, and is written as a separate file. The files of a day are
    combined into one when the next day begins.
    """
    days = samples.group_by("cluster", pl.col("ts").dt.date().alias("day"), maintain_order=True)
    for (cluster, day), new in days:
        if isinstance(cluster, str) and isinstance(day, date):
            _write_day(writer, settings, of, cluster, day, new)
    for cluster, last in samples.group_by("cluster").agg(pl.col("ts").max().dt.date()).sort("cluster").iter_rows():
        writer.compact_partitions(of.name, cluster, before=last, order=of.key)


def _write_day(  # noqa: PLR0917 - private, and every one of them is needed
    writer: Writer, settings: TelemetrySettings, of: SampleTable, cluster: str, day: date, new: pl.DataFrame
) -> None:
    """The same of a day: merged and rolled up some nodes at a time, and written as one file."""
    changes = [_merge_nodes(writer, settings, of, cluster, day, some) for some in by_nodes(new, ROWS_AT_ONCE)]
    out, into = (pl.concat(rows) for rows in zip(*changes, strict=True))
    if out.height or into.height:
        writer.change_partition(of.name, cluster, day, (out, into), order=of.key)


def _merge_nodes(  # noqa: PLR0917 - as above
    writer: Writer, settings: TelemetrySettings, of: SampleTable, cluster: str, day: date, new: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Roll up the hours that the new samples of some nodes touch; returns the rows of the day to remove and to add."""
    existing = _existing(writer, of, cluster, day, new)
    low, high = new["ts"].min(), new.select(end("ts", "interval_s").max()).item()
    cell = timedelta(seconds=settings.prometheus.interval_s)  # what lies in the same one may be a neighbour
    within = (pl.col("ts") - cell < high) & (end("ts", "interval_s") + cell > low)
    near = existing.filter(within)
    merged = merge(near, new, interval_s=settings.prometheus.interval_s, of=of)
    out, into = rows_absent_from(near, merged), rows_absent_from(merged, near)
    hour = pl.col("ts").dt.truncate("1h")
    hours = pl.concat([new.select(hour), out.select(hour)]).unique()["ts"]
    touched = pl.concat([existing.filter(~within), merged]).filter(hour.is_in(hours.implode()))
    roll_up(writer, settings, of, touched)
    return out, into


def by_nodes(rows: pl.DataFrame, at_once: int) -> Iterator[pl.DataFrame]:
    """The rows of some nodes at a time, about `at_once` rows together; all rows of a table without nodes.

    A node is never null, since rows without one were refused. A null would belong to no turn here, nor to a range of
    nodes in which files are combined, and its samples would be lost silently.
    """
    if "node" in rows.columns and rows["node"].null_count():
        raise AssertionError(f"{rows['node'].null_count()} samples without a node")
    if "node" not in rows.columns or rows.height <= at_once:
        yield rows
        return
    nodes = node_turns(rows.group_by("node").len("n"), at_once)
    turns = rows.select("node").join(nodes, on="node", maintain_order="left")["turn"]
    for turn in nodes["turn"].unique().sort():
        yield rows.filter(turns == turn)


def roll_up(writer: Writer, settings: TelemetrySettings, of: SampleTable, samples: pl.DataFrame) -> None:
    """Write the roll-ups of samples, which must be all of their hours; clusters' counts have no roll-ups."""
    rules, thresholds = settings.rules, of_table(settings.telemetry.thresholds, of)
    if of is GPUS:
        activity = ActivityThresholds(rules.active_tensor, rules.active_gr_engine, rules.active_gpu_util)
        _write_hours(writer, of, rolled_up(samples, activity, thresholds))
    elif of is NODES:
        _write_hours(writer, of, nodes_rolled_up(samples, thresholds))


def _existing(writer: Writer, of: SampleTable, cluster: str, day: date, new: pl.DataFrame) -> pl.DataFrame:
    """Stored samples of the nodes of new samples, in the hours of a day that these touch."""
    begin = datetime.combine(day, time(), UTC)
    first, last = new.select(pl.col("ts").dt.truncate("1h").min().alias("a"), pl.col("ts").max().alias("b")).row(0)
    existing = writer.matching_samples(
        of.name,
        new,
        keys=[name for name in ("cluster", "node") if name in new.columns],
        cluster=cluster,
        since=max(begin, first - _HOUR),
        until=min(begin + timedelta(days=1), last + 2 * _HOUR),
    )
    return conform(existing, of.schema)


def of_table(thresholds: Mapping[str, float], of: SampleTable) -> dict[str, float]:
    """Thresholds of a table's metrics.

    >>> of_table({"gpu_samples.power_w": 700.0, "node_samples.load1": 64.0}, GPUS)
    {'power_w': 700.0}
    """
    named = {name.partition("."): value for name, value in thresholds.items()}
    return {metric: value for (table, _, metric), value in named.items() if table == of.name}


def _write_hours(writer: Writer, of: SampleTable, hours: pl.DataFrame) -> None:
    """Write roll-ups; an existing one that covers more of the hour stays."""
    if hours.is_empty():
        return
    first, last = hours["ts"].min(), hours["ts"].max()
    for name in ("delete_gpu_hours", "insert_gpu_hours") if of is GPUS else ("delete_node_hours", "insert_node_hours"):
        writer.run(name, {"incoming": hours}, first=first, last=last)


# --- events


def _write_events(writer: Writer, events: pl.DataFrame) -> None:
    merged = _merged_events(writer, events)
    if merged is not None:
        writer.replace("health_events", merged, keys=["cluster", "node"])


def _merged_events(writer: Writer, events: pl.DataFrame) -> pl.DataFrame | None:
    """All events of the nodes of these events; None if nothing changes."""
    stored = writer.matching("health_events", events, keys=["cluster", "node"])
    existing = conform(stored, HEALTH_EVENTS).sort("cluster", "node", "gpu", "ts", "code", nulls_last=True)
    merged = health.merge(existing, events)
    return None if merged.sort(pl.all()).equals(existing.sort(pl.all())) else merged


def has_new_events(writer: Writer, parsed: Parsed) -> bool:
    """Whether there are events that the warehouse does not have."""
    if "health_events" not in parsed.frames:
        return False
    renamed = _renamed(writer, parsed.frames["health_events"], parsed.clusters)
    events = _spelled(renamed, _spellings(writer, {"health_events": renamed}))
    return _merged_events(writer, events) is not None
