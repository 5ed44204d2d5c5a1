"""The list of published metrics points at things that exist."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import polars as pl
import pytest

import metrics
from metrics import catalog
from metrics.catalog import BY_NAME, METRICS, Metric
from metrics.goodput.goodput import goodput
from queries import sql_files
from tests.metrics.tables import spent, sums

each_metric = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(METRICS)


@each_metric
def test_computed_by_names_the_function(metric: Metric) -> None:
    if metric.function is None:
        assert metric.query in metric.computed_by
    else:
        module, _, name = metric.computed_by.rpartition(".")
        assert getattr(import_module(module), name) is metric.function


def test_catalog_has_every_entry_that_a_module_declares() -> None:
    declared = [
        metric
        for result in pkgutil.walk_packages(metrics.__path__, "metrics.")
        if result.name != catalog.__name__
        for metric in getattr(import_module(result.name), "METRICS", ())
    ]
    assert sorted(metric.name for metric in declared) == sorted(BY_NAME)
    assert len(METRICS) > 60


def test_headline_numbers_have_places_of_their_own() -> None:
    places = [metric.headline for metric in METRICS if metric.headline is not None]
    assert len(set(places)) == len(places)


@each_metric
def test_the_query_of_a_metric_exists(metric: Metric) -> None:
    assert metric.query in sql_files.named_queries()


@each_metric
def test_units_are_base_units(metric: Metric) -> None:
    assert metric.unit in {"ratio", "d", "s", "gpu_s", "1/gpu_d", "J", "kg", "currency"}


@each_metric
def test_every_field_has_a_sentence(metric: Metric) -> None:
    assert metric.name.isidentifier()
    assert metric.name == metric.name.lower()
    assert metric.summary.endswith(".")
    assert all([metric.formula, metric.interval, metric.source])


def test_goodput_returns_the_metrics_that_name_it_in_their_unit() -> None:
    listed = {(metric.name, metric.unit) for metric in METRICS if metric.function is goodput}
    result = goodput(sums(spent("productive", 1)), pl.Series("cluster", ["c"]))
    assert set(result.select("metric", "unit").rows()) == listed
