"""`show goodput`, `show ettr` and `show lost`: every meaning side by side, and one run second by second."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.results.ettr import ettr_run_rows, run_stretches
from app.results.runs.job_goodput import job_accounts
from app.window import Window
from metrics.ettr.timeline import NOT_ASKED
from queries.warehouse import Reader, open_reader
from tests.support.command import trackside
from tests.support.warehouses import from_accounting, from_everything

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Accounting, telemetry and run logs of 64 GPUs over ten days."""
    return from_everything(tmp_path_factory.mktemp("everything"), gpus=64, days=10)


@pytest.fixture(scope="module")
def reader(everything: Path) -> Iterator[Reader]:
    with open_reader(everything) as result:
        yield result


@pytest.fixture(scope="module")
def window(reader: Reader) -> Window:
    return Window("demo", *reader.query("computed", cluster="demo").select("since", "until").row(0))


def shown(root: Path, *arguments: str) -> str:
    done = trackside("show", *arguments, "--warehouse", str(root))
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(root: Path, *arguments: str) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = json.loads(shown(root, *arguments, "--format", "json"))
    return result


def logged_run(reader: Reader, window: Window) -> str:
    return str(job_accounts(reader, window).runs["run_id"][0])


def test_parts_of_goodput_have_a_unit(everything: Path) -> None:
    by_partition = shown(everything, "goodput", "--by", "partition", "--wide")
    assert "numerator GPU-h" in by_partition
    assert "denominator GPU-h" in by_partition
    columns = ("--format", "csv", "--columns", "metric,parts_unit")
    exact = dict(line.split(",") for line in shown(everything, "goodput", *columns).splitlines()[1:])
    assert exact.items() >= {("goodput_allocated", "GPU-s"), ("goodput_job", "s"), ("program_goodput", "FLOP")}
    assert exact["mpg"] == "", "a product of others has no parts"
    cells = [line.split() for line in shown(everything, "goodput", "--columns", "metric,parts_unit").splitlines()]
    words = {line[0]: line[1] for line in cells if len(line) == 2}
    assert words.items() >= {("goodput_allocated", "GPU-h"), ("goodput_job", "h"), ("program_goodput", "FLOP")}


@pytest.mark.slow
def test_intervals_of_each_run_sum_to_its_ettr_denominator(reader: Reader, window: Window) -> None:
    for row in ettr_run_rows(reader, window).iter_rows(named=True):
        result = run_stretches(reader, window, row["run_id"])
        assert result["gpu_seconds"].sum() == pytest.approx(row["wall_gpu_s"], rel=1e-12)
        kept = result.filter(pl.col("class") == "productive")["gpu_seconds"].sum()
        assert kept == pytest.approx(row["productive"], rel=1e-12)
        queued = result.filter(pl.col("class").is_in(["queue_initial", "queue_requeue"]))["gpu_seconds"].sum()
        assert queued == pytest.approx(row["queued_initial"] + row["queued_requeue"], rel=1e-12)
        span = (result["ended_at"].max() - result["started_at"].min()).total_seconds()  # type: ignore[operator, union-attr]  # times
        assert result["seconds"].sum() == pytest.approx(span)
        assert result.filter(pl.col("class") == NOT_ASKED)["gpu_seconds"].sum() == 0


@pytest.mark.slow
def test_one_run_is_listed_second_by_second_in_every_format(
    everything: Path, reader: Reader, window: Window, tmp_path: Path
) -> None:
    run = logged_run(reader, window)
    reported = rows(everything, "ettr", "--run", run, "--by", "stretch")
    assert [row["number"] for row in reported] == list(range(1, len(reported) + 1))
    text = shown(everything, "ettr", "--run", run, "--by", "stretch", "--format", "csv")
    assert pl.read_csv(io.StringIO(text)).height == len(reported)
    shown(everything, "ettr", "--run", run, "--by", "stretch", "-o", str(tmp_path / "run.parquet"))
    assert pl.read_parquet(tmp_path / "run.parquet").height == len(reported)
    explained = json.loads(shown(everything, "ettr", "--run", run, "--explain", "--format", "json"))
    stretches, sums = (details["rows"] for details in explained["explain"]["details"])
    assert stretches == reported
    by_class = rows(everything, "ettr", "--run", run, "--by", "class")
    assert [(row["class"], row["gpu_seconds"]) for row in sums] == [
        (row["class"], row["gpu_seconds"]) for row in by_class
    ]
    output = shown(everything, "ettr", "--run", run)
    assert "which is the denominator" in output
    assert "expected" in output


def test_intervals_of_one_run_are_labelled_so(everything: Path) -> None:
    done = trackside("show", "ettr", "--by", "stretch", "--warehouse", str(everything))
    assert done.returncode == 2
    assert "--by stretch is of one run: add --run R" in done.stderr


def test_all_ettr_forms_are_shown_and_equal_the_stored_results(everything: Path, reader: Reader) -> None:
    reported = {row["metric"]: row for row in rows(everything, "ettr")}
    forms = {"ettr", "ettr_without_initial_queue", "ettr_with_checkpoint_writes"}
    assert reported.keys() >= forms | {f"{form}_mean_of_runs" for form in forms} | {"ettr_imputed", "ettr_expected"}
    assert reported["ettr"]["value"] <= reported["ettr_with_checkpoint_writes"]["value"]
    assert reported["ettr"]["value"] <= reported["ettr_without_initial_queue"]["value"]
    assert reported["ettr"]["ci_method"]
    expected = reported["ettr_expected"]
    assert expected["ci_low"] <= expected["value"] <= expected["ci_high"]
    assert "infrastructure failures only" in expected["note"]
    stored = {
        row["metric"]: row["value"]
        for row in reader.table("cluster_metrics")
        .filter(
            pl.col("window_until") - pl.col("window_from") == pl.duration(days=10), pl.col("dimension") == "cluster"
        )
        .iter_rows(named=True)
    }
    for name in (*forms, "ettr_expected", "ettr_imputed"):
        assert stored[name] == reported[name]["value"]


@pytest.mark.slow
def test_every_definition_of_goodput_is_shown(everything: Path) -> None:
    reported = {row["metric"]: row for row in rows(everything, "goodput")}
    assert reported.keys() >= {"goodput_job", "goodput_allocated", "goodput_capacity", "mpg"}
    assert reported["scheduling_goodput"]["value"] == reported["occupancy"]["value"]
    assert reported["runtime_goodput"]["value"] == reported["goodput_allocated"]["value"]
    factors = [reported[name]["value"] for name in ("scheduling_goodput", "runtime_goodput", "program_goodput")]
    if None not in factors:
        assert reported["mpg"]["value"] == pytest.approx(factors[0] * factors[1] * factors[2])
    of_runs = [row for row in rows(everything, "goodput", "--by", "run") if row["metric"] == "goodput_job"]
    assert sum(row["numerator"] for row in of_runs) == pytest.approx(reported["goodput_job"]["numerator"])
    assert sum(row["denominator"] for row in of_runs) == pytest.approx(reported["goodput_job"]["denominator"])
    buckets = rows(everything, "goodput", "--by", "bucket")
    kept = next(row for row in buckets if row["bucket"] == "productive")
    assert kept["share"] == pytest.approx(reported["goodput_job"]["value"])


def test_windows_cut_the_job_goodput_without_counting_time_twice(reader: Reader, window: Window) -> None:
    middle = datetime(2026, 9, 5, tzinfo=UTC)
    halves = [Window("demo", window.since, middle), Window("demo", middle, window.until)]
    whole, *parts = (float(job_accounts(reader, each).runs["total_s"].sum()) for each in (window, *halves))
    assert 0 < sum(parts) <= whole + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("by", ["cause", "category", "node", "user", "account", "partition", "run", "day"])
def test_what_was_lost_adds_up_whatever_it_is_split_by(everything: Path, by: str) -> None:
    reported = rows(everything, "lost", "--by", by)
    assert sum(row["share"] for row in reported) == pytest.approx(1)
    assert sum(row["share_allocated"] or 0 for row in reported) == pytest.approx(1)
    amounts = [row["gpu_seconds"] for row in reported]
    assert amounts == sorted(amounts, reverse=True)


@pytest.mark.slow
def test_with_accounting_alone_nothing_is_invented(tmp_path: Path) -> None:
    root = from_accounting(tmp_path, jobs=60)
    reported = {row["metric"]: row for row in rows(root, "goodput")}
    assert "goodput_job" not in reported
    assert reported["mpg"]["value"] is None
    assert "cannot tell" in reported["mpg"]["note"]
    assert "No run log" in shown(root, "goodput", "--by", "bucket")
    ettr = {row["metric"]: row for row in rows(root, "ettr")}
    assert ettr["ettr"]["value"] is None
    assert ettr["ettr"]["ci_low"] is None
    assert "0% measured" in ettr["ettr_expected"]["note"]
