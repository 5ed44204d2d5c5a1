"""Run logs in the warehouse: in any order, overlapping, growing, killed; always the same."""

from __future__ import annotations

import gzip
import json
import random
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.main import main
from ingest.runlog import store as runlogs
from ingest.runlog.cut_ends import CutLines
from ingest.store.clusters import LOCAL
from queries.warehouse import open_reader, open_writer
from tests.support.command import assert_same, contents, trackside

T = 1_790_812_800 - 600  # ten minutes before midnight, 2026-10-01
NOW = datetime(2026, 10, 5, tzinfo=UTC)


def session(number: int, run: str = "llama", *, cluster: str = "alpha", steps: int = 300) -> str:
    """One process of a run: it loads, trains, saves now and then, and ends without saying so."""
    chance = random.Random(f"{run} {number}")
    at = T + 3_000 * number + chance.random()
    told = {"v": 1, "run_id": run, "cluster": cluster, "job_id": "29", "restart_count": number, "rank": 0, "n_gpus": 16}
    rows: list[dict[str, object]] = [{"type": "run", "t": at, **told}]
    rows.append({"type": "event", "kind": "init", "begin": at, "end": at + 20})
    at += 30
    for step in range(250 * number, 250 * number + steps):
        took = 2 + chance.random()
        rows.append({"type": "step", "step": step, "t": at, "duration_s": took, "tokens": 4096, "loss": 2.5})
        at += took
        if step % 50 == 49:
            save = {"type": "ckpt", "step": step, "begin": at, "end": at + 1, "blocking": True}
            rows += [save | {"durable": None}, save | {"durable": at + 30}]
            at += 1
    return "".join(json.dumps(row) + "\n" for row in rows)


WHOLE = session(0) + session(1) + session(2)
OTHER = session(0, "mixtral", cluster="beta") + "not a line\n" + session(1, "mixtral", cluster="beta")


def write(folder: Path, **texts: str) -> list[str]:
    for name, text in texts.items():
        (folder / f"{name}.jsonl").write_text(text)
    return [str(folder / f"{name}.jsonl") for name in texts]


def load(warehouse: Path, *batches: list[str], cluster: str | None = None) -> Path:
    for files in batches:
        with open_writer(warehouse, verb="test", now=NOW) as writer:
            reports = runlogs.ingest_files(writer, files, cluster=cluster, now=NOW, progress=lambda *_: None)
        assert [report.error for report in reports] == [None] * len(files)
    return warehouse


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    return load(tmp_path / "reference", write(tmp_path, whole=WHOLE, other=OTHER))


def test_the_reference_is_worth_comparing_with(reference: Path) -> None:
    found = contents(reference)
    assert found["run_sessions"].height == 5
    assert found["steps"].height == 5 * 300
    assert found["steps"]["ts"].dt.date().n_unique() == 2
    assert found["run_events"].filter(pl.col("durable_at").is_not_null()).height == 5 * 6
    assert found["rejects"]["raw"].to_list() == ["not a line"]


@pytest.mark.slow
def test_twice_equals_once(reference: Path, tmp_path: Path) -> None:
    files = write(tmp_path, whole=WHOLE, other=OTHER)
    assert_same(load(tmp_path / "w", files, files[::-1]), reference)


@pytest.mark.slow
def test_reading_known_rows_again_changes_no_day(reference: Path, tmp_path: Path) -> None:
    with open_reader(reference) as reader:
        before = reader.table("partitions")
    load(reference, write(tmp_path, whole=WHOLE))
    with open_reader(reference) as reader:
        assert reader.table("partitions").sort(pl.all()).equals(before.sort(pl.all()))


@pytest.mark.slow
def test_a_growing_log_read_at_any_moment_equals_the_whole(reference: Path, tmp_path: Path) -> None:
    chance = random.Random(5)
    files = write(tmp_path, whole=WHOLE, other=OTHER)
    first = WHOLE.index("\n") + 1
    for trial in range(3):
        moments = sorted(chance.sample(range(first, len(WHOLE)), 4))
        if trial == 2:
            moments.reverse()  # backups of the log, read from the newest to the oldest
        warehouse = tmp_path / f"w{trial}"
        for at in moments:
            Path(files[0]).write_text(WHOLE[:at])
            load(warehouse, files[:1])
        Path(files[0]).write_text(WHOLE)
        assert_same(load(warehouse, files), reference)


@pytest.mark.slow
def test_an_older_copy_read_later_takes_nothing_back(reference: Path, tmp_path: Path) -> None:
    files = write(tmp_path, whole=WHOLE[: len(WHOLE) // 2 + 7])
    assert_same(load(reference, files), load(tmp_path / "w", write(tmp_path, whole=WHOLE, other=OTHER)))


@pytest.mark.slow
def test_one_log_per_session_equals_one_log_of_all(tmp_path: Path) -> None:
    parts = write(tmp_path, a=session(0), b=session(1), c=session(2))
    one, other = contents(load(tmp_path / "w", parts[::-1])), contents(load(tmp_path / "v", write(tmp_path, a=WHOLE)))
    for name in ("steps", "run_events"):
        assert one[name].equals(other[name])
    assert one["run_sessions"].drop("origin").equals(other["run_sessions"].drop("origin"))


@pytest.mark.slow
def test_a_session_that_has_grown_ends_later(tmp_path: Path) -> None:
    name = write(tmp_path, log=session(0, steps=10))
    load(tmp_path / "w", name)
    early = contents(tmp_path / "w")["run_sessions"]["ended_at"].item()
    load(tmp_path / "w", write(tmp_path, log=session(0, steps=20)))
    assert contents(tmp_path / "w")["run_sessions"]["ended_at"].item() > early


@pytest.mark.slow
def test_a_line_cut_by_a_kill_stays_refused_for_good(tmp_path: Path) -> None:
    cut = session(0)[:-30]
    load(tmp_path / "w", write(tmp_path, log=cut), write(tmp_path, log=cut + "\n" + session(1)))
    (refused,) = contents(tmp_path / "w")["rejects"].rows(named=True)
    assert refused["reason"].startswith("cut line")


@given(st.lists(st.sampled_from(["ab", "b", "\n", "abc", "x"]), max_size=12), st.integers(1, 9))
def test_cut_lines_are_detected_at_any_division_of_the_text(parts: list[str], size: int) -> None:
    """A line begins as a cut one: whether it is still cut is for the reader of the log to say."""
    text, cuts = "".join(parts), ["a", "ab", "abb", "xx"]
    chunks = [text[at : at + size].encode() for at in range(0, len(text), size)]
    lines = CutLines(cuts)
    assert b"".join(lines.passed_on(chunks)) == text.encode()
    for cut in cuts:
        assert lines.is_continued(cut) == any(line.startswith(cut) for line in text.split("\n"))


def test_a_bad_file_is_reported_and_the_others_are_loaded(tmp_path: Path) -> None:
    files = write(tmp_path, bad="JobID|State\n", good=session(0))
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        reports = runlogs.ingest_files(
            writer, [*files, str(tmp_path / "missing")], cluster=None, now=NOW, progress=lambda *_: None
        )
    assert [report.error is None for report in reports] == [False, True, False]
    assert contents(tmp_path / "w")["steps"].height == 300


def test_loads_record_the_time_covered_of_each_cluster(reference: Path) -> None:
    with open_reader(reference) as reader:
        loads = reader.table("loads").sort("cluster")
        assert loads["cluster"].to_list() == ["alpha", "beta"]
        assert set(loads["source"]) == {"runlog"}
        sessions = reader.query("run_sessions", cluster="alpha")
        assert loads["covers_from"][0] == sessions["started_at"].min()
        assert loads["covers_until"][0] == sessions["ended_at"].max()
        steps = reader.query("steps", cluster="alpha")
        assert steps["ts"].is_sorted()
        assert reader.query("run_events", cluster="alpha").height == 3 * 7


@pytest.mark.slow
def test_sessions_without_an_attempt_warn_only_with_accounting(reference: Path) -> None:
    name = "source_session_without_attempt"
    with open_writer(reference, verb="test", now=NOW) as writer:
        assert name not in {result.check.name for result in writer.checks()}
        with writer.transaction():
            attempt = {
                "cluster": "alpha",
                "scheduler": "slurm",
                "job_id": "30",
                "submitted_at": NOW,
                "display_id": "30",
                "state": "COMPLETED",
                "n_nodes": 1,
                "n_gpus": 8,
            }
            writer.append("stored.attempts", pl.DataFrame([attempt]))
        (found,) = [result for result in writer.checks() if result.check.name == name]
        assert found.count == 3
        with writer.transaction():
            writer.append("stored.attempts", pl.DataFrame([attempt | {"job_id": "29"}]))
        assert name not in {result.check.name for result in writer.checks()}


def test_the_command_reads_gzip(tmp_path: Path) -> None:
    (tmp_path / "log.gz").write_bytes(gzip.compress(session(0).encode()))
    done = trackside("ingest", "runlog", "--warehouse", str(tmp_path / "w"), str(tmp_path / "log.gz"))
    assert done.returncode == 0, done.stderr
    assert "loaded" in done.stderr
    assert contents(tmp_path / "w")["steps"].height == 300


@pytest.mark.slow
def test_log_without_a_cluster_is_of_the_named_one_else_local(tmp_path: Path) -> None:
    text = session(0).replace('"cluster": "alpha"', '"cluster": null')
    files = write(tmp_path, log=text)
    done = trackside("ingest", "runlog", "--warehouse", str(tmp_path / "w"), *files)
    assert done.returncode == 0, done.stderr
    assert "Next: trackside run" in done.stderr
    assert set(contents(tmp_path / "w")["steps"]["cluster"]) == {LOCAL}
    named = trackside("ingest", "runlog", "--warehouse", str(tmp_path / "n"), "--cluster", "gamma", *files)
    assert named.returncode == 0, named.stderr
    assert set(contents(tmp_path / "n")["steps"]["cluster"]) == {"gamma"}


@pytest.mark.slow
@pytest.mark.parametrize(("clusters", "of_job"), [((), "local"), (("c",), "c"), (("c", "d"), None)])
def test_log_of_a_job_is_of_the_only_accounted_cluster(
    tmp_path: Path, clusters: tuple[str, ...], of_job: str | None
) -> None:
    text = session(0).replace('"cluster": "alpha"', '"cluster": null')
    files = write(tmp_path, job=text, laptop=text.replace('"job_id": "29"', '"job_id": null'))
    for name in clusters:
        (tmp_path / f"{name}.txt").write_text(ACCOUNTING.replace("|alpha|", f"|{name}|"))
        done = trackside("ingest", "slurm", str(tmp_path / f"{name}.txt"), "--warehouse", str(tmp_path / "w"))
        assert done.returncode == 0, done.stderr
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        reports = runlogs.ingest_files(writer, files, cluster=None, now=NOW, progress=lambda *_: None)
    job, laptop = reports
    assert laptop.parsed is not None
    assert laptop.parsed.clusters == {LOCAL}
    if of_job is None:
        assert "--cluster NAME" in str(job.error)
    else:
        assert job.parsed is not None
        assert job.parsed.clusters == {of_job}


@pytest.mark.slow
def test_the_year_of_a_log_follows_from_its_job(tmp_path: Path) -> None:
    line = "I0930 23:51:00.5 1 a.py:9] iteration 1/ 9 | elapsed time per iteration (ms): 2000.0 | lm loss: 2.5E+00 |\n"
    (tmp_path / "train.log").write_text(line)
    (tmp_path / "sacct.txt").write_text(ACCOUNTING)
    command = ("ingest", "runlog", str(tmp_path / "train.log"), "--timezone", "UTC", "--warehouse", str(tmp_path / "w"))
    refused = trackside(*command, "--set", "job_id=7")
    assert refused.returncode == 35
    assert "--year 2026" in refused.stderr
    assert trackside("ingest", "slurm", str(tmp_path / "sacct.txt"), "--warehouse", str(tmp_path / "w")).returncode == 0
    assert trackside(*command, "--set", "job_id=7").returncode == 0
    assert [f"{ts:%Y-%m-%d}" for ts in contents(tmp_path / "w")["steps"]["ts"]] == ["2026-09-30"]


ACCOUNTING = f"""\
JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|NNodes|AllocTRES|NodeList
7|7|alpha|a|l|m|train|COMPLETED|0:0|{T}|{T}|{T}|{T + 60}|1|cpu=64,gres/gpu=8,node=1|n1
"""


def test_the_recorder_comes_out_as_it_is(tmp_path: Path) -> None:
    assert main(["recorder", "--output", str(tmp_path / "trackside_log.py")]) == 0
    assert (tmp_path / "trackside_log.py").read_text() == runlogs.recorder_text()
    assert trackside("recorder").stdout == runlogs.recorder_text()


@pytest.mark.slow
def test_log_of_an_unusable_cluster_name_is_refused_alone(tmp_path: Path) -> None:
    """The name cannot be that of a folder; the next log is loaded."""
    files = write(tmp_path, odd=session(0).replace('"cluster": "alpha"', f'"cluster": "{"é" * 60}"'), whole=WHOLE)
    done = trackside("ingest", "runlog", "--warehouse", str(tmp_path / "w"), *files)
    assert done.returncode == 30
    assert "cluster: the name is longer than 200 characters (as it is quoted in a path)" in done.stderr
    assert set(contents(tmp_path / "w")["steps"]["cluster"]) == {"alpha"}
