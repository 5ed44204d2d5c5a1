"""One writer of JSON, whose numbers are all finite, and CSV and tables that keep to the same."""

from __future__ import annotations

import ast
import json
import logging
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import console
from app.formatting import display
from app.json_text import as_json, finite
from app.reports.sla.document import digest, encoded, sealed

ROOT = Path(__file__).parents[2]
NOT_FINITE = (math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("Infinity"))


def strict(text: str | bytes) -> Any:
    """JSON as the standard has it: NaN and Infinity are mistakes."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_a_number_that_is_not_finite_is_null_and_a_logged_fault(bad: object, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        text = as_json({"rows": [{"mfu": bad, "n": 3}], "sum": bad})
    assert strict(text) == {"rows": [{"mfu": None, "n": 3}], "sum": None}
    assert caplog.messages == ["2 numbers not finite, written as null: $.rows[0].mfu, $.sum"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(NOT_FINITE),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.slow
@given(JSON)
def test_whatever_is_written_can_be_read_by_the_standard(value: object) -> None:
    assert strict(as_json(value)) == strict(as_json(finite(value)))


def test_what_json_lacks_has_one_form() -> None:
    moment = datetime(2026, 10, 1, 12, tzinfo=UTC)
    reported = {
        "at": moment,
        "day": date(2026, 10, 1),
        "whole": Decimal("3.000"),
        "part": Decimal("0.5"),
        "set": {"b", "a"},
    }
    assert strict(as_json(reported)) == {
        "at": "2026-10-01T12:00:00Z",
        "day": "2026-10-01",
        "whole": 3,
        "part": 0.5,
        "set": ["a", "b"],
    }


def test_report_with_a_non_finite_number_has_a_valid_digest() -> None:
    made = sealed({"headlines": [{"metric": "mfu", "value": math.inf}]})
    read = strict(encoded(made))
    assert read["headlines"] == [{"metric": "mfu", "value": None}]
    assert read["sha256"] == digest(read)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_rows_are_written_without_numbers_that_are_not_finite(form: str, tmp_path: Path) -> None:
    console.write(pl.DataFrame({"value": [0.5, math.nan, math.inf]}), form, tmp_path / "rows")
    text = (tmp_path / "rows").read_text("utf-8")
    if form == "json":
        assert strict(text) == [{"value": 0.5}, {"value": None}, {"value": None}]
    else:
        assert text.splitlines() == ["value", "0.5", "", ""]


@pytest.mark.parametrize("unit", ["ratio", "ratio_2", "seconds", "gpu_h", "number", "count", "amount", "bytes"])
def test_a_table_shows_a_dash_for_a_number_that_is_not_finite(unit: str) -> None:
    assert {display(value, unit) for value in (math.nan, math.inf, -math.inf)} == {"-"}


@pytest.mark.slow
def test_no_other_module_of_the_product_writes_json_for_readers() -> None:
    result = {
        str(path.relative_to(ROOT))
        for folder in ("app", "dashboards", "ingest", "metrics", "queries")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in {"dump", "dumps", "write_json", "write_ndjson"}
        if ast.unparse(node.value) != "pickle"
    }
    assert result == {
        "app/claims/verdict_text.py",  # verdicts, stored in meta and read by itself
        "app/json_text.py",
        "app/results/constants.py",  # constants, all finite by the configuration's rules
        "app/service/integrity.py",  # how far a scan came: names of files
        "dashboards/grafana.py",  # boards: made of code alone
        "ingest/future.py",  # the raw text of a refused row, cut at a length, never read again
        "ingest/runlog/formats/google_goodput.py",  # an entry's own text, for its refusal
        "ingest/runlog/formats/kubeflow.py",  # the same
        "ingest/runlog/formats/trainer_state.py",  # the same
        "ingest/runlog/columns.py",  # steps as lines of a run log, read by itself
        "ingest/ranks/kineto.py",  # sums of a trace as lines of rank times, read by itself
        "ingest/prometheus/series/labels.py",  # the identity of a series, never read again
        "ingest/runlog/recorder/trackside_log.py",  # one file for training jobs; refuses what is not finite itself
        "queries/changes.py",  # what the last transactions wrote: names and numbers
        "queries/check_outcomes.py",  # counts, stored in meta and read by itself
        "queries/lake/fence.py",  # tokens of a directory's commits
        "queries/lake/snapshot.py",  # where a copy's files are, and whose each cluster is
        "queries/directory.py",  # the lock's holder
        "queries/sandbox/run.py",  # to the child
    }
