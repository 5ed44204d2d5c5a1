"""The goodput log of Google's library, loaded as it is: the figures are those that the library computes from it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import scipy.stats  # noqa: F401 - Google's library imports it too, while modules are patched: what it loads is dropped

from app.compute import pipeline as computing
from app.config.settings import Config
from app.results.runs.job_goodput import job_accounts
from app.window import Window
from ingest.runlog import store as runlogs
from ingest.runlog.translation import LogRequest
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from queries.warehouse import open_reader, open_writer
from tests.app.results.runs.test_job_goodput import PROCESSES, READ, STARTS, T, sacct
from tests.metrics.goodput.google_library import job_start, library, span, step, told
from tests.support.logs.foreign_logs import read

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SHIFT = T - 1_790_000_000
"""From the second zero of the library's logs to that of the job."""


def entries() -> list[dict[str, Any]]:
    """Two processes, each killed or read within a step, with start-up and an evaluation."""
    timed: list[tuple[float, int, dict[str, Any]]] = [(at, 1, job_start(at)) for at in PROCESSES]
    timed += [(at, 2, step(number, at)) for steps in STARTS for number, at in steps]
    for kind, begin, end in (("init", 1, 2), ("compile", 2, 4), ("init", 26, 28), ("eval", 9, 10)):
        timed += [(at, 1, entry) for at, entry in span(kind, begin, end)]
    return [entry for _, _, entry in sorted(timed, key=lambda each: each[:2])]


def ours(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry at the job's time, with the name that the library's recorder adds."""
    moved = {name: value + SHIFT if name.endswith("_time") else value for name, value in entry.items()}
    return {"job_name": "r"} | moved


def exported(entries: Iterable[dict[str, Any]]) -> str:
    """As `gcloud logging read --format=json` prints it: the newest first."""
    newest_first = list(entries)[::-1]
    return json.dumps([{"insertId": str(n), "jsonPayload": one} for n, one in enumerate(newest_first)], indent=2)


def printed(entries: Iterable[dict[str, Any]]) -> str:
    """As a program prints dictionaries, between other output."""
    return "".join(f"loading\nINFO:goodput:{one!r}\n" for one in entries)


def one_a_line(entries: Iterable[dict[str, Any]]) -> str:
    """As a sink of Cloud Logging writes it."""
    return "".join(json.dumps({"jsonPayload": one, "severity": "INFO"}) + "\n" for one in entries)


def test_each_way_of_writing_entries_is_the_same_log() -> None:
    logs = [read(written(map(ours, entries()))).frames for written in (exported, printed, one_a_line)]
    assert logs[0]["steps"].height == 6
    for name in ("run_sessions", "steps", "run_events"):
        assert logs[0][name].equals(logs[1][name])
        assert logs[0][name].equals(logs[2][name])


@pytest.mark.slow
def test_figures_are_the_librarys(tmp_path: Path) -> None:
    theirs = told(library(), entries(), now=38, folder=tmp_path, name="r")
    (tmp_path / "sacct.txt").write_text(sacct())
    (tmp_path / "goodput.json").write_text(exported(map(ours, entries())))
    with open_writer(tmp_path / "w", verb="test", now=READ) as writer:
        reports = ingesting.ingest_files(
            writer, Config(), [str(tmp_path / "sacct.txt")], ingesting.Options(), now=READ, progress=lambda *_: None
        )
        logs = LogRequest({"job_id": "7", "n_gpus": 8})
        reports += runlogs.ingest_files(
            writer, [str(tmp_path / "goodput.json")], cluster="c", now=READ, progress=lambda *_: None, logs=logs
        )
        assert first_error(reports) is None
        computing.compute(writer, Config(), now=READ)
    with open_reader(tmp_path / "w") as reader:
        result = job_accounts(reader, Window("c", READ.replace(hour=15, minute=0, second=0), READ))
    [run] = result.runs.rows(named=True)
    buckets = dict(result.buckets.filter(result.buckets["bucket"] != "productive").select("bucket", "seconds").rows())
    assert 100 * run["value"] == pytest.approx(theirs["percent"])
    assert buckets == pytest.approx(theirs["buckets"])
    assert (run["run_id"], run["disruptions"], run["max_step"]) == ("r", theirs["disruptions"], 3)
