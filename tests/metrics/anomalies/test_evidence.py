"""Telemetry confirms a suspected node by events and deviations that its peers do not have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from metrics import frames
from metrics.anomalies.evidence import telemetry_evidence
from metrics.anomalies.scan import ANOMALIES

BEGIN = datetime(2026, 9, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
SUSPECTS = pl.DataFrame({"run_id": ["r"], "session": ["1"], "node": ["n0"]})
NODES = pl.DataFrame(
    [("r", "1", f"n{n}", BEGIN, BEGIN + 10 * HOUR) for n in range(9)],
    schema={"run_id": frames.TEXT, "session": frames.TEXT, "node": frames.TEXT, "since": frames.TIME,
            "until": frames.TIME}, orient="row",
)  # fmt: skip
EVENTS = {"node": frames.TEXT, "ts": frames.TIME, "gpu": frames.TEXT, "kind": frames.TEXT, "code": frames.TEXT,
          "device": frames.TEXT}  # fmt: skip


def event(node: str, hours: float, kind: str = "throttle", **changes: Any) -> dict[str, Any]:
    return {"node": node, "ts": BEGIN + hours * HOUR, "gpu": "3", "kind": kind, "code": "hw_thermal"} | changes


def shown(*events: dict[str, Any], anomalies: list[dict[str, Any]] | None = None) -> list[tuple[str, datetime]]:
    frame = frames.conform(pl.DataFrame(list(events), schema_overrides=EVENTS), EVENTS) if events else None
    deviating = pl.DataFrame(anomalies or [], schema=ANOMALIES)
    rows = telemetry_evidence(SUSPECTS, NODES, pl.DataFrame(schema=EVENTS) if frame is None else frame, deviating)
    return rows.select("telemetry", "telemetry_since").rows()


def test_events_of_the_suspected_node_within_the_session_confirm() -> None:
    (only,) = shown(event("n0", 2), event("n0", 5), event("n0", 1, "pcie", code="replay"))
    assert only == (
        "pcie replay on GPU 3 since 2026-09-20T01:00Z; throttle hw_thermal on GPU 3, 2 times since 2026-09-20T02:00Z",
        BEGIN + HOUR,
    )


@pytest.mark.parametrize(("hours", "confirms"), [(-0.9, True), (-1.1, False), (9.9, True), (10.0, False)])
def test_events_count_from_an_hour_before_to_the_end(hours: float, *, confirms: bool) -> None:
    assert bool(shown(event("n0", hours))) == confirms


@pytest.mark.parametrize(("peers", "confirms"), [(0, True), (2, True), (3, False), (8, False)])
def test_what_more_than_a_quarter_of_peers_have_is_no_evidence(peers: int, *, confirms: bool) -> None:
    assert bool(shown(event("n0", 2), *(event(f"n{n}", 3) for n in range(1, 1 + peers)))) == confirms


def test_other_codes_and_nodes_of_other_sessions_do_not_count() -> None:
    assert shown(event("n5", 2)) == []
    others = (event(f"n{n}", 3, code="sw_thermal") for n in range(1, 9))
    assert len(shown(event("n0", 2), *others)) == 1


def test_a_port_is_named() -> None:
    ((text, _),) = shown(event("n0", 2, "ib", code="slower", gpu=None, device="mlx5_0/1"))
    assert text == "ib slower on mlx5_0/1 since 2026-09-20T02:00Z"


def anomaly(node: str, since: float, until: float, *, anomalous: bool = True) -> dict[str, Any]:
    return {"signal": "temperature", "level": "gpu", "node": node, "device": "3", "anomalous": anomalous,
            "against": "peers", "since": BEGIN + since * HOUR, "until": BEGIN + until * HOUR, "hours": 5,
            "effect": 12.0, "scale": "kelvin"}  # fmt: skip


def test_deviations_that_overlap_the_session_confirm() -> None:
    rows = [anomaly("n0", -48, 1), anomaly("n1", 0, 10), anomaly("n0", 1, 9, anomalous=False), anomaly("n0", 10, 20)]
    assert shown(anomalies=rows) == [
        ("temperature at equal power of GPU 3 +12.0 K against its peers since 2026-09-18T00:00Z", BEGIN - 48 * HOUR)
    ]


def test_no_suspects_and_no_telemetry_give_no_rows() -> None:
    assert shown() == []
    nothing = telemetry_evidence(SUSPECTS.clear(), NODES.clear(), pl.DataFrame(schema=EVENTS), frames.empty(ANOMALIES))
    assert nothing.is_empty()
