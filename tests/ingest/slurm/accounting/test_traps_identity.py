"""Traps in who a job is and how it ended: ids, arrays, components, steps, reuse; states and exit codes."""

from __future__ import annotations

import pytest

from tests.support.slurm.parsing import at, parse, refusals, text
from tests.support.slurm.traps import Raw, Trap, agree, refused, spring, traps

SUBMIT, START, END = 1795247700, 1795247786, 1795247886
NEVER = {"State": "PENDING", "Start": "Unknown", "End": "Unknown", "ElapsedRaw": "0", "NodeList": "None assigned"}


def ids(shown: str, raw: str) -> Raw:
    return {"JobID": shown, "JobIDRaw": raw}


def identity(
    job: str, array: str | None = None, task: int | None = None, het: str | None = None, at: int | None = None
) -> dict[str, object]:
    return {"job_id": job, "array_job_id": array, "array_task_id": task, "het_job_id": het, "het_offset": at}


# --- ids ----------------------------------------------------------------------------------------------

IDS = [
    Trap("a plain job", ids("7", "7"), identity("7")),
    Trap("a task: its raw id is another number", ids("9_3", "12"), identity("12", "9", 3)),
    Trap("the last task has the array's own raw id", ids("9_5", "9"), identity("9", "9", 5)),
    Trap("tasks not split off", {**NEVER, **ids("9_[1-3,5]", "9")}, identity("9", "9")),
    Trap("with a throttle", {**NEVER, **ids("42271120_[7-8%1]", "42271120")}, identity("42271120", "42271120")),
    Trap("with a step", {**NEVER, **ids("9_[1-10:2]", "9")}, identity("9", "9")),
    Trap("with a step and a throttle", {**NEVER, **ids("9_[0-7:4%2]", "9")}, identity("9", "9")),
    Trap("cut with dots", {**NEVER, **ids("9_[1,3,5,...]", "9")}, identity("9", "9")),
    Trap("cut without its bracket", {**NEVER, **ids("9_[1,3,5,...", "9")}, identity("9", "9")),
    Trap("the raw id is in brackets, too", {**NEVER, **ids("9_[1-3]", "9_[1-3]")}, identity("9", "9")),
    Trap("task 4294967294 is no task", ids("9_4294967294", "9"), identity("9")),
    Trap("task 4294967295 is no task", ids("9_4294967295", "9"), identity("9")),
    Trap("the first component", ids("11+0", "11"), identity("11", het="11", at=0)),
    Trap("the second component has a raw id of its own", ids("11+1", "12"), identity("12", het="11", at=1)),
    Trap("a component of an array task", ids("1000_2+3", "1010"), identity("1010", "1000", 2, "1000", 3)),
    Trap("a federated id is a number with high bits", ids("67108865", "67108865"), identity("67108865")),
    Trap("the largest federated id", ids("4227858431", "4227858431"), identity("4227858431")),
    Trap("the raw id is believed over a suffix", ids("123.sched01.example.org", "123"), identity("123")),
]


@pytest.mark.parametrize("trap", traps(*IDS))
def test_who_a_job_is(trap: Trap) -> None:
    spring(trap)
    spring(trap._replace(raw={**trap.raw, "JobName": "a\nb"}))  # the torn way of reading must agree


@pytest.mark.parametrize("raw", ["4294967294", "4294967295", "123.server", "123[].server", "-7", "x", "sA1B2C3", "9_"])
def test_what_is_no_id_of_slurm_is_refused(raw: str) -> None:
    # `123.server` is how PBS writes a job. Slurm's steps have numbers or one of four names, so it is no step to skip.
    assert refused(ids(raw, raw)) == f"no job id: '{raw}'"


def test_blanks_around_an_id_are_no_part_of_it() -> None:
    spring(Trap("blanks", ids(" 9_3 ", " 7 "), identity("7", "9", 3)))


def test_a_row_without_an_id_is_refused() -> None:
    assert refused(ids("", "")) == "no job id: ''"


STEPS = ("batch", "extern", "interactive", "0", "17", "4294967291", "4294967292", "4294967294", "TBD", "0+1", "ext+")


@pytest.mark.parametrize("job", ["7", "9_3", "11+1", "1000_2+3"])
@pytest.mark.parametrize("step", STEPS)
def test_a_step_is_skipped_and_counted(job: str, step: str) -> None:
    row = ids(f"{job}.{step}", f"7.{step}") | {"User": "", "Partition": "", "Start": "Unknown", "ExitCode": ""}
    parsed = parse(text({}, row))
    assert (parsed.rows_loaded, parsed.rows_skipped, refusals(parsed)) == (1, 1, [])


def test_steps_that_end_otherwise_than_their_job_do_not_touch_it() -> None:
    batch = {**ids("7.batch", "7.batch"), "State": "CANCELLED", "ExitCode": "0:15", "End": str(END + 31)}
    failed = {**ids("7.0", "7.0"), "State": "FAILED", "ExitCode": "5:0"}
    parsed = parse(text({"State": "TIMEOUT", "DerivedExitCode": "5:0"}, batch, failed))
    got = parsed.frames["attempts"].row(0, named=True)
    assert (got["state"], got["exit_code"], got["derived_exit_code"], got["ended_at"]) == ("TIMEOUT", 0, 5, at(END))


def test_given_sluid_is_stored_with_the_id_and_is_never_the_key() -> None:
    spring(Trap("sluid", {"SLUID": "sBAR3DTWZ0C800"}, {"job_id": "7", "sluid": "sBAR3DTWZ0C800"}))


# --- one id, several rows -----------------------------------------------------------------------------


def test_each_requeue_of_an_id_is_an_attempt_of_its_own() -> None:
    first = {"DBIndex": "70", "State": "NODE_FAIL"}
    second = {"DBIndex": "71", "Submit": str(END + 3), "Start": str(END + 9), "End": str(END + 50), "ElapsedRaw": "41"}
    parsed = parse(text(first, second))
    rows = parsed.frames["attempts"].sort("submitted_at")
    assert rows.select("job_id", "state").rows() == [("7", "NODE_FAIL"), ("7", "COMPLETED")]
    assert rows["submitted_at"].to_list() == [at(SUBMIT), at(END + 3)]
    agree(parsed)


LATER = {
    "Submit": "1798000000",
    "Eligible": "1798000000",
    "Start": "1798000010",
    "End": "1798000110",
    "DBIndex": "9000",
}
SOON = {"Submit": str(END + 60), "Eligible": "", "Start": str(END + 70), "End": str(END + 170), "DBIndex": "71"}


@pytest.mark.parametrize(
    "second",
    [LATER, {**SOON, "User": "bob"}],
    ids=["far apart: MaxJobId came round", "another user: the database is new"],
)
def test_an_id_given_again_is_another_attempt(second: Raw) -> None:
    rows = parse(text({}, second)).frames["attempts"].sort("submitted_at")
    assert rows.select("job_id", "user").rows() == [("7", "alice"), ("7", second.get("User", "alice"))]
    assert rows["submitted_at"].to_list() == [at(SUBMIT), at(int(second["Submit"]))]


def test_an_id_reused_in_one_second_is_resolved_by_db_index() -> None:
    rows = parse(text({"DBIndex": "70"}, {"DBIndex": "90", "State": "FAILED"})).frames["attempts"].sort("submitted_at")
    assert rows.select("submitted_at", "state").rows() == [(at(SUBMIT), "COMPLETED"), (at(SUBMIT, 1), "FAILED")]


def test_one_id_in_two_clusters_is_two_jobs() -> None:
    parsed = parse(text({}, {"Cluster": "c2"}))
    assert sorted(parsed.frames["attempts"]["cluster"]) == ["c1", "c2"]
    assert parsed.clusters == {"c1", "c2"}


# --- states -------------------------------------------------------------------------------------------


def state(text: str, word: str, **more: object) -> Trap:
    return Trap(text, {"State": text}, {"state": word, "ended_at": at(END), "n_gpus": 16, **more})


STATES = [
    *(state(word, word) for word in ("COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY")),
    *(state(word, word) for word in ("BOOT_FAIL", "DEADLINE", "REQUEUED", "RESIZING", "CANCELLED")),
    state("REVOKED", "REVOKED", n_gpus=0),  # it runs in another cluster of the federation
    state("CANCELLED by 2001", "CANCELLED", cancelled_by="2001"),
    state("CANCELLED by 0", "CANCELLED", cancelled_by="0"),
    state("cancelled by alice", "CANCELLED", cancelled_by="alice"),
    state("CANCELLED by 4294967294", "CANCELLED", cancelled_by="4294967294"),
    *(state(cut, "CANCELLED") for cut in ("CANCELLED+", "CANCELL+", "CANC+", "CA+")),
    *(state(cut, "NODE_FAIL") for cut in ("NODE_F+", "NO+")),
    *(state(cut, "OUT_OF_MEMORY") for cut in ("OUT_OF_ME+", "OUT_+")),
    state("TIMEOU+", "TIMEOUT"),
    state("REQ+", "REQUEUED"),
    state("Completed", "COMPLETED"),
    state("NODE_FAIL*", "NODE_FAIL"),
    state(" TIMEOUT ", "TIMEOUT"),
    state("COMPLETED,COMPLETING", "COMPLETED"),
    state('["COMPLETED"]', "COMPLETED"),
    state('{"current":["CANCELLED"],"reason":"None"}', "CANCELLED"),
    state('["COMPLETING","NODE_FAIL"]', "NODE_FAIL"),
    state('["PENDING","REQUEUED"]', "REQUEUED"),  # how a record closed by a requeue is stored: base state 0, and a flag
    state("SPECIAL_EXIT", "SPECIAL_EXIT"),
    state("REQUEUE_HOLD", "REQUEUE_HOLD"),
]


@pytest.mark.slow
@pytest.mark.parametrize("trap", traps(*STATES))
def test_a_state_is_one_word_whatever_its_suffix(trap: Trap) -> None:
    spring(trap)


@pytest.mark.parametrize(
    "word", ["RUNNING", "RUNNING,COMPLETING", '["RUNNING","COMPLETING"]', "running", "RUNN+", "SUSPENDED"]
)
def test_open_state_has_no_end_whatever_the_row_contains(word: str) -> None:
    want = "SUSPENDED" if word == "SUSPENDED" else "RUNNING"
    held = {"state": want, "ended_at": None, "started_at": at(START), "n_gpus": 16}
    spring(Trap(word, {"State": word}, held, warned="--truncate"))


@pytest.mark.parametrize(
    ("text", "word"), [("FOO", "FOO"), ("RE+", "RE"), ("QUANTUM_FAIL by 7", "QUANTUM_FAIL"), ("OOM", "OOM")]
)
def test_state_of_a_later_slurm_is_kept_and_reported(text: str, word: str) -> None:
    # it has ended if it has an End: what it means for its GPUs' time does not depend on the word
    spring(
        Trap(text, {"State": text}, {"state": word, "ended_at": at(END), "n_gpus": 16}, f"unknown state {word}: 1 row")
    )
    open_row = {"State": text, "End": "Unknown"}
    spring(Trap(text, open_row, {"state": word, "ended_at": None, "n_gpus": 16}, f"unknown state {word}: 1 row"))


@pytest.mark.parametrize(
    ("word", "reason"), [("", "no state"), ("Unknown", "no state"), ("12", "no state: '12'"), ("[]", "no state: '[]'")]
)
def test_a_row_without_a_state_is_refused(word: str, reason: str) -> None:
    assert refused({"State": word}) == reason


# --- exit codes ---------------------------------------------------------------------------------------


def exit_code(text: str, code: int | None, signal: int | None, warned: str = "") -> Trap:
    return Trap(text or "none", {"ExitCode": text}, {"exit_code": code, "exit_signal": signal}, warned)


EXITS = [
    exit_code("0:0", 0, 0),
    exit_code("0:9", 0, 9),
    exit_code("15:0", 15, 0),  # a script that exited with 143: Slurm took 128 off, and nothing tells it from a plain 15
    exit_code("127:0", 127, 0),
    exit_code("0:125", 0, 125),
    exit_code("0:53", 0, 53),
    exit_code("", None, None),  # the step of a node that died: not 0
    exit_code("N/A", None, None),
    exit_code("1", None, None, "exitcode: 1 value could not be read"),
    exit_code("-1:0", None, None, "exitcode: 1 value could not be read"),
    exit_code("0:15:0", None, None, "exitcode: 1 value could not be read"),
]


@pytest.mark.parametrize("trap", traps(*EXITS))
def test_an_exit_code_is_status_and_signal(trap: Trap) -> None:
    spring(trap)
    want = {name.replace("exit", "derived_exit"): value for name, value in trap.want.items()}
    spring(
        trap._replace(
            raw={"DerivedExitCode": trap.raw["ExitCode"]}, want=want, warned=trap.warned and "derivedexitcode"
        )
    )


# --- every way to end, as a real slurmdbd of 22.05.8 recorded it --------------------------------------

NOT_BEGUN = {"Start": "None", "ElapsedRaw": "0", "NodeList": "None assigned", "NNodes": "1"}
AT_ONCE = {"End": str(START), "ElapsedRaw": "0"}


def ending(name: str, state: str, code: str, derived: str, more: Raw | None = None) -> Trap:
    more = more or {}
    (status, signal), (beneath, below) = (map(int, text.split(":")) for text in (code, derived))
    want: dict[str, object] = {
        "state": state.split(" ", maxsplit=1)[0],
        "exit_code": status,
        "exit_signal": signal,
        "derived_exit_code": beneath,
        "derived_exit_signal": below,
        "n_gpus": 0 if "NodeList" in more else 16,
    }
    return Trap(name, {"State": state, "ExitCode": code, "DerivedExitCode": derived, **more}, want)


ENDINGS = [
    ending("exit 0", "COMPLETED", "0:0", "0:0"),
    ending("exit 0 above a failed step", "COMPLETED", "0:0", "5:0"),
    ending("exit 3", "FAILED", "3:0", "0:0"),
    ending("killed by SIGSEGV", "FAILED", "0:11", "0:0"),
    ending("its output could not be written", "FAILED", "0:53", "0:0", AT_ONCE),
    ending("over its time limit", "TIMEOUT", "0:0", "0:0"),
    ending("cancelled by its owner", "CANCELLED by 2001", "0:0", "0:0"),
    ending("cancelled while pending", "CANCELLED by 2004", "0:0", "0:0", NOT_BEGUN),
    ending("out of memory in the script", "OUT_OF_MEMORY", "0:125", "0:0"),
    ending("out of memory in a step", "FAILED", "1:0", "0:125"),
    ending("its node failed", "NODE_FAIL", "0:0", "0:0"),
    ending("requeued by hand", "REQUEUED", "0:0", "0:0"),
    ending("requeued for its exit code", "REQUEUED", "42:0", "0:0"),
    ending("requeued because the prolog failed", "REQUEUED", "0:0", "0:0", AT_ONCE),
    ending("preempted", "PREEMPTED", "0:0", "0:15"),
    ending("its deadline could not be met", "DEADLINE", "1:0", "0:0", NOT_BEGUN),
    ending("refused at submit", "FAILED", "1:0", "0:0", {**NOT_BEGUN, "Start": str(SUBMIT), "End": str(SUBMIT)}),
    ending("a runaway job set right: its time is gone", "COMPLETED", "0:0", "0:0", AT_ONCE),
]


@pytest.mark.parametrize("trap", traps(*ENDINGS))
def test_every_end_state_is_stored_as_slurm_recorded_it(trap: Trap) -> None:
    spring(trap)


def test_end_sent_again_after_a_restart_keeps_the_canceller() -> None:
    first = {"State": "CANCELLED by 2001", "ExitCode": "0:0"}
    again = {"State": "CANCELLED", "ExitCode": "0:15"}
    for rows in ([first, again], [again, first]):
        [got] = parse(text(*rows)).frames["attempts"].to_dicts()
        assert (got["state"], got["cancelled_by"], got["exit_signal"]) == ("CANCELLED", "2001", 15)


@pytest.mark.parametrize(("index", "n", "warnings"), [("", 1, 1), ("DBIndex", 2, 0)])
def test_rows_of_one_submit_are_reported_without_dbindex(index: str, n: int, warnings: int) -> None:
    """A Submit cut to minutes: the job failed after 10 s and started again 12 s later; the first 10 s are lost."""
    first = {"Start": str(START), "End": str(START + 10), "ElapsedRaw": "10", "State": "NODE_FAIL"}
    again = {"Start": str(START + 22), "End": str(END), "ElapsedRaw": str(END - START - 22)}
    rows = [{**row, "DBIndex": str(number) if index else ""} for number, row in enumerate((first, again), 70)]
    parsed = parse(text(*rows, rows[1]))
    assert parsed.frames["attempts"].height == n
    assert [warning.count for warning in parsed.warnings if warning.code == "rows_of_one_submit"] == [1] * warnings
