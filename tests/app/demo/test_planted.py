"""What the simulator planted between Slurm and Kubernetes, and into the life of nodes, is found as it was."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.demo.planted import compared_agreement, compared_stragglers, compared_work
from app.demo.simulate import KUBERNETES_FILES, SLURM_FILES, Settings, simulate
from app.demo.simulate.plan import BEGIN, CLUSTER
from app.results.nodes.lifecycle import lifecycle
from app.results.steps.stragglers import rank_times
from app.window import Window
from metrics.agreement.agreement import SYNC_INTERVALS
from metrics.stragglers.sessions import session_stragglers
from queries.warehouse import open_reader
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = Settings(gpus=256, days=21, failures_per_1000_node_days=25)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return loaded(tmp_path_factory.mktemp("planted"), SETTINGS)


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster that is large enough for Slurm to leave nodes empty, on which Kubernetes has work."""
    return loaded(tmp_path_factory.mktemp("beside"), Settings(gpus=512, days=7))


def loaded(made: Path, settings: Settings) -> Path:
    simulate(settings, made)
    where = ("--warehouse", str(made / "w"))
    sources = made / "sources"
    slurm, objects = ([str(sources / name) for name in names] for names in (SLURM_FILES, KUBERNETES_FILES))
    for argv in (("slurm", *slurm), ("kubernetes", *objects, "--cluster", CLUSTER)):
        done = trackside("ingest", *argv, *where)
        assert done.returncode == 0, done.stderr
    assert trackside("compute", *where).returncode == 0
    return made


def truth(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "truth.json").read_text("utf-8"))
    return content


def test_planted_disagreements_are_found_to_the_second(folder: Path) -> None:
    planted = truth(folder)["disagreements"]
    with open_reader(folder / "w") as reader:
        rows = reader.table("sync_intervals")
    assert {each["kind"] for each in planted} == {"not_ready", "out_of_slurm", "cordoned", "terminating"}
    assert compared_agreement(rows, planted).endswith(f": {len(planted)} of {len(planted)} found, to the second")
    kinds = set(rows["kind"])
    assert kinds == {"not_ready", "out_of_slurm", "cordoned", "terminating"}
    followed = rows.filter(pl.col("kind") == "not_ready")
    assert set(followed["wrong"]) == {"slurm"}


@pytest.mark.slow
def test_each_verdict_on_stragglers_is_given_as_planted(folder: Path) -> None:
    planted = truth(folder)["stragglers_of_runs"]
    times = [str(path) for path in sorted((folder / "sources/ranks").iterdir())]
    done = trackside("ingest", "ranks", *times, "--warehouse", str(folder / "w"))
    assert done.returncode == 0, done.stderr
    with open_reader(folder / "w") as reader:
        covered = reader.query("computed", cluster=CLUSTER).row(0, named=True)
        rows = session_stragglers(rank_times(reader, Window(CLUSTER, covered["since"], covered["until"])))
    assert [each["cause"] for each in planted] == ["node", "network", "job_shape", "launch", "unknown"]
    assert compared_stragglers(rows, planted).endswith(": 5 of 5 verdicts as planted")
    blamed = rows.filter(pl.col("nodes").list.len() > 0)
    assert blamed["nodes"].to_list() == [[planted[0]["node"]]]
    wrong = [{**planted[0], "node": "gpu-999"}, *planted[1:]]
    assert "4 of 5 verdicts as planted" in compared_stragglers(rows, wrong)


def test_a_disagreement_that_was_not_found_is_not_counted() -> None:
    nothing = pl.DataFrame(schema=SYNC_INTERVALS)
    planted = [{"node": "gpu-1", "kind": "cordoned", "since": 1, "until": None}]
    assert "0 of 1 found" in compared_agreement(nothing, planted)


def test_outages_that_are_over_last_as_long_as_the_simulators(folder: Path) -> None:
    until = datetime.fromtimestamp(SETTINGS.end, UTC)
    with open_reader(folder / "w") as reader:
        found = lifecycle(reader, Window(CLUSTER, datetime.fromtimestamp(BEGIN, UTC), until)).outages
    over = found.filter(~pl.col("planned") & pl.col("back_at").is_not_null())
    expected = truth(folder)["outages"]
    assert over.height == pytest.approx(expected["n"], abs=2)  # those that touch maintenance are one outage with it
    assert over["out_s"].median() == pytest.approx(expected["median_s"], rel=0.05)


@pytest.mark.slow
def test_objects_of_hosts_change_no_number_of_the_ledger(folder: Path, tmp_path: Path) -> None:
    slurm = [str(folder / "sources" / name) for name in SLURM_FILES]
    where = ("--warehouse", str(tmp_path / "w"))
    assert trackside("ingest", "slurm", *slurm, *where).returncode == 0
    assert trackside("compute", *where).returncode == 0
    sums = "SELECT state, category, cause, SUM(gpu_seconds) AS s FROM gpu_time GROUP BY ALL ORDER BY ALL"
    with open_reader(folder / "w") as reader, open_reader(tmp_path / "w") as alone:
        assert reader.frame(sums).equals(alone.frame(sums))
        assert reader.table("nodes").height == alone.table("nodes").height


def test_work_of_kubernetes_is_found_as_it_was_planted(beside: Path) -> None:
    planted = truth(beside)["kubernetes"]
    with open_reader(beside / "w") as reader:
        tables = [reader.table(name) for name in ("attempts", "evictions", "outlived_jobs")]
        whole = reader.frame(
            "SELECT (SELECT sum(gpu_seconds) FROM gpu_time) a, (SELECT sum(gpu_seconds) FROM capacity) b"
        )
        twice = reader.frame("SELECT count(*) n FROM attempts WHERE name LIKE 'bridged-%'").item()
    attempts, evictions, outlived = tables
    lines = list(compared_work(attempts, evictions, outlived, planted))
    n_attempts, n_evictions = len(planted["attempts"]), len(planted["evictions"])
    assert f"{n_attempts} of {n_attempts} attempts and {n_evictions} of {n_evictions} evictions found" in lines[0]
    assert lines[0].endswith("; 0 attempts named besides")
    assert lines[1] == "Pods of slurm-bridge: 3, each of them once, as Slurm's job; 1 of 1 that outlived theirs found"
    assert twice == len(planted["outlived"]), "of the placeholders' pods only one that lived on is an attempt"
    assert whole["a"].item() == whole["b"].item()


@pytest.mark.slow
def test_work_that_was_not_found_is_not_counted(beside: Path) -> None:
    planted = truth(beside)["kubernetes"]
    with open_reader(beside / "w") as reader:
        attempts, evictions, outlived = map(reader.table, ("attempts", "evictions", "outlived_jobs"))
    lines = list(
        compared_work(attempts.filter(pl.col("name") != "server"), evictions.clear(), outlived.clear(), planted)
    )
    assert "7 of 8 attempts and 0 of 2 evictions found" in lines[0]
    assert "0 of 1 that outlived theirs found" in lines[1]


def test_small_cluster_has_no_work_of_kubernetes(folder: Path) -> None:
    planted = truth(folder)["kubernetes"]
    assert planted == {"attempts": [], "evictions": [], "placeholders": [], "outlived": []}
