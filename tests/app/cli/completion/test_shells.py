"""The scripts in real shells: keys are typed into a pseudo-terminal, and names that shells interpret run nothing."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.completion.scripts import SCRIPTS
from queries.opening import connect
from tests.support.command import trackside
from tests.support.warehouses import from_accounting

ROOT = Path(__file__).resolve().parents[4]
START = {
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config", "-i"),
}
SETUP = {
    "bash": "PS1='RE''ADY> '; source {script}\n",
    "zsh": "PS1='RE''ADY> '; autoload -U compinit; compinit -D -u; source {script}\n",
}
TAB, BEGINNING, KILL = "\t", "\x01", "\x15"
DEADLINE_S = 60
CONTROLS = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z@]|[=>])")
"""What a shell prints to move the cursor and to set up the terminal."""

HOSTILE = (
    "x$(touch HACKED)", "x`touch HACKED`", "x; touch HACKED", "x' && touch HACKED '", 'x"; touch HACKED "',
    "x\ntouch HACKED", "x|touch HACKED", "x & touch HACKED", "x$(touch${IFS}HACKED)", "x>HACKED", "x\\",
    "x !touch", "x\x1b]0;t\x07", "x*",
)  # fmt: skip


def needs(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: apt-get install {shell}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with runs of hostile names, and a folder with the program as `trackside`."""
    folder = tmp_path_factory.mktemp("shells")
    root = from_accounting(folder)
    with contextlib.closing(connect((root / "published" / "current").resolve(), root, read_only=False)) as copy:
        for name in (*HOSTILE, "xgood-20261001T000000Z"):
            copy.execute(
                "INSERT INTO runs BY NAME SELECT * REPLACE ($name AS run_id) FROM runs LIMIT 1", {"name": name}
            )
    program = folder / "bin" / "trackside"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m app.cli.main "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    for shell in SCRIPTS:
        (folder / f"script.{shell}").write_text(trackside("completion", shell).stdout, encoding="utf-8")
    return folder


def environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TRACKSIDE_WAREHOUSE": str(folder / "accounting"),
        "HOME": str(folder),
        "TERM": "xterm",
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "200",
    }


def typed(shell: str, keys: str, folder: Path, cwd: Path, env: dict[str, str]) -> str:
    """What a shell in a terminal prints after these keys; the last one must have it print `END` in a line."""
    main, other = pty.openpty()
    with subprocess.Popen(
        START[shell], stdin=other, stdout=other, stderr=other, cwd=cwd, env=env, start_new_session=True
    ) as process:
        os.close(other)
        try:
            os.write(main, SETUP[shell].format(script=folder / f"script.{shell}").encode())
            _read_until(main, "READY> ")
            os.write(main, keys.encode())
            return _read_until(main, "\nEND")
        finally:
            process.kill()
            os.close(main)


def _read_until(terminal: int, text: str) -> str:
    read = ""
    while text not in read.replace("\r", ""):
        ready, _, _ = select.select([terminal], [], [], DEADLINE_S)
        assert ready, f"no {text!r} in {read!r}"
        read += os.read(terminal, 65536).decode(errors="replace")
    return read.replace("\r", "")


def completed(shell: str, line: str, folder: Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    """The line after TAB, as the shell then takes it: it is printed by an `echo` put before it."""
    keys = f"{line}{TAB}{BEGINNING}echo BEGIN \nprintf '\\nEND\\n'\n"
    text = typed(shell, keys, folder, cwd, env or environment(folder))
    return (
        next(each for each in CONTROLS.sub("", text).splitlines() if each.startswith("BEGIN "))
        .removeprefix("BEGIN ")
        .rstrip()
    )


@pytest.mark.parametrize("shell", SCRIPTS)
def test_script_parses(shell: str, folder: Path) -> None:
    needs(shell)
    done = subprocess.run([shell, "-n", folder / f"script.{shell}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("shell", SETUP)
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("trackside sho", "trackside show"),
        ("trackside show good", "trackside show goodput"),
        ("trackside show lost --by us", "trackside show lost --by user"),
        ("trackside show lost --format=pa", "trackside show lost --format=parquet"),
        ("trackside show lost --cluster t", "trackside show lost --cluster tiny"),
        ("trackside show ettr --run x", "trackside show ettr --run xgood-20261001T000000Z"),
        ("trackside ingest runlog scri", "trackside ingest runlog script."),
    ],
)
def test_tab_completes_and_hostile_names_run_nothing(
    shell: str, line: str, expected: str, folder: Path, tmp_path: Path
) -> None:
    needs(shell)
    (tmp_path / "script.").touch()
    assert completed(shell, line, folder, tmp_path) == expected
    assert [each.name for each in tmp_path.iterdir()] == ["script."]


@pytest.mark.slow
@pytest.mark.parametrize("shell", SETUP)
def test_shell_takes_the_answer_as_data(shell: str, folder: Path, tmp_path: Path) -> None:
    """Even if the program offered names that a shell interprets, nothing runs when they are listed."""
    needs(shell)
    program = tmp_path / "bin" / "trackside"
    program.parent.mkdir()
    names = "\n".join(name for name in HOSTILE if "\n" not in name)
    program.write_text(f"#!/bin/sh\ncat <<'E'\nwords\n{names}\nE\n", encoding="utf-8")
    program.chmod(0o755)
    env = environment(folder) | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    keys = f"trackside show ettr --run x{TAB}{TAB}{KILL}printf '\\nEND\\n'\n"
    assert "; touch HACKED" in typed(shell, keys, folder, tmp_path, env)
    assert [each.name for each in tmp_path.iterdir()] == ["bin"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("trackside sho", ["show"]),
        ("trackside show lost --by us", ["user"]),
        ("trackside show lost --format=pa", ["--format=parquet"]),
        ("trackside show ettr --run x", ["xgood-20261001T000000Z"]),
        ("trackside ingest runlog bi", ["bin/"]),
    ],
)
def test_fish_completes_and_hostile_names_run_nothing(line: str, expected: list[str], folder: Path) -> None:
    needs("fish")
    program = f"source {folder / 'script.fish'}; complete -C {shlex.quote(line)}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", program], cwd=folder, env=environment(folder), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert [each.partition("\t")[0] for each in done.stdout.splitlines()] == expected, done.stderr
    assert not (folder / "HACKED").exists()


def test_files_with_spaces_are_quoted_by_bash(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a file.jsonl").touch()
    assert completed("bash", "trackside ingest runlog a", folder, tmp_path) == "trackside ingest runlog a file.jsonl"
