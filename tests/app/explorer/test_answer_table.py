"""Tables and figures of answers: widths, links, words in place of boxes and of names in code."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import polars as pl

from app.explorer import components, filters, questions
from app.explorer.answer_table import CAUSES, LETTER, WIDEST, answer_table, width_of
from app.explorer.charts.question_figures import bars, lead_to
from app.explorer.filters import ClusterState, Situation
from app.show.answer import Answer
from dashboards import palette

END = datetime(2026, 11, 1, tzinfo=UTC)
STATE = ClusterState("c", datetime(2026, 9, 1, tzinfo=UTC), END, END, 0, ())
VIEW = filters.resolve(Situation(("c",), (STATE,), 1), {"category": "lost", "cause": "ecc"})


def test_a_rare_short_text_is_shown_whole() -> None:
    texts = ["cannot tell"] * 200 + ["save less often"]
    assert width_of("advice", texts) >= LETTER * len("save less often")


def test_a_long_note_takes_a_wider_column() -> None:
    assert width_of("note", ["x" * 60] * 3) == WIDEST
    assert 2 * WIDEST < width_of("note", ["x" * 180] * 3) < width_of("note", ["x" * 900] * 3) == 3 * WIDEST


def test_sentences_out_of_sight_make_no_row_high() -> None:
    sentence, names = "x" * 120, [f"n{number}" for number in range(12)]
    rows = pl.DataFrame({"seen": [sentence], **{name: ["a text of twenty l."] for name in names}, "unseen": [sentence]})
    columns = {name: (name, "text") for name in rows.columns}
    first, *_, last = answer_table(rows, columns, VIEW, name="x", dimension="run").columnDefs  # type: ignore[attr-defined]  # of AG Grid
    assert first["minWidth"] < LETTER * len(sentence) < last["minWidth"]


def test_a_metric_is_shown_by_its_title() -> None:
    rows = pl.DataFrame({"metric": ["goodput_allocated", "no such", None]})
    made: Any = answer_table(rows, {"metric": ("metric", "text")}, VIEW, name="x", dimension="cluster")
    assert [each["c_metric__text"] for each in made.rowData] == ["Goodput (of allocated)", "no such", "-"]
    assert made.rowData[0]["c_metric"] == "goodput_allocated"


def test_a_number_of_nodes_is_a_number_and_no_link() -> None:
    rows = pl.DataFrame({"block": ["b1"], "nodes": [16]})
    columns = {"block": ("block", "text"), "nodes": ("nodes", "count")}
    made: Any = answer_table(rows, columns, VIEW, name="x", dimension="block")
    assert made.columnDefs[1]["cellClass"] == "asks ag-right-aligned-cell"
    assert "c_nodes__href" not in made.rowData[0]


def test_a_node_takes_along_what_led_to_it() -> None:
    rows = pl.DataFrame({"node": ["n1"], "user": ["ada"]})
    columns = {"node": ("node", "text"), "user": ("user", "text")}
    made: Any = answer_table(rows, columns, VIEW, name="x", dimension="run")
    (cells,) = made.rowData
    assert cells["c_node__href"] == "/node?category=lost&cause=ecc&node=n1"
    assert cells["c_user__href"] == "/jobs?user=ada"


def test_a_cause_leads_to_its_lost_time_of_that_category() -> None:
    rows = pl.DataFrame({"category": ["lost", None], "cause": ["ecc", None]})
    columns = {name: (name, "text") for name in rows.columns}
    made: Any = answer_table(rows, columns, VIEW, name="x", dimension="cause", leads=CAUSES)
    known, unknown = made.rowData
    assert known["c_cause__href"] == "/gpu-time?category=lost&cause=ecc"
    assert "c_cause__href" not in unknown
    plain: Any = answer_table(rows, columns, VIEW, name="x", dimension="cause")
    assert "c_cause__href" not in plain.rowData[0]


def test_a_saved_file_has_the_units_in_its_headings() -> None:
    rows = pl.DataFrame({"interval_s": [90.0], "cost": [3600.0], "n": [1]})
    columns = {"interval_s": ("every", "seconds"), "cost": ("cost GPU-h", "gpu_h"), "n": ("runs", "count")}
    made: Any = answer_table(rows, columns, VIEW, name="x", dimension="run")
    assert [each["context"].get("unit") for each in made.columnDefs] == ["s", None, None]
    grid: Any = components.grid(rows, [components.column("interval_s", "Every", "seconds")], name="y")
    assert grid.children[0].columnDefs[0]["context"]["unit"] == "s"


def test_a_category_has_the_word_and_colour_of_the_overview() -> None:
    rows = pl.DataFrame({"category": ["pending_demand"]})
    made: Any = answer_table(rows, {"category": ("category", "text")}, VIEW, name="x", dimension="cause")
    (cells,) = made.rowData
    assert cells["c_category__text"] == "Idle, work waiting"
    assert made.columnDefs[0]["cellRendererParams"] == {"swatch": "c_category__colour"}
    assert cells["c_category__colour"] == palette.swatch("pending_demand").colour


def test_an_empty_note_takes_no_column() -> None:
    rows = pl.DataFrame(
        {"node": ["n1"], "note": [None], "action": ["drain it"], "n": [1]}, schema_overrides={"note": pl.String}
    )
    columns = {"node": ("node", "text"), "n": ("n", "count"), "note": ("note", "text"), "action": ("action", "text")}
    answer = Answer("x", rows, columns, explained=("action",))
    assert list(questions._columns(answer, set())) == ["node", "action", "n"]  # noqa: SLF001 - panels have much more
    told = replace(answer, rows=rows.with_columns(note=pl.lit("few")))
    assert list(questions._columns(told, set())) == ["node", "action", "n", "note"]  # noqa: SLF001 - as above


def test_bars_lead_to_what_they_stand_for() -> None:
    rows = pl.DataFrame({"node": ["n1", "n2"], "gpu_s": [3600.0, 1800.0]})
    made = bars("gpu_s", "GPU-hours", scale=3600)(rows, "node")
    assert made is not None
    assert lead_to(made, {"n1": "/node?node=n1"})
    assert list(made.data[0].customdata) == [None, "/node?node=n1"]  # the largest is drawn last
    assert not lead_to(made, {})


def test_yes_and_no_are_words_and_no_boxes_to_tick() -> None:
    made: Any = components.table_of([{"field": "a", "headerName": "A"}], [{"a": True}], name="x", height=None)
    assert made.defaultColDef["cellDataType"] is False


def test_bars_are_named_in_words_in_short_lines() -> None:
    words = ["standing still", "done in a quarter of <b>the</b> time limit"]
    rows = pl.DataFrame({"kind": ["idle", "short"], "title": words, "gpu_s": [3600.0, 1800.0]})
    made = bars("gpu_s", "GPU-hours", scale=3600, words="title")(rows, "kind")
    assert made is not None
    assert list(made.data[0].y) == ["done in a quarter of<br>&lt;b&gt;the&lt;/b&gt; time limit", "standing still"]
    unworded = bars("gpu_s", "GPU-hours")(rows, "kind")
    assert unworded is not None
    assert list(unworded.data[0].y) == ["short", "idle"]


def test_a_cause_is_shown_in_words_and_saved_by_name() -> None:
    rows = pl.DataFrame({"cause": ["node_fail", "ib", None], "user": ["a_b", "a_b", "a_b"]})
    columns = {"cause": ("cause", "text"), "user": ("user", "text")}
    made: Any = answer_table(rows, columns, VIEW, name="x", dimension="run")
    assert [each["c_cause__text"] for each in made.rowData] == ["node fail", "InfiniBand", "-"]
    assert [each["c_cause"] for each in made.rowData] == ["node_fail", "ib", None]
    assert made.rowData[0]["c_user__text"] == "a_b"


def test_a_rare_long_text_takes_no_room_from_short_ones() -> None:
    assert width_of("run", ["job 1"] * 200 + ["pretrain-70b", "x" * 60]) >= LETTER * len("pretrain-70b")


def test_notes_that_a_page_has_already_are_left_out() -> None:
    answer = Answer("t", pl.DataFrame({"n": [1]}), {"n": ("n", "count")}, notes=("a note",))
    shown = questions.Shown(answer, by="cause", splits=("cause",), total=1, narrowed=False, beside=())
    said = [str(questions.panel(questions.QuestionSpec("lost", notes=notes), shown, VIEW)) for notes in (True, False)]
    assert ["a note" in each for each in said] == [True, False]
