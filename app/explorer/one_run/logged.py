"""Data for the pages of runs with logs only: the numbers of `trackside run`, and each step for the chart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from app.config.settings import Rules
from app.explorer.one_run.data import RunPage
from app.results.mfu import headline_mfu
from app.results.runs.runs import run_steps
from app.run_page.contents import RunContents, gather
from app.run_page.log_only import LogOnly, log_of
from app.run_page.request import RunChoice
from metrics import frames

if TYPE_CHECKING:
    from queries.warehouse import Reader

ROWS = 10
"""Runs on one page of the list: the numbers of each are worked out from its log."""


@dataclass(frozen=True)
class LoggedRuns:
    """One page of the list.

    Attributes:
        rows: the newest first: `cluster`, `run_id`, `gpus`, `processes`, `steps`, `lost`, `goodput`, `ettr`, `mfu`,
            `started_at`, `ended_at`; null where the log has none.
        matching: how many runs there are.
        skipped: how many of them come before these.
        n_clusters: of how many clusters they are.
    """

    rows: pl.DataFrame
    matching: int
    skipped: int
    n_clusters: int


def listed(reader: Reader, rules: str, skipped: int) -> LoggedRuns:
    """Runs with logs only, after the first `skipped`, or the first where these are all.

    `rules` as in `contents_of`.
    """
    names = reader.query("logged_runs", most=ROWS, skipped=skipped)
    if names.is_empty() and skipped:  # an address of when there were more
        return listed(reader, rules, 0)
    every = [_row(contents_of(reader, row["cluster"], row["run_id"], rules)) for row in names.to_dicts()]
    matching, n_clusters = names.select("matching", "n_clusters").row(0) if names.height else (0, 0)
    return LoggedRuns(pl.DataFrame(every, schema=_COLUMNS), matching, skipped, n_clusters)


def contents_of(reader: Reader, cluster: str, run_id: str, rules: str) -> RunContents:
    """The numbers of such a run.

    Args:
        reader: the published copy.
        cluster: that its log was loaded under.
        run_id: as its log names it.
        rules: those of the configuration, as JSON.
    """
    return gather(reader, RunChoice(cluster, run_id, logged_only=True), Rules.model_validate_json(rules))


def page_of(reader: Reader, cluster: str, run_id: str, rules: str) -> tuple[RunContents, RunPage]:
    """The numbers of such a run, and what its charts are made of; arguments as of `contents_of`."""
    validated = Rules.model_validate_json(rules)
    known = log_of(reader, cluster, run_id, validated)
    contents = gather(reader, RunChoice(cluster, run_id, logged_only=True), validated, known)
    return contents, RunPage(
        window=known.window,
        run=contents.run,
        ettr=contents.ettr,
        timeline=_timeline(known),
        steps=run_steps(known, cluster, run_id),
        mfu=pl.DataFrame([row for row in contents.mfu if row["measure"] == "mfu"], infer_schema_length=None),
        convention=contents.convention,
        attempts=known.attempts,
        interruptions=pl.DataFrame(schema=_NO_ENDS),
    )


def _timeline(known: LogOnly) -> pl.DataFrame:
    """What its processes did when: rows of `run_timeline`."""
    processes = known.query("run_attempts").select("attempt_no", "submitted_at")
    return (
        known.query("run_ledger")
        .sort("started_at")
        .join_asof(processes.sort("submitted_at"), left_on="started_at", right_on="submitted_at")
        .with_columns(gpus=pl.col("milli_gpus") / 1000)
    )


def _row(contents: RunContents) -> dict[str, object]:
    mfu, steps = headline_mfu(contents.mfu, contents.convention), contents.steps
    return {
        "cluster": contents.choice.cluster,
        "run_id": contents.choice.run_id,
        "gpus": contents.gpus,
        "processes": len(contents.attempts),
        "steps": None if steps is None else steps.executed,
        "lost": None if steps is None else steps.lost,
        "goodput": None if contents.goodput is None else contents.goodput["value"],
        "ettr": None if contents.ettr is None else contents.ettr["ettr"],
        "mfu": None if mfu is None else mfu["value"],
        "started_at": contents.window.since,
        "ended_at": contents.window.until,
    }


_COLUMNS = {
    "cluster": pl.String(),
    "run_id": pl.String(),
    "gpus": pl.Float64(),
    "processes": pl.Int64(),
    "steps": pl.Int64(),
    "lost": pl.Int64(),
    "goodput": pl.Float64(),
    "ettr": pl.Float64(),
    "mfu": pl.Float64(),
    "started_at": frames.TIME,
    "ended_at": frames.TIME,
}

_NO_ENDS = {"attempt_no": pl.Int64(), "ended_at": frames.TIME, "class": pl.String(), "cause": pl.String()}
"""A log records that a process ended, and not why."""
