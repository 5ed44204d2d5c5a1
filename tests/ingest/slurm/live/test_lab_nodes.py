"""Nodes of a real Slurm: drained, down and back, reserved for maintenance, and where they hang in the network.

The truth is what was done from outside, and when; the warehouse must say the same, field by field.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from ingest.node_reasons import driver
from queries.warehouse import open_reader
from tests.lab.processes import now
from tests.lab.scenario.played import played
from tests.support.command import trackside_on

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab import SlurmLab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab")]

SECOND = 1.5
"""Slurm tells whole seconds, and a command takes a moment."""


@dataclass
class Scenario:
    """What was done when (`did`, by what it was), and the warehouse that was made of it."""

    lab: SlurmLab
    warehouse: Path
    did: dict[str, float] = field(default_factory=dict)

    def do(self, what: str, *arguments: str) -> None:
        self.lab.scontrol(*arguments)
        self.did[what] = now()

    def table(self, name: str, *which: pl.Expr) -> list[dict[str, Any]]:
        with open_reader(self.warehouse) as reader:
            return reader.table(name).filter(*which).to_dicts()

    def at(self, moment: Any, what: str) -> bool:
        return moment is not None and abs(moment.timestamp() - self.did[what]) <= SECOND


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    with played(lambda lab: _play(lab, tmp_path_factory)) as scenario:
        yield scenario


def _play(lab: SlurmLab, tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    did = Scenario(lab, tmp_path_factory.mktemp("nodes") / "w")
    time.sleep(2)  # so that something was before
    did.do("drained", "update", "nodename=n5", "state=drain", "reason=k8s: cordon: GPU fell off the bus")
    did.do("down", "update", "nodename=n6", "state=down", "reason=bad dimm|slot 3")
    # ReturnToService=2
    lab.wait_until(lambda: lab.node_state("n6") == "idle", 60, "n6 to register again", seldom=0.1)
    did.did["back"] = now()
    for name, flags, node, start in (("patch", "maint", "n[1-2]", "now"), ("later", "maint", "n4", "now+3600")):
        did.do(name, *_reservation(name, start), f"flags={flags}", f"nodes={node}", "users=root")
    did.do("course", *_reservation("course", "now"), "nodes=n3", "accounts=llm,vision", "partitionname=main")
    time.sleep(4)
    trackside_on(lab, did.warehouse, "ingest", "slurm")
    time.sleep(2)
    did.do("patch is smaller", "update", "reservationname=patch", "nodes=n1")
    time.sleep(4)
    did.do("patch is over", "delete", "reservationname=patch")
    did.do("later is off", "delete", "reservationname=later")
    did.do("course is longer", "update", "reservationname=course", "duration=120")
    time.sleep(4)
    lab.sacctmgr("-n", "list", "cluster")  # slurmdbd has the news
    for verb in (["ingest", "slurm"], ["compute"]):
        trackside_on(lab, did.warehouse, *verb)
    return did


def _reservation(name: str, start: str) -> tuple[str, ...]:
    return "create", "reservation", f"reservationname={name}", f"starttime={start}", "duration=60"


def test_a_drain_has_its_reason_and_its_author(scenario: Scenario) -> None:
    (row,) = scenario.table("node_states", pl.col("node") == "n5", pl.col("source") == "slurm.events")
    assert scenario.at(row["started_at"], "drained")
    assert (row["ended_at"], row["state"], row["state_raw"], row["planned"]) == (None, "drained", "DRAIN", False)
    assert (row["reason"], row["actor"]) == ("k8s: cordon: GPU fell off the bus", "root(0)")
    assert driver(row["reason"], row["actor"]) == "kubernetes"


def test_a_node_that_was_down_and_came_back_has_both_times(scenario: Scenario) -> None:
    (row,) = scenario.table("node_states", pl.col("node") == "n6", pl.col("source") == "slurm.events")
    assert scenario.at(row["started_at"], "down")
    assert scenario.at(row["ended_at"], "back")
    assert (row["state"], row["reason"], row["planned"]) == ("down", "bad dimm|slot 3", False)


def test_changed_and_shortened_reservation_is_stored_as_it_was(scenario: Scenario) -> None:
    first, second = scenario.table("reservations", pl.col("name") == "patch")
    assert scenario.at(first["started_at"], "patch")
    assert scenario.at(first["ended_at"], "patch is smaller")
    assert second["started_at"] == first["ended_at"]
    assert scenario.at(second["ended_at"], "patch is over")
    assert [row["node_list"] for row in (first, second)] == ["n[1-2]", "n1"]
    assert [row["n_nodes"] for row in (first, second)] == [2, 1]
    assert (first["flags"], first["maintenance"], first["users"]) == (["MAINT", "SPEC_NODES"], True, ["root"])


def test_reservation_for_people_has_their_names_and_times(scenario: Scenario) -> None:
    (row,) = scenario.table("reservations", pl.col("name") == "course")
    assert (row["node_list"], row["partition"], row["accounts"], row["users"]) == ("n3", "main", ["llm", "vision"], [])
    assert row["maintenance"] is False
    assert (row["ended_at"] - row["started_at"]).total_seconds() == 120 * 60


def test_idle_gpus_in_maintenance_are_counted_so_to_the_second(scenario: Scenario) -> None:
    first, second = scenario.table("reservations", pl.col("name") == "patch")
    lasted = {
        "n1": (second["ended_at"] - first["started_at"]).total_seconds(),
        "n2": (first["ended_at"] - first["started_at"]).total_seconds(),
    }
    rows = scenario.table("gpu_time", pl.col("category") == "maintenance")
    result = {node: sum(float(row["gpu_seconds"]) for row in rows if row["node"] == node) for node in lasted}
    # A look at the nodes while they were in it is a moment, not a time.
    assert result == {node: 8 * seconds for node, seconds in lasted.items()}
    assert {row["node"] for row in rows} == {"n1", "n2"}  # `later` was called off before it began


def test_the_ledger_still_adds_up_to_capacity(scenario: Scenario) -> None:
    with open_reader(scenario.warehouse) as reader:
        total = reader.frame("SELECT SUM(gpu_seconds) AS s FROM capacity")["s"].item()
        assert total == reader.frame("SELECT SUM(gpu_seconds) AS s FROM gpu_time")["s"].item()


def test_each_node_is_under_its_switch_of_topology_conf(scenario: Scenario) -> None:
    rows = scenario.table("node_topology")
    leaves = {"n1": "leaf1", "n2": "leaf1", "n3": "leaf2", "n4": "leaf2", "n5": "leaf3", "n6": "leaf3"}
    assert {row["node"]: row["path"] for row in rows} == {node: ["spine", leaf] for node, leaf in leaves.items()}
    assert len(rows) == 6  # one place each, seen twice
    assert {row["plugin"] for row in rows} == {"tree"}
    assert all(row["valid_from"] < row["last_seen_at"] for row in rows)


def test_snapshots_of_an_unchanged_inventory_are_one_interval(scenario: Scenario) -> None:
    rows = scenario.table("nodes")
    assert {row["node"]: int(row["n_gpus"]) for row in rows} == {**{f"n{i}": 8 for i in range(1, 5)}, "n5": 4, "n6": 4}
    assert len({(row["valid_from"], row["last_seen_at"]) for row in rows}) == 1


def test_the_parts_are_shown_as_sources(scenario: Scenario) -> None:
    shown = trackside_on(scenario.lab, scenario.warehouse, "status")
    assert [name for name in ("slurm.topology", "slurm.reservations") if name not in shown] == []
