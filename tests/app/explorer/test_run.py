"""The page of a run that was logged: what is of the period, and what of its whole life."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.claims.watched import WatchedClaims
from app.explorer import filters
from app.explorer.application import Explorer, page
from app.explorer.filters import ClusterState, Situation
from app.explorer.one_run import ends as run_ends
from app.explorer.one_run.parts import slow_words
from app.results.serving.cache import AnswerCache
from metrics.failures.classes import CLASSES
from tests.app.compute.test_evidence import HOUR, SACCT, START, log
from tests.app.explorer.test_pages import components, words
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

FIRST = "since=2026-09-21T14:13:20Z&until=2026-09-21T15:13:20Z"
SECOND = "since=2026-09-21T15:13:20Z&until=2026-09-21T16:13:20Z"
LATER = "since=2026-09-21T16:06:00Z&until=2026-09-21T16:13:20Z"


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Explorer:
    """Run llama: an hour that was lost when its node died, and an hour in which it did the same steps again."""
    folder = tmp_path_factory.mktemp("logged")
    end = START + HOUR
    again = SACCT.splitlines(keepends=True)[1].replace(
        f"{START}|{START}|{START}|{end}", f"{end}|{end}|{end}|{end + HOUR}"
    )
    (folder / "sacct.txt").write_text(SACCT.replace("COMPLETED", "NODE_FAIL", 1) + again)
    second = log(shift=HOUR).replace('"restart_count": 0', '"restart_count": 1')
    (folder / "run.jsonl").write_text(log() + second)
    files: dict[str, Path] = {"slurm": folder / "sacct.txt", "runlog": folder / "run.jsonl"}
    for arguments in (*(("ingest", kind, str(file)) for kind, file in files.items()), ("compute",)):
        done = trackside(*arguments, "--warehouse", str(folder / "w"))
        assert done.returncode == 0, done.stderr
    return Explorer(AnswerCache(folder / "w"), WatchedClaims(None))


def card(explorer: Explorer, period: str, title: str) -> str:
    """The text of a card of the page."""
    contents = page(explorer, "/run", f"?id=llama&{period}")[2]
    cards = [words(each) for each in components(contents) if getattr(each, "className", "") == "card still"]
    return next(text for text in cards if text.startswith(title))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("period", "lost", "logged", "hours"),
    [("", 300, 600, "16.00"), (FIRST, 300, 300, "8.00"), (SECOND, 0, 300, "8.00")],
)
def test_steps_lost_are_those_of_the_period_as_all_cards_are(
    explorer: Explorer, period: str, lost: int, logged: int, hours: str
) -> None:
    assert card(explorer, period, "Steps lost").startswith(f"Steps lost {lost} of {logged} logged in this period")
    assert card(explorer, period, "GPU-hours").startswith(f"GPU-hours {hours} allocated in this period")


def test_period_without_steps_has_an_unknown_number_of_lost_ones(explorer: Explorer) -> None:
    assert card(explorer, LATER, "Steps lost") == "Steps lost cannot tell no step was logged in this period"


def steps(durations: list[float]) -> pl.DataFrame:
    at = [datetime(2026, 10, 1, tzinfo=UTC) + timedelta(seconds=number) for number in range(len(durations))]
    return pl.DataFrame({"ts": at, "step": range(len(durations)), "duration_s": durations, "kept": True})


def test_a_slow_block_of_steps_is_put_into_words() -> None:
    told = slow_words(steps([2.0] * 400 + [5.0] * 50 + [2.0] * 150))
    assert told.startswith(
        "In 1 of 12 blocks of 50 steps the median step took 1.2 times as long as usual (2 s) or more."
    )
    assert "steps 400 to 449, 2.5 times as long, from 2026-10-01 00:06 UTC on" in told
    assert (
        slow_words(steps([2.0] * 400)) == "In no block of 50 steps did the median step take 1.2 times as long as usual."
    )
    assert "Too few steps" in slow_words(steps([2.0] * 100))
    assert "In no block" in slow_words(steps(([2.0] * 49 + [90.0]) * 8))


@pytest.mark.slow
def test_what_is_outside_the_period_is_labelled_so(explorer: Explorer) -> None:
    output = words(page(explorer, "/run", f"?id=llama&{FIRST}")[2])
    assert "16.00 GPU-hours over all its attempts, within this period or not." in output
    assert "600 steps over all its attempts" in output


def test_two_runs_have_the_mfu_of_their_own_pages(explorer: Explorer) -> None:
    value, convention = re.fullmatch(r"MFU (.+ %) (\w+), .*", card(explorer, "", "MFU")).groups()  # type: ignore[union-attr]  # it matches
    compared = words(page(explorer, "/compare", "?a=llama&b=llama")[2])
    assert f"MFU {value} ({convention}) {value} ({convention})" in compared


def test_causes_come_by_how_often_they_ended_it_with_the_node() -> None:
    ends = [("infrastructure", "ecc", "n1"), ("infrastructure", "ecc", "n2"), ("infrastructure", "ecc", "n2"),
            ("user", "out_of_memory", None), ("timeout", "timeout", None)]  # fmt: skip
    rows = pl.DataFrame(ends, schema=["class", "cause", "node"], orient="row")
    found = run_ends.reasons(rows)
    assert [(each["cause"], each["n"], each["node"], each["of_node"]) for each in found] == [
        ("ecc", 3, "n2", 2),
        ("timeout", 1, None, None),
        ("out_of_memory", 1, None, None),
    ]
    assert "request more" in run_ends.to_do(found[2])
    assert {*run_ends.TO_DO} == {*CLASSES}


def test_last_ends_of_attempts_come_first_eight_at_most() -> None:
    begun = datetime(2026, 10, 1, tzinfo=UTC)
    state = ClusterState("c", begun, begun + timedelta(days=31), begun, 0, ())
    view = filters.resolve(Situation(("c",), (state,), 1), {})
    rows = [
        {"attempt_no": each, "ended_at": begun + timedelta(hours=each), "class": "infrastructure", "cause": "ecc",
         "node": "n1", "detail": None, "evidence": "telemetry", "state": "NODE_FAIL"}
        for each in range(1, 31)
    ]  # fmt: skip
    output = words(run_ends.ends(pl.DataFrame(rows), view))
    assert re.findall(r"Attempt (\d+)", output) == [str(each) for each in range(30, 22, -1)]
    assert "The last 8 of 30" in output


@pytest.mark.slow
def test_a_run_says_why_it_restarted_and_what_to_do(explorer: Explorer) -> None:
    output = words(page(explorer, "/run", "?id=llama")[2])
    assert "Why it restarted, and what to do" in output
    assert "1 x infrastructure: node fail" in output
    assert run_ends.TO_DO["infrastructure"] in output
    assert f"{run_ends.WHY} {run_ends.UNINTERRUPTED}" in words(page(explorer, "/run", f"?id=llama&{LATER}")[2])


def test_an_address_cannot_say_that_it_means_several(explorer: Explorer) -> None:
    shown = words(page(explorer, "/run", "?id=llama&several=yes", at_once=False)[2])
    assert shown == words(page(explorer, "/run", "?id=llama", at_once=False)[2])


def test_a_runs_numbers_lead_to_their_definitions_and_command(explorer: Explorer) -> None:
    contents = page(explorer, "/run", "?id=llama")[2]
    linked = [each for each in components(contents) if "/definitions#" in getattr(each, "href", "")]
    links = {each.children: each.href for each in linked if isinstance(each.children, str)}
    assert links["ETTR"] == "/definitions#ettr"
    defined = {getattr(each, "id", None) for each in components(page(explorer, "/definitions", "")[2])}
    assert {each.partition("#")[2] for each in links.values()} <= defined
    assert "trackside run llama --cluster" in words(contents)
