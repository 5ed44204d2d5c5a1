"""A file given to another source, or in place of one: the refusal has the command that loads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from app.cli.file_kinds import source_of
from tests.support.command import trackside
from tests.support.kubernetes.objects import as_list, as_yaml, pod
from tests.support.slurm.dumps import tiny
from tests.support.telemetry.dcgm_files import lines

if TYPE_CHECKING:
    from pathlib import Path

ANSWER = {
    "status": "success",
    "data": {"resultType": "matrix", "result": [{"metric": {"__name__": "up"}, "values": []}]},
}
RANKS = '{"type":"rank_steps","v":1,"t":1790812800.5,"end":1790812893.25}\n'
LOG = '{"type": "run", "v": 1, "t": 1790000000, "run_id": "a"}\n'
PRINTED = "2026-10-01T08:00:00Z iteration 1/ 500 | elapsed time per iteration (ms): 2000.0 | lm loss: 2.15E+00 |\n"

FILES = {
    "slurm": [tiny().accounting, "NodeName=n1 Arch=x86_64 CPUTot=64\n"],
    "prometheus": ["\n".join(lines(60)), json.dumps(ANSWER)],
    "kubernetes": [as_list(pod("a")).decode(), as_yaml(pod("a")).decode()],
    "ranks": [RANKS, '{"schemaVersion": 1, "traceEvents": [', '{"entries": []}'],
    "determined": ["allocation_id,start_time,end_time\n"],
    "runlog": [LOG, PRINTED, ",_step,_timestamp,loss\n0,0,1,2\n"],
}  # fmt: skip


@pytest.mark.parametrize(("source", "text"), [(source, text) for source, texts in FILES.items() for text in texts])
def test_source_follows_from_the_beginning(tmp_path: Path, source: str, text: str) -> None:
    (tmp_path / "a file").write_text(text)
    assert source_of(str(tmp_path / "a file")) == source


@pytest.mark.parametrize("text", ["", "root:x:0:0\n", "{}", "\x01\x02" * 50])
def test_other_files_are_of_no_source(tmp_path: Path, text: str) -> None:
    (tmp_path / "other").write_text(text)
    assert [source_of(str(each)) for each in (tmp_path / "other", tmp_path, tmp_path / "none")] == [None] * 3


def test_a_file_in_place_of_a_source_gets_its_command(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text(LOG)
    done = trackside("ingest", str(tmp_path / "a file"))
    assert done.returncode == 2
    assert done.stderr.endswith(f"; that file is loaded by: trackside ingest runlog '{tmp_path / 'a file'}'\n")
    assert (
        "there are: slurm" in trackside("ingest", "slum2").stderr
        or "did you mean" in trackside("ingest", "slrm").stderr
    )


@pytest.mark.parametrize("named", ["slurm", "prometheus", "runlog", "kubernetes"])
def test_a_file_of_another_source_gets_its_command(tmp_path: Path, named: str) -> None:
    for source, (text, *_) in FILES.items():
        if source == named:
            continue
        file = tmp_path / source
        file.write_text(text)
        done = trackside("ingest", named, str(file), "--cluster", "c", "--warehouse", str(tmp_path / "w"))
        assert done.returncode not in {0, 1, 2}
        assert f"trackside ingest {source} {file}" in done.stderr
