"""The page Agreement: where Slurm and Kubernetes disagree about nodes."""

from __future__ import annotations

from app.explorer.questions import QuestionSpec, page_of

PAGE = page_of(
    "/agreement",
    "Agreement",
    [
        QuestionSpec("agreement", by="kind", title="Disagreements by kind"),
        QuestionSpec(
            "agreement", by="node", title="Nodes that disagree most", name="by-node", chosen=False, notes=False
        ),
        QuestionSpec("evictions", by="eviction", title="Whom Kueue evicted for whom"),
    ],
    icon="agree",
    group="Data",
    position=62,
    lead="Where Slurm and Kubernetes disagree about a node, for how long, and which was wrong.",
)
