"""Named queries filtered to one run, or to some: the same rows, without those of other runs.

Whatever is computed of all runs of a cluster can so be computed of these, by the same functions, and DuckDB passes only
their rows on.
"""

from __future__ import annotations

from typing import Final

from queries import sql_files

_JOBS: Final = "(q.scheduler, q.job_id) IN (SELECT scheduler, job_id FROM run_attempts WHERE cluster = $cluster AND run_id = $of_run)"  # noqa: E501 - SQL
_LOGS: Final = (
    "q.run_id IN (SELECT s.run_id FROM run_sessions AS s WHERE s.cluster = $cluster AND (s.run_id = $of_run OR "
    "(s.scheduler, s.job_id) IN "
    "(SELECT scheduler, job_id FROM run_attempts WHERE cluster = $cluster AND run_id = $of_run)))"
)
_RUN: Final = "q.run_id = $of_run"

CONDITIONS: Final[dict[str, str]] = {
    "attempt_activity": _JOBS,
    "allocated_to_attempts": _JOBS,
    "attempt_gpu_models": _JOBS,
    "attempt_spending": _RUN,
    "attempts": _JOBS,
    "interruption_costs": _RUN,
    "interruptions": _RUN,
    "ledger_sums": "q.subject = $of_run",
    "restarts": _RUN,
    "run_attempts": _JOBS,
    "run_events": _LOGS,
    "run_sessions": _LOGS,
    "runs": _RUN,
    "steps": _LOGS,
    "summaries_of_attempts": _JOBS,
    "usage_of_attempts": _JOBS,
}
"""By named query: which of its rows are about the run `$of_run`. Attempts are those of its job ids, so that the
restarts of a job are counted as they are among all attempts; logs are those of its jobs, or under its name."""


_SHADOWED: Final = {
    "attempt_spending": "gpu_time",
    "attempts": "attempts",
    "interruption_costs": "gpu_time",
    "ledger_sums": "gpu_time",
}
"""By named query: the table of which it reads all rows before any condition on its own rows can hold them back."""


_ONE: Final = "= $of_run"
_SOME: Final = "IN (SELECT UNNEST(CAST($of_runs AS VARCHAR[])))"


def filtered(name: str, *, some: bool = False) -> str:
    """SQL of a named query that returns only the rows about the run `$of_run`, or about `some`: the list `$of_runs`.

    Raises:
        KeyError: there is no such query, or its rows are about no run.
    """
    condition = CONDITIONS[name]
    core = sql_files.named_queries()[name].sql.strip().removesuffix(";")
    first = ""
    if name in _SHADOWED:  # under the name of the table, so that the query reads these rows in its place
        table = _SHADOWED[name]
        first = f"WITH {table} AS (SELECT q.* FROM {table} AS q WHERE q.cluster = $cluster AND {_JOBS})\n"  # noqa: S608 - our own texts
    sql = f"{first}SELECT q.* FROM (\n{core}\n) AS q\nWHERE {condition}"  # noqa: S608 - as above
    return sql.replace(_ONE, _SOME) if some else sql
