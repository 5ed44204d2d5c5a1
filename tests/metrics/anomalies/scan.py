"""Deviations of days in a row, tested as they come: what `app.results.telemetry.anomalies` does with stored days."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from metrics.anomalies.day_sums import PAST_DAYS, Past, day_sums
from metrics.anomalies.scan import Joined

if TYPE_CHECKING:
    import polars as pl


class Scan:
    """Takes deviations day by day, in the order of time, and tests them all."""

    def __init__(self) -> None:
        self._window = Joined()
        self._past: deque[tuple[int, Past]] = deque(maxlen=PAST_DAYS)

    def add(self, deviations: pl.DataFrame) -> None:
        """Test a day (`deviations.DEVIATIONS`), then take it into the past."""
        self._window.add(self.sums(deviations))

    def sums(self, deviations: pl.DataFrame) -> pl.DataFrame:
        """The sums of a day (`day_sums.SUMS`), which then belongs to the past."""
        sums = day_sums(deviations, Past.joined(past for _, past in self._past))
        if sums.height:
            self._past.append((int(sums["day"][0]), Past.of(sums)))
        return sums

    def result(self) -> pl.DataFrame:
        """All subjects with at least one hour that was tested: `ANOMALIES`, the clearest first."""
        return self._window.result()
