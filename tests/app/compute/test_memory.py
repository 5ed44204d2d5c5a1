"""What a computation holds at a time."""

from __future__ import annotations

import gc
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from app.compute import pipeline as computing
from app.compute.inputs import Facts
from app.compute.stored_results import write_results
from app.config.settings import Config
from ingest.slurm import load_files as ingesting
from queries.warehouse import open_writer
from tests.support.slurm.dumps import tiny

if TYPE_CHECKING:
    from pathlib import Path

    from app.compute.outcome import Windows

NOW = datetime(2026, 11, 2, tzinfo=UTC)


@pytest.mark.slow
def test_results_are_made_after_attempts_on_nodes_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []

    def counting(*given: object, **named: object) -> Windows:
        gc.collect()
        held.append(sum(isinstance(each, Facts) for each in gc.get_objects()))
        return write_results(*given, **named)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr("app.compute.pipeline.write_results", counting)
    files = tiny(30).write(tmp_path)
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        ingesting.ingest_files(
            writer, Config(), files, ingesting.Options(), now=NOW, progress=lambda _what, _done, _all: None
        )
        computing.compute(writer, Config(), now=NOW)
    assert held == [0]
