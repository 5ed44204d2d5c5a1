"""The order of columns on a phone."""

from __future__ import annotations

from typing import Any

from app.explorer import phone_columns
from app.show.registry import questions


def _places(fields: str, first: tuple[str, ...], constant: str = "") -> str:
    definitions: list[dict[str, Any]] = [{"field": each} for each in fields]
    phone_columns.place_columns(definitions, first, [each in constant for each in fields])
    return "".join(each["field"] for each in sorted(definitions, key=lambda each: each["context"]["narrow"]))


def test_named_columns_come_first_and_others_keep_their_order() -> None:
    assert _places("abcd", ("d", "b", "x")) == "dbac"
    assert _places("abcd", ()) == "abcd"


def test_columns_that_are_the_same_in_all_rows_come_last() -> None:
    assert _places("abcd", ("d", "a"), constant="ac") == "dbac"


def test_each_listed_question_exists() -> None:
    assert set(phone_columns.FIRST) <= set(questions())
