"""Plausible values for every exported family, as the OpenMetrics text of a history.

Two clusters: `alpha` has run logs, so its numbers are known; `beta` has accounting alone, so its goodput is nothing but
bounds and its MFU is not there at all.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from dashboards.exported_metrics import BOUNDS, FAMILIES, MTTF_GPUS, WINDOWS
from metrics.categories import ALLOCATED, COSTLY, IDLE, UNAVAILABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

END_S = 1_793_491_200
"""2026-11-01T00:00:00Z: the last sample."""

STEP_S = 240
"""Seconds between two samples: less than the five minutes for which Prometheus remembers one."""

CLUSTERS = {"alpha": 1024, "beta": 512}
DAY_S = 86_400.0
WINDOW_DAYS = {"all": 61.0, "28d": 28.0, "7d": 7.0, "month": 31.0}
SCRAPED = {"job": "trackside", "instance": "trackside:8050"}

SHARES = {
    "alpha": {"productive": 0.78, "lost": 0.021, "startup": 0.034, "checkpoint": 0.012, "stalled": 0.017,
              "teardown": 0.004, "other_work": 0.02, "unattributed": 0.006, "pending_demand": 0.031, "no_demand": 0.045,
              "maintenance": 0.009, "down": 0.011, "drained": 0.009, "unknown": 0.001},
    "beta": {"unattributed": 0.83, "stalled": 0.012, "pending_demand": 0.02, "no_demand": 0.11, "down": 0.018,
             "drained": 0.01},
}  # fmt: skip
"""Shares of capacity by category; they add up to 1."""

CAUSES = {"lost": ("node_fail", "xid_79", "preempted"), "startup": ("checkpoint_load", "launch"),
          "stalled": ("node_down", "data_stall"), "down": ("not_responding",), "drained": ("health",)}  # fmt: skip
RUNS = (("llama-70b-pretrain", 512, "alice", "RUNNING", 0.957), ("moe-8x22b", 256, "bob", "RUNNING", 0.911),
        ("vision-encoder", 64, "carol", "COMPLETED", 0.874), ("llama-8b-sft", 32, "dave", "FAILED", 0.42),
        ("sweep-lr-17", 8, "carol", "RUNNING", 0.99))  # fmt: skip


WASTED = {"alice": ("lab", 512, {"idle": 0.02}), "bob": ("lab", 256, {"failed_at_once": 0.01}),
          "dave": ("teaching", 16, {"never_stepped": 0.6, "short_of_limit": 0.2})}  # fmt: skip
"""By user: account, GPUs held on average, and the share of them that shows no work, by kind."""
TARGETS = {
    "goodput": ("goodput_allocated", "ratio", "at_least", 0.96, 0.964),
    "ettr": ("ettr", "ratio", "at_least", 0.97, 0.942),
    "mttf": ("mttf", "d", "at_least", 3.66, 1.9),
    "restart": ("time_to_job_restart", "s", "at_most", 90.0, 127.0),
}
"""By claim: metric, unit, direction, what is promised, and what is measured."""

STRAGGLER = {"cluster": "alpha", "run": "4411-llama-70b-pretrain", "cause": "node", "nodes": "n7"}


@dataclass(frozen=True)
class Series:
    """A series: its family, labels, and value by seconds before the end."""

    family: str
    labels: dict[str, str]
    value: Callable[[float], float]


def history(hours: float, *, windows: tuple[str, ...] = WINDOWS) -> str:
    """OpenMetrics text of that many hours before the end."""
    moments = range(END_S - int(hours * 3600), END_S + 1, STEP_S)
    by_family: dict[str, list[Series]] = defaultdict(list)
    for each in _all(windows):
        by_family[each.family].append(each)
    helps = {family.name: family.help for family in FAMILIES}
    lines = []
    for name, result in by_family.items():
        lines += [f"# HELP {name} {helps.get(name, '')}", f"# TYPE {name} gauge"]
        for each in result:
            labels = ",".join(f'{key}="{value}"' for key, value in {**each.labels, **SCRAPED}.items())
            lines += [f"{name}{{{labels}}} {each.value(END_S - moment):.10g} {moment}" for moment in moments]
    return "\n".join([*lines, "# EOF", ""])


def _all(windows: tuple[str, ...]) -> Iterator[Series]:
    for cluster, window in product(CLUSTERS, windows):
        yield from _results(cluster, window)
        yield from _gpu_time(cluster, window)
    for cluster in CLUSTERS:
        yield from _now(cluster)
        yield from _runs(cluster)
        yield from _network(cluster)
        yield from _events(cluster)
    yield Series("trackside_flagged_node", {"cluster": "alpha", "node": "n7", "verdict": "lemon"}, _still(4))
    yield Series("trackside_straggler_gpu_seconds", STRAGGLER, _still(3600.0 * 41))
    yield Series("trackside_build_info", {"version": "0.1.0"}, _still(1))
    yield Series("up", {}, _still(1))
    yield Series("scrape_duration_seconds", {}, _wave(0.4, 0.1))
    yield Series("scrape_samples_scraped", {}, _still(2400))


def _still(value: float) -> Callable[[float], float]:
    return lambda _: value


def _following(age_s: float) -> Callable[[float], float]:
    """A timestamp that stays that far behind the clock."""
    return lambda before_s: END_S - before_s - age_s


def _wave(value: float, swing: float) -> Callable[[float], float]:
    """A value that swings slowly: two days from crest to crest."""
    return lambda before_s: max(0.0, value + swing * math.sin(before_s / DAY_S * math.pi))


def _bounded(name: str, labels: dict[str, str], ends: tuple[float | None, ...], swing: float) -> Iterator[Series]:
    for bound, value in zip(BOUNDS, ends, strict=True):
        if value is not None:
            yield Series(f"trackside_{name}", {**labels, "bound": bound}, _wave(value, swing))


def _results(cluster: str, window: str) -> Iterator[Series]:
    seen = cluster == "alpha"
    key = {"cluster": cluster, "window": window}
    allocated = (0.964, 0.951, 0.969) if seen else (None, 0.0, 0.986)
    capacity = (0.78, 0.77, 0.79) if seen else (None, 0.0, 0.83)
    yield from _bounded("goodput_ratio", {**key, "of": "allocated"}, allocated, 0.006)
    yield from _bounded("goodput_ratio", {**key, "of": "capacity"}, capacity, 0.006)
    yield from _bounded("ettr_ratio", key, (0.942, 0.931, 0.951) if seen else (None, 0.0, 0.97), 0.008)
    if seen:
        yield from _bounded("mfu_ratio", key, (0.462, 0.441, 0.483), 0.004)
    yield from _bounded("availability_ratio", key, (0.976, 0.974, 0.978), 0.002)
    yield Series("trackside_occupancy_ratio", key, _wave(0.89, 0.02))
    yield Series("trackside_capacity_by_accounting_ratio", key, _still(0.0 if seen else 0.04))
    days = (1.9, 1.2, 3.1) if seen else (4.4, 2.1, 11.0)
    mttf = tuple(value * DAY_S for value in days)
    yield from _bounded("mttf_seconds", {**key, "gpus": MTTF_GPUS}, mttf, 900.0)
    for name, count in {"infrastructure": 19, "user": 41, "preemption": 12, "planned": 3, "timeout": 7}.items():
        yield Series("trackside_failures_observed", {**key, "class": name}, _still(count))
    exposure = CLUSTERS[cluster] * 0.89 * WINDOW_DAYS[window] * DAY_S
    yield Series("trackside_failure_exposure_gpu_seconds", key, _still(exposure))
    for statistic, seconds in {"median": 127.0, "p90": 1840.0}.items():
        yield Series("trackside_restart_seconds", {**key, "statistic": statistic}, _wave(seconds, 9))
    yield Series("trackside_restarts_observed", key, _still(17))
    evidence = {"log": 0.93, "telemetry": 0.05, "accounting": 0.02} if seen else {"accounting": 0.97, "assumed": 0.03}
    for kind, share in evidence.items():
        yield Series("trackside_evidence_ratio", {**key, "evidence": kind}, _still(share))
    yield from _claims(cluster, window)
    yield from _waste(key)
    verdicts = {"goodput": (0, 0), "ettr": (-1, 0), "mfu": (-1, 0), "mttf": (-1, 0), "mttf_baseline": (1, 1),
                "restart": (-1, -1)}  # fmt: skip
    for claim, verdict in verdicts.items():
        labels = {**key, "claim": claim, "kind": "delivered" if claim in {"goodput", "ettr"} else "capability"}
        yield Series("trackside_verdict", labels, _still(verdict[0 if seen else 1]))


def _waste(key: dict[str, str]) -> Iterator[Series]:
    """Who held GPUs, what of it shows no work, and where it lay."""
    for user, (account, gpus, kinds) in WASTED.items():
        who = {**key, "user": user, "account": account}
        held = gpus * WINDOW_DAYS[key["window"]] * DAY_S
        yield Series("trackside_held_gpu_seconds", who, _still(held))
        for kind, share in kinds.items():
            yield Series("trackside_waste_gpu_seconds", {**who, "kind": kind}, _still(share * held))
    for placement, count in {"least": 31, "more": 9, "unknown": 2}.items():
        yield Series("trackside_spanned_attempts", {**key, "placement": placement}, _still(count))


def _claims(cluster: str, window: str) -> Iterator[Series]:
    for claim, (metric, unit, direction, target, value) in TARGETS.items():
        of_claim = {"cluster": cluster, "claim": claim, "unit": unit}
        if window == "month":
            told = {**of_claim, "metric": metric, "direction": direction}
            yield Series("trackside_claim_target", told, _still(target))
        ends = (value, 0.98 * value, 1.02 * value) if cluster == "alpha" else (None, 0.5 * value, 1.1 * value)
        yield from _bounded("claim_value", {**of_claim, "window": window}, ends, 0.01 * value)


def _gpu_time(cluster: str, window: str) -> Iterator[Series]:
    capacity = CLUSTERS[cluster] * WINDOW_DAYS[window] * DAY_S
    key = {"cluster": cluster, "window": window}
    for category, share in SHARES[cluster].items():
        swing = {"productive": 0.01, "unattributed": 0.01, "no_demand": -0.01}.get(category, 0.0)
        if cluster == "alpha" and category == "unattributed":
            swing = 0.0
        labels = {**key, "state": _state(category), "category": category}
        yield Series("trackside_gpu_seconds", labels, _wave(share * capacity, swing * capacity))
        if category not in COSTLY:
            continue
        causes = CAUSES.get(category, ("none",))
        for number, cause in enumerate(causes):
            part = share * capacity * (0.7 if number == 0 and len(causes) > 1 else 0.3 / max(1, len(causes) - 1))
            lost = {**key, "category": category, "cause": cause}
            yield Series("trackside_gpu_lost_seconds", lost, _still(part if len(causes) > 1 else share * capacity))


def _state(category: str) -> str:
    for state, categories in {"allocated": ALLOCATED, "idle": IDLE, "unavailable": UNAVAILABLE}.items():
        if category in categories:
            return state
    raise AssertionError(category)


def _now(cluster: str) -> Iterator[Series]:
    gpus = CLUSTERS[cluster]
    for state, share in {"allocated": 0.89, "idle": 0.08, "unavailable": 0.03}.items():
        yield Series("trackside_gpus", {"cluster": cluster, "state": state}, _wave(gpus * share, 0))
    ages = {"data_end_timestamp_seconds": 1500 if cluster == "alpha" else 30_000, "computed_timestamp_seconds": 480}
    for name, age in ages.items():
        yield Series(f"trackside_{name}", {"cluster": cluster}, _following(age))
    yield Series("trackside_export_failures", {"cluster": cluster}, _still(0))
    yield Series("trackside_export_seconds", {"cluster": cluster}, _wave(6, 1))
    yield Series("trackside_loads_waiting", {"cluster": cluster}, _still(2))
    for source, lag in {"slurm_accounting": 300.0, "dcgm": 120.0}.items():
        key = {"cluster": cluster, "source": source}
        yield Series("trackside_input_lag_seconds", key, _wave(lag, 60))
        yield Series("trackside_last_load_timestamp_seconds", key, _following(900))
        for result, rows in {"read": 4200, "taken": 4150, "new": 310, "skipped": 40, "rejected": 10}.items():
            yield Series("trackside_last_load_rows", {**key, "result": result}, _still(rows))
        yield Series("trackside_rows_rejected", key, _still(3 if source == "dcgm" else 0))


def _network(cluster: str) -> Iterator[Series]:
    """Blocks of sixteen nodes, and the segments that idle nodes make."""
    for number, idle in enumerate((0, 3, 6, 16)):
        block = {"cluster": cluster, "block": f"b{number}"}
        out = 1 if number == 1 else 0
        for state, nodes in {"idle": idle, "unavailable": out, "allocated": 16 - idle - out}.items():
            yield Series("trackside_block_nodes", {**block, "state": state}, _still(nodes))
        for reach, jobs in {"within": 2 if idle < 16 else 0, "across": 1 if idle < 6 else 0}.items():
            yield Series("trackside_block_jobs", {**block, "reach": reach}, _still(jobs))
    for size, (idle, whole) in {"1": (25, 64), "2": (12, 32), "4": (5, 16), "8": (2, 8), "16": (1, 4)}.items():
        for what, count in {"idle": idle, "whole": whole}.items():
            yield Series("trackside_idle_segments", {"cluster": cluster, "nodes": size, "what": what}, _still(count))


def _events(cluster: str) -> Iterator[Series]:
    """Events of the last hours before the end, each with its time as value."""
    told = {"incident": ("n7", "xid 79", 1500), "drain": ("n7", "gpu", 1200), "interruption": ("n7", "4411", 1450)}
    for kind, (node, what, before_s) in told.items():
        labels = {"cluster": cluster, "kind": kind, "node": node, "what": what}
        yield Series("trackside_event_timestamp_seconds", {**labels, "started_at": "then"}, _still(END_S - before_s))


def _runs(cluster: str) -> Iterator[Series]:
    for number, (name, gpus, user, state, ettr) in enumerate(RUNS, start=4411):
        key = {"cluster": cluster, "run": f"{number}-{name}"}
        info = {**key, "user": user, "partition": "train" if gpus > 8 else "short", "state": state}
        yield Series("trackside_run_info", info, _still(1))
        yield Series("trackside_run_gpus", key, _still(gpus))
        yield Series("trackside_run_attempts", key, _still(1 + number % 3))
        for category, hours in {"lost": 30.0, "startup": 12.0, "checkpoint": 4.0}.items():
            yield Series("trackside_run_gpu_lost_seconds", {**key, "category": category}, _still(gpus * hours * 36))
        place = {"cluster": cluster, "node": f"n{number}", "job_id": str(number), "run": key["run"]}
        whose = {"user": user, "account": "lab", "partition": info["partition"]}
        yield Series("trackside_job_gpus", {**place, **whose}, _still(8))
        ends = (ettr, ettr - 0.02, ettr + 0.005) if cluster == "alpha" else (None, 0.0, ettr)
        yield from _bounded("run_ettr_ratio", key, ends, 0.0)
