"""The sessions of run logs: what a `run` line states, checked, and how far its steps and events reach."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ingest.cluster_names import TOO_LONG, fits_a_folder
from ingest.errors import shorten
from ingest.load_warnings import LoadWarning
from ingest.plausible import LONGEST_NAME, RUN_LOG, is_within
from ingest.runlog.lines import (
    IDS,
    MAY_BE_ZERO,
    RECOMPUTED,
    SIZES,
    US,
    VERSION,
    RefusedLineError,
    microseconds,
    text_or_none,
)
from ingest.runlog.steps import NAMES

if TYPE_CHECKING:
    from ingest.runlog.lines import Run


@dataclass
class Session:
    """One `run` line, and how far what it begins reaches. Times are microseconds since 1970."""

    row: dict[str, Any]
    rank: int
    began: int
    ended: int
    first_step: int
    """How many steps of its block came before it."""


def session_of(run: Run, cluster: str | None, origin: str, first_step: int, warnings: list[LoadWarning]) -> Session:
    """The session that a `run` line begins.

    Args:
        run: the line.
        cluster: of a line that names none.
        origin: where the log came from.
        first_step: how many steps of its block came before the line.
        warnings: receives those about values that cannot be.

    Raises:
        RefusedLineError: the line cannot be used.
    """
    if run.v != VERSION:
        raise RefusedLineError(
            f"run log version {run.v} is not supported (only {VERSION}); a newer Trackside may read it"
        )
    began = microseconds("t", run.t)
    run_id, job_id = str(run.run_id).strip(), text_or_none(run.job_id)
    if not run_id:
        raise RefusedLineError("run_id is empty")
    if max(len(run_id), len(job_id or "")) > LONGEST_NAME:
        raise RefusedLineError(f"run_id or job_id is longer than {LONGEST_NAME} characters")
    named = text_or_none(run.cluster) or cluster
    if named is not None and not fits_a_folder(named):
        raise RefusedLineError(f"cluster: {TOO_LONG}")
    facts = {name: getattr(run, name) for name in SIZES}
    facts["restart_count"] = run.restart_count
    for name, value in facts.items():
        if not is_within(name, value, 0.0 if name in {*MAY_BE_ZERO, "restart_count"} else math.ulp(0.0)):
            detail = (
                f"run {run_id}: {name} is {value:g}, which is impossible (at most {RUN_LOG[name].most:g}: "
                f"{RUN_LOG[name].why}); it counts as unknown"
            )
            warnings.append(LoadWarning("run_value_implausible", 1, detail))
            facts[name] = None
    if facts["params_active"] is None and not _routes(run):
        facts["params_active"] = facts["params"]
    row = facts | {
        "cluster": named,
        "run_id": run_id,
        "scheduler": text_or_none(run.scheduler) or ("none" if job_id is None else "slurm"),
        "job_id": job_id,
        "rank": run.rank or 0,
        "node": text_or_none(run.node),
        "gpu_model": text_or_none(run.gpu_model),
        "dtype": text_or_none(run.dtype),
        "flop_convention": text_or_none(run.flop_convention),
        "gated": run.gated,
        "tied": run.tied,
        "recompute": _recomputed(run, run_id, warnings),
        "recipe": text_or_none(run.recipe),
        **{name: _id(getattr(run, name)) for name in IDS},
        "origin": origin,
    }
    return Session(row, run.rank or 0, began, began, first_step)


def _routes(run: Run) -> bool:
    """Whether it is a mixture of experts: not all of its parameters are active."""
    return run.experts is not None and run.experts > 1


def _id(value: str | int | None) -> str | None:
    """An id as text, cut where it is longer than any."""
    text = text_or_none(value)
    return None if text is None else text[:LONGEST_NAME]


def _recomputed(run: Run, run_id: str, warnings: list[LoadWarning]) -> str | None:
    recompute = (text_or_none(run.recompute) or "").lower() or None
    if recompute is None or recompute in RECOMPUTED:
        return recompute
    detail = f"run {run_id}: recompute is {shorten(recompute, 40)!r}, not one of {', '.join(RECOMPUTED)}; left out"
    warnings.append(LoadWarning("run_value_implausible", 1, detail))
    return None


def session_row(session: Session) -> dict[str, Any]:
    """Its row of `run_sessions`."""
    return session.row | {"started_at": moment(session.began), "ended_at": moment(session.ended)}


def names_of(session: Session) -> dict[str, Any]:
    """The names that all its steps and events share."""
    return {name: session.row[name] for name in NAMES}


def moment(us: int) -> datetime:
    """Microseconds since 1970 as a time."""
    return datetime.fromtimestamp(us / US, tz=UTC)
