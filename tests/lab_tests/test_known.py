"""What is known of an attempt can be told from what is not so, and survives being written down."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import polars as pl
import pytest

from tests.lab.scenario.compare import assert_as_known
from tests.lab.scenario.known import Between, Fact, Known, contradictions

FACTS: dict[str, Fact] = {
    "job_id": "7",
    "state": "FAILED",
    "started_at": Between(100.5, 102),
    "n_gpus": 8,
    "node_list": None,
}
ROW = {
    "cluster": "bench",
    "scheduler": "slurm",
    "job_id": "7",
    "submitted_at": datetime.fromtimestamp(100, UTC),
    "state": "FAILED",
    "started_at": datetime.fromtimestamp(101, UTC),
    "ended_at": None,
    "n_gpus": Decimal(8),
    "node_list": None,
}


def test_a_row_as_known_contradicts_nothing() -> None:
    assert contradictions(ROW, FACTS) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "COMPLETED"},
        {"started_at": datetime.fromtimestamp(100, UTC)},
        {"started_at": datetime.fromtimestamp(103, UTC)},
        {"started_at": None},
        {"n_gpus": Decimal(16)},
        {"n_gpus": None},
        {"node_list": "n1"},
    ],
    ids=str,
)
def test_value_other_than_known_is_reported(wrong: dict[str, object]) -> None:
    assert contradictions({**ROW, **wrong}, FACTS).keys() == wrong.keys()


def test_what_is_known_survives_being_written_down() -> None:
    known = Known("failed", 0, FACTS, {"n1": 8.0})
    assert Known.from_json(known.as_json()) == known


@pytest.mark.parametrize(
    "nodes", [{}, {"n1": 4.0}, {"n2": 8.0}, {"n1": 8.0, "n2": 8.0}], ids=["none", "half", "another", "more"]
)
def test_nodes_or_gpus_not_held_are_reported(nodes: dict[str, Fact]) -> None:
    held = {name: ROW[name] for name in ("cluster", "scheduler", "job_id", "submitted_at")}
    on = pl.DataFrame([{**held, "node": "n1", "n_gpus": Decimal(8)}])
    known = Known("failed", 0, {"job_id": "7", "state": "FAILED"}, {"n1": 8.0})
    assert_as_known(pl.DataFrame([ROW]), on, [known])
    with pytest.raises(AssertionError, match="attempt 0 of failed"):
        assert_as_known(pl.DataFrame([ROW]), on, [Known(known.kind, 0, known.facts, nodes)])
