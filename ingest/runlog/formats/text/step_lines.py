"""Steps whose record is in several lines: values on lines of their own behind it, micro-batches on lines before it.

- `values` lines belong to the line of a step before them, of the same writer: they fill what that does not have.
- `micro_batch` lines are of a step that goes on. Where lines number their micro-batches, the duration in a line is that
  of one: a step's is the sum of all of its own, where each has a line. Where only some have one, a step has as many
  times the last one's duration, and is counted as estimated; where its line has a time, its duration follows from that.
- `total_hours` are those of all steps so far: a step's duration is what they grew by since the line before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.runlog.text_format import DURATIONS, NUMBERS
from ingest.runlog.translation import RefusedLine

if TYPE_CHECKING:
    from ingest.runlog.text_format import TextFormat

MOST_WAITING: Final = 10_000
"""Records that wait for the lines that belong to them: of writers in turn, the last step of each."""

_STAMPS: Final = ("naive", "of_day")


@dataclass
class StepLineWriter:
    """Puts the lines of steps together, some records at a time, in the order of the log.

    Attributes:
        form: the format that they are of.
        n_estimated: steps whose duration is that of one of their micro-batches times the number of these.
        refused: values that follow no step.
    """

    form: TextFormat
    n_estimated: int = 0
    refused: list[RefusedLine] = field(default_factory=list)
    _waiting: pl.DataFrame | None = None
    _before: pl.DataFrame | None = None

    def __post_init__(self) -> None:
        """Which kinds of lines there are."""
        kinds = {name: self.form.numbers_of(name) for name in _KINDS}
        self._step, self._values, self._micro = (kinds[name] for name in _KINDS)
        self._has_totals = any("total_hours" in dict(line.fields) for line in self.form.lines)

    @property
    def is_needed(self) -> bool:
        """Whether the format has steps in several lines."""
        return bool(self._values or self._micro or self._has_totals)

    def take(self, records: pl.DataFrame) -> pl.DataFrame:
        """The records (`scan.SCHEMA`) that are complete, of these and of those before."""
        if not self.is_needed or records.is_empty():
            return records
        fresh = records.with_columns(_done=pl.lit(value=False))
        every = fresh if self._waiting is None else pl.concat([self._waiting, fresh])
        whole = self._with_values(self._with_durations(every)).with_columns(_done=self._is(self._step))
        last = whole.with_row_index("_at").filter(self._is(self._step)).group_by("writer").agg(pl.col("_at").max())
        since = max(int(last["_at"].min() or 0), whole.height - MOST_WAITING)  # type: ignore[arg-type]  # numbers
        self._waiting = whole[since:]
        return self._ready(whole[:since])

    def finish(self) -> pl.DataFrame | None:
        """The records that still wait, behind the end of the log; None where there are none."""
        waiting, self._waiting = self._waiting, None
        return None if waiting is None else self._ready(waiting)

    def _ready(self, records: pl.DataFrame) -> pl.DataFrame:
        whole = records.filter(~self._is(self._micro)).drop("_done")
        return self._with_growth(whole) if self._has_totals else whole

    def _with_growth(self, records: pl.DataFrame) -> pl.DataFrame:
        """Records whose steps have the durations that follow from the hours of all steps so far.

        Of the first of a process, and where the hours have too few digits, that is the mean of all so far.
        """
        total, number = pl.col("total_hours") * 3_600, pl.col("step")
        steps = records.filter(self._is(self._step) & total.is_not_null() & (number > 0)).select(
            "line", "part", "step", "total_hours"
        )
        every = steps if self._before is None else pl.concat([self._before, steps])
        self._before = every[-1:]
        grown = pl.when((number.diff() > 0) & (total.diff() > 0)).then(total.diff() / number.diff())
        lengths = every.select("line", "part", _length=pl.coalesce(grown, total / number))
        joined = records.join(lengths, on=["line", "part"], how="left", maintain_order="left")
        of_step = pl.when(self._is(self._step)).then("_length")
        return joined.with_columns(duration_s=pl.coalesce("duration_s", of_step)).drop("_length")

    def _is(self, kinds: list[int]) -> pl.Expr:
        return pl.col("kind").is_in(kinds)

    def _with_values(self, records: pl.DataFrame) -> pl.DataFrame:
        """Records without lines of values, whose steps have them."""
        if not records["kind"].is_in(self._values).any():
            return records
        key = [pl.col("writer").fill_null(""), self._is(self._step).cum_sum().over("writer")]
        keyed = records.with_columns(_writer=key[0], _number=key[1])
        values = keyed.filter(self._is(self._values))
        alone = values.filter(pl.col("_number") == 0).select("line", "text").iter_rows()
        self.refused += [RefusedLine(line, _WITHOUT_STEP, text or "") for line, text in alone]
        names = [name for name in NUMBERS if values[name].count()]
        firsts = values.group_by("_writer", "_number").agg(pl.col(names).drop_nulls().first())
        others = keyed.filter(~self._is(self._values))
        filled = others.join(firsts, on=["_writer", "_number"], how="left", suffix="_more", maintain_order="left")
        is_step = self._is(self._step)
        more = [pl.when(is_step).then(pl.coalesce(name, f"{name}_more")).otherwise(name).alias(name) for name in names]
        return filled.with_columns(more).select(records.columns)

    def _with_durations(self, records: pl.DataFrame) -> pl.DataFrame:
        """Records whose steps have the durations of all their micro-batches."""
        number = pl.col("micro_batch")
        counted = records.filter((self._is(self._step) | self._is(self._micro)) & number.is_not_null())
        if counted.is_empty():
            return records
        is_step = self._is(self._step)
        before = is_step.shift(1).over("writer").fill_null(value=True)
        follows = ~before & (number == number.shift(1).over("writer") + 1)
        runs = counted.with_columns(_run=(~follows).cum_sum().over("writer"))
        sums = [pl.col(name).cum_sum().over("writer", "_run").alias(f"{name}_sum") for name in DURATIONS]
        steps = runs.with_columns(*sums, _lines=pl.int_range(1, pl.len() + 1).over("writer", "_run")).filter(is_step)
        ahead = pl.col("step").diff().over("writer"), number.diff().over("writer")
        continues = (ahead[0] > 0) & (ahead[1] > 0)
        each = pl.when(continues).then(ahead[1] / ahead[0]).otherwise(number / pl.col("step"))
        sized = steps.with_columns(_each=each).with_columns(
            _summed=(pl.col("_lines") == pl.col("_each")),
            _whole=(pl.col("_each") >= 1) & (pl.col("_each") == pl.col("_each").floor()),
            _timed=pl.any_horizontal(pl.col(name).is_not_null() for name in _STAMPS),
        )
        estimated = ~pl.col("_summed") & pl.col("_whole") & ~pl.col("_timed") & (pl.col("_each") > 1)
        known = pl.any_horizontal(pl.col(name).is_not_null() for name in DURATIONS)
        fresh = sized.filter(~pl.col("_done"))
        self.n_estimated += int(fresh.select((estimated & known).sum()).item())
        made = fresh.select(
            "line", "part", "kind",
            *(
                pl.when("_summed").then(f"{name}_sum")
                .when(pl.col("_each") == 1).then(name)
                .when(estimated).then(pl.col(name) * pl.col("_each"))
                .alias(f"{name}_made")
                for name in DURATIONS
            ),
            _made=pl.lit(value=True),
        )  # fmt: skip
        joined = records.join(made, on=["line", "part", "kind"], how="left", maintain_order="left")
        return joined.with_columns(
            pl.when("_made").then(f"{name}_made").otherwise(name).alias(name) for name in DURATIONS
        ).select(records.columns)


_KINDS: Final = ("step", "values", "micro_batch")
_WITHOUT_STEP: Final = "values of a step whose own line is not before them in this log"
