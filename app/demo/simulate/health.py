"""The health of the simulated cluster's hardware: what went wrong when, and what exporters report of it all the time.

Some events come with a fault or precede it, others are harmless: XIDs of users' programs, rows of memory that were
remapped in time. The readings are those of an export that leaves out repeated values: of a GPU one in half an hour,
from a day before something happens to it to a day after, and one in 15 s around each change. What the memory controller
of a node reports is there of every hour.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from app.demo.simulate.exporters import observed_at, silent_nodes
from app.demo.simulate.plan import BEGIN, DAY_S, GPUS_PER_NODE, HOUR_S
from ingest.tables import FLAG, TEXT, WHOLE, Schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.demo.simulate.scheduler import NodeState
    from app.demo.simulate.world import World

SAMPLE_S: Final = 15
"""Exporters are read at whole multiples of it."""

SELDOM_S: Final = 1800
"""How far readings of a GPU lie apart while nothing changes."""

AROUND_S: Final = DAY_S
"""How long before and after a change there are any readings of a GPU."""

NEAR_S: Final = 180
"""How long before and after a change a series is read every `SAMPLE_S`."""

MEMORY_XIDS: Final = (48, 94, 95)
"""XIDs of uncorrectable errors in a GPU's memory: its counter of these grows, too."""

OF_PROGRAMS: Final = ((31, 0.5), (13, 0.3), (43, 0.2))
"""XIDs that users' programs cause, and how often each: a page fault, an exception, a channel that was stopped."""

PROGRAMS_WITH_XID: Final = 0.35
"""Share of failed training jobs that leave an XID."""

HARMLESS_PER_NODE_DAY: Final = 1 / 400
"""Rows of memory that sound GPUs remap without any consequence."""

THROTTLE_EVERY_S, THROTTLE_S = 12 * HOUR_S, 40 * 60
"""How often the GPU of a slow node becomes too hot, and for how long."""

XID, DBE = "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
REMAPPED, PENDING = "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_PENDING"
CLOCKS, EDAC = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "node_edac_uncorrectable_errors_total"
HW_THERMAL: Final = 64
"""The bit of `CLOCKS` for clocks that were halved for heat."""

EVENTS: Final[Schema] = {"at": WHOLE, "node": TEXT, "gpu": TEXT, "kind": TEXT, "code": TEXT, "why": TEXT,
                         "job_id": TEXT, "observed": FLAG}  # fmt: skip
"""An event (seconds since 1970) as Trackside ought to report it. `why`: failure, precursor, program, harmless or
straggler. It is not `observed` where the node has no exporter, or is dead."""


class HealthEvent(NamedTuple):
    """Something that happened to a GPU; `lasts` is None where it has no end of its own."""

    at: int
    node: int
    gpu: int
    metric: str
    code: str
    why: str
    job_id: str | None = None
    lasts: int | None = None


_KINDS: Final = {XID: "xid", DBE: "ecc", REMAPPED: "row_remap", PENDING: "row_remap", CLOCKS: "throttle"}
_RESTARTED: Final = (XID, DBE, PENDING)
"""Series that are zero again when a node comes back: its driver was loaded anew."""


def events(world: World) -> list[HealthEvent]:
    """Events of GPUs, in order of time, except those without a trace: a gauge that has the value already."""
    out: dict[int, list[NodeState]] = defaultdict(list)
    for state in world.history.states:
        out[state.node].append(state)
    drafts = [*_of_failures(world), *_of_programs(world), *_harmless(world), *_of_stragglers(world)]
    working = [
        each
        for each in drafts
        if each.why in {"failure", "program"} or not any(_within(state, each.at, world) for state in out[each.node])
    ]
    return sorted(_visible_events(working, out))


def _within(state: NodeState, at: int, world: World) -> bool:
    return state.began <= at < (state.ended or world.settings.end)


def _of_failures(world: World) -> Iterator[HealthEvent]:
    """Readings of a fault with an XID; the memory of a lemon's GPU remaps rows some hours before."""
    chance = np.random.default_rng([world.settings.seed, 21])
    for failure, _ in world.history.struck:
        hours = float(chance.uniform(2, 10))
        if failure.xid is None:
            continue
        where = failure.node, failure.gpu
        yield HealthEvent(failure.at, *where, XID, str(failure.xid), "failure")
        if failure.xid in MEMORY_XIDS:
            yield HealthEvent(failure.at, *where, DBE, "dbe", "failure")
        before = failure.at - int(hours * HOUR_S)
        if failure.node in world.history.plan.lemons and before > BEGIN + HOUR_S:
            yield HealthEvent(before, *where, XID, "63", "precursor")
            yield HealthEvent(before, *where, REMAPPED, "uncorrectable", "precursor")
            yield HealthEvent(before, *where, PENDING, "pending", "precursor")


def _of_programs(world: World) -> Iterator[HealthEvent]:
    """XIDs of training jobs that failed by themselves, at the moment at which they did."""
    chance = np.random.default_rng([world.settings.seed, 22])
    codes = [code for code, _ in OF_PROGRAMS]
    for attempt in world.attempts:
        draw, code = chance.random(), chance.choice(codes, p=[share for _, share in OF_PROGRAMS])
        place, gpu = chance.random(), chance.random()
        own = attempt.state == "FAILED" and attempt.failure is None and attempt.job.kind == "train"
        if not own or draw > PROGRAMS_WITH_XID or attempt.stops is None:
            continue
        node, gpus = attempt.places[int(place * len(attempt.places))]
        mine = gpus[int(gpu * len(gpus))]
        yield HealthEvent(attempt.stops // 1000, node, mine, XID, str(code), "program", str(attempt.job.id))


def _harmless(world: World) -> Iterator[HealthEvent]:
    """Rows that sound GPUs remap."""
    settings, chance = world.settings, np.random.default_rng([world.settings.seed, 23])
    for node in range(settings.n_nodes):
        for _ in range(int(chance.poisson(settings.days * HARMLESS_PER_NODE_DAY))):
            at = BEGIN + HOUR_S + int(chance.random() * (settings.days * DAY_S - 2 * HOUR_S))
            yield HealthEvent(at, node, int(chance.integers(GPUS_PER_NODE)), XID, "63", "harmless")


def _of_stragglers(world: World) -> Iterator[HealthEvent]:
    """A GPU of a slow node halves its clocks for heat, again and again, while the node is slow."""
    for slow in world.history.plan.slow:
        for at in range(slow.begin + HOUR_S, slow.end - THROTTLE_S, THROTTLE_EVERY_S):
            yield HealthEvent(
                at, slow.node, slow.node % GPUS_PER_NODE, CLOCKS, "hw_thermal", "straggler", None, THROTTLE_S
            )


def _visible_events(drafts: list[HealthEvent], out: dict[int, list[NodeState]]) -> Iterator[HealthEvent]:
    """Events without those that change nothing, or follow another within the same reading of a series."""
    last: dict[tuple[int, int, str], HealthEvent] = {}
    for each in sorted(drafts):
        key = each.node, each.gpu, each.metric
        before = last.get(key)
        if before is not None:
            restarted = any(before.at < (state.ended or 0) <= each.at for state in out[each.node])
            same = each.metric in {XID, PENDING} and before.code == each.code and not restarted
            if same or _read_at(each.at) <= _read_at(before.at) + 2 * SAMPLE_S:
                continue
        last[key] = each
        yield each


def _read_at(at: int) -> int:
    """The first reading that can show what happened at a time."""
    return -(-at // SAMPLE_S) * SAMPLE_S


# --- the truth


def event_rows(world: World) -> pl.DataFrame:
    """`EVENTS`: everything that happened, at the moment at which a reading could first show it."""
    rows = [
        (
            *(_read_at(each.at), world.settings.name(each.node), str(each.gpu), _KINDS[each.metric], each.code),
            *(each.why, each.job_id, _observed(world, each)),
        )
        for each in events(world)
    ]
    return pl.DataFrame(rows, schema=EVENTS, orient="row").sort("at", "node", "gpu", "kind", "code")


def _observed(world: World, event: HealthEvent) -> bool:
    at = _read_at(event.at)
    alive = bool(observed_at(world, event.node, np.array([at]))[0])
    return event.node not in silent_nodes(world) and alive and at < world.settings.end


# --- what exporters report


def xid_gauge(world: World, happened: list[HealthEvent], node: int, gpu: int, times: np.ndarray) -> np.ndarray:
    """The last XID of a GPU at each time (seconds since 1970), as its gauge has it after these events; 0 for none."""
    mine = [each for each in happened if (each.node, each.gpu, each.metric) == (node, gpu, XID)]
    return _values(XID, mine, _returns(world, node), times)


def _returns(world: World, node: int) -> list[int]:
    """When a node came back into service."""
    return [state.ended for state in world.history.states if state.node == node and state.ended is not None]


def _values(metric: str, happened: list[HealthEvent], returns: list[int], times: np.ndarray) -> np.ndarray:
    """Values of a series at each time."""
    values = np.zeros(times.size)
    for each in happened:
        later = times >= each.at
        if metric == XID:
            values[later] = int(each.code)
        elif metric == CLOCKS:
            values[later & (times < each.at + (each.lasts or 0))] = HW_THERMAL
        else:
            values[later] = 1 if metric == PENDING else values[later] + 1
        if metric in _RESTARTED:
            values[times >= min((at for at in returns if at > each.at), default=1 << 40)] = 0
    return values


def readings(world: World) -> pl.DataFrame:
    """All readings: name, labels, time and value, as people take them out of Prometheus."""
    settings = world.settings
    hours = np.arange(BEGIN, settings.end + 1, HOUR_S)
    of_series: dict[tuple[int, int, str], list[HealthEvent]] = defaultdict(list)
    for each in events(world):
        of_series[each.node, each.gpu, each.metric].append(each)
    parts = [pl.DataFrame(schema=_READINGS)]
    for node in sorted(set(range(settings.n_nodes)) - set(silent_nodes(world))):
        host, returns = settings.name(node), _returns(world, node)
        times = hours[observed_at(world, node, hours)]
        parts.append(_part({"__name__": EDAC, "instance": f"{host}:9100", "controller": "0"}, times, times * 0.0))
        for (where, gpu, metric), happened in sorted(of_series.items()):
            if where != node:
                continue
            changes = [at for each in happened for at in (each.at, each.at + (each.lasts or 0))]
            times = _times([*changes, *returns], changes, settings.end)
            times = times[observed_at(world, node, times)]
            uuid = f"GPU-{node + 1:08x}-0000-4000-8000-{gpu:012x}"
            labels = {"__name__": metric, "Hostname": host, "gpu": str(gpu), "UUID": uuid}
            parts.append(_part(labels, times, _values(metric, happened, returns, times)))
    return pl.concat(parts)


_LABELS: Final = ("__name__", "Hostname", "instance", "gpu", "UUID", "controller")
_READINGS: Final = dict.fromkeys(_LABELS, TEXT) | {"timestamp": pl.Datetime("ms", "UTC"), "value": pl.Float64()}


def _times(changes: list[int], own: list[int], end: int) -> np.ndarray:
    """Times of readings: often around changes, and seldom around those that are the series' own."""
    seldom = [np.arange((at - AROUND_S) // SELDOM_S * SELDOM_S, at + AROUND_S, SELDOM_S) for at in own]
    near = [np.arange(_read_at(at - NEAR_S), at + NEAR_S, SAMPLE_S) for at in changes]
    times = np.unique(np.concatenate([*seldom, *near]))
    return times[(times >= BEGIN) & (times <= end)]


def _part(labels: dict[str, str], times: np.ndarray, values: np.ndarray) -> pl.DataFrame:
    moments = pl.Series(times * 1000).cast(pl.Datetime("ms", "UTC"))
    frame = pl.DataFrame({"timestamp": moments, "value": values})
    texts = [pl.lit(labels.get(name), dtype=TEXT).alias(name) for name in _LABELS]
    return frame.with_columns(texts).select(*_READINGS)
