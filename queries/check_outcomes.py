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

META: Final = "checks"
"""Fact of the warehouse: what `as_text` makes."""


@dataclass(frozen=True)
class CheckOutcome:
    """A check that failed, and how many rows it returned."""

    check: sql_files.Check
    count: int


def as_text(outcomes: Iterable[CheckOutcome], version: int) -> str:
    """The failed checks of a data version as text."""
    failed = [[each.check.name, each.check.description, each.count] for each in outcomes]
    return json.dumps({"data_version": version, "checks": _digest(), "failed": failed})


def from_text(text: str, version: int) -> list[CheckOutcome] | None:
    """The failed checks; None if they are of another data version, or of another set of checks."""
    stored = json.loads(text)
    if (stored["data_version"], stored["checks"]) != (version, _digest()):
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
