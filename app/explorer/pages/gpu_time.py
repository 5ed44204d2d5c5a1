"""The page GPU time: goodput in each meaning, and who had what was lost."""

from __future__ import annotations

from app.explorer.charts.question_figures import bars
from app.explorer.questions import QUARTER, QuestionSpec, page_of

PAGE = page_of(
    "/gpu-time",
    "GPU time",
    [
        QuestionSpec("lost", by="cause", title="Where all GPU-time went", causes=True),
        QuestionSpec(
            "interruptions",
            by="event",
            title="What interrupted attempts, and which node caused it",
            name="ends",
            causes=True,
            chosen=False,
            days=QUARTER,
        ),
        QuestionSpec(
            "lost",
            by="node",
            title="On which nodes the time was spent, whichever node caused it",
            name="where",
            notes=False,
        ),
        QuestionSpec("lost", by="account", title="Who had the time", name="who", notes=False),
        QuestionSpec("goodput", title="Goodput in each published meaning"),
        QuestionSpec(
            "waste",
            by="user",
            title="Allocated time that shows no work",
            figure=bars("gpu_s", "GPU-hours", scale=3600),
            days=QUARTER,
        ),
        QuestionSpec("utilisation", days=7, by="account", title="What allocated GPUs did"),
    ],
    icon="clock",
    group="Where it goes",
    position=15,
    lead="Every GPU-second once: what trained, what was lost to which cause, and who had it.",
)
