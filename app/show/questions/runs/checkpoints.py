"""The question of `trackside show` about checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.checkpoints import checkpoint_rows
from app.show.answer import Answer, Question
from app.show.registry import question
from app.show.selection import requested_runs
from app.show.sentences import gpu_hours
from ingest.counted import counted

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader

MOST_EXPLAINED: Final = 20
"""Runs with checkpoints, and runs without, of which `--explain` lists the parts of a number."""

_FIRST = pl.int_range(pl.len()).over(pl.col("n_checkpoints") > 0) < MOST_EXPLAINED


@question(
    "checkpoints",
    "how often runs save, and which interval would lose least",
    help="how often runs save, which interval would lose least, and the GPU-hours that it would save; "
    "--run R: of one run",
    by=("run",),
    takes=("run",),
    position=11,
    of_some_runs=("run",),
)
def checkpoints(source: Reader, window: Window, question: Question) -> Answer:
    """How often runs save checkpoints, against how often would lose least at the cluster's failure rate."""
    rows, notes = requested_runs(checkpoint_rows(source, window), source, window, question.run)
    return Answer(
        "Checkpoints: as they are, and as they would lose least",
        rows,
        {
            "run_id": ("run", "text"),
            "n_gpus": ("GPUs", "count"),
            "n_checkpoints": ("checkpoints", "count"),
            "interval_s": ("every", "seconds"),
            "write_s": ("time per save", "seconds"),
            "restart_s": ("restart", "seconds"),
            "mttf_s": ("MTTF", "seconds"),
            "optimal_s": ("best every", "seconds"),
            "optimal_low_s": ("95 % from", "seconds"),
            "optimal_high_s": ("to", "seconds"),
            "loss_share": ("share lost", "ratio_2"),
            "optimal_loss_share": ("share lost at best", "ratio_2"),
            "gain_gpu_s": ("GPU-h to win", "gpu_h"),
            "advice": ("advice", "text"),
            "note": ("note", "text"),
        },
        headline=_headline(rows),
        ranked=("n_gpus", "interval_s", "optimal_s", "gain_gpu_s", "advice", "n_checkpoints", "loss_share"),
        metrics=("checkpoint_interval", "checkpoint_loss"),
        queries=("run_events", "run_sessions", "steps", "attempts", "interruptions", "runs", "run_attempts"),
        notes=(*notes, *_notes(rows)),
        worth_explaining=_FIRST if question.run is None else None,
        parts={
            "subject": "run_id",
            "value": "interval_s",
            "n": "n_intervals",
            "n_checkpoints": "n_checkpoints",
            "write_s": "write_s",
            "restart_s": "restart_s",
            "mttf_s": "mttf_s",
            "mttf_low_s": "mttf_low_s",
            "mttf_high_s": "mttf_high_s",
            "optimal_s": "optimal_s",
            "ci_low": "optimal_low_s",
            "ci_high": "optimal_high_s",
            "young_s": "young_s",
            "daly_s": "daly_s",
            "availability_optimal_s": "availability_s",
            "loss_share": "loss_share",
            "loss_low": "loss_low",
            "loss_high": "loss_high",
            "optimal_loss_share": "optimal_loss_share",
            "held_gpu_s": "held_gpu_s",
            "gain_gpu_s": "gain_gpu_s",
            "gain_low_gpu_s": "gain_low_gpu_s",
            "gain_high_gpu_s": "gain_high_gpu_s",
            "assumed_loss_share": "assumed_loss_share",
        },
        worth_showing=SAVED,
        instead=pl.lit(NONE_SAVED),
        when_empty=_when_empty(rows),
    )


SAVED: Final = pl.col("n_checkpoints") > 0
"""Runs that logged a checkpoint: the others are counted in one sentence."""

_TO_LOG: Final = "To log them: trackside recorder, then trackside ingest runlog."
NONE_SAVED: Final = f"None of these runs logged a checkpoint, so their checkpoint interval is unknown. {_TO_LOG}"


def _when_empty(rows: pl.DataFrame) -> str:
    if rows.height:
        return _without(rows)
    return "No run is known to have held GPUs in this window: is it within what `trackside status` covers?"


def _without(rows: pl.DataFrame) -> str:
    """How many runs logged no checkpoint, and what they held."""
    held = gpu_hours(float(rows["held_gpu_s"].sum()))
    return f"{counted(rows.height, 'run')} with {held} logged no checkpoint: their interval is unknown. {_TO_LOG}"


def _headline(rows: pl.DataFrame) -> str:
    saved = rows.filter(SAVED)
    return " ".join(_to_win(saved)) if saved.height else ""


def _notes(rows: pl.DataFrame) -> tuple[str, ...]:
    saved, without = rows.filter(SAVED), rows.filter(~SAVED)
    notes = []
    if saved.height:
        notes.append(
            "every: median training time between saves; share lost: expected share of time, for saves and lost work, "
            "exact for exponential failures at the cluster's infrastructure rate, which is taken to grow with a run's "
            "GPUs. best every: the interval with the least loss; from/to: at both ends of the rate's 95 % interval."
        )
        notes.append(
            "Preemptions and failures of a job's own lose work, too, unless it saves before it ends. They are not in "
            "this rate: where they are many, save more often."
        )
    if saved.height and without.height:
        notes.append(_without(without))
    return tuple(notes)


def _to_win(saved: pl.DataFrame) -> list[str]:
    """What all changes together would have won; those whose gain may as well be a loss apart."""
    change = saved.filter(pl.col("advice").is_in(["save less often", "save more often"]))
    if change.is_empty():
        return ["No run's interval lies outside of what the failure rate's interval leaves open."]
    amount = gpu_hours(float(change["gain_gpu_s"].sum()))
    return [f"{counted(change.height, 'run')} would have won {amount} in this window by saving at the best interval."]
