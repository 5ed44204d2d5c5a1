"""The page Scaling: speed of each recipe by number of GPUs."""

from __future__ import annotations

from app.explorer.charts import scaling_figure
from app.explorer.questions import QuestionSpec, page_of

PAGE = page_of(
    "/scaling",
    "Scaling",
    [
        QuestionSpec(
            "scaling",
            by="size",
            title="Speed by number of GPUs",
            figure=scaling_figure.speed_by_size,
            undrawn=scaling_figure.reading,
        ),
        QuestionSpec("mfu", by="run", title="Model FLOP utilisation by run"),
    ],
    icon="scale",
    group="Runs",
    position=25,
    lead="How fast each recipe trains on how many GPUs, strong and weak, and model FLOP utilisation.",
)
