"""What the parts of a run's page are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from app.window import Window


@dataclass(frozen=True)
class RunPage:
    """The data of the page.

    Attributes:
        window: the period of the cards; the rest of the page shows the run's whole life.
        run: the run's row of `show runs`.
        ettr: its row of `app.results.ettr.ettr_run_rows`.
        timeline: `app.results.runs.runs.run_timeline`.
        steps: `app.results.runs.runs.run_steps`.
        mfu: `app.results.mfu.mfu_run_rows`.
        convention: that of the headline MFU.
        attempts: its attempts, with how each ended and how long the next took to start.
        interruptions: its interruptions in the window.
    """

    window: Window
    run: dict[str, Any]
    ettr: dict[str, Any] | None
    timeline: pl.DataFrame
    steps: pl.DataFrame
    mfu: pl.DataFrame
    convention: str
    attempts: pl.DataFrame
    interruptions: pl.DataFrame
