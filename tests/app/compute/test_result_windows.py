"""A computation does again the windows whose inputs changed, and no other; the result is that of doing them all."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from app.adjudicate.make import adjudicate
from app.adjudicate.requests import CauseRequest, Signature, WhichAttempts, WithdrawRequest
from app.compute import pipeline as computing
from app.compute.attempt_nodes import AttemptNodes
from app.compute.stored_results import BY_WINDOW
from app.compute.window_inputs import Rows
from app.config.settings import Config, parse
from ingest.runlog import store as runlogs
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from metrics import frames
from queries.warehouse import open_writer
from tests.support.slurm.dumps import tiny
from tests.support.warehouses import simulated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ingest.store.report import LoadReport
    from queries.warehouse import Writer

NOW = datetime(2026, 11, 2, 3, 4, 5, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
BEGIN = datetime(2026, 9, 1, tzinfo=UTC)
NEW_MONTH = datetime(2026, 10, 1, 6, tzinfo=UTC)
END = datetime(2026, 10, 3, tzinfo=UTC)
LATE = "4140"
RULES = parse({"rules": {"run_gap_hours": 3, "critical_reasons": ["never"]}}, origin="test")

ALL_RESULTS: Final = (
    *BY_WINDOW,
    "result_windows",
    "run_metrics",
    *(table for table in (*computing.DERIVED, *computing.BY_ROW, *computing.BY_DAY) if table != "computes"),
)
"""All that a computation writes, but for when it was made: a table that comes later is compared from its first day."""


@pytest.fixture(scope="module")
def sources() -> Path:
    return simulated()


def silent(*_: object) -> None:
    pass


def accounting_until(text: str, until: datetime, *, without: str = "") -> str:
    """What accounting reported at a moment; one job's rows may be late."""
    lines, moment = text.splitlines(), round(until.timestamp())
    at = {name: place for place, name in enumerate(lines[0].split("|"))}
    kept = [lines[0]]
    for line in lines[1:]:
        cells = line.split("|")
        if int(cells[at["Submit"]]) >= moment or cells[at["JobIDRaw"]] == without:
            continue
        if cells[at["Start"]].isdigit() and int(cells[at["Start"]]) >= moment:
            changed = {"Start": "Unknown", "End": "Unknown", "State": "PENDING", "NodeList": "None assigned"}
        elif cells[at["End"]].isdigit() and int(cells[at["End"]]) > moment:
            changed = {"End": "Unknown", "State": "RUNNING", "ExitCode": "0:0"}
        else:
            changed = {}
        for name, value in changed.items():
            cells[at[name]] = value
        if changed.get("State") == "PENDING":
            cells[at["AllocTRES"]] = ""
        kept.append("|".join(cells))
    return "\n".join(kept) + "\n"


def events_until(text: str, until: datetime) -> str:
    lines, moment = text.splitlines(), round(until.timestamp())
    kept = lines[:2]
    for line in lines[2:]:
        cells = line.split("|")
        if int(cells[2]) < moment:
            cells[3] = cells[3] if cells[3].isdigit() and int(cells[3]) <= moment else "Unknown"
            kept.append("|".join(cells))
    return "\n".join(kept) + "\n"


def log_until(text: str, until: datetime) -> str:
    kept = []
    for line in text.splitlines():
        record = json.loads(line)
        if max(record.get(name) or 0 for name in ("t", "end", "begin")) <= until.timestamp():
            kept.append(line)
    return "".join(f"{line}\n" for line in kept)


@dataclass
class Cluster:
    """A simulated cluster whose sources are read as time goes on."""

    writer: Writer
    sources: Path
    folder: Path
    until: datetime = NEW_MONTH
    logs: bool = False
    late: str = ""
    settings: Config = field(default_factory=Config)
    since: datetime | None = None
    corrections: list[str] = field(default_factory=list)

    def load(self) -> None:
        """Read what the sources report by now."""
        texts = {
            "sacct.txt": accounting_until(self.text("sacct.txt"), self.until, without=self.late),
            "events.txt": events_until(self.text("events.txt"), self.until),
            "nodes-start.txt": self.text("nodes-start.txt"),
        }
        options = ingesting.Options(cluster="demo", since=BEGIN, until=self.until)
        reports = ingesting.ingest_files(self.writer, Config(), self.files(texts), options, now=NOW, progress=silent)
        assert first_error(reports) is None
        if self.logs:
            texts = {
                file.name: log for file in (self.sources / "runs").glob("*.jsonl")
                if (log := log_until(file.read_text(), self.until))
            }  # fmt: skip
            read: list[LoadReport] = runlogs.ingest_files(
                self.writer, self.files(texts), cluster="demo", now=NOW, progress=silent
            )
            assert first_error(read) is None

    def text(self, name: str) -> str:
        return (self.sources / name).read_text()

    def files(self, texts: dict[str, str]) -> list[str]:
        for name, text in texts.items():
            (self.folder / name).write_text(text)
        return [str(self.folder / name) for name in texts]

    def compute(self, *, full: bool = False) -> list[str]:
        """Compute; returns how many windows of each cluster changed, as it was reported."""
        reported: list[str] = []
        computing.compute(
            self.writer,
            self.settings,
            now=LATER if full else NOW,
            since=self.since,
            full=full,
            progress=lambda what, *_: reported.append(what),
        )
        return [each.partition("results: ")[2] for each in reported if "windows changed" in each]

    def results(self) -> dict[str, pl.DataFrame]:
        tables = {name: self.writer.table(name) for name in ALL_RESULTS}
        return {
            name: rows.drop("computed_at", strict=False).sort(pl.all().exclude("families"), nulls_last=True)
            for name, rows in tables.items()
        }


# What happens to a cluster ------------------------------------------------------------------------------------------


def hours_pass(cluster: Cluster) -> None:
    cluster.until = min(cluster.until + timedelta(hours=17), END)
    cluster.load()


def a_late_job_arrives(cluster: Cluster) -> None:
    cluster.late = ""
    cluster.load()


def a_cause_is_corrected(cluster: Cluster) -> None:
    failed = cluster.writer.table("interruptions").filter(pl.col("state") == "FAILED").sort("ended_at")
    if not (failed.is_empty() or cluster.corrections):
        correct_cause(cluster, failed.row(failed.height // 2, named=True))


def correct_cause(cluster: Cluster, row: dict[str, Any]) -> None:
    which = WhichAttempts(job=row["job_id"], submitted=f"{row['submitted_at']:%Y-%m-%dT%H:%M:%S}")
    request = CauseRequest(cluster="demo", which=which, kind="infrastructure", cause="nvlink")
    signature = Signature("A. Person", "agreed")
    done = adjudicate(cluster.writer, cluster.settings, request, signature, now=NOW, compute=False, progress=silent)
    cluster.corrections.append(done.correction.id)


def the_correction_is_withdrawn(cluster: Cluster) -> None:
    if cluster.corrections:
        request, signature = WithdrawRequest(cluster.corrections.pop()), Signature("A. Person", "a mistake")
        adjudicate(cluster.writer, cluster.settings, request, signature, now=NOW, compute=False, progress=silent)


def rules_change(cluster: Cluster) -> None:
    cluster.settings = RULES if cluster.settings is not RULES else Config()


def first_days_leave_or_return(cluster: Cluster) -> None:
    cluster.since = None if cluster.since else BEGIN + timedelta(days=4, hours=5)


def another_cluster_is_read(cluster: Cluster) -> None:
    other = cluster.folder / "tiny"
    other.mkdir(exist_ok=True)
    reports = ingesting.ingest_files(
        cluster.writer, Config(), tiny(20).write(other), ingesting.Options(), now=NOW, progress=silent
    )
    assert first_error(reports) is None


def the_other_cluster_is_removed(cluster: Cluster) -> None:
    gone = pl.DataFrame({"cluster": ["tiny"]})
    with cluster.writer.transaction():
        for table in ("stored.attempts", "resubmissions", "nodes", "node_states", "loads"):
            cluster.writer.delete(table, gone)


def a_runs_first_attempt_ends_otherwise(cluster: Cluster) -> None:
    of_runs = cluster.writer.table("run_attempts")
    continued = of_runs.filter(pl.col("attempt_no") == 2)["run_id"].sort()
    if not continued.is_empty():
        first = of_runs.filter(pl.col("run_id") == continued[continued.len() // 2], pl.col("attempt_no") == 1)
        change_attempts(cluster, first, pl.lit("NODE_FAIL").alias("state"))


def an_old_attempt_ends_days_later(cluster: Cluster) -> None:
    attempts = cluster.writer.table("attempts").filter(pl.col("ended_at") < BEGIN + timedelta(days=9)).sort("ended_at")
    if not attempts.is_empty():
        later = (pl.col("ended_at") + timedelta(days=11)).alias("ended_at")
        change_attempts(cluster, attempts.tail(1), later)


def change_attempts(cluster: Cluster, some: pl.DataFrame, new: pl.Expr | list[pl.Expr]) -> None:
    keys = list(frames.ATTEMPT_KEY)
    with cluster.writer.transaction():
        rows = cluster.writer.frame("SELECT * FROM stored.attempts").join(some.select(keys), on=keys, how="semi")
        cluster.writer.replace("stored.attempts", rows.with_columns(new), keys=keys)


def jobs_of_a_day_amid_the_others_are_removed(cluster: Cluster) -> None:
    day = (BEGIN + timedelta(days=12)).date()
    gone = cluster.writer.table("attempts").filter(pl.col("started_at").dt.date() == day)
    with cluster.writer.transaction():
        cluster.writer.delete("stored.attempts", gone.select(frames.ATTEMPT_KEY))


def old_nodes_were_others(cluster: Cluster) -> None:
    """An attempt was on other nodes than accounting had recorded, and one of the nodes is in no inventory."""
    held = pl.col("ended_at") < BEGIN + timedelta(days=9), pl.col("n_nodes") > 0
    some = cluster.writer.table("attempts").filter(held).sort("ended_at", "job_id").tail(1)
    lists = cluster.writer.table("node_lists")["node_list"].sort()
    others = lists.filter(~lists.is_in(some["node_list"].to_list()))
    change_attempts(cluster, some, pl.lit(others[0]).alias("node_list"))
    unnamed = cluster.writer.table("nodes").sort("node").select("cluster", "node").head(1)
    with cluster.writer.transaction():
        cluster.writer.delete("nodes", unnamed)


def logs_are_removed(cluster: Cluster) -> None:
    with cluster.writer.transaction():
        for table in ("run_sessions", "run_events"):
            cluster.writer.delete(table, pl.DataFrame({"cluster": ["demo"]}))


STEPS: Final[Sequence[Callable[[Cluster], None]]] = (
    hours_pass,
    a_late_job_arrives,
    a_cause_is_corrected,
    the_correction_is_withdrawn,
    rules_change,
    first_days_leave_or_return,
    another_cluster_is_read,
    the_other_cluster_is_removed,
    a_runs_first_attempt_ends_otherwise,
    an_old_attempt_ends_days_later,
    jobs_of_a_day_amid_the_others_are_removed,
    old_nodes_were_others,
)


def assert_same_as_full(cluster: Cluster) -> None:
    kept = cluster.results()
    cluster.compute(full=True)
    for name, rows in cluster.results().items():
        assert_frame_equal(kept[name], rows, check_exact=True)


@pytest.fixture(scope="module")
def template(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse of a month, computed, in which a job's rows are late."""
    folder = tmp_path_factory.mktemp("template")
    with open_writer(folder / "w", verb="test", now=NOW) as writer:
        cluster = Cluster(writer, sources, folder, late=LATE)
        cluster.load()
        cluster.compute()
    return folder / "w"


@contextlib.contextmanager
def copy_of(template: Path, sources: Path) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(template, Path(name) / "w", symlinks=True)
        with open_writer(Path(name) / "w", verb="test", now=NOW) as writer:
            yield Cluster(writer, sources, Path(name), late=LATE)


@pytest.mark.slow
@settings(max_examples=2, deadline=None)
@given(steps=st.lists(st.sampled_from(STEPS), min_size=2, max_size=4))
@example(steps=[*STEPS[-4:], hours_pass])
def test_results_equal_a_full_computation_whatever_changed(
    template: Path, sources: Path, steps: list[Callable[[Cluster], None]]
) -> None:
    with copy_of(template, sources) as cluster:
        for number, step in enumerate(steps, 1):
            step(cluster)
            cluster.compute()
            if number % 2 == 0 or number == len(steps):
                assert_same_as_full(cluster)


@pytest.mark.slow
def test_nodes_read_in_part_give_the_rows_of_all(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        cluster = Cluster(writer, sources, tmp_path, until=BEGIN + timedelta(days=6), logs=True)
        cluster.load()
        old_nodes_were_others(cluster)
        cluster.compute()
        for name in ("of", "holding", "presence"):
            monkeypatch.setattr(AttemptNodes, name, lambda known, *_: known.every())
        assert_same_as_full(cluster)


@pytest.mark.slow
def test_nothing_is_left_of_a_cluster_whose_data_are_removed(template: Path, sources: Path) -> None:
    with copy_of(template, sources) as cluster:
        alone = cluster.results()
        another_cluster_is_read(cluster)
        cluster.compute()
        assert cluster.results()["gpu_time"].height > alone["gpu_time"].height
        the_other_cluster_is_removed(cluster)
        cluster.compute()
        for name, rows in cluster.results().items():
            assert_frame_equal(alone[name], rows, check_exact=True)
        assert_same_as_full(cluster)


@pytest.mark.slow
def test_a_new_day_and_its_logs_keep_the_month_before(sources: Path, tmp_path: Path) -> None:
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        cluster = Cluster(writer, sources, tmp_path, logs=True)
        cluster.load()
        assert cluster.compute() == ["5 of 5 windows changed"]
        assert cluster.compute() == ["1 of 5 windows changed"]  # the whole is always computed
        cluster.until = NEW_MONTH + timedelta(hours=9)
        cluster.load()
        changed = cluster.compute()
        assert_same_as_full(cluster)
        assert changed == ["4 of 5 windows changed"]
        logged = writer.table("run_results").filter("job_logged").height
        logs_are_removed(cluster)
        cluster.compute()
        assert_same_as_full(cluster)
        assert writer.table("run_results").filter("job_logged").height == 0 < logged


def failures_of_infrastructure(cluster: Cluster, until: datetime) -> int:
    """Of the window that ends at a moment, as they are stored."""
    rates = cluster.writer.table("failure_rates").filter(pl.col("window_until") == until)
    of = (pl.col("class") == "infrastructure") & (pl.col("counted") == "attempts") & (pl.col("size") == "pooled")
    return int(rates.filter(of)["n_failures"].item())


@pytest.mark.slow
def test_cause_of_an_end_at_midnight_is_of_the_month_before(sources: Path, tmp_path: Path) -> None:
    midnight = datetime(2026, 10, 1, tzinfo=UTC)
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        cluster = Cluster(writer, sources, tmp_path)
        cluster.load()
        over = pl.col("ended_at").is_null() | (pl.col("ended_at") > midnight)
        running = writer.table("attempts").filter((pl.col("started_at") < midnight) & over).sort("job_id").head(1)
        failed = [pl.lit("FAILED").alias("state"), pl.lit(midnight).dt.cast_time_unit("us").alias("ended_at")]
        change_attempts(cluster, running, failed)
        cluster.compute()
        row = writer.table("interruptions").filter(pl.col("ended_at") == midnight).row(0, named=True)
        before = failures_of_infrastructure(cluster, midnight)
        correct_cause(cluster, row)
        cluster.compute()
        assert failures_of_infrastructure(cluster, midnight) == before + 1
        assert_same_as_full(cluster)


@given(
    ends=st.lists(st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 9))), max_size=8),
    window=st.tuples(st.integers(0, 9), st.integers(1, 9)),
)
def test_rows_that_overlap_a_window_decide_its_digest(
    ends: list[tuple[int, int | None]], window: tuple[int, int]
) -> None:
    def moment(number: int) -> datetime:
        return BEGIN + timedelta(days=number)

    rows = [(moment(low), None if long is None else moment(low + long), low) for low, long in ends]
    schema = {"begin": frames.TIME, "end": frames.TIME, "value": pl.Int64()}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    since, until = moment(window[0]), moment(sum(window))
    inside = table.filter((pl.col("begin") < until) & (pl.col("end").is_null() | (pl.col("end") >= since)))
    whole = (BEGIN - timedelta(days=1), BEGIN + timedelta(days=99))
    edges = (since, until, *whole)
    assert Rows(table, 7, edges).within(since, until) == Rows(inside, 7, edges).within(*whole)
    assert Rows(table.reverse(), 7, (since, until)).within(since, until) == Rows(table, 7, edges).within(since, until)
