"""Outages of a simulated cluster: nothing but what the ledger has, and what the simulator did to its nodes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.demo.simulate import Settings, simulate
from app.demo.simulate.plan import CLUSTER
from app.results.nodes.lifecycle import lifecycle
from app.results.windows import ledger_sums
from app.window import Window
from metrics.lifecycle.outages import OUT
from queries.warehouse import open_reader
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = Settings(gpus=128, days=21, failures_per_1000_node_days=40)
SLURM = ("sacct.txt", "events.txt", "nodes-start.txt", "nodes.txt", "config.txt")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of a small simulated cluster that fails often, by Slurm's files alone."""
    folder = tmp_path_factory.mktemp("lifecycle")
    simulate(SETTINGS, folder / "made")
    files = [str(folder / "made" / "sources" / name) for name in SLURM]
    warehouse = ("--warehouse", str(folder / "w"))
    assert trackside("ingest", "slurm", *files, *warehouse).returncode == 0
    assert trackside("compute", *warehouse).returncode == 0
    return folder / "w"


def at(days: float) -> datetime:
    return datetime(2026, 9, 1, tzinfo=UTC) + timedelta(days=days)


@pytest.mark.parametrize(("since", "until"), [(0, 21), (3.3, 12.7), (10, 10.5)])
def test_stages_add_up_to_the_ledgers_unavailable_time(root: Path, since: float, until: float) -> None:
    window = Window(CLUSTER, at(since), at(until))
    with open_reader(root) as reader:
        stages = lifecycle(reader, window).stages
        sums = ledger_sums(reader, window, "node").filter(pl.col("category").is_in(OUT))
    ledger = sums.group_by("subject", "category").agg(pl.col("gpu_seconds").sum().cast(pl.Float64))
    expected = {(node, name): gpu_s for node, name, gpu_s in ledger.rows() if gpu_s}
    found = {
        (node, name): gpu_s
        for name in OUT
        for node, gpu_s in stages.group_by("node").agg(pl.col(f"{name}_gpu_s").sum()).rows()
        if gpu_s
    }
    assert found == pytest.approx(expected, rel=1e-12)
    assert len(expected) > 5 or until - since < 1


def test_every_failure_of_the_simulator_is_an_outage(root: Path) -> None:
    with open_reader(root) as reader:
        found = lifecycle(reader, Window(CLUSTER, at(0), at(21))).outages
    failures = pl.read_parquet(root.parent / "made" / "truth" / "failures.parquet")
    began = {(node, int(moment.timestamp())) for node, moment in found.select("node", "failed_at").rows()}
    states = (root.parent / "made" / "sources" / "events.txt").read_text().splitlines()[2:]
    assert failures.height > 5
    for line in states:
        _, node, begin, end, word, *_ = line.split("|")
        silent = 300 if word == "DOWN*" else 0
        inside = found.filter(
            (pl.col("node") == node)
            & (pl.col("failed_at").dt.epoch("s") <= int(begin) - silent)
            & (pl.col("back_at").dt.epoch("s").fill_null(2**40) >= (int(end) if end.isdigit() else 2**40))
        )
        assert inside.height == 1, line
    assert len(began) == found.height


def test_silence_before_slurm_noticed_belongs_to_the_outage(root: Path) -> None:
    with open_reader(root) as reader:
        known = lifecycle(reader, Window(CLUSTER, at(0), at(21)))
    silent = known.outages.filter(pl.col("reason") == "Not responding", pl.col("cause") == "not_responding")
    assert set((silent["noticed_at"] - silent["failed_at"]).dt.total_seconds()) >= {300}
    undetected = known.stages.filter(pl.col("stage") == "undetected")
    assert undetected["held_gpu_s"].sum() > 0
    assert undetected.select(pl.col("drained_gpu_s", "maintenance_gpu_s").sum()).row(0) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["cause", "stage", "actor", "outcome", "node", "event"])
def test_question_answers_by_everything_it_names(root: Path, by: str) -> None:
    printed = trackside("show", "lifecycle", "--by", by, "--warehouse", str(root), "--format", "csv")
    assert printed.returncode == 0, printed.stderr
    assert len(printed.stdout.splitlines()) > 2
    explained = trackside("show", "lifecycle", "--by", by, "--warehouse", str(root), "--explain")
    assert explained.returncode == 0, explained.stderr
