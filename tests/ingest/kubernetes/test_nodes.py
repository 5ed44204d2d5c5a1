"""Nodes of Kubernetes: GPUs, and when they were down or cordoned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queries.warehouse import open_reader
from tests.ingest.kubernetes.test_store import load
from tests.support.command import trackside
from tests.support.kubernetes.objects import Object, as_list, at, moment, owner, pod

if TYPE_CHECKING:
    from pathlib import Path


SLURM_NODE = "NodeName=gpu-0 Arch=x86_64 CPUTot=96 Gres=gpu:h100:8 CfgTRES=cpu=96,mem=1T,gres/gpu=8 State=IDLE\n"


def node(name: str, *, seen: float, since: float = 1, ready: bool = True, cordoned: float | None = None) -> Object:
    condition = {
        "type": "Ready",
        "status": "True" if ready else "Unknown",
        "reason": "KubeletReady" if ready else "NodeStatusUnknown",
        "lastTransitionTime": at(since),
        "lastHeartbeatTime": at(seen),
    }
    taints = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": at(cordoned or 0)}]
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "creationTimestamp": at(0)},
        "spec": {"unschedulable": True, "taints": taints} if cordoned is not None else {},
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "conditions": [condition]},
    }


def states(root: Path) -> list[tuple[Any, ...]]:
    with open_reader(root) as reader:
        return reader.frame("SELECT node, state, started_at, ended_at FROM node_states ORDER BY ALL").rows()


@pytest.mark.slow
def test_node_is_down_until_ready_and_drained_until_uncordoned(tmp_path: Path) -> None:
    looks = [
        as_list(node("a", seen=10), node("b", seen=10)),
        as_list(node("a", seen=30, since=20, ready=False), node("b", seen=30, cordoned=25)),
        as_list(node("a", seen=50, since=44), node("b", seen=50)),
    ]
    expected = [
        ("a", "down", moment(20), moment(44)),
        ("a", "unknown", moment(0), moment(1)),
        ("b", "drained", moment(25), moment(50)),
        ("b", "unknown", moment(0), moment(1)),
    ]
    load(tmp_path / "w", *looks)
    load(tmp_path / "v", *looks[::-1])
    assert states(tmp_path / "w") == states(tmp_path / "v") == expected


@pytest.mark.slow
def test_unobserved_outage_is_unknown_before_its_end(tmp_path: Path) -> None:
    load(tmp_path / "w", as_list(node("a", seen=10, since=0)), as_list(node("a", seen=50, since=40)))
    assert states(tmp_path / "w") == [("a", "unknown", moment(10), moment(40))]


def test_cordon_without_a_time_begins_when_it_is_first_seen(tmp_path: Path) -> None:
    cordoned = node("a", seen=30, since=0, cordoned=1)
    del cordoned["spec"]["taints"]
    load(tmp_path / "w", as_list(cordoned))
    assert states(tmp_path / "w") == [("a", "drained", moment(30), None)]


@pytest.mark.slow
def test_hosts_of_slurm_nodes_keep_slurms_inventory_and_states(tmp_path: Path) -> None:
    (tmp_path / "nodes.txt").write_text(SLURM_NODE)
    where = ("--warehouse", str(tmp_path / "w"))
    named = ("--cluster", "c", "--timezone", "UTC", "--until", "2026-10-01T00:00:00Z")
    assert trackside("ingest", "slurm", str(tmp_path / "nodes.txt"), *named, *where).returncode == 0
    slurmd = pod("gpu-0", above=owner("NodeSet", "gpu"), node="host-7")
    load(
        tmp_path / "w",
        as_list(slurmd, node("host-7", seen=30, since=20, ready=False), node("host-8", seen=30, since=0)),
    )
    with open_reader(tmp_path / "w") as reader:
        assert reader.frame("SELECT DISTINCT node FROM nodes ORDER BY 1").rows() == [("gpu-0",), ("host-8",)]
        assert reader.frame("SELECT * FROM node_states WHERE source = 'kubernetes.objects'").is_empty()


SACCT = """\
JobIDRaw|JobID|Cluster|Submit|Start|End|State|NNodes|AllocTRES|NodeList|ElapsedRaw|User
77|77|c|2026-10-01T00:00:00|2026-10-01T00:01:00|2026-10-01T00:30:00|COMPLETED|1|cpu=8,gres/gpu=8|host-3|1740|ann
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", ["slurm", "kubernetes"])
def test_order_of_slurm_and_kubernetes_makes_no_difference(tmp_path: Path, first: str) -> None:
    (tmp_path / "sacct.txt").write_text(SACCT)
    (tmp_path / "nodes.txt").write_text(SLURM_NODE)
    label = "scheduler.slinky.slurm.net/slurm-jobid"
    objects = [
        pod("gpu-0", above=owner("NodeSet", "gpu"), node="host-7"),
        node("host-7", seen=30, since=0),
        pod("bridged", node="host-3", ended=30, labels={label: "77"}),
        pod("pretends", node="host-4", ended=30, labels={label: "78"}),
    ]
    where = ("--warehouse", str(tmp_path / "w"))
    (tmp_path / "o.json").write_bytes(as_list(*objects))
    loads: dict[str, list[tuple[str, ...]]] = {
        "slurm": [
            ("slurm", "sacct.txt", "--cluster", "c", "--timezone", "UTC"),
            ("slurm", "nodes.txt", "--cluster", "c", "--timezone", "UTC", "--until", "2026-10-01T00:00:00Z"),
        ],
        "kubernetes": [("kubernetes", "o.json", "--cluster", "c")],
    }
    for kind in sorted(loads, key=lambda name: name != first):
        for verb, file, *options in loads[kind]:
            result = trackside("ingest", verb, str(tmp_path / file), *options, *where)
            assert result.returncode == 0, result.stderr
    assert trackside("compute", *where).returncode == 0
    with open_reader(tmp_path / "w") as reader:
        held = reader.frame("SELECT node, scheduler FROM gpu_time WHERE state = 'allocated' ORDER BY 1").rows()
        assert reader.frame("SELECT DISTINCT node FROM nodes").rows() == [("gpu-0",)]
    assert held == [("host-3", "slurm"), ("host-4", "kubernetes")]


@pytest.mark.slow
def test_ledger_has_idle_and_down_time_by_kubernetes_alone(tmp_path: Path) -> None:
    work = pod("train", node="a", created=10, scheduled=10, ended=40)
    looks = [
        as_list(node("a", seen=60, since=0), node("b", seen=60, since=30, ready=False), work),
        as_list(node("a", seen=100, since=0), node("b", seen=100, since=90)),
    ]
    for number, text in enumerate(looks):
        (tmp_path / f"{number}.json").write_bytes(text)
    where = ("--warehouse", str(tmp_path / "w"))
    files = [str(tmp_path / f"{number}.json") for number in range(2)]
    assert trackside("ingest", "kubernetes", *files, "--cluster", "k", *where).returncode == 0
    assert trackside("compute", *where).returncode == 0
    sums = "SELECT state || ' ' || category, sum(gpu_seconds) / 480 FROM gpu_time GROUP BY 1 ORDER BY 1"
    rows = trackside("sql", sums, "--format", "csv", *where).stdout.splitlines()[1:]
    assert {name: float(value) for name, value in (row.split(",") for row in rows)} == {
        "allocated unattributed": 30.0,
        "idle no_demand": 60 + 20 + 10,  # from minute 10 on: work that ended before has been removed
        "unavailable down": 60.0,
    }


# --- other conditions


def told(one: Object, *conditions: tuple[str, str, float, str, str], **metadata: dict[str, str]) -> Object:
    """A node with more conditions: type, status, since when, reason and message."""
    one["metadata"] |= metadata
    one["status"]["conditions"] += [
        {"type": kind, "status": status, "lastTransitionTime": at(since), "reason": reason, "message": message}
        for kind, status, since, reason, message in conditions
    ]
    return one


def events(root: Path) -> list[tuple[Any, ...]]:
    with open_reader(root) as reader:
        sql = "SELECT node, code, ts, severity, detail, action FROM health_events ORDER BY ALL"
        return reader.frame(sql).rows()


@pytest.mark.slow
def test_conditions_of_others_are_health_events(tmp_path: Path) -> None:
    look = told(
        node("a", seen=30),
        ("KernelDeadlock", "True", 20, "DockerHung", "task docker:7 blocked"),
        ("GpuMemWatch", "True", 21, "GpuMemWatchIsNotHealthy", "ErrorCode:79 Recommended Action=RESTART_BM;"),
        ("MaintenancePlanned", "True", 22, "MaintenanceWindow", ""),
        ("NetworkReady", "False", 23, "IbDown", ""),
        ("MemoryPressure", "False", 1, "KubeletHasSufficientMemory", ""),
        ("DiskPressure", "Unknown", 24, "NodeStatusUnknown", ""),
        ("CWActive", "True", 25, "Active", ""),
    )
    for root in (tmp_path / "w", tmp_path / "v"):
        load(root, as_list(look), as_list(look))
    assert events(tmp_path / "w") == events(tmp_path / "v")
    assert events(tmp_path / "w") == [
        ("a", "GpuMemWatch", moment(21), "warning",
         "GpuMemWatchIsNotHealthy: ErrorCode:79 Recommended Action=RESTART_BM;", "RESTART_BM"),
        ("a", "KernelDeadlock", moment(20), "warning", "DockerHung: task docker:7 blocked", None),
        ("a", "MaintenancePlanned", moment(22), "info", "MaintenanceWindow", None),
        ("a", "NetworkReady", moment(23), "info", "IbDown", None),
    ]  # fmt: skip


def test_cordon_is_explained_by_conditions_marks_and_taints(tmp_path: Path) -> None:
    one = told(
        node("a", seen=30, cordoned=20),
        ("GpuMemWatch", "True", 19, "", ""),
        labels={"dgxc.nvidia.com/nvsentinel-state": "draining"},
        annotations={"quarantineHealthEvent": '{"errorCode": ["79"], "recommendedAction": "REPLACE_VM"}'},
    )
    planned = told(node("b", seen=30, cordoned=20), ("MaintenancePlanned", "True", 18, "MaintenanceWindow", "firmware"))
    load(tmp_path / "w", as_list(one, planned))
    with open_reader(tmp_path / "w") as reader:
        rows = reader.frame(
            "SELECT node, reason, planned FROM node_states WHERE state = 'drained' ORDER BY node"
        ).rows()
    assert rows == [
        ("a", "GpuMemWatch, nvsentinel-state: draining, Recommended Action=REPLACE_VM", False),
        ("b", "MaintenancePlanned (MaintenanceWindow: firmware)", True),
    ]
