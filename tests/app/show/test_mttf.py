"""`trackside show mttf` in all its splits, on a warehouse read from accounting."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.claims.measure import measure
from app.results.failures.failure_rates import (
    failure_history,
    failure_rate_rows,
    failure_rate_tables,
    failure_rates_of,
    reference_rows,
)
from app.show.answer import Question, explain, together
from app.show.questions.cluster.mttf import mttf
from app.window import Window
from metrics import frames
from metrics.claims.verdict import Claim
from queries.warehouse import open_reader
from tests.support.command import trackside
from tests.support.sources import KeepsNothing
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.show.answer import Answer
    from queries.warehouse import Reader

SPLITS = ("size", "law", "hazard", "reference", "cause", "partition", "user")


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_accounting(tmp_path_factory.mktemp("mttf"), jobs=400)


@pytest.fixture(scope="module")
def reader(warehouse: Path) -> Iterator[Reader]:
    with open_reader(warehouse) as result:
        yield result


@pytest.fixture(scope="module")
def window(reader: Reader) -> Window:
    row = reader.query("computed", cluster=reader.query("clusters")["cluster"][0]).row(0, named=True)
    return Window(row["cluster"], row["since"], row["until"])


def answer_by(reader: Reader, window: Window, by: str) -> Answer:
    return mttf(reader, window, Question(by=by))


@pytest.mark.slow
@pytest.mark.parametrize("by", SPLITS)
def test_every_split_has_rows_and_explains_each_number(by: str, reader: Reader, window: Window) -> None:
    result = answer_by(reader, window, by)
    assert result.shown.height > 0
    assert set(result.columns) <= set(result.rows.columns)
    reported = explain(reader, result, [window])
    assert {each["metric"] for each in reported["metrics"]} == set(result.metrics)
    assert set(reported["sql"]) == set(result.queries)
    for number in reported["numbers"]:
        assert {"metric", "value", "n", "ci_low", "ci_high", "ci_method"} <= set(number)


@pytest.mark.parametrize("by", ["size", "hazard"])
def test_short_form_is_of_what_the_headline_is_about(by: str, reader: Reader, window: Window) -> None:
    result = answer_by(reader, window, by)
    assert result.brief is not None
    assert not {"class", "counted", *result.explained} & result.brief.columns.keys()
    assert result.brief.rows["class"].unique().to_list() == ["infrastructure"]
    assert result.brief.rows["size"].is_duplicated().sum() == 0
    assert result.brief.rows.columns == result.rows.columns, "the parts of a number are among them"


@pytest.mark.parametrize("by", SPLITS)
def test_every_split_works_for_several_clusters(by: str, reader: Reader, window: Window) -> None:
    answers = [answer_by(reader, window, by)] * 2
    both = together(answers, [window, Window("other", window.since, window.until)])
    assert both.rows.height == 2 * answers[0].rows.height
    assert both.shown.height == 2 * answers[0].shown.height


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "csv"])
def test_hazard_curves_are_for_machines_and_the_table_a_summary(form: str, warehouse: Path) -> None:
    """JSON and CSV have the curves."""
    done = trackside("show", "mttf", "--by", "hazard", "--format", form, "--warehouse", str(warehouse))
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = (
        json.loads(done.stdout)
        if form == "json"
        else pl.read_csv(done.stdout.encode(), infer_schema_length=None).to_dicts()
    )
    assert {row["curve"] for row in rows} == {"summary", "survival", "incidence"}
    table = trackside("show", "mttf", "--by", "hazard", "--warehouse", str(warehouse)).stdout
    assert "Weibull shape" in table
    assert "\nincidence" not in table


def test_impossible_question_is_refused_with_the_reason(warehouse: Path) -> None:
    done = trackside("show", "mttf", "--by", "moon", "--warehouse", str(warehouse))
    assert done.returncode == 2
    assert "it takes: size, law, hazard, reference, cause, partition, user" in done.stderr


def test_windows_together_are_what_each_is_alone(reader: Reader, window: Window) -> None:
    shown = failure_rate_rows(reader, window)
    again = failure_rate_tables(failure_history(reader, window), [window, window])
    assert again.height == 2 * shown.height
    assert again.head(shown.height).equals(shown)


def test_shorter_window_equals_the_same_cut_of_a_longer_one(reader: Reader, window: Window) -> None:
    middle = window.since + (window.until - window.since) / 2
    for part in (Window(window.cluster, window.since, middle), Window(window.cluster, middle, window.until)):
        alone = failure_rate_rows(reader, part)
        cut = failure_rates_of(failure_history(reader, window), part)
        known = ["class", "counted", "size"]
        both = alone.join(cut, on=known, suffix="_cut")
        assert both.height == alone.height
        for name in ("n_failures", "n_attempts", "n_censored"):
            assert both[name].to_list() == both[f"{name}_cut"].to_list()
        assert both["exposure_gpu_days"].to_list() == pytest.approx(both["exposure_gpu_days_cut"].to_list())
        assert alone["n_attempts"].sum() > 0


def test_sizes_sum_to_pooled_and_causes_to_unplanned_failures(reader: Reader, window: Window) -> None:
    rows = answer_by(reader, window, "size").rows.filter(
        (pl.col("class") == "unplanned") & (pl.col("counted") == "attempts")
    )
    pooled = rows.filter(pl.col("size") == "pooled").row(0, named=True)
    worded = rows.with_columns(answer_by(reader, window, "size").in_words)
    assert "all (per GPU)" in worded["size"].to_list()
    assert "pooled" not in worded["size"].to_list()
    sizes = rows.filter(~pl.col("size").is_in(["pooled", "over 128", "960-1088"]))
    assert sizes["n_failures"].sum() == pooled["n_failures"]
    assert sizes["exposure_gpu_days"].sum() == pytest.approx(pooled["exposure_gpu_days"])
    assert answer_by(reader, window, "cause").rows["n_failures"].sum() == pooled["n_failures"]
    for label in ("user", "partition"):
        split = answer_by(reader, window, label).rows.filter(
            (pl.col("class") == "unplanned") & (pl.col("counted") == "attempts")
        )
        assert split["n_failures"].sum() == pooled["n_failures"]
        assert split["exposure_gpu_days"].sum() == pytest.approx(pooled["exposure_gpu_days"])


def test_a_reference_is_compared_with_our_rate_of_its_class(reader: Reader, window: Window) -> None:
    rows = {row["reference"]: row for row in answer_by(reader, window, "reference").rows.iter_rows(named=True)}
    ours = answer_by(reader, window, "size").rows.filter(
        (pl.col("class") == "infrastructure") & (pl.col("counted") == "attempts") & (pl.col("size") == "pooled")
    )
    vendor = rows["CoreWeave benchmark"]
    assert vendor["n_failures"] == ours["n_failures"][0]
    assert vendor["rate_ratio"] == pytest.approx(ours["rate_per_gpu_day"][0] * 3748.25)
    assert vendor["ci_low"] == pytest.approx(ours["rate_low"][0] * 3748.25)
    assert vendor["reference_mttf_d"] == pytest.approx(3.6604, rel=1e-4)
    assert rows["Meta RSC-1"]["like_with_like"] is True
    assert rows["Llama 3 405B"]["reference_failures"] == 419
    nothing = rows["Meta, 1024 GPUs"]
    assert (nothing["exposure_gpu_days"], nothing["rate_ratio"]) == (0, None)
    assert vendor["p_value"] is None  # no count stands behind the constant


class TwoClusters(KeepsNothing):
    """A source in which a second cluster is the first under another name."""

    def __init__(self, reader: Reader, cluster: str) -> None:
        self.reader, self.cluster = reader, cluster

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """Rows of a named query."""
        if name == "clusters":
            return pl.DataFrame({"cluster": [self.cluster, "twin"]})
        return self.reader.query(name, **(params | {"cluster": self.cluster}))


def test_clusters_are_compared_by_their_two_counts(reader: Reader, window: Window) -> None:
    past = failure_history(reader, window)
    rows = reference_rows(TwoClusters(reader, window.cluster), past, window, 1024.0)
    twin = rows.filter(pl.col("reference") == "cluster twin").row(0, named=True)
    assert twin["n_failures"] == twin["reference_failures"] > 0
    assert twin["rate_ratio"] == pytest.approx(1)
    assert twin["ci_low"] < 1 < twin["ci_high"]
    assert twin["p_value"] == pytest.approx(1)
    assert twin["ci_method"].startswith("exact two-sample")


class Bursts(KeepsNothing):
    """A cluster with a job a day, and 2,000 jobs that fail at once on the first."""

    def query(self, name: str, **_: object) -> pl.DataFrame:
        if name == "stored_failure_rates":
            return pl.DataFrame()
        """Rows of the two queries that failure rates are made of."""
        begin, many, n_days = datetime(2026, 9, 1, tzinfo=UTC), 2000, 30
        starts = [begin + timedelta(days=day) for day in range(n_days)]
        ran = [(f"d{at}", start, start + timedelta(hours=20), "COMPLETED") for at, start in enumerate(starts)]
        ran += [(f"f{at}", begin, begin + timedelta(minutes=1), "NODE_FAIL") for at in range(many)]
        rows = pl.DataFrame(ran, schema=["job_id", "started_at", "ended_at", "state"], orient="row").with_columns(
            pl.col("started_at", "ended_at").cast(frames.TIME),
            cluster=pl.lit("c"),
            scheduler=pl.lit("slurm"),
            submitted_at=pl.col("started_at").cast(frames.TIME),
        )
        if name == "endings":
            output = {"class": "infrastructure", "cause": "node_fail"}
            failed = rows.filter(pl.col("state") == "NODE_FAIL").with_columns(incident="job_id")
            return failed.with_columns(pl.lit(text).alias(column) for column, text in output.items())
        return rows.with_columns(het_job_id=pl.lit(None, dtype=pl.String), suspended_s=0.0, n_nodes=1, milli_gpus=8000)


def test_the_surest_burst_of_all_widens_the_interval_of_a_claim() -> None:
    """The test for bursts may give a p that is 0 to all its digits: that is no missing one."""
    month = Window("c", datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))
    pooled = failure_rate_rows(Bursts(), month).filter(
        pl.col("class") == "infrastructure", pl.col("counted") == "attempts", pl.col("size") == "pooled"
    )
    (row,) = pooled.to_dicts()
    assert row["phi_p"] == 0
    claim = Claim("x", "mttf", "q", "r", "capability", 1.0, "at_least", "d", gpus=8)
    result = measure(Bursts(), month, claim)
    assert [result.low, result.high] == pytest.approx([row["mttf_low_d"] / 8, row["mttf_high_d"] / 8])
    assert "failures come in bursts" in str(result.method)
