"""Lists of objects: what a later one lacks has gone, whatever file it is in, and of whatever namespace."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from ingest.kubernetes.parse import parse_objects
from tests.support.kubernetes.objects import NOW, Object, as_list, moment, owner, pod, workload

if TYPE_CHECKING:
    from ingest.tables import Parsed


def of_namespace(one: Object, namespace: str) -> Object:
    return {**one, "metadata": {**one["metadata"], "namespace": namespace}}


def parsed(*texts: bytes) -> Parsed:
    return parse_objects(b"\n".join(texts), origin="x", cluster="c", now=NOW)


def lists(*texts: bytes) -> set[tuple[str, str, Any]]:
    rows = parsed(*texts).frames["object_lists"]
    return set(rows.select("kind", "namespace", "seen_at").rows())


EARLY = as_list(pod("p1", scheduled=0), pod("p2", scheduled=60))
LATE = as_list(pod("p1", scheduled=0, ended=300), pod("p3", created=360, scheduled=360))


@pytest.mark.parametrize("texts", list(itertools.permutations([EARLY, LATE, EARLY])))
def test_each_list_of_a_file_is_of_its_own_time(texts: tuple[bytes, ...]) -> None:
    result = parsed(*texts)
    pods = {row["name"]: row for row in result.frames["pods"].iter_rows(named=True)}
    assert {name: row["seen_at"] for name, row in pods.items()} == {
        "p1": moment(360.5), "p2": moment(60.5), "p3": moment(360.5),
    }  # fmt: skip
    assert (pods["p1"]["ended_at"], pods["p1"]["state"]) == (moment(300), "COMPLETED")
    assert lists(*texts) == {("Pod", "team-a", moment(60.5)), ("Pod", "team-a", moment(360.5))}
    assert (result.rows_read, result.rows_loaded, result.rows_duplicate) == (6, 3, 3)
    assert result.covers_until == moment(360.5)


def test_of_two_lists_at_one_time_an_end_counts() -> None:
    running, over = as_list(pod("p", scheduled=0), pod("q", scheduled=9)), as_list(pod("p", scheduled=0, ended=9.5))
    for texts in ((running, over), (over, running)):
        assert parsed(*texts).frames["pods"].filter(name="p")["state"].to_list() == ["COMPLETED"]


def test_lists_of_other_kinds_and_namespaces_are_one_observation() -> None:
    other = as_list(of_namespace(pod("q", scheduled=60), "team-b"))
    jobs = as_list(workload("Job", "j", created=90), pod("r", above=owner("Job", "j"), scheduled=5))
    first = as_list(workload("Job", "j"))
    assert lists(first, other, jobs) == {("Pod", "team-a", moment(90)), ("Pod", "team-b", moment(90))}


def test_a_list_with_two_namespaces_is_of_all() -> None:
    both = as_list(pod("p", scheduled=0), of_namespace(pod("q", scheduled=60), "team-b"))
    assert ("Pod", "", moment(60.5)) in lists(both)
    apart = as_list(pod("p", scheduled=0)), as_list(of_namespace(pod("q", scheduled=60), "team-b"))
    assert {namespace for _, namespace, _ in lists(*apart)} == {"team-a", "team-b"}
