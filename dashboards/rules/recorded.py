"""A series that a recording rule makes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Recorded:
    """A recorded series.

    Attributes:
        name: as recorded: level, colon, what is recorded, after `trackside:`.
        labels: every label; `cluster` is empty unless scrape or rule sets it.
        expr: what is recorded.
    """

    name: str
    labels: tuple[str, ...]
    expr: str
