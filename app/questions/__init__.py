"""The questions of `trackside show`: one function each, from a reader and a window to an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.questions.checkpoints import checkpoints
from app.questions.ettr import ettr
from app.questions.failures import mttf
from app.questions.goodput import goodput, lost
from app.questions.health import health
from app.questions.interruptions import interruptions
from app.questions.lemons import lemons
from app.questions.mfu import mfu
from app.questions.nodes import nodes
from app.questions.restarts import restarts
from app.questions.runs import runs
from app.questions.traffic import filesystems, network
from app.questions.utilisation import gpu_utilisation
from app.questions.waste import waste

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.results import Window
    from app.showing import Answer, Question
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
