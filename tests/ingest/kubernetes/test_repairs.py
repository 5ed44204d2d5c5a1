"""Where node objects tell that a repair began: maintenance of a node under a fault, another object of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ingest.kubernetes.repairs import REPLACED
from queries.warehouse import open_reader
from tests.ingest.kubernetes.test_nodes import node
from tests.support.command import trackside
from tests.support.kubernetes.objects import Object, as_list, at, moment

if TYPE_CHECKING:
    from pathlib import Path


def with_conditions(one: Object, **since: float) -> Object:
    """A node with conditions that hold."""
    one["status"]["conditions"] += [
        {"type": name, "status": "True", "lastTransitionTime": at(minute), "reason": ""}
        for name, minute in since.items()
    ]
    return one


def another(one: Object, created: float) -> Object:
    """A node as a new object of the same name."""
    one["metadata"] |= {"uid": f"{one['metadata']['name']}-{created}", "creationTimestamp": at(created)}
    return one


def states(folder: Path, *looks: bytes) -> list[tuple[Any, ...]]:
    where = ("--cluster", "k", "--warehouse", str(folder / "w"))
    for number, text in enumerate(looks):
        (folder / str(number)).write_bytes(text)
        assert trackside("ingest", "kubernetes", str(folder / str(number)), *where).returncode == 0
    with open_reader(folder / "w") as reader:
        return reader.frame(
            "SELECT node, state, planned, started_at, ended_at, reason FROM node_states"
            " WHERE state <> 'unknown' ORDER BY ALL"
        ).rows()


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, -1])
def test_cordon_under_a_fault_is_planned_from_its_maintenance_on(tmp_path: Path, order: int) -> None:
    fault, work = {"GpuXidError": 24}, {"MaintenanceInProgress": 40}
    looks = [
        as_list(with_conditions(node("a", seen=30, cordoned=25), **fault), node("b", seen=30)),
        as_list(*(with_conditions(node(name, seen=50, cordoned=25), **work) for name in "ab")),
        as_list(node("a", seen=58), node("b", seen=58)),
    ]
    assert states(tmp_path, *looks[::order]) == [
        ("a", "drained", False, moment(25), moment(40), "GpuXidError"),
        ("a", "drained", True, moment(40), moment(58), "MaintenanceInProgress"),
        ("b", "drained", True, moment(25), moment(58), "MaintenanceInProgress"),  # nothing was wrong with it
    ]


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, -1])
def test_node_with_a_new_object_was_being_replaced(tmp_path: Path, order: int) -> None:
    looks = [
        as_list(node("a", seen=20), node("b", seen=20)),
        as_list(node("a", seen=30, since=25, ready=False), node("b", seen=30)),
        as_list(another(node("a", seen=50, since=45), 40), another(node("b", seen=50, since=40), 40)),
    ]
    found = states(tmp_path, *looks[::order])
    assert found == [
        ("a", "down", False, moment(25), moment(40), "NodeStatusUnknown"),
        ("a", "down", False, moment(40), moment(45), f"{REPLACED}; NodeStatusUnknown"),
    ]


@pytest.mark.slow
def test_lifecycle_calls_it_replaced(tmp_path: Path) -> None:
    looks = [
        as_list(node("a", seen=20)),
        as_list(node("a", seen=30, since=25, ready=False)),
        as_list(another(node("a", seen=50, since=45), 40)),
    ]
    states(tmp_path, *looks)
    where = ("--warehouse", str(tmp_path / "w"))
    assert trackside("compute", *where).returncode == 0
    done = trackside("show", "lifecycle", "--by", "event", "--format", "csv", *where)
    assert "replaced" in done.stdout, done.stdout + done.stderr
