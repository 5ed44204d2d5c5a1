"""Accounting and nodes in JSON: the same result as from text, in every version's words; what is not there is null."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.context import ParseContext
from ingest.errors import InputError, MissingColumnError, TruncatedInputError, UnrecognisedInputError
from ingest.load_warnings import messages
from ingest.slurm.accounting.merge import merge_attempts
from ingest.slurm.accounting.sacct import parse_accounting
from ingest.slurm.accounting.sacct_json import LOST, parse_accounting_json
from ingest.slurm.detect import detect_kind
from ingest.slurm.formats.json_answer import SUPPORTED_VERSIONS, SlurmAnswerError
from ingest.slurm.nodes.inventory_json import parse_nodes_json, parse_settings_json
from ingest.slurm.parsers import parse
from tests.support.slurm.answers import NEWEST, VERSIONS, answer, exit_code, job, meta, node, number
from tests.support.slurm.parsing import DATA
from tests.support.slurm.row_accounts import on_nodes

if TYPE_CHECKING:
    from ingest.tables import Parsed

KEY = ["job_id", "submitted_at"]
NOTHING_FOUND = {"error_number": 9003, "error": "Nothing found with query", "description": "Nothing found"}


def read(*jobs: object, version: str = NEWEST) -> Parsed:
    return parse_accounting_json(answer(version, jobs=list(jobs)), ParseContext(origin="x"))


def attempt(*jobs: object, version: str = NEWEST) -> dict[str, Any]:
    found = read(*jobs, version=version)
    assert found.rejects.is_empty(), found.rejects["reason"].to_list()
    (row,) = found.frames["attempts"].to_dicts()
    return row


# --- the same jobs by text -----------------------------------------------------------------------------


def test_captured_jobs_equal_their_text_or_are_null_and_listed() -> None:
    from_json = parse_accounting_json((DATA / "jobs.sacct.json").read_bytes(), ParseContext(origin="j"))
    from_text = parse_accounting((DATA / "jobs-as-text.sacct.txt").read_bytes(), ParseContext(origin="t"))
    reported, text = (found.frames["attempts"].sort(KEY) for found in (from_json, from_text))
    assert from_json.rejects.is_empty()
    assert reported.height == text.height > 20
    assert {"RESIZING", "REQUEUED", "PENDING", "RUNNING", "FAILED", "TIMEOUT", "CANCELLED"} <= set(reported["state"])
    for name in reported.columns:
        if name not in LOST["0.0.38"]:
            assert reported[name].equals(text[name]), name
    nodes = [on_nodes(found).sort([*KEY, "node"]) for found in (from_json, from_text)]
    assert nodes[0].equals(nodes[1])


def test_values_absent_from_json_are_null_or_right_and_never_0() -> None:
    reported = parse_accounting_json((DATA / "jobs.sacct.json").read_bytes(), ParseContext(origin="j")).frames[
        "attempts"
    ]
    text = parse_accounting((DATA / "jobs-as-text.sacct.txt").read_bytes(), ParseContext(origin="t")).frames["attempts"]
    both = reported.join(text, on=KEY, suffix="_text")
    for name in LOST["0.0.38"]:
        carried = both.filter(pl.col(name).is_not_null())
        if name != "cancelled_by":  # a name there, a uid here: both are told, and neither is wrong
            assert carried[name].equals(carried[f"{name}_text"].alias(name)), name
    assert both.filter(exit_code=0, exit_signal=11).height == 1  # the one that died of a signal
    assert both.filter(exit_code_text=3)["exit_code"].to_list() == [None]
    assert set(both["cancelled_by"].drop_nulls()) == {"alice", "root"}


def test_json_and_text_merge_into_attempts_with_fields_of_both() -> None:
    reported = parse_accounting_json((DATA / "jobs.sacct.json").read_bytes(), ParseContext(origin="j")).frames[
        "attempts"
    ]
    text = parse_accounting((DATA / "jobs-as-text.sacct.txt").read_bytes(), ParseContext(origin="t")).frames["attempts"]
    assert merge_attempts(reported, text).equals(merge_attempts(text, reported))
    assert merge_attempts(reported, text).sort(KEY).equals(text.sort(KEY))


def test_accounting_that_begins_with_a_brace_is_parsed_as_json() -> None:
    data = (DATA / "jobs.sacct.json").read_bytes()
    found = parse("slurm.accounting", b"\xef\xbb\xbf\n" + data, ParseContext(origin="x"))
    assert found.rows_loaded == parse_accounting_json(data, ParseContext(origin="x")).rows_loaded
    assert found.columns[:3] == ["account", "allocation_nodes", "array"]


# --- every version -------------------------------------------------------------------------------------

SAME = {
    "cluster": "bench",
    "job_id": "700",
    "display_id": "700",
    "submitted_at": datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC),
    "started_at": datetime(2026, 9, 21, 14, 14, 50, tzinfo=UTC),
    "ended_at": datetime(2026, 9, 21, 15, 15, 0, tzinfo=UTC),
    "state": "FAILED",
    "reason": "Resources",
    "user": "alice",
    "account": "llm",
    "group": "research",
    "name": "train|a",
    "work_dir": "/home/alice",
    "comment": "run 7, again",
    "wckey": "*pretrain",
    "constraints": "h100",
    "priority": 11_000,
    "time_limit_s": 5400.0,
    "elapsed_s": 3600.0,
    "suspended_s": 10.0,
    "n_nodes": 2,
    "n_cpus": 64,
    "n_gpus": 16,
    "req_gpus": 16,
    "gpu_model": "h100",
    "req_mem_bytes": 512_000 << 20,
    "alloc_mem_bytes": 512_000 << 20,
    "alloc_tres": "cpu=64,gres/gpu:h100=16,gres/gpu=16,mem=512000M,node=2",
    "node_list": "n[1-2]",
}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_job_is_the_same_in_the_words_of_every_version(version: str) -> None:
    row = attempt(job(version), version=version)
    assert {name: row[name] for name in SAME} == SAME
    plain = version > "0.0.38"
    assert (row["exit_code"], row["exit_signal"]) == ((3, 0) if plain else (None, None))
    assert (row["derived_exit_code"], row["flags"]) == ((0, "SchedBackfill,StartReceived") if plain else (None, None))
    assert (row["submit_line"], row["failed_node"]) == (("sbatch train.sh", "n2") if plain else (None, None))
    assert row["restarts"] == (2 if version >= "0.0.44" else None)


def test_every_known_version_lists_what_it_loses() -> None:
    assert tuple(LOST) == SUPPORTED_VERSIONS == VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_signal_is_read_in_every_version(version: str) -> None:
    row = attempt(job(version, exit_code=exit_code(version, signal=9)), version=version)
    assert (row["exit_code"], row["exit_signal"]) == (0, 9)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_job_that_runs_has_no_end(version: str) -> None:
    word = "RUNNING" if version <= "0.0.39" else ["RUNNING"]
    times: dict[str, Any] = dict(job(version)["time"], end=0)
    row = attempt(job(version, time=times, state={"current": word, "reason": "None"}), version=version)
    assert (row["state"], row["ended_at"], row["reason"]) == ("RUNNING", None, None)
    assert row["n_gpus"] == 16


@pytest.mark.parametrize("start", [0, None, 0xFFFF_FFFE])
@pytest.mark.parametrize("nodes", ["None assigned", "", None])
def test_a_job_that_never_started_holds_nothing(start: int | None, nodes: str | None) -> None:
    times: dict[str, Any] = dict(job()["time"], start=start, elapsed=0)
    row = attempt(job(time=times, nodes=nodes, state={"current": ["CANCELLED"]}, kill_request_user="bob"))
    assert (row["state"], row["cancelled_by"], row["started_at"], row["node_list"]) == ("CANCELLED", "bob", None, None)
    assert (row["n_nodes"], row["n_gpus"]) == (0, 0)


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["RUNNING", "COMPLETING"], "RUNNING"),
        (["PENDING", "REQUEUED"], "REQUEUED"),
        (["REQUEUED"], "REQUEUED"),
        (["RUNNING", "RESIZING"], "RESIZING"),
        ("NODE_FAIL", "NODE_FAIL"),
        (["NOVEL_STATE"], "NOVEL_STATE"),
    ],
)
def test_of_several_state_words_the_one_shown_in_text_is_taken(words: object, state: str) -> None:
    found = read(job(state={"current": words}))
    assert found.frames["attempts"]["state"].to_list() == [state]
    assert any("unknown state NOVEL_STATE" in output for output in messages(found.warnings)) == (state == "NOVEL_STATE")


@pytest.mark.parametrize(
    ("changes", "display", "task", "het"),
    [
        ({"array": {"job_id": 690, "task_id": number(NEWEST, 3), "task": ""}}, "690_3", 3, None),
        ({"array": {"job_id": 690, "task_id": number(NEWEST, 0), "task": ""}}, "690_0", 0, None),
        ({"array": {"job_id": 700, "task_id": None, "task": "0x3FC"}}, "700_[2-9]", None, None),
        (
            {"array": {"job_id": 700, "limits": {"max": {"running": {"tasks": 2}}}, "task": "0x13"}},
            "700_[0-1,4%2]",
            None,
            None,
        ),
        ({"array": {"job_id": 700, "task": "5-9%3"}}, "700_[5-9%3]", None, None),
        ({"array": {"job_id": 700, "task_id": 0xFFFF_FFFE, "task": "0xZZ"}}, "700_[0xZZ]", None, None),
        ({"het": {"job_id": 699, "job_offset": number(NEWEST, 1)}}, "699+1", None, 1),
    ],
)
def test_ids_are_written_as_text_shows_them(
    changes: dict[str, Any], display: str, task: int | None, het: int | None
) -> None:
    row = attempt(job(**changes))
    assert (row["display_id"], row["job_id"]) == (display, "700")
    assert (row["array_task_id"], row["het_offset"]) == (task, het)


def test_no_limit_is_no_limit() -> None:
    for limit in (number(NEWEST, None), number(NEWEST, 0, infinite=True), None, 0xFFFF_FFFF):
        assert attempt(job(time=dict(job()["time"], limit=limit)))["time_limit_s"] is None


def test_exit_code_0_of_a_failed_job_is_null() -> None:
    assert attempt(job(exit_code=exit_code(NEWEST, 0)))["exit_code"] is None
    done = job(exit_code=exit_code(NEWEST, 0), state={"current": ["COMPLETED"]})
    assert attempt(done)["exit_code"] == 0


def test_memory_per_node_or_core_counts_where_the_tres_have_none() -> None:
    only = {"allocated": job()["tres"]["allocated"], "requested": []}
    per_node = {"CPUs": 64, "memory_per_node": number(NEWEST, 1000), "memory_per_cpu": number(NEWEST, None)}
    per_cpu = {"CPUs": 64, "memory_per_node": number(NEWEST, None), "memory_per_cpu": number(NEWEST, 10)}
    assert attempt(job(tres=only, required=per_node))["req_mem_bytes"] == 2000 << 20
    assert attempt(job(tres=only, required=per_cpu))["req_mem_bytes"] == 640 << 20


def test_sluid_is_read_from_newer_slurm() -> None:
    assert attempt(job(sluid="s88DKSWE28RW00"))["sluid"] == "s88DKSWE28RW00"


# --- versions that we do not know ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "output"),
    [
        ("0.0.38", "has no plain exit codes"),
        ("0.0.41", "not tried on a real Slurm"),
        ("0.0.45", "JSON v0.0.45 is not supported; it was read as the newest supported version, v0.0.44"),
        ("0.1.0", "read as the newest supported version"),
        ("0.0.37", "read as the oldest supported version, v0.0.38"),
    ],
)
def test_untried_or_unknown_version_is_read_with_a_warning(version: str, output: str) -> None:
    shape = "0.0.38" if version < "0.0.39" else NEWEST
    for member in ("plugin", "plugins"):  # `sacct --json` of Slurm 23.02 prints the latter
        about = {member: {"data_parser": f"data_parser/v{version}"}}
        data = json.dumps({"jobs": [job(shape)], "meta": about, "errors": []}).encode()
        found = parse_accounting_json(data, ParseContext(origin="x"))
        assert found.rows_loaded == 1
        assert output in "\n".join(messages(found.warnings))


@pytest.mark.parametrize("about", [{}, None, [], {"plugin": "x"}, {"plugin": {"type": None}}, {"slurm": 7}])
def test_an_answer_that_names_no_version_is_read_as_the_newest(about: object) -> None:
    found = parse_accounting_json(json.dumps({"jobs": [job()], "meta": about}).encode(), ParseContext(origin="x"))
    assert found.rows_loaded == 1
    assert "names no version" in messages(found.warnings)[0]


def test_captured_answer_with_another_version_in_meta_is_read() -> None:
    reported: dict[str, Any] = json.loads((DATA / "jobs.sacct.json").read_bytes())
    plain = parse_accounting_json((DATA / "jobs.sacct.json").read_bytes(), ParseContext(origin="x"))
    reported["meta"]["plugin"] = {"type": "openapi/dbv0.0.99", "name": "x"}
    found = parse_accounting_json(json.dumps(reported).encode(), ParseContext(origin="x"))
    assert found.rows_loaded == plain.rows_loaded
    assert "JSON v0.0.99 is not supported" in messages(found.warnings)[0]


# --- answers that are none -----------------------------------------------------------------------------


def test_errors_inside_an_answer_are_an_error_despite_the_rest() -> None:
    errors = [{"error_number": 1007, "error": "Protocol authentication error", "source": "slurmdb_jobs_get"}]
    with pytest.raises(SlurmAnswerError, match=r"Protocol authentication error \(1007\)") as caught:
        parse_accounting_json(answer("0.0.38", errors=errors, jobs=[]), ParseContext(origin="x"))
    assert "token" in str(caught.value)
    with pytest.raises(SlurmAnswerError, match="Unable to contact slurm controller"):
        parse_nodes_json(
            answer(errors=[{"error": "Unable to contact slurm controller"}], nodes=[]), ParseContext(origin="x")
        )
    with pytest.raises(SlurmAnswerError, match="an error without words"):
        parse_accounting_json(answer(errors=[{}], jobs=[]), ParseContext(origin="x"))
    with pytest.raises(SlurmAnswerError, match="and 2 more"):
        parse_accounting_json(answer(errors=["a", "b", "c", "d", "e"], jobs=[]), ParseContext(origin="x"))


def test_no_match_is_an_empty_result_and_no_error() -> None:
    found = parse_accounting_json(answer("0.0.38", errors=[NOTHING_FOUND], jobs=[]), ParseContext(origin="x"))
    assert (found.rows_read, found.rows_loaded, found.frames["attempts"].height) == (0, 0, 0)


def test_no_nodes_at_all_means_that_slurmctld_did_not_answer() -> None:
    with pytest.raises(SlurmAnswerError, match="no nodes"):
        parse_nodes_json(answer(nodes=[]), ParseContext(origin="x", cluster="c"))


@pytest.mark.parametrize(
    ("data", "output"),
    [
        (b'{"jobs": [}', "not the JSON of Slurm"),
        (b'{"jobs": []} {"jobs": []}', "not the JSON of Slurm"),
        (b'{"jobs": 7}', "without a list of jobs"),
        (b'{"meta": {}}', "without a list of jobs"),
        (b"  \n", "empty"),
    ],
)
def test_what_is_no_answer_is_refused_in_words(data: bytes, output: str) -> None:
    with pytest.raises(InputError, match=output):
        parse_accounting_json(data, ParseContext(origin="x"))


def test_half_an_answer_is_refused_or_read_as_far_as_it_is_whole() -> None:
    whole = answer("0.0.38", jobs=[job("0.0.38"), job("0.0.38", job_id=701), job("0.0.38", job_id=702)])
    half = whole[: whole.index(b"702") + 20]
    with pytest.raises(TruncatedInputError, match="--accept-truncated"):
        parse_accounting_json(half, ParseContext(origin="x"))
    found = parse_accounting_json(half, ParseContext(origin="x", accept_truncated=True))
    assert found.frames["attempts"]["job_id"].sort().to_list() == ["700", "701"]
    assert found.rejects.select("line", "reason").rows() == [(3, "the JSON ends in the middle of it")]
    assert (found.rows_read, found.rows_rejected) == (3, 1)
    with pytest.raises(TruncatedInputError, match="before its jobs begin"):
        parse_accounting_json(whole[:60], ParseContext(origin="x", accept_truncated=True))


@pytest.mark.slow
@pytest.mark.parametrize("stop", range(0, 12_000, 397))
def test_wherever_an_answer_is_cut_off_no_job_is_lost_unseen(stop: int) -> None:
    data = answer(jobs=[job(), job(job_id=701)])
    try:
        found = parse_accounting_json(data[:stop], ParseContext(origin="x", accept_truncated=True))
    except InputError:
        assert stop < data.index(b"{", 5)
        return
    begun = (b'"job_id": 700' in data[:stop]) + (b'"job_id": 701' in data[:stop])
    assert found.rows_read >= begun
    assert found.rows_read == found.rows_loaded + found.rows_rejected


def test_damaged_characters_cost_no_job() -> None:
    data = answer(jobs=[job(name="caf\u00e9")]).replace(rb"caf\u00e9", b"caf\xe9")
    found = parse_accounting_json(data, ParseContext(origin="x"))
    assert found.frames["attempts"]["name"].to_list() == ["caf\ufffd"]
    assert any("damaged character" in output for output in messages(found.warnings))


def test_refused_job_is_kept_verbatim_even_if_damaged_or_cut_off() -> None:
    bad = answer(jobs=[job(name="caf\u00e9", nodes="n[1"), job(job_id=3)]).replace(rb"caf\u00e9", b"caf\xe9")
    found = parse_accounting_json(bad, ParseContext(origin="x"))
    assert 'caf\ufffd"' in found.rejects["raw"][0]
    whole = answer("0.0.38", jobs=[job("0.0.38", nodes="n[1")])
    cut = parse_accounting_json(whole[: whole.rindex(b"]")], ParseContext(origin="x", accept_truncated=True))
    assert '"n[1"' in cut.rejects["raw"][0]
    assert (cut.rows_read, cut.rows_rejected) == (1, 1)


def test_a_list_that_was_cut_to_its_window_does_not_blame_sacct() -> None:
    found = read(job(state={"current": ["RUNNING"]}))
    [output] = [each for each in messages(found.warnings) if "an End: slurmdbd" in each]
    assert output.startswith("1 job runs and has an End")
    assert "disable_truncate_usage_time=true" in output
    assert "sacct" not in output


# --- jobs that are refused -----------------------------------------------------------------------------

BAD: list[tuple[object, str]] = [
    ({name: value for name, value in job().items() if name != "job_id"}, "missing required field job_id"),
    (job(job_id="700"), "job_id: expected int, got str"),
    (job(job_id=-7), "no job id: '-7'"),
    (job(job_id=10**40), "no job id: '1"),
    (job(job_id=None), "job_id: expected int, got null"),
    (job(nodes=["n1"]), "nodes: expected str"),
    (job(nodes="n[1"), "unbalanced bracket"),
    (job(state={"current": []}), "no state"),
    (job(time={}), "no Submit time"),
    (job(time=dict(job()["time"], start=-5)), "Start: not a time: '-5'"),
    (job(time=dict(job()["time"], end=1_789_990_000)), "End is before Start"),
    (job(tres={"allocated": [{"type": "gres", "name": "gpu", "count": 10**12}], "requested": []}), "TRES item"),
    (7, "expected object"),
    (None, "expected object"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD, ids=[reason for _, reason in BAD])
def test_bad_job_is_refused_with_its_reason_and_the_others_load(bad: object, reason: str) -> None:
    found = read(job(job_id=1), bad, job(job_id=3))
    assert found.frames["attempts"]["job_id"].sort().to_list() == ["1", "3"]
    ((line, output, raw),) = found.rejects.select("line", "reason", "raw").rows()
    assert line == 2
    assert reason.lower() in output.lower()
    assert json.loads(raw) == bad if len(raw) < 4_000 else raw.startswith("{")
    assert (found.rows_read, found.rows_loaded, found.rows_rejected) == (3, 2, 1)
    assert found.rejects["cluster"].to_list() == ["bench"]


def test_jobs_refused_by_shape_and_by_content_keep_their_places() -> None:
    found = read(job(job_id=1), {"job_id": "x"}, job(job_id=3), job(job_id=4, nodes="n[1"))
    assert found.rejects["line"].to_list() == [2, 4]
    assert '"n[1"' in found.rejects["raw"][1]


def test_the_same_job_twice_is_one_attempt() -> None:
    found = read(job(), job())
    assert (found.rows_loaded, found.rows_duplicate) == (1, 1)


def test_job_without_a_cluster_gets_the_given_or_answering_one() -> None:
    bare = job(cluster="", association={"account": "llm"})
    assert attempt(bare)["cluster"] == "bench"  # meta names it
    given_one = parse_accounting_json(
        answer("0.0.39", jobs=[job("0.0.39", cluster=None, association=None)]), ParseContext(origin="x", cluster="c7")
    )
    assert given_one.frames["attempts"]["cluster"].to_list() == ["c7"]
    refused = parse_accounting_json(
        answer("0.0.39", jobs=[job("0.0.39", cluster=None, association=None)]), ParseContext(origin="x")
    )
    assert refused.rejects["reason"].to_list() == ["no cluster name"]
    foreign = parse_accounting_json(answer(jobs=[job()]), ParseContext(origin="x", cluster="c7"))
    assert "rows name other clusters than c7: bench" in messages(foreign.warnings)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(st.sampled_from(VERSIONS), st.data())
def test_whatever_a_field_holds_the_job_is_loaded_or_refused(version: str, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(job(version))), min_size=1, max_size=3, unique=True))
    odd = job(version, **{name: data.draw(ANY_JSON) for name in names})
    found = parse_accounting_json(
        answer(version, jobs=[job(version, job_id=1), odd]), ParseContext(origin="x", cluster="c")
    )
    assert found.rows_read == 2
    assert found.rows_loaded + found.rows_duplicate + found.rows_rejected == 2
    assert "1" in found.frames["attempts"]["job_id"].to_list()


# --- settings, and which kind a file is ----------------------------------------------------------------


def test_the_clusters_name_and_slurms_release_are_read() -> None:
    found = parse_settings_json(
        answer("0.0.38", clusters=[{"name": "bench", "nodes": "n[1-6]"}]), ParseContext(origin="x")
    )
    assert found.clusters == {"bench"}
    rows = found.frames["cluster_settings"].rows()
    assert rows == [("bench", "ClusterName", "bench"), ("bench", "SLURM_VERSION", "22.05.8")]


def test_several_clusters_need_an_explicit_choice() -> None:
    several = answer("0.0.38", clusters=[{"name": "a"}, {"name": "b"}])
    with pytest.raises(MissingColumnError, match=r"there are several: a, b\."):
        parse_settings_json(several, ParseContext(origin="x"))
    assert parse_settings_json(several, ParseContext(origin="x", cluster="b")).clusters == {"b"}
    assert parse_settings_json(answer(clusters=[{"name": "a"}, {"name": "b"}]), ParseContext(origin="x")).clusters == {
        "bench"
    }


@pytest.mark.parametrize(
    ("reported", "kind"),
    [
        ({"jobs": [job()], "meta": meta(NEWEST)}, "slurm.accounting"),
        ({"meta": meta("0.0.38"), "errors": [], "jobs": []}, "slurm.accounting"),
        ({"nodes": [node()]}, "slurm.nodes"),
        ({"clusters": [{"name": "a"}]}, "slurm.config"),
        ({"reservations": []}, "slurm.reservations"),
        ({"jobs": [{"job_id": 7, "job_state": ["RUNNING"]}]}, "slurm.jobs"),
        ({"meta": {"plugin": {"type": "openapi/v0.0.38"}}, "jobs": []}, "slurm.jobs"),
    ],
)
def test_json_responses_are_distinguished_by_content(reported: object, kind: str) -> None:
    assert detect_kind(json.dumps(reported).encode()) == kind


@pytest.mark.parametrize(
    ("reported", "output"),
    [
        ({"statistics": {"parts_packed": 1}}, "the text of sdiag"),
        ({"sinfo": []}, "scontrol show node --json"),
        ({"pings": []}, "not read"),
        ({"status": "success", "data": {}}, "none of Slurm's answers"),
    ],
)
def test_other_json_is_refused_and_named(reported: object, output: str) -> None:
    with pytest.raises(UnrecognisedInputError, match=output):
        detect_kind(json.dumps(reported, indent=1).encode())
