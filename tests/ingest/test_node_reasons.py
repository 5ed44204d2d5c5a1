"""What reasons of nodes tell: by software that writes them, and by operators."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.node_reasons import ReasonMeaning, ReasonRuleError, meaning_of, parse_rule, rules

SAMPLES = {
    "k8s: cordon: node needs triage": ("kubernetes", "triage", None),
    "k8s: pod terminated: cordon: solved by reboot": ("kubernetes", "reboot", "not_responding"),
    "k8s: cordon: verify; sunk:verify-undrain": ("kubernetes", "verification", None),
    "slurm-operator: pod is being deleted": ("kubernetes", None, None),
    "[node_problem] compute_maintenance: node reboot process": ("kubernetes", "reboot", "maintenance"),
    "Soperator auto-healing: node replacement process": ("kubernetes", "replacement", None),
    "Soperator auto-healing: node reboot process": ("kubernetes", "reboot", None),
    "soperator auto-healing: waits": ("kubernetes", None, None),
    "Soperator activecheck: node drain process": ("health_check", None, "check"),
    "[HC] All reduce perf nccl failed": ("health_check", None, "check"),
    "[hardware_problem] gpu fell off the bus": ("health_check", None, "gpu"),
    "NHC: check_fs_mount: /scratch not mounted": ("health_check", None, "check"),
    "GpuXidError: ErrorCode:79 gpu:0 Recommended Action=NODE_REBOOT;": ("kubernetes", "reboot", "gpu"),
    "ErrorCode:94 Recommended Action=RESTART_BM;": ("kubernetes", "reboot", None),
    "ErrorCode:140 Recommended Action=REPLACE_VM;": ("kubernetes", "replacement", None),
    "GpuNvlinkWatch: Recommended Action=CONTACT_SUPPORT;": ("kubernetes", "triage", "gpu"),
    "nvsentinel remediating": ("kubernetes", "reboot", None),
    "nvsentinel remediation-failed": ("kubernetes", "triage", None),
    "Not responding": ("slurm", None, "not_responding"),
    "Kill task failed": ("slurm", None, "software"),
    "Low RealMemory (reported:1 < 100.00% of configured:2)": ("slurm", None, "memory"),
    "Low TmpDisk": ("slurm", None, "storage"),
    "Low CPUs": ("slurm", None, "configuration"),
    "gres/gpu count reported lower than configured (7 < 8)": ("slurm", None, "gpu"),
    "Reboot ASAP : kernel update": ("slurm", "reboot", "maintenance"),
    "Node unexpectedly rebooted": ("slurm", None, "reboot"),
    "ResumeTimeout reached": ("slurm", None, "configuration"),
    "KernelDeadlock": (None, None, "software"),
    "ReadonlyFilesystem": (None, None, "storage"),
    "NodeStatusUnknown": (None, None, "not_responding"),
    "MaintenanceInProgress": (None, None, "maintenance"),
    "node.kubernetes.io/network-unavailable NetworkUnavailable": (None, None, "network"),
    "IB link down mlx5_3": (None, None, "network"),
    "RMA 4711: dimm A3": (None, "replacement", "memory"),
    "ticket 99, field diag": (None, "triage", None),
    "burn-in": (None, "verification", None),
    "power cycled": (None, "reboot", None),
    "reserved for bob": (None, None, None),
}  # fmt: skip


@pytest.mark.parametrize("reason", SAMPLES)
def test_reason_names_actor_stage_and_what_failed(reason: str) -> None:
    assert meaning_of(reason, "root(0)") == ReasonMeaning(*SAMPLES[reason])


def test_every_rule_decides_something_of_a_sample() -> None:
    deciding = set()
    for reason in SAMPLES:
        seen: set[str] = set()
        for number, rule in enumerate(rules()):
            if rule.meaning.keys() - seen and rule.pattern.search(reason):
                deciding.add(number)
                seen |= rule.meaning.keys()
    assert [rule.pattern.pattern for number, rule in enumerate(rules()) if number not in deciding] == []


@pytest.mark.parametrize(
    "entry",
    [
        {"pattern": "x", "source": "s"},
        {"pattern": "x", "source": "s", "by": "nobody"},
        {"pattern": "(", "source": "s", "stage": "reboot"},
        {"pattern": "x", "stage": "reboot"},
        {"pattern": 1, "source": "s", "stage": "reboot"},
        {"pattern": "x", "source": "s", "stage": "reboot", "color": "red"},
    ],
)
def test_invalid_rules_are_refused_by_name(entry: dict[str, Any]) -> None:
    with pytest.raises(ReasonRuleError, match="rule 3"):
        parse_rule(entry, origin="rule 3")


def test_long_and_odd_reasons_are_read_at_once() -> None:
    for reason in ("x" * 300_000, "recommended action" * 10_000, "(" * 100_000, "reboot" * 50_000, "\0\u202e"):
        assert meaning_of(reason, None) is not None
