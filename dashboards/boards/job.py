"""The job board: what the GPUs, networks and filesystems of one job's nodes do, and which node is different."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dashboards import grafana, hardware
from dashboards.boards.jobs import of, share
from dashboards.grafana import fixed, ranged, steps
from dashboards.parts import BAD, GOOD, MIDDLING, PLAIN, UNSEEN, board, chosen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.grafana import Json

UID: Final = "trackside-job"

WHERE: Final = 'cluster=~"$cluster", user=~"$user", run=~"$run", job_id=~"$job_id"'


def of_nodes(name: str) -> str:
    """Series of the nodes of the job; on a node that it shares, those of the others, too."""
    return f"({name} and on (cluster, node) trackside:job:gpus{{{WHERE}}})"


def job(_: Mapping[str, tuple[float, ...]]) -> Json:
    """The board as JSON. No claim is on a number of it."""
    held = "trackside_job_gpus"
    return board(
        "Trackside: one job",
        UID,
        "What do the GPUs, the network and the filesystems of a job's nodes do, and which node is different?",
        tags=("gpu", "jobs", "slurm"),
        variables=[
            chosen("cluster", "Cluster", held),
            chosen("user", "User", f'{held}{{cluster=~"$cluster"}}'),
            chosen("run", "Run", f'{held}{{cluster=~"$cluster", user=~"$user"}}'),
            chosen("job_id", "Job", f'{held}{{cluster=~"$cluster", user=~"$user", run=~"$run"}}'),
        ],
        panels=[
            grafana.row("The job now"),
            *_now(),
            grafana.row("Its nodes"),
            hardware.by_node(of_nodes),
            grafana.row("GPUs"),
            *hardware.gpus(of_nodes),
            grafana.row("Network"),
            *hardware.network(of_nodes),
            grafana.row("Filesystems"),
            *hardware.filesystems(of_nodes),
        ],
    )


def _now() -> list[Any]:
    stat = partial(grafana.stat, size=(6, 4), min=0, options={"graphMode": "area", "textMode": "value"})
    ratio: dict[str, Any] = {"unit": "percentunit", "decimals": 1, "max": 1, "no_value": UNSEEN}
    return [
        stat(
            "GPUs held",
            "GPUs that the job holds, on all its nodes.",
            [ranged(of("gpus", where=WHERE))],
            color=fixed(PLAIN),
            unit="locale",
            decimals=0,
            no_value="the job holds none",
        ),
        stat(
            "Busy",
            "Mean activity of its GPUs. It shows that something ran, not that it ran well.",
            [ranged(share("busy_gpus", where=WHERE))],
            color=fixed(PLAIN),
            **ratio,
        ),
        stat(
            "Idle GPUs",
            "Held GPUs that do nothing, at least.",
            [ranged(of("idle_gpus", where=WHERE))],
            thresholds=steps(GOOD, (1, MIDDLING), (8, BAD)),
            unit="locale",
            decimals=1,
            no_value=UNSEEN,
        ),
        stat(
            "Power of all its GPUs",
            "Power of its GPUs, all together.",
            [ranged(of("gpu_power_w", where=WHERE))],
            color=fixed(PLAIN),
            unit="watt",
            decimals=0,
            no_value=UNSEEN,
        ),
    ]


BOARD = job
