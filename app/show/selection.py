"""The options of a `show` question: what to split by, and which runs are meant."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import polars as pl

from app.errors import UsageError
from app.results.runs.runs import resolve_run
from app.show.declared import declared
from metrics.mfu.flops import CONVENTIONS
from metrics.runs.naming import APART
from queries.near_names import did_you_mean

if TYPE_CHECKING:
    from app.window import Window
    from metrics.mfu.flops import Convention
    from queries.warehouse import Reader


def split_by(requested: str | None, allowed: tuple[str, ...], default: str) -> str:
    """What to split by.

    Raises:
        UsageError: the question cannot be split by that.
    """
    if requested is None:
        return default
    if requested not in allowed:
        takes = f"it takes: {', '.join(allowed)}"
        hint = did_you_mean(requested, allowed) or _questions_split_by(requested)
        raise UsageError(f"--by {requested} is not for this question; {takes}{hint}")
    return requested


def _questions_split_by(dimension: str) -> str:
    """The end of a refusal: the questions that can be split by a dimension; empty if there is none."""
    names = [name for name, each in declared().items() if dimension in each.splits]
    return f"\nSplit by {dimension} can be: {', '.join(names)}" if names else ""


def resolved_runs(source: Reader, window: Window, text: str) -> list[str]:
    """The runs that a run id or a job id means.

    Raises:
        UsageError: there is none.
    """
    run_ids = resolve_run(source, window.cluster, text)
    if not run_ids:
        raise UsageError(f"{window.cluster}: no run and no job is called {text!r}.\nIts runs:  trackside show runs")
    return run_ids


def requested_conventions(requested: str | None) -> tuple[Convention, ...]:
    """The conventions that were requested: one, or all.

    Raises:
        UsageError: there is no such convention.
    """
    if requested is None:
        return CONVENTIONS
    matching = tuple(each for each in CONVENTIONS if each.lower() == requested.lower())
    if not matching:
        raise UsageError(f"there is no FLOP convention {requested!r}; there are: {', '.join(CONVENTIONS)}")
    return matching


def logged_only(source: Reader, cluster: str | None, text: str) -> tuple[str, str] | None:
    """The cluster and the id of a run that only its log describes; None where there is accounting of it, or no run.

    Args:
        source: the warehouse.
        cluster: only of this cluster; None: of any.
        text: a run id or a job id.
    """
    rows = source.query("run_candidates", text=text, job=text, cluster=cluster)
    if rows.is_empty() or not rows["logged_only"].all():
        return None
    first = rows.row(0, named=True)
    return first["cluster"], first["run_id"]


def needs_accounting(cluster: str, run_id: str) -> str:
    """Why a question about a run that only its log describes has no rows, and what to type."""
    return (
        f"{cluster}: run {run_id!r} is described by its log alone; this question is about runs "
        f"with accounting.\nIts page:        trackside run {shlex.quote(run_id)}\n"
        "Its accounting:  trackside ingest slurm && trackside compute"
    )


def windows_with_run(source: Reader, windows: list[Window], text: str) -> list[Window]:
    """The windows of the clusters that have the run or the job; of a single cluster, as it was requested.

    Raises:
        UsageError: none of several clusters has it.
    """
    if len(windows) < 2:
        return windows
    matching = [window for window in windows if resolve_run(source, window.cluster, text)]
    if not matching:
        names = ", ".join(window.cluster for window in windows)
        raise UsageError(f"none of the clusters {names} has a run or a job {text!r}.\nTheir runs:  trackside show runs")
    return matching


def only(rows: pl.DataFrame, run_ids: list[str]) -> pl.DataFrame:
    """The rows of these runs, in the order in which the runs are given."""
    order = pl.DataFrame({"run_id": run_ids}).with_row_index("_order")
    return rows.join(order, on="run_id", maintain_order="left").sort("_order", maintain_order=True).drop("_order")


def requested_runs(
    rows: pl.DataFrame, source: Reader, window: Window, requested: str | None
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The rows of the runs that `--run` means, the newest first, and notes on them; else all rows."""
    if requested is None:
        return rows, ()
    run_ids = resolved_runs(source, window, requested)
    return only(rows, run_ids), several(requested, run_ids)


def several(requested: str, run_ids: list[str]) -> tuple[str, ...]:
    """A job id or a name means more than one run: which, and how to choose one of them."""
    if len(run_ids) < 2:
        return ()
    named = ", ".join(run_ids[:MOST_NAMED]) + (
        f" and {len(run_ids) - MOST_NAMED:,} more" if run_ids[MOST_NAMED:] else ""
    )
    by_job = f"{len(run_ids):,} runs have a job {requested} (Slurm uses job ids again, and jobs of an array share one)"
    by_name = f"{requested} is the name of {len(run_ids):,} runs"
    many = by_name if all(each.startswith(requested + APART) for each in run_ids) else by_job
    return (
        f"{many}, the newest first: {named}.",
        f"To choose one, give its run id: --run {shlex.quote(run_ids[0])}",
    )


MOST_NAMED = 10
"""Runs of a job id or of a name that a note names."""
