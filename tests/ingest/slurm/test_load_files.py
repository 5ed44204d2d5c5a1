"""Files given to `trackside ingest`: which time they speak for, what is said of them, and what is summed up."""

from __future__ import annotations

import io
import os
import random
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from app.cli import main as cli
from ingest.load_warnings import from_records, messages
from queries.warehouse import open_reader
from tests.support.slurm.dumps import HEADER, START, rows_of, tiny, with_rows
from tests.support.slurm.parsing import DATA, at

if TYPE_CHECKING:
    from pathlib import Path

ASSOC, QOS, TOPOLOGY, LIST, HISTORY, RUNAWAY = (
    DATA / name
    for name in (
        "assoc.sacctmgr.txt",
        "qos.sacctmgr.txt",
        "topology.scontrol.txt",
        "reservations-second.scontrol.txt",
        "reservations-second.sacctmgr.txt",
        "runaway.sacctmgr.txt",
    )
)
TIMELESS = [ASSOC, QOS, TOPOLOGY, LIST, HISTORY, RUNAWAY]
SACCT = DATA / "kinds.sacct.txt"
REACHED = at(1795284327)
"""Up to when `SACCT` tells anything."""


class Shell:
    """The command line on a warehouse of its own; what it says is kept."""

    def __init__(self, root: Path, captured: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self._captured = captured
        self.out = self.err = ""

    def __call__(self, *arguments: object) -> int:
        self._captured.readouterr()
        status = cli.main([*map(str, arguments), "--warehouse", str(self.root)])
        self.out, self.err = self._captured.readouterr()
        return status

    def loads(self) -> dict[str, tuple[datetime | None, datetime | None]]:
        """What each origin's load speaks for."""
        with open_reader(self.root) as reader:
            rows = reader.table("loads").select("origin", "covers_from", "covers_until").rows()
        return {origin.rpartition("/")[2]: (since, until) for origin, since, until in rows}

    def warnings(self, name: str) -> list[str]:
        with open_reader(self.root) as reader:
            rows = reader.table("loads").select("origin", "warnings").rows()
        of_file = [warnings for origin, warnings in rows if origin.endswith(name)]
        return [message for warnings in of_file for message in messages(from_records(warnings))]


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path / "w", capsys)


# --- the summary ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_several_files_are_summed_up_in_one_line(shell: Shell, tmp_path: Path) -> None:
    rows = rows_of(tiny(30).accounting)
    for name, part in {"a.txt": rows[:20], "b.txt": [*rows[15:], "1|2"], "none.txt": []}.items():
        (tmp_path / name).write_text(with_rows(part))
    files = [tmp_path / name for name in ("a.txt", "b.txt", "none.txt")]
    assert shell("ingest", "slurm", "--cluster", "tiny", *files) == 0
    assert f"  1 rejected: 2 fields, expected {HEADER.count('|') + 1}, first in line {len(rows) - 13:,}\n" in shell.err
    [line] = [line for line in shell.err.splitlines() if line.startswith("3 files")]
    counts = f"{len(rows):,} rows new, 5 known already, 0 skipped, 1 rejected, 1 warning"
    assert re.fullmatch(rf"3 files: {re.escape(counts)}; 2026-10-01T\S+Z to 2026-10-\S+Z", line)
    assert shell("ingest", "slurm", "--cluster", "tiny", *files, tmp_path / "nowhere.txt") == 35
    [line] = [line for line in shell.err.splitlines() if line.startswith("4 files")]
    assert line.startswith(f"4 files (1 could not be loaded): 0 rows new, {len(rows) + 5} known already, 0 skipped")


@pytest.mark.slow
def test_one_file_needs_no_sum_and_reports_new_rows(shell: Shell) -> None:
    assert shell("ingest", "slurm", SACCT) == 0
    assert "  43 rows: 43 new\n" in shell.err
    assert "files" not in shell.err
    assert shell("ingest", "slurm", SACCT) == 0
    assert "  43 rows: 0 new, 43 known already\n" in shell.err


def test_quiet_prints_nothing(shell: Shell) -> None:
    assert shell("ingest", "slurm", "--quiet", SACCT, QOS) == 0
    assert (shell.out, shell.err) == ("", "")


# --- the window ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_window_of_a_file_is_its_dumps_own_and_complete(shell: Shell) -> None:
    window = ("--since", "2026-11-21T18:04:30", "--until", "2026-11-21T18:05:00")
    assert shell("ingest", "slurm", SACCT, *window) == 0
    since, until = datetime(2026, 11, 21, 18, 4, 30, tzinfo=UTC), datetime(2026, 11, 21, 18, 5, tzinfo=UTC)
    assert shell.loads() == {"kinds.sacct.txt": (since, until)}
    with open_reader(shell.root) as reader:
        assert reader.table("attempts").height == 43
    assert "requested for: 2026-11-21T18:04:30Z to 2026-11-21T18:05:00Z; no row was left out" in shell.err
    assert shell("ingest", "slurm", SACCT) == 0
    assert "left out" not in shell.err


@pytest.mark.parametrize("how", ["torn row", "no dump"])
def test_refused_rows_or_a_bad_file_make_completeness_unknown(shell: Shell, tmp_path: Path, how: str) -> None:
    good = SACCT.read_text(encoding="utf-8")
    (tmp_path / "other.txt").write_text(good + "1|x\n" if how == "torn row" else "no dump\n")
    shell("ingest", "slurm", SACCT, str(tmp_path / "other.txt"), "--since", "2026-11-21", "--until", "2026-11-22")
    assert "the files count as requested for" in shell.err
    assert "left out" not in shell.err
    shell("ingest", "slurm", str(tmp_path / "none.txt"), "--since", "2026-11-21")
    assert "taken as" not in shell.err


def test_a_window_that_ends_before_it_begins_is_refused(shell: Shell) -> None:
    assert shell("ingest", "slurm", SACCT, "--since", "2026-11-22", "--until", "2026-11-21") == 2
    assert "--since 2026-11-22T00:00:00Z is not before --until 2026-11-21T00:00:00Z" in shell.err


def test_a_relative_period_is_refused_for_a_file(shell: Shell) -> None:
    assert shell("ingest", "slurm", SACCT, "--since", "7d") == 2
    assert "'7d' is not a time; write it like 2026-10-01" in shell.err


# --- when it was made ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("file", TIMELESS, ids=lambda file: file.name)
def test_undated_input_has_the_time_of_files_loaded_with_it(file: Path, shell: Shell) -> None:
    assert shell("ingest", "slurm", file, SACCT) == 0
    _, until = shell.loads()[file.name]
    assert until == (None if file == HISTORY else REACHED)  # a history speaks for a window, which nobody told
    with open_reader(shell.root) as reader:
        assert not file.name.startswith("reservations") or set(reader.table("reservations")["last_seen_at"]) == {
            REACHED
        }


@pytest.mark.slow
@pytest.mark.parametrize("file", TIMELESS, ids=lambda file: file.name)
def test_undated_input_is_refused_alone_and_taken_with_a_time(file: Path, shell: Shell) -> None:
    assert shell("ingest", "slurm", file, "--cluster", "bench") == 35
    assert "it is a snapshot without a time" in shell.err
    assert shell("ingest", "slurm", file, "--cluster", "bench", "--until", "2026-11-21T18:00") == 0


@pytest.mark.slow
def test_events_alone_warn_and_end_when_a_later_load_states(shell: Shell, tmp_path: Path) -> None:
    events = tmp_path / "events.txt"
    events.write_text("Cluster|NodeName|TimeStart|TimeEnd|State|Reason\nbench|n1|1795284000|1795284010|DOWN|x\n")
    for inputs, warned, until in (
        ([events, SACCT], False, REACHED),
        ([events], True, REACHED),
        ([events, "--until", "2026-11-21T18:05"], False, at(1795284300)),
    ):
        assert shell("ingest", "slurm", *inputs) == 0
        assert ("does not record when it was made" in shell.err) is warned
        with open_reader(shell.root) as reader:
            ends = reader.query("coverage", cluster="bench", source="node_states")["ended_at"]
        assert set(ends) == {until}


@pytest.mark.slow
def test_order_of_files_is_irrelevant_to_when_they_were_made(shell: Shell, tmp_path: Path) -> None:
    nodes, shuffled = DATA / "kinds.nodes.txt", random.Random(1)
    for number in range(3):
        files = [*TIMELESS, nodes, SACCT]
        shuffled.shuffle(files)
        shell.root = tmp_path / f"w{number}"
        assert shell("ingest", "slurm", *files) == 0
        assert {shell.loads()[file.name][1] for file in TIMELESS if file != HISTORY} == {REACHED}


def test_a_node_list_without_a_single_time_follows_the_same_rule(shell: Shell, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.txt"
    nodes.write_text("NodeName=n1 CPUTot=64 RealMemory=1000 State=IDLE\n")
    assert shell("ingest", "slurm", nodes, "--cluster", "bench") == 35
    assert "it is a snapshot without a time" in shell.err
    assert shell("ingest", "slurm", nodes, SACCT) == 0
    assert shell.loads()["nodes.txt"] == (REACHED, REACHED)


def test_the_time_proposed_is_that_of_the_file(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    qos = tmp_path / "qos.txt"
    qos.write_bytes(QOS.read_bytes())
    os.utime(qos, (START, START))
    assert shell("ingest", "slurm", qos, "--cluster", "c") == 35
    assert "--until 2026-10-01T00:00:00Z (when it was last written)" in shell.err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(QOS.read_bytes()))))
    assert shell("ingest", "slurm", "-", "--cluster", "c") == 35
    assert "--until TIME (UTC)" in shell.err
    assert "2026-" not in shell.err


# --- the zone ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("Cluster|NodeName|TimeStart|TimeEnd|State\nc|n1|2026-10-01T00:00:00|Unknown|DOWN\n", "sacctmgr -P show event"),
        ("NodeName=n1 CPUTot=64 State=IDLE BootTime=2026-10-01T00:00:00\n", "scontrol show node"),
        ("ReservationName=m StartTime=2026-10-01T00:00:00 EndTime=2026-10-02T00:00:00 Nodes=n1 State=ACTIVE\n",
         "scontrol show reservation"),
        ("Assocs|Cluster|TimeEnd|Flags|ID|Name|NodeName|TimeStart|TRES|UnusedWall\n"
         "2|c|2026-10-02T00:00:00|MAINT|1|m|n1|2026-10-01T00:00:00|cpu=1|0.0\n", "sacctmgr -P show reservation"),
        ("Time|Action|Actor|Where|Info|Cluster\n2026-10-01T00:00:00|Add Users|root|bob||c\n",
         "sacctmgr -P show transactions"),
        ("ID|Name|Partition|Cluster|State|TimeSubmit|TimeStart|TimeEnd\n"
         "7|x|main|c|RUNNING|2026-10-01T00:00:00|2026-10-01T00:00:00|Unknown\n",
         "sacctmgr -P show runawayjobs"),
        ("JobIDRaw|Cluster|Submit|Start|End|State|NodeList|AllocTRES\n"
         "1|c|2026-10-01T00:00:00|2026-10-01T00:00:00|Unknown|RUNNING|n1|cpu=1\n", "sacct ..."),
    ],
)  # fmt: skip
def test_local_times_name_the_command_that_printed_them(text: str, command: str, shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "dump.txt"
    file.write_text(text)
    assert shell("ingest", "slurm", file, "--cluster", "c", "--until", "2026-10-03") == 34
    assert f"SLURM_TIME_FORMAT=%s {command}" in shell.err
    assert command == "sacct ..." or "sacct ..." not in shell.err
    assert "--timezone" in shell.err


def test_an_old_sdiag_gets_no_hint_for_other_times(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "sdiag.txt"
    file.write_text("sdiag output at Thu Oct 01 00:00:00 2026\nJobs submitted: 7\n")
    assert shell("ingest", "slurm", file, "--cluster", "c") == 34
    assert "--timezone" in shell.err
    assert "SLURM_TIME_FORMAT" not in shell.err


# --- nothing in it -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("header", "requests_seen"),
    [
        (HEADER, "did the window hold any jobs?"),
        ("Cluster|NodeName|TimeStart|TimeEnd|State", "did the window hold any node events?"),
        ("Time|Action|Actor|Where|Info|Cluster", "did the window hold any account changes?"),
        ("Cluster|Account|User|Partition|ID|Share", "was whoever made it allowed to see them?"),
    ],
)
def test_dump_with_a_header_only_is_reported_on_its_load(
    header: str, requests_seen: str, shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "dump.txt").write_text(f"{header}\n")
    window = ("--since", "2026-10-01", "--until", "2026-10-02")
    assert shell("ingest", "slurm", tmp_path / "dump.txt", "--cluster", "c", *window) == 0
    assert shell.warnings("dump.txt") == [f"0 rows: header only; {requests_seen}"]
    assert f"warning: 0 rows: header only; {requests_seen}" in shell.err
    assert shell("status") == 0
    assert f"0 rows: header only; {requests_seen}" in shell.out


@pytest.mark.parametrize(
    "text", ["No reservations in the system\n", "Runaway Jobs: No runaway jobs found on cluster c\n"]
)
def test_slurms_own_word_for_none_is_no_warning(text: str, shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "none.txt").write_text(text)
    assert shell("ingest", "slurm", tmp_path / "none.txt", "--cluster", "c", "--until", "2026-10-02") == 0
    assert shell.warnings("none.txt") == []


def test_empty_list_of_jobs_in_json_is_reported(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "jobs.json").write_text('{"jobs": [], "meta": {"plugin": {"type": "openapi/dbv0.0.38"}}, "errors": []}')
    window = ("--since", "2026-10-01", "--until", "2026-10-02")
    assert shell("ingest", "slurm", tmp_path / "jobs.json", "--cluster", "c", *window) == 0
    assert "0 rows: an empty list; did the window hold any jobs?" in shell.warnings("jobs.json")


# --- names ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["slurm", "prometheus", "runlog"])
def test_standard_input_cannot_be_named_twice(source: str, shell: Shell) -> None:
    assert shell("ingest", source, "-", "-") == 2
    assert "named twice" in shell.err
    assert not shell.root.exists() or list(shell.root.glob("published/*")) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "close"), [("attempt", "attempts"), ("Attempts", "attempts"), ("gputime", "gpu_time"), ("zzzz", None)]
)
def test_an_unknown_table_is_answered_with_the_closest_name(name: str, close: str | None, shell: Shell) -> None:
    assert shell("ingest", "slurm", SACCT) == 0
    assert shell("export", name) == 50
    assert "trackside export tables" in shell.err
    assert (f"did you mean {close}" in shell.err) if close else ("did you mean" not in shell.err)
    assert len(shell.err.splitlines()) == 2
    assert len(shell.err) < 200


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ([SACCT, "--again"], "leave it out with files"),
        (["--timezone", "UTC"], "apply to files, and no file is given"),
        (["--delimiter", ";"], "apply to files, and no file is given"),
        (["--accept-truncated"], "apply to files, and no file is given"),
    ],
)
def test_file_options_are_refused_without_files_and_vice_versa(
    shell: Shell, arguments: list[object], printed: str
) -> None:
    assert shell("ingest", "slurm", *arguments) == 2
    assert printed in shell.err
    assert not shell.root.exists()


def test_undated_inventories_have_the_time_of_dated_ones(shell: Shell, tmp_path: Path) -> None:
    with_time, without = tmp_path / "n1.txt", tmp_path / "n2.txt"
    node = "NodeName={} Arch=x86_64 CPUTot=64 Gres=gpu:h100:8 State=IDLE Partitions=main\n   BootTime={} {}\n\n"
    with_time.write_text(node.format("n1", "2026-10-01T00:00:00", "LastBusyTime=2026-10-05T00:00:00"))
    without.write_text(node.format("n2", "None", ""))
    for order in ((with_time, without), (without, with_time)):
        shell.root = tmp_path / f"w{order[0].name}"
        status = shell("ingest", "slurm", "--cluster", "c1", "--timezone", "UTC", *order)
        assert status == 0, shell.err
    with open_reader(tmp_path / "wn1.txt") as one, open_reader(tmp_path / "wn2.txt") as other:
        assert one.table("nodes").sort("node").equals(other.table("nodes").sort("node"))


def test_no_more_is_new_than_was_read(shell: Shell) -> None:
    assert shell("ingest", "slurm", "--cluster", "bench", "--until", "2026-11-21", TOPOLOGY) == 0
    with open_reader(shell.root) as reader:
        [(new, taken)] = reader.table("loads").select("rows_new", "rows_loaded").rows()
        assert reader.table("node_topology").height >= taken
    assert 0 < new <= taken
    assert "-" not in shell.err.partition("rows:")[2].partition("\n")[0]
