"""`trackside show network`: what InfiniBand ports carried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.show.registry import question
from app.show.traffic import NETWORK_SUBJECT, traffic_answer

if TYPE_CHECKING:
    from app.show.answer import Answer, Question
    from app.window import Window
    from queries.warehouse import Reader


@question(
    "network",
    "what InfiniBand ports carried",
    help="what InfiniBand ports carried (needs telemetry of nodes)\n--by user, account, partition, run, attempt, node",
    by=("port", "node", "user", "account", "partition", "run", "attempt"),
    position=15,
)
def network(source: Reader, window: Window, question: Question) -> Answer:
    """What InfiniBand ports carried: by port, or by whose nodes they were."""
    return traffic_answer(source, window, question, NETWORK_SUBJECT)
