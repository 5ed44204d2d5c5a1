from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import polars as pl
import pytest

from ingest.delimited.reader import LINE
from ingest.load_warnings import messages
from ingest.slurm.accounting.attempts import read_facts
from ingest.tables import ATTEMPTS, NODE_LISTS
from tests.support.slurm.parsing import DATA, NEVER_RAN, at, attempt, parse, refusals, text
from tests.support.slurm.row_accounts import on_nodes

START, END = 1795247786, 1795247886


# --- one plain row ------------------------------------------------------------------------------------


def test_a_plain_row_gives_every_column_its_unit() -> None:
    more = {
        "QOS": "normal",
        "Account": "llm",
        "Group": "users",
        "ReqNodes": "2",
        "ReqCPUS": "2",
        "AllocCPUS": "4",
        "ReqMem": "1000M",
        "TimelimitRaw": "30",
        "Priority": "11000",
        "Reason": "None",
        "DerivedExitCode": "5:0",
        "WorkDir": "/home/alice",
        "Comment": "hi",
        "Reservation": "r1",
        "Suspended": "00:00:00",
        "SLUID": "s2AB3C",
        "Restarts": "2",
        "Flags": "SchedBackfill,StartReceived",
        "FailedNode": "n1",
        "Constraints": "rack1&ib",
        "WCKey": "llm",
        "AdminComment": "seen",
        "SubmitLine": "sbatch job.sh",
    }
    got = attempt(more)
    assert got == {
        "cluster": "c1",
        "scheduler": "slurm",
        "job_id": "7",
        "submitted_at": at(1795247700),
        "display_id": "7",
        "array_job_id": None,
        "array_task_id": None,
        "het_job_id": None,
        "het_offset": None,
        "db_index": 70,
        "eligible_at": at(1795247700),
        "started_at": at(START),
        "ended_at": at(END),
        "end_guessed": None,
        "state": "COMPLETED",
        "cancelled_by": None,
        "exit_code": 0,
        "exit_signal": 0,
        "derived_exit_code": 5,
        "derived_exit_signal": 0,
        "reason": None,
        "user": "alice",
        "uid": 2001,
        "account": "llm",
        "group": "users",
        "partition": "main",
        "qos": "normal",
        "name": "train",
        "work_dir": "/home/alice",
        "comment": "hi",
        "reservation": "r1",
        "priority": 11000,
        "time_limit_s": 1800.0,
        "elapsed_s": 100.0,
        "suspended_s": 0.0,
        "req_nodes": 2,
        "n_nodes": 2,
        "req_cpus": 2,
        "n_cpus": 4,
        "req_gpus": Decimal(16),
        "n_gpus": Decimal(16),
        "gpu_model": "h100",
        "req_mem_bytes": 1000 * 2**20,
        "alloc_mem_bytes": 2000 * 2**20,
        "req_tres": "cpu=2,gres/gpu=16,node=2",
        "alloc_tres": "billing=2,cpu=2,gres/gpu:h100=16,gres/gpu=16,mem=2000M,node=2",
        "node_list": "n[1-2]",
        "sluid": "s2AB3C",
        "restarts": 2,
        "flags": "SchedBackfill,StartReceived",
        "failed_node": "n1",
        "constraints": "rack1&ib",
        "wckey": "llm",
        "admin_comment": "seen",
        "submit_line": "sbatch job.sh",
        "env_run": None,
        "gpus_steps": None,
        "gpus_asked": None,
        "exclusive": None,
    }


def test_columns_that_a_dump_lacks_are_null() -> None:
    columns = ["JobID", "Submit", "Start", "End", "State", "NodeList", "AllocTRES"]
    got = parse(text({}, columns=columns), cluster="c9").frames["attempts"].row(0, named=True)
    assert (got["cluster"], got["n_gpus"]) == ("c9", 16)
    missing = ("user", "elapsed_s", "req_gpus", "time_limit_s", "exit_code", "name", "db_index")
    assert [got[name] for name in missing] == [None] * 7


def test_frames_have_the_declared_columns_and_types() -> None:
    frames = parse(text({})).frames
    assert dict(frames["attempts"].schema) == ATTEMPTS
    assert dict(frames["node_lists"].schema) == NODE_LISTS


# --- jobs that never ran ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        NEVER_RAN,
        {**NEVER_RAN, "Start": str(END)},
        {**NEVER_RAN, "Start": "Unknown", "NodeList": ""},
        {**NEVER_RAN, "State": "FAILED", "Start": "1795247700", "End": "1795247700", "ExitCode": "1:0"},
        {**NEVER_RAN, "State": "DEADLINE"},
        {**NEVER_RAN, "State": "PENDING", "Start": "Unknown", "End": "Unknown"},
        {"State": "PENDING", "Start": "1795999999", "End": "Unknown", "NodeList": "n[1-2]"},
    ],
    ids=["cancelled", "cancelled, Start = End", "empty list", "refused at submit", "deadline", "pending", "planned"],
)
def test_job_that_never_got_a_node_holds_nothing_whatever_tres(row: dict[str, str]) -> None:
    parsed = parse(text(row))
    got = parsed.frames["attempts"].row(0, named=True)
    assert (got["started_at"], got["node_list"], got["n_nodes"], got["n_gpus"]) == (None, None, 0, 0)
    assert on_nodes(parsed).height == 0
    assert got["alloc_tres"]


def test_a_pending_rest_of_an_array_is_one_row_without_a_task() -> None:
    row = {
        **NEVER_RAN,
        "JobID": "10_[2-4%2]",
        "JobIDRaw": "10",
        "State": "PENDING",
        "Start": "Unknown",
        "End": "Unknown",
    }
    got = attempt(row)
    assert (got["job_id"], got["array_job_id"], got["array_task_id"]) == ("10", "10", None)
    assert got["display_id"] == "10_[2-4%2]"


def test_array_remainder_without_raw_ids_keeps_the_array_id() -> None:
    columns = ["JobID", "Submit", "Start", "End", "State", "NodeList", "AllocTRES", "Cluster"]
    pending = {**NEVER_RAN, "JobID": "10_[2-4%2]", "State": "PENDING", "End": "Unknown"}
    parsed = parse(text(pending, {"JobID": "10_1"}, {"JobID": "11+1"}, columns=columns))
    assert sorted(parsed.frames["attempts"]["job_id"]) == ["10", "10_1", "11+1"]


# --- identity -----------------------------------------------------------------------------------------


def test_array_tasks_and_het_components_are_parsed() -> None:
    task = attempt({"JobID": "9_3", "JobIDRaw": "12"})
    assert (task["job_id"], task["array_job_id"], task["array_task_id"]) == ("12", "9", 3)
    part = attempt({"JobID": "11+1", "JobIDRaw": "12"})
    assert (part["job_id"], part["het_job_id"], part["het_offset"], part["array_job_id"]) == ("12", "11", 1, None)


@pytest.mark.parametrize("step", ["7.batch", "7.extern", "7.0", "7.interactive", "7.4294967294", "7_1.batch", "7+1.0"])
def test_steps_are_skipped_and_counted(step: str) -> None:
    parsed = parse(text({}, {"JobID": step, "JobIDRaw": step, "User": "", "Start": "Unknown"}))
    assert (parsed.rows_loaded, parsed.rows_skipped) == (1, 1)


def test_state_loses_its_tail_which_names_the_canceller() -> None:
    got = attempt({"State": "CANCELLED by 2001"})
    assert (got["state"], got["cancelled_by"]) == ("CANCELLED", "2001")


def test_unknown_states_are_kept_and_warned_of() -> None:
    parsed = parse(text({"State": "QUANTUM"}))
    assert parsed.frames["attempts"]["state"].to_list() == ["QUANTUM"]
    assert messages(parsed.warnings) == ["unknown state QUANTUM: 1 row"]


# --- attempts -----------------------------------------------------------------------------------------


def test_each_requeue_is_an_attempt_of_one_chain() -> None:
    parsed = parse((DATA / "kill-requeue.sacct.txt").read_bytes(), cluster="bench")
    rows = parsed.frames["attempts"].sort("submitted_at")
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_skipped) == (6, 2, 4)
    assert rows["state"].to_list() == ["NODE_FAIL", "COMPLETED"]
    assert rows["submitted_at"].to_list() == [at(1795247632), at(1795247658)]
    assert on_nodes(parsed).height == 4
    assert (parsed.covers_from, parsed.covers_until) == (at(1795247633), at(1795247705))


def test_after_a_resize_the_time_is_not_counted_twice() -> None:
    attempts = parse((DATA / "states.sacct.txt").read_bytes(), cluster="bench").frames["attempts"]
    first, second = attempts.filter(job_id="28").sort("submitted_at").rows(named=True)
    assert (first["state"], first["n_gpus"], second["n_gpus"]) == ("RESIZING", 4, 2)
    assert first["ended_at"] == second["started_at"] == second["submitted_at"] == at(1795247831)
    assert second["suspended_s"] == 0  # Elapsed 14 s is counted from the original Start


def test_every_state_that_real_slurm_wrote_is_read() -> None:
    parsed = parse((DATA / "states.sacct.txt").read_bytes(), cluster="bench")
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rejects.height, messages(parsed.warnings)) == (33, 33, 0, [])
    attempts = parsed.frames["attempts"]
    assert set(attempts["state"]) == {
        *("COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "CANCELLED", "PENDING", "PREEMPTED", "OUT_OF_MEMORY"),
        *("REQUEUED", "RESIZING"),
    }
    piped = attempts.filter(job_id="14").row(0, named=True)
    assert (piped["name"], piped["user"], piped["reason"]) == ("pipe|name 'q'", "carol", "ReqNodeNotAvail")
    out_of_memory = attempts.filter(job_id="11").row(0, named=True)
    assert (out_of_memory["exit_code"], out_of_memory["exit_signal"]) == (0, 125)
    assert attempts.filter(job_id="13")["display_id"].to_list() == ["13_3"]
    assert attempts.filter(array_job_id="13").height == 4


def test_het_components_of_real_slurm_are_two_rows_of_one_job() -> None:
    attempts = parse((DATA / "het.sacct.txt").read_bytes(), cluster="bench").frames["attempts"]
    components = attempts.filter(het_job_id="1").sort("het_offset")
    assert components.select("job_id", "display_id", "node_list").rows() == [("1", "1+0", "n1"), ("2", "1+1", "n2")]


def test_running_job_has_no_end_and_dates_the_dump() -> None:
    parsed = parse((DATA / "het.sacct.txt").read_bytes(), cluster="bench")
    running = parsed.frames["attempts"].filter(state="RUNNING").row(0, named=True)
    assert (running["ended_at"], running["elapsed_s"]) == (None, 50)
    assert parsed.covers_until == at(1795249188 + 50)


@pytest.mark.parametrize("skipped", [0, 1])
def test_dump_with_steps_only_is_reported_to_have_no_job_rows(skipped: int) -> None:
    data = text({"JobID": "7.batch", "JobIDRaw": "7.batch"}, {"JobID": "7.0", "JobIDRaw": "7.0"})
    parsed = parse(data + data.splitlines(keepends=True)[0] * skipped)
    assert (parsed.rows_read, parsed.rows_skipped) == (2 + skipped, 2 + skipped)
    assert "no job rows: 2 rows of job steps alone" in "\n".join(messages(parsed.warnings))
    both = parse(text({}, {"JobID": "7.batch", "JobIDRaw": "7.batch"}))
    assert not any("no job rows" in output for output in messages(both.warnings))
    refused = parse(text({"End": "soon"}, {"JobID": "7.batch", "JobIDRaw": "7.batch"}))
    assert not any("no job rows" in output for output in messages(refused.warnings))


def test_end_given_by_truncate_is_not_the_end_of_a_running_job() -> None:
    assert attempt({"State": "RUNNING"})["ended_at"] is None


# --- suspension ---------------------------------------------------------------------------------------


def test_suspension_is_what_the_clock_has_more_than_elapsed() -> None:
    assert attempt({"ElapsedRaw": "60"})["suspended_s"] == 40
    assert attempt({"ElapsedRaw": "60", "Suspended": "00:00:39"})["suspended_s"] == 39


@pytest.mark.parametrize("column", ["Elapsed", "ElapsedRaw"])
def test_elapsed_is_seconds_from_either_column(column: str) -> None:
    columns = ["JobID", "Submit", "Start", "End", "State", "NodeList", "AllocTRES", "Cluster", column]
    row = {"Elapsed": "00:01:40", "ElapsedRaw": "100"}
    assert parse(text(row, columns=columns)).frames["attempts"]["elapsed_s"].to_list() == [100]


# --- GPUs and nodes -----------------------------------------------------------------------------------


def test_allocation_only_record_takes_its_gpus_from_the_request() -> None:
    got = attempt({"NNodes": "0", "AllocTRES": "", "NCPUS": "0"})
    assert (got["n_nodes"], got["n_gpus"]) == (2, 16)


def test_a_job_that_requested_gpus_and_got_none_is_accepted() -> None:
    assert attempt({"AllocTRES": "cpu=2,mem=1G,node=2"})["n_gpus"] == 0


def test_the_node_list_takes_precedence_over_the_count() -> None:
    parsed = parse(text({"NNodes": "5"}))
    assert parsed.frames["attempts"]["n_nodes"].to_list() == [2]
    assert "another number of nodes" in messages(parsed.warnings)[0]


def test_gpus_of_old_slurm_come_from_gres() -> None:
    columns = ["JobID", "Submit", "Start", "End", "State", "NodeList", "AllocGRES", "ReqGRES", "Cluster"]
    row = {"AllocGRES": "gpu:tesla:4", "ReqGRES": "gpu:4"}
    got = parse(text(row, columns=columns)).frames["attempts"].row(0, named=True)
    assert (got["n_gpus"], got["gpu_model"], got["req_gpus"]) == (4, "tesla", 4)


def test_gpus_are_spread_evenly_over_the_nodes() -> None:
    rows = on_nodes(parse(text({}))).sort("node")
    assert rows.select("node", "n_gpus", "evidence").rows() == [
        ("n1", Decimal(8), "accounting"),
        ("n2", Decimal(8), "accounting"),
    ]


def test_an_uneven_split_is_marked_as_assumed() -> None:
    row = {"NodeList": "n[1-4]", "AllocTRES": "gres/gpu=6,node=4"}
    rows = on_nodes(parse(text(row))).sort("node")
    assert rows["n_gpus"].to_list() == [2, 2, 1, 1]
    assert set(rows["evidence"]) == {"assumed"}


def test_a_job_without_gpus_still_has_its_nodes() -> None:
    rows = on_nodes(parse(text({"AllocTRES": "cpu=1"})))
    assert rows["n_gpus"].to_list() == [0, 0]


def test_a_cluster_without_gpus_in_its_tres_is_warned_of() -> None:
    cpu = {"AllocTRES": "cpu=2", "ReqTRES": "cpu=2"}
    assert "AccountingStorageTRES" in parse(text(cpu)).warnings[0].message
    assert parse(text(cpu, {"JobIDRaw": "8"})).warnings == []
    assert len(parse(text({}, {**cpu, "Cluster": "c2"})).warnings) == 1


# --- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"JobIDRaw": "x"}, "no job id: 'x'"),
        ({"Submit": "Unknown"}, "no Submit time"),
        ({"Submit": "yesterday"}, "submit: not a time: 'yesterday'"),
        ({"Start": "yesterday"}, "start: not a time: 'yesterday'"),
        ({"End": "12"}, "end: not a time: '12'"),
        ({"End": "1795247000"}, "End is before Start"),
        ({"End": "Unknown", "ElapsedRaw": ""}, "COMPLETED without an End time"),
        ({"State": ""}, "no state"),
        ({"Cluster": ""}, "no cluster name"),
        ({"NodeList": "n[1-"}, "node list 'n[1-': unbalanced bracket"),
        ({"AllocTRES": "gres/gpu=x"}, "TRES item 'gres/gpu=x'"),
    ],
)
def test_implausible_rows_are_refused_with_a_reason(row: dict[str, str], reason: str) -> None:
    parsed = parse(text({"JobIDRaw": "1"}, row))
    assert refusals(parsed) == [(3, reason)]
    assert parsed.rejects.row(0)[:3] == ("c1", "slurm.accounting", "jobs.txt")
    assert "|alice|" in parsed.rejects["raw"][0]


def test_final_state_without_an_end_ends_after_its_elapsed_time() -> None:
    parsed = parse(text({"End": "Unknown"}))
    (got,) = parsed.frames["attempts"].to_dicts()
    assert (got["ended_at"] - got["started_at"]).total_seconds() == got["elapsed_s"] == 100
    assert "1 row has ended without an End; Start + Elapsed was taken for it" in messages(parsed.warnings)


def test_a_bad_node_list_of_a_job_that_never_ran_is_no_reason() -> None:
    assert attempt({**NEVER_RAN, "NodeList": "x["})["n_nodes"] == 0


def test_unreadable_optional_values_are_null_and_counted() -> None:
    bad = {"ReqMem": "18GG", "ExitCode": "zero", "TimelimitRaw": "soon", "UID": "alice", "ElapsedRaw": "x"}
    parsed = parse(text({**bad, "ReqTRES": "cpu=x", "Eligible": "later"}))
    got = parsed.frames["attempts"].row(0, named=True)
    names = ("req_mem_bytes", "exit_code", "time_limit_s", "uid", "elapsed_s", "req_gpus", "eligible_at")
    assert [got[name] for name in names] == [None] * 7
    assert len(messages(parsed.warnings)) == 7
    assert "reqmem: 1 value could not be read" in messages(parsed.warnings)


def test_the_marks_for_not_set_are_no_reason_to_warn() -> None:
    more = {"ReqMem": "2147486448Mn", "TimelimitRaw": "Partition_Limit", "Priority": "4294967295", "UID": ""}
    parsed = parse(text(more))
    assert messages(parsed.warnings) == []


# --- duplicates and windows ---------------------------------------------------------------------------


def test_overlapping_dumps_in_one_file_are_merged_and_counted() -> None:
    parsed = parse(text({}, {}, {"State": "RUNNING", "End": "Unknown", "ElapsedRaw": "10"}))
    assert (parsed.rows_loaded, parsed.rows_duplicate) == (1, 2)
    assert parsed.frames["attempts"]["state"].to_list() == ["COMPLETED"]


def test_the_requested_window_is_the_window_covered() -> None:
    since, until = at(START) - timedelta(days=1), at(END) + timedelta(days=1)
    parsed = parse(text({}), since=since, until=until)
    assert (parsed.covers_from, parsed.covers_until) == (since, until)


def test_dump_of_jobs_that_never_ran_covers_from_first_submit() -> None:
    parsed = parse(text(NEVER_RAN))
    assert (parsed.covers_from, parsed.covers_until) == (at(1795247700), at(END))


def test_a_planned_start_in_the_future_does_not_move_the_window() -> None:
    parsed = parse(text({"State": "PENDING", "Start": "1999999999", "End": "Unknown", "Eligible": "1999999999"}))
    assert parsed.covers_until == at(1795247700)


def test_rows_of_another_cluster_than_the_named_one_are_warned() -> None:
    assert "other clusters than c2: c1" in parse(text({}), cluster="c2").warnings[0].message


# --- no row -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [("jobidraw", "submit", "state"), ("jobid", "start", "end", "alloctres")])
def test_read_facts_of_no_rows_has_the_schemas_of_rows(columns: tuple[str, ...]) -> None:
    rows = pl.DataFrame({**{name: ["1"] for name in columns}, LINE: [2]}, schema_overrides={LINE: pl.Int64})
    one, *none = (
        read_facts(each, cluster=cluster, timezone=None, origin="x", now=at(START))
        for each, cluster in ((rows, "c1"), (rows.clear(), "c1"), (rows.clear(), "c1"), (rows.clear(), None))
    )
    for facts in none:
        assert (facts.warnings, facts.until.len(), facts.until.dtype) == ([], 0, one.until.dtype)
        for name in ("attempts", "refused", "lists", "gpus", "summaries"):
            frame = getattr(facts, name)
            assert frame.is_empty()
            assert frame.schema == getattr(one, name).schema, name
