"""sdiag's numbers, from 22.05 as it is and from other versions as they differ."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from ingest.context import ParseContext
from ingest.errors import MissingColumnError, TimeZoneError, UnrecognisedInputError
from ingest.slurm.commands.runner import Completed
from ingest.slurm.detect import detect_kind
from ingest.slurm.scheduler.sdiag import fetch_diag, parse_diag
from tests.support.slurm.parsing import DATA, at, refusals

if TYPE_CHECKING:
    from ingest.tables import Parsed

SAMPLE = (DATA / "sdiag.txt").read_bytes()
TOP = "sdiag output at Sat Nov 21 17:35:47 2026 (1795282547)\n"


def read(data: bytes | str, **options: Any) -> Parsed:
    data = data.encode() if isinstance(data, str) else data
    known: dict[str, Any] = {"origin": "sdiag.txt", "cluster": "bench", **options}
    return parse_diag(data, ParseContext(**known))


def numbers(parsed: Parsed) -> dict[tuple[str, str], float]:
    frame = parsed.frames["scheduler_stats"]
    return {(section, name): value for section, name, value in frame.select("section", "name", "value").rows()}


def test_captured_numbers_are_read_in_seconds_and_counts() -> None:
    assert detect_kind(SAMPLE) == "slurm.diag"
    parsed = read(SAMPLE)
    result = numbers(parsed)
    assert result["general", "Server thread count"] == 3
    assert result["general", "DBD Agent queue size"] == 0
    assert result["general", "Jobs submitted"] == 0
    assert result["general", "Data since"] == 1795281485
    assert result["main", "Last cycle"] == pytest.approx(9e-6)
    assert result["main", "Total cycles"] == 18
    assert result["backfill", "Last cycle"] == 0
    assert result["general", "Latency for 1000 calls to gettimeofday()"] == pytest.approx(23e-6)
    assert result["rpc", "REQUEST_PARTITION_INFO count"] == 4087
    assert result["rpc", "REQUEST_PARTITION_INFO total_time"] == pytest.approx(1.722834)
    assert set(parsed.frames["scheduler_stats"]["ts"]) == {at(1795282547)}
    assert parsed.rows_rejected == 0


def test_callers_of_the_controller_are_not_kept() -> None:
    parsed = read(SAMPLE)
    assert b"by user\n\troot" in SAMPLE
    assert not any("root" in name for _, name in numbers(parsed))
    assert parsed.rows_skipped == 3  # root's line, "No pending RPCs", and the backfill cycle that never was


def test_headings_of_later_versions_are_sections_too() -> None:
    text = (
        "Main scheduler exit:\n\tEnd of job queue:21\nBackfilling stats\n\tLast cycle when: Sat Nov 21 17:00:00 2026 "
        "(1795280400)\n\tMean cycle: 1500\nBackfill exit\n\tEnd of job queue: 4\nPending RPC statistics\n"
        "\tREQUEST_TERMINATE_JOB                   ( 6011) count:3\nPending RPCs\n\t1: REQUEST_TERMINATE_JOB n[1-2]\n"
    )
    assert numbers(read(TOP + text)) == {
        ("main exit", "End of job queue"): 21,
        ("backfill", "Last cycle when"): 1795280400,
        ("backfill", "Mean cycle"): pytest.approx(0.0015),
        ("backfill exit", "End of job queue"): 4,
        ("pending rpc", "REQUEST_TERMINATE_JOB count"): 3,
    }


def test_several_snapshots_in_one_file_stay_separate() -> None:
    parsed = read(TOP + "Jobs started:   1\n" + TOP.replace("1795282547", "1795282607") + "Jobs started:   4\n")
    assert parsed.frames["scheduler_stats"].select("ts", "value").rows() == [
        (at(1795282547), 1.0), (at(1795282607), 4.0),
    ]  # fmt: skip
    assert (parsed.covers_from, parsed.covers_until) == (at(1795282547), at(1795282607))


def test_a_line_that_is_no_number_is_kept_as_a_reject() -> None:
    parsed = read(TOP + "Jobs started:   1\nJobs lost: many\n")
    assert refusals(parsed) == [(3, "not a number of sdiag")]
    assert (parsed.rows_read, parsed.rows_loaded) == (2, 1)


@pytest.mark.parametrize("digits", [19, 400, 5_000])
def test_a_number_without_end_is_kept_as_a_reject(digits: int) -> None:
    big = "9" * digits
    rpc = f"Remote Procedure Call statistics by message type\n\tREQUEST_PING ( 1008) count:{big} ave_time:1\n"
    parsed = read(f"{TOP}Jobs started:   {big}\nJobs failed: 2\n{rpc}")
    assert [reason for _, reason in refusals(parsed)] == ["a number that has more than 18 digits"] * 2
    assert parsed.rows_loaded == 1


def test_old_sdiag_has_local_time_only() -> None:
    old = "sdiag output at Sat Nov 21 17:35:47 2026\nJobs started:   1\n"
    parsed = read(old, timezone="Europe/Berlin")
    assert parsed.covers_from == datetime(2026, 11, 21, 16, 35, 47, tzinfo=UTC)
    with pytest.raises(TimeZoneError):
        read(old)


def test_cluster_must_be_given_and_input_must_be_sdiag() -> None:
    with pytest.raises(MissingColumnError, match="--cluster NAME"):
        read(SAMPLE, cluster=None)
    with pytest.raises(UnrecognisedInputError, match="not the output of sdiag"):
        read(b"something else\n")


def test_the_command_resets_no_counter() -> None:
    requested: list[list[str]] = []

    def runner(command: list[str], _: object) -> Completed:
        requested.append(command)
        return Completed(0, SAMPLE, b"")

    assert fetch_diag(runner).data == SAMPLE
    assert requested == [["sdiag"]]
