"""The outcome of the data checks, kept in the warehouse with the data version that it belongs to."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from queries import sql_files, upgrade

if TYPE_CHECKING:
    from collections.abc import Iterable

FACT: Final = "checks"
"""Fact of a data version: what `as_text` makes."""


@dataclass(frozen=True)
class CheckOutcome:
    """A check that failed, and how many rows it returned."""

    check: sql_files.Check
    count: int


def as_text(outcomes: Iterable[CheckOutcome]) -> str:
    """The failed checks as text."""
    failed = [[each.check.name, each.check.description, each.count] for each in outcomes]
    return json.dumps({"checks": _digest(), "failed": failed})


def from_text(text: str) -> list[CheckOutcome] | None:
    """The failed checks; None if they are of another set of checks, or of none (empty text)."""
    stored = json.loads(text or "{}")
    if stored.get("checks") != _digest():
        return None
    checks = {check.name: check for check in sql_files.checks()}
    return [
        CheckOutcome(replace(checks[name], description=description), count)
        for name, description, count in stored["failed"]
    ]


@functools.cache
def _digest() -> str:
    """Changes when a check does, or a view that checks may read."""
    text = "".join(f"{check.name}\0{check.sql}" for check in sql_files.checks())
    return hashlib.sha256((text + upgrade.views_digest(sql_files.views())).encode()).hexdigest()
