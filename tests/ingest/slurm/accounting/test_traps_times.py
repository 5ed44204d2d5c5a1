"""Traps in times: words for none, epochs, offsets, the nights when the clock changes, rows whose times disagree."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ingest.errors import TimeZoneError
from ingest.load_warnings import messages
from tests.support.slurm.parsing import at, attempt, parse, text
from tests.support.slurm.traps import Trap, refused, spring, traps

SUBMIT, START, END = 1795247700, 1795247786, 1795247886
NEVER = {"State": "CANCELLED by 2001", "ElapsedRaw": "0", "NodeList": "None assigned", "NNodes": "1"}
HELD_NOTHING = {"started_at": None, "n_nodes": 0, "n_gpus": 0, "node_list": None}
OPEN = {"State": "RUNNING", "End": "Unknown"}

# --- no time ------------------------------------------------------------------------------------------

NO_TIME = ("Unknown", "None", "NONE", "NA", "N/A", "n/a", "", "0", "INVALID", "(null)")
MARKS = ("4294967294", "4294967295", "18446744073709551614", "1970-01-01T00:00:00Z", "2106-02-07T06:28:14Z")


@pytest.mark.slow
@pytest.mark.parametrize("word", [*NO_TIME, *MARKS])
def test_a_word_or_mark_for_no_time_is_never_a_time(word: str) -> None:
    spring(Trap("start", {**NEVER, "Start": word}, {**HELD_NOTHING, "ended_at": at(END), "state": "CANCELLED"}))
    spring(Trap("end", {"State": "RUNNING", "End": word}, {"started_at": at(START), "ended_at": None}))
    spring(Trap("eligible", {"Eligible": word}, {"eligible_at": None, "started_at": at(START), "ended_at": at(END)}))
    assert refused({"Submit": word}) == "no Submit time"


@pytest.mark.parametrize(
    ("zone", "word"),
    [
        ("America/Los_Angeles", "1969-12-31T16:00:00"),
        ("Asia/Tokyo", "1970-01-01T09:00:00"),
        ("Pacific/Kiritimati", "2106-02-07T20:28:14"),
    ],
)
def test_missing_value_marks_are_recognised_in_local_time(zone: str, word: str) -> None:
    spring(Trap("end", {"State": "RUNNING", "End": word}, {"started_at": at(START), "ended_at": None}), timezone=zone)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("soon", "end: not a time: 'soon'"),
        ("12", "end: not a time: '12'"),
        ("86400", "end: not a time: '86400'"),  # the day that `--starttime` needs in place of 0 is no job's time
        ("1795247786000", "end: not a time: '1795247786000'"),  # milliseconds
        ("1795247886.5", "end: not a time: '1795247886.5'"),
        ("07:58:06", "end: not a time: '07:58:06'"),  # SLURM_TIME_FORMAT=relative: the day is lost
        ("21 Nov 07:58", "end: not a time: '21 Nov 07:58'"),
        ("2026-11-21T07:58", "end: not a time: '2026-11-21T07:58'"),
        ("2026-02-30T00:00:00Z", "end: not a time: '2026-02-30T00:00:00Z'"),
        ("2026-11-21T07:58:06 CET", "end: not a time: '2026-11-21T07:58:06 CET'"),  # a zone's name is not unique
        ("1996-11-21T07:58:06Z", "end: not between the years 2000 and 2100: '1996-11-21T07:58:06Z'"),
        ("9999-12-31T23:59:59Z", "end: not between the years 2000 and 2100: '9999-12-31T23:59:59Z'"),
        ("1795247000", "End is before Start"),
    ],
)
def test_what_is_no_time_of_a_job_refuses_the_row(word: str, reason: str) -> None:
    assert refused({"End": word}) == reason


# --- the zone -----------------------------------------------------------------------------------------

FORMS = [
    Trap("epoch", {"End": "1795247886"}, {"ended_at": at(END)}),
    Trap("epoch with blanks around it", {"End": " 1795247886 "}, {"ended_at": at(END)}),
    Trap("offset with a colon", {"End": "2026-11-21T13:28:06+05:30"}, {"ended_at": at(END)}),
    Trap("offset as %z writes it", {"End": "2026-11-20T23:58:06-0800"}, {"ended_at": at(END)}),
    Trap("Z", {"End": "2026-11-21T07:58:06Z"}, {"ended_at": at(END)}),
    Trap("a blank for the T", {"End": "2026-11-21 07:58:06Z"}, {"ended_at": at(END)}),
    Trap("a fraction of a second", {"End": "2026-11-21T07:58:06.250Z"}, {"ended_at": at(END, 250_000)}),
]


@pytest.mark.parametrize("trap", traps(*FORMS))
def test_a_time_that_names_its_zone_needs_none(trap: Trap) -> None:
    spring(trap)
    spring(trap, timezone="Asia/Tokyo")


def test_a_local_time_is_read_in_the_zone_given() -> None:
    row = {"Submit": "2026-11-21T16:55:00", "Start": "2026-11-21T16:56:26", "End": "2026-11-21T16:58:06"}
    spring(Trap("Tokyo", row, {"submitted_at": at(SUBMIT), "ended_at": at(END)}), timezone="Asia/Tokyo")


def test_one_local_time_among_epochs_still_needs_the_zone() -> None:
    with pytest.raises(TimeZoneError) as caught:
        parse(text({}, {"End": "2026-11-21T07:58:06"}))
    assert "--timezone" in str(caught.value)
    assert "SLURM_TIME_FORMAT=%s" in str(caught.value)


# --- nights when the clock changes --------------------------------------------------------------------
# The night of the change, the hour that occurs twice, and both its readings in UTC.

AUTUMN = {
    "Europe/Berlin": ("2026-10-25", "02:30:00", (25, 0, 30), (25, 1, 30)),
    "America/New_York": ("2026-11-01", "01:30:00", (1, 5, 30), (1, 6, 30)),
    "Australia/Sydney": ("2026-04-05", "02:30:00", (4, 15, 30), (4, 16, 30)),
    "Australia/Lord_Howe": ("2026-04-05", "01:45:00", (4, 14, 45), (4, 15, 15)),  # half an hour, not a whole one
    "America/Santiago": ("2026-04-04", "23:30:00", (5, 2, 30), (5, 3, 30)),  # over midnight
}


def night(zone: str, which: int) -> datetime:
    day, _, *readings = AUTUMN[zone]
    return datetime.fromisoformat(day).replace(
        **dict(zip(("day", "hour", "minute"), readings[which], strict=True)), tzinfo=UTC
    )


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1], ids=["first", "second"])
@pytest.mark.parametrize("zone", AUTUMN)
def test_elapsed_time_decides_between_two_equal_local_hours(zone: str, which: int) -> None:
    local = "T".join(AUTUMN[zone][:2])
    moment = night(zone, which).timestamp()
    before, after = moment - 7_200, moment + 9_000
    ended = {"Submit": str(int(before)), "Start": str(int(before)), "Eligible": "", "End": local, "ElapsedRaw": "7200"}
    assert attempt(ended, timezone=zone)["ended_at"] == at(int(moment))
    began = {**ended, "Start": local, "End": str(int(after)), "ElapsedRaw": "9000"}
    assert attempt(began, timezone=zone)["started_at"] == at(int(moment))


def test_elapsed_decides_with_suspension_counted_in() -> None:
    row = {"Submit": "2026-10-25T01:00:00", "Eligible": "2026-10-25T01:00:00", "Start": "2026-10-25T02:30:00"}
    row |= {"End": "2026-10-25T03:30:00", "ElapsedRaw": "6600", "Suspended": "00:10:00"}
    assert attempt(row, timezone="Europe/Berlin")["started_at"] == night("Europe/Berlin", 0)


TWICE = "2026-10-25T02:30:00"
UNTOLD = [
    Trap(
        "submitted then, and nothing after it tells", {"Submit": TWICE, "Start": "1793000000", "End": "1793000100"}, {}
    ),
    Trap("running since then, without an elapsed time", {**OPEN, "Submit": "1792800000", "Start": TWICE}, {}),
    Trap(
        "began and ended in the hour, in either of the two",
        {"Submit": "1792800000", "Start": "2026-10-25T02:10:00", "End": "2026-10-25T02:11:40"},
        {},
    ),
]


@pytest.mark.parametrize("trap", traps(*UNTOLD))
def test_earlier_of_two_equal_hours_is_taken_with_a_warning(trap: Trap) -> None:
    row = {**trap.raw, "Eligible": ""}
    spring(
        Trap(trap.name, row, {}, warned="1 row has a local time in the hour that occurs twice"),
        timezone="Europe/Berlin",
    )


TOLD = [
    Trap("ended before the second 02:30", {"Submit": TWICE, "Start": "1792888300", "End": "1792888400"}, {}),
    Trap(
        "eligible before it",
        {"Submit": TWICE, "Eligible": "1792888200", "Start": "1793000000", "End": "1793000100"},
        {},
    ),
]


@pytest.mark.parametrize("trap", traps(*TOLD))
def test_later_rows_show_when_a_job_was_submitted(trap: Trap) -> None:
    row = {"Eligible": "", **trap.raw}
    spring(Trap(trap.name, row, {"submitted_at": night("Europe/Berlin", 0)}), timezone="Europe/Berlin")


@pytest.mark.parametrize(
    ("zone", "gap"), [("Europe/Berlin", "2026-03-29T02:30:00"), ("Australia/Sydney", "2026-10-04T02:30:00")]
)
def test_a_time_that_never_was_refuses_the_row(zone: str, gap: str) -> None:
    assert refused({"Start": gap}, timezone=zone) == f"start: no such time in the zone: '{gap}'"


@pytest.mark.parametrize(
    ("zone", "start", "end"),
    [
        ("Europe/Berlin", "2026-03-29T01:30:00", "2026-03-29T03:30:00"),
        ("America/New_York", "2026-03-08T01:30:00", "2026-03-08T03:30:00"),
        ("Australia/Sydney", "2026-10-04T01:30:00", "2026-10-04T03:30:00"),
    ],
)
def test_a_job_over_the_gap_ran_an_hour_less_than_the_clock(zone: str, start: str, end: str) -> None:
    row = {"Submit": start, "Eligible": start, "Start": start, "End": end, "ElapsedRaw": "3600"}
    got = attempt(row, timezone=zone)
    assert (got["suspended_s"], got["elapsed_s"]) == (0, 3600)


# --- times that say when a job held its nodes ---------------------------------------------------------

LIVES = [
    Trap("running", OPEN, {"started_at": at(START), "ended_at": None, "n_gpus": 16}),
    Trap(
        "running, with an End that --truncate made",
        {"State": "RUNNING"},
        {"started_at": at(START), "ended_at": None},
        warned="1 row runs and has an End: sacct --truncate (-T) cuts",
    ),
    Trap(
        "running for months: its end message was lost",
        {**OPEN, "Submit": "1750000000", "Start": "1750000000", "ElapsedRaw": "45247786"},
        {"started_at": at(1750000000), "ended_at": None, "n_gpus": 16},
        warned="1 row has run for over 30 days",
    ),
    Trap(
        "ended, but slurmdbd has not written the End yet",
        {"End": "Unknown"},
        {"ended_at": at(END), "elapsed_s": 100.0},
        warned="Start + Elapsed was taken",
    ),
    Trap("cancelled before it began, Start equals End", {**NEVER, "Start": str(END)}, HELD_NOTHING),
    Trap(
        "ended in the second it began",
        {"End": str(START), "ElapsedRaw": "0"},
        {"started_at": at(START), "ended_at": at(START), "n_gpus": 16, "suspended_s": 0.0},
    ),
    Trap(
        "held", {**NEVER, "State": "PENDING", "Start": "Unknown", "End": "Unknown", "Eligible": "Unknown"}, HELD_NOTHING
    ),
    Trap("planned to start", {"State": "PENDING", "Start": "1795999999", "End": "Unknown"}, HELD_NOTHING),
    Trap("suspended: Elapsed is without it", {"ElapsedRaw": "60"}, {"elapsed_s": 60.0, "suspended_s": 40.0}),
    Trap("suspended, as told", {"ElapsedRaw": "60", "Suspended": "00:00:38"}, {"suspended_s": 38.0}),
    Trap("suspended for longer than it ran", {"Suspended": "01:00:00"}, {"suspended_s": 100.0}),
    Trap("no elapsed time", {"ElapsedRaw": "", "Elapsed": "INVALID"}, {"elapsed_s": None, "suspended_s": None}),
    Trap(
        "elapsed time not set",
        {"ElapsedRaw": "4294967295"},
        {"elapsed_s": None, "suspended_s": None},
        warned="elapsedraw: 1 value could not be read",
    ),
    Trap(
        "Submit after Start: the row after a resize keeps the original Start",
        {"Submit": "1795247800"},
        {"submitted_at": at(1795247800), "started_at": at(1795247800), "ended_at": at(END), "suspended_s": 0.0},
    ),
    Trap(
        "ended before its own Submit: a requeue within KillWait",
        {"Submit": "1795247900"},
        {"started_at": at(END), "ended_at": at(END), "suspended_s": 0.0},
    ),
    Trap(
        "an allocation without steps: NNodes 0 and no TRES",
        {"NNodes": "0", "AllocTRES": "", "AllocCPUS": "0"},
        {"n_nodes": 2, "n_gpus": 16, "started_at": at(START)},
    ),
    Trap(
        "ran, but names no node",
        {"NodeList": "None assigned"},
        HELD_NOTHING,
        warned="1 row ran for some time but without a node",
    ),
    Trap(
        "ran, but names no node, in a dump without Elapsed",
        {"NodeList": "None assigned", "ElapsedRaw": ""},
        HELD_NOTHING,
        warned="1 row ran for some time but without a node",
    ),
    Trap(
        "cancelled while it waited: Start is End, in a dump without Elapsed",
        {"NodeList": "None assigned", "ElapsedRaw": "", "State": "CANCELLED by 2001", "Start": str(END)},
        HELD_NOTHING,
    ),
]


@pytest.mark.parametrize("trap", traps(*LIVES))
def test_when_a_job_held_its_nodes(trap: Trap) -> None:
    spring(trap)


def test_resize_and_its_continuation_share_time_and_suspension() -> None:
    first = {"State": "RESIZING", "DBIndex": "1"}
    second = {"Submit": str(END), "DBIndex": "2", "End": "1795247986", "ElapsedRaw": "160", "Suspended": "00:00:40"}
    rows = parse(text(first, second)).frames["attempts"].sort("submitted_at")
    assert rows["started_at"].to_list() == [at(START), at(END)]
    assert rows["ended_at"].to_list() == [at(END), at(1795247986)]
    assert rows["suspended_s"].to_list() == [0, 40]


def test_requeue_that_starts_with_the_last_row_is_clipped() -> None:
    """It starts at its own submission."""
    first = {"State": "REQUEUED", "DBIndex": "1", "ElapsedRaw": "100"}
    second = {"DBIndex": "2", "Submit": "1795247900", "Start": str(START), "End": "1795248000", "ElapsedRaw": "214"}
    rows = parse(text(first, second)).frames["attempts"].sort("submitted_at")
    assert rows["started_at"].to_list() == [at(START), at(1795247900)]


def test_a_step_that_ends_after_its_job_does_not_move_the_end() -> None:
    step = {"JobID": "7.0", "JobIDRaw": "7.0", "End": "1795247920", "ElapsedRaw": "134"}
    parsed = parse(text({}, step))
    assert parsed.frames["attempts"]["ended_at"].to_list() == [at(END)]
    assert parsed.rows_skipped == 1


def test_a_record_outside_the_requested_window_is_kept() -> None:
    since, until = at(1795248000), at(1795249000)
    parsed = parse(text({}), since=since, until=until)
    assert parsed.rows_loaded == 1
    assert (parsed.covers_from, parsed.covers_until) == (since, until)


# --- an End before the Start --------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [1, 7, 60])
def test_end_slightly_before_the_start_is_a_length_of_0(seconds: int) -> None:
    """The clock was set back."""
    parsed = parse(text({"End": str(START - seconds), "ElapsedRaw": "0"}, {"JobID": "8", "JobIDRaw": "8"}))
    assert parsed.rejects.is_empty()
    result = parsed.frames["attempts"].sort("job_id").row(0, named=True)
    assert (result["started_at"], result["ended_at"], result["n_gpus"]) == (at(START), at(START), 16)
    assert [output for output in messages(parsed.warnings) if "before the Start" in output] == [
        "1 row has an End up to a minute before the Start (a clock was set back); Start is taken for the End"
    ]


def test_end_well_before_the_start_is_refused() -> None:
    assert refused({"End": str(START - 61)}) == "End is before Start"
    assert not any("before their Start" in output for output in messages(parse(text({})).warnings))


def test_submit_well_after_the_end_is_refused() -> None:
    """Taken for a requeue's, it would leave the row no time at all."""
    assert refused({"Submit": str(END + 601)}) == "Submit is after End"
