"""The page Nodes: which fail, which are lemons, how long until they are back."""

from __future__ import annotations

from app.explorer.charts.question_figures import bars
from app.explorer.questions import QuestionSpec, page_of

PAGE = page_of(
    "/nodes",
    "Nodes",
    [
        QuestionSpec("lemons", title="Nodes that fail more often than by chance"),
        QuestionSpec(
            "nodes",
            title="Nodes, those whose failures cost most first",
            figure=bars("cost_gpu_s", "GPU-hours that its failures cost", scale=3600),
            notes=False,
        ),
        QuestionSpec("lifecycle", by="cause", title="Outages: how long until capacity is back"),
        QuestionSpec("health", by="incident", title="Incidents: hardware events, and the attempts they touch"),
    ],
    icon="cluster",
    group="Reliability",
    position=31,
    lead="Which nodes cost most, which fail more often than by chance, and how long outages last.",
)
