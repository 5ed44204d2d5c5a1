"""What is asked is worked out once, is forgotten when its data are gone, and claims are those of the file as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.errors import ClaimsError
from app.results.cache import Answers, Claims
from app.results.source import Remembered
from queries.errors import NoWarehouseError
from queries.warehouse import open_writer
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


def test_answers_of_data_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    root = from_accounting(tmp_path, jobs=5)
    answers = Answers(root)
    before = {answers.ask(version_of, number) for number in range(5)}
    assert len(answers._kept) == 5  # noqa: SLF001 - what memory holds is what this is about
    publish(root)
    assert answers.ask(version_of) not in before
    assert len(answers._kept) == 1  # noqa: SLF001 - as above


def test_the_same_question_is_worked_out_once(tmp_path: Path) -> None:
    asked = []

    def question(reader: Reader, number: int) -> int:
        asked.append(number)
        return reader.data_version

    answers = Answers(from_accounting(tmp_path, jobs=5))
    assert answers.ask(question, 1) == answers.ask(question, 1) == answers.ask(question, 2)
    assert asked == [1, 2]


def test_without_a_warehouse_nothing_is_answered(tmp_path: Path) -> None:
    with pytest.raises(NoWarehouseError, match="trackside ingest"):
        Answers(tmp_path / "none").ask(version_of)


def test_a_source_that_remembers_reads_each_query_once() -> None:
    class Counted:
        asked = 0

        def query(self, name: str, **params: object) -> pl.DataFrame:  # noqa: ARG002 - a source's own names
            self.asked += 1
            return pl.DataFrame({"asked": [self.asked]})

    source = Counted()
    once = Remembered(source)
    first = once.query("rows", cluster="a", since=None)
    assert once.query("rows", since=None, cluster="a") is first
    assert once.query("rows", cluster="b", since=None)["asked"].item() == source.asked == 2


def claims_file(path: Path, target: float) -> Path:
    path.write_text(
        f'[[claim]]\nid = "o"\nmetric = "occupancy"\nquoted = "q"\nread_as = "r"\nkind = "delivered"\n'
        f'target = {target}\ndirection = "at_least"\n'
    )
    return path


def targets(claims: Claims) -> list[float]:
    return [claim.target for claim in claims.now()]


def test_claims_are_those_of_the_file_as_it_is_now(tmp_path: Path) -> None:
    file = claims_file(tmp_path / "claims.toml", 0.5)
    claims = Claims(file)
    assert targets(claims) == [0.5]
    claims_file(file, 0.25)
    assert targets(claims) == [0.25]
    assert claims.mistakes() is None


@pytest.mark.parametrize("broken", ["[[claim]]", "no TOML", None])
def test_mistakes_in_the_claims_file_are_told_and_the_claims_before_them_stay(
    tmp_path: Path, broken: str | None
) -> None:
    file = claims_file(tmp_path / "claims.toml", 0.5)
    claims = Claims(file)
    if broken is None:
        file.unlink()
    else:
        file.write_text(broken)
    assert str(file) in str(claims.mistakes())
    assert targets(claims) == [0.5]
    claims_file(file, 0.125)
    assert claims.mistakes() is None
    assert targets(claims) == [0.125]


def test_a_claims_file_with_mistakes_is_refused_to_begin_with(tmp_path: Path) -> None:
    (tmp_path / "claims.toml").write_text("[[claim]]")
    with pytest.raises(ClaimsError):
        Claims(tmp_path / "claims.toml")


def test_without_a_file_the_vendors_claims_are_judged() -> None:
    assert len(Claims(None).now()) > 3
    assert Claims(None).mistakes() is None
