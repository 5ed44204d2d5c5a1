"""Steps whose lines were stamped at one instant: a program, or what collects its lines, kept them back.

OLMo-core logs the steps of an interval together; containerd stamps the lines of a full buffer together. Where their
lines have durations, each step ends where the next begins, the last at the stamp. Where they have none, they share the
time since the line before, as the steps of one line do, and keep their losses (`burst`). Of the first of a process
without durations only the end is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.tables import conform

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ingest.runlog.text_format import TextFormat

US: Final = 1_000_000

_AT_ONCE_US: Final = US // 500
"""Stamps with a fraction that are this close together are of one instant; others if they are the same."""

_GAP_US: Final = US // 10
_COARSE_GAP_US: Final = 3 * US
"""A burst comes behind a gap of so much, or its steps took so long: of stamps with a fraction, and of others."""

_OFTEN: Final = 10
"""A warning is due if more than one step in so many is in a burst."""

BURST: Final = pl.List(pl.Struct({"step": pl.Float64(), "loss": pl.Float64()}))
"""The column `burst`: steps that a record stands for besides its own, with the losses that the log has of them. Empty:
none, and how long its steps took is unknown."""


@dataclass
class Bursts:
    """Spreads the steps of bursts, some records at a time.

    Attributes:
        form: the format that they are of.
        n_steps: steps that were spread, the last of each burst too.
        n_lines: all lines of steps.
    """

    form: TextFormat
    n_steps: int = 0
    n_lines: int = 0
    _n_starts: int = 0
    _before: pl.DataFrame | None = None

    def spread(self, parts: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Records with `at` and `unit`, in the order in which they are read; they get the column `burst`.

        A burst may reach over parts: its lines wait until it has ended.
        """
        self.n_steps = self.n_lines = self._n_starts = 0
        self._before = held = None
        for part in parts:
            every = part if held is None else pl.concat([held, part])
            steps = self._steps(every)
            own = steps.filter(pl.col("_row") >= 0)
            last = int(own.filter(pl.col("_group") == own["_group"][-1])["_row"][0]) if own.height else every.height
            held = every[last:]
            yield self._spread(every[:last], steps.filter(pl.col("_row") < last))
        if held is not None and held.height:
            yield self._spread(held, self._steps(held))

    @property
    def is_often(self) -> bool:
        """Whether enough steps come in bursts for a warning."""
        return self.n_steps * _OFTEN > self.n_lines

    def _steps(self, records: pl.DataFrame) -> pl.DataFrame:
        """The steps with a time, behind the last one of the part before: `_row`, and the number of its `_group`.

        Also `_starts`, processes that have started before, and `_others`, records of other kinds in these.
        """
        is_step = (
            pl.col("kind").is_in(self.form.numbers_of("step"))
            & pl.col("at").is_not_null()
            & pl.col("step").is_not_null()
        )
        took = pl.coalesce("duration_s", pl.col("duration_ms") / 1_000)
        steps = (
            records.with_columns(
                _row=pl.int_range(pl.len(), dtype=pl.Int64),
                _starts=pl.col("kind").is_in(self.form.starting).cum_sum().cast(pl.Int64) + self._n_starts,
                _others=(~is_step).cum_sum().cast(pl.Int64),
                _took=took,
            )
            .filter(is_step)
            .select("_row", "_starts", "_others", "_took", "step", "loss", "at", "unit")
        )
        every = steps if self._before is None else pl.concat([self._before, steps])
        apart = pl.when(pl.col("unit") < US).then(_AT_ONCE_US).otherwise(0)
        at_once = pl.col("at").diff().is_between(0, apart) & (pl.col("step").diff() > 0)
        return every.with_columns(_group=(~at_once.fill_null(value=False)).cum_sum().cast(pl.Int64))

    def _spread(self, records: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
        """Records whose bursts have all ended: each in its place."""
        own = steps.filter(pl.col("_row") >= 0)
        self.n_lines += own.height
        self._n_starts += int(records["kind"].is_in(self.form.starting).sum())
        if own.height:
            self._before = own[-1:].drop("_group").with_columns(_row=pl.lit(-1, dtype=pl.Int64))
        nothing = records.with_columns(burst=pl.lit(None, dtype=BURST))
        bursts = _bursts(steps)
        if bursts.is_empty():
            return nothing
        self.n_steps += int(bursts["_n"].sum())
        rows = own.join(bursts, on="_group", maintain_order="left")  # of bursts alone
        way = pl.col("_way")
        placed = pl.concat(
            [
                _by_durations(rows.filter(way == _DURATIONS)),
                _sharing(rows.filter(way == _SHARE)),
                _unknown(rows.filter(way == _UNKNOWN)),
            ]
        )
        within = rows.group_by("_group").agg(since=pl.col("_row").min(), until=pl.col("_row").max())
        numbered = nothing.drop("burst").with_columns(_row=pl.int_range(pl.len(), dtype=pl.Int64))
        inside = numbered.join_where(within, pl.col("_row") > pl.col("since"), pl.col("_row") < pl.col("until")).select(
            "_row"
        )
        merged = rows.join(placed, on="_row", how="anti")
        return (
            numbered.join(merged, on="_row", how="anti", maintain_order="left")
            .join(placed.rename({"at": "_at"}), on="_row", how="left", maintain_order="left")
            .with_columns(
                at=pl.when(pl.col("_row").is_in(inside["_row"].implode())).then("_at").otherwise(
                    pl.coalesce("_at", "at")
                )
            )
            .drop("_row", "_at")
        )  # fmt: skip


def _bursts(steps: pl.DataFrame) -> pl.DataFrame:
    """The groups of steps that are bursts: `_group`, `_n`, where they begin and end, how they are placed (`_way`)."""
    before = {"_since": "at", "_from": "step", "_started": "_starts"}
    is_same = (pl.col("_group").diff() == 0).fill_null(value=False)
    together = steps.with_columns(pl.col(name).shift(1).alias(new) for new, name in before.items()).filter(
        is_same | is_same.shift(-1, fill_value=False)  # most steps are alone, and nothing is to be done
    )
    first = {name: pl.col(name).first() for name in ("at", "step", "_starts", "unit", "_row", *before)}
    groups = together.group_by("_group", maintain_order=True).agg(
        **first,
        _n=pl.len(),
        _until=pl.col("at").last(),
        _to=pl.col("step").last(),
        _has_took=pl.col("_took").is_not_null().all(),
        _tail=(pl.col("step").diff() * pl.col("_took")).sum(),
    )
    gap = pl.col("at") - pl.col("_since")
    least = pl.when(pl.col("unit") < US).then(_GAP_US).otherwise(_COARSE_GAP_US)
    continues = (pl.col("_from") < pl.col("step")) & (pl.col("_started") == pl.col("_starts"))
    is_fine = pl.col("unit") < US
    is_late = pl.when("_has_took").then(pl.col("_tail") * US >= least).otherwise((gap >= least).fill_null(is_fine))
    is_burst = (pl.col("_row") >= 0) & is_late
    way = pl.when("_has_took").then(_DURATIONS).when(continues).then(_SHARE).otherwise(_UNKNOWN)
    return groups.filter(is_burst).select("_group", "_n", "_since", "_from", "_until", "_to", _way=way)


_DURATIONS, _SHARE, _UNKNOWN = 0, 1, 2
"""How the steps of a burst are placed: by their durations, by the time since the line before, or not at all."""


_PLACED: Final = {"_row": pl.Int64(), "at": pl.Int64(), "burst": BURST}


def _by_durations(rows: pl.DataFrame) -> pl.DataFrame:
    """Steps of bursts with durations: each ends where the next begins."""
    count = pl.col("step").diff().over("_group").fill_null(1)
    took = (count * pl.col("_took") * US).round().cast(pl.Int64)
    behind = took.cum_sum(reverse=True).over("_group") - took
    made = rows.with_columns(_behind=behind).select(
        "_row", at=pl.col("_until") - pl.col("_behind"), burst=pl.lit(None, dtype=BURST)
    )
    return conform(made, _PLACED)


def _unknown(rows: pl.DataFrame) -> pl.DataFrame:
    """Steps of bursts before which it is unknown since when they run: they keep their times, but took no known time."""
    first = pl.int_range(pl.len()).over("_group") == 0
    burst = pl.when(~first).then(pl.lit([], dtype=BURST))
    return conform(rows.select("_row", "at", burst=burst), _PLACED)


def _sharing(rows: pl.DataFrame) -> pl.DataFrame:
    """Steps of bursts without durations: they share the time since the line before, as one record."""
    key = ["_group", "_others"]
    last = pl.col("step").last()
    span = pl.col("_until").first() - pl.col("_since").first()
    part = (last - pl.col("_from").first()) / (pl.col("_to").first() - pl.col("_from").first())
    made = rows.group_by(key, maintain_order=True).agg(
        pl.col("_row").last(),
        at=pl.col("_since").first() + (part * span).round().cast(pl.Int64),
        burst=pl.struct("step", "loss").slice(0, pl.len() - 1),
    )
    return conform(made, _PLACED)
