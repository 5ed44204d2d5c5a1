"""The list of runs of a large cluster: what is not shown is not made."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest
from plotly.utils import PlotlyJSONEncoder
from polars.testing import assert_frame_equal

from app.errors import UsageError
from app.explorer.filters import ClusterState, Situation, View
from app.explorer.pages import runs
from app.show.answer import Question
from app.show.questions.runs.runs import runs as runs_of
from app.window import Window
from queries.warehouse import open_reader
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 1, tzinfo=UTC)
COUNT = runs.ROWS + 300


def view(**params: str) -> View:
    window = Window("c", NOW - timedelta(days=1), NOW)
    known = ClusterState("c", window.since, window.until, NOW, 0, ((window.since, window.until),))
    return View(window, known, Situation(("c",), (known,)), params, window)


def rows() -> pl.DataFrame:
    number = pl.int_range(COUNT, eager=True)
    text = {name: pl.Series(["x"] * COUNT) for name in ("name", "user", "account", "partition", "state")}
    counts = dict.fromkeys(("n_gpus", "n_attempts", "allocated", "ettr_low", "ettr_high"), number)
    times = {name: pl.Series([NOW] * COUNT) for name in ("started_at", "ended_at")}
    return pl.DataFrame({"run_id": number.cast(pl.String), **text, **counts, **times})


def test_links_are_made_of_the_rows_shown_only(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    link = View.link

    def counted(self: View, path: str, **params: str) -> str:
        made.append(path)
        return link(self, path, **params)

    monkeypatch.setattr(View, "link", counted)
    page = json.dumps(runs.layout(runs.listed(rows(), runs.run_filter_of(view())), view()), cls=PlotlyJSONEncoder)
    assert made.count("/run") == runs.ROWS
    assert f"1 to {runs.ROWS:,} of {COUNT:,}" in page
    assert f"skip={runs.ROWS}" in page
    assert f"{COUNT:,} runs" in page


def test_a_filter_finds_a_run_beyond_the_rows_shown() -> None:
    last = str(COUNT - 1)
    page = json.dumps(
        runs.layout(runs.listed(rows(), runs.run_filter_of(view(q=last))), view(q=last)), cls=PlotlyJSONEncoder
    )
    assert f"id={last}" in page
    assert f"1 of {COUNT:,} runs" in page


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_accounting(tmp_path_factory.mktemp("runs"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "params",
    [
        *({}, {"q": "TRAIN"}, {"user": "user1", "state": "FAILED"}, {"state": "COMPLETED"}, {"q": "nothing"}),
        *({"sort": sort} for sort in runs.ORDERS),
        *({"sort": sort, "skip": "20"} for sort in runs.ORDERS),
    ],
    ids=str,
)
def test_stored_list_equals_the_computed_one(computed: Path, params: dict[str, str]) -> None:
    with open_reader(computed) as reader:
        known = reader.query("computed", cluster="tiny").row(0, named=True)
        window, wanted = Window("tiny", known["since"], known["until"]), runs.run_filter_of(view(**params))
        order = runs.order_of(view(**params))
        stored = runs.gather(reader, window, wanted, order)
        answer = runs.listed(runs_of(reader, window, Question()).rows, wanted, order)
        columns = list(stored.rows.columns)
        assert_frame_equal(stored.rows, answer.rows.select(columns), check_exact=True)
        assert (stored.matching, stored.total, stored.choices) == (answer.matching, answer.total, answer.choices)
        assert stored.total > 50
        assert "ettr_low" in columns
        half = Window("tiny", known["since"], known["since"] + (known["until"] - known["since"]) / 2)
        assert runs.gather(reader, half, wanted).total < stored.total


@pytest.mark.slow
def test_list_is_narrowed_by_what_an_attempt_ran_on(computed: Path) -> None:
    with open_reader(computed) as reader:
        known = reader.query("computed", cluster="tiny").row(0, named=True)
        stored = Window("tiny", known["since"], known["until"])
        longer = Window("tiny", known["since"], known["until"] + timedelta(seconds=1))
        attempts = reader.query("run_choices", **stored.parameters)
        (model,) = attempts.filter(pl.col("name") == "gpu_model")["value"].drop_nulls()
        for window in (stored, longer):
            for params, share in (
                *(({"gpu_model": model, "scheduler": "slurm"}, 1), ({"gpu_model": model, "scheduler": "other"}, 0)),
                *(({"gpu_model": "other"}, 0), ({"scheduler": "slurm"}, 1)),
            ):
                found = runs.gather(reader, window, runs.run_filter_of(view(**params)))
                assert (found.matching, found.rows.height) == (found.total * share, found.total * share)
        assert set(found.choices) == set(runs.FILTERS)


@pytest.mark.parametrize("params", [{"sort": "colour"}, {"skip": "-1"}, {"skip": "many"}, {"skip": "9" * 30}], ids=str)
def test_a_part_of_the_list_that_makes_no_sense_is_refused(params: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=next(iter(params))):
        runs.order_of(view(**params))
