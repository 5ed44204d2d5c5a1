"""Rows of a table that are brought in line with others: they become those, and only the difference is written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from queries import table_writer as writing
from queries.table_writer import ROW_GROUP
from queries.warehouse import Writer, open_writer

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = datetime(2026, 11, 22, tzinfo=UTC)
KEY = pl.DataFrame({"cluster": ["c"]})

ACCOUNTS = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from([None, "llm", "ops"]), max_size=8)


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    with open_writer(tmp_path_factory.mktemp("w"), verb="t", now=NOW) as opened:
        yield opened


def users(accounts: dict[str, str | None], *, cluster: str = "c") -> pl.DataFrame:
    schema = {"user": pl.String, "association": pl.String}
    return pl.DataFrame({"user": list(accounts), "association": list(accounts.values())}, schema=schema).with_columns(
        cluster=pl.lit(cluster), account=pl.lit("llm")
    )


@settings(max_examples=25, deadline=None)
@given(before=ACCOUNTS, after=ACCOUNTS, many=st.booleans())
def test_rows_become_those_and_only_the_difference_is_written(
    writer: Writer, before: dict[str, str | None], after: dict[str, str | None], *, many: bool
) -> None:
    others = users({"a": "llm"}, cluster="other")
    with pytest.MonkeyPatch.context() as patch, writer.transaction():
        patch.setattr(writing, "ROW_GROUP", 2 if many else ROW_GROUP)
        writer.delete("users", KEY)
        writer.replace("users", others, keys=["cluster"])
        writer.append("users", users(before))
        written = writer.bring_in_line("users", users(after).reverse(), key=KEY)
    expected = pl.concat([users(after), others])
    stored = writer.table("users").select(expected.columns)
    assert_frame_equal(stored, expected, check_row_order=False)
    same = before.items() & after.items()
    kept = same if 2 * len(same) >= len(before) else set()
    assert written == len(after) - len(kept)


@settings(max_examples=25, deadline=None)
@given(before=ACCOUNTS, after=ACCOUNTS, some=st.sets(st.sampled_from("abcdefgh")))
def test_rows_of_other_values_stay_as_they_are(
    writer: Writer, before: dict[str, str | None], after: dict[str, str | None], some: set[str]
) -> None:
    among = pl.DataFrame({"user": sorted(some)}, schema={"user": pl.String})
    fresh = {user: after[user] for user in after if user in some}
    others = users({"a": "llm", "b": None}, cluster="other")
    with writer.transaction():
        writer.delete("users", KEY)
        writer.replace("users", others, keys=["cluster"])
        writer.append("users", users(before))
        writer.bring_in_line("users", users(fresh), key=KEY, among=among)
    stayed = {user: before[user] for user in before if user not in some}
    expected = pl.concat([users(stayed | fresh), others])
    assert_frame_equal(writer.table("users").select(expected.columns), expected, check_row_order=False)
