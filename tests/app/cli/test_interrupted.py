"""Ctrl-C ends a verb cleanly, and the message says what is kept."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from app.cli.main import build_parser, main
from app.compute import pipeline
from tests.support.command import trackside
from tests.support.slurm.dumps import tiny

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        (("compute",), "nothing was changed: the numbers of the computation before are kept"),
        (("demo",), "the steps that are done are kept"),
        (("ingest", "slurm"), "inputs that were loaded completely are kept"),
        (("ingest", "prometheus"), "inputs that were loaded completely are kept"),
        (("ingest", "runlog", "f"), "inputs that were loaded completely are kept"),
    ],
)
def test_interrupted_verbs_report_what_is_kept(
    command: tuple[str, ...], kept: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kept in build_parser(command[0]).parse_args(list(command)).kept
    with mock.patch("app.cli.run_context.settings_and_root", side_effect=KeyboardInterrupt):
        if command == ("demo",):
            with mock.patch("app.demo.demo.show", side_effect=KeyboardInterrupt):
                assert main(["demo", "--no-serve"]) == 130
        else:
            assert main(list(command)) == 130
    assert f"interrupted; {kept}" in capsys.readouterr().err


@pytest.mark.slow
def test_an_interrupted_computation_changes_nothing(tmp_path: Path) -> None:
    root = str(tmp_path / "w")
    assert trackside("ingest", "slurm", *tiny(40).write(tmp_path), "--warehouse", root).returncode == 0
    assert trackside("compute", "--warehouse", root).returncode == 0
    before = trackside("show", "goodput", "--format", "json", "--warehouse", root).stdout
    with mock.patch.object(pipeline, "write_results", side_effect=KeyboardInterrupt):
        done = trackside("compute", "--full", "--warehouse", root)
    assert (done.returncode, done.stdout) == (130, "")
    assert "interrupted; nothing was changed" in done.stderr
    assert trackside("show", "goodput", "--format", "json", "--warehouse", root).stdout == before


@pytest.mark.slow
def test_an_interrupted_ingest_keeps_the_inputs_before(tmp_path: Path) -> None:
    root = str(tmp_path / "w")
    files = tiny(40).write(tmp_path)
    with mock.patch("ingest.slurm.load_files.write_input", side_effect=KeyboardInterrupt):
        done = trackside("ingest", "slurm", *files, "--warehouse", root)
    assert done.returncode == 130
    again = trackside("ingest", "slurm", *files, "--warehouse", root)
    assert again.returncode == 0
    assert re.search(
        r"sacct.txt\n  \d+ rows: 0 new, \d+ known already\nslurm.config.*\n  2 rows: 2 new\n", again.stderr
    )
