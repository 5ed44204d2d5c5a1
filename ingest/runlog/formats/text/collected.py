r"""Lines with two stamps: the one that a collector put before them, and their own. Which of them is their time.

containerd, Docker, journald and `ts` stamp a line when it reaches them. A program or a forwarder that keeps lines back
passes many on at once: they all reach the collector at one instant. The program's own stamp is then the time. Its zone
follows from the collector's stamps where these follow the lines through time: most of both differ by the same quarters
of an hour, and a little. Where stamps do not come in bursts the collector's counts, which has a zone and is finer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from ingest.runlog.formats.text.blocks import STAMP

US: Final = 1_000_000
_DAY_US: Final = 86_400 * US
_QUARTER_US: Final = 900 * US
_QUARTERS: Final = _DAY_US // _QUARTER_US
_HOUR: Final = 4
"""Quarters by which clocks are set in spring and autumn."""

_AHEAD_US: Final = 5 * US
"""A program's clock may be ahead of the collector's by so much."""

OWN_COLUMNS: Final[dict[str, pl.DataType]] = {"own": pl.Int64(), "own_offset": pl.Int32(), "own_fine": pl.Boolean()}
"""A line's own stamp behind a collector's: microseconds since 1970 as if it were UTC (since midnight where it has no
whole date), seconds by which it is ahead of UTC, and whether it has a fraction."""

OWN_TEXTS: Final = ("own_date", "own_time", "own_fraction", "own_offset", "own_clock", "own_clock_fraction")
"""The same, as they are written."""

_COLLECTOR: Final = (
    r"^\s*(?:\[[^\]\s]*\]:? ?)?\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}[^\s\]]*\]?(?: UTC)?"
)
_BETWEEN: Final = (
    r"(?:\s*(?:std(?:out|err) [FP]\b|\[[^\]\s]*\]:?|\([\w.-]+ pid=\d+[^)]*\)|[\w.-]+ [\w.-]+\[\d+\]:|[\w.-]+:"
    r"|DEBUG|INFO|WARNING|ERROR|CRITICAL|\|))*?"
    r"\s*\[?(?:[A-Za-z]+ [IWEF] |[A-Z]+\|)?"
)
"""Text of launchers and loggers between a collector's stamp and that of the line."""
_CLOCK: Final = (
    r"(?:[IWEF][0-9]{4} |[0-9]{2}[-/][0-9]{2}[ T]|[0-9]{2}/[0-9]{2}/[0-9]{4} )?"
    r"([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]{1,9}))?\b"
)
_BOTH: Final = f"{_COLLECTOR}{_BETWEEN}(?:{STAMP}|{_CLOCK})"


def own_texts(lines: pl.DataFrame) -> pl.DataFrame | None:
    """The texts (`OWN_TEXTS`) of the lines' own stamps behind a collector's, a row a line; None: no line has both."""
    text = lines["text"]
    if not text.str.contains(_BOTH).any():
        return None
    found = text.str.extract_groups(_BOTH).struct.unnest()
    found.columns = list(OWN_TEXTS)
    return found


@dataclass
class Collected:
    """The differences between a collector's stamps and those of the lines themselves, over a whole log.

    Attributes:
        step_kinds: the kinds of records that are steps.
    """

    step_kinds: frozenset[int] = frozenset()
    _n_moves: int = 0
    _n_late: int = 0
    _own_us: int = 0
    _collector_us: int = 0
    _quarters: Counter[int] = field(default_factory=Counter)
    _last: pl.DataFrame | None = None

    def take(self, records: pl.DataFrame) -> None:
        """Look at records (`scan.SCHEMA`) in the order of the log."""
        if not records["own"].count():
            return
        stamp = pl.col("naive") - pl.col("offset").fill_null(0).cast(pl.Int64) * US
        both = records.filter(pl.col("own").is_not_null() & pl.col("naive").is_not_null())
        both = both.select("own", "own_fine", stamp=stamp)
        self._quarters.update((_quarter(pl.col("stamp"))).pipe(both.select).to_series().to_list())
        every = both if self._last is None else pl.concat([self._last, both])
        self._last = every[-1:]
        moves = every.select("own_fine", own=pl.col("own").diff(), stamp=pl.col("stamp").diff())
        least = pl.when("own_fine").then(US // 20).otherwise(2 * US)
        moves = moves.filter(pl.col("own").is_between(least, _DAY_US // 2))
        self._n_moves += moves.height
        self._n_late += moves.filter(2 * pl.col("stamp") < pl.col("own")).height
        self._own_us += int(moves["own"].sum())
        self._collector_us += int(moves["stamp"].sum())

    @property
    def is_late(self) -> bool:
        """Whether the collector's stamps come in bursts: often it stands still while the lines' own go on."""
        return self._n_late >= _FEWEST and self._n_late * _OFTEN >= self._n_moves

    @property
    def zones(self) -> tuple[int, ...]:
        """Quarters of an hour from the lines' own stamps to the collector's, as UTC; two where clocks were set.

        Empty where the collector did not stamp lines as they came (a finished log that was copied), or it is unknown.
        """
        total = self._quarters.total()
        if not total or 2 * self._collector_us < self._own_us:
            return ()
        ranked = self._quarters.most_common(2)
        (first, most), *others = ranked
        for second, count in others:
            apart = (first - second) % _QUARTERS
            if _OFTEN * count >= total and apart in {_HOUR, _QUARTERS - _HOUR} and 10 * (most + count) >= 9 * total:
                return first, second
        return (first,) if 10 * most >= 9 * total else ()


def _quarter(stamp: pl.Expr) -> pl.Expr:
    """Whole quarters of an hour by which a collector's stamp is behind the line's own, a day at most."""
    return ((stamp - pl.col("own") + _AHEAD_US) % _DAY_US) // _QUARTER_US


def own_times(records: pl.DataFrame, collected: Collected) -> pl.DataFrame:
    """Records with `at` and `unit` of their own stamps, as far as these follow from the collector's (`zones`).

    Args:
        records: with `at`, the collector's time, and `unit`.
        collected: of the whole log; its stamps come in bursts.

    Returns:
        The records. Where the zone of their own stamps is unknown they keep the collector's time, unless their own
        has a zone. A line of another kind than a step that has no stamp of its own has no time: it lies between
        those beside it.
    """
    by_offset = pl.when(pl.col("own") >= _DAY_US).then(pl.col("own") - pl.col("own_offset").cast(pl.Int64) * US)
    zones = collected.zones
    if zones:
        here = _quarter(pl.col("at"))
        quarter = pl.when(here.is_in(zones)).then(here).otherwise(zones[0])
        late = (pl.col("at") - pl.col("own") - quarter * _QUARTER_US + _AHEAD_US) % _DAY_US - _AHEAD_US
        own = pl.coalesce(by_offset, pl.col("at") - late)
    else:
        own = pl.coalesce(by_offset, pl.col("local"))
    unit = pl.when("own_fine").then(US // 1_000).otherwise(US)
    is_finer = (pl.col("at") >= own) & (pl.col("at") < own + unit)
    taken = own.is_not_null() & ~is_finer.fill_null(value=False)
    lacks = pl.col("own").is_null() & ~pl.col("kind").is_in(list(collected.step_kinds))
    return records.with_columns(
        at=pl.when(lacks).then(None).when(taken).then(own).otherwise("at"),
        unit=pl.when(taken).then(unit).otherwise("unit"),
    )


_FEWEST: Final = 3
"""Lines that a collector stamps late before its stamps count as bursts."""

_OFTEN: Final = 10
"""Stamps count as bursts if more than one line in so many is stamped late."""
