"""What `trackside show filesystems` and `network` share: what devices carried, as nodes report it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import polars as pl

from app.formatting import display
from app.results.telemetry.gpu_activity import VERIFICATION
from app.results.telemetry.node_activity import node_activity
from app.results.telemetry.node_days import SAMPLES, StoredDays
from app.results.telemetry.occupancy import NO_SUBJECT, Known, computed_window, known, whole
from app.show.answer import MOST_EXPLAINED, Answer, Question
from app.show.sentences import percent
from app.show.telemetry import hourly_notes, none_left
from metrics import frames
from metrics.telemetry.node_attribution import WHAT, added_up
from metrics.telemetry.occupancy import occupants
from metrics.telemetry.traffic import FILESYSTEMS, NETWORKS, Traffic, traffic
from queries.errors import CorruptWarehouseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.window import Window
    from metrics.telemetry.occupancy import Occupants
    from queries.warehouse import Reader

OWNERS: Final = ("user", "account", "partition", "run", "attempt")
_CHECKS: Final = "(node checks)"


@dataclass(frozen=True)
class TrafficSubject:
    """The subject of a question about traffic, and how it is shown.

    Attributes:
        of: the metrics.
        device: what a device is, and the default of `--by`.
        title: of the answer.
        what: in words, where there is nothing.
        columns: of the answer, next to whose and which device.
        metrics: catalog names.
        note: what the numbers are.
    """

    of: Traffic
    device: str
    title: str
    what: str
    columns: dict[str, tuple[str, str]]
    metrics: tuple[str, ...]
    note: str


FILESYSTEM_SUBJECT: Final = TrafficSubject(
    FILESYSTEMS,
    "mount",
    "Filesystems, the most operations first",
    "filesystems (node_exporter's collectors nfs and mountstats, exporters of Lustre and GPFS)",
    {
        "operations": ("operations", "amount"),
        "operations_per_s": ("op/s per node", "amount"),
        "read_operations": ("reads", "amount"),
        "write_operations": ("writes", "amount"),
        "metadata_operations": ("metadata", "amount"),
        "read_bytes": ("read", "bytes"),
        "written_bytes": ("written", "bytes"),
        "mean_response_s": ("mean response", "latency"),
    },
    ("filesystem_response",),
    "Totals are what nodes were seen to do; op/s per node: over the time in which they were seen.",
)
NETWORK_SUBJECT: Final = TrafficSubject(
    NETWORKS,
    "port",
    "InfiniBand, the most received first",
    "InfiniBand ports (node_exporter's collector infiniband)",
    {
        "received_bytes": ("received", "bytes"),
        "received_bytes_per_s": ("received per node", "bytes_per_s"),
        "transmitted_bytes": ("transmitted", "bytes"),
        "transmitted_bytes_per_s": ("transmitted per node", "bytes_per_s"),
    },
    (),
    "Totals are what ports were seen to carry; per node: over the time in which they were seen.",
)


@dataclass(frozen=True)
class _TrafficRequest:
    """A question about a subject; `facts` are read on first use."""

    source: Reader
    window: Window
    subject: TrafficSubject
    facts: Callable[[], Known]
    by: str
    read: dict[str, None] = field(default_factory=dict)
    """Named queries that the answer is made of."""


def traffic_answer(source: Reader, window: Window, question: Question, subject: TrafficSubject) -> Answer:
    """What devices carried: by device, by node, or by whose nodes they were."""
    by = question.dimension
    sampled = not source.query("node_sample_days", cluster=window.cluster).is_empty()
    facts = functools.cache(lambda: known(source, window.cluster, observed=sampled))
    request = _TrafficRequest(source, window, subject, facts, by)
    rows, key, columns, notes = _by_owner(request) if by in OWNERS else _by_node(request)
    heading = {"device": (subject.device, "text"), "n_nodes": ("nodes", "count")}
    if by == "node":
        del heading["n_nodes"]
    columns_with_values = {name: how for name, how in subject.columns.items() if rows[name].null_count() < rows.height}
    return Answer(
        subject.title,
        rows.select(pl.lit(window.cluster).alias("cluster"), pl.all()),
        {**key, **heading, **columns_with_values, **columns},
        headline=_headline(rows, subject, by),
        ranked=("device", subject.of.main, *list(columns_with_values)[1:4]),
        metrics=subject.metrics if "mean_response_s" in columns_with_values else (),
        queries=tuple(request.read),
        notes=(subject.note, *notes, *_by_the_hour(request)) if rows.height else (),
        when_empty=_nothing(source, window, subject),
        parameters={"dimension": by},
        worth_explaining=pl.int_range(pl.len()) < MOST_EXPLAINED,
        parts={
            "subject": "subject",
            "device": "device",
            "value": subject.of.main,
            "denominator_node_s": "observed_s",
            "shared": f"shared_{subject.of.main}",
            "mean_response_s": "mean_response_s",
            "response_s": "response_s",
        },
    )


def _headline(rows: pl.DataFrame, subject: TrafficSubject, by: str) -> str:
    """What carried most, and how much of all."""
    main = subject.of.main
    heading, unit = subject.columns[main]
    whole = float(rows[main].sum() or 0) if rows.height else 0.0
    if not whole:
        return ""
    first = rows.row(0, named=True)
    name = first["device"] if by == subject.device else f"{first['subject']} ({first['device']})"
    share = "" if rows.height == 1 else f", {percent(first[main] / whole)} of all"
    return f"Most {heading} on {name}: {display(first[main], unit)}{share}."


def _by_the_hour(request: _TrafficRequest) -> list[str]:
    days = request.source.query("node_telemetry_days", **request.window.parameters)
    owner = request.by if request.by in OWNERS else "job"
    return hourly_notes(days, f"a {owner} came to the node or left it")


_Shown = tuple[pl.DataFrame, dict[str, tuple[str, str]], dict[str, tuple[str, str]], tuple[str, ...]]
"""Rows, columns of the owner, columns next to the amounts, and notes."""


def _by_node(request: _TrafficRequest) -> _Shown:
    """All that was seen of a device, or a node, and what of it was whose."""
    subject = request.subject
    found = _nodes(request)
    nodes = pl.DataFrame(schema=_NODES) if found is None else found
    key = [] if request.by == subject.device else ["subject"]
    sums = nodes.select(*([pl.col("node").alias("subject")] if key else []), *WHAT, pl.col(pl.Float64).fill_null(0.0))
    together = added_up([sums.with_columns(n_nodes=pl.lit(1, dtype=pl.Int64))], [*key, *WHAT])
    rows = traffic(together, subject.of, key)
    main = subject.of.main
    unit = subject.columns[main][1]
    parts = {"shared": "on shared nodes", "outside": "no job there", "checks": "node checks"}
    columns = {f"{part}_{main}": (label, unit) for part, label in parts.items() if rows[f"{part}_{main}"].sum()}
    note = (
        "on shared nodes: several attempts were there, in turns where only hours are known; no job there: no "
        "attempt was, so the node itself made the traffic."
    )
    return rows, {"subject": ("node", "text")} if key else {}, columns, (note,) if columns else ()


_NODES: Final[frames.Schema] = dict.fromkeys(("node", *WHAT), frames.TEXT) | {
    f"{part}{what}_s": frames.NUMBER
    for part, what in (
        ("observed", ""), ("value", ""), *((p, w) for p in ("attributed", "checks", "shared", "outside")
                                           for w in ("", "_value")),
    )
}  # fmt: skip


def _by_owner(request: _TrafficRequest) -> _Shown:
    """What nodes did while one user, account, ... was alone on them; and while several were there."""
    subject, by = request.subject, request.by
    key = ["subject", "job_id", "submitted_at", "user", "name"] if by == "attempt" else ["subject"]
    owners = _numbered(request.facts().attempts, by)
    sums = _owned(request, owners)
    legend = owners.select("owner", *key).unique("owner")
    rows = traffic(sums.join(legend, on="owner").drop("owner"), subject.of, key)
    main = subject.of.main
    columns = {}
    notes: tuple[str, ...] = ()
    if rows[f"shared_{main}"].sum():
        columns = {f"shared_{main}": ("on shared nodes", subject.columns[main][1])}
        notes = (
            f"on shared nodes: of nodes on which another {by} was, too (or came or went within the hour, where only "
            "hours are known); whose it was is unknown, so it is in no other column and in each of their rows.",
        )
    rest = rows.filter(pl.col("subject") != _CHECKS)
    if rest.height < rows.height:
        notes = (*notes, "Node checks (config: rules.other_work) are left out; --by node has them.")
    owner = {"subject": ("job" if by == "attempt" else by, "text")}
    if by == "attempt":
        owner |= {"submitted_at": ("submitted", "time"), "user": ("user", "text"), "name": ("name", "text")}
    return rest, owner, columns, notes


def _numbered(attempts: pl.DataFrame, by: str) -> pl.DataFrame:
    """Attempts with `owner` and `subject`: node checks are one owner, and each unknown user is an owner of its own."""
    name = pl.col("job_id") if by == "attempt" else pl.col(by)
    number = pl.col("attempt") if by == "attempt" else name.rank("dense").cast(pl.Int64) - 1
    alone = pl.col("attempt") + attempts.height
    check = pl.col(VERIFICATION)
    return attempts.with_columns(
        pl.when(check).then(2 * attempts.height).otherwise(pl.coalesce(number, alone)).alias("owner"),
        pl.when(check).then(pl.lit(_CHECKS)).otherwise(name.fill_null(NO_SUBJECT)).alias("subject"),
    )


def _nodes(request: _TrafficRequest) -> pl.DataFrame | None:
    """`NodeActivity.nodes`: of whole days as stored, else from samples."""
    occupancy = functools.cache(lambda: _occupants(request, _attempts(request)))
    return _of_days(request, lambda days: days.nodes(occupancy, metrics=request.subject.of.metrics))


def _owned(request: _TrafficRequest, owners: pl.DataFrame) -> pl.DataFrame:
    """Sums by owner: of attempts as stored, in all of the time or by day; of others from the samples."""
    key = list(frames.ATTEMPT_KEY)
    source, window, metrics = request.source, request.window, request.subject.of.metrics
    if request.by != "attempt":
        request.read.update(dict.fromkeys(SAMPLES))
        activity = node_activity(source, window, _occupants(request, owners), metrics=metrics)
        return pl.DataFrame(schema=_OWNERS) if activity is None else activity.owners
    if whole(source, window):
        request.read["attempt_node_activity"] = None
        stored = source.query("attempt_node_activity", cluster=window.cluster, metrics=",".join(metrics))
        return stored.join(owners.select("owner", *key), on=key).drop(key)
    attempts = _attempts(request)
    occupancy = _occupants(request, attempts)
    sums = _of_days(request, lambda days: days.attempts(occupancy, attempts, metrics=metrics))
    if sums is None:
        return pl.DataFrame(schema=_OWNERS)
    return sums.rename({"owner": "attempt"}).join(owners.select("attempt", "owner"), on="attempt").drop("attempt")


def _of_days(
    request: _TrafficRequest, answer: Callable[[StoredDays], tuple[pl.DataFrame | None, tuple[str, ...]]]
) -> pl.DataFrame | None:
    """The answer from the stored days, and from samples for the rest."""
    source, window = request.source, request.window
    try:
        found, queries = answer(StoredDays.within(source, window, computed_window(source, window.cluster)))
    except CorruptWarehouseError:  # samples have the same numbers
        found, queries = answer(StoredDays(source, window, {}))
    request.read.update(dict.fromkeys(queries))
    return found


_OWNERS: Final[frames.Schema] = {"owner": frames.COUNT, **dict.fromkeys(WHAT, frames.TEXT), "n_nodes": frames.COUNT} | (
    dict.fromkeys(("observed_s", "value_s", "shared_s", "shared_value_s"), frames.NUMBER)
)


def _attempts(request: _TrafficRequest) -> pl.DataFrame:
    """Attempts as owners."""
    return request.facts().attempts.select(*frames.ATTEMPT_KEY, pl.col("attempt").alias("owner"), VERIFICATION)


def _occupants(request: _TrafficRequest, owners: pl.DataFrame) -> Occupants:
    facts = request.facts()
    return occupants(facts.on_nodes, owners.select(*frames.ATTEMPT_KEY, "owner", VERIFICATION), facts.covered)


def _nothing(source: Reader, window: Window, subject: TrafficSubject) -> str:
    """Why there are no samples, and what to do."""
    days = source.query("node_sample_days", cluster=window.cluster)["day"]  # the last one first
    if days.is_empty():
        return none_left(source, window, "node", "nodes")
    return (
        f"No samples of {subject.what} in this window. There is telemetry of nodes of {days[-1]} to {days[0]}: if that "
        "is within the window, the exporters do not report it (trackside ingest prometheus --help)."
    )
