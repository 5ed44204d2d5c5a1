"""The node board: what is on a node, and what its GPUs, network and filesystems do."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dashboards import grafana, hardware
from dashboards.grafana import fixed, override, ranged, rows, steps
from dashboards.parts import BAD, GOOD, MIDDLING, PLAIN, RUN_LINKS, UNSEEN, board, chosen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.grafana import Json

UID: Final = "trackside-node"

WHERE: Final = 'cluster=~"$cluster", node=~"$node"'


def here(name: str) -> str:
    """Series of the chosen nodes."""
    return f"{name}{{{WHERE}}}"


def node(_: Mapping[str, tuple[float, ...]]) -> Json:
    """The board as JSON. No claim is on a number of it."""
    known = "trackside:node:gpus"
    return board(
        "Trackside: nodes",
        UID,
        "Whose jobs are on these nodes, and what do their GPUs, network and filesystems do?",
        tags=("gpu", "nodes", "slurm"),
        variables=[
            chosen("cluster", "Cluster", known),
            chosen("node", "Node", f'{known}{{cluster=~"$cluster"}}'),
        ],
        panels=[
            grafana.row("Now"),
            *_now(),
            grafana.row("Nodes"),
            hardware.by_node(here),
            grafana.row("GPUs"),
            *hardware.gpus(here),
            grafana.row("Network"),
            *hardware.network(here),
            grafana.row("Filesystems"),
            *hardware.filesystems(here),
        ],
    )


def _now() -> list[Any]:
    stat = partial(grafana.stat, size=(4, 8), min=0, unit="locale", options={"graphMode": "area", "textMode": "value"})
    return [
        stat(
            "GPUs",
            "GPUs that exporters report.",
            [ranged(f"sum ({here('trackside:node:gpus')})")],
            color=fixed(PLAIN),
            decimals=0,
            no_value=UNSEEN,
        ),
        stat(
            "GPUs held",
            "GPUs that jobs hold there.",
            [ranged(f"sum ({here('trackside:node:held_gpus')})")],
            color=fixed(PLAIN),
            decimals=0,
            no_value="no job",
        ),
        stat(
            "Idle while held",
            "Held GPUs that do nothing, at least: idle GPUs beyond those that no job holds.",
            [ranged(f"sum ({here('trackside:node:idle_held_gpus')})")],
            thresholds=steps(GOOD, (1, MIDDLING), (8, BAD)),
            decimals=0,
            no_value=UNSEEN,
        ),
        _jobs(),
    ]


def _jobs() -> Any:
    labels = ("cluster", "node", "job_id", "run", "user", "partition")
    return grafana.table(
        "Jobs there",
        "Jobs that hold GPUs of these nodes. Click a run for its page in the explorer.",
        [rows(f"sum by ({', '.join(labels)}) ({here('trackside:job:gpus')})")],
        size=(12, 8),
        unit="locale",
        decimals=0,
        min=0,
        no_value="no job",
        transformations=[grafana.organize({**{name: name for name in labels}, "Value": "GPUs"})],
        overrides=[override("run", links=list(RUN_LINKS))],
    )


BOARD = node
