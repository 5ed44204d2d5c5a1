"""Families of `trackside`'s `/metrics`, read by the exporter, the reference, the boards, their checks and their tests.

The families of ratios come from the entries of their metrics, the others are defined here. All are gauges: accounting
gets corrected, so a sum may fall, which a counter must never do. Base units, ratios 0 to 1, bounded labels. An unknown
value is not exported at all: no NaN, no 0 in its place. Prometheus stamps a sample with the time of its scrape and
never changes it, so history there is "as computed at the time"; every help text has that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from metrics.catalog import METRICS
from metrics.categories import COSTLY
from metrics.metric import UNSEEN_BOUNDS
from metrics.waste.waste import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metrics.metric import ExportedFamily

Unit = Literal["ratio", "seconds", "gpu_seconds", "gpus", "count", "verdict", "info", "timestamp_seconds", "of_claim"]

WINDOWS = ("all", "28d", "7d", "month")
"""Values of the label `window`: all data, the last 28 and 7 days of them, and the calendar month (UTC) they end in."""

BOUNDS = ("point", "lower", "upper")
"""Values of the label `bound`; `point` is absent where the number itself is unknown."""

MTTF_GPUS = "1024"
"""Value of the label `gpus`: the job size that MTTF is scaled to."""

STATISTICS = ("median", "p90")
"""Values of the label `statistic`."""

GPU_STATES = ("allocated", "idle", "unavailable", "unknown")
"""Values of the label `state` of GPUs and GPU-time, as in the ledger."""

NOT_COSTLY = "Unobserved time (unattributed, unknown), other_work and no_demand are not in it."
"""Note on the categories that are neither productive nor among them."""

MAX_RUNS = 200
"""Most runs with series of their own: those that run, then those that ended last."""

RUN_DAYS = 7
"""Days of data for which a run that has ended keeps its series."""

MAX_JOB_NODES = 4096
"""Most series of jobs on nodes, of the largest jobs first."""

MAX_USERS = 50
"""Most users (with their account) with series of their own in each window: those that held most GPU-time."""

MAX_EVENTS = 100
"""Most events of a kind with series of their own: the latest."""

EVENT_DAYS = 28
"""Days of data for which an event keeps its series."""

EVENT_KINDS = ("incident", "drain", "interruption")
"""Values of the label `kind` of events."""

MAX_BLOCKS = 256
"""Most blocks of the network with series of their own: those with most nodes."""

STRAGGLER_DAYS = 1
"""Days of data in which stragglers are looked for: rank times are many."""

MAX_STRAGGLERS = 100
"""Most series of stragglers: those that cost most."""

HISTORY = "History is as computed at the time."
"""Ends every help text."""


@dataclass(frozen=True)
class Family:
    """A metric family: one name, one meaning, one set of labels.

    Attributes:
        name: as exported.
        help: its description, ending with what its history is.
        labels: every label, all of them bounded.
        unit: of the value.
        values: by label: all values that it can have, where they are known beforehand.
    """

    name: str
    help: str
    labels: tuple[str, ...]
    unit: Unit
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


_VALUES = {"window": WINDOWS, "bound": BOUNDS, "gpus": (MTTF_GPUS,), "statistic": STATISTICS}
"""Values of labels that mean the same in every family."""


_DECLARED: list[Family] = []
"""Families in the order in which they are declared."""


def _family(name: str, labels: str, unit: Unit, text: str, **values: tuple[str, ...]) -> Family:
    names = tuple(labels.split())
    label_values = {label: own for label, own in (_VALUES | values).items() if label in names}
    family = Family(f"trackside_{name}", f"{text} {HISTORY}", names, unit, label_values)
    _DECLARED.append(family)
    return family


def _of_metrics() -> dict[str, Family]:
    """Declare the families of the published ratios from their entries, in the order of the headline numbers."""
    metrics = sorted((each for each in METRICS if each.exported), key=lambda each: each.headline or 0)
    families: dict[str, list[ExportedFamily]] = {}
    declared = {}
    for each in metrics:
        if each.exported is not None:
            families.setdefault(each.exported.family, []).append(each.exported)
    for name, entries in families.items():
        own = [label for label, _ in entries[0].labels]
        bound = ("bound",) if entries[0].bounds else ()
        values = {label: tuple(dict(each.labels)[label] for each in entries) for label in own}
        text = next(each.help for each in entries if each.help)
        declared[name] = _family(name, " ".join(("cluster", "window", *own, *bound)), "ratio", text, **values)
    return declared


OF_METRICS = _of_metrics()
"""Families by `Exported.family` of the entries of their metrics."""

CAPACITY_BY_ACCOUNTING = _family(
    "capacity_by_accounting_ratio",
    "cluster window",
    "ratio",
    "Share of all GPU-time on nodes that are in no inventory, only in accounting: their GPUs are taken "
    "to be the most that jobs held there at once. 1: no inventory was read.",
)
MTTF = _family(
    "mttf_seconds",
    "cluster window gpus bound",
    "seconds",
    "Mean time until infrastructure interrupts a job of so many GPUs, pooled over sizes and scaled by 1/N; "
    "lower and upper: its exact 95 % interval. Without a failure there is only a lower end.",
)
FAILURES = _family(
    "failures_observed",
    "cluster window class",
    "count",
    "Attempts that were interrupted, by class; infrastructure is what MTTF counts.",
)
FAILURE_EXPOSURE = _family(
    "failure_exposure_gpu_seconds",
    "cluster window",
    "gpu_seconds",
    "GPU-time of all attempts, censored ones included: the exposure of the failures.",
)
RESTART = _family(
    "restart_seconds",
    "cluster window statistic",
    "seconds",
    "From the end of an attempt that infrastructure interrupted to the start of the run's next one.",
)
RESTARTS = _family(
    "restarts_observed",
    "cluster window",
    "count",
    f"Restarts behind {RESTART.name}.",
)
GPU_SECONDS = _family(
    "gpu_seconds",
    "cluster window state category",
    "gpu_seconds",
    "GPU-time of the ledger by category; all categories together are the capacity.",
    state=GPU_STATES,
)
GPU_LOST = _family(
    "gpu_lost_seconds",
    "cluster window category cause",
    "gpu_seconds",
    f"GPU-time that could have trained and did not, by category and cause: {', '.join(COSTLY)}. {NOT_COSTLY}",
    category=COSTLY,
)
EVIDENCE = _family(
    "evidence_ratio",
    "cluster window evidence",
    "ratio",
    "Share of allocated GPU-time by its evidence: log, telemetry, accounting, assumed.",
)
GPUS = _family(
    "gpus",
    "cluster state",
    "gpus",
    "GPUs at the end of the data, by state: allocated, idle, unavailable.",
    state=GPU_STATES,
)
VERDICT = _family(
    "verdict",
    "cluster window claim kind",
    "verdict",
    "Verdict on a claim: 1 supported, 0 undetermined, -1 refuted; kind: delivered is judged by bounds, capability "
    "by its interval.",
)
CLAIM_TARGET = _family(
    "claim_target",
    "cluster claim metric unit direction",
    "of_claim",
    "Value that a claim promises, in its own unit; direction: at least or at most.",
    direction=("at_least", "at_most"),
)
CLAIM_VALUE = _family(
    "claim_value",
    "cluster window claim unit bound",
    "of_claim",
    "Measured value of a claim, in its own unit; lower and upper: the ends that decide its verdict.",
)
WASTE = _family(
    "waste_gpu_seconds",
    "cluster window user account kind",
    "gpu_seconds",
    f"Allocated GPU-time that shows no work, by who held it, of the {MAX_USERS} users that held most. Kinds overlap, "
    "so they do not add up.",
    kind=KINDS,
)
HELD = _family(
    "held_gpu_seconds",
    "cluster window user account",
    "gpu_seconds",
    f"GPU-time that was allocated to a user, of the {MAX_USERS} users that held most.",
)
RUN_INFO = _family(
    "run_info",
    "cluster run user partition state",
    "info",
    f"1 for each run that runs or ended in the last {RUN_DAYS} days of data, at most {MAX_RUNS}.",
)
RUN_ETTR = _family(
    "run_ettr_ratio",
    "cluster run bound",
    "ratio",
    f"ETTR of a run of {RUN_INFO.name} over its whole life; {UNSEEN_BOUNDS}.",
)
RUN_GPUS = _family(
    "run_gpus",
    "cluster run",
    "gpus",
    f"GPUs of a run of {RUN_INFO.name}.",
)
RUN_ATTEMPTS = _family(
    "run_attempts",
    "cluster run",
    "count",
    f"Attempts of a run of {RUN_INFO.name} so far: the first start, and each restart.",
)
RUN_LOST = _family(
    "run_gpu_lost_seconds",
    "cluster run category",
    "gpu_seconds",
    f"GPU-time of a run of {RUN_INFO.name} that could have trained and did not, by category, over its whole life.",
    category=COSTLY,
)
EVENT = _family(
    "event_timestamp_seconds",
    "cluster kind node what started_at",
    "timestamp_seconds",
    "Time of an event that may explain a number: an incident of a node's hardware, a node that went out of "
    f"service, an attempt that infrastructure interrupted. Of the last {EVENT_DAYS} days of data, at most "
    f"{MAX_EVENTS} of a kind, the latest.",
    kind=EVENT_KINDS,
)
BLOCK_NODES = _family(
    "block_nodes",
    "cluster block state",
    "count",
    f"Nodes of a block (leaf switch, rack) at the end of the data, by state; at most {MAX_BLOCKS} blocks.",
    state=GPU_STATES[:3],
)
BLOCK_JOBS = _family(
    "block_jobs",
    "cluster block reach",
    "count",
    "Jobs that hold nodes of a block at the end of the data, by whether they hold nodes of other blocks, too.",
    reach=("within", "across"),
)
IDLE_SEGMENTS = _family(
    "idle_segments",
    "cluster nodes what",
    "count",
    "Segments of so many nodes within one block: that idle nodes make (idle), and that all nodes would (whole).",
    what=("idle", "whole"),
)
SPANNED = _family(
    "spanned_attempts",
    "cluster window placement",
    "count",
    "Attempts on several nodes, by whether they lay in the least number of blocks that would do.",
    placement=("least", "more", "unknown"),
)
STRAGGLERS = _family(
    "straggler_gpu_seconds",
    "cluster run cause nodes",
    "gpu_seconds",
    "GPU-time that ranks of a run waited for the slowest on the last day of data, by cause (node, job_shape, unknown) "
    f"and suspected nodes; at most {MAX_STRAGGLERS} series. It is within productive time.",
)
FLAGGED_NODE = _family(
    "flagged_node",
    "cluster node verdict",
    "count",
    "Attributed failures of a node that fails more often than by chance, over the last 28 days of data.",
    verdict=("lemon", "suspect"),
)
JOB_GPUS = _family(
    "job_gpus",
    "cluster node job_id run user account partition",
    "gpus",
    f"GPUs that a job held on a node at the end of the data; at most {MAX_JOB_NODES} series, largest jobs first.",
)
DATA_END = _family(
    "data_end_timestamp_seconds",
    "cluster",
    "timestamp_seconds",
    "The last moment that the numbers cover.",
)
COMPUTED = _family(
    "computed_timestamp_seconds",
    "cluster",
    "timestamp_seconds",
    "When the numbers were computed.",
)
INPUT_LAG = _family(
    "input_lag_seconds",
    "cluster source",
    "seconds",
    "Age of the newest record of a source.",
)
LAST_LOAD = _family(
    "last_load_timestamp_seconds",
    "cluster source",
    "timestamp_seconds",
    "When a source was read last.",
)
LAST_LOAD_ROWS = _family(
    "last_load_rows",
    "cluster source result",
    "count",
    "Rows of the last load of a source: read, and of these taken, new, skipped and rejected.",
    result=("read", "taken", "new", "skipped", "rejected"),
)
LOADS_WAITING = _family(
    "loads_waiting",
    "cluster",
    "count",
    "Loads since the last computation: their rows are in no number yet.",
)
ROWS_REJECTED = _family(
    "rows_rejected",
    "cluster source",
    "count",
    "Input rows that were refused and kept with their reason.",
)
EXPORT_FAILURES = _family(
    "export_failures",
    "cluster",
    "count",
    "Parts of a cluster's numbers that are not exported because computing them failed; /healthz has the reasons.",
)
EXPORT_SECONDS = _family(
    "export_seconds",
    "cluster",
    "seconds",
    "How long computing the exported numbers of a cluster took; scrapes in between repeat them.",
)
BUILD_INFO = _family(
    "build_info",
    "version",
    "info",
    "1, with the version of Trackside.",
)

FAMILIES: tuple[Family, ...] = tuple(_DECLARED)
"""All families, in the order of `/metrics`."""

BY_NAME = {family.name: family for family in FAMILIES}
