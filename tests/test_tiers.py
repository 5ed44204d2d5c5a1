"""Which tests each tier leaves out, and that it runs them last."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import tiers


@pytest.mark.parametrize(
    ("tier", "run", "left_out"),
    [
        ("fast", ["quick"], ["lab", "slow"]),
        ("slow", ["slow", "quick"], ["lab"]),
        ("real", ["lab", "slow", "quick"], []),
        ("", ["lab", "slow", "quick"], []),
    ],
)
def test_leave_out_by_tier(
    tier: str, run: list[str], left_out: list[str], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKSIDE_TEST_TIER", tier)
    items: list[pytest.Item] = []
    for name in ("lab", "slow", "quick"):
        item = pytest.Function.from_parent(request.node.parent, name=name, callobj=lambda: None)
        if name != "quick":
            item.add_marker(name)
        items.append(item)
    tiers.leave_out(items)
    assert [item.name for item in items] == run + left_out
    assert [item.name for item in items if item.get_closest_marker("skip")] == left_out


def test_real_components_are_for_the_real_tier_and_single_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {}
    for tier in ("fast", "slow", "real", ""):
        monkeypatch.setenv("TRACKSIDE_TEST_TIER", tier)
        wanted[tier] = tiers.real_components_wanted()
    assert wanted == {"fast": False, "slow": False, "real": True, "": True}


@pytest.mark.parametrize(
    ("tier", "examples", "taken"),
    [("fast", 100, 25), ("fast", 20, 10), ("fast", 5, 5), ("real", 100, 25), ("slow", 100, 100), ("", 100, 100)],
)
def test_each_tier_takes_its_share_of_the_examples(
    tier: str, examples: int, taken: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    @settings(max_examples=examples)
    @given(st.integers())
    def law(number: int) -> None:
        calls.append(number)

    monkeypatch.setenv("TRACKSIDE_TEST_TIER", tier)
    item = pytest.Function.from_parent(request.node.parent, name="law", callobj=law)
    tiers.take_fewer_examples([item, item])
    law()
    assert len(calls) == taken
