"""Alert rules on losses of GPU-hours: each has the fault, its duration, and what to do.

Every alert has a section in the manual (`app/docs/how-to/alerts.md`): what to check, with which command, and what
ends it. Thresholds on headline numbers are the claims', as on the boards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import yaml

from ingest.prometheus.health.xid import XIDS
from metrics.units import HOUR_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Severity = Literal["critical", "warning"]

MANUAL: Final = "how-to/alerts"
"""The manual's page with a section for each alert."""

IDLE_GPUS: Final = 8
"""A job's GPUs that must be idle for an alert: a node's."""

STALE_S: Final = 6 * HOUR_S
"""Age of data, or of a source's newest record, that is late."""

FLAPS: Final = 3
"""How often a link goes down in an hour before it flaps."""

UNAVAILABLE: Final = 0.05
"""Share of the GPUs out of service that is much."""

STORM: Final = 3.0
"""How many times the usual number of failures of a day is a storm; and the least number."""

WAITED_GPU_HOURS: Final = 8
"""GPU-hours of a day that ranks must have waited for one node's ranks for an alert: an hour of a node."""

AHEAD_DAYS: Final = 5
"""How far ahead a claim's value is drawn out by its trend of the last three days."""

SLOW_S: Final = 1.0
"""Mean response of a network filesystem that stalls jobs."""

RESPONSE: Final = (
    "sum by (cluster, node) (trackside:node:fs_response_s_per_s) "
    "/ sum by (cluster, node) (trackside:node:fs_operations_per_s)"
)
"""Mean time in which network filesystems of a node answer."""


@dataclass(frozen=True)
class Alert:
    """An alert rule.

    Attributes:
        name: of the alert, and of its section in the manual.
        expr: its result are the things that are wrong.
        lasts: how long it must hold, in Prometheus' words.
        severity: critical where GPUs are lost until a person acts.
        summary: one line, with labels and value of the thing.
        cost: what it costs, and why that is so.
    """

    name: str
    expr: str
    lasts: str
    severity: Severity
    summary: str
    cost: str


def alerts(targets: Mapping[str, tuple[float, ...]]) -> tuple[Alert, ...]:
    """All alert rules.

    Args:
        targets: by metric, the values that claims name; a metric without any has no alert on its budget.
    """
    return (*_of_jobs(), *_of_nodes(), *_of_results(targets), *_of_trackside())


def _of_jobs() -> Iterator[Alert]:
    yield Alert(
        "TracksideAllocatedGpusIdle",
        f"sum by (cluster, job_id, run, user, partition) (trackside:job:idle_gpus) >= {IDLE_GPUS}",
        "30m",
        "warning",
        "{{ $labels.user }}'s job {{ $labels.job_id }} holds at least {{ $value | humanize }} idle GPUs",
        "They are allocated, and neither computed for half an hour nor can be used by others.",
    )
    usual = "max by (cluster) (trackside_failures_observed{class='infrastructure', window='28d'}) / 28"
    all_time = "max by (cluster) (trackside_failures_observed{class='infrastructure', window='all'})"
    day = f"({all_time} - {all_time.replace('})', '} offset 1d)')})"
    yield Alert(
        "TracksideRestartStorm",
        f"{day} >= {STORM:g} and {day} > {STORM:g} * ({usual})",
        "0m",
        "critical",
        "{{ $value | humanize }} jobs of {{ $labels.cluster }} interrupted by infrastructure within a day",
        f"That is more than {STORM:g} times as many as usual in 28 days: one cause often hits many jobs.",
    )
    yield Alert(
        "TracksideCrashLoop",
        "max by (cluster, run) (trackside_run_attempts) "
        "- max by (cluster, run) (trackside_run_attempts offset 2h) >= 3",
        "0m",
        "warning",
        "Run {{ $labels.run }} was started {{ $value | humanize }} times within two hours",
        "Each start costs all GPUs of the run until the next checkpoint, and none of the attempts lasts.",
    )


def _of_nodes() -> Iterator[Alert]:
    for severity, name, does in (
        ("critical", "TracksideXidCritical", "means that the GPU needs a reset or a repair"),
        ("warning", "TracksideXidWarning", "may have ended the job that ran there"),
    ):
        codes = [each.code for each in XIDS if each.severity == severity]
        yield Alert(
            name,
            " or ".join(f"(trackside:gpu:last_xid == {code})" for code in codes),
            "0m",
            "critical" if severity == "critical" else "warning",
            "XID {{ $value }} on GPU {{ $labels.gpu }} of {{ $labels.node }}",
            f"The driver's last error {does}; it is shown until the driver is loaded anew.",
        )
    yield Alert(
        "TracksideLinkFlaps",
        f"60 * sum_over_time(trackside:node:ib_link_downed_per_s[1h]) >= {FLAPS}",
        "0m",
        "critical",
        "InfiniBand port {{ $labels.device }} of {{ $labels.node }} went down {{ $value | humanize }} times in an hour",
        "A collective over that port waits or fails: the whole job stops, not one node.",
    )
    yield Alert(
        "TracksideFilesystemSlow",
        f"{RESPONSE} > {SLOW_S:g}",
        "15m",
        "warning",
        "Network filesystem of {{ $labels.node }} answers in {{ $value | humanizeDuration }} on average",
        "Data loading and checkpoints wait for it, and with them all GPUs of the job.",
    )
    yield Alert(
        "TracksideNodesStuckDraining",
        "max by (cluster) (trackside:slurm:nodes{state='draining'}) > 0",
        "24h",
        "warning",
        "{{ $value | humanize }} nodes of {{ $labels.cluster }} have been draining for a day",
        "Their free GPUs can take no job, and whoever should repair them waits for a job that does not end.",
    )
    yield Alert(
        "TracksideLemonNode",
        "max by (cluster, node) (trackside_flagged_node{verdict='lemon'})",
        "0m",
        "warning",
        "{{ $labels.node }} fails more often than by chance: {{ $value | humanize }} failures in 28 days",
        "Jobs that are placed there are interrupted again; the false discoveries among such nodes are bounded.",
    )
    yield Alert(
        "TracksideStraggler",
        f"max by (cluster, run, nodes) (trackside_straggler_gpu_seconds{{cause='node'}}) / 3600 >= {WAITED_GPU_HOURS}",
        "0m",
        "warning",
        "{{ $labels.nodes }} slows run {{ $labels.run }} down: {{ $value | humanize }} GPU-hours waited in a day",
        "All ranks wait for the slowest; the shape of the job does not explain it.",
    )
    gpus = "max by (cluster, state) (trackside_gpus)"
    yield Alert(
        "TracksideCapacityNotBack",
        f"sum by (cluster) (max by (cluster, state) (trackside_gpus{{state='unavailable'}})) "
        f"/ sum by (cluster) ({gpus}) > {UNAVAILABLE:g}",
        "4h",
        "warning",
        "{{ $value | humanizePercentage }} of the GPUs of {{ $labels.cluster }} are out of service",
        "They have been for four hours: longer than a reboot or a replacement of a node takes.",
    )


def _of_results(targets: Mapping[str, tuple[float, ...]]) -> Iterator[Alert]:
    if targets.get("goodput_allocated") and max(targets["goodput_allocated"]) < 1:
        budget = 1 - max(targets["goodput_allocated"])
        of = "of='allocated', bound='upper'"
        burnt = {
            window: f"(1 - max by (cluster) (trackside_goodput_ratio{{{of}, window='{window}'}}))"
            for window in ("7d", "28d")
        }
        yield Alert(
            "TracksideGoodputBurnsBudget",
            f"{burnt['7d']} / {budget:.6g} > 2 and {burnt['28d']} / {budget:.6g} > 1",
            "1h",
            "warning",
            "Goodput of {{ $labels.cluster }} burns its budget {{ $value | humanize }} times as fast as promised",
            "Even if all unobserved time was productive: twice as fast over 7 days, and faster over 28 days.",
        )
    yield Alert(
        "TracksideClaimMissed",
        "max by (cluster, claim, kind) (trackside_verdict{window='month'}) == -1",
        "1h",
        "warning",
        "Claim {{ $labels.claim }} does not hold for {{ $labels.cluster }} this month so far",
        "Judged by the evidence that there is: what was not observed is counted in its favour.",
    )
    yield Alert(
        "TracksideClaimAtRisk",
        _at_risk(),
        "6h",
        "warning",
        f"Claim {{{{ $labels.claim }}}} of {{{{ $labels.cluster }}}} is missed in {AHEAD_DAYS} days if this goes on",
        "Drawn out from the last three days of this month's value, with all that was not observed in its favour.",
    )


def _at_risk() -> str:
    """Claims that their trend would miss, and that are not missed yet: by the end that is in their favour."""
    missed = "max by (cluster, claim) (trackside_verdict{window='month'} == -1)"
    parts = []
    for direction, bound, compared in (("at_least", "upper", "<"), ("at_most", "lower", ">")):
        value = f"max by (cluster, claim) (trackside_claim_value{{window='month', bound='{bound}'}})"
        trend = f"predict_linear(({value})[3d:1h], {AHEAD_DAYS * 86_400})"
        parts.append(f"{trend} {compared} max by (cluster, claim) (trackside_claim_target{{direction='{direction}'}})")
    # A month's first days would be compared with the end of the month before.
    return f"((({parts[0]}) or ({parts[1]})) unless {missed}) and on () (vector(1) and day_of_month() > 3)"


def _of_trackside() -> Iterator[Alert]:
    yield Alert(
        "TracksideDown",
        "up{job='trackside'} == 0",
        "10m",
        "critical",
        "Trackside at {{ $labels.instance }} does not respond",
        "No number is computed, and no other alert on results can fire.",
    )
    yield Alert(
        "TracksideDataStale",
        f"time() - max by (cluster) (trackside_data_end_timestamp_seconds) > {STALE_S:g}",
        "15m",
        "warning",
        "The data of {{ $labels.cluster }} end {{ $value | humanizeDuration }} ago",
        "Later events are in no number and no other alert.",
    )
    yield Alert(
        "TracksideSourceSilent",
        f"min by (cluster, source) (trackside_input_lag_seconds) > {STALE_S:g}",
        "15m",
        "warning",
        "{{ $labels.source }} of {{ $labels.cluster }} has sent no data for {{ $value | humanizeDuration }}",
        "Its data are unknown in the ledger from then on.",
    )
    yield Alert(
        "TracksideExportFails",
        "max by (cluster) (trackside_export_failures) > 0",
        "15m",
        "warning",
        "{{ $value | humanize }} parts of the numbers of {{ $labels.cluster }} cannot be exported",
        "Boards show gaps where these were, and alerts on them cannot fire.",
    )


def alerts_text(targets: Mapping[str, tuple[float, ...]]) -> str:
    """The rule file."""
    rules = [
        {
            "alert": each.name,
            "expr": each.expr,
            **({} if each.lasts == "0m" else {"for": each.lasts}),
            "labels": {"severity": each.severity, "team": "gpu-platform"},
            "annotations": {
                "summary": each.summary,
                "description": each.cost,
                "runbook": f"trackside docs {MANUAL} (section {each.name})",
            },
        }
        for each in alerts(targets)
    ]
    content = {"groups": [{"name": "trackside-alerts", "interval": "1m", "rules": rules}]}
    text: str = yaml.safe_dump(content, sort_keys=False, width=10_000)
    return text
