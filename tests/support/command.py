"""Running the command line as a person does, and comparing warehouses."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TextIO
from unittest import mock

import polars as pl

from queries import sql_files
from queries.warehouse import open_reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.lab import SlurmLab

ROOT = Path(__file__).parents[2]
PROGRAM: Final = "trackside"
AT_START: Final = ("PYTHON", "POLARS", "LD_", "TZ", "LC_", "LANG", "OMP_", "_RJEM")
"""Beginnings of the variables that the interpreter and the libraries read once."""
CLOCKS = {
    "loads": None,
    "run_sessions": ["read_at"],
    "read_files": ["changed_ns"],
    "computes": ["computed_at", "data_version"],
    "ledger_days": ["computed_at"],
    "result_windows": ["computed_at"],
    "meta": None,
    "schema_steps": None,
    "partitions": None,
    "node_lists": None,
}
"""What differs between two warehouses that say the same: logs of loading, columns that tell when it was done, and node
lists of sightings that were corrected later."""


def trackside(
    *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, and return what a process of its own would return.

    A process needs more than a second to import what a verb needs. Tests whose subject is the process itself (signals,
    start-up, another process beside it) use `trackside_process`.
    """
    return _in_process(arguments, env={**os.environ, **(env or {})}, cwd=cwd or ROOT)


def trackside_process(
    *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "app.cli.main", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        cwd=cwd or ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def trackside_on(lab: SlurmLab, warehouse: Path, *arguments: str, check: bool = True) -> str:
    """Output of the command line with a lab's Slurm at hand; it must succeed unless `check` is false."""
    done = _in_process((*arguments, "--warehouse", str(warehouse)), env=dict(lab.env), cwd=Path.cwd())
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout


def _in_process(arguments: Sequence[str], *, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line with this environment and in this folder, with stdout and stderr of its own."""
    with contextlib.ExitStack() as stack:
        empty = stack.enter_context(Path(os.devnull).open("rb"))
        stdout, stderr = (stack.enter_context(tempfile.TemporaryFile()) for _ in (1, 2))
        streams = (empty.fileno(), stdout.fileno(), stderr.fileno())
        status = run_in_process(arguments, env=env, cwd=cwd, streams=streams)
        return subprocess.CompletedProcess([PROGRAM, *arguments], status, _text(stdout), _text(stderr))


def run_in_process(arguments: Sequence[str], *, env: dict[str, str], cwd: Path, streams: tuple[int, int, int]) -> int:
    """Exit status of the command line, run in this process with these file descriptors as its standard streams."""
    late = [name for name in env if name.startswith(AT_START) and env[name] != os.environ.get(name)]
    assert not late, f"{late}: read when a process starts"
    from app.cli.main import main  # tests of single functions need none of it

    with _surroundings(env, cwd), _streams(streams), mock.patch.object(sys, "argv", [PROGRAM, *arguments]):
        try:
            status = main(list(arguments))
        except SystemExit as exited:  # argparse: --help and wrong usage
            status = exited.code if isinstance(exited.code, int) else 0 if exited.code is None else 1
        except Exception:  # noqa: BLE001 - as the interpreter does
            traceback.print_exc()
            status = 1
        sys.stdout.flush()
        sys.stderr.flush()
        return status


@contextlib.contextmanager
def _surroundings(env: dict[str, str], cwd: Path) -> Iterator[None]:
    with mock.patch.dict(os.environ, env, clear=True), contextlib.chdir(cwd):
        yield


@contextlib.contextmanager
def _streams(files: tuple[int, int, int]) -> Iterator[None]:
    """Have stdin, stdout and stderr be these files, for Python and for the libraries beneath it."""
    with contextlib.ExitStack() as stack:
        for number, file in enumerate(files):
            stack.callback(_restore, number, os.dup(number))
            os.dup2(file, number)
        for name, stream in _standard_streams().items():
            stack.enter_context(stream)
            stack.enter_context(mock.patch.object(sys, name, stream))
        yield


def _standard_streams() -> dict[str, TextIO]:
    """The three streams as the interpreter opens them: a terminal's are written line by line."""
    return {
        "stdin": os.fdopen(0, encoding="utf-8", closefd=False),
        "stdout": os.fdopen(1, "w", encoding="utf-8", closefd=False),
        "stderr": os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False),
    }


def _restore(number: int, kept: int) -> None:
    os.dup2(kept, number)
    os.close(kept)


def _text(file: BinaryIO) -> str:
    """What was written, with newlines as `subprocess` returns them in text mode."""
    file.seek(0)
    return file.read().decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def contents(warehouse: Path) -> dict[str, pl.DataFrame]:
    """Every table of a published warehouse, sorted, without what only tells when things were done."""
    result = {}
    with open_reader(warehouse) as reader:
        for name in (*(table.shown for table in sql_files.all_tables()), "attempt_nodes"):
            left_out = CLOCKS.get(name, [])
            if left_out is None:
                continue
            rows = reader.table(name).drop(left_out)
            if name == "rejects":  # where a refused row was first seen depends on which file came first
                rows = rows.drop("origin", "line")
            flat = rows.with_columns(pl.col(pl.List(pl.String)).list.join("\0"))
            result[name] = flat.sort(flat.columns)
    return result


def assert_same(one: Path, other: Path) -> None:
    """Both warehouses say the same; what the other one says is kept, for it is often what many are compared with."""
    left, right = contents(one), _kept_contents(other, _files(other)) if other.is_dir() else contents(other)
    for name, rows in left.items():
        assert rows.equals(right[name]), f"{name} differs:\n{rows}\n{right[name]}"


@functools.lru_cache(maxsize=4)
def _kept_contents(warehouse: Path, files: tuple[tuple[str, int, int], ...]) -> dict[str, pl.DataFrame]:
    """`contents` of a warehouse as long as its files are these: half a second of a core."""
    return contents(warehouse)


def _files(warehouse: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, time of the last change and size of each file in a folder."""
    found = ((str(path), path.lstat()) for path in warehouse.rglob("*"))
    return tuple(sorted((name, state.st_mtime_ns, state.st_size) for name, state in found))
