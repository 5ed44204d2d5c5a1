"""The guide `app/docs/developing/adding-a-metric.md`: its steps are executed, and the metric appears everywhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.guides import copied_packages, run_python, written_files
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from pathlib import Path

DEFINITIONS = """
from app import docgen
from app.explorer.pages import definitions
page = str(definitions.layout({}))
assert "id='lost_share'" in page and "metrics.goodput.lost_share.lost_share" in page
print(docgen.metrics_page())
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages in which somebody has followed the guide."""
    root = copied_packages(tmp_path_factory.mktemp("checkout"))
    assert len(written_files(root, "metric")) == 3
    return root


def test_guide_test_passes(checkout: Path) -> None:
    run_python(checkout, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/metrics/goodput/test_lost_share.py")


@pytest.mark.slow
def test_guide_metric_is_shown_and_explained(checkout: Path, tmp_path: Path) -> None:
    warehouse = str(from_accounting(tmp_path, jobs=40))
    show = ("-m", "app.cli.main", "show", "lost_share", "--warehouse", warehouse)
    assert "Lost share" in run_python(checkout, *show)
    shown = json.loads(run_python(checkout, *show, "--format", "json", "--explain"))
    assert [row["metric"] for row in shown["rows"]] == ["lost_share"]
    [row] = shown["rows"]
    assert row["value"] is None
    assert row["bound_low"] == 0.0
    assert 0.5 < row["bound_high"] < 1
    assert shown["explain"]["metrics"][0]["definition"] == "lost GPU-seconds / allocated GPU-seconds"
    assert shown["explain"]["sql"].keys() == {"ledger_sums"}
    by_day = json.loads(run_python(checkout, *show, "--format", "json", "--by", "day"))
    assert len(by_day) > 1


@pytest.mark.slow
def test_guide_metric_is_in_reference_and_definitions_page(checkout: Path) -> None:
    assert "lost_share" in run_python(checkout, "-c", DEFINITIONS)
