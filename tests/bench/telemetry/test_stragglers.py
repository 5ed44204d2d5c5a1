"""The bench of stragglers on a small fleet: what is planted is found, what is counted adds up."""

from __future__ import annotations

import pytest

from tests.bench.telemetry.straggler_fleet import GPUS, KINDS, StragglerFleet
from tests.bench.telemetry.stragglers import Score, share_interval


@pytest.mark.slow
def test_slow_nodes_of_every_kind_are_found_and_no_other() -> None:
    fleet = StragglerFleet(11, nodes=128, days=10, slow=2, factor=1.3)
    score = Score()
    score.add(fleet)
    assert dict(score.found) == dict.fromkeys(KINDS, 2)
    assert score.wrong.total() == 0
    assert score.node_days == 1280
    assert score.causes.total() == len(list(fleet.runs()))


@pytest.mark.slow
def test_a_healthy_fleet_has_no_named_node() -> None:
    score = Score()
    score.add(StragglerFleet(11, nodes=128, days=5, slow=0))
    assert (score.right, score.wrong.total()) == (0, 0)
    assert not [key for key in score.causes if key[1] == "node"]


def test_every_node_runs_all_the_time_once() -> None:
    fleet = StragglerFleet(3, nodes=128, days=4)
    busy = sum(len(run.nodes) * run.hours for run in fleet.runs())
    assert busy == 128 * 96
    run = next(fleet.runs())
    rows = fleet.rows(run)
    assert rows.height == len(run.nodes) * GPUS * run.hours
    assert fleet.rows(run).equals(rows)


@pytest.mark.parametrize(("k", "n", "low", "high"), [(0, 20, 0.0, 0.1684), (19, 20, 0.7513, 0.9987)])
def test_intervals_of_shares_are_exact(k: int, n: int, low: float, high: float) -> None:
    assert share_interval(k, n) == pytest.approx((low, high), abs=1e-4)
