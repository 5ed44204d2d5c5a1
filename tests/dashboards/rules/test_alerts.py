"""The alert rules: each fires on what it is for, stays quiet without it, and has its section in the manual."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import promql_parser
import pytest

from app.manual import FOLDER
from dashboards.boards.fleet import TARGETS
from dashboards.exported_metrics import BY_NAME
from dashboards.lint_rules.content import SERVER_METRICS
from dashboards.promql_names import names
from dashboards.rules.alerts import MANUAL, alerts, alerts_text
from dashboards.rules.derived import DERIVED
from dashboards.rules.recording import recorded, rules_text
from ingest.prometheus.health.xid import XIDS
from tests.dashboards.rules import promtool
from tests.dashboards.server import need_prometheus

if TYPE_CHECKING:
    from pathlib import Path

WARNING = next(each.code for each in XIDS if each.severity == "warning")
ALERTS = {each.name: each for each in alerts(TARGETS)}
RECORDED = {each.name: each for each in (*recorded(), *DERIVED)}


@dataclass(frozen=True)
class Case:
    """Series that make an alert fire, and when; `quiet` do not. Samples and evaluations are `every` so often."""

    wrong: promtool.Series
    quiet: promtool.Series
    at: str = "2h"
    every: str = "1m"
    fired: int = 1


def _job(node: str, gpus: int) -> str:
    return (
        f'trackside_job_gpus{{cluster="c",node="{node}",job_id="7",run="r",user="ann",account="x",partition="p",'
        f'instance="i"}} {gpus}x1500'
    )


def _idle(percent: int) -> promtool.Series:
    series = {f'DCGM_FI_DEV_GPU_UTIL{{cluster="c",Hostname="a",gpu="{gpu}"}}': f"{percent}x1500" for gpu in range(8)}
    name, value = _job("a", 8).rsplit(" ", 1)
    return {**series, name: value}


def _failures(later: int) -> promtool.Series:
    failed = 'trackside_failures_observed{{cluster="c",class="infrastructure",window="{}"}}'
    return {failed.format("all"): f"50x1440 {50 + later}x200", failed.format("28d"): "28x1700"}


def _goodput(week: float, month: float) -> promtool.Series:
    name = 'trackside_goodput_ratio{{cluster="c",of="allocated",bound="upper",window="{}"}}'
    return {name.format("7d"): f"{week}x300", name.format("28d"): f"{month}x300"}


def _xid(code: int) -> promtool.Series:
    return {'DCGM_FI_DEV_XID_ERRORS{cluster="c",Hostname="a",gpu="3"}': f"{code}x300"}


def _mount(seconds_per_s: float) -> promtool.Series:
    mount = 'instance="a:9100",export="fs:/home",operation="READ",mountaddr="1",protocol="tcp"'
    return {
        f"node_mountstats_nfs_operations_response_time_seconds_total{{{mount}}}": f"0+{60 * seconds_per_s}x300",
        f"node_mountstats_nfs_operations_requests_total{{{mount}}}": "0+600x300",
    }


def _claim(value: str, verdict: int, direction: str = "at_least") -> promtool.Series:
    bound = "upper" if direction == "at_least" else "lower"
    return {
        f'trackside_claim_value{{cluster="c",window="month",claim="x",unit="ratio",bound="{bound}"}}': value,
        f'trackside_claim_target{{cluster="c",claim="x",metric="m",unit="ratio",direction="{direction}"}}': "0.95x300",
        'trackside_verdict{cluster="c",claim="x",kind="delivered",window="month"}': f"{verdict}x300",
    }


CASES = {
    "TracksideAllocatedGpusIdle": Case(_idle(0), _idle(60)),
    "TracksideRestartStorm": Case(_failures(5), _failures(2), at="25h"),
    "TracksideCrashLoop": Case(
        {'trackside_run_attempts{cluster="c",run="r"}': "1x120 2x30 3x30 4x300"},
        {'trackside_run_attempts{cluster="c",run="r"}': "1x120 2x300"},
        at="4h",
    ),
    "TracksideXidCritical": Case(_xid(79), _xid(31)),
    "TracksideXidWarning": Case(_xid(WARNING), _xid(13)),
    "TracksideLinkFlaps": Case(
        {'node_infiniband_link_downed_total{instance="a:9100",device="mlx5_0",port="1"}': "0x60 1x5 2x5 3x5 4x300"},
        {'node_infiniband_link_downed_total{instance="a:9100",device="mlx5_0",port="1"}': "0x60 1x300"},
        at="1h40m",
    ),
    "TracksideFilesystemSlow": Case(_mount(15), _mount(0.05)),
    "TracksideNodesStuckDraining": Case(
        {'slurm_nodes_draining{cluster="c"}': "2x60"},
        {'slurm_nodes_draining{cluster="c"}': "0x60"},
        at="25h",
        every="30m",
    ),
    "TracksideLemonNode": Case(
        {'trackside_flagged_node{cluster="c",node="a",verdict="lemon"}': "5x300"},
        {'trackside_flagged_node{cluster="c",node="a",verdict="suspect"}': "5x300"},
    ),
    "TracksideStraggler": Case(
        {'trackside_straggler_gpu_seconds{cluster="c",run="r",cause="node",nodes="n1"}': "36000x300"},
        {
            'trackside_straggler_gpu_seconds{cluster="c",run="r",cause="node",nodes="n1"}': "3600x300",
            'trackside_straggler_gpu_seconds{cluster="c",run="s",cause="job_shape",nodes="n1"}': "36000x300",
        },
    ),
    "TracksideCapacityNotBack": Case(
        {
            'trackside_gpus{cluster="c",state="unavailable"}': "10x300",
            'trackside_gpus{cluster="c",state="allocated"}': "90x300",
        },
        {
            'trackside_gpus{cluster="c",state="unavailable"}': "4x300",
            'trackside_gpus{cluster="c",state="allocated"}': "96x300",
        },
        at="4h30m",
    ),
    "TracksideGoodputBurnsBudget": Case(_goodput(0.90, 0.95), _goodput(0.90, 0.97)),
    "TracksideClaimMissed": Case(
        {'trackside_verdict{cluster="c",claim="x",kind="delivered",window="month"}': "-1x300"},
        {'trackside_verdict{cluster="c",claim="x",kind="delivered",window="month"}': "0x300"},
    ),
    "TracksideClaimAtRisk": Case(_claim("0.99-0.0002x300", 0), _claim("0.96x300", 0), at="4d4h", every="30m"),
    "TracksideDown": Case({'up{job="trackside",instance="i"}': "0x300"}, {'up{job="trackside",instance="i"}': "1x300"}),
    "TracksideDataStale": Case(
        {'trackside_data_end_timestamp_seconds{cluster="c"}': "0x600"},
        {'trackside_data_end_timestamp_seconds{cluster="c"}': "0+60x600"},
        at="7h",
    ),
    "TracksideSourceSilent": Case(
        {'trackside_input_lag_seconds{cluster="c",source="s"}': "30000x300"},
        {'trackside_input_lag_seconds{cluster="c",source="s"}': "300x300"},
    ),
    "TracksideExportFails": Case(
        {'trackside_export_failures{cluster="c"}': "2x300"}, {'trackside_export_failures{cluster="c"}': "0x300"}
    ),
}


def test_every_alert_has_a_case() -> None:
    assert set(CASES) == set(ALERTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_alert_fires_on_what_is_wrong_and_on_nothing_else(name: str, tmp_path: Path) -> None:
    need_prometheus()
    case, firing = CASES[name], f'count(ALERTS{{alertname="{name}",alertstate="firing"}})'
    tests = [
        {
            "interval": case.every,
            "input_series": promtool.inputs(series),
            "promql_expr_test": [{"expr": firing, "eval_time": case.at, "exp_samples": samples}],
        }
        for series, samples in ((case.wrong, [{"labels": "{}", "value": case.fired}]), (case.quiet, []))
    ]
    needed = promtool.only(rules_text(), _asked(ALERTS[name].expr))
    rules = {"recording.yaml": needed, "alerts.yaml": promtool.only(alerts_text(TARGETS), {name})}
    promtool.run(tmp_path, rules, tests, every=case.every)


def _asked(expr: str) -> set[str]:
    """The recorded series that an expression asks for, and those that these ask for."""
    direct = {metric for metric, _ in names(expr).matched if metric in RECORDED}
    return direct.union(*(_asked(RECORDED[metric].expr) for metric in direct))


@pytest.mark.parametrize("name", ALERTS)
def test_alert_names_only_series_that_exist(name: str) -> None:
    promql_parser.parse(ALERTS[name].expr)
    known = {*RECORDED, *BY_NAME, *SERVER_METRICS}
    assert {metric for metric, _ in names(ALERTS[name].expr).matched} <= known


@pytest.mark.parametrize("name", ALERTS)
def test_alert_has_a_section_in_the_manual(name: str) -> None:
    page = (FOLDER / f"{MANUAL}.md").read_text("utf-8")
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert "trackside " in sections[name], "names a command"
    assert "ends" in sections[name], "says what ends it"


@pytest.mark.parametrize(
    ("series", "at", "fired"),
    [
        (_claim("0.9+0.0002x300", 0, "at_most"), "4d4h", True),
        (_claim("0.99-0.0002x300", 0, "at_most"), "4d4h", False),
        (_claim("0.99-0.0002x300", -1), "4d4h", False),
        (_claim("0.99-0.0002x300", 0), "2d4h", False),
    ],
    ids=["at_most", "at_most_and_falling", "missed_already", "first_days"],
)
def test_claim_is_at_risk_by_its_trend(series: promtool.Series, at: str, fired: bool, tmp_path: Path) -> None:
    need_prometheus()
    expected = [{"labels": "{}", "value": 1}] if fired else []
    firing = 'count(ALERTS{alertname="TracksideClaimAtRisk",alertstate="firing"})'
    asked = [{"expr": firing, "eval_time": at, "exp_samples": expected}]
    tests = [{"interval": "30m", "input_series": promtool.inputs(series), "promql_expr_test": asked}]
    promtool.run(
        tmp_path, {"a.yaml": promtool.only(alerts_text(TARGETS), {"TracksideClaimAtRisk"})}, tests, every="30m"
    )


def test_budget_alert_needs_a_claim_on_goodput() -> None:
    assert "TracksideGoodputBurnsBudget" not in {each.name for each in alerts({})}
    (burning,) = (each for each in alerts({"goodput_allocated": (0.9, 0.98)}) if "Budget" in each.name)
    assert "/ 0.02 > 2" in burning.expr
