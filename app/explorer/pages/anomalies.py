"""The page Stragglers and anomalies: what deviates from its peers."""

from __future__ import annotations

from app.explorer.questions import MONTH, QuestionSpec, page_of

PAGE = page_of(
    "/anomalies",
    "Stragglers and anomalies",
    [
        QuestionSpec("stragglers", title="What ranks waited for: a slow node, the network, or the shape of the job"),
        QuestionSpec("anomalies", days=MONTH, by="node", title="Telemetry that deviates from peers"),
        QuestionSpec("stalls", title="Times without a step, and which rank was last"),
    ],
    icon="wave",
    group="Reliability",
    position=33,
    lead="GPUs and nodes that differ from their peers in the same job at the same time, and what that slowed down.",
)
