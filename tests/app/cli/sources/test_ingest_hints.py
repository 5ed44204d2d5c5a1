"""The likeliest stumbles with Slurm's files are answered with the line to type."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from app.cli.ingest_hints import USES, local_zone
from ingest.slurm.accounting.sacct import USED
from tests.support.command import trackside
from tests.support.slurm.dumps import tiny
from tests.support.slurm.parsing import DATA

if TYPE_CHECKING:
    from pathlib import Path


NODES = """\
NodeName=n1 Arch=x86_64 CoresPerSocket=32
   CPUAlloc=0 CPUTot=64 CPULoad=0.01
   Gres=gpu:h100:8
   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1
   BootTime=2026-09-01T10:00:00 SlurmdStartTime=2026-09-01T10:01:00
   LastBusyTime=2026-10-01T10:00:00

"""
SACCT = """\
JobIDRaw|Cluster|State|Submit|Start|End|NodeList|AllocTRES{more}
12|c|COMPLETED|1790812800|1790812800|1790816400|n1|billing=8,cpu=8,gres/gpu=8,node=1{values}
"""


@pytest.mark.slow
def test_local_times_get_the_line_to_type_and_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    (tmp_path / "nodes.txt").write_text(NODES)
    (tmp_path / "sacct.txt").write_text(SACCT.format(more="", values=""))
    files = (str(tmp_path / "sacct.txt"), str(tmp_path / "nodes.txt"))
    done = trackside("ingest", "slurm", *files, "--warehouse", str(tmp_path / "a w"))
    assert done.returncode == 34
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("To type: "))
    assert "--timezone Europe/Berlin" in line
    assert "this machine's zone" in line
    words = shlex.split(line.removeprefix("To type: ").partition("   (")[0])
    assert trackside(*words[1:]).returncode == 0
    assert "To type" not in trackside(*words[1:]).stderr


LOCAL = """\
JobID|State|Submit|Start|End|NodeList|AllocTRES|Elapsed
12|COMPLETED|2026-10-01T00:00:00|2026-10-01T00:00:00|2026-10-01T01:00:00|n1|billing=8,cpu=8,gres/gpu=8,node=1|01:00:00
"""


def test_files_without_a_cluster_get_one_line_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    files = [tmp_path / "sacct.txt", tmp_path / "nodes.txt"]
    for file, text in zip(files, (LOCAL, NODES), strict=True):
        file.write_text(text)
    done = trackside("ingest", "slurm", *map(str, files), "--warehouse", str(tmp_path / "w"))
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("To type: "))
    assert line.partition("   (")[0].endswith(" --cluster NAME --timezone Europe/Berlin")
    words = shlex.split(line.removeprefix("To type: ").partition("   (")[0])
    assert trackside(*words[1:]).returncode == 0


def test_epochs_without_a_cluster_need_no_zone(tmp_path: Path) -> None:
    file = tmp_path / "sacct.txt"
    file.write_text(SACCT.format(more="", values="").replace("|Cluster", "").replace("|c|", "|"))
    load = ("ingest", "slurm", str(file), "--warehouse", str(tmp_path / "w"))
    done = trackside(*load)
    assert f"--warehouse {tmp_path / 'w'} --cluster NAME   (" in done.stderr
    assert "--timezone" not in done.stderr
    assert "--cluster NAME" not in trackside(*load, "--cluster", "c").stderr


def test_zone_is_the_machines_where_it_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, name in (("Asia/Tokyo", "Asia/Tokyo"), (":/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"), ("/x", None)):
        monkeypatch.setenv("TZ", text)
        assert local_zone() == name


@pytest.mark.slow
def test_a_dump_of_few_columns_gets_hints_which_to_add(tmp_path: Path) -> None:
    few, most = tmp_path / "few.txt", tmp_path / "most.txt"
    few.write_text(SACCT.format(more="", values=""))
    load = ("ingest", "slurm", "--warehouse", str(tmp_path / "w"))
    said = trackside(*load, str(few)).stderr
    assert "few.txt lacks User (show ... --by user), Account (show ... --by account)" in said
    assert f"Add to the -o of sacct: {','.join(USES)}   (or all: -o ALL)" in said
    most.write_text(SACCT.format(more="|user|account|partition|JobName", values="|u|a|p|n"))
    assert "most.txt lacks ExitCode (the cause of failures)" in trackside(*load, str(most)).stderr
    assert " lacks " not in trackside(*load, str(few), "--quiet").stderr


@pytest.mark.slow
def test_a_whole_dump_lacks_nothing(tmp_path: Path) -> None:
    load = ("ingest", "slurm", "--warehouse", str(tmp_path / "w"))
    assert " lacks " not in trackside(*load, str(DATA / "usage.sacct.txt")).stderr
    assert " lacks " not in trackside(*load, str(DATA / "usage.sacct.json")).stderr
    few = trackside(*load, *tiny(5).write(tmp_path)).stderr
    assert (
        " lacks TotalCPU (CPU efficiency), MaxRSS (memory efficiency). Add to the -o of sacct: TotalCPU,MaxRSS " in few
    )


def test_named_columns_are_columns_that_are_read() -> None:
    assert {name.lower() for name in USES} <= {name.lower() for name in USED}
