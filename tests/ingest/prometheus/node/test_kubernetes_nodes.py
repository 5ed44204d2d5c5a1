"""Nodes by kube-state-metrics: down and cordoned when they were, unknown between readings, and objects first."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from queries.warehouse import open_reader
from tests.ingest.kubernetes.test_bridge import HEAD, job
from tests.ingest.kubernetes.test_nodes import node
from tests.ingest.prometheus.node.test_kubernetes_pods import load
from tests.support.command import trackside
from tests.support.kubernetes.objects import BEGIN, as_list, moment
from tests.support.orders import three_orders

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("no_results")

STATES = "SELECT node, state, started_at, ended_at FROM node_states ORDER BY ALL"
DOWN, CORDONED = range(10, 15), range(20, 30)
HIDDEN = range(40, 60)
"""Minutes in which one host is not ready, in which it is cordoned, and in which nothing is read of it."""


def metrics(minutes: Iterable[int]) -> str:
    """Readings of two hosts, a minute apart; what happens is the second one's."""
    lines: dict[str, list[str]] = {}
    for minute in minutes:
        for host in ("h0", "h1"):
            if host == "h1" and minute in HIDDEN:
                continue
            ready, cordoned = (not (host == "h1" and minute in when) for when in (DOWN, CORDONED))
            values = {
                f'kube_node_status_condition{{node="{host}",condition="Ready",status="true"}}': ready,
                f'kube_node_status_condition{{node="{host}",condition="Ready",status="false"}}': not ready,
                f'kube_node_spec_unschedulable{{node="{host}"}}': not cordoned,
                f'kube_node_status_capacity{{node="{host}",resource="nvidia_com_gpu",unit="integer"}}': 8,
                f'kube_node_status_capacity{{node="{host}",resource="cpu",unit="core"}}': 96,
                f'kube_node_created{{node="{host}"}}': BEGIN.timestamp(),
            }
            for name, value in values.items():
                text = f"{name} {float(value)} {BEGIN.timestamp() + 60 * minute}"
                lines.setdefault(name.partition("{")[0], []).append(text)
    return "\n".join([*(line for each in lines.values() for line in sorted(each)), "# EOF", ""])


EXPECTED = [
    ("h1", "down", moment(10), moment(15)),
    ("h1", "drained", moment(20), moment(30)),
    ("h1", "unknown", moment(39), moment(60)),
]


def read(root: Path, sql: str = STATES) -> list[tuple[Any, ...]]:
    with open_reader(root) as reader:
        return reader.frame(sql).rows()


@pytest.mark.slow
def test_states_of_nodes_are_those_of_their_metrics(tmp_path: Path) -> None:
    load(tmp_path / "w", metrics(range(1, 70)))
    assert read(tmp_path / "w") == EXPECTED
    assert read(tmp_path / "w", "SELECT node, n_gpus::INT, valid_from FROM nodes ORDER BY 1") == [
        ("h0", 8, BEGIN), ("h1", 8, BEGIN),
    ]  # fmt: skip
    held = "SELECT state, (sum(gpu_seconds) / 480)::INT FROM gpu_time WHERE node = 'h1' GROUP BY ALL ORDER BY ALL"
    assert read(tmp_path / "w", held) == [("idle", 32), ("unavailable", 36)]


@pytest.mark.slow
@pytest.mark.parametrize("order", three_orders(range(3)))
def test_parts_of_metrics_of_nodes_may_come_in_any_order(tmp_path: Path, order: tuple[int, ...]) -> None:
    parts = [metrics(range(1, 12)), metrics(range(12, 25)), metrics(range(23, 70))]
    load(tmp_path / "w", *(parts[number] for number in (*order, order[0])))
    assert read(tmp_path / "w") == EXPECTED


@pytest.mark.slow
def test_state_that_was_read_last_goes_on(tmp_path: Path) -> None:
    load(tmp_path / "w", metrics(range(1, 13)))
    assert read(tmp_path / "w") == [("h1", "down", moment(10), None)]


@pytest.mark.slow
@pytest.mark.parametrize("first", ["metrics", "slurm"])
def test_nodes_of_slurm_are_not_counted_by_metrics_too(tmp_path: Path, first: str) -> None:
    """The hosts have other names in Kubernetes, and Slurm knows how its nodes are."""
    file = tmp_path / "sacct"
    file.write_bytes(HEAD.encode() + job(1, "worker-1", 12).encode())
    slurm = ("ingest", "slurm", str(file), "--cluster", "c", "--timezone", "UTC", "--warehouse", str(tmp_path / "w"))
    if first == "slurm":
        trackside(*slurm)
    load(tmp_path / "w", metrics(range(1, 13)))
    assert trackside(*slurm).returncode == 0
    assert trackside("compute", "--warehouse", str(tmp_path / "w")).returncode == 0
    assert read(tmp_path / "w", "SELECT node FROM nodes") == []
    assert read(tmp_path / "w", "SELECT DISTINCT node FROM capacity") == [("worker-1",)]
    assert read(tmp_path / "w") == []


@pytest.mark.slow
def test_objects_of_nodes_count_before_metrics(tmp_path: Path) -> None:
    inputs: list[str | bytes] = [metrics(range(1, 13)), as_list(node("h1", seen=12), node("h0", seen=12))]
    for number, order in enumerate(permutations(inputs)):
        load(tmp_path / f"w{number}", *order)
        assert "down" not in {row[1] for row in read(tmp_path / f"w{number}")}
        assert len(read(tmp_path / f"w{number}", "SELECT * FROM nodes")) == 2
