"""Attempts whose GPUs accounting does not record: how many there are, and the note on numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.counted import counted
from metrics.goodput.goodput import SWITCH_ON

if TYPE_CHECKING:
    from app.window import RowSource, Window

UNKNOWN: Final = "unknown"
"""`attempts.gpus_from` where no source records the GPUs."""


def unknown_gpus_notes(source: RowSource, window: Window) -> tuple[str, ...]:
    """Sentences on attempts of a window whose GPUs are unknown, and on those known from elsewhere."""
    rows = source.query("unknown_gpus", cluster=window.cluster, since=window.since, until=window.until)
    if rows.is_empty():
        return ()
    counts, ran = dict(rows.select("gpus_from", "n").iter_rows()), rows["n_ran"].item(0)
    unknown = counts.pop(UNKNOWN, 0)
    notes = []
    if unknown:
        notes.append(
            f"{unknown:,} of {counted(ran, 'attempt')} held an unknown number of GPUs: what they held, "
            f"lost and waited for is in no GPU-hours, rates and sizes here. Reason: {SWITCH_ON}."
        )
    if counts:
        sources = ", ".join(f"{name} ({n:,})" for name, n in counts.items())
        notes.append(
            f"Accounting does not record the GPUs of {counted(sum(counts.values()), 'attempt')}; known from: {sources}."
        )
    return tuple(notes)
