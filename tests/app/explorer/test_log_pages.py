"""Runs that only their logs know: their list and page, without accounting and beside it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from app.claims.watched import WatchedClaims
from app.explorer import zooming
from app.explorer.application import Explorer, page
from app.explorer.one_run import logged
from app.results.serving.cache import AnswerCache
from app.run_page import log_only
from queries.warehouse import open_reader
from tests.app.compute.test_evidence import HOUR, MODEL, SACCT, log
from tests.app.explorer.browser.test_axe import MODES, findings
from tests.app.explorer.conftest import open_whole, served
from tests.app.explorer.test_correcting import OPERATOR, VIEWER, seen_by
from tests.app.explorer.test_pages import table, words
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

    from dash.development.base_component import Component

    from queries.warehouse import Reader
    from tests.lab.browser import Browser


def run(name: str, *, shift: int = 0) -> str:
    """The log of a run of two processes, the second of which executes all steps again."""
    again = log(shift=shift + HOUR).replace('"restart_count": 0', '"restart_count": 1')
    return (log(shift=shift) + again).replace('"llama"', f'"{name}"').replace('"job_id": "7"', f'"job_id": "{name}"')


def loaded(folder: Path, logs: dict[str, str]) -> Path:
    """A warehouse with these logs."""
    for name, text in logs.items():
        (folder / f"{name}.jsonl").write_text(text)
    done = trackside(
        "ingest", "runlog", *(str(folder / f"{name}.jsonl") for name in logs), "--warehouse", str(folder / "w")
    )
    assert done.returncode == 0, done.stderr
    return folder / "w"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, and no accounting."""
    return loaded(tmp_path_factory.mktemp("alone"), {"one": run("one"), "two": run("two", shift=10 * HOUR)})


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that accounting knows, and one that only its log does."""
    folder = tmp_path_factory.mktemp("beside")
    warehouse = loaded(folder, {"llama": log(), "solo": run("solo", shift=20 * HOUR)})
    (folder / "sacct.txt").write_text(SACCT)
    for verb in (("ingest", "slurm", str(folder / "sacct.txt")), ("compute",)):
        done = trackside(*verb, "--warehouse", str(warehouse))
        assert done.returncode == 0, done.stderr
    return warehouse


def explorer_of(warehouse: Path) -> Explorer:
    return Explorer(AnswerCache(warehouse), WatchedClaims(None))


def contents(warehouse: Path, path: str, search: str = "") -> Component:
    return page(explorer_of(warehouse), path, search)[2]


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/", "/runs"])
def test_list_has_the_numbers_of_trackside_run(alone: Path, path: str) -> None:
    rows = table(contents(alone, path), "logged")
    assert [row["run_id"] for row in rows] == ["two", "one"]  # the newest first
    done = trackside("run", "one", "--format", "json", "--warehouse", str(alone))
    told: dict[str, Any] = json.loads(done.stdout)
    row = rows[1]
    assert row["goodput"] == pytest.approx(told["goodput_job"]["value"])
    assert row["ettr"] == pytest.approx(told["ettr"]["ettr"])
    assert (row["steps"], row["lost"]) == (told["steps"]["executed"], told["steps"]["lost"])
    assert row["lost"] > 0
    assert (row["processes"], row["href"]) == (2, f"/run?id=one&cluster={told['cluster']}")


def test_list_comes_in_pages(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logged, "ROWS", 1)
    first = contents(alone, "/runs")
    assert [row["run_id"] for row in table(first, "logged")] == ["two"]
    assert "1 to 1 of 2" in words(first)
    assert [row["run_id"] for row in table(contents(alone, "/runs", "?logs=1"), "logged")] == ["one"]


def test_list_past_its_end_begins_again(alone: Path) -> None:
    assert len(table(contents(alone, "/runs", "?logs=1000"), "logged")) == 2


def test_list_says_what_is_no_number_of_runs(alone: Path) -> None:
    assert "'x' is no number of runs" in words(contents(alone, "/runs", "?logs=x"))


def test_list_names_clusters_where_there_are_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = run("two", shift=10 * HOUR).replace('"cluster": "c"', '"cluster": "d"')
    warehouse = loaded(tmp_path, {"one": run("one"), "two": elsewhere})
    monkeypatch.setattr(logged, "ROWS", 1)
    assert "'headerName': 'Cluster'" in str(contents(warehouse, "/runs"))


@pytest.mark.slow
@pytest.mark.parametrize("kept", [1, 2, 300])
def test_page_of_a_log_without_model_facts_is_shown(tmp_path: Path, kept: int) -> None:
    """No model, GPUs or tokens; only its first line, or one step."""
    lines = [json.loads(line) for line in log().splitlines()[:kept]]
    bare = [{name: value for name, value in line.items() if name not in {*MODEL, "world", "tokens"}} for line in lines]
    warehouse = loaded(tmp_path, {"bare": "".join(json.dumps(line) + "\n" for line in bare)})
    told = words(contents(warehouse, "/run", "?id=llama"))
    assert "fault of Trackside" not in told
    for heading in ("LOG ONLY", "cannot tell", "Processes", "What the log lacks"):
        assert heading in told


def test_page_of_a_run_needs_no_accounting(alone: Path) -> None:
    told = words(contents(alone, "/run", "?id=one"))
    for heading in ("Job goodput", "Steps lost", "Timeline", "Processes", "How often it should save", "Started again"):
        assert heading in told
    assert "Queue, failures, their nodes" in told  # what a log does not tell, and what would
    assert "fault of Trackside" not in told


def test_other_pages_lead_to_the_list(alone: Path) -> None:
    told = str(contents(alone, "/gpu-time"))
    assert "No accounting is loaded" in told
    assert "href='/runs'" in told


@pytest.mark.slow
def test_runs_beside_accounting_are_linked_and_shown(beside: Path) -> None:
    runs = contents(beside, "/runs")
    assert "1 more run is known by its log alone" in words(runs)
    assert "solo" not in {row["run_id"] for row in table(runs, "runs")}
    assert [row["run_id"] for row in table(contents(beside, "/runs", "?logs=0"), "logged")] == ["solo"]
    assert "LOG ONLY" in words(contents(beside, "/run", "?id=solo"))
    assert "LOG ONLY" not in words(contents(beside, "/run", "?id=llama"))


@pytest.mark.slow
def test_viewers_see_no_runs_of_logs(alone: Path, beside: Path) -> None:
    with seen_by(VIEWER):
        assert "No accounting is loaded" in words(contents(alone, "/runs"))
        assert "LOG ONLY" not in words(contents(beside, "/run", "?id=solo"))
        assert "known by its log alone" not in words(contents(beside, "/runs"))


def test_steps_of_a_log_come_where_one_zooms_in(alone: Path) -> None:
    with seen_by(OPERATOR):
        whole = zooming.steps_of(explorer_of(alone), "?id=one", {"xaxis.autorange": True})
    assert sum(len(each.x) for each in whole.data) > 0


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_a_run_is_opened_from_the_list_by_a_click(alone: Path, chromium: Browser) -> None:
    with served(alone) as site:
        for address in ("/", "/run?id=one"):
            open_whole(chromium, site.url + address)
            assert findings(chromium) == []
            width, height, *_ = MODES["phone"]
            chromium.resize(width, height)
            assert chromium.run("return document.documentElement.scrollWidth") == width
            chromium.resize(1280, 900)
        chromium.open(site.url, until=".ag-row .link")
        chromium.click(".ag-row .link", holding="id=one")
        chromium.until(lambda _: chromium.text("h1") == "one", "the run did not come")
        assert chromium.console() == []


def test_a_page_reads_its_log_once(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    def counted(reader: Reader, cluster: str, run_id: str) -> log_only.LoggedRun:
        reads.append(run_id)
        return read(reader, cluster, run_id)

    read = log_only.read
    monkeypatch.setattr(log_only, "read", counted)
    with open_reader(alone) as reader:
        found = reader.query("logged_runs", most=1, skipped=0).row(0, named=True)
        contents, data = logged.page_of(reader, found["cluster"], found["run_id"], "{}")
    assert reads == [found["run_id"]]
    assert contents.steps is not None
    assert contents.steps.executed == data.steps.height > 0
