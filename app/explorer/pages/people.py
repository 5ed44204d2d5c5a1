"""The page Users and partitions: who used the GPUs, how well, at what cost."""

from __future__ import annotations

from app.explorer.charts.question_figures import bars
from app.explorer.questions import QuestionSpec, page_of

PAGE = page_of(
    "/people",
    "Users and partitions",
    [
        QuestionSpec(
            "people", by="account", title="Use by account or user", figure=bars("gpu_s", "GPU-hours", scale=3600)
        ),
        QuestionSpec("goodput", by="partition", title="Partitions", name="partitions"),
        QuestionSpec("cost", by="account", title="What the time cost, and its energy"),
        QuestionSpec("onboarding", by="user", title="Who was given access, and uses it"),
    ],
    icon="people",
    group="People",
    position=40,
    lead="Who held the GPUs, what of that trained, what was lost, and what it cost.",
)
