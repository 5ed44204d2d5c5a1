"""The signals that are watched, in which direction a deviation is bad, and from which size on it matters."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple


class Signal(NamedTuple):
    """A quantity that peers have in common.

    Attributes:
        name: as answers name it.
        title: for people.
        scale: `ratio`: deviations are natural logarithms of ratios; `kelvin`: they are differences.
        least: the smallest deviation that matters, on that scale.
        signs: -1 where less than the peers is bad, 1 where more is.
    """

    name: str
    title: str
    scale: Literal["ratio", "kelvin"]
    least: float
    signs: tuple[int, ...]


ACTIVITY: Final = Signal("activity", "tensor or SM activity", "ratio", 0.10, (-1,))
SM_CLOCK: Final = Signal("sm_clock", "SM clock", "ratio", 0.03, (-1,))
POWER: Final = Signal("power", "power at equal work", "ratio", 0.10, (-1, 1))
TEMPERATURE: Final = Signal("temperature", "temperature at equal power", "kelvin", 8.0, (1,))

PCIE: Final = Signal("pcie_throughput", "PCIe throughput at equal work", "ratio", 0.20, (-1,))
NVLINK: Final = Signal("nvlink_throughput", "NVLink throughput at equal work", "ratio", 0.20, (-1,))

OF_GPUS: Final = (ACTIVITY, SM_CLOCK, POWER, TEMPERATURE, PCIE, NVLINK)

OF_NODES: Final = (
    Signal("ib_throughput", "InfiniBand throughput", "ratio", 0.20, (-1,)),
    Signal("ib_link_rate", "InfiniBand link rate", "ratio", 0.20, (-1,)),
    Signal("filesystem_response", "filesystem response time", "ratio", 0.50, (1,)),
)
"""Of ports and mounts: each is compared with the same port or mount of the other nodes."""

BY_NAME: Final = {signal.name: signal for signal in (*OF_GPUS, *OF_NODES)}
