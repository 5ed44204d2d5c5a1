"""Python never runs in polars' own threads: pages made at the same time would wait for each other for good."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PARTS = ("app", "dashboards", "ingest", "metrics", "queries")

BESIDE_A_MEDIAN = """
import threading
import polars as pl
from app.explorer.to_do import costliest

numbers = pl.Series([None if at % 9 == 0 else float(at * 7919 % 100_003) for at in range(300_000)])
rows = pl.DataFrame({"category": ["lost", "stalled"] * 500})

def looks():
    for _ in range(100):
        rows.with_columns(**costliest.category_style(rows))

def medians():
    for _ in range(100):
        numbers.median()

threads = [threading.Thread(target=each) for each in (looks, medians)]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""


def test_no_expression_of_polars_calls_python() -> None:
    files = [file for part in PARTS for file in (ROOT / part).rglob("*.py")]
    assert len(files) > 500
    calling = re.compile(r"\.(map_elements|map_batches|map_groups|rolling_map|cumulative_eval)\(")
    assert [str(file) for file in files if calling.search(file.read_text(encoding="utf-8"))] == []


@pytest.mark.slow
def test_texts_are_made_while_another_thread_takes_a_median() -> None:
    subprocess.run([sys.executable, "-c", BESIDE_A_MEDIAN], check=True, timeout=120, cwd=ROOT)
