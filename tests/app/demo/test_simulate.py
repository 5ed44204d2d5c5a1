"""The simulator: its files are what the sources write, its truth adds up, and what Trackside finds is that truth."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.claims.file import read_claims
from app.claims.verify import verify
from app.compute import pipeline as computing
from app.config import settings as config
from app.demo.simulate import (
    KUBERNETES_FILES,
    MANIFEST,
    SLURM_FILES,
    SNAPSHOT_FILES,
    STAGES,
    TELEMETRY_FILES,
    Settings,
    simulate,
    truth,
)
from app.demo.simulate.exporters import silent_nodes
from app.demo.simulate.plan import BEGIN, CLUSTER, GPUS_PER_NODE
from app.demo.simulate.telemetry import watched
from app.demo.simulate.truth import ALLOCATED
from app.errors import UsageError
from app.results.headlines import headlines
from app.window import Window
from ingest.prometheus.load_files import ingest_files
from ingest.prometheus.target import TelemetryRequest
from ingest.runlog import store as runlogs
from ingest.slurm import load_files as ingesting
from ingest.tables import TIME
from queries.warehouse import open_reader, open_writer
from tests.support.command import trackside

if TYPE_CHECKING:
    from app.demo.simulate.world import World
    from ingest.store.report import LoadReport

SMALL = Settings(gpus=64, days=5, seed=11, failures_per_1000_node_days=150)
NOW = datetime(2026, 12, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Made:
    """A small cluster: its truth, its folder, and what came of reading its files."""

    world: World
    folder: Path
    reports: list[LoadReport]

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    def truth(self, name: str) -> pl.DataFrame:
        return pl.read_parquet(self.folder / "truth" / f"{name}.parquet")

    def table(self, name: str) -> pl.DataFrame:
        with open_reader(self.warehouse) as reader:
            return reader.table(name)


REPORTED: list[str] = []
"""What the simulation of the fixture reported."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("small")
    world = simulate(SMALL, folder, report=REPORTED.append)
    return Made(world, folder, read(folder))


def read(folder: Path, *, slurm_only: bool = False) -> list[LoadReport]:
    sources, settings, moment = folder / "sources", config.Config(), NOW
    tell = lambda *_: None  # noqa: E731 - a name for doing nothing
    with open_writer(folder / "warehouse", verb="test", now=moment) as writer:
        slurm = [str(sources / name) for name in SLURM_FILES]
        reports = ingesting.ingest_files(writer, settings, slurm, ingesting.Options(), now=moment, progress=tell)
        around = [str(sources / name) for name in SNAPSHOT_FILES if (sources / name).exists()]
        requested = ingesting.Options(cluster=CLUSTER, until=datetime.fromtimestamp(SMALL.end, UTC))
        reports += ingesting.ingest_files(writer, settings, around, requested, now=moment, progress=tell)
        if not slurm_only:
            hours = [str(sources / name) for name in TELEMETRY_FILES]
            named = TelemetryRequest(cluster=CLUSTER)
            reports += ingest_files(writer, settings, hours, named, now=moment, progress=tell)
            logs = sorted(str(path) for path in (sources / "runs").iterdir())
            reports += runlogs.ingest_files(writer, logs, cluster=None, now=moment, progress=tell)
        computing.compute(writer, settings, now=moment)
    return reports


def seconds(name: str) -> pl.Expr:
    return pl.col(name).dt.epoch("s")


# --- the truth ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_simulation_is_reproducible_by_seed(made: Made, tmp_path: Path) -> None:
    simulate(SMALL, tmp_path / "again")
    simulate(Settings(**{**SMALL.__dict__, "seed": 12}), tmp_path / "other")

    first, again, other = (digests(folder) for folder in (made.folder, tmp_path / "again", tmp_path / "other"))
    assert again == {name: first[name] for name in again}
    assert again["sources/sacct.txt"] != other["sources/sacct.txt"]
    assert again["sources/gpu_hours.parquet"] != other["sources/gpu_hours.parquet"]


def digests(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file() and "warehouse" not in path.parts]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.usefixtures("made")
def test_simulation_reports_each_stage_once() -> None:
    assert len(set(REPORTED)) == len(REPORTED) == STAGES


def test_the_categories_add_up_to_the_capacity_exactly(made: Made) -> None:
    assert sum(made.world.totals.values()) == made.world.capacity_gpu_s * 1000


def test_each_gpu_is_in_one_category_at_each_instant(made: Made) -> None:
    spans = made.truth("intervals")
    changes = pl.concat(
        [
            spans.select("node", pl.col("started_at").alias("ts"), pl.col("gpus").alias("by")),
            spans.select("node", pl.col("ended_at").alias("ts"), (-pl.col("gpus")).alias("by")),
        ]
    )
    level = (
        changes.group_by("node", "ts")
        .agg(pl.col("by").sum())
        .sort("node", "ts")
        .with_columns(there=pl.col("by").cum_sum().over("node"))
    )
    inside = level.filter(seconds("ts") < SMALL.end)
    assert inside["there"].unique().to_list() == [GPUS_PER_NODE]
    assert level.filter(seconds("ts") == SMALL.end)["there"].unique().to_list() == [0]


def test_a_small_world_has_something_of_everything(made: Made) -> None:
    states = set(made.truth("attempts")["state"])
    assert {"COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "REQUEUED", "PREEMPTED", "RUNNING"} <= states
    assert {category for _, category, _ in made.world.totals} >= {*ALLOCATED, "down", "maintenance", "no_demand"}


def test_a_step_is_lost_only_if_it_was_done_again(made: Made) -> None:
    kept: dict[int, list[int]] = {}
    done: dict[int, set[int]] = {}
    for place, steps in made.world.steps.items():
        job = made.world.attempts[place].job.id
        kept.setdefault(job, []).extend(steps.number[~steps.lost].tolist())
        done.setdefault(job, set()).update(steps.number.tolist())
    assert any(steps.lost.any() for steps in made.world.steps.values())
    for job, numbers in kept.items():
        assert sorted(numbers) == sorted(done[job])  # each step is kept once, however often it was done


def test_truth_json_equals_the_tables(made: Made) -> None:
    reported = json.loads((made.folder / "truth.json").read_text())
    assert sum(row["gpu_s"] for row in reported["gpu_s"]) == pytest.approx(reported["capacity_gpu_s"], rel=1e-12)
    spans = made.truth("intervals").with_columns(
        gpu_s=(pl.col("ended_at") - pl.col("started_at")).dt.total_microseconds() * pl.col("gpus") / 1e6
    )
    productive = float(spans.filter(pl.col("category") == "productive")["gpu_s"].sum())
    allocated = float(spans.filter(pl.col("state") == "allocated")["gpu_s"].sum())
    assert reported["headlines"]["goodput_allocated"] == pytest.approx(productive / allocated, rel=1e-12)


# --- the files ---------------------------------------------------------------------------------------------


def test_the_real_ingesters_refuse_nothing(made: Made) -> None:
    assert [report.error for report in made.reports if report.error] == []
    parsed = [report.parsed for report in made.reports if report.parsed]
    assert {each.source for each in parsed} == {
        "slurm.accounting",
        "slurm.events",
        "slurm.nodes",
        "slurm.config",
        "slurm.topology",
        "slurm.reservations",
        "slurm.associations",
        "slurm.qos",
        "slurm.transactions",
        "slurm.diag",
        "prometheus.gpu",
        "prometheus.gpu_hours",
        "prometheus.node",
        "prometheus.health",
        "runlog",
    }
    assert [each.rejects.rows() for each in parsed if each.rows_rejected] == []
    assert [each.warnings for each in parsed if each.warnings] == []
    assert made.table("rejects").is_empty()


def test_a_requeued_job_keeps_its_id_and_gets_a_new_row(made: Made) -> None:
    header, *rows = (made.folder / "sources/sacct.txt").read_text().splitlines()
    names = header.split("|")
    table = pl.DataFrame([row.split("|") for row in rows], schema=dict.fromkeys(names, pl.String()), orient="row")
    table = table.filter(~pl.col("JobID").str.contains(".", literal=True))  # without steps
    assert table["DBIndex"].is_unique().all()
    again = table.filter(pl.col("Restarts") != "0")
    assert again.height > 0
    assert set(again["JobIDRaw"]) <= set(table.filter(pl.col("Restarts") == "0")["JobIDRaw"])


def test_a_run_resumes_behind_its_last_durable_checkpoint(made: Made) -> None:
    resumed = 0
    for file in sorted((made.folder / "sources/runs").iterdir()):
        durable, first = 0, True
        for line in map(json.loads, file.read_text().splitlines()):
            if line["type"] == "run":
                resumed += line["restart_count"] > 0
                first = True
            elif line["type"] == "step":
                assert not first or line["step"] == durable + 1, file.name
                first = False
            elif line["type"] == "ckpt":
                durable = line["step"]
    assert resumed > 0


def test_telemetry_equals_gpu_activity_where_it_is_observed(made: Made) -> None:
    hours = pl.read_parquet(made.folder / "sources/gpu_hours.parquet").filter(pl.col("metric") == "active")
    deaf = {SMALL.name(node) for node in silent_nodes(made.world)}
    assert not deaf & set(hours["node"])
    spans = made.truth("intervals").filter("active")
    whole_hours = SMALL.days * 24
    complete = hours.group_by("node").agg(pl.len(), pl.col("covered_s", "active_s").sum())
    full = complete.filter(pl.col("len") == whole_hours * GPUS_PER_NODE)
    assert full.height > 0
    for node, _, covered, active in full.rows():
        mine = spans.filter(pl.col("node") == node)
        true = float(((mine["ended_at"] - mine["started_at"]).dt.total_microseconds() * mine["gpus"]).sum()) / 1e6
        assert active == pytest.approx(true, abs=1e-3)
        assert covered <= whole_hours * 3600 * GPUS_PER_NODE


def test_raw_samples_show_the_fault_among_them(made: Made) -> None:
    fault = watched(made.world).failure
    assert fault is not None
    of_it = (pl.col("node") == SMALL.name(fault.node)) & (pl.col("gpu") == str(fault.gpu))
    lines = (made.folder / "sources/dcgm.om").read_text().splitlines()
    series = f'gpu="{fault.gpu}"', f'Hostname="{SMALL.name(fault.node)}"', f"}} {fault.xid} "
    assert any(line.startswith("DCGM_FI_DEV_XID_ERRORS") and all(part in line for part in series) for line in lines)
    rows = made.table("health_events").filter(of_it, pl.col("kind") == "xid", pl.col("code") == str(fault.xid))
    assert any(0 <= moment.timestamp() - fault.at < 15 for moment in rows["ts"])


# --- what Trackside finds ----------------------------------------------------------------------------------


def test_attempts_are_the_truth(made: Made) -> None:
    key = ["job_id", "submitted"]
    result = made.table("attempts").with_columns(
        submitted=seconds("submitted_at"), eligible=seconds("eligible_at"), started=seconds("started_at"),
        ended=seconds("ended_at"), n_gpus=pl.col("n_gpus").cast(pl.Int64),
    )  # fmt: skip
    compared = [*key, "db_index", "user", "partition", "eligible", "started", "ended", "state", "n_gpus"]
    assert result.select(compared).sort(key).rows() == made.truth("attempts").select(compared).sort(key).rows()


def test_attempts_are_on_the_nodes_where_they_ran(made: Made) -> None:
    true = made.truth("attempts").explode("nodes").drop_nulls("nodes").select("job_id", "submitted", "nodes")
    result = made.table("attempt_nodes").select("job_id", seconds("submitted_at"), "node")
    assert sorted(result.rows()) == sorted(true.rows())


def test_health_events_are_the_truth(made: Made) -> None:
    """Both ways: each event that an exporter could show is reported, once, at its first reading, and no other is."""
    true = made.truth("health")
    assert set(true["why"]) == {"failure", "precursor", "program", "straggler"}
    assert not true["observed"].all()
    key = ["at", "node", "gpu", "kind", "code"]
    result = made.table("health_events").filter(pl.col("kind") != "ib").with_columns(at=seconds("ts"))
    assert result.select(key).sort(key).rows() == true.filter("observed").select(key).sort(key).rows()


def test_health_is_known_of_the_whole_time(made: Made) -> None:
    with open_reader(made.warehouse) as reader:
        row = reader.query("coverage", cluster=CLUSTER, source="prometheus.health")
    assert (row["started_at"].min().timestamp(), row["ended_at"].max().timestamp()) == (BEGIN, SMALL.end)  # type: ignore[union-attr]  # polars types min() broadly


def test_no_program_or_straggler_is_taken_for_a_failing_node(made: Made) -> None:
    harmless = made.truth("health").filter(pl.col("why").is_in(["program", "straggler", "precursor"]))
    severities = made.table("health_events").join(
        harmless.select("node", "gpu", "kind", "code", ts=pl.from_epoch("at").dt.replace_time_zone("UTC").cast(TIME)),
        on=["node", "gpu", "kind", "code", "ts"],
    )["severity"]
    assert severities.len() > 3
    assert "critical" not in set(severities)


def test_straggler_is_suspected_on_a_slow_day_of_a_run(made: Made) -> None:
    """The run logs show the slow steps, and the heat of the node that made them is an incident of the run."""
    slow_nodes = {SMALL.name(slow.node) for slow in made.world.history.plan.slow}
    suspected: set[str] = set()
    with open_reader(made.warehouse) as reader:
        for run_id in reader.table("runs")["run_id"]:
            of_run = {"cluster": CLUSTER, "run_id": run_id}
            days = set(reader.query("run_slow_days", **of_run)["day"])
            incidents = reader.query("run_health", **of_run).filter(pl.col("kinds").str.contains("hw_thermal"))
            suspected |= {node for node, at in incidents.select("node", "started_at").rows() if at.date() in days}
    assert suspected
    assert suspected <= slow_nodes


def test_runs_are_the_truth(made: Made) -> None:
    true = made.truth("attempts").group_by("job_id").agg(pl.len().alias("n"))
    result = made.table("runs").select("name", "n_attempts", job_id=pl.col("run_id").str.extract(r"^(\d+)-"))
    names = dict(made.truth("attempts").select("job_id", "run").rows())
    logged = {run for (run,) in made.truth("attempts").filter("logged").select("run").rows()}
    # A log may give a run its own name; those without a log are named by Slurm's id.
    by_id = result.drop_nulls("job_id")
    assert dict(by_id.select("job_id", "n_attempts").rows()).items() <= dict(true.rows()).items()
    assert {names[job] for (job,) in true.select("job_id").rows()} - logged <= set(result["name"])
    assert result["n_attempts"].sum() == true["n"].sum()


def test_infrastructure_is_blamed_for_exactly_what_it_did(made: Made) -> None:
    struck = made.truth("attempts").filter(pl.col("interrupted_by").is_not_null() & pl.col("ended").is_not_null())
    result = made.table("interruptions").filter(pl.col("class") == "infrastructure")
    assert struck.height > 3
    assert set(result.select("job_id", seconds("submitted_at")).rows()) == set(
        struck.select("job_id", "submitted").rows()
    )


def test_logged_attempts_are_accounted_for_to_the_step(made: Made) -> None:
    """Kept steps and evaluations to a millisecond; the rest within the step or the save that nobody saw the end of."""
    result = by_category(made)
    logged = made.truth("attempts").filter("logged", pl.col("started").is_not_null())
    spoke = logged.join(result.filter(pl.col("by_log") > 0), on=["job_id", "submitted"])
    assert spoke.height > 5
    for row in spoke.iter_rows(named=True):
        one_step = 130.0 * row["n_gpus"]
        # Whoever still runs is at a step of which nobody knows the end.
        exactly = one_step if row["state"] == "RUNNING" else 0.001 * row["n_gpus"]
        assert row["productive"] == pytest.approx(row["productive_gpu_s"], abs=exactly)
        assert row["lost"] == pytest.approx(row["lost_gpu_s"], abs=one_step)
        assert row["checkpoint"] == pytest.approx(row["checkpoint_gpu_s"], abs=one_step)
        assert row["startup"] == pytest.approx(row["startup_gpu_s"], abs=one_step)


def by_category(made: Made) -> pl.DataFrame:
    """What a first step took beyond the ideal one is noise in a simulation, and productive there."""
    noise = pl.col("cause").eq_missing("first_step")
    held = (
        made.table("gpu_time")
        .filter(pl.col("state") == "allocated")
        .with_columns(category=pl.when(noise).then(pl.lit("productive")).otherwise("category"))
    )
    amount = pl.col("gpu_seconds").cast(pl.Float64)
    return held.group_by("job_id", submitted=seconds("submitted_at")).agg(
        amount.filter(pl.col("evidence") == "log").sum().alias("by_log"),
        *(amount.filter(pl.col("category") == name).sum().alias(name) for name in ALLOCATED),
    )


@pytest.mark.slow
def test_the_bounds_of_the_headline_numbers_contain_the_truth(made: Made) -> None:
    truth = json.loads((made.folder / "truth.json").read_text())["headlines"]
    with open_reader(made.warehouse) as reader:
        row = reader.query("computed", cluster=CLUSTER).row(0, named=True)
        result = headlines(reader, Window(CLUSTER, row["since"], row["until"]))
    bounded = [each for each in result if each.bound_low is not None and each.bound_high is not None]
    assert {each.metric for each in bounded} >= {"goodput_allocated", "goodput_capacity", "occupancy", "ettr"}
    unseen = mistaken_for_training(made)
    for each in bounded:
        # A node that fell silent was dead a little before the silence that is certain.
        slack = 2e-4 + (unseen / (each.denominator or 1) if each.metric not in {"occupancy", "availability"} else 0)
        low, high = (each.bound_low or 0) - slack, (each.bound_high or 0) + 2e-4
        assert low <= truth[each.metric] <= high, each
    exact = {each.metric: each.value for each in result}
    assert exact["mfu"] == pytest.approx(truth["mfu"], rel=2e-3)
    assert exact["mttf"] == pytest.approx(truth["mttf"], rel=1e-9)
    assert exact["time_to_job_restart"] == pytest.approx(truth["time_to_job_restart"], rel=1e-9)


def mistaken_for_training(made: Made) -> float:
    """GPU-seconds without a log in which GPUs computed steps that were not kept: activity looks the same."""
    unlogged = made.truth("attempts").filter(~pl.col("logged")).select("job_id").unique()
    looks_alike = made.truth("intervals").filter("active", pl.col("category") == "lost")
    rows = looks_alike.join(unlogged, on="job_id", how="semi")
    return float(((rows["ended_at"] - rows["started_at"]).dt.total_microseconds() * rows["gpus"]).sum()) / 1e6


@pytest.mark.slow
def test_all_three_verdicts_occur_on_the_demos_cluster(tmp_path: Path) -> None:
    """Accounting alone brings them about already; logs and telemetry refute two more claims."""
    from app.demo.simulate import slurm_text
    from app.demo.simulate.plan import plan
    from app.demo.simulate.scheduler import play
    from app.demo.simulate.world import World

    settings = Settings()
    world = World(play(settings, plan(settings)))
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "sacct.txt").write_text(slurm_text.sacct(world))
    (sources / "events.txt").write_text(slurm_text.events(world))
    (sources / "nodes-start.txt").write_text(slurm_text.nodes(world, at_end=False))
    (sources / "nodes.txt").write_text(slurm_text.nodes(world, at_end=True))
    (sources / "config.txt").write_text(slurm_text.config(settings))
    read(tmp_path, slurm_only=True)
    with open_reader(tmp_path / "warehouse") as reader:
        row = reader.query("computed", cluster=CLUSTER).row(0, named=True)
        judged = verify(reader, Window(CLUSTER, row["since"], row["until"]), read_claims(None))
    verdicts = {each.claim.id: each.verdict for each in judged}
    assert verdicts["mttf_baseline"] == "supported"
    assert verdicts["mttf"] == "refuted"
    assert verdicts["restart"] == "undetermined"
    assert (int(row["since"].timestamp()), int(row["until"].timestamp())) == (BEGIN, settings.end)


# --- the verb ----------------------------------------------------------------------------------------------


def test_verb_writes_the_files_and_shows_how_to_read_them(tmp_path: Path) -> None:
    target = tmp_path / "sim"
    done = trackside("simulate", "--dir", str(target), "--gpus", "64", "--days", "2", "--seed", "3")
    assert done.returncode == 0, done.stderr
    assert f"trackside ingest slurm {target / 'sources/sacct.txt'}" in done.stdout
    expected = {*SLURM_FILES, *SNAPSHOT_FILES, *KUBERNETES_FILES, *TELEMETRY_FILES, "runs", "ranks"}
    assert {path.name for path in (target / "sources").iterdir()} == expected


@pytest.mark.slow
def test_simulate_prints_commands_that_load_its_files(tmp_path: Path) -> None:
    printed = trackside("simulate", "--dir", str(tmp_path / "sim"), "--gpus", "64", "--days", "2").stdout
    commands = [line.split() for line in printed.splitlines() if line.startswith("  trackside ")]
    assert len(commands) == 6
    for _, *argv in commands:
        logs = [str(log) for log in Path(argv[-1]).parent.glob("*.jsonl")]
        expanded = [*argv[:-1], *logs] if argv[-1].endswith("/*.jsonl") else argv
        done = trackside(*expanded, "--warehouse", str(tmp_path / "w"))
        assert done.returncode == 0, done.stderr


def again(folder: Path, days: int, seed: int = 11) -> dict[str, str]:
    """Simulate in a folder, and what is in it then."""
    simulate(Settings(gpus=64, days=days, seed=seed), folder)
    return digests(folder)


@pytest.mark.slow
def test_a_folder_used_again_holds_the_last_simulation_alone(tmp_path: Path) -> None:
    long = again(tmp_path / "used", days=14)
    (tmp_path / "used" / "notes.txt").write_text("mine")
    short = again(tmp_path / "used", days=1)
    assert set(long) - set(again(tmp_path / "new", days=1))
    assert short.pop("notes.txt")
    assert short == digests(tmp_path / "new")


def test_every_file_that_a_simulation_makes_is_in_its_list(tmp_path: Path) -> None:
    made = again(tmp_path, days=4)
    listed = json.loads((tmp_path / MANIFEST).read_text())
    assert set(made) - {MANIFEST} <= set(listed)


@pytest.mark.slow
def test_foreign_files_in_the_way_are_named_and_kept(tmp_path: Path) -> None:
    before = again(tmp_path, days=1)
    (tmp_path / "sources/runs/mine.jsonl").write_text("mine")
    with pytest.raises(UsageError, match=r"no simulation made: sources/runs/mine\.jsonl"):
        again(tmp_path, days=2)
    assert set(digests(tmp_path)) == {*before, "sources/runs/mine.jsonl"}
    (tmp_path / "other/sources").mkdir(parents=True)
    (tmp_path / "other/sources/sacct.txt").write_text("a real cluster's")
    done = trackside("simulate", "--dir", str(tmp_path / "other"), "--gpus", "64", "--days", "1")
    assert done.returncode == 2
    assert "sources/sacct.txt" in done.stderr
    assert (tmp_path / "other/sources/sacct.txt").read_text() == "a real cluster's"


@pytest.mark.parametrize("listed", ["", "{", "3", "[3]"])
def test_a_list_that_cannot_be_read_names_nothing(tmp_path: Path, listed: str) -> None:
    (tmp_path / MANIFEST).write_text(listed)
    (tmp_path / "truth.json").write_text("mine")
    with pytest.raises(UsageError, match=r"truth\.json"):
        again(tmp_path, days=1)


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    again(tmp_path / "real", days=1)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / MANIFEST).write_bytes((tmp_path / "real" / MANIFEST).read_bytes())
    (tmp_path / "here/sources").symlink_to(tmp_path / "real/sources")
    with pytest.raises(UsageError, match="made: sources"):
        again(tmp_path / "here", days=1)
    assert (tmp_path / "real/sources/sacct.txt").exists()


@pytest.mark.slow
def test_a_simulation_that_was_killed_is_cleared_away_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(truth, "write_truth", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            again(tmp_path / "used", days=14)
    assert again(tmp_path / "used", days=1) == again(tmp_path / "new", days=1)


@pytest.mark.parametrize(
    ("options", "output"),
    [
        (("--gpus", "100"), "--gpus 100: a multiple of 8, at least 64"),
        (("--days", "0"), "--days 0"),
        (("--seed", "-1"), "--seed -1"),
    ],
)
def test_what_cannot_be_simulated_is_refused_in_words(tmp_path: Path, options: tuple[str, str], output: str) -> None:
    done = trackside("simulate", "--dir", str(tmp_path / "sim"), *options)
    assert done.returncode == 2
    assert output in done.stderr
    assert not (tmp_path / "sim").exists()


# --- anomalies


def test_the_planted_gpu_clocks_lower_while_its_power_is_capped(made: Made) -> None:
    (planted,) = json.loads((made.folder / "truth.json").read_text("utf-8"))["anomalies"]
    clocks = pl.read_parquet(made.folder / "sources/gpu_hours.parquet").filter(
        pl.col("metric") == "sm_clock_hz", pl.col("mean") > 1.4e9
    )
    begin, end = (pl.lit(planted[name]) for name in ("since", "until"))
    capped = (pl.col("node") == planted["node"]) & (pl.col("gpu") == planted["gpu"])
    inside = capped & (seconds("ts") >= begin) & (seconds("ts") < end)
    assert clocks.filter(inside).height > 0
    assert clocks.filter(inside)["max"].unique().to_list() == [pytest.approx(1.755e9 * (1 + planted["effect"]))]
    assert clocks.filter(~inside)["max"].unique().to_list() == [1.755e9]
