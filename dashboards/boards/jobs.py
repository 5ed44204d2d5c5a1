"""The jobs board: who holds which GPUs on all clusters, the activity of these, and the load on filesystems.

Jobs are those of `trackside_job_gpus`; telemetry is the recorded series of the exporters. A job's part of a
node's series is its share of the GPUs that jobs hold there (`dashboards/rules/derived.py`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dashboards import grafana, palette
from dashboards.grafana import fixed, override, ranged, rows, steps
from dashboards.numbers import most, top
from dashboards.parts import BAD, GOOD, LIVE, MIDDLING, PLAIN, RUN_LINKS, UNSEEN, board, chosen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.grafana import Json

UID: Final = "trackside-jobs"

WHERE: Final = 'cluster=~"$cluster", partition=~"$partition", user=~"$user"'
IDLE_SHARE: Final = (0.05, 0.20)
"""Shares of held GPUs that are idle from which it is much, and very much."""

OPERATIONS: Final = "filesystem_operations_per_s"
SHARED: Final = "Of a node that several jobs share, each has its share of the held GPUs."

_MEASURED = palette.EVIDENCE_COLOURS["telemetry"]
_RATIO: Final[dict[str, Any]] = {"unit": "percentunit", "decimals": 1, "min": 0, "max": 1, "no_value": UNSEEN}
_COUNT: Final[dict[str, Any]] = {"unit": "locale", "decimals": 0, "min": 0, "no_value": "no jobs"}
_RATE: Final[dict[str, Any]] = {"unit": "ops", "decimals": 1, "min": 0, "no_value": UNSEEN}


def of(name: str, *by: str, where: str = WHERE) -> str:
    """A job's series summed over the chosen jobs, by labels."""
    grouped = f" by ({', '.join(by)})" if by else ""
    return f"sum{grouped} (trackside:job:{name}{{{where}}})"


def share(name: str, *by: str, where: str = WHERE) -> str:
    """The mean of a GPU's ratio over the held GPUs that telemetry covers."""
    return f"{of(name, *by, where=where)} / {of('observed_gpus', *by, where=where)}"


def jobs(_: Mapping[str, tuple[float, ...]]) -> Json:
    """The board as JSON. No claim is on a number of it."""
    held = "trackside_job_gpus"
    return board(
        "Trackside: jobs",
        UID,
        "Who holds which GPUs, how busy are they, and what load do the jobs put on the filesystems?",
        tags=("gpu", "jobs", "slurm"),
        variables=[
            chosen("cluster", "Cluster", held),
            chosen("partition", "Partition", f'{held}{{cluster=~"$cluster"}}'),
            chosen("user", "User", f'{held}{{cluster=~"$cluster", partition=~"$partition"}}'),
        ],
        panels=[
            grafana.row("All chosen jobs"),
            *_now(),
            grafana.row("By partition"),
            *_by("partition"),
            grafana.row("By user"),
            *_by("user"),
            grafana.row("Filesystems"),
            *_filesystems(),
            grafana.row("Jobs"),
            _table(),
        ],
    )


def _now() -> list[Any]:
    stat = partial(grafana.stat, size=(4, 4), options={"graphMode": "area", "textMode": "value"})
    return [
        stat(
            "GPUs held", f"GPUs that the chosen jobs hold. {LIVE}", [ranged(of("gpus"))], color=fixed(PLAIN), **_COUNT
        ),
        stat(
            "Jobs",
            "Jobs that hold GPUs.",
            [ranged(f"count(count by (cluster, job_id) (trackside:job:gpus{{{WHERE}}}))")],
            color=fixed(PLAIN),
            **_COUNT,
        ),
        stat(
            "Busy",
            "Mean activity of the held GPUs: share of the time in which the graphics engine, or else any kernel, was "
            "active. It shows that something ran, not that it ran well.",
            [ranged(share("busy_gpus"))],
            color=fixed(PLAIN),
            **_RATIO,
        ),
        stat(
            "Tensor cores active",
            "Mean share of the cycles in which the tensor pipes of the held GPUs were active. It is no MFU: pipes are "
            "active for work that is no model's, too.",
            [ranged(share("tensor_gpus"))],
            color=fixed(PLAIN),
            **_RATIO,
        ),
        stat(
            "Idle while held",
            "Share of the held GPUs that do nothing, at least: of a node's idle GPUs those count that are more than "
            "its GPUs that no job holds.",
            [ranged(share("idle_gpus"))],
            thresholds=steps(GOOD, (IDLE_SHARE[0], MIDDLING), (IDLE_SHARE[1], BAD)),
            **_RATIO,
        ),
        stat(
            "Filesystem operations",
            f"Operations per second of the nodes of the chosen jobs on network filesystems. {SHARED}",
            [ranged(of(OPERATIONS))],
            color=fixed(PLAIN),
            **_RATE,
        ),
    ]


def _by(label: str) -> list[Any]:
    by, shown = ("cluster", label), f"{{{{cluster}}}} {{{{{label}}}}}"  # equal names on two clusters are two
    stacked = {"fillOpacity": 60, "lineWidth": 1, "stacking": {"group": "A", "mode": "normal"}}
    return [
        grafana.time_series(
            f"GPUs held, by {label}",
            f"GPUs that the chosen jobs hold, by {label}; the twelve largest.",
            [ranged(most(12, of("gpus", *by)), shown)],
            size=(8, 8),
            custom=stacked,
            **_COUNT,
        ),
        grafana.time_series(
            f"Busy, by {label}",
            f"Mean activity of the held GPUs, by {label}: of the twelve that hold most.",
            [ranged(f"({share('busy_gpus', *by)}) and {top(12, of('gpus', *by))}", shown)],
            size=(8, 8),
            **_RATIO,
        ),
        grafana.time_series(
            f"Filesystem operations, by {label}",
            f"Operations per second on network filesystems, by {label}; the twelve busiest. {SHARED}",
            [ranged(most(12, of(OPERATIONS, *by)), shown)],
            size=(8, 8),
            **_RATE,
        ),
    ]


def _filesystems() -> list[Any]:
    return [
        grafana.time_series(
            "Rate of filesystem operations, by kind",
            "Operations per second of all nodes of the chosen clusters on network filesystems. Many small reads or "
            "metadata operations are what a data loader should not do.",
            [
                ranged(f'sum (trackside:node:fs_{kind}_operations_per_s{{cluster=~"$cluster"}})', kind)
                for kind in ("read", "write", "metadata")
            ],
            size=(12, 8),
            **_RATE,
        ),
        grafana.time_series(
            "Response of filesystems, by cluster",
            "Mean time from the request of an operation to its answer, over all nodes. Above a second jobs stall.",
            [
                ranged(
                    'sum by (cluster) (trackside:node:fs_response_s_per_s{cluster=~"$cluster"}) '
                    '/ sum by (cluster) (trackside:node:fs_operations_per_s{cluster=~"$cluster"})',
                    "{{cluster}}",
                )
            ],
            size=(12, 8),
            unit="s",
            decimals=3,
            min=0,
            no_value=UNSEEN,
        ),
    ]


JOB: Final = ("cluster", "job_id", "run", "user", "partition")


def _table() -> Any:
    columns = {
        "GPUs": of("gpus", *JOB),
        "nodes": f"count by ({', '.join(JOB)}) (trackside:job:gpus{{{WHERE}}})",
        "busy": share("busy_gpus", *JOB),
        "tensor": share("tensor_gpus", *JOB),
        "idle GPUs": of("idle_gpus", *JOB),
        "power": of("gpu_power_w", *JOB),
        "fs operations/s": of(OPERATIONS, *JOB),
    }
    return grafana.table(
        "Jobs that hold GPUs",
        f"One line a job, the largest first. {SHARED} An empty cell is unknown: no exporter reports its nodes. Click "
        "a run for its page in the explorer.",
        [rows(expr) for expr in columns.values()],
        size=(24, 12),
        unit="short",
        decimals=1,
        min=0,
        no_value=UNSEEN,
        options={"sortBy": [{"displayName": "GPUs", "desc": True}]},
        transformations=grafana.lines_of(columns, *JOB),
        overrides=[
            override("GPUs", unit="locale", decimals=0),
            override("nodes", unit="locale", decimals=0),
            override("busy", unit="percentunit", max=1),
            override("tensor", unit="percentunit", max=1),
            override("power", unit="watt", decimals=0),
            override("run", links=list(RUN_LINKS)),
            override("busy", custom_cellOptions={"type": "gauge", "mode": "basic"}, color=fixed(_MEASURED)),
        ],
    )


BOARD = jobs
