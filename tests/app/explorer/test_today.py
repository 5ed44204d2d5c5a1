"""The page Today: what needs a person, each thing once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from app.explorer import filters
from app.explorer.filters import ClusterState, Situation
from app.explorer.pages import today
from app.explorer.pages.today import _change, _of_claims, _of_node, _of_outages, still_out

if TYPE_CHECKING:
    import pytest

    from queries.reader import Reader

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
    often = "It failed 7 times (expected by chance: 0.27)"
    assert _of_node(LEMON, VIEW).why == f"{often}, mostly node fail; that cost at least 1,234 GPU-h."
    assert _of_node(LEMON | {"unpriced": 0}, VIEW).why == f"{often}, mostly node fail; that cost 1,234 GPU-h."
    assert _of_node(LEMON | {"cost_gpu_s": None}, VIEW).why == f"{often}, mostly node fail."
    assert _of_node(LEMON | {"cause": None, "cost_gpu_s": None}, VIEW).why == f"{often}."


def test_a_lemon_comes_with_the_command_that_drains_it() -> None:
    row = LEMON
    assert _of_node(row, VIEW).command.startswith("scontrol update NodeName=n1 State=DRAIN Reason=")
    assert _of_node(row | {"verdict": "suspect"}, VIEW).command == "scontrol show node n1"


OUTAGE = {"node": "n1", "failed_at": datetime(2026, 10, 31, 23, 4, tzinfo=UTC), "reason": "XID 119 on GPU 7",
          "relapse": True, "lost_gpu_s": 3600.0 * 7}  # fmt: skip


def test_a_node_out_of_service_is_a_task() -> None:
    (task,) = _of_outages([OUTAGE], VIEW)
    assert (task.what, task.page, task.href) == ("n1 is out of service", "n1", "/node?since=2026-10-01&node=n1")
    assert task.why == (
        "Since 2026-10-31 23:04, within a day of its last outage (XID 119 on GPU 7); 7.00 GPU-h so far."
    )
    assert task.command == "scontrol show node n1"


def test_nodes_out_of_service_are_one_task() -> None:
    assert _of_outages([], VIEW) == []
    bare = {"reason": None, "relapse": False, "lost_gpu_s": 0.0}
    (task,) = _of_outages([OUTAGE | bare | {"node": f"n{each}"} for each in range(7)], VIEW)
    assert (task.what, task.href) == ("7 nodes are out of service", "/nodes?since=2026-10-01")
    assert task.why.startswith("n0 since 2026-10-31 23:04; n1 since")
    assert task.why.endswith("n4 since 2026-10-31 23:04; and 2 more.")
    assert task.command == "scontrol show node n0,n1,n2,n3,n4"


def test_only_unplanned_outages_that_last_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = {"lasting": None, "planned": None, "over": END - timedelta(hours=1), "ends later": END + timedelta(hours=1)}
    rows = [
        {"node": node, "planned": node == "planned", "back_at": back, "lost_gpu_s": 1.0 + (node == "ends later")}
        for node, back in ended.items()
    ]
    outages = pl.DataFrame(rows, schema_overrides={"back_at": pl.Datetime("us", "UTC")})
    monkeypatch.setattr(today, "lifecycle", lambda *_: SimpleNamespace(outages=outages))
    found = still_out(cast("Reader", None), replace(VIEW.window, until=END))
    assert [row["node"] for row in found] == ["ends later", "lasting"]


def test_a_change_is_a_signed_number_that_fits_a_phone() -> None:
    rows = [("share", 0.4, 0.534), ("share", 0.4, 0.4001), ("count", 3.0, 1.0), ("share", None, 0.1)]
    changes = [_change({"unit": unit, "now": now, "before": before}) for unit, now, before in rows]
    assert changes == ["-13.4", "0.0", "+2", "cannot tell"]
