"""The list of published metrics points at things that exist."""

from __future__ import annotations

from importlib import import_module, resources

import polars as pl
import pytest

from metrics.catalog import BY_NAME, METRICS, Metric
from metrics.goodput.goodput import goodput
from tests.metrics.tables import spent, sums

each_metric = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(METRICS)


@each_metric
def test_the_function_of_a_metric_exists(metric: Metric) -> None:
    module, _, name = metric.function.rpartition(".")
    assert callable(getattr(import_module(module), name))


@each_metric
def test_the_query_of_a_metric_exists(metric: Metric) -> None:
    assert (resources.files("queries") / "named" / f"{metric.query}.sql").is_file()


@each_metric
def test_units_are_base_units(metric: Metric) -> None:
    assert metric.unit in {"ratio", "d", "s", "gpu_s", "1/gpu_d"}


@each_metric
def test_every_field_says_something_in_a_sentence(metric: Metric) -> None:
    assert metric.name.isidentifier()
    assert metric.name == metric.name.lower()
    assert metric.summary.endswith(".")
    assert all([metric.formula, metric.interval, metric.source])


def test_goodput_returns_the_metrics_that_name_it_in_their_unit() -> None:
    listed = {(metric.name, metric.unit) for metric in METRICS if metric.function == "metrics.goodput.goodput.goodput"}
    found = goodput(sums(spent("productive", 1)), pl.Series("cluster", ["c"]))
    assert set(found.select("metric", "unit").rows()) == listed
