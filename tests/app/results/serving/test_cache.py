"""What is asked is worked out once, is forgotten when its data are gone, and claims are those of the file as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.results.serving.cache import AnswerCache
from app.results.source import CachedSource
from queries.errors import NoWarehouseError
from queries.warehouse import open_writer
from tests.support.sources import KeepsNothing
from tests.support.warehouses import NOW, from_accounting

if TYPE_CHECKING:
    from pathlib import Path

    from queries.warehouse import Reader


def version_of(reader: Reader, _: int = 0) -> int:
    return reader.data_version


def publish(root: Path) -> None:
    """The same data as a newer version."""
    with open_writer(root, verb="test", now=NOW) as writer, writer.transaction():
        writer.delete("verdicts", pl.DataFrame({"cluster": ["nobody's"]}))


@pytest.mark.slow
def test_answers_of_data_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    root = from_accounting(tmp_path, jobs=5)
    answers = AnswerCache(root)
    before = {answers.ask(version_of, number) for number in range(5)}
    assert len(answers) == 5
    publish(root)
    assert answers.ask(version_of) not in before
    assert len(answers) == 1


@pytest.mark.slow
def test_the_same_question_is_worked_out_once(tmp_path: Path) -> None:
    asked = []

    def question(reader: Reader, number: int) -> int:
        asked.append(number)
        return reader.data_version

    answers = AnswerCache(from_accounting(tmp_path, jobs=5))
    assert answers.ask(question, 1) == answers.ask(question, 1) == answers.ask(question, 2)
    assert asked == [1, 2]


def test_without_a_warehouse_nothing_is_answered(tmp_path: Path) -> None:
    with pytest.raises(NoWarehouseError, match="trackside ingest"):
        AnswerCache(tmp_path / "none").ask(version_of)


class Counted(KeepsNothing):
    asked = 0

    def query(self, name: str, **params: object) -> pl.DataFrame:  # noqa: ARG002 - a source's own names
        self.asked += 1
        return pl.DataFrame({"asked": [self.asked]})


def test_a_source_that_remembers_reads_each_query_once() -> None:
    source = Counted()
    once = CachedSource(source)
    first = once.query("rows", cluster="a", since=None)
    assert once.query("rows", since=None, cluster="a") is first
    assert once.query("rows", cluster="b", since=None)["asked"].item() == source.asked == 2


def test_rows_that_are_kept_come_in_place_of_any_others() -> None:
    source, rows = Counted(), pl.DataFrame({"asked": [0]})
    once = CachedSource(source, only=["read"])
    for name in ("read", "never_cached"):
        once.query(name, cluster="a")
        once.keep(name, rows, cluster="a")
        assert once.query(name, cluster="a") is rows
    assert source.asked == 2
    assert once.query("read", cluster="b")["asked"].item() == 3
