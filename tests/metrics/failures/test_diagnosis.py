"""Differential diagnosis: likeliest cause, failure domains, what nodes told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.failures.interruptions import attempts_for_interruptions, critical_states, interruptions
from tests.metrics.failures import slow_diagnosis
from tests.metrics.tables import Row, at, attempt, attempts, event, events, joined, of_keys, on_nodes, rows

if TYPE_CHECKING:
    from datetime import datetime

JOB = {"7": ["n1", "n2"]}


def judged(state: str, *seen: Row, nodes: dict[str, list[str]] | None = None, **more: object) -> dict[str, object]:
    """The interruption of job 7, which ended so at 5 h."""
    ran = attempts(attempt("7", 0, 1, 5, state, gpus=16, **more))
    return interruptions(ran, joined(ran), on_nodes(ran, nodes or JOB), events(*seen)).row(0, named=True)


def xid(code: int, kind: str, severity: str = "critical", *, minutes: float = -1, node: str = "n1") -> Row:
    output = {"code": str(code), "gpu": "2", "class": kind, "severity": severity}
    return event(node, at(5, minutes=minutes), "xid", **output)


def state_event(reason: str, state: str = "drained", *, minutes: float = -1, node: str = "n1") -> Row:
    """A node state as the diagnosis reads it."""
    reported = {"cluster": "c", "node": node, "started_at": at(5, minutes=minutes), "state": state, "reason": reason}
    (result,) = critical_states(rows(frames.NODE_STATES, reported), critical_reasons=".").to_dicts()
    return result


@pytest.mark.parametrize(
    ("state", "seen", "domains"),
    [
        ("FAILED", [], "user,software,hardware"),  # an exit status says nothing of where it comes from
        ("FAILED", [xid(79, "HW")], "hardware"),
        ("FAILED", [xid(31, "APP", "info")], "user"),
        ("FAILED", [xid(13, "APP", "info"), xid(79, "HW")], "hardware"),
        ("FAILED", [xid(119, "DRIVER")], "software,hardware"),
        ("FAILED", [xid(32, "UNKNOWN", "warning")], "software,hardware"),  # bus quality, not the program
        ("FAILED", [xid(109, "UNKNOWN", "warning")], "user,software,hardware"),
        ("FAILED", [xid(45, "CONSEQUENCE", "info")], "user,software,hardware"),
        ("FAILED", [xid(63, "INFO", "info")], "user,software,hardware"),
        ("FAILED", [event("n1", at(5), "nccl_timeout", **{"class": "UNKNOWN"})], "user,software,hardware"),
        ("FAILED", [event("n1", at(5), "ib", **{"class": "NETWORK"})], "hardware"),
        ("FAILED", [event("n1", at(5), "filesystem", **{"class": "FILESYSTEM"})], "software,hardware"),
        ("NODE_FAIL", [], "software,hardware"),
        ("NODE_FAIL", [xid(79, "HW")], "hardware"),
        ("NODE_FAIL", [state_event("Not responding", "down")], "software,hardware"),
        ("NODE_FAIL", [state_event("k8s: pod terminated", "down")], "software"),
        ("NODE_FAIL", [state_event("k8s: pod terminated: cordon: GPU fell off the bus")], "hardware"),
        ("NODE_FAIL", [xid(31, "APP", "info")], "user"),  # speaks of none of the state's own: the better evidence
        ("RECONFIG_FAIL", [], "software"),
        ("OUT_OF_MEMORY", [xid(79, "HW")], "user"),
        ("TIMEOUT", [xid(79, "HW")], "user,software,hardware"),  # it may have hung; its limit may be too short
        ("PREEMPTED", [], None),
        ("REQUEUED", [], None),
        ("NEW_IN_SLURM_30", [], "user,software,hardware"),
    ],
)
def test_a_symptom_lists_every_domain_that_evidence_leaves(state: str, seen: list[Row], domains: str | None) -> None:
    assert judged(state, *seen)["domains"] == domains


@pytest.mark.parametrize(
    ("seen", "kind", "cause"),
    [
        ([xid(45, "CONSEQUENCE", "critical")], "user", "failed"),  # never a cause by itself
        ([xid(45, "CONSEQUENCE", "critical", minutes=0), xid(48, "HW", minutes=-2)], "infrastructure", "xid"),
        ([xid(31, "APP", "info")], "user", "failed"),
        ([xid(92, "WARN", "warning")], "user", "failed"),
        ([event("n1", at(5, minutes=-8), "ecc"), state_event("health: XID 48")], "infrastructure", "ecc"),
        ([event("n1", at(5, minutes=4), "ecc"), xid(79, "HW", "warning")], "infrastructure", "ecc"),
        ([event("n1", at(5, minutes=-3), "ib"), event("n1", at(5, minutes=2), "ecc")], "infrastructure", "ecc"),
    ],
)
def test_severity_precedes_nearness_and_causes_precede_effects(seen: list[Row], kind: str, cause: str) -> None:
    for order in (seen, seen[::-1]):
        result = judged("FAILED", *order)
        assert (result["class"], result["cause"]) == (kind, cause)


def test_events_list_what_the_cause_leaves_out_worst_first() -> None:
    result = judged(
        "FAILED",
        xid(45, "CONSEQUENCE", "info", minutes=0),
        state_event("health: XID 79", minutes=1, node="n2"),
        xid(79, "HW", minutes=-3, node="n2"),
        event("n1", at(5), "throttle", severity="warning", code="thermal"),
        xid(79, "HW", minutes=-4, node="n2"),
    )
    assert result["events"] == "xid 79 (n2 gpu 2), node_drained (n2), throttle thermal (n1), xid 45 (n1 gpu 2)"
    assert (result["cause"], result["node"]) == ("xid", "n2")


def test_the_list_of_events_is_bounded_and_counts_the_rest() -> None:
    burst = [event(f"n{n}", at(5), "ib", code="down") for n in range(20)]
    result = judged("FAILED", *burst, nodes={"7": [f"n{n}" for n in range(20)]})
    assert (
        result["events"]
        == "ib down (n0), ib down (n1), ib down (n10), ib down (n11), ib down (n12), ib down (n13) and 14 more"
    )


def test_pod_that_went_differs_from_a_node_that_went() -> None:
    """On Kubernetes NODE_FAIL is also the loss of a slurmd pod."""
    for state in ("drained", "down"):
        result = judged("NODE_FAIL", state_event("k8s: pod terminated", state))
        assert (result["class"], result["cause"], result["node"]) == ("infrastructure", "pod_terminated", "n1")
    assert judged("NODE_FAIL", state_event("Not responding", "down"))["cause"] == "node_fail"


def test_node_that_left_service_is_blamed_for_a_node_failure() -> None:
    elsewhere, down = xid(94, "HW", minutes=-1, node="n1"), state_event("Not responding", "down", minutes=1, node="n2")
    for order in ([elsewhere, down], [down, elsewhere]):
        assert judged("NODE_FAIL", *order)["node"] == "n2"
    assert judged("FAILED", elsewhere, down)["node"] == "n1"


def test_drain_for_an_application_xid_leaves_the_user_only() -> None:
    assert state_event("health: XID 31 on GPU 3")["class"] == "APP"
    assert state_event("health: XID 79 on GPU 3")["class"] == "HW"
    assert state_event("Kill task failed")["class"] == "UNKNOWN"
    assert state_event("Prolog error")["class"] == "NODE"


@pytest.mark.parametrize("reason", ["Preempted", "preempted in favour of 12"])
def test_requeue_that_reports_preemption_is_a_preemption(reason: str) -> None:
    result = judged("REQUEUED", reason=reason, exit_code=1)
    assert (result["class"], result["cause"]) == ("preemption", "preempted")
    assert judged("REQUEUED", reason="JobHeldUser")["class"] == "planned"


def test_evidence_is_where_the_class_was_read() -> None:
    assert judged("FAILED", xid(79, "HW"))["evidence"] == "telemetry"
    assert judged("FAILED", state_event("health: XID 79"))["evidence"] == "accounting"
    assert judged("NODE_FAIL", xid(79, "HW"))["evidence"] == "accounting"
    assert judged("FAILED")["evidence"] == "accounting"


@pytest.mark.parametrize(("before", "after", "kind"), [(60, 60, "user"), (300, 60, "infrastructure"), (0, 0, "user")])
def test_the_window_is_a_parameter(before: float, after: float, kind: str) -> None:
    ran = attempts(attempt("7", 0, 1, 5, "FAILED"))
    seen = events(event("n1", at(5, minutes=-2)))
    result = interruptions(ran, joined(ran), on_nodes(ran, JOB), seen, before_s=before, after_s=after)
    assert result["class"].to_list() == [kind]


NODE_BACK: Row = {
    "cluster": "c",
    "node": "n1",
    "started_at": at(4, minutes=54),
    "ended_at": at(4, minutes=59, seconds=50),
    "state": "down",
    "reason": "Not responding",
}


@pytest.mark.parametrize(
    ("back", "started", "expected"),
    [
        (at(4, minutes=59, seconds=50), 5, ("user", "failed", None)),  # back ten seconds before the attempt began
        (at(5), 5, ("user", "failed", None)),  # back in the moment in which it began
        (at(5, seconds=1), 5, ("infrastructure", "node_down", "n1")),
        (None, 5, ("infrastructure", "node_down", "n1")),
        (at(4, minutes=59, seconds=50), 4.5, ("infrastructure", "node_down", "n1")),  # it began while the attempt ran
    ],
)
def test_node_back_before_an_attempt_began_did_not_end_it(
    back: datetime | None, started: float, expected: tuple[str, str, str | None]
) -> None:
    """5.1: the window is clipped to the attempt's life; the attempt ends at 5:02."""
    ran = attempts(attempt("7", 0, started, 5 + 2 / 60, "FAILED", gpus=16))
    seen = critical_states(rows(frames.NODE_STATES, {**NODE_BACK, "ended_at": back}), critical_reasons=".")
    result = interruptions(ran, joined(ran), on_nodes(ran, JOB), seen)
    assert result.select("class", "cause", "node").rows() == [expected]
    assert (result["events"].item() is None) is (expected[0] == "user")


@pytest.mark.parametrize(("minutes", "kind"), [(-3, "user"), (-1, "infrastructure"), (0, "infrastructure")])
def test_an_xid_before_the_start_is_of_the_attempt_before(minutes: float, kind: str) -> None:
    ran = attempts(attempt("7", 0, 5 - 2 / 60, 5, "FAILED", gpus=16))
    result = interruptions(ran, joined(ran), on_nodes(ran, JOB), events(xid(79, "HW", minutes=minutes)))
    assert result["class"].to_list() == [kind]


@pytest.mark.parametrize(
    ("by", "minutes", "kind"),
    [
        ("1001", 1, "user"),  # however soon a node fails afterwards
        ("0", 1, "user"),  # an operator's scancel
        ("1001", 0, "infrastructure"),
        ("1001", -1, "infrastructure"),  # cancelled because it hung
        (None, 1, "infrastructure"),  # nobody is known to have cancelled it
    ],
)
def test_cancelled_by_a_person_stays_so_whatever_fails_later(by: str | None, minutes: float, kind: str) -> None:
    for seen in (xid(79, "HW", minutes=minutes), state_event("Not responding", "down", minutes=minutes)):
        result = judged("CANCELLED", seen, cancelled_by=by)
        assert (result["class"], result["evidence"] == "accounting" and result["cause"] == "cancelled") == (
            kind,
            kind == "user",
        )
        assert result["events"] is not None  # what happened stays visible
        if kind == "user":
            assert result["domains"] == "user,software,hardware"


_EVENT = st.builds(
    lambda node, second, what, severity, gpu, lasts: event(
        f"n{node}",
        at(5, seconds=second),
        what[0],
        lasts_until=None if lasts is None else at(5, seconds=second + lasts),
        **{"code": what[1], "class": what[2], "severity": severity, "gpu": gpu, "detail": None},
    ),
    st.integers(0, 3),
    st.sampled_from([-700, -600, -300, -60, 0, 60, 300, 301, 3600, 3660]),
    st.sampled_from(
        [("xid", "79", "HW"), ("xid", "31", "APP"), ("xid", "45", "CONSEQUENCE"), ("xid", "32", "UNKNOWN"),
         ("xid", "119", "DRIVER"), ("ecc", "dbe", None), ("ib", "down", "NETWORK"), ("node_down", None, "NODE"),
         ("node_drained", None, "HW"), ("pod_terminated", None, "SOFTWARE"), ("throttle", "power", "WARN")]
    ),
    st.sampled_from(["critical", "warning", "info", None]),
    st.sampled_from([None, "", "0", "7"]),
    st.sampled_from([None, None, 30, 300, 10_000]),
)  # fmt: skip
_ATTEMPT = st.tuples(
    st.sampled_from(["FAILED", "NODE_FAIL", "CANCELLED", "REQUEUED", "BOOT_FAIL"]),
    st.sampled_from([5, 5 + 1 / 60, 6]),
    st.sets(st.integers(0, 3), min_size=1),
    st.sampled_from([None, None, "n0", "n1"]),
    st.sampled_from([0, 1, 2, 60, 70]),  # minutes that it ran, but for a part of an hour
    st.sampled_from([None, "1001"]),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(_ATTEMPT, min_size=1, max_size=4), st.lists(_EVENT, max_size=14))
def test_the_diagnosis_is_what_trying_every_event_finds(
    ended: list[tuple[str, float, set[int], str | None, int, str | None]], seen: list[Row]
) -> None:
    ran = attempts(
        *(
            attempt(str(n), 0, end - ran_for / 60, end, state, failed_node=failed, cancelled_by=by)
            for n, (state, end, _, failed, ran_for, by) in enumerate(ended)
        )
    )
    held = on_nodes(ran, {str(n): [f"n{node}" for node in each[2]] for n, each in enumerate(ended)})
    reported = events(*seen)
    some = of_keys(held, attempts_for_interruptions(ran, joined(ran), reported))
    result = {row["job_id"]: row for row in interruptions(ran, joined(ran), some, reported).iter_rows(named=True)}
    for job, expected in slow_diagnosis.diagnoses(ran, held, reported).items():
        row = result[job]
        state = ended[int(job)][0]
        explained = expected["kind"] is not None and state in slow_diagnosis.EXPLAINABLE
        assert row["events"] == expected["events"]
        assert (row["class"] == "infrastructure") == (explained or state in slow_diagnosis.BY_ITSELF)
        if explained:
            assert row["cause"] == expected["kind"]
        if row["class"] != "planned":
            assert set(row["domains"].split(",")) == expected["domains"]
        failed, alone = ended[int(job)][3], ended[int(job)][2]
        if row["class"] == "infrastructure":
            only = f"n{next(iter(alone))}" if len(alone) == 1 else None
            assert row["node"] == (failed or expected["node"] or only)


def test_the_order_of_events_does_not_matter() -> None:
    seen = [xid(79, "HW", minutes=m, node=n) for m in (-3, 0, 3) for n in ("n1", "n2")]
    seen += [state_event("health: XID 79"), xid(31, "APP", "info")]
    ran = attempts(attempt("7", 0, 1, 5, "FAILED"))
    result = interruptions(ran, joined(ran), on_nodes(ran, JOB), events(*seen))
    assert interruptions(ran, joined(ran), on_nodes(ran, JOB), events(*seen[::-1])).equals(result)
