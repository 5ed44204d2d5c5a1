"""Every question in a terminal: no line is wider than it, and what is left out is named."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.api import QUESTIONS
from app.periods import Period, windows
from app.show import metric
from app.show.answer import Question
from app.show.page import answer_lines
from app.show.questions.runs.interruptions import COSTLIEST
from app.show.registry import question_of
from app.show.run_question import run_question
from app.terminal.cells import width
from app.terminal.rows import USUAL_ROWS, RowOptions
from app.terminal.terminal import PIPE, Terminal
from metrics.catalog import BY_NAME
from metrics.categories import COSTLY
from queries.memo import Memo
from queries.warehouse import open_reader
from tests.support.command import trackside
from tests.support.pseudo_terminal import trackside_in_terminal
from tests.support.warehouses import from_everything

if TYPE_CHECKING:
    from pathlib import Path

    from app.show.answer import Answer
    from app.window import Window

WIDTHS = (80, 120, 200)
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_everything(tmp_path_factory.mktemp("terminal"))


def splits() -> list[object]:
    """Every question with everything that it can be split by without a run; the quick tests have the defaults."""
    return [
        pytest.param(name, by, marks=() if by == question_of(name).default else pytest.mark.slow)
        for name in QUESTIONS
        for by in question_of(name).by
    ]


@pytest.fixture(scope="module")
def memo() -> Memo:
    """What one question was made of, the next need not make again."""
    return Memo(size=64)


def answer_of(root: Path, what: str, by: str, memo: Memo | None = None) -> tuple[Answer, list[Window]]:
    with open_reader(root, memo) as reader:
        return run_question(
            reader, windows(reader, Period()), question_of(what), Question(by=by, details=False), report=pytest.fail
        )


@pytest.mark.slow
@pytest.mark.parametrize(("what", "by"), splits())
def test_lines_fit_the_terminal_and_no_column_is_lost(what: str, by: str, root: Path, memo: Memo) -> None:
    answer, shown = answer_of(root, what, by, memo)
    for columns in WIDTHS:
        lines = answer_lines(answer, shown, Terminal(columns, 50, colours=True, moves=True))
        plain = [_ESCAPES.sub("", line) for line in lines]
        assert max(map(width, plain)) <= columns
        if not answer.shown.is_empty():
            headings = answer.columns if answer.brief is None else answer.brief.columns
            assert not _lost(plain, headings), columns
            assert answer.headline.endswith("."), "no sentence that answers"


def _lost(lines: list[str], headings: dict[str, tuple[str, str]]) -> list[str]:
    """Columns that are neither headed in the table nor named below it."""
    words = {word.rstrip(",") for line in lines for word in line.split()}
    headed = {
        name for name, (heading, _) in headings.items() if {word.rstrip(",") for word in heading.split()} <= words
    }
    return [name for name in headings if name not in words | headed]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["goodput_allocated", "mpg", "lost_imputed", "ettr_mean_of_runs", "mfu_wall"])
def test_a_metric_begins_with_its_value_and_fits(name: str, root: Path, memo: Memo) -> None:
    answer, shown = answer_of(root, name, "cluster", memo)
    assert answer.headline.startswith(f"{BY_NAME[name].title}: ")
    assert answer.headline.endswith(".")
    lines = answer_lines(answer, shown, Terminal(80, 50))
    assert lines[0] == answer.headline or answer.headline.startswith(lines[0])
    assert max(map(width, lines)) <= 80


def metric_row(**known: float | str | None) -> dict[str, float | str | None]:
    return dict.fromkeys(("value", "bound_low", "bound_high", "ci_low", "ci_high", "note")) | known


@pytest.mark.parametrize(
    ("name", "rows", "text"),
    [
        (
            "goodput_allocated",
            [metric_row(subject="c", value=0.94, bound_low=0.939, bound_high=0.954)],
            "Goodput (of allocated): 94.0 % (1.5 % unobserved: 93.9 % to 95.4 %).",
        ),
        (
            "ettr_expected",
            [metric_row(subject="c", value=0.928, ci_low=0.924, ci_high=None)],
            "ETTR expected: 92.8 %, 95 % interval 92.4 % to no limit.",
        ),
        ("lost_imputed", [metric_row(subject="c", value=54_302_400.0)], "Assumed cost of interruptions: 15,084 GPU-h."),
        (
            "lost_imputed",
            [metric_row(subject="c", bound_low=36_000.0)],
            "Assumed cost of interruptions: 10 GPU-h to no limit.",
        ),
        ("mpg", [metric_row(subject="c", note="no logs")], "MPG: cannot tell (no logs)."),
        ("mpg", [metric_row(subject="c", note="cannot tell: no logs")], "MPG: cannot tell (no logs)."),
        (
            "occupancy",
            [metric_row(subject=day, value=value) for day, value in (("mon", 0.9), ("tue", 0.5), ("wed", None))],
            "Occupancy of 2 days: least for tue with 50.0 %, most for mon with 90.0 %.",
        ),
        ("occupancy", [metric_row(subject="mon"), metric_row(subject="tue")], "Occupancy: cannot tell for any day."),
        (
            "occupancy",
            [metric_row(subject="mon", value=0.5), metric_row(subject="tue", value=0.5)],
            "Occupancy of 2 days: 50.0 % for each.",
        ),
        (
            "occupancy",
            [metric_row(subject="mon", value=0.5), metric_row(subject="tue")],
            "Occupancy of 1 day: 50.0 %.",
        ),
    ],
)
def test_headline_of_a_metric(name: str, rows: list[dict[str, float | str | None]], text: str) -> None:
    assert metric.headline(BY_NAME[name], pl.DataFrame(rows), "day") == text


@pytest.mark.parametrize(
    ("arguments", "columns"),
    [
        *((verb, 80) for verb in ("show lost", "show runs", "verify", "verify --explain", "status", "doctor")),
        *(pytest.param(verb, 120, marks=pytest.mark.slow) for verb in ("verify", "status")),
        *(pytest.param(verb, 200, marks=pytest.mark.slow) for verb in ("verify --explain", "doctor")),
    ],
)  # questions at all widths: above
def test_no_line_of_the_process_is_wider(arguments: str, columns: int, root: Path) -> None:
    screen = trackside_in_terminal(*arguments.split(), "--warehouse", str(root), columns=columns)
    assert screen.status in {0, 3, 4}, screen.text
    lines = [line for line in screen.lines if not line.startswith("warehouse ")]  # a path is as long as it is
    assert max(map(width, lines)) <= columns
    assert len(lines) > 5


def test_the_answer_comes_first_and_the_rest_is_counted(root: Path) -> None:
    answer, shown = answer_of(root, "runs", "run")
    lines = answer_lines(answer, shown, Terminal(120, 50))
    assert lines[0] == answer.headline
    held = answer.rows.filter(pl.col("allocated") > 0).height
    assert lines[0].startswith(f"{held} runs held")
    assert held == answer.rows.height or f"({answer.rows.height - held} more held none)" in lines[0]
    assert f"{answer.rows.height - USUAL_ROWS} more: --all" in lines


def test_interruptions_stand_by_cost_with_users_cancels_last() -> None:
    rows = pl.DataFrame(
        [
            ("cancel", "user", "cancelled", 9e9, 10.0, 1),
            ("free", "user", "failed", 0.0, 10.0, 1),
            ("unknown", "user", "failed", None, 9e9, 512),
            ("broke", "infrastructure", "node_fail", 0.0, 10.0, 1),
            ("large", "infrastructure", "node_fail", None, 7200.0, 512),
            ("dear", "user", "failed", 3600.0, 10.0, 1),
        ],
        schema=["run_id", "class", "cause", "cost_gpu_s", "runtime_s", "n_gpus"],
        orient="row",
    )
    assert COSTLIEST.sorted(rows)["run_id"].to_list() == ["large", "dear", "broke", "free", "unknown", "cancel"]


@pytest.mark.parametrize("by", ["user", "day"])
def test_lost_is_a_row_a_subject_that_adds_up(by: str, root: Path) -> None:
    answer, _ = answer_of(root, "lost", by)
    assert answer.brief is not None
    brief = answer.brief.rows
    assert brief["subject"].is_unique().all()
    assert brief["gpu_hours"].sum() == pytest.approx(answer.rows["gpu_hours"].sum())
    costly = answer.rows.filter(pl.col("category").is_in(COSTLY))["gpu_hours"].sum()
    assert brief["cost"].sum() == pytest.approx(costly)
    assert brief["cost"].is_sorted(descending=True)


def test_a_pipe_gets_every_row_and_column_without_escapes(root: Path) -> None:
    answer, shown = answer_of(root, "runs", "run")
    lines = answer_lines(answer, shown, PIPE)
    table = lines[2:]
    assert all(heading in table[0] for heading, _ in answer.columns.values())
    assert answer.order is not None
    in_order = answer.order.sorted(answer.rows)["run_id"].to_list()
    assert [line.split()[0] for line in table[1 : answer.rows.height + 1]] == in_order
    assert not any("\x1b" in line for line in lines)
    done = trackside("show", "runs", "--warehouse", str(root), env={"COLUMNS": "80"})
    assert done.stdout.splitlines() == lines


def test_rows_and_columns_can_be_chosen_in_every_format(root: Path) -> None:
    where = ("--sort", "allocated:asc", "--limit", "3", "--columns", "run_id,GPU-h", "--warehouse", str(root))
    rows = json.loads(trackside("show", "runs", "--format", "json", *where).stdout)
    assert [list(row) for row in rows] == [["run_id", "allocated"]] * 3
    assert rows == sorted(rows, key=lambda row: row["allocated"])
    read = list(csv.DictReader(io.StringIO(trackside("show", "runs", "--format", "csv", *where).stdout)))
    assert [row["run_id"] for row in read] == [row["run_id"] for row in rows]
    shown = trackside_in_terminal("show", "runs", *where, columns=80).lines
    assert [line.split()[0] for line in shown if line.split()[:1] and line.split()[0] in {r["run_id"] for r in rows}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--columns", "nothing"), "there is no column 'nothing'; the columns are"),
        (("--sort", "nothing:asc"), "there is no column 'nothing'; the columns are"),
        (("--limit", "0"), "a number of rows, at least 1"),
        (("--limit", "3", "--all"), "--limit and --all exclude each other"),
    ],
)
def test_unknown_columns_and_numbers_are_refused(options: tuple[str, ...], message: str, root: Path) -> None:
    done = trackside("show", "runs", *options, "--warehouse", str(root))
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
def test_colours_can_be_switched_off(env: dict[str, str], root: Path) -> None:
    screen = trackside_in_terminal("show", "runs", "--warehouse", str(root), columns=80, env=env)
    assert screen.status == 0
    assert "COMPLETED" in screen.written
    assert "\x1b" not in screen.written


def test_answers_longer_than_the_screen_go_through_the_pager(root: Path) -> None:
    pager = f"{sys.executable} -c 'import sys; print(len(sys.stdin.readlines()), \"lines\")'"
    where = ("--warehouse", str(root))
    assert re.fullmatch(
        r"\d+ lines\n", trackside_in_terminal("show", "runs", *where, columns=80, lines=20, env={"PAGER": pager}).text
    )


def test_small_shares_are_put_together_and_add_up(root: Path) -> None:
    answer, _ = answer_of(root, "lost", "cause")
    assert answer.brief is not None
    other = answer.brief.rows.row(-1, named=True)
    small = answer.rows.filter(answer.rows["share"] < 0.001)
    assert other["category"] == f"other ({small.height})"
    assert other["gpu_hours"] == pytest.approx(small["gpu_hours"].sum())
    assert answer.brief.rows["gpu_hours"].sum() == pytest.approx(answer.rows["gpu_hours"].sum())


def test_statistics_are_left_to_explain(root: Path) -> None:
    shown = trackside_in_terminal("show", "mttf", "--warehouse", str(root), columns=200)
    explained = trackside_in_terminal("show", "mttf", "--explain", "--warehouse", str(root), columns=200)
    assert not re.search(r"\bb -?\d", shown.text)
    assert re.search(r"\bb -?\d", explained.text)
    assert max(map(width, explained.lines)) <= 200


def test_verify_prints_a_line_a_claim_and_the_file_to_start_from(root: Path) -> None:
    where = ("--warehouse", str(root))
    short, full = (trackside("verify", *more, *where).stdout for more in ((), ("--explain",)))
    assert short.splitlines()[0].startswith("7 claims: ")
    assert "refuted as read  goodput" in short
    assert "read as " not in short
    assert "  read as    In the period" in full
    printed = trackside("verify", "--print-claims").stdout
    assert 'id = "goodput"' in printed
    assert printed.startswith("#")


def test_a_pipe_lists_the_runs_that_a_terminal_lists(root: Path) -> None:
    answer, shown = answer_of(root, "runs", "run")
    most_held = answer.rows.sort("allocated", descending=True, nulls_last=True)["run_id"].head(3).to_list()
    limited = RowOptions(limit=3)
    for terminal in (Terminal(None), Terminal(120, 50)):
        lines = answer_lines(answer, shown, terminal, limited)
        assert [line.split()[0] for line in lines if line.split()[:1] and line.split()[0] in most_held] == most_held
