"""Lengths of time: the one place of them in metrics, dashboards and app."""

from __future__ import annotations

from typing import Final

HOUR_S: Final = 3_600
DAY_S: Final = 86_400.0

HOUR_US: Final = HOUR_S * 1_000_000
DAY_US: Final = 24 * HOUR_US
