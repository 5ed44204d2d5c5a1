"""Runs and interruptions of settled attempts stay as they are, and are what finding all of them would give."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from app.adjudicate.make import adjudicate
from app.adjudicate.requests import CauseRequest, RunJoinRequest, Signature, WhichAttempts, WithdrawRequest
from app.compute import pipeline as computing
from app.compute import settled, stored_results
from app.compute.outcome import Windows
from app.config.settings import Config, parse
from ingest.runlog import store as runlogs
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from metrics import frames
from queries.warehouse import open_writer
from tests.support.slurm.dumps import START, tiny

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queries.warehouse import Writer

NOW = datetime(2026, 11, 2, 3, 4, 5, tzinfo=UTC)
BEGIN = datetime.fromtimestamp(START, UTC)
KEY: Final = list(frames.ATTEMPT_KEY)
COMPARED_EVERY: Final = 9
"""Steps after which all is found anew to compare with: finding all takes as long as a step."""
TABLES: Final = ("run_attempts", "runs", "interruptions", "restarts", "attempt_days", "run_metrics", "gpu_time")
RULES: Final = parse({"rules": {"run_gap_hours": 3, "critical_reasons": ["never"]}}, origin="test")


@pytest.fixture(scope="module", autouse=True)
def _one_window() -> Iterator[None]:
    """Which windows are computed is tested in `test_result_windows`; here it is the whole only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_results, "standard_windows", lambda whole: [whole])
        yield


def silent(*_: object) -> None:
    pass


@dataclass
class Cluster:
    """Two weeks of a small cluster in which something is preempted each day, and what happens to it afterwards."""

    writer: Writer
    config: Config = field(default_factory=Config)
    corrections: list[str] = field(default_factory=list)

    def compute(self, *, full: bool = False) -> None:
        computing.compute(self.writer, self.config, now=NOW, full=full)

    def find(self) -> None:
        """Compute without the numbers of runs and of the window, which take half of it: these follow later."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(computing, "write_results", lambda *_args, **_more: Windows(0, 0))
            self.compute()

    def tables(self) -> dict[str, pl.DataFrame]:
        return {name: self.writer.table(name).sort(pl.all(), nulls_last=True) for name in TABLES}

    def attempts(self, *where: pl.Expr) -> pl.DataFrame:
        """Stored attempts in the order of their ends."""
        return self.writer.frame("SELECT * FROM stored.attempts").filter(*where).sort("ended_at", *KEY)

    def put(self, rows: pl.DataFrame, **new: object) -> None:
        """Store attempts with other values, in the place of those of the same key."""
        with self.writer.transaction():
            self.writer.replace("stored.attempts", rows.with_columns(**new), keys=KEY)  # type: ignore[arg-type]  # columns by name

    def remove(self, rows: pl.DataFrame) -> None:
        with self.writer.transaction():
            self.writer.delete("stored.attempts", rows.select(KEY))

    def amid(self, *where: pl.Expr) -> pl.DataFrame:
        """One attempt that ended long ago, and has others before and after it."""
        ended = self.attempts(pl.col("ended_at") < BEGIN + timedelta(days=7), *where)
        return ended[ended.height // 2 : ended.height // 2 + 1]

    def state_of_node(self, node: str, since: datetime, until: datetime | None) -> None:
        row = {
            "cluster": "tiny", "node": node, "started_at": since, "source": "slurm.events", "ended_at": until,
            "state": "down", "state_raw": "DOWN", "reason": "Not responding", "actor": "root", "planned": False,
        }  # fmt: skip
        rows = pl.DataFrame([row], schema_overrides={"started_at": frames.TIME, "ended_at": frames.TIME})
        with self.writer.transaction():
            self.writer.replace("node_states", rows, keys=["cluster", "node", "started_at"])


def node_of(row: pl.DataFrame) -> str:
    return str(row["node_list"].item().split(",")[0])


def value(row: pl.DataFrame, name: str) -> datetime:
    found = row[name].item()
    assert isinstance(found, datetime)
    return found


def at(moment: datetime) -> pl.Expr:
    return pl.lit(moment, dtype=frames.TIME)


# What happens to a cluster ------------------------------------------------------------------------------------------


def a_new_job_fails(cluster: Cluster) -> None:
    last = cluster.attempts(pl.col("ended_at").is_not_null()).tail(1)
    ended = value(last, "ended_at")
    cluster.put(
        last,
        job_id=pl.lit("90001"),
        submitted_at=at(ended),
        started_at=at(ended + timedelta(seconds=90)),
        ended_at=at(ended + timedelta(hours=1)),
        state=pl.lit("NODE_FAIL"),
        db_index=pl.lit(90_001),
    )


def an_old_attempt_arrives_late(cluster: Cluster) -> None:
    old = cluster.amid()
    cluster.remove(old)
    cluster.find()
    cluster.put(old)


def an_old_attempt_was_requeued(cluster: Cluster) -> None:
    """It turns out to have been followed by another within the gap, and by one of today beyond it."""
    old = cluster.amid(pl.col("state") == "COMPLETED")
    cluster.put(old, state=pl.lit("NODE_FAIL"))
    end = value(old, "ended_at")
    for number, later in enumerate((end + timedelta(hours=1), BEGIN + timedelta(days=13))):
        times = {"started_at": at(later), "eligible_at": at(later), "ended_at": at(later + timedelta(hours=2))}
        cluster.put(old, submitted_at=at(later), db_index=pl.lit(90_010 + number), **times)


def an_old_and_a_new_attempt_get_one_name(cluster: Cluster) -> None:
    both = pl.concat([cluster.amid(), cluster.attempts().tail(1)])
    cluster.put(both, comment=pl.lit("run=shared"), user=pl.lit("somebody"))


def another_user_takes_that_name(cluster: Cluster) -> None:
    cluster.put(cluster.amid(pl.col("comment").is_null()), comment=pl.lit("run=shared"), user=pl.lit("another"))


def the_other_user_never_was(cluster: Cluster) -> None:
    cluster.remove(cluster.attempts(pl.col("user") == "another"))


def a_new_job_continues_an_old_run(cluster: Cluster) -> None:
    old = cluster.amid(pl.col("comment").is_null()).select(KEY)
    run = cluster.writer.table("run_attempts").join(old, on=KEY, how="semi")["run_id"]
    if run.len():
        cluster.put(cluster.attempts().tail(2).head(1), comment=pl.lit(f"run={run.item()}"))


def an_old_attempt_logs(cluster: Cluster) -> None:
    """Its log names its run, and has a step a minute; the process is restarted amid them."""
    old = cluster.amid(pl.col("state") != "COMPLETED")
    began, over = (round(value(old, name).timestamp()) for name in ("started_at", "ended_at"))
    job = old["job_id"].item()
    lines: list[dict[str, object]] = []
    for number, since in enumerate((began + 20, (began + over) // 2)):
        process = {"type": "run", "run_id": "logged", "job_id": job, "restart_count": 0, "t": since}
        times = range(since + 5, min(over, (began + over) // 2 - 60 if number == 0 else over), 60)
        lines += [process, *({"type": "step", "step": step, "t": t} for step, t in enumerate(times))]
    log = cluster.writer.root / "logged.jsonl"
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    reports = runlogs.ingest_files(cluster.writer, [str(log)], cluster="tiny", now=NOW, progress=silent)
    assert first_error(reports) is None


def its_log_is_removed(cluster: Cluster) -> None:
    sessions = cluster.writer.table("run_sessions")
    if not sessions.is_empty():
        with cluster.writer.transaction():
            cluster.writer.delete("run_sessions", sessions.select("cluster", "run_id").unique())


def an_old_job_is_joined_to_a_new_run(cluster: Cluster) -> None:
    runs = cluster.writer.table("run_attempts").join(cluster.attempts(), on=KEY, how="semi").sort("submitted_at")
    if cluster.corrections or runs.is_empty():
        return
    job = runs.row(runs.height // 3, named=True)["job_id"]
    target = runs.filter(pl.col("job_id") != job)["run_id"][-1]
    request = RunJoinRequest(run=target, which=WhichAttempts(job=job), cluster="tiny")
    signature = Signature("A. Person", "agreed")
    done = adjudicate(cluster.writer, cluster.config, request, signature, now=NOW, compute=False, progress=silent)
    cluster.corrections.append(done.correction.id)


def names_are_forgotten(cluster: Cluster) -> None:
    named = cluster.attempts(pl.col("comment").is_not_null())
    cluster.put(named, comment=pl.lit(None, dtype=pl.String))


def an_old_cause_is_corrected(cluster: Cluster) -> None:
    failed = cluster.writer.table("interruptions").filter(pl.col("state") == "FAILED").sort("ended_at")
    if failed.is_empty() or cluster.corrections:
        return
    row = failed.row(failed.height // 3, named=True)
    which = WhichAttempts(job=row["job_id"], submitted=f"{row['submitted_at']:%Y-%m-%dT%H:%M:%S}")
    request = CauseRequest(cluster="tiny", which=which, kind="infrastructure", cause="nvlink", node="n1")
    signature = Signature("A. Person", "agreed")
    done = adjudicate(cluster.writer, cluster.config, request, signature, now=NOW, compute=False, progress=silent)
    cluster.corrections.append(done.correction.id)


def the_correction_is_withdrawn(cluster: Cluster) -> None:
    if cluster.corrections:
        request, signature = WithdrawRequest(cluster.corrections.pop()), Signature("A. Person", "a mistake")
        adjudicate(cluster.writer, cluster.config, request, signature, now=NOW, compute=False, progress=silent)


def first_days_are_removed(cluster: Cluster) -> None:
    cluster.remove(cluster.attempts(pl.col("submitted_at") < BEGIN + timedelta(days=2)))


def rules_change(cluster: Cluster) -> None:
    cluster.config = RULES if cluster.config is not RULES else Config()


def a_node_is_renamed(cluster: Cluster) -> None:
    rows = cluster.writer.table("node_lists")
    renamed = rows.with_columns(pl.col("nodes").list.eval(pl.element().replace({"n2": "n2-old"})))
    with cluster.writer.transaction():
        cluster.writer.replace("node_lists", renamed, keys=["node_list"])


def the_longest_attempt_ends(cluster: Cluster) -> None:
    """One that began on the first day and runs until now."""
    first = cluster.attempts(pl.col("state") != "PREEMPTED").head(1)
    running = first.with_columns(
        job_id=pl.lit("90002"),
        state=pl.lit("RUNNING"),
        ended_at=pl.lit(None, dtype=frames.TIME),
        db_index=pl.lit(90_002),
    )
    cluster.put(running)
    cluster.find()
    cluster.put(running, state=pl.lit("NODE_FAIL"), ended_at=at(BEGIN + timedelta(days=13, hours=5)))


def an_incident_begins_earlier(cluster: Cluster) -> None:
    """An attempt of another day turns out to have failed on the same node ten minutes before a settled one."""
    broken = cluster.amid(pl.col("state") == "NODE_FAIL", pl.col("n_nodes") == 1)
    if broken.is_empty():
        return
    end = value(broken, "ended_at")
    submitted = max(BEGIN, end - timedelta(days=3))
    cluster.put(
        broken,
        job_id=pl.lit("90003"),
        db_index=pl.lit(90_003),
        submitted_at=at(submitted),
        started_at=at(submitted),
        ended_at=at(end - timedelta(minutes=10)),
    )


def that_incident_ends_otherwise(cluster: Cluster) -> None:
    cluster.remove(cluster.attempts(pl.col("job_id") == "90003"))


def a_victim_made_room_for_a_late_one(cluster: Cluster) -> None:
    """One that had failed days before comes back where another was preempted; its rows arrive late."""
    victim = cluster.amid(pl.col("state") == "PREEMPTED")
    if victim.is_empty():
        return
    freed = value(victim, "ended_at")
    comer = {"job_id": pl.lit("90004"), "user": pl.lit("somebody")}
    before = freed - timedelta(hours=5)
    times = {"eligible_at": at(before), "started_at": at(before), "ended_at": at(freed - timedelta(hours=4))}
    cluster.put(victim, db_index=pl.lit(90_004), submitted_at=at(before), state=pl.lit("NODE_FAIL"), **comer, **times)
    again = freed - timedelta(hours=4)
    times = {
        "eligible_at": at(again),
        "started_at": at(freed + timedelta(seconds=60)),
        "ended_at": at(freed + timedelta(hours=1)),
    }
    cluster.put(victim, db_index=pl.lit(90_005), submitted_at=at(again), state=pl.lit("COMPLETED"), **comer, **times)


def what_it_came_back_from_was_no_failure(cluster: Cluster) -> None:
    first = cluster.attempts(pl.col("job_id") == "90004").head(1)
    if not first.is_empty():
        cluster.put(first, state=pl.lit("CANCELLED"))


def the_late_one_never_was(cluster: Cluster) -> None:
    cluster.remove(cluster.attempts(pl.col("job_id") == "90004"))


def a_node_was_down_when_one_failed(cluster: Cluster) -> None:
    failed = cluster.amid(pl.col("state") == "FAILED")
    end = value(failed, "ended_at")
    cluster.state_of_node(node_of(failed), end - timedelta(minutes=2), None)
    cluster.find()
    cluster.state_of_node(node_of(failed), end - timedelta(minutes=2), BEGIN + timedelta(days=13))


def an_old_job_was_part_of_another(cluster: Cluster) -> None:
    two = cluster.attempts(pl.col("ended_at") < BEGIN + timedelta(days=7), pl.col("het_job_id").is_null()).head(9)
    leader = two["job_id"][0]
    part = two.filter(pl.col("job_id") != leader).tail(1)
    if not part.is_empty():
        cluster.put(part, het_job_id=pl.lit(leader))


def it_was_no_part_after_all(cluster: Cluster) -> None:
    cluster.put(cluster.attempts(pl.col("het_job_id").is_not_null()), het_job_id=pl.lit(None, dtype=pl.String))


STEPS: Final[tuple[Callable[[Cluster], None], ...]] = (
    a_new_job_fails,
    an_old_attempt_arrives_late,
    an_old_attempt_was_requeued,
    an_old_cause_is_corrected,
    the_correction_is_withdrawn,
    a_node_is_renamed,
    the_longest_attempt_ends,
    an_incident_begins_earlier,
    that_incident_ends_otherwise,
    a_victim_made_room_for_a_late_one,
    what_it_came_back_from_was_no_failure,
    the_late_one_never_was,
    a_node_was_down_when_one_failed,
    an_old_job_was_part_of_another,
    it_was_no_part_after_all,
    rules_change,
    first_days_are_removed,
    an_old_and_a_new_attempt_get_one_name,
    another_user_takes_that_name,
    a_new_job_continues_an_old_run,
    the_other_user_never_was,
    an_old_attempt_logs,
    an_old_job_is_joined_to_a_new_run,
    the_correction_is_withdrawn,
    its_log_is_removed,
    names_are_forgotten,
)
SMALL: Final = (*STEPS[:3], *STEPS[7:15], *STEPS[17:])
"""Those that touch few attempts."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("settled")
    with open_writer(folder / "w", verb="test", now=NOW) as writer:
        cluster = Cluster(writer)
        reports = ingesting.ingest_files(
            writer, Config(), tiny(200, nodes=5).write(folder), ingesting.Options(), now=NOW, progress=silent
        )
        assert first_error(reports) is None
        some = cluster.attempts(pl.col("state").is_in(["TIMEOUT", "CANCELLED"]))
        cluster.put(some.gather_every(2), state=pl.lit("PREEMPTED"))
        cluster.compute()
    return folder / "w"


@pytest.fixture
def cluster(template: Path, tmp_path: Path) -> Iterator[Cluster]:
    shutil.copytree(template, tmp_path / "w", symlinks=True)
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        yield Cluster(writer)


def assert_same_as_full(cluster: Cluster) -> None:
    kept = cluster.tables()
    cluster.compute(full=True)
    for name, rows in cluster.tables().items():
        assert_frame_equal(kept[name], rows, check_exact=True)


@pytest.fixture
def found_again(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many attempts each computation found again; -1: all of them."""
    counts: list[int] = []
    real = settled.unsettled

    def counted(*args: Writer | str, **kwargs: pl.DataFrame) -> settled.Unsettled | None:
        some = real(*args, **kwargs)  # type: ignore[arg-type]  # passed on
        counts.append(-1 if some is None else some.attempts.height)
        return some

    monkeypatch.setattr(settled, "unsettled", counted)
    return counts


@pytest.mark.slow
def test_what_happens_is_found_without_the_settled(cluster: Cluster, found_again: list[int]) -> None:
    everything = cluster.attempts().height
    for number, step in enumerate(STEPS, 1):
        step(cluster)
        compared = number % COMPARED_EVERY == 0 or number == len(STEPS)
        (cluster.compute if compared else cluster.find)()
        if step in SMALL:
            assert 0 < found_again[-1] < everything / 2, step.__name__
        if compared:
            assert_same_as_full(cluster)


@pytest.mark.slow
def test_nothing_new_finds_nothing_again(cluster: Cluster, found_again: list[int]) -> None:
    for step in (a_new_job_fails, a_victim_made_room_for_a_late_one, an_incident_begins_earlier):
        step(cluster)
    cluster.compute()
    before = cluster.tables()
    cluster.compute()
    assert found_again[-1] == 0
    for name, rows in cluster.tables().items():
        assert_frame_equal(before[name], rows, check_exact=True)


@pytest.mark.slow
def test_a_settled_preemption_learns_whom_it_made_room_for(cluster: Cluster) -> None:
    a_victim_made_room_for_a_late_one(cluster)
    cluster.find()
    rows = cluster.writer.table("interruptions").filter(pl.col("made_room_for").str.starts_with("90004-"))
    assert rows["second_order"].to_list() == [True]
    what_it_came_back_from_was_no_failure(cluster)
    cluster.find()
    rows = cluster.writer.table("interruptions").filter(pl.col("made_room_for").str.starts_with("90004-"))
    assert rows["second_order"].to_list() == [False]
    the_late_one_never_was(cluster)
    cluster.find()
    assert cluster.writer.table("interruptions").filter(pl.col("made_room_for").str.starts_with("90004-")).is_empty()


@pytest.mark.slow
def test_a_settled_failure_joins_the_incident_before_it(cluster: Cluster) -> None:
    before = cluster.writer.table("interruptions").drop_nulls("incident")
    an_incident_begins_earlier(cluster)
    cluster.find()
    after = cluster.writer.table("interruptions").drop_nulls("incident")
    new = after.filter(pl.col("job_id") == "90003")["incident"].item()
    joined = after.filter(pl.col("incident") == new, pl.col("job_id") != "90003")
    assert joined.height == 1
    assert not before.join(joined, on=KEY, how="semi")["incident"].is_in([new]).any()


@pytest.mark.slow
def test_runs_of_names_and_logs_are_what_they_are_called(cluster: Cluster) -> None:
    an_old_and_a_new_attempt_get_one_name(cluster)
    cluster.find()
    assert cluster.writer.table("runs")["run_id"].to_list().count("shared") == 1
    another_user_takes_that_name(cluster)
    an_old_attempt_logs(cluster)
    cluster.find()
    names = cluster.writer.table("runs")["run_id"].to_list()
    assert {"shared@somebody", "shared@another", "logged"} <= set(names)
    assert cluster.writer.table("restarts")["in_allocation"].sum() == 1
    assert not cluster.writer.table("attempt_days").is_empty()


@pytest.mark.slow
def test_runs_joined_by_likeness_are_found_again(cluster: Cluster, found_again: list[int]) -> None:
    cluster.config = parse({"rules": {"join_by_name": True}}, origin="test")
    cluster.compute()
    assert not found_again
    assert cluster.writer.table("attempt_days").is_empty()
    assert_same_as_full(cluster)


@pytest.mark.slow
def test_runs_without_some_attempts_are_all_found_again(cluster: Cluster, found_again: list[int]) -> None:
    with cluster.writer.transaction():
        cluster.writer.delete("run_attempts", cluster.writer.table("run_attempts").head(3).select(KEY))
    cluster.compute()
    assert found_again == [-1]
    assert_same_as_full(cluster)


@pytest.mark.slow
@settings(max_examples=2, deadline=None)
@given(steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=5))
@example(steps=list(STEPS[::-1]))
def test_runs_are_those_of_finding_all_whatever_happened(
    template: Path, steps: list[Callable[[Cluster], None]]
) -> None:
    """Three steps happen between two computations; all is found anew at the end, and amid many steps."""
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(template, Path(name) / "w", symlinks=True)
        with open_writer(Path(name) / "w", verb="test", now=NOW) as writer:
            cluster = Cluster(writer)
            for number, step in enumerate(steps, 1):
                step(cluster)
                if number % 9 == 0 or number == len(steps):
                    cluster.compute()
                    assert_same_as_full(cluster)
                elif number % 3 == 0:
                    cluster.find()
