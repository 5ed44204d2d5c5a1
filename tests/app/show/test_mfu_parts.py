"""MFU over time, by class of node, and before and after a restart, on a log whose MFU is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from app.cli import main as cli
from tests.app.show.test_mfu import HOUR, MODEL, START, TOKENS, sacct

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 30
NODES = "".join(
    f"NodeName={name} Arch=x86_64 CPUTot=64 RealMemory=512000 Gres=gpu:h100:8 State=IDLE Partitions=main\n"
    for name in ("n1", "n2", "n3")
)
"""n4 is not in the inventory."""


def log(run: str, job: str, *starts: tuple[float, float]) -> str:
    """Steps of 10 s from each start (hours, tokens of a step over those of 40 % MFU)."""
    lines: list[dict[str, Any]] = []
    for number, (hours, share) in enumerate(starts):
        begin = START + hours * HOUR
        facts = MODEL | {"recompute": "none"}
        lines.append({"type": "run", "v": 1, "t": begin - 5, "run_id": run, "cluster": "c", "job_id": job, **facts})
        lines += [
            {"type": "step", "step": number * STEPS + n, "t": begin + 10 * n, "duration_s": 10.0,
             "tokens": TOKENS * share}
            for n in range(STEPS)
        ]  # fmt: skip
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    long = sacct().replace(f"|{START + 5 * HOUR}|", f"|{START + 24 * HOUR}|")
    (folder / "sacct.txt").write_text(long)
    (folder / "nodes.txt").write_text(NODES)
    (folder / "restarted.jsonl").write_text(log("restarted", "7", (1, 1.0), (12, 0.5)))
    (folder / "steady.jsonl").write_text(log("steady", "10", (1, 1.0)))
    where = ["--warehouse", str(folder / "w"), "--quiet"]
    files = [str(folder / name) for name in ("sacct.txt", "nodes.txt")]
    assert cli.main(["ingest", "slurm", *files, "--cluster", "c", "--timezone", "UTC", *where]) == 0
    logs = [str(folder / name) for name in ("restarted.jsonl", "steady.jsonl")]
    assert cli.main(["ingest", "runlog", *logs, *where]) == 0
    assert cli.main(["compute", *where]) == 0
    return folder / "w"


def rows_of(root: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert cli.main(["show", "mfu", *arguments, "--warehouse", str(root), "--format", "json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return [row for row in rows if row["metric"] == "mfu"]


@pytest.mark.slow
def test_each_start_of_a_run_has_its_mfu_and_the_change(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(root, capsys, "--by", "restart", "--run", "restarted")
    assert [(row["run_id"], row["start"], row["n"]) for row in rows] == [
        ("restarted", 1, STEPS),
        ("restarted", 2, STEPS),
    ]
    assert [row["value"] for row in rows] == pytest.approx([0.4, 0.2], rel=1e-6)
    assert (rows[0]["change"], rows[1]["change"]) == (None, pytest.approx(-0.5))
    assert cli.main(["show", "mfu", "--by", "restart", "--warehouse", str(root)]) == 0
    assert "the largest change: restarted, start 2, MFU 50.0 % lower than before." in capsys.readouterr().out


def test_days_are_apart(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(root, capsys, "--by", "day")
    assert [row["day"] for row in rows] == ["2026-09-21", "2026-09-22"]
    assert [row["value"] for row in rows] == pytest.approx([0.4, 0.2], rel=1e-6)


def test_classes_of_nodes_are_those_of_the_inventory(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["node_class"]: row for row in rows_of(root, capsys, "--by", "node_class")}
    assert {name: row["n"] for name, row in rows.items()} == {"8 h100 a node": 2 * STEPS, "not in the inventory": STEPS}
    assert rows["8 h100 a node"]["value"] == pytest.approx(0.3, rel=1e-6)
