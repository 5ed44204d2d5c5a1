"""What a worker does for one cluster, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from app.compute.unchanged import code_digest
from app.fleet import task as module
from app.fleet.task import ClusterTask, OtherWorkerError, digest_of, run
from app.service.worker import Worker
from queries import opening
from queries.warehouse import open_reader, open_writer
from tests.app.service.test_service import broken
from tests.support.killing import slurm
from tests.support.warehouses import NOW


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterTask:
    """A cluster whose Slurm answers in this process."""
    monkeypatch.setattr(module, "Worker", partial(Worker, runner=slurm))
    monkeypatch.setattr(opening, "_engine", opening.engine())  # the task chooses another for its process
    monkeypatch.setattr("app.clock.now", lambda: NOW)
    file = tmp_path / "tiny.toml"
    file.write_text('cluster = "tiny"\n[slurm]\nlookback_days = 60\nwindow_days = 60\nretries = 0\n')
    return ClusterTask("tiny", str(file), digest_of(file), str(tmp_path / "w"), "", "", code_digest().hex())


@pytest.mark.slow
def test_run_reads_computes_and_reports(task: ClusterTask) -> None:
    outcome = run(task)
    with open_reader(Path(task.directory)) as reader:
        assert reader.query("computed", cluster="tiny").height == 1
        assert outcome.data_version == int(reader.path.stem)
    assert outcome.failures == ()
    assert (outcome.computed, outcome.rows_committed) == (1, 0)
    assert outcome.rows_loaded > 40
    assert outcome.cpu_s > 0


def test_source_that_fails_is_a_failure_with_its_message(task: ClusterTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Worker", partial(Worker, runner=broken))
    outcome = run(task)
    steps = {failure.step: failure for failure in outcome.failures}
    assert steps["slurm"].status == 21
    assert "slurmdbd is away" in steps["slurm"].message
    assert outcome.computed == 0


@pytest.mark.parametrize(("text", "sources"), [("[slurm]\n", ["slurm"]), ("", [])])
def test_slurm_here_is_read_only_for_who_names_it(
    text: str, sources: list[str], task: ClusterTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine of a worker may have the commands of another cluster."""
    monkeypatch.setattr(module, "Worker", Worker)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    file = Path(task.config)
    file.write_text(f'cluster = "tiny"\n{text}')
    settings = module._settings(replace(task, config_sha256=digest_of(file)))  # noqa: SLF001 - as a worker has them
    worker = module._worker(task, settings)  # noqa: SLF001 - as above
    assert [name for name, _ in worker._configured()] == sources  # noqa: SLF001 - what a cycle would read


def test_slurm_that_is_named_and_not_here_is_a_failure(task: ClusterTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Worker", Worker)
    monkeypatch.setenv("PATH", "")
    [failure] = run(task).failures
    assert (failure.step, failure.status) == ("slurm", 20)
    assert failure.message.startswith("sacct is not installed here")


def test_directory_that_another_writes_is_left_to_it(task: ClusterTask) -> None:
    with open_writer(Path(task.directory), verb="trackside fleet", now=NOW):
        [failure] = run(task).failures
    assert (failure.step, failure.status) == ("warehouse", 43)
    assert "(trackside fleet, since" in failure.message


def test_worker_with_other_code_refuses(task: ClusterTask) -> None:
    with pytest.raises(OtherWorkerError, match="runs another version of Trackside"):
        run(replace(task, code="00"))


def test_worker_with_another_configuration_refuses(task: ClusterTask) -> None:
    file = Path(task.config)
    file.write_text(file.read_text() + "\n")
    with pytest.raises(OtherWorkerError, match="is another file"):
        run(task)
    file.unlink()
    with pytest.raises(OtherWorkerError, match="at the same paths on all machines"):
        run(task)
    assert not Path(task.directory).exists()
