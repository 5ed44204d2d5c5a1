"""`import trackside`: the rows of `show` as frames, and the manual's page and notebook about it."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import trackside
from app import api
from app.api import QUESTIONS
from tests.support import command
from tests.support.warehouses import from_accounting

PAGES = Path(__file__).parents[2] / "app" / "docs" / "how-to"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_accounting(tmp_path_factory.mktemp("api"))


@pytest.fixture(scope="module")
def warehouse(folder: Path) -> trackside.Warehouse:
    return trackside.open(folder)


def shown(folder: Path, file: Path, *arguments: str) -> pl.DataFrame | str:
    """The rows of `trackside show`, or the message of its refusal."""
    done = command.trackside("show", *arguments, "--warehouse", str(folder), "-o", str(file))
    if done.returncode:
        return done.stderr.removeprefix("trackside: ").rstrip("\n")
    return pl.read_parquet(file)


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_method_returns_the_rows_of_show(
    question: str, folder: Path, warehouse: trackside.Warehouse, tmp_path: Path
) -> None:
    expected = shown(folder, tmp_path / "rows.parquet", question, "--since", "4d")
    if isinstance(expected, str):
        with pytest.raises(trackside.errors.UsageError, match=re.escape(expected)):
            getattr(warehouse, question)(since="4d")
    else:
        assert_frame_equal(getattr(warehouse, question)(since="4d"), expected)


@pytest.mark.slow
@pytest.mark.parametrize(("question", "by"), [(name, by) for name in QUESTIONS for by in api.QUESTIONS[name].splits])
def test_every_listed_split_is_taken(question: str, by: str, warehouse: trackside.Warehouse) -> None:
    refusal = ""
    try:
        getattr(warehouse, question)(by=by)
    except trackside.errors.UsageError as error:  # of a source that this warehouse lacks, or a run that is not given
        refusal = str(error)
    assert "it takes" not in refusal


@pytest.mark.slow
def test_options_of_some_questions(folder: Path, warehouse: trackside.Warehouse, tmp_path: Path) -> None:
    run = warehouse.runs()["run_id"][0]
    one = shown(folder, tmp_path / "run.parquet", "interruptions", "--run", run)
    assert isinstance(one, pl.DataFrame)
    assert_frame_equal(warehouse.interruptions(run=run), one)
    large = shown(folder, tmp_path / "large.parquet", "mttf", "--at", "8192", "--by", "law")
    assert isinstance(large, pl.DataFrame)
    assert_frame_equal(warehouse.mttf(at=8192, by="law"), large)
    assert not warehouse.mttf(by="law").equals(large)


def test_metric_returns_the_rows_of_show(folder: Path, warehouse: trackside.Warehouse, tmp_path: Path) -> None:
    by_user = shown(folder, tmp_path / "rows.parquet", "goodput_allocated", "--by", "user")
    assert isinstance(by_user, pl.DataFrame)
    assert_frame_equal(warehouse.metric("goodput_allocated", by="user"), by_user)
    assert by_user["subject"].n_unique() > 1


@pytest.mark.slow
def test_times_may_be_dates(warehouse: trackside.Warehouse) -> None:
    by_text = warehouse.lost(since="2026-10-02", until="2026-10-03")
    assert_frame_equal(warehouse.lost(since=date(2026, 10, 2), until=date(2026, 10, 3)), by_text)
    noon = datetime(2026, 10, 2, 12, tzinfo=UTC)
    assert_frame_equal(warehouse.lost(since=noon), warehouse.lost(since="2026-10-02T12:00Z"))


def test_answer_has_what_rows_lack(warehouse: trackside.Warehouse) -> None:
    answer = warehouse.ask("goodput")
    assert answer.title == "Goodput"
    assert any("at least / at most" in note for note in answer.notes)
    assert_frame_equal(answer.rows, warehouse.goodput())


def test_explain_is_that_of_show(folder: Path, warehouse: trackside.Warehouse) -> None:
    done = command.trackside("show", "lost", "--explain", "--format", "json", "--warehouse", str(folder))
    expected = json.loads(done.stdout)["explain"]
    explained = json.loads(json.dumps(warehouse.explain("lost"), default=str))
    assert explained.keys() == expected.keys()
    assert explained["metrics"] == expected["metrics"]
    assert explained["sql"] == expected["sql"]


@pytest.mark.slow
def test_sql_runs_in_the_sandbox(warehouse: trackside.Warehouse) -> None:
    assert warehouse.sql("SELECT count(*) AS n FROM attempts").item() >= 120
    with pytest.raises(trackside.errors.QueryError):
        warehouse.sql("SELECT * FROM read_csv('/etc/passwd')")


@pytest.mark.slow
def test_cut_sql_result_warns(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "trackside.toml").write_text("[sql]\nrows = 3\n")
    warehouse = trackside.open(folder, config=tmp_path / "trackside.toml")
    with pytest.warns(trackside.TracksideWarning, match="only the first 3 rows"):
        assert warehouse.sql("SELECT * FROM attempts").height == 3


def test_gap_in_the_data_warns(warehouse: trackside.Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(trackside.TracksideWarning, match="the data cover") as warned:
        warehouse.lost(since="2026-09-01")
    assert warned[0].filename == __file__
    assert capsys.readouterr().err == ""


def test_errors_name_what_is_possible(warehouse: trackside.Warehouse, tmp_path: Path) -> None:
    with pytest.raises(trackside.errors.UsageError, match="goodput cannot be split by 'hour'; by takes: cluster, day"):
        warehouse.goodput(by="hour")  # type: ignore[arg-type]  # refused
    with pytest.raises(trackside.errors.UsageError, match=r"there is no question 'fast'; there are: .*goodput"):
        warehouse.ask("fast")
    with pytest.raises(trackside.errors.UsageError, match="no cluster 'other'; there are: tiny"):
        warehouse.lost(cluster="other")
    with pytest.raises(TypeError, match="unexpected keyword argument 'run'"):
        warehouse.lost(run="1")  # type: ignore[call-arg]  # refused
    with pytest.raises(trackside.errors.NoWarehouseError):
        trackside.open(tmp_path)


def test_methods_are_documented(warehouse: trackside.Warehouse) -> None:
    for question in warehouse.questions:
        method = getattr(trackside.Warehouse, question)
        assert method.__doc__.splitlines()[0].endswith(".")
        assert set(api.signature_of(api.QUESTIONS[question]).parameters) >= {"self", "cluster", "since", "until"}


@pytest.fixture
def demo_folder(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current directory where the demo's warehouse is."""
    (tmp_path / "trackside-demo").mkdir()
    (tmp_path / "trackside-demo" / "warehouse").symlink_to(folder)
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::app.api.TracksideWarning")  # this warehouse covers fewer days than the demo's
@pytest.mark.usefixtures("demo_folder")
def test_page_runs() -> None:
    page = (PAGES / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "python.md", "exec"), names)
    assert isinstance(names["by_category"], pl.DataFrame)
    weekly = names["weekly"]
    assert isinstance(weekly, pl.DataFrame)
    assert 0 <= weekly.item() <= 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::app.api.TracksideWarning")  # this warehouse covers fewer days than the demo's
@pytest.mark.usefixtures("demo_folder")
def test_notebook_runs() -> None:
    """Its code cells, in order; nbclient would need a Jupyter kernel, some twenty packages, for the same."""
    notebook = json.loads((PAGES / "trackside.ipynb").read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
            assert cell["outputs"] == []
    assert isinstance(names["daily"], pl.DataFrame)
    assert names["daily"].height > 1
