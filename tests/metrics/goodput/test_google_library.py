"""Job goodput beside Google's own calculator, run on the same logs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metrics.goodput.google_library import CHECKPOINT_RESTORE, CHECKPOINT_SAVE, DATA_LOADING_ASYNC, library_goodput
from metrics.goodput.job import JobGoodput, job_goodput
from tests.metrics.goodput import google_library

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

FIVE = [5.0, 8.0, 11.0, 14.0, 17.0]
_names = itertools.count()


class Log(NamedTuple):
    """A job's log as both sides take it."""

    job_starts: list[float]
    steps: list[tuple[int, float]]
    job_end: float | None
    now: float
    events: list[tuple[str, float, float]] = []  # noqa: RUF012 - never changed
    saves: list[tuple[int, float]] = []  # noqa: RUF012 - never changed
    restores: list[tuple[int, float]] = []  # noqa: RUF012 - never changed


@pytest.fixture(scope="module")
def goodput() -> ModuleType:
    return google_library.library()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def by_library(goodput: ModuleType, folder: Path, log: Log) -> dict[str, Any]:
    entries = [(when, 1, google_library.job_start(when)) for when in log.job_starts]
    entries += [(when, 2, google_library.step(number, when)) for number, when in log.steps]
    for kind, begin, end in log.events:
        (begun, first), (ended, last) = google_library.span(kind, begin, end)
        entries += [(begun, 1, first), (ended, 0, last)]
    ordered = [entry for _, _, entry in sorted(entries, key=lambda each: each[:2])]
    ordered += [google_library.checkpoint("save", *save) for save in log.saves]
    ordered += [google_library.checkpoint("restore", *restore) for restore in log.restores]
    ordered += [google_library.job_end(log.job_end)] if log.job_end is not None else []
    name = f"job{next(_names)}"
    return google_library.told(goodput, ordered, now=log.now, folder=folder, name=name)


def by_us(log: Log) -> JobGoodput:
    return library_goodput(
        log.job_starts,
        [number for number, _ in log.steps],
        [when for _, when in log.steps],
        job_end=log.job_end,
        now=log.now,
        events=log.events,
        saves=log.saves,
        restores=log.restores,
    )


def account(log: Log) -> JobGoodput:
    steps = [number for number, _ in log.steps], [when for _, when in log.steps]
    return job_goodput(log.job_starts, *steps, job_end=log.job_end, now=log.now)


G1 = Log([0], list(enumerate(FIVE)), 20, 20)
G2 = Log([0], list(enumerate([5.0, 13, 16, 19, 22])), 25, 25)
G3 = Log([0, 25], [*enumerate(FIVE), (0, 30), (1, 33), (2, 36)], None, 38)
CHECKPOINTED = Log([0, 25], [*enumerate(FIVE), (2, 30), (3, 33), (4, 36)], 39, 40)


@pytest.mark.parametrize(
    ("log", "golden"),
    [
        (G1, JobGoodput(20, 15, {"other": 5}, 4, 0)),
        (G2, JobGoodput(25, 15, {"program_startup": 5, "other": 5}, 4, 0)),
        (G3, JobGoodput(38, 6, {"infrastructure_recovery_from_disruption": 8, "other": 24}, 1, 1)),
    ],
)
def test_golden_logs_give_the_golden_numbers_on_all_three_sides(
    goodput: ModuleType, folder: Path, log: Log, golden: JobGoodput
) -> None:
    theirs = by_library(goodput, folder, log)
    assert golden.goodput is not None
    assert theirs["percent"] == pytest.approx(100 * golden.goodput)
    assert theirs["buckets"] == pytest.approx(golden.badput_s)
    assert theirs["disruptions"] == golden.disruptions
    assert theirs["highest"] == golden.max_step
    assert by_us(log) == account(log) == golden


def same(log: Log, theirs: dict[str, Any]) -> None:
    ours = by_us(log)
    assert f"{(ours.goodput or 0) * 100:.4f}" == f"{theirs['percent']:.4f}"
    assert ours.productive_s == pytest.approx(theirs["productive_s"], abs=1e-4)
    assert ours.disruptions == theirs["disruptions"]
    assert (ours.max_step or 0) == theirs["highest"]
    assert {name: seconds for name, seconds in ours.badput_s.items() if seconds > 1e-4} == pytest.approx(
        {name: seconds for name, seconds in theirs["buckets"].items() if seconds > 1e-4}, abs=1e-4
    )


def test_a_restart_from_a_checkpoint_gives_the_librarys_figures(goodput: ModuleType, folder: Path) -> None:
    theirs = by_library(goodput, folder, CHECKPOINTED)
    same(CHECKPOINTED, theirs)
    assert theirs["percent"] == pytest.approx(100 * (6 + 9) / 39)
    assert account(CHECKPOINTED).productive_s == theirs["productive_s"]


def test_saves_restores_and_events_are_booked_as_by_the_library(goodput: ModuleType, folder: Path) -> None:
    events = [("init", 0.0, 2.0), ("compile", 2.0, 3.0), ("data", 3.0, 4.0), ("data", 12.0, 12.5), ("eval", 9.0, 10.0)]
    log = CHECKPOINTED._replace(events=events, saves=[(1, 1.0), (3, 0.5), (3, 1.5)], restores=[(1, 2.0)])
    theirs = by_library(goodput, folder, log)
    same(log, theirs)
    ours = by_us(log).badput_s
    assert (ours[CHECKPOINT_SAVE], ours[CHECKPOINT_RESTORE], ours["eval"]) == (2.0, 2.0, 1.0)
    assert DATA_LOADING_ASYNC not in ours  # the last loading before a disruption is booked again by the library


@st.composite
def logs(draw: st.DrawFn, *, far_back: bool = True) -> Log:
    """A job that steps, skips, restarts, goes back and stops. Times are quarters of a second: exact in binary."""
    time, number = draw(st.integers(0, 5)) / 4, draw(st.integers(0, 2))
    starts, safe = [time], number
    steps: list[tuple[int, float]] = []
    for _ in range(draw(st.integers(0, 14))):
        time += draw(st.integers(1, 24)) / 4
        kinds = ["step", "step", "step", "again", "restart", *(["skip", "far back"] if far_back else [])]
        what = draw(st.sampled_from(kinds))
        if what == "restart":
            starts.append(time)
            continue
        if what == "again":  # from a checkpoint of this segment on
            safe = number = draw(st.integers(safe, max(safe, number))) if steps else number
        else:
            number += {"step": 1, "skip": 2, "far back": -draw(st.integers(0, 4))}[what] if steps else 0
        number = max(number, 0)
        safe = min(safe, number)
        steps.append((number, time))
    now = time + draw(st.integers(1, 20)) / 4
    return Log(starts, steps, draw(st.sampled_from([now, None])), now)


@st.composite
def logs_with_events(draw: st.DrawFn) -> Log:
    log = draw(logs())
    events = []
    for kind in ("init", "compile", "data", "eval", "custom"):
        at = draw(st.integers(0, 40)) / 4  # an event begins after the one of its kind before has ended
        for _ in range(draw(st.integers(0, 2))):
            length = draw(st.integers(1, 12)) / 4
            events.append((kind, at + 0.125, at + 0.125 + length))
            at += length + draw(st.integers(1, 40)) / 4
    last = log.job_starts[0]
    own = [(kind, begin + last, end + last) for kind, begin, end in events if end + last < log.now]
    some = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8).map(lambda quarters: quarters / 4)), max_size=3)
    return log._replace(events=own, saves=draw(some), restores=draw(some))


many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def check(goodput: ModuleType, folder: Path, log: Log) -> None:
    if any("the library refuses" in warning for warning in by_us(log).warnings):
        with pytest.raises(ValueError, match="Productive training time is invalid"):
            by_library(goodput, folder, log)
    else:
        same(log, by_library(goodput, folder, log))


@many
@given(log=logs())
def test_any_log_of_steps_gives_the_librarys_figures(goodput: ModuleType, folder: Path, log: Log) -> None:
    check(goodput, folder, log)


@many
@given(log=logs_with_events())
def test_any_log_with_events_gives_the_librarys_figures(goodput: ModuleType, folder: Path, log: Log) -> None:
    check(goodput, folder, log)


@many
@given(log=logs(far_back=False))
def test_account_equals_the_librarys_for_restarts_in_the_segment(goodput: ModuleType, folder: Path, log: Log) -> None:
    """Every restart is from a checkpoint of the same segment."""
    if not log.steps:
        return
    theirs, ours = by_library(goodput, folder, log), account(log)
    assert f"{(ours.goodput or 0) * 100:.4f}" == f"{theirs['percent']:.4f}"
    assert ours.disruptions == theirs["disruptions"]
