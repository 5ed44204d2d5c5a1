from __future__ import annotations

import inspect
import re

import polars as pl
import pytest

from ingest import errors
from ingest.tables import NODES, REJECTS, Parsed, empty

CLASSES = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, Exception)]


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    assert set(re.findall(r"\b\w+Error\b", errors.__doc__ or "")) == {one.__name__ for one in CLASSES}


@pytest.mark.parametrize("one", CLASSES)
def test_every_error_is_of_a_source_an_input_or_the_options(one: type[Exception]) -> None:
    assert issubclass(one, (errors.SourceError, errors.InputError, errors.OptionError))


def test_a_failed_command_shows_the_first_lines_only() -> None:
    error = errors.SourceDownError(["sacct", "-a"], 1, "\n".join(f"line {n}" for n in range(50)))
    assert "line 3" in str(error)
    assert "line 4" not in str(error)


def test_long_and_odd_text_is_made_fit_for_one_line() -> None:
    assert errors.shorten("a\x00b" + "c" * 500).startswith("a\\x00b")
    assert len(errors.shorten("c" * 500)) < 200


def test_a_result_whose_rows_do_not_add_up_cannot_be_made() -> None:
    with pytest.raises(AssertionError, match="2 rows read, 1 accounted for"):
        Parsed("slurm.nodes", frozenset(), {}, empty(REJECTS), rows_read=2, rows_loaded=1)


def test_parsed_frame_with_undeclared_columns_is_refused() -> None:
    frame = pl.DataFrame({"cluster": ["c"]})
    with pytest.raises(AssertionError, match="frame nodes is not as declared"):
        Parsed("slurm.nodes", frozenset(), {"nodes": frame}, empty(REJECTS), rows_read=0, rows_loaded=0)
    Parsed("slurm.nodes", frozenset(), {"nodes": empty(NODES)}, empty(REJECTS), rows_read=0, rows_loaded=0)
