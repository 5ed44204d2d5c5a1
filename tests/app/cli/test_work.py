"""No verb does more than it is known to do: statements, rows read, modules imported (`tests.bench.work`)."""

from __future__ import annotations

import json

import pytest

from tests.bench.work import LIMITS, VERBS, Work, measure

MARGIN = {"statements": 1.0, "rows_read": 1.0, "modules": 1.1}
"""Limits, as parts of the record. Other versions of Python and of the libraries import other modules."""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Work]:
    return measure(tmp_path_factory.mktemp("work"))


@pytest.mark.parametrize("verb", VERBS)
def test_verb_does_no_more_than_recorded(done: dict[str, Work], verb: str) -> None:
    """If more is right, or it does less now: `python -m tests.bench.work` renews the record."""
    recorded = json.loads(LIMITS.read_text("utf-8"))[verb]
    over = {name: count for name, count in done[verb].items() if count > MARGIN[name] * recorded[name]}
    assert not over, f"more than {recorded}"


@pytest.mark.slow
def test_compute_of_nothing_new_reads_few_rows(done: dict[str, Work]) -> None:
    assert done["compute, nothing new"]["rows_read"] < done["compute"]["rows_read"] / 4
