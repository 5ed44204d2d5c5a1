"""Plan of the simulated cluster: its nodes, and the faults, slow periods and maintenance ahead."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

BEGIN = 1_788_220_800
"""2026-09-01T00:00:00Z, when the cluster is handed over."""

CLUSTER = "demo"
DAY_S = 86_400
HOUR_S = 3_600
GPUS_PER_NODE = 8
SLURMD_TIMEOUT_S = 300
"""Slurm calls a node down when it has been silent for that long."""

REQUEUE_HOLD_S = 51
"""A requeued job is eligible after cred_expire and a second."""

WATCHDOG_S = 1800
"""A collective that waits for so long is aborted, and with it the job."""

LEMON_FACTOR = 30.0
"""How much more often a lemon fails than a sound node."""

_KINDS = ("silent", "health", "crash", "hang")
_KIND_SHARES = (0.40, 0.25, 0.20, 0.15)
_XIDS = (79, 94, 48, 95, 74, 119)
_XID_SHARES = (0.35, 0.20, 0.15, 0.10, 0.10, 0.10)


@dataclass(frozen=True)
class Settings:
    """Options of a simulated cluster; times are seconds since 1970."""

    gpus: int = 1024
    days: int = 61
    seed: int = 2026
    failures_per_1000_node_days: float = 6.5

    @property
    def n_nodes(self) -> int:
        """Nodes of 8 GPUs."""
        return self.gpus // GPUS_PER_NODE

    @property
    def end(self) -> int:
        """The moment at which the sources are read."""
        return BEGIN + self.days * DAY_S

    @property
    def n_shared(self) -> int:
        """Nodes of the partition `dev`, whose GPUs are handed out one by one: the last ones, a sixteenth."""
        return max(1, self.n_nodes // 16)

    @property
    def n_whole(self) -> int:
        """Nodes of the partition `train`, which are handed out whole: the first ones."""
        return self.n_nodes - self.n_shared

    def name(self, node: int) -> str:
        """Name of a node."""
        return f"gpu-{node + 1:0{max(3, len(str(self.n_nodes)))}d}"


@dataclass(frozen=True)
class NodeFault:
    """A fault of a node.

    Attributes:
        node: which one.
        at: when, in seconds since 1970.
        kind: silent (the node dies), health (a check finds it and calls the node down), crash (the job dies of it, then
            the node is drained), hang (a link fails: the job hangs until its watchdog fires, then the node is drained).
        xid: what the driver reports; None for faults without one.
        gpu: GPU to blame.
        notice_s: from the fault to the end of the jobs on the node.
        repair_s: how long the node is then out of service.
    """

    node: int
    at: int
    kind: str
    xid: int | None
    gpu: int
    notice_s: int
    repair_s: int

    @property
    def reason(self) -> str:
        """The reason in the node's event."""
        if self.kind == "silent":
            return "Not responding"
        return f"health: XID {self.xid} on GPU {self.gpu}" if self.xid else f"health: IB link down mlx5_{self.gpu}"


@dataclass(frozen=True)
class Slow:
    """A node that makes every step of the runs on it longer, for a while."""

    node: int
    begin: int
    end: int
    factor: float


@dataclass(frozen=True)
class Dimmed:
    """A GPU whose power is capped for a while: it clocks lower than its peers, and nothing reports an error.

    Steps stay as long as they are: their ranks wait for communication for longer than this costs.
    """

    node: int
    gpu: int
    begin: int
    end: int
    clock: float
    power: float


@dataclass(frozen=True)
class Maintenance:
    """Nodes that are taken out of service on purpose."""

    nodes: tuple[int, ...]
    begin: int
    end: int
    reason: str


@dataclass(frozen=True)
class FaultPlan:
    """Everything that is going to happen to the nodes; failures in order of time."""

    failures: list[NodeFault] = field(default_factory=list)
    lemons: tuple[int, ...] = ()
    slow: tuple[Slow, ...] = ()
    dimmed: tuple[Dimmed, ...] = ()
    maintenance: tuple[Maintenance, ...] = ()


def plan(settings: Settings) -> FaultPlan:
    """Draw the faults of a cluster: the same settings give the same ones."""
    chance = np.random.default_rng([settings.seed, 1])
    whole = settings.n_whole
    count = min(3, max(1, settings.n_nodes // 42))
    # Lemons and slow nodes lie where the large runs lie: elsewhere few would notice.
    odd = chance.choice(max(count + 2, whole * 3 // 4), size=count + 2, replace=False)
    lemons = tuple(sorted(int(node) for node in odd[:count]))
    return FaultPlan(
        failures=_failures(settings, lemons, chance),
        lemons=lemons,
        slow=_slow(settings, [int(node) for node in odd[count:]]),
        dimmed=_dimmed(settings, {int(node) for node in odd}),
        maintenance=_maintenance(settings),
    )


def _failures(settings: Settings, lemons: tuple[int, ...], chance: np.random.Generator) -> list[NodeFault]:
    per_s = settings.failures_per_1000_node_days / 1000 / DAY_S
    failures = []
    for node in range(settings.n_nodes):
        at = float(BEGIN)
        while True:
            at += chance.exponential(1 / (per_s * (LEMON_FACTOR if node in lemons else 1.0)))
            if at >= settings.end:
                break
            failures.append(_failure(settings, node, int(at), chance))
    return sorted(failures, key=lambda failure: (failure.at, failure.node))


def _failure(settings: Settings, node: int, at: int, chance: np.random.Generator) -> NodeFault:
    kind = str(chance.choice(_KINDS, p=_KIND_SHARES))
    if node >= settings.n_whole and kind in {"crash", "hang"}:
        kind = "health"  # a drain of a shared node shows only when its last job has gone
    xid = int(chance.choice(_XIDS, p=_XID_SHARES))
    notice = {
        "silent": SLURMD_TIMEOUT_S + int(chance.integers(0, 60)),
        "health": int(chance.integers(5, 60)),
        "crash": int(chance.integers(8, 40)),
        "hang": WATCHDOG_S + int(chance.integers(5, 20)),
    }
    repair = int(min(36 * 3600, chance.lognormal(np.log(2 * 3600), 1.0)))
    return NodeFault(
        node=node,
        at=at,
        kind=kind,
        xid=xid if kind in {"health", "crash"} else None,
        gpu=int(chance.integers(0, GPUS_PER_NODE)),
        notice_s=notice[kind],
        repair_s=max(600, repair),
    )


def _slow(settings: Settings, nodes: list[int]) -> tuple[Slow, ...]:
    """Two slow periods, each a twelfth of the time long."""
    span = settings.days * DAY_S
    shares = ((0.30, 1.25), (0.62, 1.40))
    return tuple(
        Slow(node, BEGIN + int(share * span), BEGIN + int((share + 1 / 12) * span), factor)
        for node, (share, factor) in zip(nodes, shares, strict=True)
    )


def _dimmed(settings: Settings, odd: set[int]) -> tuple[Dimmed, ...]:
    """A GPU of the first whole node with nothing else to it, for a tenth of the time; none where all have something."""
    span = settings.days * DAY_S
    begin = BEGIN + int(0.45 * span) // HOUR_S * HOUR_S
    nodes = (node for node in range(settings.n_whole * 3 // 4) if node not in odd)
    return tuple(
        Dimmed(node, 5, begin, begin + max(DAY_S, span // 10 // HOUR_S * HOUR_S), clock=0.88, power=0.80)
        for node in itertools.islice(nodes, 1)
    )


def _maintenance(settings: Settings) -> tuple[Maintenance, ...]:
    """Three windows a month, each for an eighth of the whole nodes: four hours of firmware."""
    size = max(1, settings.n_whole // 8)
    windows = []
    first_day = min(9, max(1, settings.days // 2))
    for number, day in enumerate(range(first_day, settings.days, 10)):
        first = (number * size) % settings.n_whole
        nodes = tuple(sorted((first + offset) % settings.n_whole for offset in range(size)))
        begin = BEGIN + day * DAY_S + 9 * 3600
        windows.append(Maintenance(nodes, begin, begin + 4 * 3600, "maintenance: NIC firmware"))
    return tuple(windows)
