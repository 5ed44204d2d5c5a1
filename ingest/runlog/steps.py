"""Steps of run logs as columns: read a block at a time, kept as numbers by UTC day, named as a day is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from ingest.runlog.spool import Spool
from ingest.tables import STEPS, TIME, conform

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

STEP_KEY: Final = ("cluster", "run_id", "scheduler", "job_id", "step", "ts")

NAMES: Final = ("cluster", "run_id", "scheduler", "job_id")
"""What the steps of a session have in common."""

_DAY_US: Final = 86_400_000_000

_COLUMNS: Final[dict[str, pl.DataType]] = {
    "session": pl.Int32(),
    "step": pl.Int64(),
    "ts": pl.Int64(),
    "duration_s": pl.Float64(),
    "tokens": pl.Float64(),
    "loss": pl.Float64(),
}


@dataclass
class StepDays:
    """The steps of rank 0 of one log, in the order of the log, by UTC day.

    Attributes:
        n_backwards: how many of them begin before the step before them in their session.
    """

    n_backwards: int = 0
    _days: Spool = field(default_factory=lambda: Spool(_COLUMNS))
    _last: tuple[int, int] | None = None

    @property
    def height(self) -> int:
        """How many steps there are."""
        return self._days.height

    def add(self, steps: pl.DataFrame) -> None:
        """Append steps: `session` (a number, never smaller than before), `ts` in microseconds, and their values."""
        if steps.is_empty():
            return
        self._count_backwards(steps)
        for (day,), rows in (
            steps.with_columns(_day=pl.col("ts") // _DAY_US)
            .partition_by("_day", as_dict=True, include_key=False)
            .items()
        ):
            self._days.add(rows, int(day))

    def _count_backwards(self, steps: pl.DataFrame) -> None:
        back = (pl.col("ts").diff() < 0) & (pl.col("session").diff() == 0)
        self.n_backwards += steps.select(back.sum()).item()
        session, ts = steps.select("session", "ts").row(0)
        self.n_backwards += self._last is not None and self._last[0] == session and ts < self._last[1]
        self._last = steps.select("session", "ts").row(-1)

    def merged(self, sessions: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, date, pl.DataFrame]]:
        """Each cluster's days in order, with the rows of `steps` that they have: one per execution of a step.

        Args:
            sessions: the names (`NAMES`) of the session of each number.
        """
        names = pl.DataFrame(
            [{"session": number} | {name: one[name] for name in NAMES} for number, one in enumerate(sessions)],
            schema={"session": pl.Int32} | {name: STEPS[name] for name in NAMES},
        )
        for cluster in sorted(set(names["cluster"])):
            own = names.filter(pl.col("cluster") == cluster)
            for day in self._days.numbers():
                rows = self._days.whole(day).join(own, on="session", how="inner", maintain_order="left")
                if rows.height:
                    made = conform(rows.with_columns(pl.col("ts").cast(TIME)), STEPS)
                    yield cluster, datetime.fromtimestamp(day * 86_400, tz=UTC).date(), merge_steps(made)


def merge_steps(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per execution of a step, by run and time."""
    if _is_merged(rows):
        return rows
    return _without_ends(best(rows, STEP_KEY)).sort("run_id", "ts", "job_id", "step", nulls_last=True)


def _without_ends(rows: pl.DataFrame) -> pl.DataFrame:
    """Remove rows of no length at the moment when the same step of their run ended: they repeat that end.

    A log that grows may be read in two ways: DeepSpeed prints the end of a step long before the Trainer's first loss
    shows that its bar numbers the steps.
    """
    if not rows["duration_s"].null_count():
        return rows
    length = (pl.col("duration_s") * 1e6).round().cast(pl.Int64)
    ended = rows.filter(pl.col("duration_s") > 0).with_columns(ts=pl.col("ts") + pl.duration(microseconds=length))
    key = list(STEP_KEY)
    ends = rows.filter(pl.col("duration_s").is_null()).join(ended, on=key, how="semi", nulls_equal=True)
    return rows.join(ends, on=key, how="anti", nulls_equal=True) if ends.height else rows


def _is_merged(rows: pl.DataFrame) -> bool:
    """Whether all rows have the same names and times that grow: as good as every day of a log."""
    same = [pl.col(name).eq_missing(pl.col(name).first()).all() for name in NAMES]
    return rows.is_empty() or bool(
        rows.select(pl.all_horizontal(*same, (pl.col("ts").to_physical().diff() > 0).all())).item()
    )


def best(rows: pl.DataFrame, key: Iterable[str], latest: str | None = None) -> pl.DataFrame:
    """One row for each key. The choice does not depend on the order of the rows."""
    names = list(key)
    if not rows.select(names).is_duplicated().any():
        return rows.sort(names, nulls_last=True)
    others = [name for name in rows.columns if name not in names and name != latest]
    order = [*names, *([latest] if latest else []), *others]
    downwards = [name == latest for name in order]
    return rows.sort(order, descending=downwards, nulls_last=True).unique(names, keep="first", maintain_order=True)
