"""Names by users: nothing in them hides from a reader or is run by a spreadsheet, and data stay as they are."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from app import console
from app.claims.watched import WatchedClaims
from app.cli import main as cli
from app.compute import pipeline as computing
from app.config.settings import Config
from app.explorer import components
from app.explorer.application import Explorer, page
from app.results.serving.cache import AnswerCache
from app.service import exporter
from app.service.samples import ExportedSample as Exported
from app.service.samples import ExportedSamples
from app.visible import CONTROLS, visible
from dashboards.exported_metrics import FAMILIES
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from queries.warehouse import open_writer
from tests.support.warehouses import NOW

if TYPE_CHECKING:
    from pathlib import Path

MARKS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
"""Everything that turns the direction of writing."""

NAME = f"=x{MARKS}\u200b\ufeff"
SHOWN = visible(NAME)
HEADER = "JobIDRaw|DBIndex|Cluster|Submit|Eligible|Start|End|State|NodeList|AllocTRES|User|Account|JobName|Comment"
ROW = f"1|1|c|1790812800|1790812800|1790812900|1790850000|FAILED|n1|gres/gpu=8|{NAME}|{NAME}|{NAME}|run={NAME}"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "sacct.txt").write_text(f"{HEADER}\n{ROW}\n")
    with open_writer(folder / "w", verb="test", now=NOW) as writer:
        files = [str(folder / "sacct.txt")]
        reports = ingesting.ingest_files(
            writer, Config(), files, ingesting.Options(), now=NOW, progress=lambda *_: None
        )
        assert first_error(reports) is None
        computing.compute(writer, Config(), now=NOW)
    return folder / "w"


@given(st.text())
def test_what_is_shown_hides_nothing_and_changes_nothing_else(text: str) -> None:
    shown = visible(text)
    assert not set(shown) & (set(MARKS) | {chr(each) for each in CONTROLS} - {"\n", "\t"})
    assert visible(shown) == shown
    plain = "".join(each for each in text if unicodedata.category(each) not in {"Cc", "Cf", "Zl", "Zp"})
    assert visible(plain) == plain


def run(capsysbinary: pytest.CaptureFixture[bytes], root: Path, *arguments: str) -> str:
    capsysbinary.readouterr()
    status = cli.main([*arguments, "--warehouse", str(root)])
    output = capsysbinary.readouterr()
    assert status == 0, output.err
    return output.out.decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [("show", "runs"), ("show", "lost", "--by", "user"), ("show", "goodput", "--by", "user"),
     ("show", "ettr", "--by", "run", "--explain"), ("sql", "SELECT name, user FROM attempts"),
     ("export", "runs", "--format", "table")],
    ids=" ".join,
)  # fmt: skip
def test_tables_show_what_hides_in_a_name(
    arguments: tuple[str, ...], root: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    shown = run(capsysbinary, root, *arguments)
    assert SHOWN in shown
    assert not set(MARKS) & set(shown)


@pytest.mark.parametrize("what", ["json", "csv"])
def test_data_for_machines_are_as_they_were(what: str, root: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    text = run(capsysbinary, root, "export", "runs", "--format", what)
    rows = json.loads(text) if what == "json" else list(csv.DictReader(io.StringIO(text)))
    assert [row["user"] for row in rows] == [NAME]


@pytest.mark.slow
def test_a_spreadsheet_runs_no_cell_of_a_safe_file(root: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    sql = 'SELECT user AS "=u", -1.5 AS n, list_value(user) AS l FROM attempts'
    text = run(capsysbinary, root, "sql", sql, "--format", "csv", "--spreadsheet-safe")
    assert list(csv.reader(io.StringIO(text))) == [["'=u", "n", "l"], [f"'{NAME}", "-1.5", f"'{NAME}"]]


def test_only_csv_can_be_safe_for_spreadsheets(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["export", "runs", "--format", "json", "--spreadsheet-safe", "--warehouse", str(root)]
    assert cli.main(arguments) == 2
    assert "--spreadsheet-safe is for CSV" in capsys.readouterr().err


@given(st.lists(st.one_of(st.none(), st.text(alphabet="=+-@\t\r\n'\"a, ", max_size=4)), min_size=1))
def test_no_cell_of_a_safe_file_begins_like_a_formula(cells: list[str | None]) -> None:
    rows = pl.DataFrame({"a": cells, "b": [-1.0] * len(cells)}, schema={"a": pl.String, "b": pl.Float64})
    made = console._encoded(console._without_formulas(rows), "csv", None)  # noqa: SLF001 - what `write` writes
    read = pl.read_csv(made, schema={"a": pl.String, "b": pl.Float64})
    assert read["b"].to_list() == [-1.0] * len(cells)
    texts = read["a"].to_list()
    assert not any(text and text.startswith(("=", "+", "-", "@", "\t", "\r")) for text in texts)
    assert [(text or "").removeprefix("'") for text in texts] == [(cell or "").removeprefix("'") for cell in cells]


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/", "/runs", "/run"])
def test_pages_show_what_hides_in_a_name(path: str, root: Path) -> None:
    explorer = Explorer(AnswerCache(root), WatchedClaims(None))
    _, _, contents, title = page(explorer, path, "?id=1&by=user")
    texts = [*_texts(contents), title]
    assert not [text for text in texts if set(MARKS) & set(text)]
    assert path == "/" or any(SHOWN in text for text in texts)


def _texts(node: object) -> list[str]:
    """What a reader sees: texts of components, and of cells the text where there is one."""
    if isinstance(node, str):
        return [node]
    if isinstance(node, list | tuple):
        return [text for each in node for text in _texts(each)]
    cells = [
        str(row.get(f"{column['field']}__text", row[column["field"]]))
        for row in getattr(node, "rowData", None) or []
        for column in getattr(node, "columnDefs", ())
    ]
    return [*cells, *_texts(getattr(node, "children", None) or [])]


def test_addresses_and_values_of_a_page_stay_as_they_are() -> None:
    link = components.readable(components.link(NAME, f"/run?id={NAME}"))
    assert (link.children, link.href) == (SHOWN, f"/run?id={NAME}")


@pytest.mark.slow
def test_labels_of_metrics_show_what_hides_and_never_come_twice(root: Path) -> None:
    text = exporter.negotiated(AnswerCache(root), "", now=NOW)[0].decode()
    labels = [each.labels for family in text_string_to_metric_families(text) for each in family.samples]
    assert not set(MARKS) & set(text)
    assert any(each.get("user") == SHOWN for each in labels)
    both = [Exported(FAMILIES[0], (name,), value) for name, value in ((NAME, 1.0), (SHOWN, 2.0))]
    (family,) = ExportedSamples(both).collect()
    assert [(tuple(each.labels.values()), each.value) for each in family.samples] == [((SHOWN,), 1.0)]
