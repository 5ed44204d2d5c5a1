"""Slurm and Kubernetes on the same nodes: nodes replaced, renamed and gone under their pods, names in two clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queries.warehouse import open_reader
from tests.ingest.kubernetes.test_bridge import HEAD, bridged, job
from tests.ingest.kubernetes.test_nodes import node
from tests.support.command import trackside
from tests.support.kubernetes.objects import Object, as_list, pod

if TYPE_CHECKING:
    from pathlib import Path

NODES = "NodeName=host-1 CPUTot=96 Gres=gpu:h100:8 CfgTRES=cpu=96,gres/gpu=8 State=IDLE Partitions=train,debug\n"
TOPOLOGIES = {
    "topology": "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=host-[1-2]\n",
    "moved": "".join(f"SwitchName=leaf{number} Level=0 LinkSpeed=1 Nodes=host-{number}\n" for number in (1, 2)),
}
"""What was cabled at first, and from minute 20 on, under the jobs that ran then."""

OF_SLURM = ("--cluster", "c", "--timezone", "UTC")


def replaced(one: Object, identity: str, created: str) -> Object:
    """A node as another machine of the same name."""
    one["metadata"] |= {"uid": identity, "creationTimestamp": created}
    return one


def inputs(folder: Path) -> dict[str, tuple[str, ...]]:
    """What is loaded, by its name: the arguments of `trackside ingest`."""
    lost = bridged(1, "host-1", ended=45)  # NODE_FAIL of a reconfigure: its pod lives on
    before = [
        node("host-1", seen=20), node("host-3", seen=20), node("host-4", seen=20), node("host-5", seen=20),
        pod("on-3", node="host-3", scheduled=1, ended=18), pod("on-4", node="host-4", scheduled=1),
        pod("on-5", node="host-5", scheduled=1, ended=18), lost,
    ]  # fmt: skip
    after = [
        node("host-1", seen=55),
        replaced(node("host-3", seen=55, since=30), "other-3", "2026-10-01T00:30:00Z"),
        replaced(node("host-5-new", seen=55, since=30), "other-5", "2026-10-01T00:30:00Z"),
        pod("on-3-again", node="host-3", created=31, scheduled=31, ended=50),
        pod("on-4", node="host-4", scheduled=1, ended=55),  # its node is gone
        pod("on-5-again", node="host-5-new", created=31, scheduled=31, ended=50),
        lost,
    ]
    elsewhere = [node("host-1", seen=55), pod("on-1", node="host-1", scheduled=1, ended=50)]
    texts = {"before": as_list(*before), "after": as_list(*after), "elsewhere": as_list(*elsewhere)}
    jobs = job(1, "host-1", 20, "NODE_FAIL") + job(2, "host-2", 55)
    texts |= {"jobs": (HEAD + jobs).encode(), "nodes": NODES.encode()}
    texts |= {name: text.encode() for name, text in TOPOLOGIES.items()}
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    return {
        "jobs": ("slurm", str(folder / "jobs"), *OF_SLURM),
        "nodes": ("slurm", str(folder / "nodes"), *OF_SLURM, "--until", "2026-10-01T00:00:00Z"),
        "topology": ("slurm", str(folder / "topology"), *OF_SLURM, "--until", "2026-10-01T00:00:00Z"),
        "moved": ("slurm", str(folder / "moved"), *OF_SLURM, "--until", "2026-10-01T00:20:00Z"),
        "before": ("kubernetes", str(folder / "before"), "--cluster", "c"),
        "after": ("kubernetes", str(folder / "after"), "--cluster", "c"),
        "elsewhere": ("kubernetes", str(folder / "elsewhere"), "--cluster", "d"),
    }


HELD = [
    ("c", "host-1", "kubernetes", 25), ("c", "host-1", "slurm", 19), ("c", "host-2", "slurm", 54),
    ("c", "host-3", "kubernetes", 36), ("c", "host-4", "kubernetes", 54), ("c", "host-5", "kubernetes", 17),
    ("c", "host-5-new", "kubernetes", 19), ("d", "host-1", "kubernetes", 49),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "order",
    [
        ("jobs", "nodes", "topology", "before", "after", "moved", "elsewhere"),
        ("moved", "elsewhere", "after", "before", "nodes", "topology", "jobs"),
        ("before", "jobs", "elsewhere", "topology", "after", "moved", "nodes"),
    ],
)
def test_every_gpu_second_of_both_counts_once(tmp_path: Path, order: tuple[str, ...]) -> None:
    where = ("--warehouse", str(tmp_path / "w"))
    loads = inputs(tmp_path)
    for name in (*order, order[0]):
        done = trackside("ingest", *loads[name], *where)
        assert done.returncode == 0, done.stderr
    assert trackside("compute", *where).returncode == 0  # it checks conservation and refuses without
    minutes = (
        "SELECT cluster, node, scheduler, CAST(sum(gpu_seconds) / 480 AS INT) FROM gpu_time"
        " WHERE state = 'allocated' GROUP BY ALL ORDER BY ALL"
    )
    whole = "SELECT cluster, sum(gpu_seconds)::DOUBLE FROM {} GROUP BY ALL ORDER BY ALL"
    failed = "SELECT job_id FROM run_interruptions WHERE class = 'infrastructure'"
    rows: dict[str, list[tuple[Any, ...]]] = {}
    with open_reader(tmp_path / "w") as reader:
        for name, sql in (
            ("held", minutes), ("ledger", whole.format("gpu_time")), ("capacity", whole.format("capacity")),
            ("failed", failed), ("paths", "SELECT count(DISTINCT path) FROM node_topology WHERE node = 'host-2'"),
        ):  # fmt: skip
            rows[name] = reader.frame(sql).rows()
    assert rows["held"] == HELD
    assert rows["ledger"] == rows["capacity"]
    assert (rows["failed"], rows["paths"]) == ([], [(2,)])
    placed = trackside("show", "placement", "--cluster", "c", "--by", "block", "--format", "json", *where)
    assert placed.returncode == 0, placed.stderr
