"""Lines that several ranks print: of each kind of line, one rank stands for all that print the same.

Which rank prints what differs: Megatron-LM prints steps on the last rank and checkpoints on the first. Where lines have
no times, those of a rank that is a few lines late look like steps that were run again, so they are left out first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from ingest.runlog.text_format import TextFormat

_COUNTED: Final = ("step", "start", "train", "begin", "end", "time", "facts")
"""Kinds of lines that count."""


def of_one_rank(records: pl.DataFrame, form: TextFormat) -> pl.DataFrame:
    """Records (`scan.SCHEMA`) without those that repeat another rank's.

    Of a kind of lines the rank with most of them is kept; of two alike, the one that is first in the log. Another is
    left out where it prints no step that this one does not, nor any more often, while this one prints: a process that
    was started again on another node comes behind it, and stays.

    Args:
        records: in the order of the log.
        form: the format that they are of.
    """
    numbers = [number for number, line in enumerate(form.lines) if line.kind in _COUNTED]
    named = records.filter(pl.col("writer").is_not_null() & pl.col("kind").is_in(numbers))
    if named["writer"].n_unique() < 2:
        return records
    every = _reach(named)
    late = [
        _late(rows, _reach(rows) if form.lines[number].kind == "step" else every)
        for (number,), rows in named.partition_by("kind", as_dict=True).items()
    ]
    return records.join(pl.concat(late), on=["line", "part", "kind"], how="anti", maintain_order="left")


def _reach(records: pl.DataFrame) -> pl.DataFrame:
    """The first and the last line of each `writer`: `since`, `until`."""
    return records.group_by("writer").agg(since=pl.col("line").min(), until=pl.col("line").max())


def _late(records: pl.DataFrame, reach: pl.DataFrame) -> pl.DataFrame:
    """The records of one kind that repeat another rank's: `line`, `part`, `kind`.

    Args:
        records: of the kind.
        reach: while which lines each writer printed, as `_reach` has it.
    """
    counts = records.group_by("writer", step=pl.col("step").fill_null(-1)).len()
    writers = (
        records.group_by("writer")
        .agg(n=pl.len(), begin=pl.col("line").min())
        .join(reach, on="writer")
        .sort("n", "begin", descending=[True, False])
    )
    first = writers.row(0, named=True)
    own = counts.filter(pl.col("writer") == first["writer"]).select("step", most="len")
    more = counts.join(own, on="step", how="left").filter(pl.col("len") > pl.col("most").fill_null(0))
    late = writers[1:].filter(
        ~pl.col("writer").is_in(more["writer"].implode())
        & (pl.col("since") <= first["until"])
        & (pl.col("until") >= first["since"])
    )
    return records.filter(pl.col("writer").is_in(late["writer"].implode())).select("line", "part", "kind")


FURTHEST_APART: Final = 8
"""Steps by which ranks of one run are apart where their output is buffered."""

FEWEST_TURNS: Final = 5
"""Times that a log goes on further ahead, and back again, which has steps of two runs: a restart goes back once."""


def of_one_run(records: pl.DataFrame, form: TextFormat) -> tuple[pl.DataFrame, dict[str, int]]:
    """Records without the steps of other runs, or other loops, that print in turn with the one that prints most.

    Between the steps of one run and those of another lie steps that neither has done.

    Args:
        records: in the order of the log.
        form: the format that they are of.

    Returns:
        The records, and how many were left out of each writer.
    """
    is_step = pl.col("kind").is_in([number for number, line in enumerate(form.lines) if line.kind == "step"])
    steps = records.filter(is_step & pl.col("writer").is_not_null() & pl.col("step").is_not_null())
    if steps["writer"].n_unique() < 2:
        return records, {}
    counts = steps.group_by("writer", maintain_order=True).len().sort("len", descending=True, maintain_order=True)
    first, *others = counts["writer"]
    apart = [writer for writer in others if _turns(steps.filter(pl.col("writer").is_in([first, writer])))]
    is_apart = is_step & pl.col("writer").is_in(apart)
    return records.filter(~is_apart.fill_null(value=False)), dict(counts.filter(pl.col("writer").is_in(apart)).rows())


def _turns(steps: pl.DataFrame) -> bool:
    """Whether the steps of two writers go far ahead and far back in turn, and most are of one of them alone."""
    own, other = steps.partition_by("writer")
    if 2 * other["step"].is_in(own["step"].unique().implode()).sum() > min(own.height, other.height):
        return False  # ranks that are late
    ahead = steps.select(pl.when(pl.col("writer") != pl.col("writer").shift(1)).then(pl.col("step").diff())).to_series()
    return min(int((ahead > FURTHEST_APART).sum()), int((ahead < -FURTHEST_APART).sum())) >= FEWEST_TURNS
