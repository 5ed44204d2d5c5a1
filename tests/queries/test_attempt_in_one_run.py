"""The check that each attempt of a computed cluster is in one run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queries import sql_files
from queries.warehouse import open_writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queries.warehouse import Writer

NOW = datetime(2026, 11, 22, tzinfo=UTC)
(CHECK,) = (check for check in sql_files.checks() if check.name == "ledger_attempt_in_one_run")


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    with open_writer(tmp_path_factory.mktemp("runs") / "w", verb="t", now=NOW) as opened:
        yield opened


def key(cluster: str, job: int) -> dict[str, object]:
    return {"cluster": cluster, "scheduler": "slurm", "job_id": str(job), "submitted_at": NOW}


def put(writer: Writer, *, in_runs: dict[str, list[int]], computed: str) -> None:
    """Have attempts of clusters be in so many runs each, and one of the clusters be computed."""
    for table in ("stored.attempts", "run_attempts", "computes"):
        writer.delete_where(table, "TRUE", {})
    jobs = [(cluster, job, n) for cluster, numbers in in_runs.items() for job, n in enumerate(numbers)]
    pending = {"state": "PENDING", "n_nodes": 0, "n_gpus": 0}
    writer.append("stored.attempts", pl.DataFrame([key(cluster, job) | pending for cluster, job, _ in jobs]))
    runs = [
        key(cluster, job) | {"run_id": f"{job}-{run}", "attempt_no": 1, "joined_by": "single"}
        for cluster, job, n in jobs
        for run in range(n)
    ]
    if runs:
        writer.append("run_attempts", pl.DataFrame(runs))
    at = {"since": NOW, "until": NOW, "computed_at": NOW, "data_version": 1, "constants": "{}"}
    writer.append("computes", pl.DataFrame([{"cluster": computed} | at]))


@settings(max_examples=40, deadline=None)
@given(numbers=st.lists(st.integers(0, 2), min_size=1, max_size=5), others=st.lists(st.integers(0, 2), min_size=1))
def test_attempts_in_no_run_or_in_several_are_found(writer: Writer, numbers: list[int], others: list[int]) -> None:
    with writer.transaction():
        put(writer, in_runs={"c": numbers, "d": others}, computed="c")
        found = writer.frame(CHECK.sql).select("cluster", "job_id", "runs")
        wrong = [("c", str(job), n) for job, n in enumerate(numbers) if n != 1]
    assert sorted(found.rows()) == wrong


def test_one_run_too_many_does_not_hide_one_too_few(writer: Writer) -> None:
    with writer.transaction():
        put(writer, in_runs={"c": [0, 2, 1]}, computed="c")
        assert sorted(writer.frame(CHECK.sql)["job_id"]) == ["0", "1"]
