"""The guide `developing/adding-a-log-format.md` is true: its format in a configuration reads its log."""

from __future__ import annotations

import re
import tomllib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from app.cli.main import main
from app.config import settings
from app.service.worker import Worker
from queries.warehouse import open_reader
from tests.support.command import ROOT
from tests.support.logs.foreign_logs import events, read, steps

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

GUIDE = (ROOT / "app" / "docs" / "developing" / "adding-a-log-format.md").read_text(encoding="utf-8")
CONFIGURATION, LOG = (re.findall(rf"```{kind}\n(.*?)```", GUIDE, re.DOTALL)[0] for kind in ("toml", "text"))


def test_a_format_by_the_guide_reads_the_guides_log() -> None:
    runlog = settings.parse(tomllib.loads(CONFIGURATION), origin="guide").runlog
    parsed = read(LOG, timezone=None, formats=runlog.text_formats())
    assert steps(parsed) == [(1, 28800, 2.0), (2, 28805, 2.0)]
    assert parsed.frames["steps"]["tokens"].to_list() == [4096, 4096]
    assert events(parsed) == [("checkpoint_save", 1, 28802, 28805)]
    assert parsed.rejects["line"].to_list() == [6]


def test_a_format_of_the_configuration_is_used_by_ingest(tmp_path: Path) -> None:
    (tmp_path / "trackside.toml").write_text(CONFIGURATION)
    (tmp_path / "train.log").write_text(LOG)
    options = ["--config", str(tmp_path / "trackside.toml"), "--warehouse", str(tmp_path / "w")]
    assert main(["ingest", "runlog", str(tmp_path / "train.log"), *options]) == 0
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("steps").height == 2


def test_a_mistaken_example_keeps_ingest_from_reading(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named with what came of it; a verb that reads no logs does not look at it."""
    configuration, log = tmp_path / "trackside.toml", tmp_path / "train.log"
    configuration.write_text(CONFIGURATION.replace("tokens = 4096", "tokens = 4"))
    log.write_text(LOG)
    options = ["--config", str(configuration), "--warehouse", str(tmp_path / "w")]
    assert main(["ingest", "runlog", str(log), *options]) == 10
    error = capsys.readouterr().err
    assert f"{configuration} has 1 mistake:" in error
    assert "runlog.format 1 (mytrainer), example 1: expected tokens = 4, but tokens = 4096 came of it" in error
    assert not (tmp_path / "w").exists()
    assert settings.load(configuration).runlog.format


def test_a_mistaken_example_is_a_fault_of_run_logs_when_serving(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runlog = settings.parse(tomllib.loads(CONFIGURATION.replace("loss = 2.5", "loss = 25")), origin="guide").runlog
    (tmp_path / "train.log").write_text(LOG)
    serve = settings.Serve(runlogs=(str(tmp_path / "*.log"),))
    config = settings.Config(runlog=runlog, serve=serve)
    worker = Worker(tmp_path / "w", config, timedelta(minutes=5))
    worker.cycle(now=datetime(2026, 10, 5, tzinfo=UTC))
    assert worker.sources["runlog"].last_error
    assert "runlog.format 1 (mytrainer), example 1: expected loss = 25, but loss = 2.5" in caplog.text
