"""Runs of W&B's server: as those of the folder on disk; a key that goes nowhere else; faults that say what."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from ingest.errors import InputError, OptionError, ServerDownError
from ingest.runlog.wandb.api import WandbApi, server_of_environment
from tests.lab import loggers
from tests.support.command import contents, trackside
from tests.support.logs.wandb_server import KEY, WandbServer, run_of, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BEGIN = 1_790_841_600.0
"""2026-10-01 08:00 UTC."""


def rows(first: int, last: int, at: float) -> list[dict[str, Any]]:
    return [
        {"_step": number, "_timestamp": at + 2.0 * (number - first + 1), "train/loss": 2.5, "train/global_step": number}
        for number in range(first, last + 1)
    ]


CONFIG = {"seq_len": 4096, "global_batch": 8, "n_gpus": 8}


def metadata(restart: str, started: str) -> dict[str, Any]:
    slurm = {"job_id": "29", "restart_count": restart, "cluster_name": "alpha"}
    return {"host": "n1", "startedAt": started, "gpu": "NVIDIA H100", "slurm": slurm}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WandbServer]:
    runs = {
        "first": run_of(
            "first", rows(1, 1500, BEGIN), CONFIG, state="crashed", metadata=metadata("0", "2026-10-01T07:59:00Z")
        ),
        "second": run_of(
            "second", rows(1401, 1600, BEGIN + 4000), CONFIG, metadata=metadata("1", "2026-10-01T09:05:00Z")
        ),
        "sweep": run_of("sweep", [], {"lr": 1}, state="running"),
    }
    with serving(WandbServer(runs)) as made:
        monkeypatch.setenv("WANDB_BASE_URL", made.url)
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        yield made


def load(warehouse: Path, *names: str) -> str:
    done = trackside("ingest", "runlog", *names, "--warehouse", str(warehouse))
    assert KEY not in done.stdout + done.stderr
    return done.stderr


@pytest.mark.slow
def test_a_project_is_its_runs_joined_to_attempts(server: WandbServer, tmp_path: Path) -> None:
    load(tmp_path, "wandb:team/llama")
    stored = contents(tmp_path)
    steps = stored["steps"].sort("ts")
    assert steps["step"].to_list() == [*range(1, 1501), *range(1401, 1601)]
    assert set(steps["tokens"]) == {8 * 4096.0}
    assert set(steps["duration_s"].drop_nulls()) == {2.0}
    sessions = stored["run_sessions"].filter(wandb_run_id="first", cluster="alpha")
    assert sessions.select("job_id", "restart_count").rows() == [("29", 0)]
    assert f"{sessions['started_at'][0]:%H:%M}" == "07:59"
    jobs = stored["run_sessions"].filter(pl.col("job_id").is_not_null())
    assert sorted(jobs.select("run_id", "restart_count").rows()) == [("first", 0), ("second", 1)]
    assert {key for _, key in server.keys} == {KEY}


@pytest.mark.slow
def test_a_run_read_again_is_the_same(server: WandbServer, tmp_path: Path) -> None:
    load(tmp_path, "wandb:team/llama/first")
    once = contents(tmp_path)["steps"]
    server.runs["first"]["history"] += rows(1501, 1510, BEGIN + 3000)
    server.runs["first"]["historyKeys"] = {"lastStep": 1510}
    load(tmp_path, "wandb:team/llama/first")
    assert contents(tmp_path)["steps"].height == once.height + 10


def test_rows_with_other_values_of_one_step_are_one_step(server: WandbServer, tmp_path: Path) -> None:
    """Also where the run is read before the second row of its last step is there."""
    halves = [
        {"_step": 2 * step + late, "_timestamp": BEGIN + 2 * step + late / 50, "trainer/global_step": step, name: value}
        for step in range(1, 6)
        for late, name, value in ((0, "tokens_per_step", 64), (1, "loss", 2.5))
    ]
    for known in (halves[:-1], halves):
        server.runs["second"] = run_of("second", known, {})
        load(tmp_path, "wandb:team/llama/second")
    steps = contents(tmp_path)["steps"].sort("step")
    assert steps.select("step", "tokens", "loss").rows() == [(step, 64, 2.5) for step in range(1, 6)]


def test_a_busy_server_gets_the_request_again(server: WandbServer) -> None:
    server.failures = [(429, {"Retry-After": "3"}), (502, {})]
    pauses: list[float] = []
    assert WandbApi(server.url, KEY, pauses.append).runs("team", "llama") == ["first", "second", "sweep"]
    assert pauses[0] >= 3
    assert len(pauses) == 2


def test_faults_say_what_and_never_the_key(server: WandbServer, tmp_path: Path) -> None:
    assert "there is no such project" in load(tmp_path, "wandb:team/none")
    assert "there is no such run" in load(tmp_path, "wandb:team/llama/none")
    assert "write wandb:ENTITY/PROJECT" in load(tmp_path, "wandb:team")
    wrong = replace(WandbApi(server.url, KEY), _key="w" * 40)
    with pytest.raises(ServerDownError, match=r"refuses the key in \$WANDB_API_KEY \(401\)"):
        wrong.runs("team", "llama")
    assert "w" * 40 not in repr(wrong)


def test_a_redirect_does_not_get_the_key(server: WandbServer) -> None:
    with serving(WandbServer({})) as other:
        server.failures = [(302, {"Location": f"{other.url}/graphql"})]
        with pytest.raises(ServerDownError, match="answered 302"):
            WandbApi(server.url, KEY).runs("team", "llama")
        assert other.keys == []


@pytest.mark.slow
def test_damaged_answers_are_refused_or_passed_over(server: WandbServer, tmp_path: Path) -> None:
    server.runs["first"] |= {"config": "{", "historyKeys": "[]", "metadata": [1]}
    load(tmp_path, "wandb:team/llama/first")
    server.runs["first"]["historyKeys"] = {"lastStep": 1500}
    server.runs["first"]["history"][5] |= {"_timestamp": "soon", "train/loss": {"a": 1}}
    load(tmp_path, "wandb:team/llama/first")
    assert contents(tmp_path)["steps"].height >= 1499


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({}, r"server, set \$WANDB_BASE_URL and \$WANDB_API_KEY:"),
        ({"WANDB_BASE_URL": "https://w", "WANDB_API_KEY": ""}, r"server, set \$WANDB_API_KEY:"),
        ({"WANDB_BASE_URL": "http://w", "WANDB_API_KEY": "k"}, "sent unencrypted"),
        ({"WANDB_BASE_URL": "https://me:pass@w", "WANDB_API_KEY": "k"}, "not shown"),
        ({"WANDB_BASE_URL": "ftp://w", "WANDB_API_KEY": "k"}, "not shown"),
    ],
)
def test_what_is_lacking_is_named(environment: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        server_of_environment(environment)


def test_a_project_that_is_none_is_an_input_error(server: WandbServer) -> None:
    with pytest.raises(InputError, match="wandb:other/llama: there is no such project"):
        WandbApi(server.url, KEY).runs("other", "llama")


PACKAGE = """
import wandb
api = wandb.Api(timeout=20)
run = api.run("team/llama/first")
print(run.id, run.state, run.config["seq_len"], run.lastHistoryStep, *[one.id for one in api.runs("team/llama")])
"""


@pytest.mark.slow
def test_wandbs_own_package_takes_it_for_its_server(server: WandbServer, tmp_path: Path) -> None:
    loggers.need_loggers()
    done = subprocess.run(
        [str(loggers.PYTHON), "-c", PACKAGE],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "HOME": str(tmp_path), "WANDB_SILENT": "true"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["first", "crashed", "4096", "1500", "first", "second", "sweep"]
    assert {key for path, key in server.keys if path == "/graphql"} == {KEY}
