"""Rules of health events: the builtin ones make sense, bad ones are refused, and each does what it says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.prometheus.health import events as health
from ingest.prometheus.health.rules import Rule, RuleError, builtin, names, parse_rule
from ingest.prometheus.health.xid import FIRST_SEEN
from ingest.prometheus.series.hosts import HOST_INFO
from ingest.prometheus.series.labels import XID_COUNTS
from tests.ingest.prometheus.health import slow_health
from tests.support.telemetry.health_readings import of_gpu, of_node, samples

if TYPE_CHECKING:
    from tests.support.telemetry.health_readings import Points

GOOD: dict[str, Any] = {
    "names": ["x_total"], "event": "increase", "kind": "x", "code": "y", "severity": "info",
    "description": "it happened",
}  # fmt: skip


def named(kind: str, code: str) -> list[Rule]:
    return [rule for rule in builtin() if (rule.kind, rule.code) == (kind, code)]


def test_throttling_and_self_repair_never_explain_a_failure() -> None:
    may_explain = {(rule.kind, rule.code_from or rule.code) for rule in builtin() if rule.severity == "critical"}
    assert may_explain == {
        ("ecc", "dbe"),
        ("row_remap", "failure"),
        ("nvlink", "fatal"),
        ("gpu", "fallen_off_bus"),
        ("ib", "link_downed"),
        ("edac", "uncorrectable"),
        ("filesystem", "readonly"),
        ("filesystem", "device_error"),
        ("filesystem", "mount_lost"),
        ("condition", "condition"),
    }


def test_every_rule_has_a_text_and_bad_ones_an_action() -> None:
    assert all(rule.description for rule in builtin())
    assert [rule.description for rule in builtin() if rule.severity != "info" and not rule.action] == []


def test_both_generations_of_dcgms_names_are_read() -> None:
    (failure,) = named("row_remap", "failure")
    assert set(failure.names) == {"DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED"}
    assert {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_PCIE_REPLAY_TOTAL"} <= set(names(builtin()))


def test_xids_have_their_own_table() -> None:
    assert not set(XID_COUNTS) & set(names(builtin()))
    assert {rule.kind for rule in builtin()}.isdisjoint({"xid"})


def test_names_are_regular_in_the_eyes_of_a_server() -> None:
    assert [name for name in (*names(builtin()), HOST_INFO) if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name)] == []


def test_metric_with_share_rules_has_one_width() -> None:
    widths: dict[str, set[int]] = {}
    for rule in builtin():
        for name in rule.names:
            widths.setdefault(name, set()).add(rule.within_s if rule.event == "share" else 0)
    assert [name for name, result in widths.items() if len(result) > 1] == []


@pytest.mark.parametrize(
    ("change", "output"),
    [
        ({"sys": "typo"}, "sys: no such key"),
        ({"description": ""}, "description required"),
        ({"names": []}, "names required"),
        ({"event": "grow"}, "event is one of increase"),
        ({"severity": "bad"}, "severity one of critical, warning, info"),
        ({"code": ""}, "code or code_from is required"),
        ({"names": ["DCGM_FI_X", "node_x"]}, "need separate rules"),
        ({"event": "level"}, "one of above, below, other_than and bits"),
        ({"above": 1}, "one of above, below, other_than and bits"),
        ({"event": "level", "above": 1, "bits": 2}, "one of above, below, other_than and bits"),
        ({"within_s": 3600}, "within_s is at most 600"),
    ],
)
def test_a_rule_that_means_nothing_is_refused_with_what_to_write(change: dict[str, Any], output: str) -> None:
    with pytest.raises(RuleError, match=f"^here.*{re.escape(output)}"):
        parse_rule(GOOD | change, origin="here")


def test_a_rule_matches_its_expression() -> None:
    rule = parse_rule(GOOD | {"where": {"b": "2", "a": "1|"}, "class": "NETWORK", "device": ["port"]}, origin="here")
    assert (rule.where, rule.kind_of_cause, rule.device) == ((("a", "1|"), ("b", "2")), "NETWORK", ("port",))
    assert rule.fits({"b": "2"})
    assert not rule.fits({"b": "22"})


# --- to the letter: a plain loop over the readings of one series finds the same

RULES = [rule for rule in builtin() if rule.event != "gone" and not rule.code_from]
LABELS = {"device": "mlx5_0", "port": "1", "mountpoint": "/data", "node": "n1"}


@st.composite
def a_rule_and_readings(draw: st.DrawFn) -> tuple[Rule, Points]:
    """Readings with changes that matter to the rule: of counters small and large growth, and restarts."""
    rule = draw(st.sampled_from(RULES))
    growth = {"increase": [0.0, 0.0, 1.0, rule.at_least / 2, rule.at_least], "share": [0.0, 1e9, 1e11]}.get(rule.event)
    level = [0.0, 1.0, 4.0, 8.0, 11.0, 32.0, 64.0, 128.0, 192.0]
    second, value, points = float(draw(st.integers(0, 100_000))), 0.0, []
    for _ in range(draw(st.integers(1, 25))):
        if growth is None:
            value = draw(st.sampled_from(level))
        else:
            value = 0.0 if draw(st.integers(0, 7)) == 0 else value + draw(st.sampled_from(growth))
        points.append((second, value))
        second += draw(st.sampled_from([15, 30, 60, 60, 300, 301, 1800, 1801]))
    return rule, points


@pytest.mark.slow
@given(a_rule_and_readings())
@settings(max_examples=120, deadline=None)
def test_events_of_a_series_are_those_that_a_plain_loop_finds(told_of: tuple[Rule, Points]) -> None:
    rule, points = told_of
    make = of_gpu if rule.of_gpus else of_node
    result = health.from_raw([samples(make(rule.names[0], points, **LABELS))], cluster="c", rules=[rule]).events
    slow = slow_health.events(rule, points)
    # What was found there after a gap says nothing new where the same was known before.
    news = [event for number, event in enumerate(slow) if not event[2] or number == 0]
    assert [
        (row["ts"].timestamp(), row["value"], row["detail"].startswith(FIRST_SEEN))
        for row in result.sort("ts").iter_rows(named=True)
    ] == [(second, pytest.approx(value) if value else value, first) for second, value, first in news]
