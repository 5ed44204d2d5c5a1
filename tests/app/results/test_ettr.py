"""ETTR is of runs that wanted to train: notebooks beside them change no value, and are counted."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.claims.measure import measure
from app.compute import pipeline as computing
from app.config.settings import Config
from app.results.ettr import LONG_RUNS, ettr_rows, ettr_run_rows, expected_rows, expected_run_rows, long_run_rows
from app.results.stored import stored_rows
from app.window import Window
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from metrics.claims.verdict import Claim, Scope
from queries.warehouse import open_reader, open_writer
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

    from app.window import RowSource

NOW = datetime(2026, 11, 2, 3, 4, 5, tzinfo=UTC)
BEGIN = 1_788_220_800
HOUR = 3600
HEADER = "JobIDRaw|Cluster|JobName|Submit|Eligible|Start|End|State|NodeList|AllocTRES|Comment\n"
TRAINING = (
    ("1", "llm", 0, 1, 40, "n1", ""),
    ("2", None, 0, 2, 30, "n2", ""),  # its kind is unknown
    ("3", "jupyter-lab", 30, 31, 60, "n2", "run=mixed"),
    ("4", "pretrain", 60, 61, 90, "n2", "run=mixed"),
)
OTHERS = (("5", "jupyter-lab", 0, 1, 31, "n3", ""), ("6", "eval-mmlu", 31, 32, 33, "n3", ""))
CLAIM = Claim("x", "ettr", "q", "r", "delivered", 0.5, "at_least", "ratio", None, 24.0 * HOUR)
METRICS = ("ettr", "ettr_without_initial_queue", "ettr_mean_of_runs", "ettr_imputed")
NOTE = "2 runs that do not train left out (config: rules.other_work)"


def warehouse(
    folder: Path, *jobs: tuple[str, str | None, int, int, int, str, str], hours: int = 96, eligible: bool = False
) -> Path:
    """Jobs of eight GPUs each: id, name, hours of submission, start and end, node, comment; as of so many hours.

    `eligible`: whether it is recorded that they were eligible as they were submitted.
    """
    lines = [
        f"{job}|c|{name or ''}|{BEGIN + HOUR * submitted}|{BEGIN + HOUR * submitted if eligible else 'Unknown'}"
        f"|{BEGIN + HOUR * start}|{BEGIN + HOUR * end}|COMPLETED|{node}"
        f"|gres/gpu=8|{comment}\n"
        for job, name, submitted, start, end, node, comment in jobs
    ]
    folder.mkdir(exist_ok=True)
    (folder / "sacct.txt").write_text(HEADER + "".join(lines))
    since, until = (datetime.fromtimestamp(BEGIN + HOUR * at, tz=UTC) for at in (0, hours))
    options = ingesting.Options(since=since, until=until)
    with open_writer(folder / "w", verb="test", now=NOW) as writer:
        reports = ingesting.ingest_files(
            writer, Config(), [str(folder / "sacct.txt")], options, now=NOW, progress=lambda *_: None
        )
        assert first_error(reports) is None
        computing.compute(writer, Config(), now=NOW)
    return folder / "w"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Training alone, and the same beside notebooks."""
    folder = tmp_path_factory.mktemp("ettr")
    return warehouse(folder / "alone", *TRAINING), warehouse(folder / "beside", *TRAINING, *OTHERS)


def whole(source: RowSource) -> Window:
    return Window("c", *source.query("computed", cluster="c").select("since", "until").row(0))


def test_notebooks_change_no_ettr_and_are_counted(both: tuple[Path, Path]) -> None:
    found = []
    for root in both:
        with open_reader(root) as reader:
            window = whole(reader)
            found.append(pl.concat([ettr_rows(reader, window), long_run_rows(reader, window)]))
    alone, beside = found
    assert beside.drop("note").equals(alone.drop("note"))
    assert set(alone["n"]) == {3}
    assert alone.filter(pl.col("note").str.contains("not train")).is_empty()
    notes = dict(beside.filter(pl.col("metric") == "ettr").select("dimension", "note").rows())
    assert notes["cluster"].endswith(NOTE)
    assert notes[LONG_RUNS].endswith("1 run that does not train left out (config: rules.other_work)")


@pytest.mark.slow
def test_stored_ettr_is_that_of_training_runs(both: tuple[Path, Path]) -> None:
    with open_reader(both[1]) as reader:
        window = whole(reader)
        stored = stored_rows(reader, window, METRICS)
        assert stored is not None
        computed = ettr_rows(reader, window).filter(pl.col("metric").is_in(METRICS))
        assert stored.sort("metric").drop("query", strict=False).equals(computed.sort("metric"), null_equal=True)


def test_expected_ettr_weighs_training_runs_only(both: tuple[Path, Path]) -> None:
    with open_reader(both[1]) as reader:
        window = whole(reader)
        runs = expected_run_rows(reader, window)
        training = runs.filter(~pl.col("run_id").str.contains("^[56]-"))
        assert (runs.height, training.height) == (5, 3)
        assert expected_rows(reader, window, of_runs=runs).equals(expected_rows(reader, window, of_runs=training))


@pytest.mark.parametrize("scope", [Scope(), Scope(gpus_min=1)])
def test_notebooks_do_not_refute_a_claim(both: tuple[Path, Path], scope: Scope) -> None:
    measured = []
    for root in both:
        with open_reader(root) as reader:
            measured.append(measure(reader, whole(reader), replace(CLAIM, scope=scope)))
    alone, beside = measured
    assert replace(beside, beside=alone.beside) == alone
    assert "1 run that does not train left out (config: rules.other_work)" in beside.beside


@pytest.mark.slow
def test_ettr_of_notebooks_alone_is_unknown(tmp_path: Path) -> None:
    with open_reader(warehouse(tmp_path, *OTHERS)) as reader:
        window = whole(reader)
        assert ettr_run_rows(reader, window).height == 2
        assert ettr_rows(reader, window).is_empty()
        assert expected_rows(reader, window).is_empty()
        assert measure(reader, window, CLAIM).value is None


@pytest.mark.slow
def test_show_ettr_lists_training_runs(both: tuple[Path, Path]) -> None:
    where = ("--warehouse", str(both[1]))
    listed = json.loads(trackside("show", "ettr", "--by", "run", *where, "--format", "json").stdout)
    assert len(listed) == 3
    assert NOTE in trackside("show", "ettr", "--by", "run", *where).stdout
    assert "does not train" in trackside("show", "ettr", "--run", "5", *where).stdout


@pytest.mark.slow
def test_a_window_is_computed_anew_once_its_run_trains(tmp_path: Path) -> None:
    """The name of an attempt after the window makes the notebook in it a part of a training run."""
    early, later = (("1", "jupyter", 0, 1, 30, "n1", "run=r"), ("2", "bash", 1000, 1001, 1040, "n1", "run=r"))
    assert september(warehouse(tmp_path, early, later, hours=1100)) is None
    assert september(warehouse(tmp_path, early, (later[0], "train", *later[2:]), hours=1100)) == 1


def september(root: Path) -> object:
    """Runs of the stored ETTR of September; None where there is none."""
    with open_reader(root) as reader:
        rows = reader.table("cluster_metrics").filter(pl.col("metric") == "ettr", pl.col("dimension") == "cluster")
        return rows.filter(window_until=datetime(2026, 10, 1, tzinfo=UTC))["n"].first()


@pytest.mark.slow
def test_waiting_counts_in_the_window_that_it_was_in(tmp_path: Path) -> None:
    """Also of a run that starts behind the window: two windows add up to the one of both."""
    root = warehouse(tmp_path, ("1", "a", 0, 0, 48, "n1", ""), ("2", "b", 0, 48, 72, "n1", ""), hours=72, eligible=True)
    with open_reader(root) as reader:
        walls = []
        for low, high in ((0, 48), (48, 72), (0, 72)):
            since, until = (datetime.fromtimestamp(BEGIN + HOUR * at, tz=UTC) for at in (low, high))
            walls.append(ettr_run_rows(reader, Window("c", since, until))["wall_gpu_s"].sum() / HOUR)
    assert walls == [8 * 48 + 8 * 48, 8 * 24, 8 * (48 + 72)]
