"""A live ingest by slurmrestd without a lab: a server that answers as each version does, and no command is run."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from app.config import settings as config
from app.errors import ConfigError
from ingest.errors import ServerDownError
from ingest.load_warnings import messages
from ingest.slurm.live.ingest import ingest_live
from ingest.slurm.load_files import Options
from queries.warehouse import open_reader, open_writer
from tests.support.slurm.answers import NEWEST, answer, job, node
from tests.support.web import Answer, Web, web

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ingest.slurm.commands.runner import Completed
    from ingest.store.report import LoadReport

NOW = datetime(2026, 9, 22, tzinfo=UTC)
SINCE = datetime(2026, 9, 20, tzinfo=UTC)


def slurmrestd(version: str, **instead: Answer) -> Any:
    """A slurmrestd of one version; `instead` answers a question otherwise, by the end of its path."""

    def say(path: str, _: dict[str, str]) -> Answer:
        what = path.rpartition("/")[2]
        if f"/v{version}/" not in path:
            return Answer(b"Unable find requested URL", 404, "text/plain")
        lists: dict[str, dict[str, Any]] = {
            "jobs": {"jobs": [job(version)]},
            "nodes": {"nodes": [node(version)]},
            "clusters": {"clusters": [{"name": "bench"}]},
            "reservations": {"reservations": []},
        }
        return instead.get(what) or Answer(answer(version, **lists[what]))

    return say


def no_command(command: list[str], environment: Mapping[str, str]) -> Completed:
    message = f"{command} was run with {len(environment)} additions"
    raise AssertionError(message)


def ingest(folder: Path, server: Web, **settings: object) -> list[LoadReport]:
    slurm = {"transport": "rest", "rest_url": server.url, "retries": 0, "pause_s": 0, **settings}
    chosen = config.parse({"slurm": slurm}, origin="x")
    with open_writer(folder / "w", verb="test", now=NOW) as writer:
        return ingest_live(
            writer,
            chosen,
            Options(since=SINCE, until=NOW),
            now=NOW,
            runner=no_command,
            progress=lambda *_: None,
            sleep=lambda _: None,
        )


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    with open_reader(folder / "w") as reader:
        return reader.table(table).to_dicts()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.0.38", "0.0.41", NEWEST])
def test_accounting_inventory_and_name_come_from_slurmrestd(tmp_path: Path, version: str) -> None:
    with web(slurmrestd(version)) as server:
        reports = ingest(tmp_path, server)
    assert [report.error for report in reports] == [None] * len(reports)
    (attempt,) = rows(tmp_path, "attempts")
    assert (attempt["cluster"], attempt["job_id"], attempt["n_gpus"]) == ("bench", "700", 16)
    assert [one["node"] for one in rows(tmp_path, "nodes")] == ["n1"]
    assert {"SLURM_VERSION", "ClusterName"} == {one["name"] for one in rows(tmp_path, "cluster_settings")}
    output = "\n".join(warning for report in reports if report.parsed for warning in messages(report.parsed.warnings))
    assert "slurmrestd has no node events" in output
    assert ("not tried on a real Slurm" in output) == (version != "0.0.38")
    loads = {load["request"]: load for load in rows(tmp_path, "loads")}
    assert {load["transport"] for load in loads.values()} == {"rest"}
    assert {request for request, load in loads.items() if load["requested_from"] is not None} == {"slurmrestd jobs"}
    accounting = loads["slurmrestd jobs"]
    assert (accounting["requested_from"], accounting["requested_until"], accounting["partial"]) == (SINCE, NOW, False)


def test_token_comes_from_the_named_environment_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITE_TOKEN", "abc.def")
    with web(slurmrestd(NEWEST)) as server:
        ingest(tmp_path, server, rest_user="alice", rest_token_env="SITE_TOKEN")
        heads = [headers for _, _, headers in server.questions]
    assert {(head["X-SLURM-USER-NAME"], head["X-SLURM-USER-TOKEN"]) for head in heads} == {("alice", "abc.def")}
    assert not [load for load in rows(tmp_path, "loads") if "abc.def" in json.dumps(load, default=str)]


def test_failing_source_is_reported_and_blocks_no_other(tmp_path: Path) -> None:
    down = Answer(answer(NEWEST, errors=[{"error": "Unable to contact slurm controller"}], nodes=[]), 500)
    with web(slurmrestd(NEWEST, nodes=down)) as server:
        reports = ingest(tmp_path, server)
    (error,) = [report.error for report in reports if report.error]
    assert isinstance(error, ServerDownError)
    assert "Unable to contact slurm controller" in str(error)
    assert len(rows(tmp_path, "attempts")) == 1


@pytest.mark.slow
def test_answer_with_errors_inside_loads_nothing_and_is_a_gap(tmp_path: Path) -> None:
    broken = Answer(answer(NEWEST, errors=[{"error": "Unable to connect to database"}], jobs=[job()]))
    with web(slurmrestd(NEWEST, jobs=broken)) as server:
        ingest(tmp_path, server)
    assert rows(tmp_path, "attempts") == []
    assert not [load for load in rows(tmp_path, "loads") if load["source"] == "slurm.accounting"]
    with web(slurmrestd(NEWEST)) as server:
        ingest(tmp_path, server)
    assert len(rows(tmp_path, "attempts")) == 1


@pytest.mark.parametrize(
    ("slurm", "output"),
    [
        ({"transport": "rest"}, "rest_url, the address of slurmrestd, is missing"),
        ({"transport": "rest", "rest_url": "unix:/x", "clusters": ["a", "b"]}, "one slurmrestd serves one cluster"),
        ({"transport": "sea"}, "slurm.transport"),
        ({"rest_version": "v41"}, "slurm.rest_version"),
    ],
)
def test_configuration_mistakes_are_reported(slurm: dict[str, object], output: str) -> None:
    with pytest.raises(ConfigError, match=output):
        config.parse({"slurm": slurm}, origin="x")


def test_a_wrong_address_is_not_shown_for_it_may_hold_a_password() -> None:
    with pytest.raises(ConfigError) as caught:
        config.parse({"slurm": {"rest_url": ["http://me:secret@host"]}}, origin="x")
    assert "secret" not in str(caught.value)
