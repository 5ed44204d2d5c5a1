"""The page Placement: blocks and switches that jobs span."""

from __future__ import annotations

from app.explorer.questions import QUARTER, QuestionSpec, page_of

PAGE = page_of(
    "/placement",
    "Placement",
    [
        QuestionSpec("placement", by="size", title="Where jobs lie in the network", days=QUARTER),
        QuestionSpec(
            "placement", by="block", title="Blocks, and what could start in them", name="blocks", chosen=False
        ),
        QuestionSpec(
            "placement",
            by="effect",
            title="What spanning more blocks costs",
            name="effect",
            chosen=False,
            days=QUARTER,
        ),
    ],
    icon="tree",
    group="Where it goes",
    position=17,
    lead="How many blocks and switches jobs span, what that costs, and which sizes could start now.",
)
