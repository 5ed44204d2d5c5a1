"""Answers of several clusters as one: what is the same of several is there once, with their names."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import polars as pl

from app.show.answer import Answer, together
from app.window import Window

WINDOWS = [Window(name, *(datetime(2026, month, 1, tzinfo=UTC) for month in (10, 11))) for name in ("a", "b")]
SAME = Answer("x", pl.DataFrame({"n": [1]}), {"n": ("n", "count")}, notes=("Too few.", "Drain it:", "  scontrol 1"))


def test_the_same_note_of_several_clusters_is_there_once() -> None:
    other = replace(SAME, notes=("Too few.", "Drain it:", "  scontrol 2"), headline="One.")
    assert together([SAME, other], WINDOWS).notes == (
        "a, b: Too few.", "a: Drain it:", "  scontrol 1", "b: Drain it:", "  scontrol 2",
    )  # fmt: skip
    assert together([SAME, other], WINDOWS).headline == "b: One."


def test_why_several_clusters_have_no_rows_is_of_each() -> None:
    assert together([SAME, SAME], WINDOWS).when_empty == SAME.when_empty
    other = replace(SAME, when_empty="No log.")
    assert together([SAME, other], WINDOWS).when_empty == "a: Nothing in this window.\nb: No log."
