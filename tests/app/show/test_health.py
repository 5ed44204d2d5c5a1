"""`trackside show health` on the cluster of which every number is known."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.show.questions.nodes.health import by_node
from app.window import Window
from queries.warehouse import open_reader
from tests.support.known_cluster import (
    END,
    HOUR,
    MIDNIGHT,
    START,
    answer_of,
    at,
    bare,
    everything,
    rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queries.warehouse import Reader


@pytest.fixture
def reader() -> Iterator[Reader]:
    with open_reader(everything()) as opened:
        yield opened


def test_incident_lists_cause_touched_attempts_and_action(reader: Reader) -> None:
    answer = answer_of(reader, "health")
    worst = answer.rows.row(0, named=True)
    assert (worst["node"], worst["gpus"], worst["severity"], worst["n_events"]) == ("n1", "0,1", "critical", 2)
    assert (worst["n_attempts"], worst["n_ended"]) == (1, 1)
    told = "\n".join(answer.notes)
    assert "n1 had 1 critical incident: ecc dbe (1), xid 79 (1). 1 attempt may have ended because of them." in told
    assert "scontrol update NodeName=n1 State=DRAIN Reason='trackside: 1 critical incident: ecc dbe (1), xid" in told
    assert "RESET_GPU" in told


def test_a_node_has_all_kinds_of_its_worst_incidents(reader: Reader) -> None:
    first = answer_of(reader, "health").rows.filter(pl.col("node") == "n1")
    other = first.with_columns(started_at=first["started_at"] + timedelta(days=1), kinds=pl.lit("xid 94, xid 79"))
    lesser = other.with_columns(severity=pl.lit("info"), kinds=pl.lit("xid 13"))
    node = by_node(pl.concat([first, other, lesser])).row(0, named=True)
    assert (node["kinds"], node["critical"]) == ("xid 79 (2), xid 94 (1), ecc dbe (1)", 2)


def test_incidents_are_listed_by_node_attempt_and_kind(reader: Reader) -> None:
    nodes = rows(answer_of(reader, "health", "node"), subject="node")
    assert list(nodes) == ["n1", "n4", "n9"]
    assert (nodes["n1"]["critical"], nodes["n4"]["warning"], nodes["n9"]["info"]) == (1, 1, 1)
    attempts = answer_of(reader, "health", "attempt").rows
    result = set(attempts.select("job_id", "node", "at_end").rows())
    assert {("1", "n1", True), ("5", "n4", False)} <= result
    kinds = answer_of(reader, "health", "kind").rows
    assert kinds.select("kind", "code", "n_events", "n_gpus").rows()[:2] == [("ecc", "dbe", 1, 1), ("xid", "79", 1, 1)]


def test_without_critical_incidents_nothing_is_to_be_drained(reader: Reader) -> None:
    early = Window("c", at(START), at(MIDNIGHT))
    answer = answer_of(reader, "health", None, early)
    assert answer.rows.height == 2
    assert "scontrol" not in "\n".join(answer.notes)


def test_window_without_events_names_those_outside_it(reader: Reader) -> None:
    before = Window("c", at(START - 3 * HOUR), at(START - 2 * HOUR))
    output = answer_of(reader, "health", None, before).when_empty
    assert output.startswith("No health events in this window; there are 3 outside of it, the last of 2026-09-2")


def test_health_reports_how_much_of_the_window_is_covered(reader: Reader) -> None:
    output = "Telemetry of health covers "
    assert not any(note.startswith(output) for note in answer_of(reader, "health").notes)
    longer = Window("c", at(START - 48 * HOUR), at(MIDNIGHT))
    assert any(
        note.startswith(output) and "of these 2 d " in note for note in answer_of(reader, "health", None, longer).notes
    )


def test_missing_events_are_explained_by_their_source() -> None:
    with open_reader(bare()) as reader:
        for by in ("incident", "node", "attempt", "kind"):
            answer = answer_of(reader, "health", by)
            assert answer.rows.is_empty()
            assert not answer.notes
            assert "trackside ingest prometheus" in answer.when_empty


def test_gpus_of_several_incidents_of_a_node_are_named_once() -> None:
    first = {"cluster": "c", "node": "n", "started_at": at(START), "ended_at": at(START), "severity": "warning",
             "n_events": 1, "kinds": "ecc sbe", "gpus": "1,3", "action": None, "n_attempts": 2,
             "n_ended": 0}  # fmt: skip
    later = first | {
        "started_at": at(END),
        "ended_at": at(END) + timedelta(minutes=1),
        "gpus": "0,1",
        "kinds": "xid 48",
    }
    none = first | {"gpus": "", "severity": "info", "kinds": "pcie replay"}
    (row,) = by_node(pl.DataFrame([first, later, none])).to_dicts()
    assert (row["gpus"], row["warning"], row["info"], row["kinds"]) == ("0, 1, 3", 2, 1, "xid 48 (1), ecc sbe (1)")
    assert (row["n_attempts"], row["last_at"]) == (6, at(END) + timedelta(minutes=1))
