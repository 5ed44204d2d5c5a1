"""The question of `trackside show` about stalls: when a run made no step, why, and which rank was last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.results.constants import computed_constants
from app.results.steps.stalls import hang_rows, stall_rows
from app.show.answer import Answer, Question
from app.show.registry import question
from app.show.sentences import gpu_hours, lasted
from ingest.counted import counted
from metrics.runs.steps import HANG_MIN_S, HANG_STEPS, StepRules

if TYPE_CHECKING:
    import polars as pl

    from app.window import Window
    from queries.warehouse import Reader

_QUERIES: Final = (
    *("step_gaps", "run_events", "runs_with_rank_lines", "rank_lines_during", "collective_dumps", "rank_places"),
)

_NONE: Final = "No step was late by many times the usual in this window, as far as run logs record steps."
_UNLOGGED: Final = (
    "No run log with steps is loaded, so stalls are unknown.\n"
    "The recorder does it in three lines: trackside recorder --help"
)


@question(
    "stalls",
    "when a run made no step, why, and which rank was last",
    help="when a run made no step for many times its usual step time: data, checkpoint or collective, and which rank\n"
    "was last; --run R: of one run\n--by dump: hangs, from the dumps of the NCCL flight recorder of each rank",
    by=("stall", "dump"),
    takes=("run",),
    position=20,
    span="stalls_span",
)
def stalls(source: Reader, window: Window, question: Question) -> Answer:
    """Steps that were late, the costliest first; or hangs of which ranks left dumps."""
    if question.dimension == "dump":
        return _by_dump(hang_rows(source, window, question.run))
    constants = computed_constants(source, window.cluster)
    rules = StepRules(constants.get("hang_steps", HANG_STEPS), constants.get("hang_min_s", HANG_MIN_S))
    rows = stall_rows(source, window, rules, question.run)
    about = (
        f"A step is late when the next one begins more than {rules.hang_steps:g} of its session's median steps after"
        f" it, and at least {lasted(rules.hang_min_s)}. Gaps in which a process starts are restarts.",
        "The last rank is known where ranks record their waiting (trackside_log.rank_times): it did not wait. Dumps of"
        " the NCCL flight recorder name it, too: it did not enter the collective that the others wait in.",
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
        when_empty=_NONE if rows.height or _logged(source, window.cluster) else _UNLOGGED,
        parts={"subject": "run_id", "value": "seconds"},
    )


def _logged(source: Reader, cluster: str) -> bool:
    return bool(source.query("stalls_span", cluster=cluster)["since"].count())


def _headline(rows: pl.DataFrame) -> str:
    if rows.is_empty():
        return ""
    kinds = rows.group_by("kind").len("n").sort("n", "kind", descending=[True, False])
    of = ", ".join(f"{n} {kind}" for kind, n in kinds.iter_rows())
    cost = rows["lost_gpu_s"].sum()
    priced = f", {gpu_hours(float(cost))} in all" if cost else ""
    return f"{counted(rows.height, 'stall')} ({of}){priced}."


_NO_DUMPS: Final = (
    "No dumps of the NCCL flight recorder in this window. PyTorch writes one for each rank when a collective times out"
    " (TORCH_NCCL_DUMP_ON_TIMEOUT=1, TORCH_FR_BUFFER_SIZE=2000). Load those of all ranks: trackside ingest ranks"
    " nccl_trace_rank_* --run R"
)

_ABOUT_DUMPS: Final = (
    "The last rank has not entered a collective that others of its group wait in, and waits in none itself. Times are"
    " of the last entries that ranks made before they hung.",
    "Absent: ranks of the largest group that left no dump, or whose dump is not loaded.",
)


def _by_dump(rows: pl.DataFrame) -> Answer:
    return Answer(
        "Hangs by what ranks dumped of their collectives",
        rows,
        {
            "run_id": ("run", "text"),
            "job_id": ("job", "text"),
            "since": ("since", "time"),
            "last_rank": ("last rank", "count"),
            "last_node": ("last node", "text"),
            "n_last": ("ranks last", "count"),
            "waiting": ("waiting", "count"),
            "ranks": ("dumps", "count"),
            "absent": ("absent", "count"),
            "reason": ("reason", "text"),
        },
        headline=f"{counted(rows.height, 'hang')} with dumps of ranks." if rows.height else "",
        ranked=("since", "last_rank", "last_node", "waiting", "absent"),
        queries=("collective_dumps", "rank_places"),
        notes=_ABOUT_DUMPS if rows.height else (),
        when_empty=_NO_DUMPS,
        parts={"subject": "run_id", "value": "waiting"},
    )
