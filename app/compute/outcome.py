"""Outcome of a computation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import TypeAlias

    from app.window import Window
    from queries.warehouse import CheckResult

    Progress: TypeAlias = Callable[[str, float], None]
    """Receives what is being done within a stage, and which share of the stage is done."""


@dataclass(frozen=True)
class Days:
    """How many days the ledger has, and how many of them were computed now.

    `since`: midnight (UTC) of the first one that was computed now, or is no more; None if there is none.
    """

    changed: int
    known: int
    since: datetime | None = None


@dataclass(frozen=True)
class Windows:
    """How many standard windows have stored results, and how many of them were computed now."""

    changed: int
    known: int


@dataclass(frozen=True)
class Computed:
    """Outcome of a computation."""

    clusters: list[Window]
    empty: list[str]
    warnings: list[CheckResult]
    days: list[Days]
    """Of each of the clusters: how many days its ledger has, and how many of them were computed anew."""
