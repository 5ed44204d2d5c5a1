"""The guides for a verb, a question, a page and a board: the one file of each is written to a copy, and works."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.guides import copied_packages, run_python, written_files
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from pathlib import Path

PAGE = """
import sys
from pathlib import Path
from app.claims.watched import WatchedClaims
from app.explorer.application import Explorer, page
from app.results.serving.cache import AnswerCache
explorer = Explorer(AnswerCache(Path(sys.argv[1])), WatchedClaims(None))
navigation, filters, contents, title = page(explorer, "/clusters", "")
assert "Clusters (this page)" in str(navigation.to_plotly_json()), navigation
assert "tiny" in str(contents.to_plotly_json()), contents
assert title.startswith("Clusters"), title
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages in which somebody has followed the four guides."""
    root = copied_packages(tmp_path_factory.mktemp("checkout"))
    for guide, shown in {"verb": 1, "question": 1, "page": 2, "board": 1}.items():
        assert len(written_files(root, guide)) == shown, "one file for each verb, question, page or board"
    return root


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(from_accounting(tmp_path_factory.mktemp("one_file"), jobs=40))


@pytest.mark.slow
def test_guide_verb_runs_and_is_listed(checkout: Path, warehouse: str) -> None:
    assert "list the clusters that data are loaded of" in run_python(checkout, "-m", "app.cli.main", "--help")
    assert run_python(checkout, "-m", "app.cli.main", "clusters", "--warehouse", warehouse) == "tiny\n"


@pytest.mark.slow
def test_guide_question_answers_and_is_listed(checkout: Path, warehouse: str) -> None:
    show = ("-m", "app.cli.main", "show")
    assert "attempts of each partition" in run_python(checkout, *show, "--help")
    rows = json.loads(run_python(checkout, *show, "partitions", "--format", "json", "--warehouse", warehouse))
    assert sum(row["attempts"] for row in rows) >= 40
    documented = run_python(checkout, "-c", "from app.api import Warehouse; print(Warehouse.partitions.__doc__)")
    assert "Attempts of each partition." in documented


@pytest.mark.slow
def test_guide_page_is_shown_and_listed(checkout: Path, warehouse: str) -> None:
    run_python(checkout, "-c", PAGE, warehouse)


@pytest.mark.slow
def test_guide_board_is_built(checkout: Path, tmp_path: Path) -> None:
    run_python(checkout, "-m", "app.cli.main", "dashboards", "build", "--dir", str(tmp_path))
    assert json.loads((tmp_path / "boards" / "copy.json").read_text("utf-8"))["title"] == "Copy"
