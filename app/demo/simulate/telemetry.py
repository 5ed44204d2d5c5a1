"""The output of the simulated cluster's exporters: hours of all GPUs, and samples of a few around a fault.

Unobserved time has no row: some nodes have no exporter, some hours were lost, a dead node is silent.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from app.demo.simulate.exporters import observed_at, silent_nodes
from app.demo.simulate.health import SAMPLE_S, events, xid_gauge
from app.demo.simulate.plan import BEGIN, CLUSTER, GPUS_PER_NODE, HOUR_S, NodeFault
from app.demo.simulate.run_logs import GPU_MODEL
from ingest.tables import WHOLE, Schema

if TYPE_CHECKING:
    from app.demo.simulate.health import HealthEvent
    from app.demo.simulate.scheduler import Attempt
    from app.demo.simulate.world import World

HOUR_MS = HOUR_S * 1000
RAW_NODES = 8
RAW_HOURS = 2
CLOCK_HZ = 1.755e9
"""SM clock of a GPU that computes; that of the peak is 1.83 GHz."""
PEAK_CLOCK_HZ = 1.83e9
LOST_HOURS = 0.002
"""Share of node-hours whose samples never arrived."""


@dataclass(frozen=True)
class HourGrid:
    """Milliseconds by node, GPU and hour; `tensor` is milliseconds x tensor activity, in thousandths."""

    busy: np.ndarray
    tensor: np.ndarray
    held: np.ndarray
    covered: np.ndarray


def grid(world: World) -> HourGrid:
    """How long each GPU computed, was held, and was observed, in each hour."""
    settings = world.settings
    shape = (settings.n_nodes, GPUS_PER_NODE, settings.days * 24)
    segments = world.segments.join(world.held, on="attempt")
    active = segments.filter("active")
    busy = spread(active, shape)
    level = np.array([round(1000 * tensor_active(attempt)) for attempt in world.attempts], dtype=np.int64)
    tensor = spread(active, shape, level[active["attempt"].to_numpy()])
    held = spread(segments, shape)
    return HourGrid(busy, tensor, held, HOUR_MS - _silence(world, shape))


def tensor_active(attempt: Attempt) -> float:
    """Share of cycles in which the tensor pipes work while an attempt does; clocks are lower than that of the peak."""
    return attempt.job.executed_share * PEAK_CLOCK_HZ / CLOCK_HZ


def spread(rows: pl.DataFrame, shape: tuple[int, int, int], weight: np.ndarray | None = None) -> np.ndarray:
    """Lay intervals (`begin`, `end`, `node`, `indices`) out over hours, each as often as its weight."""
    totals = np.zeros(shape, dtype=np.int64)
    begin = rows["begin"].to_numpy() - BEGIN * 1000
    end = rows["end"].to_numpy() - BEGIN * 1000
    first, last = begin // HOUR_MS, (end - 1) // HOUR_MS
    repeats = last - first + 1
    which = np.repeat(np.arange(rows.height), repeats)
    hour = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats) + first[which]
    amount = np.minimum(end[which], (hour + 1) * HOUR_MS) - np.maximum(begin[which], hour * HOUR_MS)
    if weight is not None:
        amount = amount * weight[which]
    node = rows["node"].to_numpy()[which]
    holds = np.zeros((rows.height, GPUS_PER_NODE), dtype=bool)
    owner = np.repeat(np.arange(rows.height), rows["indices"].list.len().to_numpy())
    holds[owner, rows["indices"].explode().to_numpy()] = True
    for gpu in range(GPUS_PER_NODE):
        mine = holds[which, gpu]
        np.add.at(totals[:, gpu, :], (node[mine], hour[mine]), amount[mine])
    return totals


def _silence(world: World, shape: tuple[int, int, int]) -> np.ndarray:
    """Milliseconds without samples: dead nodes, lost hours, nodes without an exporter."""
    chance = np.random.default_rng([world.settings.seed, 6])
    dead = [
        (state.node, state.began * 1000, (state.ended or world.settings.end) * 1000, list(range(GPUS_PER_NODE)))
        for state in world.history.states
        if state.reason == "Not responding"
    ]
    schema: Schema = {"node": WHOLE, "begin": WHOLE, "end": WHOLE, "indices": pl.List(WHOLE)}
    silent = spread(pl.DataFrame(dead, schema=schema, orient="row"), shape)
    lost = chance.random((shape[0], shape[2])) < LOST_HOURS
    silent[np.broadcast_to(lost[:, None, :], shape)] = HOUR_MS
    silent[silent_nodes(world)] = HOUR_MS
    return silent.clip(0, HOUR_MS)


def gpu_hours(world: World) -> pl.DataFrame:
    """Hourly roll-ups of all GPUs, in the columns of `gpu_hours`; hours without samples have no rows."""
    settings, cells = world.settings, grid(world)
    chance = np.random.default_rng([settings.seed, 7])
    observed = cells.covered > 0
    node, gpu, hour = (index.astype(np.int32) for index in np.nonzero(observed))
    at = BEGIN + hour.astype(np.int64) * HOUR_S
    covered = cells.covered[observed] / 1000
    # A GPU that computes is not silent, so what was computed was observed.
    share = np.minimum(cells.busy[observed] / 1000 / covered, 1.0)
    idle_share = np.minimum((cells.held - cells.busy)[observed] / 1000 / covered, 1.0 - share)
    wobble = chance.normal(1, 0.02, share.size)
    busy = share > 0
    names = pl.Series([settings.name(n) for n in range(settings.n_nodes)])
    base = pl.DataFrame(
        {
            "cluster": pl.Series([CLUSTER]).new_from_index(0, share.size),
            "node": names.gather(node),
            "gpu": pl.Series([str(n) for n in range(GPUS_PER_NODE)]).gather(gpu),
            "ts": pl.Series(at * 1_000_000).cast(pl.Datetime("us", "UTC")),
            "covered_s": covered,
        }
    )
    clock, capped = _dimmed(world, node, gpu, at)
    level = cells.tensor[observed] / 1000 / np.maximum(cells.busy[observed], 1)
    tensor, power, clock = level * wobble, 660 * wobble * capped, CLOCK_HZ * clock
    metrics = {
        "active": (share, busy.astype(float), share * covered),
        "gpu_util": (0.99 * share + 0.05 * idle_share, np.where(busy, 1.0, 0.05), None),
        "tensor_active": (tensor * share, np.where(busy, tensor + 0.06, 0.0), None),
        "sm_clock_hz": (clock * share + 0.345e9 * (1 - share), np.where(busy, clock, 0.345e9), None),
        "power_w": (power * share + (1 - share) * 95, np.where(busy, power + 25, 110.0), None),
    }
    rows = [_metric(base, name, *values) for name, values in metrics.items()]
    return pl.concat(rows)


def _dimmed(world: World, node: np.ndarray, gpu: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factors of clock and power of GPU-hours: 1 but for those of a GPU whose power is capped."""
    clock, power = np.ones(at.size), np.ones(at.size)
    for each in world.history.plan.dimmed:
        inside = (node == each.node) & (gpu == each.gpu) & (at >= each.begin) & (at < each.end)
        clock[inside], power[inside] = each.clock, each.power
    return clock, power


def _metric(
    base: pl.DataFrame, name: str, mean: np.ndarray, most: np.ndarray, active: np.ndarray | None
) -> pl.DataFrame:
    digits = 6 if name == "active" else 3
    return base.select(
        "cluster",
        "node",
        "gpu",
        "ts",
        pl.lit(name).alias("metric"),
        pl.Series("mean", mean.round(digits)),
        pl.Series("max", most.round(3)),
        pl.lit(None, dtype=pl.Float64).alias("p95"),
        pl.Series("active_s", active.round(3))
        if active is not None
        else pl.lit(None, dtype=pl.Float64).alias("active_s"),
        "covered_s",
    )


@dataclass(frozen=True)
class Watched:
    """The nodes and the hours of which raw samples are kept, and the fault among them."""

    nodes: tuple[int, ...]
    begin: int
    end: int
    failure: NodeFault | None


def watched(world: World) -> Watched:
    """Two whole hours around a fault with an XID in the largest run, and eight nodes of it, the faulty one first."""
    settings = world.settings
    most = min(RAW_NODES, settings.n_nodes)
    hit = [attempt for attempt in world.attempts if attempt.failure is not None and attempt.failure.xid is not None]
    for attempt in sorted(hit, key=lambda a: (-a.job.gpus, a.failure.at if a.failure else 0)):
        failure, started = attempt.failure, attempt.started
        if failure is None or started is None:
            continue
        begin = failure.at - (failure.at - BEGIN) % HOUR_S
        begin -= HOUR_S if failure.at - begin < HOUR_S // 2 else 0
        if begin < BEGIN or begin + RAW_HOURS * HOUR_S > settings.end or failure.at - started < HOUR_S:
            continue
        others = [node for node in [*attempt.nodes, *range(settings.n_nodes)] if node != failure.node]
        chosen = (failure.node, *dict.fromkeys(others))
        return Watched(chosen[:most], begin, begin + RAW_HOURS * HOUR_S, failure)
    return Watched(tuple(range(most)), BEGIN, BEGIN + RAW_HOURS * HOUR_S, None)


FAMILIES = (
    ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %)."),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Ratio of time the graphics engine is active."),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "Ratio of cycles the tensor (HMMA) pipe is active."),
    ("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W)."),
    ("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB)."),
    ("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered."),
)


def openmetrics(world: World) -> str:
    """Samples of dcgm-exporter every 15 s as OpenMetrics text, with timestamps: what `promtool tsdb dump` gives."""
    what = watched(world)
    times = np.arange(what.begin, what.end, SAMPLE_S)
    happened = events(world)
    values = {node: _samples(world, what, happened, node, times) for node in what.nodes}
    text = io.StringIO()
    for name, about in FAMILIES:
        text.write(f"# HELP {name} {about}\n# TYPE {name} gauge\n")
        for node in what.nodes:
            for gpu in range(GPUS_PER_NODE):
                labels = _labels(world.settings.name(node), gpu)
                text.writelines(
                    f"{name}{{{labels}}} {value:g} {at}\n" for at, value in values[node].get((name, gpu), ())
                )
    text.write("# EOF\n")
    return text.getvalue()


def _labels(node: str, gpu: int) -> str:
    number = int(node.rpartition("-")[2])
    uuid = f"GPU-{number:08x}-0000-4000-8000-{gpu:012x}"
    return f'gpu="{gpu}",UUID="{uuid}",device="nvidia{gpu}",modelName="{GPU_MODEL}",Hostname="{node}"'


def _samples(
    world: World, what: Watched, happened: list[HealthEvent], node: int, times: np.ndarray
) -> dict[tuple[str, int], list[tuple[int, float]]]:
    """All samples of a node: by metric and GPU, time and value. A dead node gives none."""
    chance = np.random.default_rng([world.settings.seed, 8, node])
    observed = observed_at(world, node, times)
    samples = {}
    doing = _doing(world, what, node, times)
    for gpu in range(GPUS_PER_NODE):
        busy, held, level = doing[gpu]
        wobble = chance.normal(1, 0.03, times.size)
        columns = {
            "DCGM_FI_DEV_GPU_UTIL": np.where(busy, (98 * wobble).clip(90, 100), 0).round(),
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE": np.where(busy, (0.96 * wobble).clip(0.85, 1), 0).round(3),
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": (level * wobble).round(3),
            "DCGM_FI_DEV_POWER_USAGE": np.where(busy, 660 * wobble, np.where(held, 125, 72) * wobble).round(1),
            "DCGM_FI_DEV_FB_USED": np.where(held, 71_000, 4),
            "DCGM_FI_DEV_XID_ERRORS": xid_gauge(world, happened, node, gpu, times),
        }
        for name, column in columns.items():
            samples[name, gpu] = list(zip(times[observed].tolist(), column[observed].tolist(), strict=True))
    return samples


def _doing(
    world: World, what: Watched, node: int, times: np.ndarray
) -> dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each GPU of a node: whether it computed, whether it was held, and its tensor activity, at each time."""
    none = np.zeros(times.size, dtype=bool)
    activity = {gpu: (none.copy(), none.copy(), np.zeros(times.size)) for gpu in range(GPUS_PER_NODE)}
    rows = attempt_intervals(world, what, node).select("indices", "active", "begin", "end", "attempt").rows()
    for gpus, active, begin, end, attempt in rows:
        inside = (times * 1000 >= begin) & (times * 1000 < end)
        for gpu in gpus:
            activity[gpu][0][inside] |= active
            activity[gpu][1][inside] = True
            if active:
                activity[gpu][2][inside] = tensor_active(world.attempts[attempt])
    return activity


def attempt_intervals(world: World, what: Watched, node: int) -> pl.DataFrame:
    """Intervals of attempts on a node, with its GPUs (`indices`), while it is watched."""
    near = world.segments.filter((pl.col("end") > what.begin * 1000) & (pl.col("begin") < what.end * 1000))
    return near.join(world.held.filter(pl.col("node") == node), on="attempt")


def without_evidence(world: World, attempt: Attempt) -> bool:
    """Whether an attempt has neither a run log nor telemetry."""
    return not attempt.job.logged and set(attempt.nodes) <= set(silent_nodes(world))
