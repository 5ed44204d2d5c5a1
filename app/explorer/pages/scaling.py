"""The page Scaling: speed of each recipe by number of GPUs."""

from __future__ import annotations

from app.explorer.questions import Asked, page_of

PAGE = page_of(
    "/scaling",
    "Scaling",
    [
        Asked("scaling", by="size", title="Speed by number of GPUs"),
        Asked("mfu", by="run", title="Model FLOP utilisation by run"),
    ],
    icon="scale",
    group="Runs",
    position=25,
    lead="How fast each recipe trains on how many GPUs, strong and weak, and model FLOP utilisation.",
)
