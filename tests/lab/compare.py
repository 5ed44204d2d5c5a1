"""Warehouses held against what is known, and against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ingest.frames import ATTEMPT_KEY
from tests.lab.known import contradictions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.lab.known import Known


def assert_as_known(
    attempts: pl.DataFrame, attempt_nodes: pl.DataFrame, facts: Sequence[Known], *, untold: frozenset[str] = frozenset()
) -> None:
    """The attempts of one job are those of `facts`, in every column but those that the text did not tell."""
    job = str(facts[0].facts["job_id"])
    rows = attempts.filter(pl.col("job_id") == job).sort("submitted_at").to_dicts()
    assert [row["state"] for row in rows] == [each.facts["state"] for each in facts]
    for row, each in zip(rows, facts, strict=True):
        left_out = untold
        if untold and not (each.nodes and row["ended_at"]):  # without a column Suspended, only the times tell it
            left_out |= {"suspended_s"}
        told = {name: fact for name, fact in each.facts.items() if name not in left_out}
        assert contradictions(row, told) == {}, f"attempt {each.attempt} of {each.kind}"
        on = attempt_nodes.filter(*(pl.col(name) == row[name] for name in ATTEMPT_KEY))
        assert {name: float(gpus) for name, gpus in on.select("node", "n_gpus").rows()} == each.nodes


def steady(attempts: pl.DataFrame) -> pl.DataFrame:
    """What does not change between two looks, or between forms: not how long a job has run that still runs.

    Nor whether a job was suspended that never ran or has not ended: forms without Suspended tell it by the times.
    """
    ended, ran = pl.col("state") != "RUNNING", (pl.col("n_nodes") > 0) & pl.col("ended_at").is_not_null()
    return attempts.sort("job_id", "submitted_at").with_columns(
        pl.when(ended).then("elapsed_s").alias("elapsed_s"), pl.when(ran).then("suspended_s").alias("suspended_s")
    )


def without_texts(attempts: pl.DataFrame, job_id: str, texts: frozenset[str]) -> pl.DataFrame:
    """The attempts without those texts of one job."""
    others = pl.col("job_id") != job_id
    return attempts.with_columns(pl.when(others).then(name).alias(name) for name in texts)
