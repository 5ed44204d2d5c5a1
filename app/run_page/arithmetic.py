"""How the ETTR of a run comes about, line by line: `trackside run --explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.run_page.one_run import OneRun
from app.show.answer import Question
from app.show.registry import question_of

if TYPE_CHECKING:
    from app.run_page.contents import Row, RunContents
    from queries.warehouse import Reader


def arithmetic(reader: Reader, contents: RunContents) -> tuple[str, ...]:
    """The lines of `trackside show ettr --run R`; of a log alone, its own sums. None where there is no ETTR."""
    row = contents.ettr
    if row is None or not row["wall_gpu_s"]:
        return ()
    if contents.choice.logged_only:
        return _of_log(row, "GPU-seconds" if contents.gpus else "seconds")
    source = OneRun(reader, contents.choice.cluster, contents.choice.run_id)
    answer = question_of("ettr")(source, contents.window, Question(run=contents.choice.run_id))  # type: ignore[arg-type]  # a reader of one run
    return answer.notes


def _of_log(row: Row, unit: str) -> tuple[str, ...]:
    return (
        f"productive / (processes + gaps between them), in {unit} since the first line of the log",
        f"  {row['productive']:,.0f} / ({row['allocated']:,.0f} + {row['queued_requeue']:,.0f}) = {row['ettr']:.4f}"
        if row["ettr"] is not None
        else f"  cannot tell: {row['unseen_share']:.1%} of the time is in no line of the log",
        "Queues are not in it: only accounting records them.",
    )
