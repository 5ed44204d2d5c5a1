"""Answers are the same to the last bit whatever the order in which DuckDB gives the rows of the ledger's sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from polars.testing import assert_frame_equal

from app.show.answer import Question
from app.show.questions.nodes.nodes import nodes
from app.window import Window
from queries.warehouse import Reader, open_reader
from tests.support.warehouses import from_everything

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

ORDERS = range(2)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with open_reader(from_everything(tmp_path_factory.mktemp("any_order"))) as opened:
        yield opened


@pytest.fixture
def window(reader: Reader) -> Window:
    cluster = str(reader.table("attempts")["cluster"][0])
    computed = reader.query("computed", cluster=cluster).row(0, named=True)
    return Window(cluster, computed["since"], computed["until"])


def reorder(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Have the ledger's sums come in another order."""
    whole = Reader.query

    def query(self: Reader, name: str, **parameters: object) -> pl.DataFrame:
        rows = whole(self, name, **parameters)
        return rows.sample(fraction=1, shuffle=True, seed=seed) if name.startswith("ledger_sums") else rows

    monkeypatch.setattr(Reader, "query", query)


@pytest.mark.slow
@pytest.mark.parametrize("seed", ORDERS)
def test_nodes(reader: Reader, window: Window, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    expected = nodes(reader, window, Question()).rows
    reorder(monkeypatch, seed)
    assert_frame_equal(nodes(reader, window, Question()).rows, expected, check_exact=True)
