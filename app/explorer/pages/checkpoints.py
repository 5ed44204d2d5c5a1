"""The page Checkpoints and waste: how often to save, and which GPUs are idle."""

from __future__ import annotations

from app.explorer.charts.question_figures import bars
from app.explorer.questions import QUARTER, QuestionSpec, page_of

PAGE = page_of(
    "/checkpoints",
    "Checkpoints and waste",
    [
        QuestionSpec(
            "checkpoints",
            title="How often runs save, and how often would lose least",
            runs="runs_that_logged",
            only="Only runs that logged their steps; for others it is unknown.",
            no_runs=(
                "No run logged its steps in this period, so how often runs save is unknown.\n"
                "The recorder does it in three lines: trackside recorder --help"
            ),
        ),
        QuestionSpec(
            "waste",
            by="kind",
            title="Allocated time that shows no work",
            figure=bars("gpu_s", "GPU-hours", scale=3600, words="title"),
            days=QUARTER,
        ),
        QuestionSpec(
            "waste",
            by="run",
            title="Runs that hold GPUs without work",
            name="idle-runs",
            chosen=False,
            days=QUARTER,
            runs="runs_standing_still",
            most=1_000,
            notes=False,  # they would be about these runs alone, and those of the section above are about all
            only="Only the {most} runs whose GPUs stood still longest; a filter shows others.",
        ),
    ],
    icon="save",
    group="Runs",
    position=24,
    lead="How often runs save, how often would lose least, and who holds GPUs without using them.",
)
