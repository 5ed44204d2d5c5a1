"""`trackside adjudicate`: signed, refused where it means nothing, shown where it counts, and undone without a trace."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pytest

from app.claims.stored import StoredClaims
from app.cli.main import main
from app.compute import pipeline as computing
from app.config.settings import Config
from app.corrections import records as adjudications
from app.window import Window
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from queries.warehouse import open_reader, open_writer
from tests.support.command import contents
from tests.support.warehouses import NOW

if TYPE_CHECKING:
    from pathlib import Path

START = 1_790_000_000  # 2026-09-21T14:13:20Z
HEADER = (
    "JobID|JobIDRaw|Cluster|Partition|Account|User|Submit|Eligible|Start|End|State|ExitCode|NNodes|AllocTRES|NodeList|"
    "JobName\n"
)
EVENTS = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n"
SIGNED = ("--author", "A. Person", "--reason", "agreed on the phone")


def job(number: int, begin: int, end: int, state: str, nodes: str = "n1") -> str:
    times = f"{START + begin}|{START + begin}|{START + begin + 100}|{START + end}"
    return f"{number}|{number}|c|gpu|a|u|{times}|{state}|1:0|1|gres/gpu=8,node=1|{nodes}|train\n"


ACCOUNTING = HEADER + "".join(
    [
        job(10, 0, 10_000, "NODE_FAIL"),
        job(10, 10_000, 20_000, "FAILED"),
        job(11, 21_000, 30_000, "COMPLETED"),
        job(12, 0, 30_000, "FAILED", "n2"),
        job(14, 31_000, 39_000, "COMPLETED", "n2"),
    ]
)
LATE = HEADER + job(13, 30_000, 40_000, "FAILED", "n2") + job(10, 20_000, 20_900, "COMPLETED")
DOWN = EVENTS + f"c|n1|{START + 9_950}|{START + 10_050}|DOWN|Not responding|root\n"
RUN, ALONE = "10-20260921T141320Z", "11-20260921T200320Z"


def read(root: Path, text: str) -> None:
    file = root.parent / "in.txt"
    file.write_text(text)
    with open_writer(root, verb="test", now=NOW) as writer:
        reports = ingesting.ingest_files(
            writer,
            Config(),
            [str(file)],
            ingesting.Options(cluster="c", timezone="UTC"),
            now=NOW,
            progress=lambda *_: None,
        )
        assert first_error(reports) is None
        computing.compute(writer, Config(), now=NOW, verdicts=StoredClaims.read(None).verdicts)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "w"
    read(root, ACCOUNTING)
    read(root, DOWN)
    return root


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    """Two jobs that failed, one of them twice; a node that was down in between."""
    shutil.copytree(template, tmp_path / "w", symlinks=True)
    return tmp_path / "w"


class Answer(NamedTuple):
    status: int
    out: str
    err: str


def answer(root: Path, *arguments: str) -> Answer:
    """What the command line says, in this process."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([*arguments, "--warehouse", str(root)])
    out.seek(0)
    return Answer(status, out.read(), err.getvalue())


def adjudicate(root: Path, *arguments: str, signed: bool = True) -> str:
    done = answer(root, "adjudicate", *arguments, *(SIGNED if signed else ()))
    assert done.status == 0, done.err
    return done.out


def refused(root: Path, *arguments: str, signed: bool = True) -> str:
    done = answer(root, "adjudicate", *arguments, *(SIGNED if signed else ()))
    assert done.status == 2, done.out
    with open_reader(root) as reader:
        assert adjudications.read_corrections(reader) == []
    return done.err


def listed(root: Path, *arguments: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(adjudicate(root, "list", "--format", "json", *arguments, signed=False))
    return rows


def interruption(root: Path, number: str, attempt: int = 1) -> dict[str, Any]:
    with open_reader(root) as reader:
        rows = reader.table("interruptions").filter((pl.col("job_id") == number) & (pl.col("attempt_no") == attempt))
    return rows.row(0, named=True)


CAUSE = ("cause", "--job", "12", "--class", "infrastructure", "--cause", "nvlink", "--node", "n2")
STATE = (
    "node-state",
    "--node",
    "n1",
    "--from",
    "2026-09-21T16:59:10",
    "--until",
    "2026-09-21T17:00:50",
    "--state",
    "maintenance",
)
JOIN = ("run-join", "--run", RUN, "--job", "11")
KIND = STATE[7:]
EACH = {"cause": CAUSE, "node_state": STATE, "run_join": JOIN}


def derived(root: Path) -> dict[str, pl.DataFrame]:
    """All that is told, but for the corrections themselves and when it was computed."""
    return {name: rows for name, rows in contents(root).items() if name != "adjudications"}


def assert_equal(one: dict[str, pl.DataFrame], other: dict[str, pl.DataFrame]) -> None:
    for name, rows in one.items():
        assert rows.equals(other[name]), f"{name} differs:\n{rows}\n{other[name]}"


@pytest.mark.slow
def test_a_cause_is_overruled_counted_and_shown(root: Path) -> None:
    reported = adjudicate(root, *CAUSE)
    assert "class user, cause failed -> class infrastructure, cause nvlink, node n2" in reported
    assert "infrastructure interruptions: 1 -> 2" in reported
    assert "verdict mttf: " in reported
    row = interruption(root, "12")
    (kept,) = listed(root)
    assert (row["class"], row["cause"], row["node"], row["adjudication"]) == (
        "infrastructure",
        "nvlink",
        "n2",
        kept["id"],
    )
    assert row["detail"] == "adjudicated by A. Person: agreed on the phone (state FAILED)"
    assert row["incident"] is not None
    verdicts = json.loads(answer(root, "verify", "--format", "json").out)
    assert {each["adjudications"] for each in verdicts} == {1}
    mttf = next(each for each in verdicts if each["claim"] == "mttf")
    assert mttf["n"] == 2


@pytest.mark.slow
def test_corrected_node_state_books_its_time_as_given(root: Path) -> None:
    with open_reader(root) as reader:
        before = reader.frame("SELECT SUM(gpu_seconds) FROM gpu_time").item()
    reported = adjudicate(root, *STATE)
    assert "down (Not responding) -> maintenance" in reported
    assert "maintenance: 0.0 -> " in reported
    with open_reader(root) as reader:
        sums = dict(reader.frame("SELECT category, SUM(gpu_seconds) FROM gpu_time GROUP BY 1").iter_rows())
        assert sum(sums.values()) == before
    assert sums["maintenance"] > 0
    assert "down" not in sums


@pytest.mark.slow
def test_jobs_are_put_into_a_run_and_taken_out_of_it(root: Path) -> None:
    assert "runs: 4 -> 3" in adjudicate(root, *JOIN)
    with open_reader(root) as reader:
        joined = reader.table("run_attempts").sort("submitted_at", "job_id").select("job_id", "run_id", "attempt_no")
    assert joined.rows() == [
        ("10", RUN, 1),
        ("12", "12-20260921T141320Z", 1),
        ("10", RUN, 2),
        ("11", RUN, 3),
        ("14", "14-20260921T225000Z", 1),
    ]
    assert "run of its own" in adjudicate(root, "run-join", "--run", RUN, "--attempt", "2", "--apart")
    with open_reader(root) as reader:
        assert reader.table("runs").height == 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", EACH)
def test_withdrawal_restores_the_exact_state_before(root: Path, kind: str) -> None:
    before = derived(root)
    adjudicate(root, *EACH[kind])
    assert any(not rows.equals(before[name]) for name, rows in derived(root).items())
    (kept,) = listed(root)
    assert kept["kind"] == kind
    reported = adjudicate(root, "withdraw", kept["id"])
    assert f"{kept['id']} is withdrawn" in reported
    assert_equal(derived(root), before)
    assert listed(root) == []
    (gone,) = listed(root, "--all")
    assert (gone["withdrawn_by"], gone["withdrawn_reason"]) == ("A. Person", "agreed on the phone")
    again = adjudicate(root, "withdraw", kept["id"], "--no-compute")
    assert "is already withdrawn, by A. Person; nothing was changed" in again


@pytest.mark.slow
def test_order_of_independent_corrections_is_irrelevant(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(root, other, symlinks=True)
    for arguments in EACH.values():
        adjudicate(root, *arguments, "--no-compute")
    for arguments in reversed(EACH.values()):
        adjudicate(other, *arguments, "--no-compute")
    for each in (root, other):
        with open_writer(each, verb="test", now=NOW) as writer:
            computing.compute(writer, Config(), now=NOW)
    ids = {"result_windows": "inputs"}  # a digest that the ids are a part of
    without_ids = {
        each: {name: rows.drop(ids.get(name, "adjudication"), strict=False) for name, rows in derived(each).items()}
        for each in (root, other)
    }
    assert_equal(without_ids[root], without_ids[other])


@pytest.mark.slow
def test_correction_survives_reloaded_and_additional_sources(root: Path) -> None:
    for arguments in EACH.values():
        adjudicate(root, *arguments, "--no-compute")
    read(root, ACCOUNTING)
    read(root, LATE)
    assert interruption(root, "12")["cause"] == "nvlink"
    with open_reader(root) as reader:
        runs = reader.table("run_attempts").filter(pl.col("run_id") == RUN).sort("attempt_no")
        assert runs["job_id"].to_list() == ["10", "10", "10", "11"]
        categories = reader.table("gpu_time")["category"]
    assert "maintenance" in categories
    assert "down" not in categories


@pytest.mark.slow
def test_the_same_twice_is_one(root: Path) -> None:
    for arguments in EACH.values():
        adjudicate(root, *arguments, "--no-compute")
    for arguments in EACH.values():
        assert "is the same correction (by A. Person" in adjudicate(root, *arguments, "--no-compute")
    adjudicate(root, *CAUSE)
    assert sorted(each["kind"] for each in listed(root, "--all")) == sorted(EACH)


@pytest.mark.slow
def test_the_newest_counts_and_what_it_overrules_is_named(root: Path) -> None:
    adjudicate(root, *CAUSE)
    (first,) = listed(root)
    reported = adjudicate(root, "cause", "--job", "12", "--class", "user", "--cause", "bad_code")
    assert f"it replaces {first['id']}" in reported
    row = interruption(root, "12")
    assert (row["class"], row["cause"], row["node"]) == ("user", "bad_code", None)
    adjudicate(root, *CAUSE)  # once more, and now it is the newest
    assert interruption(root, "12")["cause"] == "nvlink"
    assert len(listed(root)) == 3
    adjudicate(root, "withdraw", listed(root)[-1]["id"])
    assert interruption(root, "12")["cause"] == "bad_code"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (("cause", "--job", "99", "--class", "user", "--cause", "x"), "no attempt of job '99'"),
        (("cause", "--job", "11", "--class", "user", "--cause", "x"), f"attempt 1 of {ALONE} (COMPLETED)"),
        (("cause", "--job", "10", "--class", "user", "--cause", "x"), "Select one: --run R --attempt N"),
        (("cause", "--class", "user"), "the attempt is missing: --job J, or --run R --attempt N"),
        (("cause", "--job", "12"), "the correction is missing"),
        (("cause", "--job", "12", "--class", "infrastructure"), "add --cause"),
        (("cause", "--job", "12", "--cause", "'; DROP TABLE x"), "--cause is a word of at most 40"),
        (("cause", "--job", "12", "--cause", "failed"), "nothing to correct"),
        (("cause", "--job", "12", "--cause", "x", "--node", "n1"), "did not hold the node 'n1'; it held n2"),
        (("cause", "--run", "nope", "--cause", "x"), "has no run 'nope'"),
        (("cause", "--run", RUN, "--attempt", "7", "--cause", "x"), "there is no attempt 7; attempts: 1, 2"),
        (("cause", "--job", "12", "--cluster", "d", "--cause", "x"), "there is no cluster 'd'"),
        (("cause", "--job", "12", "--cause", "x", "--submitted", "2026-09-22"), "no such attempt was submitted at"),
        (("node-state", "--node", "n9", *STATE[3:]), "has no node 'n9'; nodes: n1, n2"),
        (("node-state", *STATE[1:3], "--from", "2026-09-22", "--until", "2026-09-21", *KIND), "is not before --until"),
        (("node-state", *STATE[1:3], "--from", "2025-09-01", "--until", "2025-09-02", *KIND), "has no data from"),
        (("run-join", "--run", RUN, "--job", "10"), f"is already in {RUN}; nothing to correct"),
        (("run-join", "--run", RUN, "--job", "12", "--apart"), f"is not in {RUN}"),
        (("run-join", "--run", RUN, "--job", "10", "--apart"), "there is nothing to separate"),
        (("run-join", "--run", RUN, "--job", "12"), "ran at the same time; attempts of one run follow one another"),
        (("run-join", "--run", RUN), "the attempt is missing: --job J"),
        (("withdraw", "adj-nope"), "there is no correction 'adj-nope'; in force: none"),
    ],
)  # fmt: skip
def test_a_missing_or_meaningless_target_is_refused(template: Path, arguments: tuple[str, ...], output: str) -> None:
    assert output in refused(template, *arguments)


@pytest.mark.slow
def test_author_and_reason_of_a_correction_are_required(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "carol")
    output = refused(root, *CAUSE, signed=False)
    assert "--author is missing: who makes the correction (you may be carol)" in output
    assert "--reason is missing" in refused(root, *CAUSE, "--author", "A", signed=False)
    assert "without control characters" in refused(root, *CAUSE, "--author", "A\x1b[2J", "--reason", "x", signed=False)
    assert "at most 100 characters" in refused(root, *CAUSE, "--author", "A" * 101, "--reason", "x", signed=False)


@pytest.mark.slow
def test_names_are_data_never_sql(root: Path) -> None:
    author = "Robert'); DROP TABLE adjudications;--"
    adjudicate(root, *CAUSE, "--author", author, "--reason", "it's so", "--no-compute", signed=False)
    (kept,) = listed(root)
    assert (kept["author"], kept["reason"]) == (author, "it's so")
    adjudicate(root, "withdraw", kept["id"], "--author", author, "--reason", "'", signed=False)
    assert listed(root) == []


@pytest.mark.slow
def test_corrections_pending_a_computation_are_reported(root: Path) -> None:
    assert "Next: trackside compute" in answer(root, "adjudicate", *CAUSE, *SIGNED, "--no-compute").err
    assert interruption(root, "12")["adjudication"] is None
    with open_writer(root, verb="test", now=NOW) as writer:
        computing.compute(writer, Config(), now=NOW)
    assert interruption(root, "12")["adjudication"] is not None


@pytest.mark.slow
def test_correction_counts_in_the_windows_of_its_subject(root: Path) -> None:
    for arguments in EACH.values():
        adjudicate(root, *arguments, "--no-compute")
    with open_reader(root) as reader:
        whole = computed(reader)
        ended = interruption(root, "12")["ended_at"]
        kinds = {
            hours: sorted(each.kind for each in adjudications.counting_in(reader, window))
            for hours, window in {
                "all": whole,
                "before the end of job 12": Window("c", whole.since, ended),
                "from there on": Window("c", ended, whole.until),
            }.items()
        }
    assert kinds["all"] == ["cause", "node_state", "run_join"]
    assert "cause" not in kinds["before the end of job 12"]
    assert "node_state" not in kinds["from there on"]


def computed(reader: Any) -> Window:
    row = reader.query("computed", cluster="c").row(0, named=True)
    return Window("c", row["since"], row["until"])


def test_the_list_is_a_table_for_people(root: Path) -> None:
    assert "There are no corrections" in adjudicate(root, "list", signed=False)
    adjudicate(root, *CAUSE, "--no-compute")
    reported = adjudicate(root, "list", signed=False)
    assert "A. Person" in reported
    assert "class user, cause failed" in reported
