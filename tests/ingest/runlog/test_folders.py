"""Folders of logs in the warehouse: W&B's and TensorBoard's, growing, killed, loaded again."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from ingest.runlog import store
from ingest.runlog.folders import SkippedFiles, logs_below
from ingest.runlog.translation import LogRequest
from queries.warehouse import open_reader, open_writer
from tests.support.command import assert_same, contents
from tests.support.logs.binary_logs import DATA, EVENT_FILES, wandb_folder
from tests.support.logs.mlperf import MlperfRun

if TYPE_CHECKING:
    from ingest.store.report import LoadReport

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def load(warehouse: Path, *names: Path) -> list[LoadReport]:
    with open_writer(warehouse, verb="test", now=NOW) as writer:
        files = [str(name) for name in names]
        return store.ingest_files(writer, files, cluster="alpha", now=NOW, progress=lambda *_: None)


def lay_out(folder: Path) -> Path:
    for process in ("first", "second"):
        wandb_folder("0.19.11", process, folder)
    (folder / "latest-run").symlink_to(folder / "offline-run-20261123_070000-second")
    (folder / "debug.log").write_text("nothing of interest\n")
    return folder


def test_search_reports_each_folder_that_it_enters(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    entered: list[str] = []
    logs_below([str(tmp_path)], enters=entered.append)
    assert entered == [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")]


def test_a_folder_is_the_logs_below_it(tmp_path: Path) -> None:
    lay_out(tmp_path / "wandb")
    names = [name.removeprefix(str(tmp_path)) for name in logs_below([str(tmp_path), "-"])]
    assert names == [*(f"/wandb/offline-run-20261123_070000-{one}/run-tiny1.wandb" for one in ("first", "second")), "-"]


def test_a_text_log_below_a_folder_is_found_by_its_steps(tmp_path: Path) -> None:
    stdout = "loading\n" * 20_000 + "2026-10-01T08:00:00Z steps: 1 loss: 2.5 iter time (s): 2.0 samples/sec: 16.0\n"
    folder = lay_out(tmp_path / "wandb") / "offline-run-20261123_070000-first" / "files"
    folder.mkdir(exist_ok=True)
    for path in (tmp_path / "slurm-29.out", folder / "output.log"):
        path.write_text(stdout)
    names = [name.removeprefix(str(tmp_path)) for name in logs_below([str(tmp_path)])]
    assert "/slurm-29.out" in names
    assert len(names) == 3  # W&B's copy of what its run printed is none


def test_mlperf_behind_other_output_is_found(tmp_path: Path) -> None:
    (tmp_path / "slurm-29.out").write_text("loading\n" * 20_000 + MlperfRun().text())
    assert logs_below([str(tmp_path)]) == [str(tmp_path / "slurm-29.out")]


def test_data_sets_beside_logs_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"text": "a sample", "id": 1}\n')
    (tmp_path / "run.jsonl").write_text('{"type":"run","v":1,"t":1790812800.5,"run_id":"r"}\n')
    (tmp_path / "begun.jsonl").write_text("")
    assert [Path(name).name for name in logs_below([str(tmp_path)])] == ["begun.jsonl", "run.jsonl"]


def test_folders_of_code_are_read_if_they_are_named(tmp_path: Path) -> None:
    packages = tmp_path / ".venv" / "lib" / "site-packages"
    for folder in (packages / "torch", tmp_path / ".wandb"):
        folder.mkdir(parents=True)
        (folder / "run.jsonl").write_text("{}\n")
    assert logs_below([str(tmp_path)]) == [str(tmp_path / ".wandb" / "run.jsonl")]
    assert logs_below([str(packages)]) == [str(packages / "torch" / "run.jsonl")]


def test_a_folder_without_logs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    report, _ = load(tmp_path / "w", tmp_path)
    assert "below this folder is a known log" in str(report.error)


@pytest.mark.slow
def test_a_folder_loaded_twice_is_loaded_once(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "wandb")
    shutil.copytree(DATA / "tensorboard" / "tiny", folder / "tiny")
    reports = load(tmp_path / "once", folder)
    assert [report.error for report in reports] == [None] * 5
    assert reports[4].origin.startswith("passed over: ")
    load(tmp_path / "twice", folder)
    load(tmp_path / "twice", folder)
    assert_same(tmp_path / "twice", tmp_path / "once")
    sessions = contents(tmp_path / "once")["run_sessions"]
    assert sorted(sessions.select("run_id", "job_id", "restart_count").rows(), key=str) == [
        ("tiny", None, None),
        ("tiny", None, None),
        ("tiny1", "4711", 0),
        ("tiny1", "4711", 1),
    ]


@pytest.mark.slow
def test_a_log_read_while_it_was_written_is_whole_in_the_end(tmp_path: Path) -> None:
    log = tmp_path / EVENT_FILES[0].name
    whole = EVENT_FILES[0].read_bytes()
    log.write_bytes(whole)
    load(tmp_path / "once", log)
    for size in (len(whole) // 2, len(whole) // 2 + 5, len(whole) - 3, len(whole)):
        log.write_bytes(whole[:size])
        load(tmp_path / "grown", log)
        cut = contents(tmp_path / "grown")["rejects"]
        assert cut.height == (size < len(whole))
        with open_reader(tmp_path / "grown") as reader:
            warned = {each.check.name for each in reader.checks()}
        assert ("source_rows_rejected" in warned) == (size < len(whole))
    assert_same(tmp_path / "grown", tmp_path / "once")


STEP = "2026-10-01T08:00:0{0}Z steps: {0} loss: 2.5 iter time (s): 2.0 samples/sec: 16.0\n"


def test_text_with_nuls_or_of_two_bytes_is_a_log(tmp_path: Path) -> None:
    text = STEP.format(1) + STEP.format(3)
    (tmp_path / "power.out").write_bytes(STEP.format(1).encode() + bytes(3_000) + STEP.format(3).encode())
    (tmp_path / "windows.out").write_bytes(text.replace("\n", "\r\n").encode("utf-16"))
    (tmp_path / "figure.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + text.encode())
    assert [Path(name).name for name in logs_below([str(tmp_path)])] == ["power.out", "windows.out"]


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_log_in_utf_16_is_read_as_if_it_were_utf_8(tmp_path: Path, encoding: str) -> None:
    text = "".join(STEP.format(number) for number in range(1, 6))
    for name, code in (("plain", "utf-8"), ("wide", encoding)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.out").write_bytes(text.encode(code))
        load(tmp_path / f"{name}.w", tmp_path / name)
    numbers = [contents(tmp_path / f"{name}.w")["steps"]["step"].to_list() for name in ("plain", "wide")]
    assert numbers == [[1, 2, 3, 4, 5]] * 2


def test_control_characters_behind_a_byte_order_mark_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "image.bin").write_bytes(("\1\2\3\n" + STEP.format(1)).encode("utf-16"))
    assert logs_below([str(tmp_path)]) == [str(tmp_path)]


def test_a_log_whose_first_step_comes_late_is_found(tmp_path: Path) -> None:
    (tmp_path / "late.out").write_text("loading\n" * 100_000 + STEP.format(1))
    assert logs_below([str(tmp_path)]) == [str(tmp_path / "late.out")]


@pytest.mark.slow
def test_every_file_is_read_or_passed_over_with_a_reason(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "train.out").write_text(STEP.format(1))
    (folder / "README.md").write_text("step 1 of this guide: install\n")
    (folder / "empty.log").touch()
    (folder / "latest").symlink_to(folder)
    (folder / "gone").symlink_to(tmp_path / "none")
    os.mkfifo(folder / "pipe.out")
    (folder / "damaged.gz").write_bytes(gzip.compress(b"step")[:10] + b"\xff" * 50)
    with tarfile.open(folder / "logs.tar", "w") as archive:
        archive.add(folder / "train.out", "train.out")
        archive.add(folder / "README.md", "README.md")
    passed = SkippedFiles()
    assert logs_below([str(folder)], passed_over=passed) == [str(folder / "train.out")]
    assert {reason: [Path(name).name for name in names] for reason, names in passed.names.items()} == {
        "folders of code": ["__pycache__"],
        "links": ["latest", "gone"],
        "files without a step of training": ["README.md"],
        "damaged packed files": ["damaged.gz"],
        "empty files": ["empty.log"],
        "archives, which are read if they are named": ["logs.tar"],
        "pipes and devices": ["pipe.out"],
    }
    *_, of_folder = load(tmp_path / "w", folder)
    assert of_folder.origin == passed.text
    logs, of_archive = load(tmp_path / "w", folder / "logs.tar")
    assert logs.error is None
    assert of_archive.origin == "passed over: files without a step of training: 1 (README.md)"


def test_what_may_not_be_read_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logs" / "closed").mkdir(parents=True)
    (tmp_path / "logs" / "secret.out").write_text(STEP.format(1))
    sound = Path.open, os.scandir

    def refuse(name: object) -> None:
        if str(name).endswith(("secret.out", "closed")):
            raise PermissionError(13, "Permission denied", str(name))

    def opened(path: Path, *arguments: Any, **named: Any) -> Any:
        refuse(path)
        return sound[0](path, *arguments, **named)

    def listed(path: Any) -> Any:
        refuse(path)
        return sound[1](path)

    monkeypatch.setattr(Path, "open", opened)
    monkeypatch.setattr(os, "scandir", listed)
    reports = load(tmp_path / "w", tmp_path / "logs")
    names = [tmp_path / "logs" / name for name in ("secret.out", "closed")]
    assert [str(report.error) for report in reports] == [f"{name}: Permission denied" for name in names]


def saved_state(folder: Path, step: int) -> Path:
    """A Trainer's state at a step, of which each took two seconds, in a folder that is made."""
    folder.mkdir(parents=True, exist_ok=True)
    history = [{"loss": 2.5, "step": step}, {"step": step, "train_loss": 2.5, "train_runtime": 2.0 * step}]
    path = folder / "trainer_state.json"
    path.write_text(json.dumps({"global_step": step, "log_history": history}))
    return path


def load_from_october(warehouse: Path, *names: Path) -> tuple[list[str], dict[str, int]]:
    """Load logs that begin on 1 October: what the reports say, and the last step of each run."""
    october = LogRequest(begin=datetime(2026, 10, 1, tzinfo=UTC))
    with open_writer(warehouse, verb="test", now=NOW) as writer:
        files = [str(name) for name in names]
        reports = store.ingest_files(writer, files, cluster="a", now=NOW, progress=lambda *_: None, logs=october)
        last = writer.table("steps").group_by("run_id").agg(pl.col("step").max())
    assert all(report.error is None for report in reports)
    return [report.origin for report in reports], dict(last.rows())


def test_trainer_states_of_a_run_only_the_newest(tmp_path: Path) -> None:
    for step in (20, 100, 40):
        saved_state(tmp_path / "llama" / f"checkpoint-{step}", step)
    said, last = load_from_october(tmp_path / "warehouse", tmp_path / "llama")
    assert last == {"llama": 100}
    assert any("states of older checkpoints: 2 (checkpoint-20, checkpoint-40)" in line for line in said)
    saved_state(tmp_path / "llama", 100)  # the same step: the one at the end has the time of its process
    assert load_from_october(tmp_path / "other", *tmp_path.glob("llama/**/*.json"))[1] == {"llama": 100}


def test_error_of_a_file_below_a_folder_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text('print({"log_history": []})  # not JSON')
    [error] = [str(report.error) for report in load(tmp_path / "warehouse", tmp_path) if report.error]
    assert error.startswith(f"{tmp_path / 'train.py'}: trainer_state.json that is cut or damaged: ")


def test_trainer_state_beside_another_log_is_passed_over(tmp_path: Path) -> None:
    saved_state(tmp_path / "llama" / "checkpoint-20", 20)
    shutil.copytree(EVENT_FILES[0].parent, tmp_path / "llama" / "runs" / "Nov30_08-41-20_vm")
    said, last = load_from_october(tmp_path / "warehouse", tmp_path / "llama")
    assert list(last) == ["llama"]
    assert any("states without times, beside other logs of their run: 1" in line for line in said)


def test_run_id_of_an_ordinary_name_is_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved_state(tmp_path / "llama", 20)
    monkeypatch.chdir(tmp_path / "llama")
    assert load_from_october(tmp_path / "warehouse", Path("trainer_state.json"))[1] == {"llama": 20}
