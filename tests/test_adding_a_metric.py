"""The guide `app/docs/developing/adding-a-metric.md`: its steps are executed, and the metric appears everywhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.warehouses import from_accounting

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / "app" / "docs" / "developing" / "adding-a-metric.md"
PACKAGES = ("app", "dashboards", "ingest", "metrics", "queries")
FILE = re.compile(r"^`([\w/]+\.py)`\n\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)

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
    root = tmp_path_factory.mktemp("checkout")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    files = FILE.findall(GUIDE.read_text("utf-8"))
    assert len(files) == 3
    for path, text in files:
        target = root / path
        assert not target.exists()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return root


def _python(checkout: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_guide_test_passes(checkout: Path) -> None:
    _python(checkout, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/metrics/goodput/test_lost_share.py")


@pytest.mark.slow
def test_guide_metric_is_shown_and_explained(checkout: Path, tmp_path: Path) -> None:
    warehouse = str(from_accounting(tmp_path, jobs=40))
    show = ("-m", "app.cli.main", "show", "lost_share", "--warehouse", warehouse)
    assert "Lost share" in _python(checkout, *show)
    shown = json.loads(_python(checkout, *show, "--format", "json", "--explain"))
    assert [row["metric"] for row in shown["rows"]] == ["lost_share"]
    assert shown["explain"]["metrics"][0]["definition"] == "lost GPU-seconds / allocated GPU-seconds"
    assert shown["explain"]["sql"].keys() == {"ledger_sums"}
    by_day = json.loads(_python(checkout, *show, "--format", "json", "--by", "day"))
    assert len(by_day) > 1


def test_guide_metric_is_in_reference_and_definitions_page(checkout: Path) -> None:
    assert "lost_share" in _python(checkout, "-c", DEFINITIONS)
