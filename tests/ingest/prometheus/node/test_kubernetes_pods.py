"""Pods by kube-state-metrics: the attempts that their objects would have given, and never twice."""

from __future__ import annotations

from decimal import Decimal
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from ingest.kubernetes.store import ingest_files
from queries.warehouse import open_reader, open_writer
from tests.support.command import trackside
from tests.support.kubernetes.objects import BEGIN, NOW, Object, as_list, moment, owner, pod, uid, workload
from tests.support.orders import three_orders

if TYPE_CHECKING:
    from pathlib import Path

ENDED = 40.0
JOB = owner("Job", "train")


def member(index: int, ended: float | None, code: int = 0) -> Object:
    """A pod of an indexed Job, as its object."""
    labels = {"batch.kubernetes.io/job-completion-index": str(index)}
    return pod(f"train-{index}-abcde", above=JOB, node=f"host-{index}", ended=ended, exit_code=code, labels=labels)


def series(index: int, minute: int, ended: float | None, code: int = 0) -> list[str]:
    """What the exporter has of it at a minute."""
    name = f"train-{index}-abcde"
    own = f'namespace="team-a",pod="{name}",uid="{uid(f"pod/{name}/0")}"'
    over = ended is not None and minute >= ended
    phase = ("Failed" if code else "Succeeded") if over else "Running"
    begin = BEGIN.timestamp()
    told = {
        f'kube_pod_info{{{own},node="host-{index}",created_by_kind="Job",created_by_name="train"}}': 1.0,
        f'kube_pod_container_resource_limits{{{own},container="main",resource="nvidia_com_gpu",unit="integer"}}': 8.0,
        f'kube_pod_container_resource_limits{{{own},container="main",resource="cpu",unit="core"}}': 96.0,
        f"kube_pod_created{{{own}}}": begin,
        f"kube_pod_status_scheduled_time{{{own}}}": begin + 30,
        f'kube_pod_status_phase{{{own},phase="{phase}"}}': 1.0,
        'kube_job_owner{namespace="team-a",job_name="train",owner_kind="<none>",owner_name="<none>"}': 1.0,
    }
    if over and ended is not None:
        told[f"kube_pod_completion_time{{{own}}}"] = begin + ended * 60
        told[f'kube_pod_container_status_last_terminated_exitcode{{{own},container="main"}}'] = float(code)
    return [f"{name} {value} {begin + 60 * minute}" for name, value in told.items()]


def metrics(first: int, last: int, *, ended: float | None = ENDED, code: int = 0) -> str:
    """Readings of two pods, a minute apart."""
    lines = [
        line for minute in range(first, last + 1) for index in range(2) for line in series(index, minute, ended, code)
    ]
    names = dict.fromkeys(line.partition("{")[0] for line in lines)
    ordered = [line for name in names for line in sorted(lines) if line.startswith(f"{name}{{")]
    return "\n".join([*ordered, "# EOF", ""])


def load(root: Path, *texts: str | bytes) -> None:
    """Metrics (text) and objects (bytes), in their order, and what follows from them."""
    for number, text in enumerate(texts):
        file = root.parent / f"{root.name}-{number}.{'om' if isinstance(text, str) else 'json'}"
        if isinstance(text, str):
            file.write_text(text)
            done = trackside("ingest", "prometheus", str(file), "--cluster", "c", "--warehouse", str(root))
            assert done.returncode == 0, done.stderr
        else:
            file.write_bytes(text)
            with open_writer(root, verb="test", now=NOW) as writer:
                ingest_files(writer, [str(file)], cluster="c", now=NOW, progress=lambda *_: None)
    done = trackside("compute", "--warehouse", str(root))
    assert done.returncode == 0, done.stderr


def attempts(root: Path) -> list[tuple[Any, ...]]:
    sql = "SELECT name, state, n_gpus, n_nodes, node_list, started_at, ended_at, exit_code FROM attempts ORDER BY ALL"
    with open_reader(root) as reader:
        return reader.frame(sql).rows()


EXPECTED = ("train", "COMPLETED", Decimal(16), 2, "host-0,host-1", moment(0.5), moment(ENDED), 0)


@pytest.mark.slow
def test_pods_by_metrics_are_the_attempt_of_their_job(tmp_path: Path) -> None:
    load(tmp_path / "w", metrics(1, 45))
    assert attempts(tmp_path / "w") == [(*EXPECTED[:-1], None)]


@pytest.mark.slow
def test_windows_of_metrics_may_come_in_any_order(tmp_path: Path) -> None:
    parts = [metrics(1, 15), metrics(16, 30), metrics(31, 45)]
    for number, order in enumerate(three_orders(parts)):
        load(tmp_path / f"w{number}", *order)
        assert attempts(tmp_path / f"w{number}") == [(*EXPECTED[:-1], None)]


@pytest.mark.slow
def test_pods_of_objects_and_metrics_count_once(tmp_path: Path) -> None:
    early = as_list(workload("Job", "train"), member(0, None), member(1, None))
    inputs: list[str | bytes] = [early, metrics(1, 45)]
    for number, order in enumerate(permutations(inputs)):
        load(tmp_path / f"w{number}", *order)
        assert [row[:-1] for row in attempts(tmp_path / f"w{number}")] == [EXPECTED[:-1]]


@pytest.mark.slow
def test_pod_of_metrics_joins_the_job_of_the_object(tmp_path: Path) -> None:
    load(tmp_path / "w", as_list(workload("Job", "train"), member(0, ENDED)), metrics(1, 45))
    assert [row[:-1] for row in attempts(tmp_path / "w")] == [EXPECTED[:-1]]


@pytest.mark.slow
def test_failed_pod_ends_with_its_exit_status(tmp_path: Path) -> None:
    load(tmp_path / "w", metrics(1, 45, code=137))
    assert [(row[1], row[6], row[7]) for row in attempts(tmp_path / "w")] == [("FAILED", moment(ENDED), 137)]


@pytest.mark.slow
def test_pod_that_is_read_no_longer_has_ended_unobserved(tmp_path: Path) -> None:
    later = "\n".join(line for line in metrics(31, 60, ended=None).splitlines() if "train-1" not in line)
    load(tmp_path / "w", metrics(1, 30, ended=None), f"{later}\n")
    with open_reader(tmp_path / "w") as reader:
        rows = reader.frame("SELECT node, ended_at FROM placements ORDER BY node").rows()
    assert rows == [("host-0", None), ("host-1", moment(30))]


@pytest.mark.slow
def test_slurm_nodes_by_metrics_are_no_attempts(tmp_path: Path) -> None:
    """A pod that has the name of a node of the cluster is that node, whatever controls it."""
    text = metrics(1, 45).replace("train-0-abcde", "gpu-0").replace('"Job"', '"StatefulSet"')
    node = {
        "kind": "Node", "metadata": {"name": "gpu-0", "uid": "n", "creationTimestamp": "2026-10-01T00:00:00Z"},
        "spec": {}, "status": {"capacity": {"nvidia.com/gpu": "8"}},
    }  # fmt: skip
    load(tmp_path / "w", as_list(node), text)
    assert [row[4] for row in attempts(tmp_path / "w")] == ["host-1"]
