"""Tools that judge by themselves: an example of what each exports, and the event that it becomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingest.prometheus.health import events as health
from tests.support.telemetry.health_readings import every, samples, series

if TYPE_CHECKING:
    from tests.support.telemetry.health_readings import Points

GOOD_FIRST = [*every(15, 0, 600, 0), *every(15, 600, 1200, 1)]
COUNTED = [*every(15, 0, 600, 2), *every(15, 600, 1200, 3)]

CONDITION = {"instance": "10.0.0.9:8080", "job": "kube-state-metrics", "status": "true"}

EXAMPLES: list[tuple[str, dict[str, str], Points, tuple[str, str, str, str | None]]] = [
    # NVSentinel: metrics of its monitors, and conditions that it writes to nodes.
    ("syslog_health_monitor_xid_errors", {"node": "n1", "err_code": "79", "instance": "10.0.0.7:2112"}, COUNTED,
     ("gpu_health", "nvsentinel_xid", "warning", "79")),
    ("syslog_health_monitor_sxid_errors",
     {"exported_node": "n1", "node": "m", "err_code": "20034", "link": "39", "nvswitch": "0"}, COUNTED,
     ("nvlink", "sxid", "warning", "0/39/20034")),
    ("syslog_health_monitor_gpu_fallen_errors", {"node": "n1"}, COUNTED, ("gpu", "fallen_off_bus", "critical", None)),
    ("dcgm_health_active_events", {"node": "n1", "event_type": "GpuThermalWatch", "gpu_id": "3"}, GOOD_FIRST,
     ("gpu_health", "GpuThermalWatch", "warning", "3")),
    ("kube_node_status_condition", CONDITION | {"node": "n1", "condition": "GpuMemWatch"}, GOOD_FIRST,
     ("condition", "GpuMemWatch", "warning", "GpuMemWatch")),
    # gpud, as it exports today and before 0.5.
    ("accelerator_nvidia_remapped_rows_health_state_unhealthy",
     {"gpud_component": "accelerator-nvidia-remapped-rows", "instance": "n1:15132"}, GOOD_FIRST,
     ("gpu_health", "accelerator-nvidia-remapped-rows", "warning", None)),
    ("gpud_components_unhealthy", {"component": "accelerator-nvidia-ecc", "instance": "n1:15132"}, GOOD_FIRST,
     ("gpu_health", "accelerator-nvidia-ecc", "warning", None)),
    # DCGM's own health watches, as dcgm-exporter has them.
    ("DCGM_EXP_GPU_HEALTH_STATUS", {"Hostname": "n1", "gpu": "2", "UUID": "GPU-2", "health_watch": "NVLINK"},
     [*every(15, 0, 600, 0), *every(15, 600, 1200, 20)], ("gpu_health", "NVLINK", "warning", None)),
    # node-problem-detector.
    ("problem_gauge", {"node": "n1", "type": "GpuUnhealthy", "reason": "GpuCountMismatch"}, GOOD_FIRST,
     ("condition", "GpuUnhealthy", "warning", "GpuCountMismatch")),
    ("problem_counter", {"node": "n1", "reason": "OOMKilling"}, COUNTED, ("condition", "OOMKilling", "info", None)),
    # Soperator's checks, as a condition of the node.
    ("kube_node_status_condition", CONDITION | {"node": "n1", "condition": "HardwareIssuesSuspected"}, GOOD_FIRST,
     ("condition", "HardwareIssuesSuspected", "warning", "HardwareIssuesSuspected")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "labels", "points", "event"), EXAMPLES, ids=lambda value: str(value)[:60])
def test_example_is_one_event_at_the_change(
    name: str, labels: dict[str, str], points: Points, event: tuple[str, str, str, str | None]
) -> None:
    result = health.from_raw([samples(series(name, points, **labels))], cluster="c").events
    columns = result.select("node", "kind", "code", "severity", "device").rows()
    assert columns == [("n1", *event)]
    assert result["ts"].dt.epoch("s").to_list() == [600]


@pytest.mark.parametrize(("name", "labels", "points", "event"), EXAMPLES, ids=lambda value: str(value)[:60])
def test_nothing_happens_while_nothing_changes(
    name: str, labels: dict[str, str], points: Points, event: tuple[str, str, str, str | None]
) -> None:
    still = [(second, points[0][1]) for second, _ in points]
    assert health.from_raw([samples(series(name, still, **labels))], cluster="c").events.is_empty(), event


def test_gpud_components_that_are_no_accelerators_are_left_out() -> None:
    labels = {"component": "disk", "instance": "n1:15132"}
    assert health.from_raw(
        [samples(series("gpud_components_unhealthy", GOOD_FIRST, **labels))], cluster="c"
    ).events.is_empty()
