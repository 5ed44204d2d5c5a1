"""Nodes of the simulated cluster that have exporters, and the times at which these respond."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from app.demo.simulate.world import World


def silent_nodes(world: World) -> list[int]:
    """Nodes without an exporter: about one in forty, the last of the whole ones and one of the shared ones."""
    settings = world.settings
    count = max(1, settings.n_nodes // 42)
    return [*range(settings.n_whole - count, settings.n_whole), settings.n_nodes - 1]


def observed_at(world: World, node: int, times: np.ndarray) -> np.ndarray:
    """Whether exporters of a node responded at each time: those of a dead one do not."""
    observed = np.ones(times.size, dtype=bool)
    for state in world.history.states:
        if state.node == node and state.reason == "Not responding":
            observed &= ~((times >= state.began) & (times < (state.ended or world.settings.end)))
    return observed
