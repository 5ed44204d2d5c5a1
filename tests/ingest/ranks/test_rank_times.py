"""Rank times: what the recorder writes, what is loaded, what is refused, and what `show stragglers` makes of it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.results.steps import stragglers
from app.window import Window
from ingest.ranks.parse import parse_rank_times
from ingest.runlog.recorder import trackside_log
from metrics.stragglers.sessions import session_stragglers
from queries.warehouse import open_reader
from tests.metrics.stragglers.fleet import Fleet
from tests.support.command import contents, trackside

if TYPE_CHECKING:
    from ingest.tables import Parsed

BEGIN = 1_790_812_800
WHOLE = {
    "type": "rank_steps", "t": BEGIN, "end": BEGIN + 110, "run_id": "r", "node": "n1", "rank": 8, "step": 100,
    "steps": 50, "compute_s": 81.7,
}  # fmt: skip


def lines_of(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parsed(data: bytes, cluster_of_jobs: str = "alpha") -> Parsed:
    return parse_rank_times([data], origin="f", cluster="local", cluster_of_jobs=cluster_of_jobs)


def fleet_lines(fleet: Fleet) -> list[dict[str, Any]]:
    """A fleet as its recorders would have logged it, a job a run."""
    return [
        {
            "type": "rank_steps", "t": BEGIN + 1.2 * row["first_step"], "end": BEGIN + 1.2 * row["first_step"] + 110,
            "run_id": row["run_id"], "job_id": row["session"].replace("session-", "10"), "node": row["node"],
            "rank": row["rank"], "step": row["first_step"], "steps": row["steps"], "compute_s": row["compute_s"],
        }
        for row in fleet.rows().iter_rows(named=True)
    ]  # fmt: skip


def test_a_line_becomes_a_row_and_other_types_are_skipped() -> None:
    data = lines_of([{**WHOLE, "job_id": "29", "restart_count": 2, "wait_s": 1.5, "stage": 3}, {"type": "step"}, WHOLE])
    done = parsed(data)
    rows = done.frames["rank_steps"].to_dicts()
    assert [(row["cluster"], row["session"], row["scheduler"]) for row in rows] == [
        ("alpha", "29.2", "slurm"),
        ("local", "", "none"),
    ]
    assert (rows[0]["stage"], rows[0]["wait_s"], rows[1]["wait_s"]) == (3, 1.5, None)
    assert (done.rows_read, done.rows_loaded, done.rows_skipped) == (3, 2, 1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rank": None}, "rank"),
        ({"steps": 0}, "steps"),
        ({"compute_s": -1}, "compute_s"),
        ({"compute_s": "a lot"}, "compute_s"),
        ({"end": BEGIN - 1}, "no times"),
        ({"t": 12, "end": 13}, "no times"),
        ({"compute_s": 1e12}, "s a step"),
        ({"job_id": "29", "cluster_of_jobs": ""}, "names no cluster"),
        ({"node": ""}, "node"),
        ({"run_id": "x" * 9000}, "run_id"),
    ],
)
def test_what_cannot_be_is_refused_with_reason(change: dict[str, Any], reason: str) -> None:
    data = lines_of([{**WHOLE, **change}, WHOLE])
    done = parsed(data, change.get("cluster_of_jobs", "alpha"))
    assert (done.rows_loaded, done.rows_rejected) == (1, 1)
    assert reason in done.rejects["reason"][0]


@given(st.binary(max_size=60), st.integers(0, 400))
def test_damaged_bytes_are_accounted_for(noise: bytes, at: int) -> None:
    data = lines_of([WHOLE, {**WHOLE, "rank": 9}])
    done = parsed(data[:at] + noise + data[at:])
    assert done.rows_read == done.rows_loaded + done.rows_rejected + done.rows_skipped + done.rows_duplicate


@pytest.mark.slow
def test_twice_in_any_order_and_grown_is_once(tmp_path: Path) -> None:
    lines = fleet_lines(Fleet(nodes=16, intervals=6))
    file = tmp_path / "ranks.jsonl"

    def loaded(where: str, *states: list[dict[str, Any]]) -> Any:
        for state in states:
            file.write_bytes(lines_of(state))
            done = trackside("ingest", "ranks", str(file), "--warehouse", str(tmp_path / where))
            assert done.returncode == 0, done.stderr
        return contents(tmp_path / where)["rank_steps"].sort("rank", "started_at")

    whole = loaded("one", lines)
    shuffled = random.Random(3).sample(lines, len(lines))
    assert loaded("two", lines[:300], shuffled, lines).equals(whole)
    assert whole.height == len(lines)


def test_the_recorder_sums_up_and_trackside_reads_it(tmp_path: Path) -> None:
    for rank in (0, 1):
        with trackside_log.rank_times(tmp_path / "ranks", run_id="r", every=10, rank=rank, node="n1") as times:
            for step in range(95, 121):
                times.add(step, compute_s=0.5 + rank, wait_s=0.25)
    rows = parsed((tmp_path / "ranks.n1.jsonl").read_bytes()).frames["rank_steps"].sort("rank", "first_step").to_dicts()
    assert [(row["first_step"], row["steps"], row["compute_s"]) for row in rows[:4]] == [
        (95, 5, 2.5),
        (100, 10, 5.0),
        (110, 10, 5.0),
        (120, 1, 0.5),
    ]
    assert sum(row["compute_s"] for row in rows if row["rank"] == 1) == pytest.approx(26 * 1.5)
    assert sum(row["wait_s"] for row in rows) == pytest.approx(52 * 0.25)


def test_the_recorder_never_stops_training(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "ranks", object()):
        times = trackside_log.rank_times(path, run_id="r")  # type: ignore[arg-type]  # no path, for one
        times.add("x", compute_s=float("nan"))  # type: ignore[arg-type]  # no number
        with times.compute(1):
            pass
        times.close()
    assert capfd.readouterr().err.count("Training goes on") == 2


def test_kill_loses_the_unwritten_interval_only(tmp_path: Path) -> None:
    code = """
import os, sys
sys.path.insert(0, sys.argv[1])
import trackside_log
times = trackside_log.rank_times(sys.argv[2], run_id="r", every=10, rank=0, node="n")
for step in range(57):
    times.add(step, compute_s=1.0)
os.kill(os.getpid(), 9)
"""
    folder = Path(trackside_log.__file__).parent
    subprocess.run([sys.executable, "-c", code, str(folder), str(tmp_path / "ranks")], check=False)
    done = parsed((tmp_path / "ranks.n.jsonl").read_bytes())
    assert done.frames["rank_steps"]["compute_s"].sum() == 50
    assert done.rows_rejected == 0


@pytest.mark.slow
def test_show_names_the_slow_node_without_accounting(tmp_path: Path) -> None:
    file, where = tmp_path / "ranks.jsonl", ("--warehouse", str(tmp_path / "w"))
    file.write_bytes(lines_of(fleet_lines(Fleet(nodes=32, slow=(3,), factor=1.25, intervals=20))))
    assert trackside("ingest", "ranks", str(file), *where).returncode == 0
    table = trackside("show", "stragglers", *where)
    assert table.returncode == 0, table.stderr
    assert "node-3 (suspected)" in table.stdout.splitlines()[0]
    rows = json.loads(trackside("show", "stragglers", *where, "--format", "json").stdout)
    causes = [(row["run_id"], row["cause"], row["nodes"]) for row in rows]
    assert causes == [("run-0", "node", "node-3"), ("run-1", "none", "")]
    explained = json.loads(trackside("show", "stragglers", "--explain", *where, "--format", "json").stdout)["explain"]
    assert explained["constants"] == {"local": {}}
    of_run = ("--by", "rank", "--run", "run-0", "--format", "json")
    ranks = json.loads(trackside("show", "stragglers", *of_run, *where).stdout)
    assert [row["rank"] for row in ranks if row["slow"]] == [27]
    assert len(ranks) == 128


@pytest.mark.slow
def test_rank_times_in_parts_are_those_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = fleet_lines(Fleet(nodes=32, nodes_per_run=8, slow=(3,), factor=1.3, intervals=12))
    file = tmp_path / "ranks.jsonl"
    file.write_bytes(lines_of(lines))
    assert trackside("ingest", "ranks", str(file), "--warehouse", str(tmp_path / "w")).returncode == 0
    day = datetime.fromtimestamp(BEGIN, UTC)
    window = Window(cluster="local", since=day, until=day + timedelta(days=1))
    with open_reader(tmp_path / "w") as reader:
        whole = list(stragglers.rank_times(reader, window))
        monkeypatch.setattr(stragglers, "MOST_ROWS", 1400)
        parts = list(stragglers.rank_times(reader, window))
        of_run = list(stragglers.rank_times(reader, window, "run-2"))
        monkeypatch.setattr(stragglers, "MOST_ROWS", 400)
        summed = pl.concat(stragglers.rank_times(reader, window))
    assert [part["run_id"].n_unique() for part in parts] == [1, 2, 1]
    assert pl.concat(parts).sort(pl.all()).equals(whole[0].sort(pl.all()))
    assert summed.height == 32 * 8 * 12 / 2  # each session has 768 lines: two and two are added up
    for column in ("steps", "compute_s"):
        assert summed[column].sum() == pytest.approx(whole[0][column].sum())
    assert session_stragglers([summed])["nodes"].to_list() == session_stragglers([whole[0]])["nodes"].to_list()
    assert pl.concat(of_run)["run_id"].unique().to_list() == ["run-2"]


def test_show_says_what_brings_rank_times(tmp_path: Path) -> None:
    file, where = tmp_path / "ranks.jsonl", ("--warehouse", str(tmp_path / "w"))
    file.write_bytes(lines_of([WHOLE]))
    assert trackside("ingest", "ranks", str(file), *where).returncode == 0
    empty = trackside("show", "stragglers", "--run", "nobody", *where)
    assert empty.returncode == 0, empty.stderr
    assert "trackside ingest ranks" in empty.stdout
