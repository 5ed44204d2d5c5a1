"""The question of `trackside show` about stalls: when a run made no step, why, and which rank was last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.results.constants import computed_constants
from app.results.steps.stalls import stall_rows
from app.show.answer import Answer, Question
from app.show.registry import question
from app.show.sentences import counted, gpu_hours, lasted
from metrics.runs.steps import HANG_MIN_S, HANG_STEPS, Rules

if TYPE_CHECKING:
    import polars as pl

    from app.window import Window
    from queries.warehouse import Reader

_QUERIES: Final = ("step_gaps", "run_events", "rank_lines_during")

_NONE: Final = "No step was late by many times the usual in this window, as far as run logs record steps."


@question(
    "stalls",
    "when a run made no step, why, and which rank was last",
    help="no step for many times the usual: data, checkpoint, collective, and which rank was last; --run R: of one run",
    by=("stall",),
    takes=("run",),
    position=20,
    span="steps_span",
)
def stalls(source: Reader, window: Window, question: Question) -> Answer:
    """Steps that were late, the costliest first."""
    constants = computed_constants(source, window.cluster)
    rules = Rules(constants.get("hang_steps", HANG_STEPS), constants.get("hang_min_s", HANG_MIN_S))
    rows = stall_rows(source, window, rules, question.run)
    about = (
        f"A step is late when the next one begins more than {rules.hang_steps:g} of its session's median steps after"
        f" it, and at least {lasted(rules.hang_min_s)}. Gaps in which a process starts are restarts.",
        "Who was last is known where ranks record their waiting (trackside_log.rank_times): the one that did not wait.",
    )
    return Answer(
        "Stalls by what they cost",
        rows,
        {
            "run_id": ("run", "text"),
            "job_id": ("job", "text"),
            "began_at": ("since", "time"),
            "seconds": ("lasted", "seconds"),
            "kind": ("kind", "text"),
            "last_rank": ("last rank", "count"),
            "last_node": ("last node", "text"),
            "lost_gpu_s": ("lost GPU-h", "gpu_h"),
            "step": ("step", "count"),
            "times": ("times usual", "number"),
            "reason": ("reason", "text"),
        },
        headline=_headline(rows),
        ranked=("began_at", "seconds", "kind", "last_node", "lost_gpu_s"),
        explained=("times",),
        queries=_QUERIES,
        notes=about if rows.height else (),
        when_empty=_NONE,
        parts={"subject": "run_id", "value": "seconds"},
    )


def _headline(rows: pl.DataFrame) -> str:
    if rows.is_empty():
        return ""
    kinds = rows.group_by("kind").len("n").sort("n", "kind", descending=[True, False])
    of = ", ".join(f"{n} {kind}" for kind, n in kinds.iter_rows())
    cost = rows["lost_gpu_s"].sum()
    priced = f", {gpu_hours(float(cost))} in all" if cost else ""
    return f"{counted(rows.height, 'stall')} ({of}){priced}."
