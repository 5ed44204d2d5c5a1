"""The page Today: what needs a person, each thing once."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from app.explorer import filters
from app.explorer.filters import ClusterState, Situation
from app.explorer.pages.today import _change, _of_claims, _of_node

END = datetime(2026, 11, 1, tzinfo=UTC)
STATE = ClusterState("c", datetime(2026, 9, 1, tzinfo=UTC), END, END, 0, ())
VIEW = filters.resolve(Situation(("c",), (STATE,), 1), {"since": "2026-10-01"})


def refuted(*names: str) -> list[Any]:
    return [SimpleNamespace(claim=SimpleNamespace(id=name, quoted=f"says {name}")) for name in names]


def test_refuted_claims_are_one_task() -> None:
    (task,) = _of_claims(refuted("goodput", "mttf"), VIEW)
    assert task.what == "2 claims are refuted"
    assert task.why == "goodput: “says goodput”; mttf: “says mttf”"
    assert task.command == "trackside verify --cluster c --since 2026-10-01"
    assert task.href == "/verdicts?since=2026-10-01"


def test_no_refuted_claim_is_no_task() -> None:
    assert _of_claims([], VIEW) == []
    assert _of_claims(refuted("mfu"), VIEW)[0].what == "A claim is refuted"


LEMON = {"node": "n1", "verdict": "lemon", "failures": 7, "expected": 0.27, "q_value": 4e-6,
         "cause": "node_fail", "cost_gpu_s": 3600.0 * 1234, "unpriced": 1}  # fmt: skip


def test_a_lemon_comes_with_its_cause_and_cost() -> None:
    often = "It failed 7 times where chance gives 0.27"
    assert _of_node(LEMON, VIEW).why == f"{often}, mostly node fail; that cost at least 1,234 GPU-h."
    assert _of_node(LEMON | {"unpriced": 0}, VIEW).why == f"{often}, mostly node fail; that cost 1,234 GPU-h."
    assert _of_node(LEMON | {"cost_gpu_s": None}, VIEW).why == f"{often}, mostly node fail."
    assert _of_node(LEMON | {"cause": None, "cost_gpu_s": None}, VIEW).why == f"{often}."


def test_a_lemon_comes_with_the_command_that_drains_it() -> None:
    row = LEMON
    assert _of_node(row, VIEW).command.startswith("scontrol update NodeName=n1 State=DRAIN Reason=")
    assert _of_node(row | {"verdict": "suspect"}, VIEW).command == "scontrol show node n1"


def test_a_change_is_a_signed_number_that_fits_a_phone() -> None:
    rows = [("share", 0.4, 0.534), ("share", 0.4, 0.4001), ("count", 3.0, 1.0), ("share", None, 0.1)]
    changes = [_change({"unit": unit, "now": now, "before": before}) for unit, now, before in rows]
    assert changes == ["-13.4", "0.0", "+2", "cannot tell"]
