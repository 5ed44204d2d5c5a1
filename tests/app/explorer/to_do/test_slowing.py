"""What Today says of stragglers and anomalies: by cost, with links, and nothing where there is nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import polars as pl
from dash import html

from app.explorer.questions import window_of
from app.explorer.to_do import slowing
from app.explorer.to_do.slowing import ANOMALIES, Slowing, SlowSessions, slowed
from queries.warehouse import open_reader, open_writer
from tests.app.explorer.test_pages import components, words
from tests.app.explorer.test_today import END, VIEW

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    import pytest

    from app.explorer.page import PageData
    from app.window import Window
    from queries.reader import Reader

SESSION = {"run_id": "pretrain", "session": "7", "cause": "node", "nodes": ["n5"], "lost_gpu_s": 3600.0 * 149,
           "reason": "its slowest rank computes 30.9 % longer than the middle one"}  # fmt: skip
RUN = {"run_id": "sft", "slow_gpu_s": 3600.0 * 12}
NODE = {"node": "n1", "what": "SM clock of GPU 5 -11.9 % against its past", "since": END, "until": END, "runs": "sft"}


def ledger(slow_gpu_s: dict[str, float]) -> pl.DataFrame:
    return pl.DataFrame({"subject": list(slow_gpu_s), "straggling_gpu_seconds": list(slow_gpu_s.values())})


def test_nothing_that_slows_is_no_panel() -> None:
    made = slowed(Slowing([], [], []), VIEW)
    assert isinstance(made, html.Div)
    assert getattr(made, "children", None) is None


def test_what_slows_comes_with_its_cost_and_its_link() -> None:
    made = slowed(Slowing([SESSION], [NODE], [RUN]), VIEW)
    output = words(made)
    assert "pretrain: its ranks waited (slow node n5)" in output
    assert "149.0 GPU-h: its slowest rank computes 30.9 % longer" in output
    assert "sft: slow steps" in output
    assert "12.00 GPU-h in steps" in output
    assert "SM clock of GPU 5 -11.9 % against its past" in output
    hrefs = [each.href for each in components(made) if hasattr(each, "href")]
    period = "since=2026-10-01"
    assert hrefs == [
        f"/anomalies?{period}",
        f"/node?{period}&node=n5",
        f"/run?{period}&id=sft",
        f"/node?{period}&node=n1",
    ]


def test_several_slow_nodes_lead_to_the_run() -> None:
    made = slowed(Slowing([SESSION | {"nodes": ["n5", "n6"]}], [], []), VIEW)
    assert "/run?since=2026-10-01&id=pretrain" in [getattr(each, "href", "") for each in components(made)]
    assert "scontrol" not in words(made)


def test_slow_steps_below_a_gpu_hour_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ledger({"much": 7200.0, "most": 9000.0, "little": 60.0, "none": 0.0, "(no attempt)": 9e9})
    monkeypatch.setattr(slowing, "ledger_sums", lambda *_: rows)
    found = slowing.slow_runs(cast("Reader", None), replace(VIEW.window, until=END))
    assert [row["run_id"] for row in found] == ["most", "much"]


def test_what_slows_stands_by_cost_whatever_its_kind() -> None:
    made = words(slowed(Slowing([SESSION], [], [RUN | {"slow_gpu_s": 3600.0 * 200}]), VIEW))
    assert made.index("sft: slow steps") < made.index("pretrain: its ranks waited")


def test_a_node_is_quoted_for_the_shell() -> None:
    made = slowed(Slowing([SESSION | {"nodes": ["n5;reboot"]}], [], []), VIEW)
    assert "scontrol show node 'n5;reboot'" in words(made)


SINCE = window_of(ANOMALIES, VIEW).since


def data_of(sessions: list[str], runs: list[str]) -> PageData:
    """Sessions and runs that were slow, and no telemetry."""
    answers = {
        "slow_sessions": SlowSessions([SESSION | {"run_id": name} for name in sessions], SINCE),
        "slow_runs": [RUN | {"run_id": name} for name in runs],
        "answered": SimpleNamespace(answer=SimpleNamespace(rows=pl.DataFrame(schema={"anomalous": pl.Boolean}))),
    }
    asked = SimpleNamespace(ask=lambda function, *_: answers[function.__name__])
    return cast("PageData", SimpleNamespace(answers=asked, configured=SimpleNamespace(now=lambda: None)))


def test_runs_whose_ranks_say_why_make_room_for_others() -> None:
    found = slowing.slowing(data_of(["a", "b", "c", "d"], ["a", "b", "d", "e", "f"]), VIEW)
    assert [row["run_id"] for row in found.sessions] == ["a", "b", "c"]
    assert [row["run_id"] for row in found.runs] == ["e", "f"]


def test_how_an_address_splits_questions_is_not_for_today() -> None:
    view = replace(VIEW, params={"by-anomalies": "no such thing", "user": "alice"})
    assert slowing.slowing(data_of([], ["e"]), view).runs[0]["run_id"] == "e"


def test_of_many_rank_times_only_the_last_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million an hour: a week is halved until it has no more than four million."""
    window = window_of(ANOMALIES, VIEW)
    read = []

    def query(_: str, *, since: datetime, until: datetime, **__: object) -> pl.DataFrame:
        return pl.DataFrame({"n_rows": [int(1e6 * (until - since) / timedelta(hours=1))]})

    def times(_: object, within: Window) -> list[pl.DataFrame]:
        read.append(within.until - within.since)
        return []

    monkeypatch.setattr(slowing, "rank_times", times)
    found = slowing.slow_sessions(cast("Reader", SimpleNamespace(query=query)), window)
    assert found == SlowSessions([], window.until - timedelta(hours=2.625))
    assert read == [timedelta(hours=2.625)]
    note = words(slowed(Slowing([SESSION], [], [], found.since), VIEW))
    assert f"those since {VIEW.moment(found.since)} UTC." in note


def test_a_session_stands_under_the_run_of_its_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A log may name its run otherwise: it would stand twice, and its link would lead nowhere."""
    job, window = {"cluster": "c", "scheduler": "slurm", "job_id": "7"}, window_of(ANOMALIES, VIEW)
    window, began = replace(window, cluster="c"), window.until - timedelta(hours=1)
    times = job | dict.fromkeys(("rank", "first_step", "steps", "compute_s"), 1) | {
        "run_id": "log-7", "session": "7.0", "node": "n1", "started_at": began, "ended_at": began,
    }  # fmt: skip
    runs = [("earlier", -3), ("pretrain", -1), ("later", 1)]
    joined = [
        job | {"run_id": run, "submitted_at": began + timedelta(minutes=at), "attempt_no": 1, "joined_by": "single"}
        for run, at in runs
    ]
    with open_writer(tmp_path / "w", verb="test", now=END) as writer, writer.transaction():
        writer.append("raw.rank_steps", pl.DataFrame([times, times | {"run_id": "alone", "job_id": None}]))
        writer.append("run_attempts", pl.DataFrame(joined))
    found = [SESSION | {"run_id": run, "session": "7.0"} for run in ("log-7", "alone")]
    monkeypatch.setattr(slowing, "rank_times", lambda *_: [])
    monkeypatch.setattr(slowing, "session_stragglers", lambda _: pl.DataFrame(found))
    with open_reader(tmp_path / "w") as reader:
        rows = slowing.slow_sessions(reader, window).rows
    assert [row["run_id"] for row in rows] == ["pretrain", "alone"]
