"""What of a node's series is a job's, by promtool: shares add up, and free GPUs are nobody's idle ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dashboards.promql_names import names
from dashboards.rules.derived import DERIVED
from dashboards.rules.recording import recorded, rules_text
from tests.dashboards.rules import promtool
from tests.dashboards.server import need_prometheus

if TYPE_CHECKING:
    from pathlib import Path


def _series() -> promtool.Series:
    """Node a: a job of three GPUs and one of one, two of the four idle. Node b: one of two held, the free one idle."""
    job = 'trackside_job_gpus{{cluster="c",node="{}",job_id="{}",run="{}",user="{}",account="x",partition="p",job="t"}}'
    series = {
        job.format("a", 1, "r1", "ann"): "3x20",
        job.format("a", 2, "r2", "bob"): "1x20",
        job.format("b", 3, "r3", "bob"): "1x20",
    }
    util = {("a", 0): 75, ("a", 1): 50, ("a", 2): 0, ("a", 3): 0, ("b", 0): 50, ("b", 1): 0}
    for (node, gpu), percent in util.items():
        series[f'DCGM_FI_DEV_GPU_UTIL{{cluster="c",Hostname="{node}",gpu="{gpu}"}}'] = f"{percent}x20"
    series['node_nfs_requests_total{cluster="c",instance="a:9100",method="Read",proto="4"}'] = "0+2400x20"
    return series


def _held(name: str, **values: float) -> dict[str, object]:
    labels = {
        "ann": 'account="x", cluster="c", job_id="1", node="a", partition="p", run="r1", user="ann"',
        "bob": 'account="x", cluster="c", job_id="2", node="a", partition="p", run="r2", user="bob"',
        "bob_b": 'account="x", cluster="c", job_id="3", node="b", partition="p", run="r3", user="bob"',
    }
    samples = [{"labels": f"{name}{{{labels[who]}}}", "value": value} for who, value in values.items()]
    return {"expr": name, "eval_time": "15m", "exp_samples": samples}


@pytest.mark.slow
def test_jobs_parts_of_a_node_add_up_to_the_node(tmp_path: Path) -> None:
    need_prometheus()
    expected = [
        _held("trackside:job:share", ann=0.75, bob=0.25, bob_b=1),
        _held("trackside:job:busy_gpus", ann=0.9375, bob=0.3125, bob_b=0.5),
        _held("trackside:job:idle_gpus", ann=1.5, bob=0.5, bob_b=0),  # what is idle on b may well be the free one
        _held("trackside:job:observed_gpus", ann=3, bob=1, bob_b=1),
        _held("trackside:job:filesystem_operations_per_s", ann=30, bob=10),
    ]
    tests = [{"interval": "1m", "input_series": promtool.inputs(_series()), "promql_expr_test": expected}]
    promtool.run(tmp_path, {"rules.yaml": rules_text()}, tests)


@pytest.mark.slow
def test_a_job_is_no_busier_than_the_gpus_that_it_holds(tmp_path: Path) -> None:
    """A job that began since the last load is busy already, and nobody knows yet that it holds GPUs."""
    need_prometheus()
    held = 'trackside_job_gpus{cluster="c",node="a",job_id="1",run="r",user="u",account="x",partition="p"}'
    series = {held: "1x20"}
    for gpu in range(4):
        labels = f'{{cluster="c",Hostname="a",gpu="{gpu}"}}'
        series |= {f"DCGM_FI_DEV_GPU_UTIL{labels}": "100x20", f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{labels}": "0.5x20"}
    expected = [
        {"expr": f"sum(trackside:{name})", "eval_time": "15m", "exp_samples": [{"labels": "{}", "value": value}]}
        for name, value in (("node:busy_gpus", 4), ("job:busy_gpus", 1), ("job:tensor_gpus", 1))
    ]
    tests = [{"interval": "1m", "input_series": promtool.inputs(series), "promql_expr_test": expected}]
    promtool.run(tmp_path, {"rules.yaml": rules_text()}, tests)


def test_derived_rules_need_only_series_recorded_before() -> None:
    known = {each.name for each in recorded()} | {"trackside_job_gpus"}
    for each in DERIVED:
        assert {metric for metric, _ in names(each.expr).matched} <= known, each.name
        known.add(each.name)
