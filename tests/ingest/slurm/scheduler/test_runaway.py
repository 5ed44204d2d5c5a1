"""Runaway jobs: sacctmgr's list as a person made it, and what is found out live by reading only."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ingest.context import ParseContext
from ingest.errors import MissingColumnError, SourceDownError, SourceError
from ingest.slurm.commands.runner import Completed, Fetched
from ingest.slurm.detect import detect_kind
from ingest.slurm.people.merge import merge_runaway
from ingest.slurm.scheduler.runaway import fetch_runaway, parse_runaway
from tests.support.slurm.parsing import DATA, at, refusals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.tables import Parsed

ASKED = at(1795284000)
LOST = (at(1795281049), at(1795281149))


def read(data: bytes, **options: Any) -> Parsed:
    known: dict[str, Any] = {"origin": "runaway.txt", "until": ASKED, **options}
    return parse_runaway(data, ParseContext(**known))


def test_captured_list_is_read_without_its_note_and_question() -> None:
    data = (DATA / "runaway.sacctmgr.txt").read_bytes()
    assert b"Would you like to fix" in data
    assert detect_kind(data) == "slurm.runaway"
    parsed = read(data)
    assert parsed.frames["runaway_jobs"].rows() == [
        ("bench", "900", *LOST, "RUNNING", ASKED, ASKED),
        ("bench", "901", LOST[0], None, "PENDING", ASKED, ASKED),
    ]
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected, parsed.warnings) == (2, 2, 0, [])


def test_an_empty_list_is_a_result_too() -> None:
    data = b"Runaway Jobs: No runaway jobs found on cluster bench\n"
    assert detect_kind(data) == "slurm.runaway"
    parsed = read(data)
    assert parsed.frames["runaway_jobs"].is_empty()
    assert parsed.covers_until == ASKED
    assert parsed.clusters == {"bench"}


def test_row_without_a_submission_is_refused() -> None:
    parsed = read(b"ID|Cluster|State|TimeSubmit|TimeStart\n7|c|RUNNING|Unknown|1795281149\n")
    assert refusals(parsed) == [(2, "no TimeSubmit")]


def test_a_list_without_submissions_is_refused_as_a_whole() -> None:
    with pytest.raises(MissingColumnError, match="TimeSubmit"):
        read(b"ID|Cluster|State|TimeStart|TimeEnd\n7|c|RUNNING|1795281149|Unknown\n")


def test_reported_again_it_is_the_same_job_in_any_order() -> None:
    line = b"ID|Cluster|State|TimeSubmit|TimeStart\n7|c|RUNNING|1795281049|1795281149\n"
    first, later = read(line), read(line, until=ASKED + timedelta(hours=1))
    for order in ((first, later), (later, first), (first, later, first)):
        [row] = merge_runaway(*(parsed.frames["runaway_jobs"] for parsed in order)).to_dicts()
        assert (row["first_seen_at"], row["last_seen_at"]) == (ASKED, ASKED + timedelta(hours=1))


# --- live ----------------------------------------------------------------------------------------------


class Slurm:
    """A controller and an accounting that answer what they are told to."""

    def __init__(self, *, known: tuple[str, str], shown: str, private: str = "(null)", uid: str = "0") -> None:
        self.known = list(known)
        self.answers = {
            "sacct": shown,
            "scontrol": f"Configuration data as of now\nPrivateData             = {private}\n",
            "sacctmgr": "None\n",
            "id": f"{uid}\n",
        }
        self.asked: list[list[str]] = []

    def __call__(self, command: list[str], _: Mapping[str, str]) -> Completed:
        self.asked.append(command)
        output = self.known.pop(0) if command[0] == "squeue" else self.answers[command[0]]
        return Completed(0, output.encode(), b"")


def jobs(fetched: Fetched) -> list[str]:
    return read(fetched.data).frames["runaway_jobs"]["job_id"].to_list()


OPEN = """\
7|bench|RUNNING|1795281049|1795281149
10_[2-4%2]|bench|PENDING|1795281049|Unknown
11|bench|RUNNING|1795281049|1795281149
12|bench|RUNNING|1795281050|1795281150
900|bench|RUNNING|1795281049|1795281149
"""


def test_runaway_is_open_in_accounting_and_unknown_to_slurmctld() -> None:
    """The controller knows it neither before nor after."""
    slurm = Slurm(known=("7\n10\n11\n", "7\n10\n12\n"), shown=OPEN)
    fetched = fetch_runaway(slurm)
    assert jobs(fetched) == ["900"]
    assert [command[0] for command in slurm.asked if command[0] != "id"] == ["squeue", "sacct", "squeue"]


def test_sacctmgr_is_never_run_since_it_would_offer_to_fix() -> None:
    slurm = Slurm(known=("", ""), shown=OPEN)
    fetch_runaway(slurm, clusters=["bench"])
    assert not any(command[0] == "sacctmgr" for command in slurm.asked)
    assert all(command[1:3] == ["-M", "bench"] for command in slurm.asked if command[0] != "id")


def test_jobs_of_other_federated_clusters_are_not_listed() -> None:
    """`fed_display` in slurm.conf makes sacct and squeue tell of all clusters, unless it is said otherwise."""
    slurm = Slurm(known=("", ""), shown=OPEN)
    fetch_runaway(slurm)
    asked = [command for command in slurm.asked if command[0] in {"sacct", "squeue"}]
    assert [command.count("--local") for command in asked] == [1, 1, 1]
    fetch_runaway(named := Slurm(known=("", ""), shown=OPEN), clusters=["bench"])
    assert all("--local" not in command for command in named.asked if command[0] == "sacct")


def test_no_job_is_lost_where_others_jobs_are_hidden() -> None:
    slurm = Slurm(known=("", ""), shown=OPEN, private="accounts,jobs", uid="1000")
    with pytest.raises(SourceError, match="PrivateData hides other users' jobs"):  # an empty list would say: none
        fetch_runaway(slurm)
    assert jobs(fetch_runaway(Slurm(known=("7 10 11 12", ""), shown=OPEN, private="jobs"))) == ["900"]


def test_nothing_is_listed_while_the_controller_is_down() -> None:
    with pytest.raises(SourceDownError, match="slurmctld"):
        fetch_runaway(lambda *_: Completed(1, b"", b"slurm_load_jobs error: Unable to contact slurm controller"))
