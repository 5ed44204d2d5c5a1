"""Standard output as shells and services hand it over: closed, full, or in an encoding of few letters."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.command import ROOT, trackside

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = 1_790_812_800
SACCT = (
    "JobID|Cluster|User|State|Submit|Start|End|NNodes|NodeList|AllocTRES\n"
    f"1|c|zoë|COMPLETED|{BEGIN}|{BEGIN}|{BEGIN + 60}|1|n1|gres/gpu=8\n"
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    (folder / "sacct").write_text(SACCT, encoding="utf-8")
    for verb in (("ingest", "slurm", str(folder / "sacct")), ("compute",)):
        done = trackside(*verb, "--warehouse", str(folder / "w"))
        assert done.returncode == 0, done.stderr
    return folder / "w"


def in_shell(words: str, redirected: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    """A command line by a shell, which redirects its streams; Python buffers them."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{shlex.quote(sys.executable)} -m app.cli.main {words} {redirected}"],
        env={"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding, "PATH": "/usr/bin:/bin"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def at(warehouse: Path, words: str) -> str:
    """The option that names the warehouse, for a verb."""
    return "" if words.startswith("-") else f" --warehouse {shlex.quote(str(warehouse))}"


def people(warehouse: Path, redirected: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    """`show people`, whose streams a shell redirects."""
    return in_shell(f"show people{at(warehouse, 'show')}", redirected, encoding)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_closed_streams_are_no_fault(closed: str, warehouse: Path) -> None:
    done = people(warehouse, closed)
    assert (done.returncode, done.stderr) == (0, "")


WORDS = ["show people", "status", "--help", "--version"]


@pytest.mark.slow
@pytest.mark.parametrize("words", WORDS)
def test_output_without_room_is_reported(words: str, warehouse: Path) -> None:
    done = in_shell(f"{words}{at(warehouse, words)}", ">/dev/full")
    assert done.returncode == 44
    assert done.stderr == "trackside: the output cannot be written: No space left on device\n"


@pytest.mark.slow
@pytest.mark.parametrize("words", WORDS)
def test_reader_of_output_that_has_gone_is_no_fault(words: str, warehouse: Path) -> None:
    done = in_shell(f"{words}{at(warehouse, words)}", "| true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "ascii:surrogateescape"])  # the second is that of the locale C
def test_letters_that_an_encoding_lacks_are_escaped(warehouse: Path, encoding: str) -> None:
    done = people(warehouse, "", encoding)
    assert done.returncode == 0, done.stderr
    assert "zo\\xeb" in done.stdout


def test_csv_on_a_terminal_holds_no_commands_for_it(warehouse: Path) -> None:
    words = [sys.executable, "-m", "app.cli.main", "sql", "SELECT chr(27) || '[2J' AS x"]
    words += ["--format", "csv", "--warehouse", str(warehouse)]
    main, other = pty.openpty()
    subprocess.run(words, stdout=other, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True)
    os.close(other)
    assert os.read(main, 1000).decode() == "x\r\n\N{REPLACEMENT CHARACTER}[2J\r\n"
    os.close(main)
    assert subprocess.run(words, capture_output=True, cwd=ROOT, check=True).stdout == b"x\n\x1b[2J\n"
