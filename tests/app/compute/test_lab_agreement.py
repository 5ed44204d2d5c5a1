"""A real Slurm whose nodes are drained, downed and returned, with Kubernetes' objects beside it at known times.

The truth is what was done from outside, and when: each disagreement, lag and outage has to be found to the second.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from app.results.nodes.lifecycle import lifecycle
from app.window import Window
from queries.warehouse import open_reader
from tests.lab.config import CLUSTER, NODES
from tests.lab.processes import now
from tests.lab.scenario.played import played
from tests.support.command import trackside_on

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab import SlurmLab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab")]

SECOND = 1.6
"""Both sides report whole seconds, and a command takes a moment."""

TAINT = "node.kubernetes.io/unschedulable"
REASON = "k8s: cordon: needs triage"


def written(moment: float) -> str:
    """As Kubernetes writes times."""
    return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Hosts:
    """The hosts that slurmd's pods run on (`h-n1` for `n1`), as an API server would list them."""

    begun: float = field(default_factory=now)
    cordoned: dict[str, float] = field(default_factory=dict)
    ready: dict[str, tuple[bool, float]] = field(default_factory=dict)

    def listed(self) -> bytes:
        items = [each for node in NODES for each in (self._host(node), self._pod(node))]
        return json.dumps({"kind": "List", "items": items}).encode()

    def _host(self, node: str) -> dict[str, Any]:
        ready, since = self.ready.get(node, (True, self.begun))
        taints = [{"key": TAINT, "timeAdded": written(self.cordoned[node])}] if node in self.cordoned else []
        condition = {"type": "Ready", "status": "True" if ready else "Unknown", "lastTransitionTime": written(since),
                     "lastHeartbeatTime": written(now())}  # fmt: skip
        return {
            "kind": "Node",
            "metadata": {"name": f"h-{node}", "uid": f"h-{node}", "creationTimestamp": written(self.begun)},
            "spec": {"unschedulable": bool(taints), "taints": taints},
            "status": {"conditions": [condition]},
        }

    def _pod(self, node: str) -> dict[str, Any]:
        owner = {"kind": "NodeSet", "name": "gpu", "uid": "gpu", "controller": True}
        began = written(self.begun)
        return {
            "kind": "Pod",
            "metadata": {"name": node, "uid": f"pod-{node}", "namespace": "slurm", "creationTimestamp": began,
                         "ownerReferences": [owner]},
            "spec": {"nodeName": f"h-{node}", "containers": [{"name": "slurmd"}]},
            "status": {"phase": "Running",
                       "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": began}]},
        }  # fmt: skip


@dataclass
class Scenario:
    """What was done when, and the warehouse that was made of it."""

    warehouse: Path
    folder: Path
    did: dict[str, float] = field(default_factory=dict)
    looks: list[bytes] = field(default_factory=list)

    def near(self, moment: datetime | None, what: str) -> bool:
        return moment is not None and abs(moment.timestamp() - self.did[what]) <= SECOND

    def disagreements(self, node: str) -> list[dict[str, Any]]:
        with open_reader(self.warehouse) as reader:
            rows = reader.table("sync_intervals").sort("started_at").to_dicts()
        return [row for row in rows if row["node"] == node]


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    with played(lambda lab: _play(lab, tmp_path_factory.mktemp("agreement"))) as scenario:
        yield scenario


def _play(lab: SlurmLab, folder: Path) -> Scenario:
    hosts, played_out = Hosts(), Scenario(folder / "w", folder)
    did = played_out.did

    def look() -> float:
        played_out.looks.append(hosts.listed())
        return now()

    def slurm(what: str, *arguments: str) -> None:
        lab.scontrol("update", *arguments)
        did[what] = now()

    job = lab.sbatch("sleep 14; date +%s.%N\n", "-w", "n2", "--gres=gpu:8")
    lab.wait_for(job, "RUNNING")
    look()
    time.sleep(3)
    did["cordoned"] = hosts.cordoned["n2"] = now()
    did["lost"] = now()
    hosts.ready["n3"] = False, did["lost"]
    time.sleep(3)
    slurm("drain asked", "nodename=n2", "state=drain", f"reason={REASON}")
    time.sleep(1)
    trackside_on(lab, played_out.warehouse, "ingest", "slurm")
    look()
    did["ready again"] = now()
    hosts.ready["n3"] = True, did["ready again"]
    lab.wait_for(job, "COMPLETED")
    did["drained"] = float((lab.base / "out" / f"{job}.out").read_text().split()[-1])
    lab.pause_slurmd("n6")  # it could register within the second, and Slurm keeps no outage without a length
    slurm("down", "nodename=n6", "state=down", "reason=bad dimm")
    time.sleep(2)
    lab.go_on_slurmd("n6")
    lab.wait_until(lambda: lab.node_state("n6") == "idle", 60, "n6 to register again", seldom=0.1)
    did["back"] = now()
    time.sleep(2)
    did["seen cordoned"] = look()
    del hosts.cordoned["n2"]
    time.sleep(2)
    did["seen free"] = look()
    time.sleep(3)
    slurm("returned", "nodename=n2", "state=resume")
    time.sleep(2)
    look()
    lab.sacctmgr("-n", "list", "cluster")  # slurmdbd has the news
    trackside_on(lab, played_out.warehouse, "ingest", "slurm")
    for number, text in enumerate(played_out.looks):
        (folder / f"{number}.json").write_bytes(text)
        trackside_on(
            lab, played_out.warehouse, "ingest", "kubernetes", str(folder / f"{number}.json"), "--cluster", CLUSTER
        )
    trackside_on(lab, played_out.warehouse, "compute")
    return played_out


def test_cordon_is_a_disagreement_until_slurm_drains(scenario: Scenario) -> None:
    cordon, back = scenario.disagreements("n2")
    assert (cordon["kind"], cordon["kubernetes_node"], cordon["slurm_state"]) == ("cordoned", "h-n2", "allocated")
    assert scenario.near(cordon["started_at"], "cordoned")
    assert scenario.near(cordon["ended_at"], "drain asked")
    assert scenario.near(cordon["settled_at"], "drained")
    assert (cordon["wrong"], cordon["evidence"]) == ("slurm", "followed")
    assert (back["kind"], back["slurm_reason"]) == ("out_of_slurm", REASON)
    assert scenario.near(back["started_at"], "seen free")
    assert scenario.near(back["ended_at"], "returned")
    unseen = scenario.did["seen free"] - scenario.did["seen cordoned"]
    assert abs(back["begin_uncertain_s"] - unseen) <= SECOND


def test_node_down_in_slurm_alone_is_found_with_both_times(scenario: Scenario) -> None:
    (row,) = scenario.disagreements("n6")
    assert (row["kind"], row["slurm_state"], row["kubernetes_state"], row["wrong"]) == (
        "out_of_slurm", "down", "ready", "unknown"
    )  # fmt: skip
    assert scenario.near(row["started_at"], "down")
    assert scenario.near(row["ended_at"], "back")


def test_host_not_ready_while_slurm_has_it_idle_is_found(scenario: Scenario) -> None:
    (row,) = scenario.disagreements("n3")
    assert (row["kind"], row["slurm_state"], row["began_by"], row["ended_by"]) == (
        "not_ready", "idle", "kubernetes", "kubernetes"
    )  # fmt: skip
    assert scenario.near(row["started_at"], "lost")
    assert scenario.near(row["ended_at"], "ready again")


def test_nodes_that_agreed_all_the_time_have_no_row(scenario: Scenario) -> None:
    assert [row for node in ("n1", "n4", "n5") for row in scenario.disagreements(node)] == []


def test_outages_of_the_life_cycle_are_those_that_were_made(scenario: Scenario) -> None:
    with open_reader(scenario.warehouse) as reader:
        computed = reader.query("computed", cluster=CLUSTER).row(0, named=True)
        known = lifecycle(reader, Window(CLUSTER, computed["since"], computed["until"]))
    outages = {row["node"]: row for row in known.outages.to_dicts()}
    assert set(outages) == {"n2", "n6"}
    assert scenario.near(outages["n2"]["failed_at"], "drain asked")
    assert scenario.near(outages["n2"]["back_at"], "returned")
    assert (outages["n2"]["by"], outages["n2"]["outcome"]) == ("kubernetes", "triaged")
    assert scenario.near(outages["n6"]["failed_at"], "down")
    assert (outages["n6"]["cause"], outages["n6"]["outcome"]) == ("memory", "returned")
    draining = known.stages.filter(node="n2", stage="draining")
    assert scenario.near(draining["ended_at"].item(), "drained")
