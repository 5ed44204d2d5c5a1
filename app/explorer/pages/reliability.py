"""The page Reliability: failures, how long until the next one, restarts."""

from __future__ import annotations

from app.explorer.charts.question_figures import bars, mttf_by_size
from app.explorer.charts.survival_figure import left_out, survival
from app.explorer.questions import QUARTER, QuestionSpec, page_of

PAGE = page_of(
    "/reliability",
    "Reliability",
    [
        QuestionSpec("mttf", by="size", title="Mean time to failure, by size of the job", figure=mttf_by_size),
        QuestionSpec(
            "mttf",
            by="hazard",
            title="Survival: does the rate of failure stay the same while a job runs?",
            name="survival",
            figure=survival,
            undrawn=left_out,
            chosen=False,
            days=QUARTER,
        ),
        QuestionSpec("mttf", by="reference", title="Beside published clusters", name="references", chosen=False),
        QuestionSpec(
            "interruptions",
            by="cause",
            title="What interrupted attempts",
            name="causes",
            causes=True,
            figure=bars("cost_gpu_s", "GPU-hours", scale=3600),
        ),
        QuestionSpec("restarts", by="stage", title="From an interruption to the next start"),
    ],
    icon="shield",
    group="Reliability",
    position=30,
    lead="How often jobs of a size fail, why, and how long until they run again; intervals are exact (Poisson).",
)
