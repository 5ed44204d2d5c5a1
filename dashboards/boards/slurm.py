"""Slurm's board: the nodes and the queue of a cluster, its partitions, and how well its controller keeps up."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dashboards import grafana
from dashboards.grafana import fixed, ranged, rows, steps
from dashboards.numbers import COURSE, most
from dashboards.parts import BAD, GOOD, MIDDLING, PLAIN, board, chosen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.grafana import Json

UID: Final = "trackside-slurm"

OUT: Final = "drained|draining|down|fail|error|not_responding"
"""States in which a node takes no job and may need a repair."""

BASE: Final = "allocated|mixed|idle|down|error|unknown|future"
"""The states of which a node has exactly one."""

SLOW_CYCLE_S: Final = (5.0, 30.0)
"""Seconds of a scheduling cycle from which jobs start late, and very late."""

DBD_QUEUE: Final = (1_000.0, 10_000.0)
"""Messages to slurmdbd from which it lags, and from which accounting may be lost."""

UNTOLD: Final = "no exporter of Slurm"
NOT_ALL: Final = "not reported by this exporter"
_COUNT: Final[dict[str, Any]] = {"unit": "locale", "decimals": 0, "min": 0, "no_value": UNTOLD}
_STACK: Final[dict[str, Any]] = {"fillOpacity": 60, "lineWidth": 1, "stacking": {"group": "A", "mode": "normal"}}


def of(name: str, more: str = "", *, by: str = "cluster") -> str:
    """A series of the chosen clusters, of which each label in `by` stays."""
    where = 'cluster=~"$cluster"' + (f", {more}" if more else "")
    return f"max by ({by}) (trackside:slurm:{name}{{{where}}})"


def slurm(_: Mapping[str, tuple[float, ...]]) -> Json:
    """The board as JSON. No claim is on a number of it."""
    return board(
        "Trackside: Slurm",
        UID,
        "Which nodes take jobs, who waits, and does the controller keep up?",
        tags=("nodes", "queue", "slurm"),
        variables=[
            chosen("cluster", "Cluster", "trackside:slurm:nodes"),
            chosen("partition", "Partition", 'trackside:slurm:jobs_pending_in_partition{cluster=~"$cluster"}'),
        ],
        panels=[
            grafana.row("Now"),
            *_now(),
            grafana.row("Nodes and jobs"),
            *_states(),
            grafana.row("Partitions"),
            *_partitions(),
            grafana.row("Controller"),
            *_controller(),
        ],
    )


def _now() -> list[Any]:
    stat = partial(grafana.stat, size=(4, 4), options=COURSE)
    return [
        stat(
            "Nodes allocated",
            "Nodes all or some of whose processors jobs hold: the states allocated and mixed.",
            [
                ranged(
                    f"sum by (cluster) ({_in_states('nodes', 'allocated|mixed')})",
                    "{{cluster}}",
                )
            ],
            color=fixed(PLAIN),
            **_COUNT,
        ),
        stat(
            "Nodes idle",
            "Nodes that could take a job now. With a long queue: is it the partition, a limit, a reservation? "
            "trackside show queue.",
            [ranged(of("nodes", 'state="idle"'), "{{cluster}}")],
            color=fixed(PLAIN),
            **_COUNT,
        ),
        stat(
            "Nodes out of service",
            "The most that are in one of the states drained, draining, down, fail, error, not responding: a node may "
            "be in several. Who took them out and why: sinfo -R, trackside show lifecycle.",
            [ranged(f"max by (cluster) ({_in_states('nodes', OUT)})", "{{cluster}}")],
            thresholds=steps(GOOD, (1, MIDDLING), (8, BAD)),
            **_COUNT,
        ),
        stat(
            "Jobs running",
            "Jobs in the state running.",
            [ranged(of("jobs", 'state="running"'), "{{cluster}}")],
            color=fixed(PLAIN),
            **_COUNT,
        ),
        stat(
            "Jobs pending",
            "Jobs that wait, for whatever reason: trackside show queue has the reasons.",
            [ranged(of("jobs", 'state="pending"'), "{{cluster}}")],
            color=fixed(PLAIN),
            **_COUNT,
        ),
        stat(
            "Last scheduling cycle",
            "Time that the main scheduler's last pass over the queue took, as sdiag has it. Jobs start, and RPCs are "
            "answered, in between. Long cycles: check the RPCs below, sched_max_job_start and "
            "default_queue_depth.",
            [ranged(of("scheduler_cycle_last_s"), "{{cluster}}")],
            thresholds=steps(GOOD, (SLOW_CYCLE_S[0], MIDDLING), (SLOW_CYCLE_S[1], BAD)),
            unit="s",
            decimals=2,
            min=0,
            no_value=NOT_ALL,
        ),
    ]


def _in_states(what: str, states: str) -> str:
    """How many nodes or jobs are in each of these states."""
    return of(what, f'state=~"{states}"', by="cluster, state")


def _states() -> list[Any]:
    return [
        grafana.time_series(
            "Nodes by state",
            "Nodes by their base state, over the chosen clusters. Further states (drained, reserved, ...) are "
            "not stacked: nodes would count twice.",
            [
                ranged(
                    f"sum by (state) ({_in_states('nodes', BASE)})",
                    "{{state}}",
                )
            ],
            size=(8, 8),
            custom=_STACK,
            **_COUNT,
        ),
        grafana.time_series(
            "Nodes out of service, by state",
            "A node may be in several of these states, so the lines do not add up.",
            [
                ranged(
                    f"sum by (state) ({_in_states('nodes', OUT + '|maintenance|reserved')})",
                    "{{state}}",
                )
            ],
            size=(8, 8),
            **_COUNT,
        ),
        grafana.time_series(
            "Jobs by state",
            "Jobs that wait, run, start and end, over the chosen clusters. Ended jobs count until slurmctld "
            "purges them (MinJobAge).",
            [ranged(f"sum by (state) ({_in_states('jobs', '.+')})", "{{state}}")],
            size=(8, 8),
            **_COUNT,
        ),
    ]


def _partitions() -> list[Any]:
    by = "cluster, partition"
    columns = {
        "nodes": "nodes_in_partition",
        "GPUs": "gpus_in_partition",
        "GPUs allocated": "gpus_allocated_in_partition",
        "jobs running": "jobs_running_in_partition",
        "jobs pending": "jobs_pending_in_partition",
    }
    chosen_ones = 'partition=~"$partition"'
    return [
        grafana.table(
            "Partitions",
            "One line a partition. A node in several partitions counts in each. An empty cell: the exporter does "
            "not report it: Slinky's has no GPUs, SUNK's no nodes by partition.",
            [rows(of(name, chosen_ones, by=by)) for name in columns.values()],
            size=(12, 8),
            transformations=grafana.lines_of(columns, "cluster", "partition"),
            options={"sortBy": [{"displayName": "jobs pending", "desc": True}]},
            **_COUNT,
        ),
        grafana.time_series(
            "Jobs pending, by partition",
            "Jobs that wait in each partition; the twelve with most.",
            [ranged(most(12, of("jobs_pending_in_partition", chosen_ones, by=by)), "{{cluster}} {{partition}}")],
            size=(12, 8),
            **_COUNT,
        ),
    ]


def _controller() -> list[Any]:
    seconds: dict[str, Any] = {"unit": "s", "decimals": 2, "min": 0, "no_value": NOT_ALL, "size": (8, 7)}
    count: dict[str, Any] = {**_COUNT, "no_value": NOT_ALL, "size": (8, 7)}
    return [
        grafana.time_series(
            "Scheduling cycles",
            "Time of the main scheduler's last and mean cycle. The mean is since sdiag was reset, so it moves slowly. "
            "SUNK's exporter has no mean in microseconds, and none is guessed.",
            [
                ranged(of("scheduler_cycle_last_s"), "{{cluster}} last"),
                ranged(of("scheduler_cycle_mean_s"), "{{cluster}} mean"),
            ],
            **seconds,
        ),
        grafana.time_series(
            "Backfill cycles",
            "Time of the backfill scheduler's last and mean cycle. Beyond bf_interval large jobs wait although there "
            "is room.",
            [
                ranged(of("backfill_cycle_last_s"), "{{cluster}} last"),
                ranged(of("backfill_cycle_mean_s"), "{{cluster}} mean"),
            ],
            **seconds,
        ),
        grafana.time_series(
            "Queues of the schedulers",
            "Jobs in the main scheduler's and the backfill scheduler's queue, and how deep the latter looks on "
            "average. Far less deep than its queue: the jobs behind are not considered (bf_max_job_test).",
            [
                ranged(of("scheduler_queue_jobs"), "{{cluster}} main"),
                ranged(of("backfill_queue_jobs"), "{{cluster}} backfill"),
                ranged(of("backfill_depth_jobs"), "{{cluster}} backfill depth"),
            ],
            **count,
        ),
        grafana.time_series(
            "Messages that wait",
            "Messages to slurmdbd, and to nodes, that wait to be sent. Those to slurmdbd are accounting: when their "
            "queue is full, jobs are lost from it (MaxDBDMsgs).",
            [
                ranged(of("slurmdbd_queue_messages"), "{{cluster}} to slurmdbd"),
                ranged(of("agent_queue_messages"), "{{cluster}} to nodes"),
            ],
            thresholds=steps(GOOD, (DBD_QUEUE[0], MIDDLING), (DBD_QUEUE[1], BAD)),
            **{**count, "size": (6, 7)},
        ),
        grafana.time_series(
            "Threads of slurmctld",
            "Threads that answer RPCs. At MAX_SERVER_THREADS (256) clients wait.",
            [ranged(of("controller_threads"), "{{cluster}}")],
            **{**count, "size": (6, 7)},
        ),
        grafana.time_series(
            "RPCs, by type",
            "RPCs that slurmctld answers, the ten most frequent types. A flood of one type comes from a script that "
            "polls: sdiag names the user. Empty with Slinky's exporter and slurmctld's own metrics, which report no "
            "RPCs.",
            [ranged(most(10, of("rpcs_per_s", by="cluster, message_type")), "{{cluster}} {{message_type}}")],
            size=(6, 7),
            unit="reqps",
            decimals=1,
            min=0,
            no_value="this exporter reports no RPCs",
        ),
        grafana.time_series(
            "Mean time of an RPC, by type",
            "Time that slurmctld takes for an RPC, the ten slowest types. Empty where the exporter reports no RPCs, "
            "as above.",
            [
                ranged(
                    most(
                        10,
                        f"{of('rpc_s_per_s', by='cluster, message_type')} / "
                        f"({of('rpcs_per_s', by='cluster, message_type')} > 0)",
                    ),
                    "{{cluster}} {{message_type}}",
                )
            ],
            size=(6, 7),
            unit="s",
            decimals=3,
            min=0,
            no_value="this exporter reports no RPCs",
        ),
    ]


BOARD = slurm
