"""A table's layout: what is shown, what is said once, what is named instead."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import UsageError
from app.terminal.cells import width
from app.terminal.rows import RowOptions, selected
from app.terminal.table import TextTable, table_lines
from app.terminal.terminal import PIPE, Terminal

LONG = "a long text that explains at some length what the number beside it means"
ROWS = pl.DataFrame(
    {
        "node": ["gpu-1", "gpu-2", "gpu-3", "gpu-4"],
        "cluster": ["c"] * 4,
        "note": [LONG, "ok", LONG, LONG.upper()],
        "hours": [12_345.678, 1.2, 0.004, None],
        "low": [0.1, 0.2, 0.3, 0.4],
        "high": [0.5, 0.6, 0.7, 0.8],
        "empty": [None] * 4,
    },
    schema_overrides={"empty": pl.String},
)
HEADINGS = {
    "node": ("node", "text"),
    "cluster": ("cluster", "text"),
    "note": ("note", "text"),
    "hours": ("GPU-h", "number"),
    "low": ("at least", "ratio"),
    "high": ("at most", "ratio"),
    "empty": ("nothing", "text"),
}
TABLE = TextTable(ROWS, HEADINGS)


def lines(columns: int, options: RowOptions | None = None, table: TextTable = TABLE) -> list[str]:
    return table_lines(table, Terminal(columns, 24), options or RowOptions())


def test_constant_columns_and_long_texts_are_printed_below() -> None:
    assert lines(60) == [
        "node   note    GPU-h  at least  at most",
        "gpu-1  [1]    12,346    10.0 %   50.0 %",
        "gpu-2  ok       1.20    20.0 %   60.0 %",
        "gpu-3  [1]   0.00400    30.0 %   70.0 %",
        "gpu-4  [2]         -    40.0 %   80.0 %",
        "in all rows: cluster c",
        "without a value: empty",
        "[1] a long text that explains at some length what the number",
        "    beside it means",
        "[2] A LONG TEXT THAT EXPLAINS AT SOME LENGTH WHAT THE NUMBER",
        "    BESIDE IT MEANS",
    ]


def test_texts_that_fit_stay_in_their_row() -> None:
    assert f"gpu-1  {LONG}   12,346    10.0 %   50.0 %" in lines(120)


def test_texts_are_folded_before_they_are_cut() -> None:
    rows = pl.DataFrame({"source": ["runlog", "slurm"], "rows": ["1,696 run_events, 11 sessions", "86 attempts"]})
    table = TextTable(rows, {"source": ("source", "text"), "rows": ("rows", "text")}, ranked=("rows",))
    assert lines(28, RowOptions(columns=("source", "rows")), table)[:4] == [
        "source  rows", "runlog  1,696 run_events, 11", "        sessions", "slurm   86 attempts",
    ]  # fmt: skip


def test_pairs_are_shown_together_or_not_at_all() -> None:
    assert lines(28)[0].split() == ["node", "note", "GPU-h"]
    assert any(line.startswith("also: low, high") for line in lines(28))


def test_ranked_columns_go_first() -> None:
    shown = lines(30, table=TextTable(ROWS, HEADINGS, ranked=("low",)))
    assert "at least" in " ".join(" ".join(shown[:2]).split()) or "least" in shown[1]
    assert any(line.startswith("also: hours") for line in shown)


def test_explained_columns_are_shown_on_request() -> None:
    table = TextTable(ROWS, HEADINGS, explained=("hours",))
    assert "GPU-h" not in lines(100, table=table)[0]
    assert any("also: hours" in line for line in lines(100, table=table))
    assert "GPU-h" in lines(100, RowOptions(columns=("node", "hours")), table)[0]
    assert "GPU-h" in lines(100, RowOptions(wide=True), table)[0]


def test_wide_lines_have_every_column() -> None:
    assert lines(40, RowOptions(wide=True))[0].split() == [
        "node", "cluster", "note", "GPU-h", "at", "least", "at", "most", "nothing",
    ]  # fmt: skip


def test_a_pipe_has_all_rows_and_columns_in_full() -> None:
    many = pl.concat([ROWS] * 20)
    piped = table_lines(TextTable(many, HEADINGS), PIPE)
    assert len(piped) == 81
    assert "12,345.68" in piped[1]
    assert LONG in piped[1]
    assert len(table_lines(TextTable(many, HEADINGS), PIPE, RowOptions(limit=5))) == 6
    shown = table_lines(TextTable(many, HEADINGS), Terminal(80, 24))
    assert "60 more: --all" in shown
    assert "60 more: --all" not in table_lines(TextTable(many, HEADINGS), Terminal(80, 24), RowOptions(every=True))


@pytest.mark.parametrize(
    ("sort", "first"),
    [("hours", "gpu-1"), ("hours:asc", "gpu-3"), ("node", "gpu-1"), ("node:desc", "gpu-4"), ("GPU-h:asc", "gpu-3")],
)
def test_numbers_fall_and_names_rise_unless_it_is_requested(sort: str, first: str) -> None:
    shown = lines(60, RowOptions(sort=sort))
    assert shown[1].startswith(first)
    if "hours" in sort:
        assert shown[4].startswith("gpu-4"), "unknown values are last"


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(UsageError, match="no column 'x'; the columns are node, cluster"):
        lines(60, RowOptions(columns=("x",)))


def test_columns_are_requested_by_headings_with_commas() -> None:
    headings = {**HEADINGS, "low": ("productive, at least", "ratio"), "high": ("productive, at most", "ratio")}
    requested = ("node", "Productive", "at most", "productive", "at least", "hours")
    shown = lines(80, RowOptions(columns=requested), TextTable(ROWS, headings))
    assert shown[0] == "node   productive, at most  productive, at least    GPU-h"
    assert selected(ROWS, RowOptions(columns=requested), headings).columns == ["node", "high", "low", "hours"]
    with pytest.raises(UsageError, match="no column 'productive'"):
        lines(80, RowOptions(columns=("productive", "hours")), TextTable(ROWS, headings))


def test_times_are_as_exact_as_is_needed() -> None:
    times = [datetime(2026, 10, 1, 12, 0, second, tzinfo=UTC) for second in (0, 30)]
    rows = pl.DataFrame({"a": ["x", "y"], "t": times})
    table = TextTable(rows, {"a": ("a", "text"), "t": ("t", "time")})
    assert lines(80, table=table)[1] == "x  2026-10-01 12:00:00"
    assert lines(80, table=TextTable(rows.head(1), table.headings))[1] == "x  2026-10-01 12:00"


def test_names_leave_the_terminal_as_it_is() -> None:
    rows = pl.DataFrame({"a\x1b[2J": ["x\x1b[31mred\nnext"]})
    shown = "\n".join(lines(80, table=TextTable(rows, {"a\x1b[2J": ("a\x1b[2J", "text")})))
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 2


def test_colour_adds_nothing_to_the_words() -> None:
    rows = pl.DataFrame({"job": ["1", "2"], "state": ["FAILED", "COMPLETED"]})
    table = TextTable(rows, {"job": ("job", "text"), "state": ("state", "text")})
    plain = table_lines(table, Terminal(80, 24))
    coloured = table_lines(table, Terminal(80, 24, colours=True))
    assert "\x1b[31mFAILED\x1b[0m" in coloured[1]
    assert "\x1b[32mCOMPLETED\x1b[0m" in coloured[2]
    assert [width(line) for line in plain] == [width(line) for line in coloured]


NAMES = st.text(alphabet="ab cd东é\u0301", max_size=40)


@given(st.lists(st.tuples(NAMES, NAMES, st.floats(0, 1e9), NAMES), min_size=1, max_size=8), st.integers(20, 90))
def test_no_line_is_wider_whatever_is_in_it(cells: list[tuple[str, str, float, str]], columns: int) -> None:
    rows = pl.DataFrame(cells, schema=["name", "user", "hours", "state"], orient="row")
    headings = {
        "name": ("name", "text"),
        "user": ("user of the job", "text"),
        "hours": ("GPU-h", "number"),
        "state": ("state", "text"),
    }
    for options in (RowOptions(), RowOptions(columns=tuple(headings))):
        made = table_lines(TextTable(rows, headings), Terminal(columns, 24), options)
        assert max(map(width, made)) <= columns
