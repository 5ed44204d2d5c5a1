"""Warehouses held against what is known, and against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.tables import ATTEMPT_KEY
from tests.lab.scenario.known import contradictions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.lab.scenario.known import Known


FIRST: Final = "first_submitted_at"


def assert_as_known(
    attempts: pl.DataFrame, attempt_nodes: pl.DataFrame, facts: Sequence[Known], *, untold: frozenset[str] = frozenset()
) -> None:
    """The attempts of one job are those of `facts`, in every column but those that the text did not tell.

    What concerns the whole chain of a job's attempts is for `assert_first_submissions`.
    """
    job = str(facts[0].facts["job_id"])
    rows = attempts.filter(pl.col("job_id") == job).sort("submitted_at").to_dicts()
    states = [row["state"] for row in rows]
    assert states == [each.facts["state"] for each in facts], f"{facts[0].kind}: {states}"
    for row, each in zip(rows, facts, strict=True):
        left_out = untold | {FIRST}
        if untold and not (each.nodes and row["ended_at"]):  # without a column Suspended, only the times tell it
            left_out |= {"suspended_s"}
        reported = {name: fact for name, fact in each.facts.items() if name not in left_out}
        wrong = contradictions(row, reported)
        assert not wrong, f"attempt {each.attempt} of {each.kind}: {wrong}"
        on = attempt_nodes.filter(*(pl.col(name) == row[name] for name in ATTEMPT_KEY))
        held = {name: float(gpus) for name, gpus in on.select("node", "n_gpus").rows()}
        others = f"attempt {each.attempt} of {each.kind}: {held}, not {each.nodes}"
        assert held.keys() == each.nodes.keys(), others
        assert not contradictions(held, each.nodes), others


def assert_first_submissions(attempts: pl.DataFrame, facts: Sequence[Known]) -> None:
    """Each attempt of a job knows when the first of them was submitted."""
    rows = attempts.filter(pl.col("job_id") == str(facts[0].facts["job_id"])).sort("submitted_at").to_dicts()
    for row, each in zip(rows, facts, strict=True):
        wrong = contradictions(row, {FIRST: each.facts[FIRST]})
        assert not wrong, f"attempt {each.attempt} of {each.kind}: {wrong}"


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
