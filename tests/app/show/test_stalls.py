"""`show stalls` from a run log and rank times alone: each stall with its kind, and the rank that was last."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from app.run_page.slowness import lines
from metrics.stragglers.sessions import session_stragglers
from tests.metrics.stragglers.fleet import Fleet
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = 1_790_812_800.0 - 200
"""200 s before midnight."""
STEP_S = 10.0


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 200 steps: 600 s at step 50 behind rank 5, 400 s of data at step 100, a restart at step 150."""
    folder = tmp_path_factory.mktemp("stalls")
    run = {"type": "run", "v": 1, "t": BEGIN, "run_id": "r", "n_gpus": 16, "job_id": "7", "scheduler": "slurm"}
    logged: list[dict[str, Any]] = [run]
    now = BEGIN + 5
    begins = {}
    for step in range(200):
        begins[step] = now
        logged.append({"type": "step", "step": step, "t": now, "duration_s": STEP_S - 1})
        now += STEP_S + {50: 600, 100: 400, 150: 900}.get(step, 0)
        if step == 100:
            logged.append({"type": "event", "kind": "data", "begin": now - 395, "end": now - 2})
        if step == 150:
            logged.append({**run, "t": now - 20, "restart_count": 1})
    (folder / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in logged))
    ranks = [
        {"type": "rank_steps", "t": begins[0], "end": begins[99] + 9, "run_id": "r", "job_id": "7", "rank": rank,
         "node": f"n{rank // 2}", "step": 0, "steps": 100, "compute_s": 900.0, "wait_s": 20.0 if rank == 5 else 620.0}
        for rank in range(8)
    ]  # fmt: skip
    (folder / "ranks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ranks))
    for source, name in (("runlog", "run.jsonl"), ("ranks", "ranks.jsonl")):
        done = trackside("ingest", source, str(folder / name), "--warehouse", str(folder / "w"))
        assert done.returncode == 0, done.stderr
    return folder / "w"


def shown(warehouse: Path, *arguments: str) -> str:
    done = trackside("show", "stalls", "--warehouse", str(warehouse), *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("after_s", [200, 12 * 3600])
def test_end_of_a_window_is_no_stall(warehouse: Path, after_s: int) -> None:
    """At midnight, when the steps go on in the file of the next day; and behind the last one."""
    until = datetime.fromtimestamp(BEGIN + after_s, UTC).isoformat()
    rows = json.loads(shown(warehouse, "--since", "2026-09-30", "--until", until, "--format", "json"))
    assert [row["step"] for row in rows] == ([] if after_s == 200 else [50, 100])


def test_each_stall_has_its_kind_and_a_restart_is_none(warehouse: Path) -> None:
    rows = json.loads(shown(warehouse, "--format", "json"))
    assert [(row["step"], row["kind"], row["last_rank"], row["last_node"]) for row in rows] == [
        (50, "collective", 5, "n2"),
        (100, "data", None, None),
    ]
    assert rows[0]["seconds"] == pytest.approx(600)
    assert rows[0]["lost_gpu_s"] == pytest.approx(16 * 600)


def test_the_headline_counts_and_prices_them(warehouse: Path) -> None:
    first = shown(warehouse).splitlines()[0]
    assert first.startswith("2 stalls (1 collective, 1 data)")
    assert "4.44 GPU-h" in first


@pytest.mark.slow
def test_the_page_of_the_run_has_them(warehouse: Path) -> None:
    done = trackside("run", "r", "--warehouse", str(warehouse))
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.strip().startswith("Stalls"))
    assert "collective, 10 min, 2.67 GPU-h" in line
    assert "rank 5 on n2" in " ".join(done.stdout.split())
    document = json.loads(trackside("run", "r", "--warehouse", str(warehouse), "--format", "json").stdout)
    assert [row["kind"] for row in document["stalls"]] == ["collective", "data"]


def test_page_names_a_suspected_node_its_cost_and_what_to_do() -> None:
    sums = Fleet(nodes=16, slow=(3,), factor=1.3).rows()
    ((label, text),) = lines(session_stragglers([sums]).to_dicts(), [])
    assert label == "Stragglers"
    assert text.startswith("suspected: node-3; ")
    assert "GPU-h waited for the slowest rank" in text
    assert "drain it" in text
    assert lines(session_stragglers([Fleet(nodes=16).rows()]).to_dicts(), []) == []


@pytest.mark.slow
def test_stalls_without_any_log_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "sacct").write_text(
        "JobID|Cluster|State|Submit|Start|End|NNodes|NodeList|AllocTRES\n"
        f"1|c|COMPLETED|{BEGIN:.0f}|{BEGIN:.0f}|{BEGIN + 60:.0f}|1|n1|gres/gpu=8\n"
    )
    done = trackside("ingest", "slurm", str(tmp_path / "sacct"), "--warehouse", str(tmp_path / "w"))
    assert done.returncode == 0, done.stderr
    assert trackside("compute", "--warehouse", str(tmp_path / "w")).returncode == 0
    assert "stalls are unknown" in shown(tmp_path / "w")


def test_of_another_run_there_are_none(warehouse: Path) -> None:
    assert "No step was late" in shown(warehouse, "--run", "nobody")
