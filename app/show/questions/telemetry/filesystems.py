"""`trackside show filesystems`: operations, bytes and response time of filesystems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.show.registry import question
from app.show.traffic import FILESYSTEM_SUBJECT, traffic_answer

if TYPE_CHECKING:
    from app.show.answer import Answer, Question
    from app.window import Window
    from queries.warehouse import Reader


@question(
    "filesystems",
    "operations, bytes and response time of filesystems",
    help="operations, bytes and response time by mount, as nodes report them (needs telemetry of nodes)\n"
    "--by user, account, partition, run, attempt, node",
    by=("mount", "node", "user", "account", "partition", "run", "attempt"),
    position=14,
)
def filesystems(source: Reader, window: Window, question: Question) -> Answer:
    """Operations, bytes and response time of filesystems: by mount, or by whose nodes they were."""
    return traffic_answer(source, window, question, FILESYSTEM_SUBJECT)
