"""Which lines of ranks `show stalls` reads: each stall costs a query, so those of runs without lines are not read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl

from app.results.steps.stalls import LONGEST_LINE, stalls_of
from app.window import Window
from metrics import frames
from metrics.stragglers.stalls import RANK_LINES, STEP_GAPS
from tests.metrics.tables import rows

BEGIN = datetime(2026, 10, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Warehouse:
    """Of the runs `r1`, `r2` and `r3` only the second has lines of ranks; its queries about these are kept."""

    def __init__(self) -> None:
        self.queries: list[tuple[str, object]] = []

    def query(self, name: str, **params: object) -> pl.DataFrame:
        if name == "runs_with_rank_lines":
            assert (params["since"], params["until"]) == (BEGIN - LONGEST_LINE, BEGIN + 13 * MINUTE)
            self.queries.append((name, params["runs"]))
            return pl.DataFrame({"run_id": ["r2"]})
        if name == "rank_lines_during":
            self.queries.append((name, params["run"]))
            return frames.empty(RANK_LINES)
        return pl.DataFrame()


def gaps(*runs: str) -> pl.DataFrame:
    late = [
        {"cluster": "c", "run_id": run, "job_id": "1", "step": at, "n_gpus": 8, "usual_s": 1.0}
        | {"began_at": BEGIN + at * MINUTE, "resumed_at": BEGIN + (at + 10) * MINUTE}
        for at, run in enumerate(runs)
    ]
    return rows(STEP_GAPS, *late)


def test_lines_are_read_of_runs_that_have_some() -> None:
    source = Warehouse()
    stalled = stalls_of(source, Window("c", BEGIN, BEGIN + 60 * MINUTE), gaps("r1", "r2", "r3", "r2"))  # type: ignore[arg-type]  # it has what is used
    assert stalled.height == 4
    assert source.queries == [
        ("runs_with_rank_lines", ["r1", "r2", "r3"]),
        ("rank_lines_during", "r2"),
        ("rank_lines_during", "r2"),
    ]


def test_lines_of_few_stalls_are_read_at_once() -> None:
    source = Warehouse()
    stalls_of(source, Window("c", BEGIN, BEGIN + 60 * MINUTE), gaps("r1"))  # type: ignore[arg-type]  # it has what is used
    assert source.queries == [("rank_lines_during", "r1")]
