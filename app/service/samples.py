"""A series with its value, as the exporter collects them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from decimal import Decimal

    from dashboards.exported_metrics import Family


@dataclass(frozen=True)
class Sample:
    """A series with its value. `labels` are in the order in which the family declares them."""

    family: Family
    labels: tuple[str, ...]
    value: float


def known(family: Family, labels: tuple[str, ...], value: float | Decimal | None) -> Iterator[Sample]:
    """The sample; none of a number that is unknown or has no limit."""
    if value is not None and math.isfinite(value):
        yield Sample(family, labels, float(value))
