"""Writers note which tables and months they change: all of them, and only with the transaction that changes them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest

from queries import changes
from queries.changes import DAYLESS, WHOLE
from queries.errors import QueryError
from queries.warehouse import open_writer
from tests.support.warehouses import NOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from queries.writer import Writer


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    with open_writer(tmp_path / "w", verb="test", now=NOW) as opened:
        with opened.transaction():
            opened.append("ledger_days", ledger_days(8, 9, 10))
        yield opened


def ledger_days(*months: int, inputs: str = "x") -> pl.DataFrame:
    days = [date(2026, month, 3) for month in months]
    return pl.DataFrame({"cluster": "a", "day": days, "inputs": inputs, "computed_at": NOW})


def append_and_fail(writer: Writer) -> None:
    writer.append("ledger_days", ledger_days(9))
    writer.remove_partition("no_samples", "a", date(2026, 9, 3))


def noted(writer: Writer, change: Callable[[Writer], object]) -> dict[str, frozenset[str]]:
    """What a transaction notes, by table."""
    before = writer.data_version
    with writer.transaction():
        change(writer)
    known = changes.Changes.of(writer.meta(changes.FACT), writer.data_version)
    assert known.state(before) is not None
    return {table: months for table in known.versions if (months := known.since(before, table))}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "months"),
    [
        (lambda writer: writer.append("ledger_days", ledger_days(9)), {"2026-09"}),
        (lambda writer: writer.append("ledger_days", ledger_days(7, 10)), {"2026-07", "2026-10"}),
        (lambda writer: writer.delete("ledger_days", pl.DataFrame({"cluster": ["b"]})), set()),
        (lambda writer: writer.delete("ledger_days", pl.DataFrame({"day": [date(2026, 8, 3)]})), {"2026-08"}),
        (
            lambda writer: writer.delete("ledger_days", pl.DataFrame({"inputs": ["x", "y"]})),
            {"2026-08", "2026-09", "2026-10"},
        ),
        (
            lambda writer: writer.replace("ledger_days", ledger_days(11), keys=["cluster"]),
            {WHOLE, "2026-11"},  # a cluster's rows, of whatever time
        ),
        (
            lambda writer: writer.bring_in_line(
                "ledger_days", ledger_days(8, 9, 11), key=pl.DataFrame({"cluster": ["a"]})
            ),
            {"2026-10", "2026-11"},
        ),
        (
            lambda writer: writer.append_new("ledger_days", ledger_days(9, 12), keys=["cluster", "day"]),
            {"2026-09", "2026-12"},
        ),
        (
            lambda writer: writer.run(
                "delete_day_sums", cluster="a", since=None, until=datetime(2026, 9, 1, tzinfo=UTC)
            ),
            set(),
        ),
    ],
)
def test_change_is_noted_by_month(writer: Writer, change: Callable[[Writer], object], months: set[str]) -> None:
    assert noted(writer, change) == ({"main.ledger_days": months} if months else {})


def test_table_without_times_is_noted_whole(writer: Writer) -> None:
    found = noted(writer, lambda each: each.append("node_lists", pl.DataFrame({"node_list": ["n"], "nodes": [["n"]]})))
    assert found == {"main.node_lists": {WHOLE}}


def test_row_without_its_time_is_noted() -> None:
    rows = ledger_days(9).with_columns(day=pl.lit(None, dtype=pl.Date))
    assert changes.months_of(rows, "day") == changes.months_of(rows.drop("day"), "day") == [DAYLESS]


@pytest.mark.parametrize(
    ("times", "months"),
    [
        (pl.Series(["2026-09-01"]), [WHOLE]),
        (pl.Series([datetime(2026, 9, 30, 23, tzinfo=UTC)]).dt.convert_time_zone("Asia/Tokyo"), ["2026-09"]),
        (pl.Series([date(2026, 12, 31), date(2027, 1, 1), None]), ["2026-12", "2027-01", DAYLESS]),
        (pl.Series([None], dtype=pl.Datetime("us", "UTC")), [DAYLESS]),
    ],
)
def test_month_of_a_time_is_that_of_utc(times: pl.Series, months: list[str]) -> None:
    assert changes.months_of(pl.DataFrame({"t": times}), "t") == months


def test_failed_transaction_notes_nothing(writer: Writer) -> None:
    before = writer.meta(changes.FACT)
    with pytest.raises(QueryError):
        noted(writer, append_and_fail)
    assert writer.meta(changes.FACT) == before
    assert noted(writer, lambda _: None) == {}


def test_nothing_is_known_after_another_trackside(writer: Writer) -> None:
    version = writer.data_version
    assert changes.Changes.of(writer.meta(changes.FACT), version).state(version) is not None
    assert changes.Changes.of(writer.meta(changes.FACT), version + 1).state(version) is None


def test_states_are_kept_for_some_transactions(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queries.changes._STATES_KEPT", 2)
    first = writer.data_version
    for _ in range(2):
        with writer.transaction():
            pass
    known = changes.Changes.of(writer.meta(changes.FACT), writer.data_version)
    assert known.state(first) is None
    assert known.state(writer.data_version) is not None
