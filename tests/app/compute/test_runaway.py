"""Runaway jobs (accounting never closed them, Slurm no longer knows them): how long they can have held their GPUs."""

from __future__ import annotations

import functools
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.compute import pipeline as computing
from app.config.settings import Config
from app.show.answer import Question
from app.show.questions.runs.runs import runs
from app.window import Window
from ingest.context import ParseContext
from ingest.slurm.accounting.merge import merge_attempts
from ingest.slurm.formats.nodelist import expand_column
from ingest.slurm.scheduler.runaway import parse_runaway
from ingest.slurm.write import write_input
from ingest.store.request import from_file
from ingest.tables import TEXTS, WARNINGS, columns_of
from queries.warehouse import open_reader, open_writer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from queries.warehouse import CheckResult

START = datetime(2026, 3, 2, tzinfo=UTC)
NOW = datetime(2026, 5, 1, tzinfo=UTC)
UNTIL = 100.0


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


def job(
    name: str, started: float | None, ended: float | None, *, gpus: int = 8, nodes: str = "n1", **more: object
) -> dict[str, object]:
    """A job of a cluster of 8-GPU nodes; without an end it is running, or pending if it has no start."""
    held = started is not None
    state = "COMPLETED" if ended is not None else "RUNNING" if held else "PENDING"
    submitted = at(started if started is not None else 0.0)
    return {
        "cluster": "c",
        "scheduler": "slurm",
        "job_id": name,
        "submitted_at": submitted,
        "eligible_at": submitted,
        "started_at": submitted if held else None,
        "ended_at": None if ended is None else at(ended),
        "state": state,
        "exit_code": 0,
        "user": "alice",
        "name": f"job-{name}",
        "n_nodes": nodes.count("n") if held else 0,
        "n_gpus": gpus if held else 0,
        "req_gpus": gpus,
        "node_list": nodes if held else None,
    } | more


class Made:
    """A loaded warehouse, which is computed once a test looks at what depends on that."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @functools.cached_property
    def warnings(self) -> Sequence[CheckResult]:
        with open_writer(self.root, verb="test", now=NOW) as writer:
            return computing.compute(writer, Config(), now=NOW).warnings

    def computed(self) -> Path:
        assert self.warnings is not None
        return self.root

    def table(self, name: str) -> pl.DataFrame:
        with open_reader(self.computed()) as reader:
            return reader.table(name)

    def hours_of(self, name: str) -> float:
        """How long the ledger lets a job hold each of its GPUs, from its start."""
        mine = self.table("gpu_time").filter(pl.col("job_id") == name)
        gpus = float(mine.group_by("node").agg(pl.col("gpus").max())["gpus"].cast(pl.Float64).sum())
        return float(mine["gpu_seconds"].cast(pl.Float64).sum()) / gpus / 3600 if mine.height else 0.0

    def warned(self) -> set[str]:
        return {result.check.name for result in self.warnings}


def rows(name: str, *found: Mapping[str, object]) -> pl.DataFrame:
    schema = columns_of(name)
    return pl.DataFrame([dict.fromkeys(schema) | dict(row) for row in found], schema=schema)


def listed(name: str, seen: float, submitted: float = 0.0) -> dict[str, object]:
    return {
        "cluster": "c",
        "job_id": name,
        "submitted_at": at(submitted),
        "started_at": at(submitted),
        "state": "RUNNING",
        "first_seen_at": at(seen),
        "last_seen_at": at(seen + 10),
    }


def node_event(node: str, hours: float, state: str = "down", source: str = "slurm.events") -> dict[str, object]:
    return {
        "cluster": "c",
        "node": node,
        "started_at": at(hours),
        "ended_at": at(hours + 1),
        "state": state,
        "state_raw": state.upper(),
        "planned": False,
        "source": source,
    }


def make(
    folder: Path,
    *jobs: Mapping[str, object],
    runaway: Sequence[Mapping[str, object]] = (),
    states: Sequence[Mapping[str, object]] = (),
    inventory: Sequence[str] = ("n1", "n2"),
    looks: Sequence[pl.DataFrame] = (),
) -> Made:
    root = folder / "warehouse"
    with open_writer(root, verb="test", now=NOW) as writer, writer.transaction():
        attempts = merge_attempts(rows("attempts", *jobs))
        writer.append("stored.attempts", attempts)
        lists = expand_column(attempts["node_list"]).select(pl.col("text").alias("node_list"), "nodes")
        writer.append("node_lists", lists)
        writer.append("runaway_jobs", rows("runaway_jobs", *runaway))
        writer.append("node_states", rows("node_states", *states))
        for node in inventory:
            there = {
                "cluster": "c",
                "node": node,
                "valid_from": at(0),
                "last_seen_at": at(UNTIL),
                "n_gpus": 8,
                "evidence": "accounting",
            }
            writer.append("nodes", rows("nodes", there))
        for row in (_load("slurm.accounting"), _load("slurm.events"), *looks):
            writer.append("loads", row)
    return Made(root)


def _load(
    source: str, since: float = 0, until: float = UNTIL, *, refused: int = 0, cluster: str = "c", digest: str = ""
) -> pl.DataFrame:
    counts = ("rows_read", "rows_loaded", "rows_duplicate", "rows_skipped")
    return pl.DataFrame(
        {"cluster": [cluster], "source": [source], "origin": ["test"], "transport": ["command"], "partial": [False],
         "digest": [digest or f"{source} {until}"],
         "loaded_at": [NOW], "covers_from": [at(since)], "covers_until": [at(until)],
         **{name: [0] for name in counts}, "rows_rejected": [refused], "columns": [[]], "warnings": [[]]},
        schema_overrides={"columns": TEXTS, "warnings": WARNINGS},
    )  # fmt: skip


def look(hours: float, **more: Any) -> pl.DataFrame:
    """A list of runaway jobs, asked for then."""
    return _load("slurm.runaway", hours, hours, **more)


def ends(made: Made) -> dict[str, tuple[float, str]]:
    """When each runaway ended at the latest (hours), and why."""
    with open_reader(made.root) as reader:  # a view of what was loaded
        found = reader.table("runaway_attempts").select("job_id", "ended_at", "because").rows()
    return {name: ((ended - START).total_seconds() / 3600, because) for name, ended, because in found}


LISTED, GIVEN, SERVICE = (
    "it was found to be a runaway job",
    "its GPUs were given to others",
    "its node went out of service",
)


@pytest.mark.slow
def test_without_evidence_it_held_its_gpus_until_detected(tmp_path: Path) -> None:
    made = make(tmp_path, job("1", 0, None), runaway=[listed("1", 50)])
    assert ends(made) == {"1": (50.0, LISTED)}
    assert made.hours_of("1") == 50
    assert "source_runaway" in made.warned()
    mine = made.table("gpu_time").filter(pl.col("job_id") == "1")
    assert set(mine["category"]) == {"unattributed"}
    assert set(mine["evidence"]) == {"assumed"}


@pytest.mark.slow
def test_it_had_ended_when_its_gpus_were_given_to_others(tmp_path: Path) -> None:
    cases = {  # node of the runaway job, who came later -> when it had ended
        "n1": (job("a", 20, 30, nodes="n1"), (20.0, GIVEN)),
        "n2": (job("b", 20, None, nodes="n2"), (20.0, GIVEN)),
        "n3": (job("c", 60, 70, nodes="n3"), (50.0, LISTED)),  # later than it was found out
        "n4": (job("d", 20, 30, nodes="n7"), (50.0, LISTED)),  # elsewhere
        "n5": (job("e", 20, 30, gpus=0, nodes="n5"), (50.0, LISTED)),  # took no GPU
        "n6": (job("f", 20, 20, nodes="n6"), (50.0, LISTED)),  # for no time at all
    }
    made = make(
        tmp_path,
        *(job(node, 0, None, nodes=node) for node in cases),
        *(other for other, _ in cases.values()),
        runaway=[listed(node, 50) for node in cases],
        inventory=[f"n{number}" for number in range(1, 8)],
    )
    assert ends(made) == {node: expected for node, (_, expected) in cases.items()}


@pytest.mark.slow
def test_a_job_that_fits_next_to_it_does_not_end_it(tmp_path: Path) -> None:
    made = make(
        tmp_path,
        job("1", 0, None, gpus=4),
        job("2", 10, 20, gpus=4),
        job("3", 20, 40, gpus=2),  # begins when the one before ends
        job("4", 30, 50, gpus=2),
        job("5", 35, 36, gpus=1),  # 4 + 2 + 2 + 1
        runaway=[listed("1", 50)],
    )
    assert ends(made) == {"1": (35.0, GIVEN)}
    assert "ledger_allocation_above_inventory" not in made.warned()


def test_a_job_that_had_its_gpus_before_it_began_does_not_end_it(tmp_path: Path) -> None:
    made = make(tmp_path, job("2", 0, None, gpus=4), job("1", 5, None, gpus=4), runaway=[listed("1", 50, 5)])
    assert ends(made) == {"1": (50.0, LISTED)}


def test_it_had_ended_when_its_node_went_out_of_service(tmp_path: Path) -> None:
    cases = {
        "n1": (node_event("n1", 12), (12.0, SERVICE)),
        "n2": (node_event("n2", 12, "drained"), (12.0, SERVICE)),  # recorded once the node's last job is gone
        "n3": (node_event("n3", 12, "unknown"), (12.0, SERVICE)),
        "n4": (node_event("n4", 12, "drained", "slurm.nodes"), (50.0, LISTED)),  # asked for, while jobs still run
        "n5": (node_event("n5", 60), (50.0, LISTED)),
        "n6": (node_event("n6", 0), (50.0, LISTED)),  # before it began
    }
    made = make(
        tmp_path,
        *(job(node, 0, None, nodes=node) for node in cases),
        runaway=[listed(node, 50) for node in cases],
        states=[event for event, _ in cases.values()],
        inventory=list(cases),
    )
    assert ends(made) == {node: expected for node, (_, expected) in cases.items()}


@pytest.mark.slow
def test_one_of_its_nodes_is_enough(tmp_path: Path) -> None:
    made = make(
        tmp_path, job("1", 0, None, gpus=16, nodes="n1,n2"), job("2", 20, 30, nodes="n2"), runaway=[listed("1", 50)]
    )
    assert ends(made) == {"1": (20.0, GIVEN)}
    assert made.hours_of("1") == 20


def test_of_several_runaways_the_older_one_went_first(tmp_path: Path) -> None:
    made = make(
        tmp_path,
        job("1", 0, None, gpus=8),
        job("2", 10, None, gpus=4),
        job("3", 20, 30, gpus=4),
        job("4", 40, 50, gpus=6),
        runaway=[listed("1", 90), listed("2", 90, 10)],
    )
    assert ends(made) == {"1": (10.0, GIVEN), "2": (40.0, GIVEN)}


def test_node_without_inventory_has_the_most_gpus_ever_held(tmp_path: Path) -> None:
    made = make(tmp_path, job("1", 0, None, gpus=8), job("2", 20, 30, gpus=2), runaway=[listed("1", 50)], inventory=())
    assert ends(made) == {"1": (20.0, GIVEN)}


@pytest.mark.slow
def test_one_that_never_started_waited_until_detected(tmp_path: Path) -> None:
    made = make(tmp_path, job("1", None, None), job("2", 0, 1), runaway=[listed("1", 50)])
    assert ends(made) == {"1": (50.0, LISTED)}
    waited = made.table("gpu_time").filter(pl.col("category") == "pending_demand")
    assert waited["ended_at"].max() == at(50)


@pytest.mark.slow
def test_mending_accounting_does_not_make_its_time_vanish(tmp_path: Path) -> None:
    """`sacctmgr show runawayjobs` closes the row as COMPLETED at its own start."""
    made = make(tmp_path, job("1", 0, 0), job("2", 20, 30), runaway=[listed("1", 50)])
    assert made.hours_of("1") == 20


@pytest.mark.slow
def test_open_job_missing_from_a_later_list_was_listed_wrongly(tmp_path: Path) -> None:
    made = make(
        tmp_path, job("1", 0, None), job("2", 0, None), runaway=[listed("1", 50), listed("2", 70)], looks=[look(61)]
    )  # both were last found ten hours after the first time
    assert ends(made) == {"2": (70.0, LISTED)}
    assert made.hours_of("1") == UNTIL
    with open_reader(made.root) as reader:
        assert dict(reader.query("attempts", cluster="c").select("job_id", "state").rows())["1"] == "RUNNING"


@pytest.mark.slow
@pytest.mark.parametrize(
    "looks",
    [
        [look(60)],  # the list that it was last on
        [look(40)],  # loaded late
        [look(70, refused=1)],  # it may be among the refused rows
        [
            look(70, digest="x"),
            look(70, digest="x", refused=1, cluster="b"),
        ],  # which are counted with the first cluster
        [look(70, cluster="d")],
        [_load("slurm.accounting", 0, 70)],
    ],
)
def test_a_list_that_cannot_lack_it_withdraws_nothing(tmp_path: Path, looks: Sequence[pl.DataFrame]) -> None:
    made = make(tmp_path, job("1", 0, None), runaway=[listed("1", 50)], looks=looks)
    assert ends(made) == {"1": (50.0, LISTED)}


def test_corrected_runaway_stays_one_though_on_no_later_list(tmp_path: Path) -> None:
    made = make(tmp_path, job("1", 0, 0), runaway=[listed("1", 50)], looks=[look(70)])
    assert ends(made) == {"1": (50.0, LISTED)}


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_lists_are_loaded_in_any_order(tmp_path: Path, order: Sequence[int]) -> None:
    lists = [
        b"ID|Cluster|State|TimeSubmit|TimeStart\n%s" % line
        for line in (b"1|c|RUNNING|%d|%d\n" % (START.timestamp(), START.timestamp()), b"")
    ]
    root = make(tmp_path, job("1", 0, None)).root
    with open_writer(root, verb="test", now=NOW) as writer:
        for number in order:
            given = ParseContext(origin="x", cluster="c", until=at(50 + number))
            parsed = parse_runaway(lists[number], given)
            write_input(writer, parsed, request=from_file("x"), data=lists[number], now=NOW, cluster="c")
    with open_reader(root) as reader:
        assert reader.table("runaway_jobs").height == 1
        assert reader.table("runaway_attempts").is_empty()


@pytest.mark.slow
def test_a_job_that_got_an_end_after_all_is_no_runaway(tmp_path: Path) -> None:
    made = make(tmp_path, job("1", 0, 5), runaway=[listed("1", 3)])
    assert ends(made) == {}
    assert made.hours_of("1") == 5


@pytest.mark.slow
def test_another_job_of_the_same_id_is_not_meant(tmp_path: Path) -> None:
    made = make(tmp_path, job("1", 0, None), job("1", 60, None), runaway=[listed("1", 50)])
    assert ends(made) == {"1": (50.0, LISTED)}
    assert made.hours_of("1") == 50 + (UNTIL - 60)


@pytest.mark.slow
def test_a_runaway_is_shown_as_such_and_interrupts_nothing(tmp_path: Path) -> None:
    made = make(tmp_path, job("1", 0, None), job("2", 20, 30), runaway=[listed("1", 50)])
    with open_reader(made.computed()) as reader:
        answer = runs(reader, Window("c", at(0), at(UNTIL)), Question())
    shown = {
        run.split("-")[0]: (state, ended)
        for run, state, ended in answer.rows.select("run_id", "state", "ended_at").rows()
    }
    assert shown == {"1": ("RUNAWAY", at(20)), "2": ("COMPLETED", at(30))}
    assert any(note.startswith("RUNAWAY") for note in answer.notes)
    assert made.table("interruptions").is_empty()
    rates = made.table("failure_rates").filter((pl.col("size") == "pooled") & (pl.col("window_from") == at(0)))
    assert rates["exposure_gpu_days"].max() == pytest.approx(8 * 30 / 24)


@pytest.mark.slow
def test_its_time_counts_in_the_bounds(tmp_path: Path) -> None:
    made = make(tmp_path, job("1", 0, None), runaway=[listed("1", 50)])
    whole = (
        (pl.col("window_from") == at(0)) & (pl.col("window_until") == at(UNTIL)) & (pl.col("dimension") == "cluster")
    )
    (goodput,) = made.table("cluster_metrics").filter(whole & (pl.col("metric") == "goodput_allocated")).to_dicts()
    assert (goodput["value"], goodput["bound_low"], goodput["bound_high"]) == (None, 0, 1)
    assert goodput["denominator"] == 8 * 50 * 3600
    assert goodput["evidence_assumed"] == 1


@pytest.mark.slow
def test_unlisted_job_whose_gpus_were_reused_is_warned_about(tmp_path: Path) -> None:
    made = make(tmp_path, job("1", 0, None), job("2", 20, 30))
    (warning,) = (result for result in made.warnings if result.check.name == "source_long_running")
    assert warning.sample.select("scheduler", "job_id", "given_to_others").rows() == [("slurm", "1", True)]
    for where_to_look in ("sacctmgr show runawayjobs", "kubectl get pods"):
        assert where_to_look in warning.check.description
    assert "ledger_allocation_above_inventory" in made.warned()


@pytest.mark.slow
def test_jobs_that_share_a_node_or_just_run_are_not_warned_of(tmp_path: Path) -> None:
    made = make(tmp_path, job("1", 0, None, gpus=4), job("2", 20, 30, gpus=4), job("3", 30, None, nodes="n2"))
    assert "source_long_running" not in made.warned()


def history(chance: random.Random, node: str) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Jobs of two halves of a node, one after the other in each; some lost their end, and were found out later."""
    jobs, found = [], []
    for half in "ab":
        clock = 0
        for number in range(chance.randint(0, 4)):
            begun = clock + chance.randint(0, 10)
            clock = begun + chance.randint(1, 15)
            lost = chance.random() < 0.4
            name = f"{node}{half}{number}"
            jobs.append(job(name, begun, None if lost else clock, gpus=chance.randint(1, 4), nodes=node))
            if lost:
                found.append(listed(name, chance.randint(clock, 100), begun))
    return jobs, found


@pytest.mark.slow
def test_with_all_detected_holdings_fit_the_capacity(tmp_path: Path) -> None:
    chance = random.Random(5)
    places = [f"n{number}" for number in range(1, 61)]
    reported = [history(chance, node) for node in places]
    found = [row for _, rows_ in reported for row in rows_]
    made = make(tmp_path, *(row for jobs, _ in reported for row in jobs), runaway=found, inventory=places)
    assert "ledger_allocation_above_inventory" not in made.warned()
    ended = ends(made)
    assert len(ended) == len(found) > 50
    assert {because for _, because in ended.values()} == {LISTED, GIVEN}
    with open_reader(made.root) as reader:
        capacity = reader.frame("SELECT SUM(gpu_seconds) AS s FROM capacity")["s"].item()
        assert reader.frame("SELECT SUM(gpu_seconds) AS s FROM gpu_time")["s"].item() == capacity
    for row in found:
        assert row["submitted_at"] <= at(ended[str(row["job_id"])][0]) <= row["first_seen_at"]  # type: ignore[operator]  # times
