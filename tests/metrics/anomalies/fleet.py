"""Simulated hours of busy GPUs: they differ a little, hours scatter and are alike, jobs dip, and faults are planted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from metrics import frames
from metrics.anomalies.deviations import GPU_HOURS

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Fault:
    """What befalls a GPU from one day to another, in some hours of every 20: its clock and temperature."""

    node: int
    gpu: int
    since: int
    until: int
    clock: float = 1.0
    power: float = 1.0
    kelvin: float = 0.0
    hours_of_20: int = 20


@dataclass(frozen=True)
class Fleet:
    """Nodes of eight GPUs, in attempts of some nodes that change every three days."""

    seed: int = 1
    nodes: int = 32
    nodes_per_attempt: int = 16
    days: int = 8
    gpus: int = 8
    faults: tuple[Fault, ...] = ()
    dips: dict[int, float] = field(default_factory=dict)
    """Factor on clock, work and power of all GPUs of the attempts of a day."""
    clock_sigma: float = 0.006
    hour_sigma: float = 0.004
    alike: float = 0.5
    """Correlation of an hour with the one before."""
    tails: float = 0.0
    """Degrees of freedom of Student's t that hours scatter by; 0: normal."""
    stages: int = 1
    """Pipeline stages: the last does 20 % more work than the first, and its GPUs take more power and clock lower."""

    def days_of_hours(self) -> Iterator[pl.DataFrame]:
        """`GPU_HOURS`, a day at a time."""
        chance = np.random.default_rng(self.seed)
        scatter = _Scatter(chance, (self.nodes, self.gpus), self.alike, self.tails)
        own_clock = chance.normal(0, self.clock_sigma, scatter.shape)
        own_power = chance.normal(0, 0.03, scatter.shape)
        slot = np.linspace(-3, 3, self.gpus) + chance.normal(0, 1.0, scatter.shape)
        attempt = np.zeros(self.nodes, dtype=int)
        load = np.zeros(scatter.shape)
        for day in range(self.days):
            if day % 3 == 0:
                order = chance.permutation(self.nodes)
                attempt[order] = np.arange(self.nodes) // self.nodes_per_attempt + 1000 * day
                stage = np.arange(self.nodes) % self.nodes_per_attempt * self.stages // self.nodes_per_attempt
                load[order] = (0.2 * stage / max(1, self.stages - 1))[:, None]
            own = own_clock - 0.1 * load, own_power + 0.4 * load, slot, np.exp(load)
            hours = [self._hour(24 * day + hour, scatter, own) for hour in range(24)]
            node = pl.Series([f"node-{n:03}" for n in range(self.nodes)])
            frame = pl.concat(hours).with_columns(node=node.gather(pl.concat(hours)["place"]))
            held = pl.Series(attempt).gather(pl.concat(hours)["place"])
            yield frames.conform(frame.with_columns(attempt=held), GPU_HOURS)

    def _hour(self, hour: int, scatter: _Scatter, own: tuple[np.ndarray, ...]) -> pl.DataFrame:
        own_clock, own_power, slot, more = own
        day = hour // 24
        load = scatter.next("work")
        clock = 1.7e9 * np.exp(own_clock + self.hour_sigma * scatter.next("clock"))
        work = 0.5 * more * np.exp(0.02 * load)
        power = 650 * np.exp(own_power + 0.5 * 0.02 * load + 0.01 * scatter.next("power"))
        kelvin = slot + 1.5 * scatter.next("kelvin")
        for fault in self.faults:
            if fault.since <= day < fault.until and hour % 20 < fault.hours_of_20:
                where = fault.node, fault.gpu
                clock[where] *= fault.clock
                work[where] *= fault.clock
                power[where] *= fault.power
                kelvin[where] += fault.kelvin
        dip = self.dips.get(day, 1.0)
        place, gpu = np.indices(scatter.shape)
        columns = {
            "place": place,
            "hour": np.full(scatter.shape, 480_000 + hour),
            "work": dip * work,
            "sm_clock_hz": dip * clock,
            "power_w": dip * power,
            "temperature_c": 60 + 30 * np.log(power / 650) + kelvin,
        }
        frame = pl.DataFrame({name: values.ravel() for name, values in columns.items()})
        return frame.with_columns(gpu=pl.Series(gpu.ravel()).cast(pl.String))


class _Scatter:
    """Random numbers of which neighbours in time are alike."""

    def __init__(self, chance: np.random.Generator, shape: tuple[int, int], alike: float, tails: float) -> None:
        self._chance, self.shape, self._alike, self._tails = chance, shape, alike, tails
        self._last: dict[str, np.ndarray] = {}

    def next(self, name: str) -> np.ndarray:
        """Of the next hour, with a standard deviation of 1."""
        new = self._chance.normal(0, 1, self.shape)
        if self._tails:
            new = self._chance.standard_t(self._tails, self.shape) * np.sqrt((self._tails - 2) / self._tails)
        if name in self._last:
            new = self._alike * self._last[name] + np.sqrt(1 - self._alike**2) * new
        self._last[name] = new
        return new
