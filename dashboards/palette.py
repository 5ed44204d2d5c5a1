"""Colours and words of what people see: one colour per ledger category, the same in every chart, table and report.

Families carry the meaning, so that no meaning depends on distinguishing two hues: blue for work done, yellow to red for
time that training cost itself, grey for idle, violet for out of service. Unobserved time is hatched.
"""

from __future__ import annotations

from dataclasses import dataclass

from metrics.categories import COSTLY


@dataclass(frozen=True)
class Swatch:
    """How a category is shown.

    Attributes:
        name: as in the ledger.
        state: allocated, idle or unavailable.
        colour: as #rrggbb; readable on white and on near-black.
        label: for people.
        meaning: one sentence.
        hatched: time whose use was unobserved.
    """

    name: str
    state: str
    colour: str
    label: str
    meaning: str
    hatched: bool = False

    @property
    def cost(self) -> bool:
        """Whether it is time that could have trained and did not."""
        return self.name in COSTLY

    @property
    def ink(self) -> str:
        """Colour of text on it: black or white, whichever can be read better: at least 4.5 to 1 (WCAG)."""
        linear = [(int(self.colour[at : at + 2], 16) / 255) ** 2.2 for at in (1, 3, 5)]
        luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        return "#000000" if self.hatched or luminance > 0.18 else "#ffffff"


SWATCHES: tuple[Swatch, ...] = (
    Swatch("productive", "allocated", "#0072B2", "Productive", "Training steps that were kept."),
    Swatch(
        "unattributed",
        "allocated",
        "#8FB8D6",
        "Unattributed",
        "GPUs were allocated; their use was unobserved. Telemetry or a run log would show it.",
        hatched=True,
    ),
    Swatch("other_work", "allocated", "#56B4E9", "Other work", "Evaluation, inference, interactive and test jobs."),
    Swatch(
        "startup",
        "allocated",
        "#F0DC5A",
        "Startup",
        "Start of the attempt to its first step: launch, initialisation, data, checkpoint load, compilation.",
    ),
    Swatch("checkpoint", "allocated", "#E69F00", "Checkpoint", "Saving that blocks training."),
    Swatch("teardown", "allocated", "#B98A4A", "Teardown", "Last step to the end of the allocation."),
    Swatch(
        "lost",
        "allocated",
        "#D55E00",
        "Lost",
        "Steps that had to be run again after an interruption, and the unfinished step.",
    ),
    Swatch(
        "stalled",
        "allocated",
        "#B5305F",
        "Stalled",
        "Hangs, data stalls, suspension, and GPUs of a dead node until the attempt ends.",
    ),
    Swatch(
        "pending_demand",
        "idle",
        "#6C7884",
        "Idle, work waiting",
        "Idle GPUs while eligible work waited that could have run there.",
    ),
    Swatch("no_demand", "idle", "#A9B4BE", "Idle, no demand", "Idle GPUs without demand."),
    Swatch("maintenance", "unavailable", "#C3A6D8", "Maintenance", "Planned work on the node."),
    Swatch("drained", "unavailable", "#9C74C4", "Drained", "Taken out of service because of its health."),
    Swatch("down", "unavailable", "#6F42A5", "Down", "Out of service, not planned."),
    Swatch(
        "unknown",
        "unavailable",
        "#B9AFC6",
        "Unknown state",
        "No node state is known, so it is unknown whether it was in service.",
        hatched=True,
    ),
)
"""In the order of a stack: what was seen to be productive lies at the bottom, what may have been right above it."""

BY_CATEGORY = {swatch.name: swatch for swatch in SWATCHES}
ORDER = tuple(swatch.name for swatch in SWATCHES)

QUEUED = Swatch("queued", "queued", "#7D8B97", "Queued", "Waiting for nodes; not part of the ledger.")
"""Time before an attempt has nodes. It belongs to runs, so it is shown with them and not in the account."""

STATES = {"allocated": "Allocated", "idle": "Idle", "unavailable": "Unavailable"}

STATE_COLOURS = {
    "allocated": BY_CATEGORY["productive"].colour,
    "idle": BY_CATEGORY["no_demand"].colour,
    "unavailable": BY_CATEGORY["down"].colour,
}
"""States of GPUs, each by the colour of its most usual category."""

CLASS_COLOURS = {
    "infrastructure": "#D55E00",
    "user": "#0072B2",
    "preemption": "#E69F00",
    "planned": "#9C74C4",
    "timeout": "#6C7884",
}
"""Classes of interruptions."""

EVIDENCE_COLOURS = {"log": "#00735C", "telemetry": "#2FA58A", "accounting": "#8CCFBE", "assumed": "#C5CCD1"}
"""Kinds of evidence, the strongest first."""

VERDICTS = {
    "supported": ("check", "teal", "supported"),
    "refuted": ("cross", "red", "refuted"),
    "undetermined": ("question", "gray", "undetermined"),
}
"""Verdict -> icon, Mantine colour, word. The icon and the word carry it, too."""


def swatch(category: str) -> Swatch:
    """How a category is shown; one that is not in the ledger (yet) is grey and keeps its name.

    >>> swatch("lost").label, swatch("brand_new").label
    ('Lost', 'Brand new')
    """
    if category == QUEUED.name:
        return QUEUED
    return BY_CATEGORY.get(category) or Swatch(category, "", "#888888", category.replace("_", " ").capitalize(), "")
