"""How looks become attempts: without a cluster, from looks written by hand."""

from pathlib import Path

import pytest

from tests.lab.config import Layout, wrap_script
from tests.lab.truth import History, JobLook, ScriptStart, attempts_of, intervals_of


def looks(*states: str) -> History[JobLook]:
    """A job looked at once a second from 100 on, `state restarts nodelist gpus`; a look takes 0.2 s."""
    history: History[JobLook] = History(99.0)
    for second, line in enumerate(states):
        state, restarts, nodelist, gpus = line.split()
        look = JobLook(state, int(restarts), nodelist.strip("-"), int(gpus))
        history.add({"7": look}, 100.0 + second, 100.2 + second)
    return history


def script(at: float, restart_count: int = 0) -> dict[tuple[int, int], ScriptStart]:
    """What the script of job 7 said."""
    start = ScriptStart(7, restart_count, "n1", int(at * 1e9), ("n1", "n2"), (0, 1))
    return {(7, restart_count): start}


def test_start_and_end_are_between_two_snapshots() -> None:
    seen = looks("PENDING 0 - 0", "RUNNING 0 n[1-2] 4", "RUNNING 0 n[1-2] 4", "COMPLETING 0 n[1-2] 4", "FAILED 0 n1 4")
    [attempt] = attempts_of(7, seen.of["7"], {})
    assert (attempt.first_seen_start, attempt.last_seen) == (101.2, 102.0)
    assert attempt.start == pytest.approx(100.6)  # after 100.0, by 101.2
    assert attempt.end == pytest.approx(102.6)  # after 102.0, by 103.2
    assert attempt.uncertainty_s == pytest.approx(0.6)
    assert (attempt.end_state, attempt.nodes, attempt.gpus_per_node) == ("FAILED", ("n1", "n2"), 2)


def test_start_is_no_later_than_the_script_reports() -> None:
    seen = looks("PENDING 0 - 0", "RUNNING 0 n[1-2] 4", "RUNNING 0 n[1-2] 4")
    [attempt] = attempts_of(7, seen.of["7"], script(at=100.4))
    assert attempt.start == pytest.approx(100.2)  # after 100.0, by 100.4
    assert (attempt.end, attempt.end_state) == (None, None)


def test_suspension_and_prolog_belong_to_the_attempt() -> None:
    seen = looks("CONFIGURING 0 n1 8", "RUNNING 0 n1 8", "SUSPENDED 0 n1 8", "RUNNING 0 n1 8", "COMPLETED 0 n1 8")
    assert len(attempts_of(7, seen.of["7"], {})) == 1


def test_requeue_makes_a_second_attempt() -> None:
    seen = looks("RUNNING 0 n1 8", "COMPLETING 1 n1 8", "PENDING 1 - 0", "RUNNING 1 n2 8", "COMPLETED 1 n2 8")
    attempts = attempts_of(7, seen.of["7"], {})
    assert [(a.index, a.nodes, a.end_state) for a in attempts] == [(0, ("n1",), "PENDING"), (1, ("n2",), "COMPLETED")]


def test_smaller_node_list_makes_a_second_attempt() -> None:
    seen = looks("RUNNING 0 n[1-2] 4", "RUNNING 0 n1 2", "COMPLETED 0 n1 2")
    attempts = attempts_of(7, seen.of["7"], script(at=99.5))
    assert [(a.nodes, a.gpus, a.end_state) for a in attempts] == [
        (("n1", "n2"), 4, "RESIZING"),
        (("n1",), 2, "COMPLETED"),
    ]
    assert attempts[1].start == pytest.approx(100.6)  # not the script's, which was before


def test_job_too_short_to_observe_is_recorded_by_its_script() -> None:
    seen = looks("PENDING 0 - 0", "COMPLETED 0 n[1-2] 4")
    [attempt] = attempts_of(7, seen.of["7"], script(at=100.6))
    assert (attempt.first_seen_start, attempt.end_state) == (None, "COMPLETED")
    assert attempt.start == pytest.approx(100.3)  # after 100.0, by 100.6
    assert attempt.end == pytest.approx(100.9)  # after 100.6, by 101.2
    assert (attempt.nodes, attempt.gpus) == (("n1", "n2"), 4)


def test_node_intervals_follow_each_other() -> None:
    history: History[str] = History(9.0)
    for second, state in enumerate(["idle", "down", "down", "idle"]):
        history.add({"n1": state}, 10.0 + second, 10.0 + second)
    assert [(i.state, i.start, i.end) for i in intervals_of("n1", history.of["n1"])] == [
        ("idle", 9.5, 10.5),
        ("down", 10.5, 12.5),
        ("idle", 12.5, None),
    ]


def test_script_keeps_its_options_and_reports_before_commands() -> None:
    lines = wrap_script(
        Layout(Path("/b")), "#!/bin/sh\n#SBATCH -J mine\n\n# a word\necho hi\n#SBATCH -N9\n"
    ).splitlines()
    assert lines[0] == "#!/bin/sh"
    assert lines.index("#SBATCH --output=/b/out/%j.out") < lines.index("#SBATCH -J mine")
    assert lines[-3:] == ["bash /b/etc/attempt.sh", "echo hi", "#SBATCH -N9"]


def test_script_without_first_line_runs_in_bash() -> None:
    lines = wrap_script(Layout(Path("/b")), "sleep 1").splitlines()
    assert (lines[0], lines[-2:]) == ("#!/bin/bash", ["bash /b/etc/attempt.sh", "sleep 1"])
