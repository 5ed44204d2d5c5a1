"""The questions of `trackside show`: one function each, from a reader and a window to an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.show.checkpoints import checkpoints
from app.show.ettr import ettr
from app.show.failures import mttf
from app.show.goodput import goodput, lost
from app.show.health import health
from app.show.interruptions import interruptions
from app.show.lemons import lemons
from app.show.mfu import mfu
from app.show.nodes import nodes
from app.show.restarts import restarts
from app.show.runs import runs
from app.show.traffic import filesystems, network
from app.show.utilisation import gpu_utilisation
from app.show.waste import waste

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.results import Window
    from app.show.answer import Answer, Question
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
