"""Class, cause, node and incident of attempts that did not complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from metrics import frames
from metrics.failures.diagnosis import EVENTS
from metrics.failures.interruptions import attempts_for_interruptions, critical_states, interruptions
from tests.metrics.tables import Row, at, attempt, attempts, event, events, joined, of_keys, on_nodes, rows

if TYPE_CHECKING:
    from datetime import datetime

JOB = {"7": ["n1", "n2"]}
XID_79 = {"code": "79", "gpu": "3", "class": "HW"}


def judged(ran: pl.DataFrame, *seen: Row, nodes: dict[str, list[str]] | None = None) -> pl.DataFrame:
    held = of_keys(on_nodes(ran, nodes or JOB), attempts_for_interruptions(ran, joined(ran), events(*seen)))
    return interruptions(ran, joined(ran), held, events(*seen))


def test_an_interruption_by_hand() -> None:
    ran = attempts(attempt("7", 0, 1, 5, "FAILED", gpus=16, exit_code=3, suspended_s=60.0))
    fell_off = event("n2", at(5, minutes=-2), detail="XID 79", **XID_79)
    result = judged(ran, fell_off).row(0, named=True)
    assert result == {
        "cluster": "c",
        "scheduler": "slurm",
        "job_id": "7",
        "submitted_at": at(0),
        "run_id": "7-20260302T000000Z",
        "attempt_no": 1,
        "ended_at": at(5),
        "state": "FAILED",
        "class": "infrastructure",
        "cause": "xid",
        "node": "n2",
        "n_nodes": 2,
        "milli_gpus": 16_000,
        "runtime_s": 4 * 3600.0 - 60,
        "incident": "n2@20260302T050000Z",
        "evidence": "telemetry",
        "detail": "XID 79 on n2 at 2026-03-02T04:58:00Z",
        "domains": "hardware",
        "events": "xid 79 (n2 gpu 3)",
        "made_room_for": None,
        "made_room_for_attempt": None,
        "second_order": None,
        "adjudication": None,
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "exit_code", "alone", "with_evidence"),
    [
        # state, exit code, class and cause by itself, class and cause with an XID on one of its nodes
        ("COMPLETED", 0, None, None),
        ("RESIZING", 0, None, None),
        ("FAILED", 3, ("user", "failed"), ("infrastructure", "xid")),
        ("FAILED", 0, ("user", "failed"), ("infrastructure", "xid")),  # a signal: 0:11
        ("CANCELLED", 0, ("user", "cancelled"), ("infrastructure", "xid")),
        ("REQUEUED", 0, ("planned", "requeued"), ("infrastructure", "xid")),  # by hand
        ("REQUEUED", 42, ("user", "requeue_exit"), ("infrastructure", "xid")),  # RequeueExit
        ("OUT_OF_MEMORY", 0, ("user", "out_of_memory"), ("user", "out_of_memory")),
        ("TIMEOUT", 0, ("timeout", "timeout"), ("timeout", "timeout")),
        ("PREEMPTED", 0, ("preemption", "preempted"), ("preemption", "preempted")),
        ("NODE_FAIL", 0, ("infrastructure", "node_fail"), ("infrastructure", "node_fail")),
        ("BOOT_FAIL", 0, ("infrastructure", "boot_fail"), ("infrastructure", "boot_fail")),
        ("DEADLINE", 1, ("timeout", "deadline"), ("timeout", "deadline")),
        ("NEW_IN_SLURM_30", 1, ("user", "new_in_slurm_30"), ("user", "new_in_slurm_30")),
    ],
)
def test_class_and_cause_of_each_state(
    state: str, exit_code: int, alone: tuple[str, str] | None, with_evidence: tuple[str, str] | None
) -> None:
    ran = attempts(attempt("7", 0, 1, 5, state, exit_code=exit_code))
    assert judged(ran).select("class", "cause").rows() == ([] if alone is None else [alone])
    result = judged(ran, event("n1", at(5)))
    assert result.select("class", "cause").rows() == ([] if with_evidence is None else [with_evidence])


def test_class_of_an_unknown_state_is_assumed() -> None:
    ran = attempts(attempt("7", 0, 1, 5, "NEW_IN_SLURM_30"), attempt("8", 0, 1, 5, "FAILED"))
    assert judged(ran).sort("job_id")["evidence"].to_list() == ["assumed", "accounting"]


@pytest.mark.parametrize(
    "never_ran",
    [
        attempt("7", 0, None, 2, "CANCELLED"),  # while pending: its AllocTRES is filled all the same
        attempt("7", 0, None, 2, "DEADLINE", exit_code=1),
        attempt("7", 0, 0, 0, "FAILED", exit_code=1, n_nodes=0),  # refused at submit: "None assigned"
        attempt("7", 0, None, None, "PENDING"),
        attempt("7", 0, 1, None, "RUNNING"),
        attempt("7", 0, 1, None, "SUSPENDED"),
    ],
)
def test_what_never_ran_or_still_runs_is_no_interruption(never_ran: Row) -> None:
    assert judged(attempts(never_ran), event("n1", at(2))).is_empty()


def test_failed_start_on_nodes_is_an_interruption_of_length_zero() -> None:
    ran = attempts(attempt("7", 0, 1, 1, "FAILED", exit_code=0))  # FAILED 0:53, output file not writable
    assert judged(ran).select("class", "cause", "runtime_s").rows() == [("user", "failed", 0.0)]


@pytest.mark.parametrize(
    ("when", "explains"),
    [
        (at(5, minutes=-10, seconds=-1), False),
        (at(5, minutes=-10), True),
        (at(5), True),
        (at(5, minutes=5), True),
        (at(5, minutes=5, seconds=1), False),
    ],
)
def test_event_explains_an_end_10_minutes_after_to_5_before_it(when: datetime, *, explains: bool) -> None:
    ran = attempts(attempt("7", 0, 1, 5, "FAILED"))
    assert judged(ran, event("n1", when))["class"].to_list() == ["infrastructure" if explains else "user"]


@pytest.mark.parametrize("elsewhere", [event("n9", at(5)), event("n1", at(5), cluster="d")])
def test_event_on_a_node_not_held_explains_nothing(elsewhere: Row) -> None:
    ran = attempts(attempt("7", 0, 1, 5, "FAILED"))
    assert judged(ran, elsewhere).select("class", "node").rows() == [("user", None)]


def test_nearest_of_several_events_is_blamed_in_any_order() -> None:
    ran = attempts(attempt("7", 0, 1, 5, "FAILED"))
    seen = [event("n1", at(5, minutes=-9), "ecc"), event("n2", at(5, minutes=-1), "xid")]
    for ordered in (seen, seen[::-1]):
        assert judged(ran, *ordered).select("node", "cause").rows() == [("n2", "xid")]


def test_events_of_one_second_give_one_answer_in_any_order() -> None:
    ran = attempts(attempt("7", 0, 1, 5, "FAILED"))
    seen = [event("n1", at(5), "ecc"), event("n1", at(5), "node_down"), event("n1", at(5), "xid")]
    result = {judged(ran, *ordered)["cause"].item() for ordered in (seen, seen[::-1], [seen[1], seen[0], seen[2]])}
    assert len(result) == 1


def test_a_node_fail_gets_the_node_that_went_down() -> None:
    ran = attempts(attempt("7", 0, 1, 5, "NODE_FAIL", gpus=16))
    assert judged(ran, event("n2", at(5), "node_down")).select("cause", "node").rows() == [("node_fail", "n2")]
    assert judged(ran).select("cause", "node").rows() == [("node_fail", None)]


def test_node_named_by_accounting_is_blamed_before_any_event() -> None:
    ran = attempts(attempt("7", 0, 1, 5, "NODE_FAIL", gpus=16, failed_node="n1"))
    result = judged(ran, event("n2", at(5))).select("node", "detail", "incident").rows()
    assert result == [("n1", "state NODE_FAIL, failed node n1", "n1@20260302T050000Z")]
    seen = judged(ran, event("n2", at(5)), event("n1", at(4.9), "node_down")).select("node", "detail").rows()
    assert seen == [("n1", "node_down seen on n1 at 2026-03-02T04:54:00Z")]


def test_failed_node_does_not_make_a_user_failure_infrastructure() -> None:
    ran = attempts(attempt("7", 0, 1, 5, "TIMEOUT", gpus=16, failed_node="n1"))
    assert judged(ran).select("class", "node").rows() == [("timeout", None)]


def test_only_node_of_a_component_is_not_blamed_if_others_held() -> None:
    het: dict[str, Any] = {"het_job_id": "11"}
    ran = attempts(attempt("11", 0, 1, 5, "NODE_FAIL", **het), attempt("12", 0, 1, 5, "NODE_FAIL", **het))
    apart = judged(ran, nodes={"11": ["n1"], "12": ["n2"]})
    assert apart["node"].to_list() == [None, None]
    together = judged(ran, nodes={"11": ["n1"], "12": ["n1"]})
    assert together["node"].to_list() == ["n1", "n1"]
    named = judged(
        ran.with_columns(failed_node=pl.when(pl.col("job_id") == "12").then(pl.lit("n2"))),
        nodes={"11": ["n1"], "12": ["n2"]},
    )
    assert named.sort("job_id")["node"].to_list() == [None, "n2"]


def test_end_at_an_unknown_time_is_no_interruption() -> None:
    assert judged(attempts(attempt("7", 0, 1, 5, "RUNAWAY")), event("n1", at(5))).is_empty()


CRITICAL = "(?i)prolog error|xid|ecc"


def node_state(state: str, reason: str | None, *, planned: bool = False, hours: float = 5) -> Row:
    return {"cluster": "c", "node": "n1", "started_at": at(hours), "state": state, "reason": reason, "planned": planned}


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        (node_state("down", "Not responding"), "node_down"),
        (node_state("down", None), "node_down"),
        (node_state("drained", "XID 79 on GPU 3"), "node_drained"),
        (node_state("drained", "Prolog error"), "prolog"),
        (node_state("drained", "alice wants it"), None),  # by hand, for no fault
        (node_state("drained", None), None),
        (node_state("maintenance", "XID 79"), None),
        (node_state("unknown", "cold-start"), None),
        (node_state("down", "planned power work", planned=True), None),
        (node_state("drained", "maintenance: ECC swap", planned=True), None),
    ],
)
def test_which_node_states_are_critical(state: Row, cause: str | None) -> None:
    result = critical_states(rows(frames.NODE_STATES, state), critical_reasons=CRITICAL)
    assert result["kind"].to_list() == ([] if cause is None else [cause])
    assert dict(result.schema) == EVENTS


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (node_state("drained", "Prolog error"), ("infrastructure", "prolog", "n1")),
        (node_state("drained", "by hand"), ("planned", "requeued", None)),
        (node_state("down", "rack work", planned=True), ("planned", "requeued", None)),
    ],
)
def test_a_requeue_is_judged_by_the_state_of_its_node(state: Row, expected: tuple[str, str, str | None]) -> None:
    ran = attempts(attempt("7", 4, 5, 5, "REQUEUED"))  # a failed prolog: Start = End
    seen = critical_states(rows(frames.NODE_STATES, state), critical_reasons=CRITICAL)
    result = interruptions(ran, joined(ran), on_nodes(ran, JOB), seen)
    assert result.select("class", "cause", "node").rows() == [expected]


def failing(*minutes: float, node: str = "n1") -> pl.DataFrame:
    """Jobs that fail on one node after so many minutes, each with a critical event at its end."""
    ran = attempts(*(attempt(f"{node}-{n}", 0, 0, minute / 60, "NODE_FAIL") for n, minute in enumerate(minutes)))
    nodes = {f"{node}-{n}": [node] for n in range(len(minutes))}
    return judged(ran, *(event(node, at(minutes=minute)) for minute in minutes), nodes=nodes)


@pytest.mark.parametrize(
    ("minutes", "incidents"),
    [
        ([60, 60], [0, 0]),
        ([60, 75], [0, 0]),  # within 15 minutes
        ([60, 75.1], [0, 1]),
        ([60, 74, 88, 102], [0, 0, 0, 0]),  # chained: each within 15 minutes of the one before
        ([60, 74, 90], [0, 0, 1]),
    ],
)
def test_failures_of_one_node_within_15_minutes_are_one_incident(minutes: list[float], incidents: list[int]) -> None:
    named = failing(*minutes)["incident"].to_list()
    seen: list[str] = list(dict.fromkeys(named))
    assert [seen.index(name) for name in named] == incidents


def test_failures_of_two_nodes_are_two_incidents() -> None:
    assert not set(failing(60, node="n1")["incident"]) & set(failing(60, node="n2")["incident"])


def test_incident_without_a_node_to_blame_is_the_attempts_own() -> None:
    ran = attempts(attempt("7", 0, 1, 5, "NODE_FAIL"), attempt("8", 0, 1, 5, "NODE_FAIL"))
    result = judged(ran, nodes={"7": ["n1", "n2"], "8": ["n1", "n3"]})
    assert result["incident"].n_unique() == 2
    assert result["incident"].null_count() == 0


def test_only_infrastructure_interruptions_are_incidents() -> None:
    ran = attempts(attempt("7", 0, 1, 5, "TIMEOUT"), attempt("8", 0, 1, 5, "OUT_OF_MEMORY"))
    result = judged(ran, event("n1", at(5)), nodes={"7": ["n1"], "8": ["n1"]})
    assert result["incident"].to_list() == [None, None]


def test_the_order_of_attempts_and_nodes_does_not_matter() -> None:
    ran = attempts(*(attempt(str(n), n, n + 0.1, n + 0.9, "FAILED") for n in range(6)))
    held = on_nodes(ran, {str(n): ["n1", "n2"] for n in range(6)})
    seen = events(event("n2", at(2.9)), event("n1", at(4.85)))
    result = interruptions(ran, joined(ran), held, seen)
    assert interruptions(ran.reverse(), joined(ran).reverse(), held.reverse(), seen.reverse()).equals(result)
    assert result["class"].to_list() == ["user", "user", "infrastructure", "user", "infrastructure", "user"]
