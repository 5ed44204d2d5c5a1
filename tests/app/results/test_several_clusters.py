"""Several clusters in one warehouse: a run is found wherever it is, and what one cluster lacks no other lacks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from app.claims.watched import WatchedClaims
from app.cli import main as cli
from app.compute import pipeline as computing
from app.config.settings import Config
from app.explorer.application import Explorer, page
from app.results.serving.cache import AnswerCache
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from queries.warehouse import open_reader, open_writer
from tests.support.kubernetes.objects import as_list, pod
from tests.support.warehouses import NOW

if TYPE_CHECKING:
    from pathlib import Path

G8 = "cpu=1,gres/gpu=8,node=1"
HEADER = "JobIDRaw|DBIndex|Cluster|Submit|Eligible|Start|End|State|NodeList|AllocTRES|User|Account|JobName"
WEST = f"1|1|west|1790812800|1790812800|1790812900|1790900000|COMPLETED|n1|{G8}|ann|llm|a"
EAST = f"""\
1|1|east|1790812800|1790812800|1790812900|1790850000|FAILED|n1|{G8}|bob|llm|a
2|2|east|1792812800|1792812800|1792812900|1792850000|NODE_FAIL|n1|{G8}|bob|llm|b
2|3|east|1792850000|1792850000|1792850100|1792860000|COMPLETED|n1|{G8}|bob|llm|b"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("several")
    for name, rows in (("west", WEST), ("east", EAST)):
        (folder / f"{name}.txt").write_text(f"{HEADER}\n{rows}\n")
    with open_writer(folder / "w", verb="test", now=NOW) as writer:
        for name in ("west", "east"):
            files = [str(folder / f"{name}.txt")]
            reports = ingesting.ingest_files(
                writer, Config(), files, ingesting.Options(), now=NOW, progress=lambda *_: None
            )
            assert first_error(reports) is None
        computing.compute(writer, Config(), now=NOW)
    return folder / "w"


def run(capsys: pytest.CaptureFixture[str], root: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit status, output and messages of a command line."""
    capsys.readouterr()
    status = cli.main([*arguments, "--warehouse", str(root)])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def shown(capsys: pytest.CaptureFixture[str], root: Path, *arguments: str) -> list[dict[str, Any]]:
    status, out, err = run(capsys, root, "show", *arguments, "--format", "json")
    assert status == 0, err
    rows: list[dict[str, Any]] = json.loads(out)
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("what", ["runs", "ettr", "restarts", "interruptions", "checkpoints"])
def test_a_run_is_resolved_in_the_cluster_that_has_it(
    what: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = shown(capsys, root, what, "--run", "2")
    assert result
    assert result == shown(capsys, root, what, "--run", "2", "--cluster", "east")


def test_a_job_id_that_two_clusters_have_is_shown_of_both(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {row["cluster"] for row in shown(capsys, root, "runs", "--run", "1")} == {"west", "east"}
    assert {row["cluster"] for row in shown(capsys, root, "runs", "--run", "1", "--cluster", "west")} == {"west"}


def test_unknown_run_is_refused_with_the_names_of_all_clusters(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, root, "show", "runs", "--run", "77")
    assert status == 2
    assert "none of the clusters east, west has a run or a job '77'" in err


def test_cluster_without_data_is_reported_and_the_others_shown(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    period = ("--since", "2026-10-20")
    status, out, err = run(capsys, root, "show", "goodput", *period, "--format", "json")
    assert (status, {row["cluster"] for row in json.loads(out)}) == (0, {"east"})
    assert "west: there are no data" in err
    status, _, err = run(capsys, root, "verify", *period)  # a verdict on all would lack one
    assert status == 2
    assert "west: there are no data" in err


def test_a_run_is_corrected_where_it_is(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    who = ("--author", "me", "--reason", "a cable", "--no-compute")
    printed = ("--class", "user", "--cause", "oom")
    status, out, err = run(capsys, root, "adjudicate", "cause", "--run", "2", "--attempt", "1", *printed, *who)
    assert status == 0, err
    assert "job 2 of 2026-10-24" in out
    status, _, err = run(capsys, root, "adjudicate", "cause", "--job", "1", *printed, *who)
    assert status == 2
    assert "Name it: --cluster NAME" in err


@pytest.mark.slow
def test_the_page_of_a_run_finds_its_cluster(root: Path) -> None:
    explorer = Explorer(AnswerCache(root), WatchedClaims(None))

    def titled(search: str) -> str:
        return page(explorer, "/run", search)[3]

    def contents(search: str) -> str:
        return str(page(explorer, "/run", search)[2])

    assert "east" in titled("?id=2")
    assert "2-20261024T033320Z" in contents("?id=2")
    assert "no run and no job" in contents("?id=2&cluster=west")


# compute ---------------------------------------------------------------------------------------------------------


def test_compute_that_computes_nothing_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "nodes.txt").write_text("NodeName=n1 Gres=gpu:h100:8 State=IDLE BootTime=1790812800 CPUTot=8\n")
    status, _, err = run(capsys, tmp_path / "w", "ingest", "slurm", str(tmp_path / "nodes.txt"), "--cluster", "c")
    assert status == 0, err
    status, _, err = run(capsys, tmp_path / "w", "compute")
    assert status == 47
    assert "nothing was computed: no accounting is loaded" in err
    (tmp_path / "pods.json").write_bytes(as_list(pod("work", node=None)))
    assert run(capsys, tmp_path / "w", "ingest", "kubernetes", str(tmp_path / "pods.json"), "--cluster", "c")[0] == 0
    status, _, err = run(capsys, tmp_path / "w", "compute")
    assert (status, "Read it again: trackside ingest kubernetes" in err) == (47, True)
    assert "needs a job that has started: trackside ingest slurm" in err


def test_compute_of_a_period_without_data_keeps_the_results(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = stored(root)
    status, _, err = run(capsys, root, "compute", "--since", "2031-01-01")
    assert status == 47
    assert "nothing changed" in err
    assert stored(root) == before


def stored(root: Path) -> list[dict[str, Any]]:
    with open_reader(root) as reader:
        return reader.table("cluster_metrics").sort("cluster", "metric", "window_from", "subject").to_dicts()


@pytest.mark.slow
def test_a_mistake_in_the_claims_file_stops_no_number(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claims, config = root.parent / "claims.toml", root.parent / "trackside.toml"
    claims.write_text('[[claim]]\nid = "x"\nmetric = "occupancy"\ntarget = 101\n')
    config.write_text(f'claims = "{claims}"\n')
    assert run(capsys, root, "compute")[0] == 0
    before = stored(root)
    status, _, err = run(capsys, root, "compute", "--config", str(config))
    assert status == 0, err
    assert "no verdict is stored" in err
    assert f"{claims} has " in err
    assert "occupancy is a ratio between 0 and 1, not 101" in err
    assert stored(root) == before
    with open_reader(root) as reader:
        assert reader.table("verdicts").is_empty()
