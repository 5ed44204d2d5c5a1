"""Configuration, claims and inputs that no person would write: each an error of its kind, no traceback, no hang."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from app.claims.file import read_claims
from app.cli import main as cli
from app.config import settings as config
from app.config.toml_file import LARGEST
from app.errors import ClaimsError, ConfigError
from tests.support.command import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOSTILE_TOML: Final = {
    "deep list": "a = " + "[" * 100_000,
    "deep tables": "a = " + "{a = " * 50_000,
    "deep key": ".".join("a" * 20_000) + " = 1",
    "digits": f"a = {'9' * 5_000}",
    "large": "# " + "x" * LARGEST,
    "no text": "a = '\ud800'",
}
SOURCES: Final = ("slurm", "prometheus", "runlog")


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE_TOML)
def test_hostile_toml_is_a_mistake_in_the_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / "hostile.toml"
    path.write_bytes(HOSTILE_TOML[name].encode("utf-8", "surrogatepass"))
    with pytest.raises(ConfigError, match=r"hostile\.toml"):
        config.load(path)
    with pytest.raises(ClaimsError, match=r"hostile\.toml"):
        read_claims(path)


def test_a_pipe_or_a_device_is_no_configuration(tmp_path: Path) -> None:
    for name, error in ((str(tmp_path), "Is a directory"), ("/dev/zero", "this is a device")):
        with pytest.raises(ConfigError, match=error):
            config.load(type(tmp_path)(name))
        with pytest.raises(ClaimsError, match=error):
            read_claims(type(tmp_path)(name))
    with pytest.raises(ClaimsError, match="cannot be read"):
        read_claims(tmp_path / "a\0b")


@pytest.mark.parametrize(
    ("setting", "output"),
    [
        ("[slurm]\nlookback_days = 1e300", "slurm.lookback_days = 1e\\+300: too large; allowed: at most 36525"),
        ("[slurm]\nlookback_days = inf", "not a finite number"),
        ("[retention]\nsamples_days = nan", "not a finite number"),
        ("[rules]\nrun_gap_hours = 1e12", "too large; allowed: at most 876600"),
        ("[sql]\nseconds = inf", "not a finite number"),
        (f"[sql]\nrows = {10**18}", "too large"),
        ('warehouse = "a\\u0000b"', "warehouse = .*it holds a NUL"),
        ('claims = "a\\u0000b"', "claims = .*it holds a NUL"),
        ('cluster = "a\\u0000b"', "cluster = .*it holds a NUL"),
        ('[serve]\nrunlogs = ["a\\u0000b*"]', "it holds a NUL"),
    ],
)
def test_a_setting_that_nothing_can_be_done_with_is_a_mistake(tmp_path: Path, setting: str, output: str) -> None:
    path = tmp_path / "trackside.toml"
    path.write_text(setting, "utf-8")
    with pytest.raises(ConfigError, match=output):
        config.load(path)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files that are hard to read, by name."""
    folder = tmp_path_factory.mktemp("inputs")
    os.mkfifo(folder / "pipe")
    (folder / "bomb.gz").write_bytes(gzip.compress(b"JobID|State\n" + b"x" * (40 << 20)))
    (folder / "json.gz").write_bytes(gzip.compress(b'{"jobs":[{"name":"' + b"x" * (40 << 20)))
    (folder / "deep.json").write_text('{"jobs":' + "[" * 100_000)
    (folder / "nodes.json").write_text('{"nodes":[' + '{"name":' * 100_000)
    (folder / "digits.json").write_text('{"jobs":[{"job_id":' + "9" * 5_000 + "}]}")
    (folder / "run.jsonl").write_text('{"type":"run","v":1,"t":' + "9" * 5_000 + ',"run_id":"r"}\n' + "[" * 100_000)
    return {path.name: path for path in folder.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "name", ["bomb.gz", "json.gz", "deep.json", "nodes.json", "digits.json", "run.jsonl", "/dev/zero", "."]
)
def test_unreadable_input_has_its_own_exit_status(
    inputs: dict[str, Path], source: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in ("run.jsonl", "nodes.json"):
        (tmp_path / each).hardlink_to(inputs[each])
    named = str(inputs.get(name, name))
    with contextlib.chdir(tmp_path):  # a folder is read whole: the checkout's has a virtual environment
        status = cli.main(["ingest", source, named, "--cluster", "c", "--warehouse", str(tmp_path / "w")])
    output = capsys.readouterr().err
    assert status in {30, 31, 32, 33, 34, 35} or "0 new, 1 rejected" in output, output
    assert "Traceback" not in output


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """An ingest of each source from a pipe that nothing writes into: they wait side by side."""
    folder = tmp_path_factory.mktemp("waiting")
    with contextlib.ExitStack() as running:
        processes = {}
        for source in SOURCES:
            os.mkfifo(folder / source)
            arguments = ["ingest", source, str(folder / source), "--warehouse", str(folder / f"w-{source}")]
            command = [sys.executable, "-m", "app.cli.main", *arguments]
            process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
            processes[source] = running.enter_context(process)
            running.callback(process.kill)
        yield processes


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_a_pipe_without_a_writer_does_not_hold_an_ingest_up(
    waiting: dict[str, subprocess.Popen[str]], source: str
) -> None:
    _, output = waiting[source].communicate()
    assert waiting[source].returncode == 35
    assert "a named pipe that nothing writes into" in output


@pytest.mark.slow
def test_one_hostile_run_log_among_others_costs_only_itself(tmp_path: Path, inputs: dict[str, Path]) -> None:
    run = {"type": "run", "v": 1, "t": 1_790_812_800, "run_id": "good", "cluster": "c"}
    (tmp_path / "good.jsonl").write_text(json.dumps(run) + "\n")
    names = [str(inputs[name]) for name in ("run.jsonl", "bomb.gz")] + [str(tmp_path / "good.jsonl")]
    done = subprocess.run(
        [sys.executable, "-m", "app.cli.main", "ingest", "runlog", *names, "--warehouse", str(tmp_path / "w")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 30
    assert "good.jsonl\n  1 row: 1 loaded" in done.stderr
