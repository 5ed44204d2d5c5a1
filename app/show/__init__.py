"""The questions of `trackside show`: one function each, from a reader and a window to an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.show import metric
from app.show.questions.checkpoints import checkpoints
from app.show.questions.ettr import ettr
from app.show.questions.goodput import goodput, lost
from app.show.questions.health import health
from app.show.questions.interruptions import interruptions
from app.show.questions.lemons import lemons
from app.show.questions.mfu import mfu
from app.show.questions.mttf import mttf
from app.show.questions.nodes import nodes
from app.show.questions.restarts import restarts
from app.show.questions.runs import runs
from app.show.questions.utilisation import gpu_utilisation
from app.show.questions.waste import waste
from app.show.traffic import filesystems, network

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.show.answer import Answer, Question
    from app.window import Window
    from queries.warehouse import Reader

QUESTIONS: dict[str, Callable[[Reader, Window, Question], Answer]] = {
    "goodput": goodput,
    "ettr": ettr,
    "mttf": mttf,
    "mfu": mfu,
    "restarts": restarts,
    "lost": lost,
    "interruptions": interruptions,
    "runs": runs,
    "nodes": nodes,
    "lemons": lemons,
    "checkpoints": checkpoints,
    "waste": waste,
    "utilisation": gpu_utilisation,
    "filesystems": filesystems,
    "network": network,
    "health": health,
}


def question_of(what: str) -> Callable[[Reader, Window, Question], Answer]:
    """The question of that name, or the one about the metric of that name."""
    return QUESTIONS.get(what) or metric.questions()[what]
