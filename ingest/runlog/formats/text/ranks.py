"""Lines that several ranks print: of each kind of line, one rank stands for all that print the same.

Which rank prints what differs: Megatron-LM prints steps on the last rank and checkpoints on the first. Where lines have
no times, those of a rank that is a few lines late look like steps that were run again, so they are left out first.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.runlog.text_format import TextFormat

_COUNTED: Final = ("step", "start", "train", "begin", "end", "time", "facts")
"""Kinds of lines that count."""


def without_repeats_of_ranks(records: pl.DataFrame, form: TextFormat) -> pl.DataFrame:
    """Records (`scan.SCHEMA`) without those that repeat another rank's.

    Of a kind of lines the rank with most of them is kept; of two alike, the one that is first in the log. Another is
    left out where it prints no step that this one does not, nor any more often, while this one prints: a process that
    was started again on another node comes behind it, and stays.

    Args:
        records: in the order of the log.
        form: the format that they are of.
    """
    tally = RankTally(form)
    tally.take(records)
    return tally.without_repeated(records)


@dataclass
class RankTally:
    """Which rank prints which steps how often: what `without_repeats_of_ranks` needs of a log, some records at a time.

    Attributes:
        form: the format that they are of.
    """

    form: TextFormat
    _counts: list[pl.DataFrame] = field(default_factory=list)
    _spans: list[pl.DataFrame] = field(default_factory=list)
    _names: pl.Categories = field(default_factory=pl.Categories.random)

    def take(self, records: pl.DataFrame) -> None:
        """Count records in the order of the log."""
        named = records.filter(pl.col("writer").is_not_null() & _counts(self.form)).select(
            "kind", "line", pl.col("writer").cast(pl.Categorical(self._names)), pl.col("step").fill_null(-1)
        )
        line = pl.col("line")
        self._counts.append(named.group_by("kind", "writer", "step").agg(pl.len()))
        self._spans.append(named.group_by("kind", "writer").agg(since=line.min(), until=line.max()))

    @cached_property
    def _whole(self) -> pl.DataFrame:
        """How many lines (`len`) there are of every `kind`, `writer` and `step`."""
        every = pl.concat(self._counts)
        self._counts.clear()
        return every.group_by("kind", "writer", "step").agg(pl.col("len").sum())

    @cached_property
    def _repeated(self) -> pl.DataFrame:
        """Each `kind` and `writer` whose records repeat those of another."""
        spans = pl.concat(self._spans)
        late = [self._whole.clear().select("kind", "writer")]
        for number in self._whole["kind"].unique():
            is_kind = pl.col("kind") == number
            reach = _reach(spans.filter(is_kind))
            late.append(
                _late(
                    self._whole.filter(is_kind),
                    reach,
                    reach if self.form.lines[number].kind == "step" else _reach(spans),
                )
            )
        return pl.concat(late).with_columns(pl.col("writer").cast(pl.String))

    def without_repeated(self, records: pl.DataFrame) -> pl.DataFrame:
        """Records without those that repeat another rank's."""
        return records.join(self._repeated, on=["kind", "writer"], how="anti", maintain_order="left")

    @property
    def n_repeated(self) -> int:
        """How many records repeat another rank's."""
        counts = self._whole.group_by("kind", pl.col("writer").cast(pl.String)).agg(pl.col("len").sum())
        return int(counts.join(self._repeated, on=["kind", "writer"], how="semi")["len"].sum())

    @property
    def agree_on_steps(self) -> bool:
        """Whether no writer can be of another run: most steps of each are those of the first one."""
        is_step = pl.col("kind").is_in(self.form.numbers_of("step"))
        steps = self._whole.filter(is_step & (pl.col("step") >= 0))
        begins = _reach(pl.concat(self._spans).filter(is_step))
        writers = steps.group_by("writer").agg(n=pl.col("len").sum()).join(begins, on="writer")
        if writers.height < SEVERAL:
            return True
        first = writers.sort("n", "since", descending=[True, False]).row(0, named=True)
        own = steps.filter(pl.col("writer") == first["writer"])["step"].unique()
        shared = steps.filter(pl.col("step").is_in(own.implode())).group_by("writer").agg(shared=pl.col("len").sum())
        others = writers.filter(pl.col("writer") != first["writer"]).join(shared, on="writer", how="left")
        return bool((2 * others["shared"].fill_null(0) > others["n"]).all())


def writers(records: pl.DataFrame, form: TextFormat) -> set[str]:
    """Who wrote records that count, where their lines name them."""
    return set(records.filter(_counts(form))["writer"].drop_nulls().unique())


def _counts(form: TextFormat) -> pl.Expr:
    return pl.col("kind").is_in(form.numbers_of(*_COUNTED))


def _reach(spans: pl.DataFrame) -> pl.DataFrame:
    """The first and the last line of each `writer`: `since`, `until`."""
    return spans.group_by("writer").agg(pl.col("since").min(), pl.col("until").max())


def _late(counts: pl.DataFrame, own: pl.DataFrame, reach: pl.DataFrame) -> pl.DataFrame:
    """The writers whose records of one kind repeat another's: `kind`, `writer`.

    Args:
        counts: of the kind: how many lines (`len`) of each `writer` and `step`.
        own: while which lines each writer printed this kind, as `_reach` has it.
        reach: while which lines it printed what counts for this kind.
    """
    writers = (
        counts.group_by("kind", "writer")
        .agg(n=pl.col("len").sum())
        .join(own.select("writer", begin="since"), on="writer")
        .join(reach, on="writer")
        .sort("n", "begin", descending=[True, False])
    )
    first = writers.row(0, named=True)
    steps = counts.filter(pl.col("writer") == first["writer"]).select("step", most="len")
    more = counts.join(steps, on="step", how="left").filter(pl.col("len") > pl.col("most").fill_null(0))
    late = writers[1:].filter(
        ~pl.col("writer").is_in(more["writer"].unique().implode())
        & (pl.col("since") <= first["until"])
        & (pl.col("until") >= first["since"])
    )
    return late.select("kind", "writer")


SEVERAL: Final = 2
"""Writers of which one may repeat another."""

FURTHEST_APART: Final = 8
"""Lines of steps by which ranks of one run are apart where their output is buffered."""

FEWEST_TURNS: Final = 5
"""Turns in which each of two writers goes on from its own last step, where they are two runs."""


def without_other_runs(records: pl.DataFrame, form: TextFormat) -> tuple[pl.DataFrame, dict[str, int]]:
    """Records without those of other runs, or other loops, that print in turn with the one that prints most.

    Between the steps of one run and those of another lie steps that neither has done. A start, a checkpoint or a fact
    of such a writer is no more of this run than its steps are.

    Args:
        records: in the order of the log.
        form: the format that they are of.

    Returns:
        The records, and how many steps were left out of each writer.
    """
    is_step = pl.col("kind").is_in(form.numbers_of("step"))
    steps = records.filter(is_step & pl.col("writer").is_not_null() & pl.col("step").is_not_null())
    if steps["writer"].n_unique() < SEVERAL:
        return records, {}
    own = {str(writer): rows for (writer,), rows in steps.partition_by("writer", as_dict=True).items()}
    first, *others = sorted(own, key=lambda writer: -own[writer].height)
    apart = [writer for writer in others if _in_turn(own[first], own[writer])]
    is_apart = pl.col("writer").is_in(apart)
    return records.filter(~is_apart.fill_null(value=False)), {writer: own[writer].height for writer in apart}


def _in_turn(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    """Whether the steps of two writers are of two runs: most are of one of them alone, and each goes on from its own.

    Of one run that alternates between two nodes (an elastic launch) a turn goes on where the other's ended, or from a
    checkpoint before it. Where it cannot be determined, they are of one run.
    """
    if 2 * other["step"].is_in(one["step"].unique().implode()).sum() > min(one.height, other.height):
        return False  # ranks that are late
    intervals = {rows["writer"][0]: _print_interval(rows["step"]) for rows in (one, other)}
    steps = pl.concat([one, other]).sort("line", "part").select("writer", "step")
    steps = steps.with_columns(own=pl.col("step").shift(1).over("writer"), before=pl.col("step").shift(1))
    turns = steps.filter((pl.col("writer") != pl.col("writer").shift(1)) & pl.col("own").is_not_null())
    interval = pl.col("writer").replace_strict(intervals, return_dtype=pl.Float64)
    continues = (pl.col("step") - pl.col("own")).is_between(0.5 * interval, 1.5 * interval)
    is_far = (pl.col("step") - pl.col("before")).abs() > FURTHEST_APART * max(intervals.values())
    counts = turns.group_by("writer").agg(n=pl.len(), own=(continues & is_far).sum())
    enough = (pl.col("own") >= FEWEST_TURNS) & (2 * pl.col("own") > pl.col("n"))
    return counts.filter(enough).height == 2


def _print_interval(steps: pl.Series) -> float:
    """Steps from one line of a writer to the next: the median, since a restart goes back, and a lost line ahead."""
    ahead = steps.diff()
    return float(ahead.filter(ahead > 0).median() or 1)  # type: ignore[arg-type]  # numbers


_BEFORE: Final = '(^[[:space:]]*|")'
"""Pattern before a writer: the begin of the line, or of the text in a collector's JSON."""

SHOWN: Final = 8
"""Writers whose commands a warning shows."""


def commands_for(writers: Sequence[str], file: str) -> str:
    """A command for each of the first writers, a line each, and how many others there are."""
    lines = [command_for(writer, file) for writer in writers[:SHOWN]]
    more = len(writers) - SHOWN
    return "\n".join([*lines, f"and so for {more:,} more"] if more > 0 else lines)


_GREPS: Final = {".gz": "zgrep", ".xz": "xzgrep", ".zst": "zstdgrep", ".bz2": "bzgrep"}
"""Programs that search packed files, by their endings."""


def command_for(writer: str, file: str) -> str:
    r"""The command that loads the lines of one writer as a run of its own.

    >>> command_for("node1: ", "train.log")
    'grep -E \'(^[[:space:]]*|")node1: \' train.log | trackside ingest runlog - --set run_id=node1'
    >>> command_for("[rank0]:", "a b.log.gz")
    'zgrep -E \'(^[[:space:]]*|")\\[rank0\\]:\' \'a b.log.gz\' | trackside ingest runlog - --set run_id=rank0'

    Args:
        writer: as the lines begin.
        file: the log's name; `-` is standard input, which has to be put into a file first.
    """
    pattern = _BEFORE + re.sub(r"[][\\.(){}*+?^$|]", r"\\\g<0>", writer)
    grep = next((program for ending, program in _GREPS.items() if file.endswith(ending)), "grep")
    name = re.sub(r"[^\w.-]+", "-", writer).strip("-")
    source = "FILE" if file == "-" else shlex.quote(file)
    return f"{grep} -E {shlex.quote(pattern)} {source} | trackside ingest runlog - --set run_id={shlex.quote(name)}"
