"""`trackside show scaling` on runs whose speed is known."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from app.cli import main as cli
from queries.warehouse import open_reader
from tests.support.logs.mlperf import BEGIN_MS, MlperfRun, publish

if TYPE_CHECKING:
    from pathlib import Path

DAY_MS = 86_400_000
BEFORE = (20.0, 20.1, 19.9, 20.05)
AFTER = (25.0, 25.1, 24.9)
"""Seconds of a step on each day of the small system: it became a quarter slower."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scaling")
    days = {
        day: MlperfRun(step_s=step_s, begin_ms=BEGIN_MS + day * DAY_MS) for day, step_s in enumerate(BEFORE + AFTER)
    }
    publish(folder / "in", "Acme", "small", days, nodes=2, gpus=8)
    large = {0: MlperfRun(step_s=10.0, begin_ms=BEGIN_MS), 1: MlperfRun(step_s=10.0, batch=24, status="aborted")}
    publish(folder / "in", "Acme", "large", large, nodes=4, gpus=8)
    arguments = ["reproduce", "mlperf-v5.0", str(folder / "in"), "--dir", str(folder / "out"), "--format", "json"]
    assert cli.main([*arguments, "-o", str(folder / "rows.json"), "--quiet"]) == 0
    return folder / "out" / "warehouse"


def printed(root: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert cli.main(["show", "scaling", *arguments, "--warehouse", str(root)]) == 0
    return capsys.readouterr().out


def rows_of(root: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(printed(root, capsys, *arguments, "--format", "json"))
    return rows


def test_sizes_have_speed_efficiency_and_time(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small, same_batch, same_share = rows_of(root, capsys)
    assert (small["n_gpus"], small["batch"], small["n"]) == (16, 12, 7)
    speed = 7 * 12 * 8192 / (16 * sum(BEFORE + AFTER))
    assert small["tokens_per_gpu_s"] == pytest.approx(speed)
    assert small["ci_low"] < speed < small["ci_high"]
    assert same_batch["strong"] == pytest.approx(12 * 8192 / 320 / speed)
    assert same_share["weak"] == pytest.approx(24 * 8192 / 320 / speed)
    assert same_batch["time_to_train_s"] == pytest.approx(6 * 10 + 2 * 40)
    assert same_share["time_to_train_s"] is None  # aborted
    text = printed(root, capsys)
    assert "learning rate is unknown (linear-scaling rule: x2)" in text


def test_a_log_without_tokens_has_its_time_to_train(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An image model: its samples have no tokens, and the official time is in the log all the same."""
    own = str(shutil.copytree(root, tmp_path / "w"))
    log, accounting = tmp_path / "result_0.txt", tmp_path / "sacct.txt"
    run = MlperfRun(step_s=10.0, benchmark="retinanet")
    log.write_text(run.text().replace("max_sequence_length", "image_size"))
    begin, end = (BEGIN_MS // 1000 + seconds for seconds in (0, 600))
    accounting.write_text(
        "JobID|JobIDRaw|Cluster|State|Submit|Start|End|NNodes|AllocTRES|NodeList\n"
        f"99|99|Acme|COMPLETED|{begin}|{begin}|{end}|4|gres/gpu=32|o[1-4]\n"
    )
    for source in (["slurm", str(accounting)], ["runlog", str(log), "--cluster", "Acme", "--set", "job_id=99"]):
        assert cli.main(["ingest", *source, "--warehouse", own]) == 0
    assert cli.main(["compute", "--warehouse", own]) == 0
    (row,) = (row for row in rows_of(tmp_path / "w", capsys) if row["n_gpus"] == 32 and "retinanet" in row["recipe"])
    assert (row["n"], row["steps"], row["tokens_per_gpu_s"]) == (1, 0, None)
    assert row["time_to_train_s"] == pytest.approx(6 * 10 + 2 * 40)


def test_a_slower_recipe_is_named_with_its_day_and_what_changed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(root, capsys, "--by", "day")
    assert "on 16 GPUs is 20.0 % slower from 2025-05-01 on; since then nodes: new " in text
    assert "(unknown: driver, image)" in text
    assert len([row for row in rows_of(root, capsys, "--by", "day") if row["n_gpus"] == 16]) == len(BEFORE + AFTER)


@pytest.mark.slow
def test_a_new_driver_is_named(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own, lines = tmp_path / "w", []
    shutil.copytree(root, own)
    for day in range(len(BEFORE + AFTER)):
        run = {"cluster": "Acme", "scheduler": "slurm", "job_id": str(3 + day), "run_id": f"small/result_{day}"}
        begin, version = BEGIN_MS / 1000 + 60 + day * 86_400, "570.1" if day < len(BEFORE) else "580.2"
        lines.append({"type": "run", "v": 1, "t": begin, "n_gpus": 16, **run})
        lines.append({"type": "event", "kind": "driver", "begin": begin, "end": begin, "detail": version})
    (tmp_path / "drivers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert cli.main(["ingest", "runlog", str(tmp_path / "drivers.jsonl"), "--warehouse", str(own)]) == 0
    text = printed(own, capsys, "--by", "day")
    assert "since then driver: new 580.2, gone 570.1; nodes: new " in text
    assert "(unknown: image)" in text


@pytest.mark.slow
def test_a_new_driver_is_named_by_telemetry(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the day of the change a node of the job had the old driver in the night before."""
    own = tmp_path / "w"
    shutil.copytree(root, own)
    with open_reader(own) as reader:
        nodes = dict(reader.table("attempt_nodes").sort("node").select("job_id", "node").rows())
    lines = ["# TYPE DCGM_FI_DEV_GPU_UTIL gauge"]
    for day in range(len(BEFORE + AFTER)):
        begin = BEGIN_MS / 1000 + day * 86_400
        moments = [(begin + 60 * minute, "570.86.15" if day < len(BEFORE) else "580.65.06") for minute in range(9)]
        if day == len(BEFORE):
            moments.insert(0, (begin // 86_400 * 86_400 + 60, "570.86.15"))
        for at, version in moments:
            labels = f'gpu="0",Hostname="{nodes[str(3 + day)]}",DCGM_FI_DRIVER_VERSION="{version}"'
            lines.append(f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 98 {at:.3f}")
    (tmp_path / "dcgm.txt").write_text("\n".join([*lines, "# EOF"]) + "\n")
    command = ["ingest", "prometheus", str(tmp_path / "dcgm.txt"), "--cluster", "Acme", "--warehouse", str(own)]
    assert cli.main(command) == 0
    text = printed(own, capsys, "--by", "day")
    assert "since then driver: new 580.65.06, gone 570.86.15; nodes: new " in text
    assert "(unknown: image)" in text


def test_runs_without_a_published_result_are_beside_none(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--set recipe=llama31_405b" in printed(root, capsys, "--by", "reference")


OWN = """[[scaling.reference]]
name = "accepted in May"
recipe = "llama31_405b"
gpu = "NVIDIA H100 80GB HBM3"
n_gpus = 32
minutes = 2.2
"""


@pytest.mark.slow
def test_references_of_ones_own_are_compared_with(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKSIDE_CONFIG", str(tmp_path / "own.toml"))
    (tmp_path / "own.toml").write_text(OWN)
    (row,) = rows_of(root, capsys, "--by", "reference")
    assert (row["name"], row["measure"], row["published"]) == ("accepted in May", "minutes", 2.2)
    assert row["measured"] == pytest.approx((6 * 10 + 2 * 40) / 60)
    assert row["share"] == pytest.approx(2.2 / row["measured"])


def test_a_reference_without_a_result_is_a_mistake(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKSIDE_CONFIG", str(tmp_path / "own.toml"))
    (tmp_path / "own.toml").write_text(OWN.replace("minutes = 2.2", ""))
    assert cli.main(["show", "scaling", "--by", "reference", "--warehouse", str(root)]) != 0
    assert "minutes (time to train), tokens_per_gpu_s, or both" in capsys.readouterr().err
