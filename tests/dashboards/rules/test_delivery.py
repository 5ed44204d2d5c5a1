"""From an exporter to a person: real Prometheus with the rules, real Alertmanager with the example, a real webhook."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest

from dashboards.build import RULES, build
from tests.lab.alertmanager import AlertmanagerLab, Webhooks, need_alertmanager
from tests.lab.dcgm_exporter import DcgmExporter
from tests.lab.processes import wait_until
from tests.lab.prometheus import PrometheusLab, need_prometheus

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = "provisioning/alertmanager.yaml"
RECEIVERS = "http://127.0.0.1:9095"
XID = "DCGM_FI_DEV_XID_ERRORS"


def _faster(text: str) -> str:
    """The same file, with every wait and interval of a minute or so as one second."""
    return re.sub(r"(group_wait|group_interval|interval): \d+[ms]", r"\1: 1s", text)


def _config(folder: Path, webhooks: Webhooks) -> str:
    text = (folder / CONFIG).read_text()
    assert text.count(RECEIVERS) == 2
    return _faster(text).replace(RECEIVERS, webhooks.url)


@pytest.mark.slow
def test_alertmanager_accepts_the_example_and_routes_by_severity(tmp_path: Path) -> None:
    need_alertmanager()
    build(tmp_path)
    check = ["amtool", "check-config", str(tmp_path / CONFIG)]
    done = subprocess.run(check, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    for severity, receiver in (("critical", "at-once"), ("warning", "daily")):
        labels = ["team=gpu-platform", f"severity={severity}"]
        route = ["amtool", "config", "routes", "test", f"--config.file={tmp_path / CONFIG}", *labels]
        told = subprocess.run(route, capture_output=True, text=True, check=True, timeout=60).stdout
        assert told.strip() == receiver


@pytest.mark.slow
def test_alert_on_an_xid_reaches_a_webhook_and_is_resolved(tmp_path: Path) -> None:
    need_prometheus()
    need_alertmanager()
    build(tmp_path, cluster="alpha")
    for name in RULES:
        (tmp_path / name).write_text(_faster((tmp_path / name).read_text()))
    with (
        DcgmExporter("n1") as exporter,
        Webhooks() as webhooks,
        AlertmanagerLab(config=_config(tmp_path, webhooks)) as alertmanager,
        PrometheusLab(
            targets=[exporter.address],
            rule_files=[tmp_path / name for name in RULES],
            alertmanager=alertmanager.address,
        ),
    ):
        exporter.set(XID, 0)
        exporter.set(XID, 79, gpu=3)
        critical = ("TracksideXidCritical", "firing")
        wait_until(lambda: critical in webhooks.received("/at-once"), 60, "the alert at the webhook")
        alert = webhooks.received("/at-once")[critical]
        assert {key: alert["labels"][key] for key in ("cluster", "node", "gpu")} == {
            "cluster": "alpha",
            "node": "n1",
            "gpu": "3",
        }
        assert alert["annotations"]["summary"] == "XID 79 on GPU 3 of n1"
        assert alert["annotations"]["runbook"] == "trackside docs how-to/alerts (section TracksideXidCritical)"
        assert not webhooks.received("/daily")
        exporter.set(XID, 0, gpu=3)
        resolved = ("TracksideXidCritical", "resolved")
        wait_until(lambda: resolved in webhooks.received("/at-once"), 60, "the end of the alert at the webhook")


@pytest.mark.slow
def test_alerts_on_results_are_held_back_while_trackside_is_down(tmp_path: Path) -> None:
    need_alertmanager()
    build(tmp_path)
    with Webhooks() as webhooks, AlertmanagerLab(config=_config(tmp_path, webhooks)) as alertmanager:
        names = ("TracksideDown", "TracksideDataStale", "TracksideLemonNode")
        alerts = [{"labels": {"alertname": name, "cluster": "alpha"}} for name in names]
        head = {"Content-Type": "application/json"}
        urlopen(Request(f"{alertmanager.url}/api/v2/alerts", json.dumps(alerts).encode(), head), timeout=10).close()
        wait_until(lambda: len(webhooks.received("/daily")) == 2, 60, "two of the three alerts at the webhook")
        assert set(webhooks.received("/daily")) == {("TracksideDown", "firing"), ("TracksideLemonNode", "firing")}
