r"""The lines of a log that a text format reads, as columns: a block of text at a time, by polars.

Before patterns are matched a line is stripped of colours (ANSI escapes), and one that a progress bar has written over
(carriage returns) is taken apart. A line's time is the first date and time in it; who wrote it (`0:` of srun -l,
`[rank0]:` of torchrun, `[1,0]<stdout>:` of mpirun, `node01:`) is what stands before its first colon.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

import polars as pl
from polars.exceptions import PolarsError

from ingest.plausible import RUN_LOG
from ingest.runlog.formats.text.bars import PLAIN, redrawn, without_redrawn
from ingest.runlog.formats.text.blocks import STAMP, any_of, in_file, lines_in_blocks
from ingest.runlog.formats.text.collected import Collected, own_texts
from ingest.runlog.formats.text.step_lines import StepLineWriter
from ingest.runlog.formats.text.times import STAMP_COLUMNS, Stamps, moments, zone_named_in
from ingest.runlog.formats.text.unreadable import PATTERN
from ingest.runlog.lines import CUT
from ingest.runlog.spool import Spool, joined
from ingest.runlog.text_format import DURATIONS, NUMBERS, OF_EPOCHS
from ingest.runlog.translation import RefusedLine
from ingest.tables import RAW_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ingest.runlog.text_format import LineKind, TextFormat

US: Final = 1_000_000

_US_STAMP: Final = r"\b(\d{2})/(\d{2})/(\d{4}) (\d{2}:\d{2}:\d{2})(?:[.,](\d{1,9}))?\b"
_HAS_CLOCK: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}"
"""Pattern that every line with a time matches, in any form of time."""
_CLOCK: Final = r"^[^\w]{0,3}(?:[\w.-]+:\s*)?[^\w]{0,3}(\d{2}:\d{2}:\d{2})(?:[.,](\d{1,9}))?\b"
_YEARLESS: Final = (
    r"(?:^|[^\w])[IWEF](\d{4}) (\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?\b",
    r"(?:^|[\s\[(])(\d{2}[-/]\d{2})[ T](\d{2}:\d{2}:\d{2})(?:[.,](\d{1,9}))?\b",
    r"\b((?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}\d{1,2}) (\d{2}:\d{2}:\d{2})(?:[.,](\d{1,9}))?\b",
)
"""Stamps without a year: `I1002 13:23:36.123456` (glog, absl, c10), `10-02 13:23:36`, `Oct  2 13:23:36` (syslog)."""
_WRITER: Final = (
    r"^\s*(\[[^\]\s]+\](?:<std[a-z]{3}>)?:|\[pod/[^\]\s]+\]|\[\w+\d\|\d+\]:|[A-Za-z0-9_.-]+:\s"
    r"|\([\w.-]+ pid=\d+[^)]*\)|[\w.-]+ +\| )"
)
_ELAPSED: Final = r"^(?:(\d+)(?: days?, |d ))?(?:(?:(\d+)(?::|h ))?(\d+)(?::|m ))?(\d+(?:\.\d+)?)s?$"
SCHEMA: Final[dict[str, pl.DataType]] = {
    "line": pl.Int64(),
    "part": pl.Int32(),
    "kind": pl.Int16(),
    "writer": pl.String(),
    **STAMP_COLUMNS,
    **dict.fromkeys(NUMBERS, pl.Float64()),
    "elapsed_s": pl.Float64(),
    "text": pl.String(),
}
"""Columns of records: the kind is the number of a `LineKind`, `text` is kept where it may still be used."""


@dataclass
class FormatScan:
    """The records of a log for one format.

    Attributes:
        form: the format.
        first_stamp: the first line with a time, whatever it is about, as a record.
        driver: version of the GPUs' driver, where nvidia-smi was run before training.
        stamps: which stamps its records have.
        has_steps: there is a whole line of a step.
        last_steps: the last line of each kind of steps: `line`, `part`, and what the file has.
        step_lines: puts the lines of a step together; None: each line is a record.
    """

    form: TextFormat
    first_stamp: pl.DataFrame | None = None
    driver: str | None = None
    stamps: Stamps = field(default_factory=Stamps)
    _records: Spool = field(default_factory=lambda: Spool(SCHEMA))
    _counts: Counter[str] = field(default_factory=Counter)
    _cut: list[RefusedLine] = field(default_factory=list)
    _damaged: list[_Damaged] = field(default_factory=list)
    _steps: dict[int, str] = field(default_factory=dict)
    _unread: list[RefusedLine] = field(default_factory=list)
    has_steps: bool = False
    last_steps: dict[int, tuple[int, int, str]] = field(default_factory=dict)
    step_lines: StepLineWriter | None = None

    def __post_init__(self) -> None:
        """Pass the kinds of records that are steps to the stamps."""
        kinds = frozenset(self.form.numbers_of("step"))
        self.stamps.collected = Collected(kinds)

    def take(self, lines: pl.DataFrame, *, is_last: bool) -> None:
        """Read lines (`line`, `part`, `text`); the last one of the last block may be cut off."""
        last = lines.select("line", "part").row(-1) if is_last and lines.height else None
        kinds = _kinds(lines["text"], self.form)
        read = _without_redrawn(lines.with_columns(kind=kinds).filter(pl.col("kind") >= 0), self.form)
        records: list[pl.DataFrame] = []
        for number in read["kind"].unique().sort():
            kind = self.form.lines[number]
            own = read.filter(pl.col("kind") == number).drop("kind")
            if (
                last is not None
                and own.height
                and own["line"][-1] == last[0]
                and _may_be_truncated(kind, own["text"][-1])
            ):
                self._cut.append(RefusedLine(own["line"][-1], CUT, in_file(own[-1:], own)["text"][0][:RAW_LIMIT]))
                own = own.head(-1)
            if kind.kind == "step" and own.height:
                self._steps[number] = own["text"][-1]
                self.last_steps[number] = in_file(own[-1:], own).select("line", "part", "text").row(-1)
            records += self._whole(number, kind, own, last)
        if records:
            every = pl.concat(records).sort("line", "part", maintain_order=True) if len(records) > 1 else records[0]
            self.stamps.take(every)
            self._records.add(every if self.step_lines is None else self.step_lines.take(every))
        if last is not None and kinds[-1] < 0 and self._begins_a_step(lines["text"][-1]):
            self._cut.append(RefusedLine(last[0], CUT, in_file(lines[-1:], lines)["text"][0][:RAW_LIMIT]))

    def finish(self) -> None:
        """The log has ended."""
        rest = None if self.step_lines is None else self.step_lines.finish()
        if rest is not None:
            self._records.add(rest)
        self.stamps.named = next(filter(None, map(zone_named_in, self._steps.values())), "")

    def _begins_a_step(self, text: str) -> bool:
        """Whether a line that is of no kind begins like a line of a step; all but its numbers has to be the same."""
        begin = _without_numbers(text.partition("\x1b")[0])  # a colour that is cut is still there
        return begin != "" and any(_without_numbers(step).startswith(begin) for step in self._steps.values())

    def _whole(
        self, number: int, kind: LineKind, lines: pl.DataFrame, last: tuple[int, int] | None
    ) -> Iterator[pl.DataFrame]:
        """The records of whole lines of a kind; damaged ones are kept for later."""
        if lines.is_empty():
            return
        records = _records(number, kind, lines, us_dates=self.form.us_dates)
        whole = pl.lit(value=True) if not kind.ends else pl.col("text").str.contains(kind.ends)
        absent = [pl.all_horizontal(pl.col(each).is_null() for each in _columns(name)) for name in kind.needs]
        is_bad = records.select(~whole | pl.any_horizontal(pl.lit(value=False), *absent)).to_series()
        records = records if kind.kind == "facts" else in_file(records, lines)
        short = pl.col("text").str.head(RAW_LIMIT)
        if is_bad.any():
            self._damaged.append(_Damaged(kind, records.filter(is_bad).with_columns(short), last))
            records = records.filter(~is_bad)
        if kind.kind == "unread":
            self._unread += [RefusedLine(line, kind.why, text) for line, text in records.select("line", short).rows()]
            records = records.clear()
        self.has_steps = self.has_steps or (kind.kind == "step" and records.height > 0)
        is_early = self._counts["step"] < _EARLY
        self._counts[kind.event or kind.kind] += records.height
        yield _with_kept_text(records, kind, is_early=is_early)

    @property
    def is_numbered(self) -> bool:
        """Whether its steps have numbers: of their own, or of a progress bar."""
        own = any({"step", "steps_before"} & dict(self.form.lines[number].fields).keys() for number in self._steps)
        return own or self._counts["bar"] > 0

    @property
    def refused(self) -> list[RefusedLine]:
        """Damaged lines, classified only on request: most lines of another format look damaged."""
        apart = [] if self.step_lines is None else self.step_lines.refused
        damaged = (one for some in self._damaged for one in some.refused(self.form.title))
        return [*self._cut, *self._unread, *apart, *damaged]

    def counts(self) -> dict[str, int]:
        """How many lines of each kind there are, by its name, damaged ones too."""
        every = self._counts.copy()
        every["damaged"] = len(self._cut) + sum(some.lines.height for some in self._damaged)
        return {name: count for name, count in every.items() if count}

    def parts(self, rows: int) -> Iterator[pl.DataFrame]:
        """The records in the order of the log, in frames of about so many."""
        return (without_redrawn(part, self.form) for part in joined(self._records.frames(), rows))

    def records(self) -> pl.DataFrame:
        """All records in the order of the log."""
        return without_redrawn(self._records.whole(), self.form)


def _kinds(text: pl.Series, form: TextFormat) -> pl.Series:
    """The kind of each line: the number of the first that it is of; -1: of none.

    Nearly all lines that are read are of the first kind, or progress bars: the others are searched once for all kinds.
    """
    kinds = pl.repeat(-1, text.len(), dtype=pl.Int16, eager=True)
    rest = pl.int_range(text.len(), eager=True)
    for number, kind in enumerate(form.lines):
        if number == 1:
            kinds, rest = _plain_bars(text, form, kinds, rest)
            rest = rest.filter(text[rest].str.contains(form.starts))
        if rest.is_empty():
            break
        mine = (text[rest] if number else text).str.contains(kind.pattern)
        kinds = kinds.scatter(rest.filter(mine), number)
        rest = rest.filter(~mine)
    return kinds


def _plain_bars(text: pl.Series, form: TextFormat, kinds: pl.Series, rest: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The kinds with those of plain progress bars, and the lines that are left: a bar is searched for no other kind."""
    number = next((number for number, line in enumerate(form.lines) if line.kind == "bar"), 0)
    if not number:
        return kinds, rest
    bars = rest.filter(text[rest].str.contains(PLAIN))
    shown = text[bars]
    earlier = "|".join(f"(?:{line.pattern})" for line in form.lines[1:number])
    is_bar = shown.str.contains(form.lines[number].starts)
    is_bar = is_bar & ~shown.str.contains(earlier) if earlier else is_bar
    mine = bars.filter(is_bar)
    kinds = kinds.scatter(mine, number)
    return kinds, rest.filter(kinds[rest] < 0)


def _without_redrawn(lines: pl.DataFrame, form: TextFormat) -> pl.DataFrame:
    """Lines (`line`, `part`, `text`, `kind`) without redrawn bars: only what is left of them is read in full."""
    bars = [(number, dict(line.fields), line.ends) for number, line in enumerate(form.lines) if line.kind == "bar"]
    if len(bars) != 1 or lines.is_empty():
        return lines
    ((number, fields, ends),) = bars
    is_bar = (pl.col("kind") == number) & pl.col("text").str.contains(PLAIN) & pl.col("text").str.contains(ends)
    numbered = [
        number
        for number, line in enumerate(form.lines)
        if line.kind == "step" and not line.behind_bar and "step" not in dict(line.fields)
    ]
    drawn = lines.with_columns(
        is_bar=is_bar,
        is_numbered=pl.col("kind").is_in(numbered),
        step=_number(fields["step"]),
        total=_number(fields["total"]),
    )
    return drawn.filter(~redrawn()).select(lines.columns)


@dataclass(frozen=True)
class _Damaged:
    """Lines of a kind that are no whole ones; `last` is the place of the last one of the log if no line end follows."""

    kind: LineKind
    lines: pl.DataFrame
    last: tuple[int, int] | None

    def refused(self, title: str) -> Iterator[RefusedLine]:
        """Each with the reason; the last one of a log is cut, and may be whole another time."""
        for row in self.lines.iter_rows(named=True):
            absent = [name for name in self.kind.needs if all(row[each] is None for each in _columns(name))]
            why = f"no {' and no '.join(absent)} in it" if absent else "it does not end as one"
            reason = f"damaged line of {title} ({self.kind.event or self.kind.kind}): {why}"
            is_cut = (row["line"], row["part"]) == self.last
            yield RefusedLine(row["line"], CUT if is_cut else reason, row["text"][:RAW_LIMIT])


def _with_kept_text(records: pl.DataFrame, kind: LineKind, *, is_early: bool) -> pl.DataFrame:
    """Records with the text of facts, and of lines that may be refused once the whole log is read.

    These have no number of a step, or no time: only the first ones, before any time, are refused for want of it.
    """
    if kind.kind == "facts":
        return records
    without = records.with_columns(text=pl.lit(None, dtype=pl.String))
    if kind.kind not in {"step", "values"}:
        return without
    untimed = pl.col("naive").is_null() & pl.col("of_day").is_null()
    refusable = pl.col("step").is_null() | (untimed if is_early else pl.lit(value=False))
    if not records.select(refusable.any()).item():
        return without
    return records.with_columns(text=pl.when(refusable).then(pl.col("text").str.head(RAW_LIMIT)))


_EARLY: Final = 10_000
"""Lines of steps at the beginning of a log; text of later ones would fill the temporary folder."""


def _without_numbers(text: str) -> str:
    """A line with all numbers, and all space, alike; a number may be cut anywhere.

    >>> _without_numbers("iter  10: loss 3.5e-0"), _without_numbers("iter 9: loss -")
    ('iter #: loss #', 'iter #: loss #')
    """
    return re.sub(r"[-+.0-9]+(?:[eE][-+]?[0-9]*)?", "#", " ".join(text.split()))


def _may_be_truncated(kind: LineKind, text: str) -> bool:
    """Whether a line without a line end may be cut within a value: 6.0 of what was to be 6.08."""
    line = pl.Series([text])
    values = [line.str.extract(pattern)[0] for _, pattern in kind.fields]
    return any(value and text.endswith(value) for value in values)


def _columns(name: str) -> tuple[str, ...]:
    """The columns of a field that a line needs; of `duration` either unit will do."""
    if name in {"steps_before", "steps_per_epoch", *OF_EPOCHS}:
        return ("step",)
    return {"elapsed": ("elapsed_s",), "duration": DURATIONS}.get(name, (name,))


@dataclass
class Sample:
    """Lines of a log that a message shows.

    Attributes:
        first: the first that is not blank.
        candidates: the first ones that look like steps.
        unreadable: the first one that counts steps in a way that is not read (`unreadable.PATTERN`).
    """

    first: str | None = None
    unreadable: str | None = None
    candidates: list[str] = field(default_factory=list)

    def take(self, lines: pl.DataFrame) -> None:
        """Look at lines until there are both."""
        if self.first is None:
            self.first = next(iter(lines["text"].filter(lines["text"].str.contains(r"\S")).head(1)), None)
        if self.unreadable is None:
            self.unreadable = next(iter(lines["text"].filter(lines["text"].str.contains(PATTERN)).head(1)), None)
        if not self.candidates:
            self.candidates = _similar_lines(lines["text"].filter(lines["text"].str.contains(_LIKE_A_STEP)))


def _similar_lines(lines: pl.Series) -> list[str]:
    """The first line that has a loss of training, or any loss, or just the first, and those like it behind it."""
    has_loss = lines.str.contains("(?i)loss")
    trains = lines.str.replace_all(HELD_OUT, "").str.contains("(?i)loss")
    at = next((int(mask.arg_true()[0]) for mask in (trains, has_loss) if mask.any()), 0)
    some = lines[at : at + _COMPARED].to_list()
    return [line for line in some if _without_numbers(line) == _without_numbers(some[0])]


HELD_OUT: Final = r"(?i)(?:val|eval|test|dev)[a-z]*[\s_/.-]*loss"
"""The name of a loss that is none of training."""

_COMPARED: Final = 100
"""Lines behind one that looks like a step in which others like it are searched."""


_LIKE_A_STEP: Final = r"(?i)\b[a-z_]*(?:step|iter|iteration|batch|update)s?\b[^\w\n]{0,12}\d+.*\D\d+\.\d"


def scan(
    chunks: Iterable[bytes], origin: str, forms: Sequence[TextFormat], sample: Sample | None = None
) -> list[FormatScan]:
    """Read a log by the first of the formats that has steps in it: that one alone; all of them where none has.

    All formats read along until one has a step: a log may begin with thousands of other lines.

    Args:
        chunks: the log.
        origin: its name, for messages.
        forms: the formats, in the order in which they are tried.
        sample: gets lines for a message as long as no format has steps.
    """
    scans = [FormatScan(form, step_lines=StepLineWriter(form)) for form in forms]
    stamp: pl.DataFrame | None = None
    driver: str | None = None
    words: list[str] = []
    for number, (lines, is_last) in enumerate(lines_in_blocks(chunks, origin, words)):
        stamp, driver = (stamp, driver) if number else (_first_stamp(lines), _driver(lines))
        scans = _taken(scans, lines, is_last=is_last)
        if sample is not None and not any(one.has_steps for one in scans):
            sample.take(lines)
        words[:] = [word for one in scans for word in one.form.words] if _have_words(scans) else []
    for one in scans:
        one.finish()
        one.first_stamp, one.driver = stamp, driver
    return scans


def _have_words(scans: Sequence[FormatScan]) -> bool:
    """Whether lines without a word can be passed over."""
    return all(one.form.words for one in scans)


def _taken(scans: list[FormatScan], lines: pl.DataFrame, *, is_last: bool) -> list[FormatScan]:
    """Have formats read lines, until one has a step: that one alone; all of them where none has.

    One whose steps have no numbers comes behind those whose have: two frameworks may print into one log.
    """
    for one in scans:
        mine = _with_word(lines, one.form) if len(scans) > 1 else lines
        if mine.height:
            one.take(mine, is_last=is_last)
        if one.has_steps and one.is_numbered:
            return [one]
    return next(([one] for one in scans if one.has_steps), scans)


def _with_word(lines: pl.DataFrame, form: TextFormat) -> pl.DataFrame:
    """The lines that a format may read, and the last one; none where there are none that it may."""
    if not form.words or lines.is_empty():
        return lines
    has_word = lines["text"].str.contains(any_of(form.words))
    return lines.filter(has_word.scatter(lines.height - 1, values=[True])) if has_word.any() else lines.clear()


def scan_lines(form: TextFormat, text: str) -> FormatScan:
    """The records of lines of a log for one format."""
    one = FormatScan(form)
    for lines, is_last in lines_in_blocks([text.encode()], "text", []):
        one.take(lines, is_last=is_last)
    return one


def _first_stamp(lines: pl.DataFrame) -> pl.DataFrame | None:
    for some in lines.iter_slices(_SOME):
        stamps = some.select("line", _stamp("text")).unnest("stamp").filter(pl.col("date").is_not_null())
        first = moments(stamps.with_columns(**_NO_CLOCK)).filter(pl.col("naive").is_not_null()).head(1)
        if first.height:
            return first.select("line", *STAMP_COLUMNS)
    return None


_NO_CLOCK: Final = dict.fromkeys(("month_day", "clock", "clock_fraction"), pl.lit(None, dtype=pl.String))

_SOME: Final = 4_096
"""Lines that are searched at a time for the first of something."""


def _driver(lines: pl.DataFrame) -> str | None:
    """The driver's version in the head of nvidia-smi's table."""
    heads = lines["text"].filter(lines["text"].str.contains("Driver Version", literal=True))
    found = heads.str.extract(r"\bDriver Version: ?(\d+(?:\.\d+)+)").drop_nulls()
    return str(found[0]) if found.len() else None


def _stamp(column: str, anchor: str = "") -> pl.Expr:
    groups = pl.col(column).str.extract_groups(anchor + STAMP).struct
    return groups.rename_fields(["date", "time", "fraction", "offset"]).alias("stamp")


def _records(number: int, kind: LineKind, lines: pl.DataFrame, *, us_dates: bool) -> pl.DataFrame:
    """Lines of one kind as records."""
    patterns = {} if kind.kind == "facts" else dict(kind.fields)
    stamped = _with_stamps(lines, us_dates=us_dates, may_be_bar=kind.kind == "bar")
    read = _with_numbers(stamped, patterns).with_columns(kind=pl.lit(number, dtype=pl.Int16))
    absent = [_nothing().alias(name) for name in SCHEMA if name not in read.columns]
    return read.with_columns(absent).select(pl.col(name).cast(kind_) for name, kind_ in SCHEMA.items())


def _with_stamps(lines: pl.DataFrame, *, us_dates: bool, may_be_bar: bool) -> pl.DataFrame:
    """Lines with the columns of their stamps and their writer, in their order."""
    if not us_dates and not may_be_bar and (dated := _all_dated(lines)) is not None:
        return moments(_with_own_stamps(dated))
    has_clock = lines["text"].str.contains(_HAS_CLOCK)
    if may_be_bar:
        has_clock &= ~lines["text"].str.contains(PLAIN)
    stamped = _us_stamped if us_dates else _stamped
    parts = [
        moments(part)
        for part in (_with_own_stamps(stamped(lines.filter(has_clock))), _unstamped(lines.filter(~has_clock)))
        if part.height
    ]
    return parts[0] if len(parts) == 1 else pl.concat(parts, how="diagonal").sort("line", "part", maintain_order=True)


def _with_numbers(lines: pl.DataFrame, patterns: Mapping[str, str]) -> pl.DataFrame:
    """Lines with the fields of their kind. Each pattern is searched once, not for each use of its value."""
    texts = lines.with_columns(_text_of(pattern).alias(name) for name, pattern in patterns.items())
    lengths = {"elapsed": "elapsed_s"}
    numbers = texts.with_columns(
        _seconds(name).alias(lengths[name]) if name in lengths else _number_in(pl.col(name), pattern).alias(name)
        for name, pattern in patterns.items()
    )
    read = numbers.with_columns(_possible(lengths.get(name, name)) for name in patterns)
    if "steps_before" in patterns:
        before = pl.col("steps_before") + 1
        read = read.with_columns(step=pl.coalesce("step", before) if "step" in patterns else before)
    if "steps_per_epoch" in patterns:
        epochs = pl.col("epoch") - 1 if "epoch" in patterns else pl.col("epochs_before")
        read = read.with_columns(step=pl.col("step") + epochs * pl.col("steps_per_epoch"))
        read = read.with_columns(_possible("step"))
    return read


def _with_own_stamps(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines with their own stamps behind a collector's, if any has one."""
    texts = own_texts(lines)
    return lines if texts is None else lines.hstack(texts)


def _unstamped(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines without a time in them."""
    names = ("date", "time", "fraction", "offset", "month_day", "clock", "clock_fraction")
    absent = dict.fromkeys(names, pl.lit(None, dtype=pl.String))
    return lines.with_columns(**absent, writer=pl.col("text").str.extract(_WRITER))


def _all_dated(lines: pl.DataFrame) -> pl.DataFrame | None:
    """Lines with their stamps if each has a date and no digit before it, which is read in half the time; else None."""
    ends = pl.concat([lines["text"].head(1), lines["text"].tail(1)])
    if not ends.str.contains(f"^[^0-9]*{STAMP}").all():
        return None
    anchored = lines.with_columns(_stamp("text", "^[^0-9]*")).unnest("stamp")
    if anchored["date"].has_nulls():
        return None
    begins = bool(lines["text"].str.contains("^[0-9]").all())  # nothing stands before the stamp
    writer = pl.lit(None, dtype=pl.String) if begins else pl.col("text").str.extract(_WRITER)
    return anchored.with_columns(**_NO_CLOCK, writer=writer)


def _stamped(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines with their stamps."""
    if lines.height and (dated := _all_dated(lines)) is not None:
        return dated
    stamped = lines.with_columns(_stamp("text"), writer=pl.col("text").str.extract(_WRITER)).unnest("stamp")
    if not stamped["date"].has_nulls():
        return stamped.with_columns(**_NO_CLOCK)
    return _without_year(stamped).with_columns(_clock()).unnest("clock")


def _us_stamped(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines whose dates have the month first and the year last, with their stamps; one with an offset goes before."""
    names = {1: "_month", 2: "_day", 3: "_year", 4: "_time", 5: "_fraction"}
    groups = pl.col("text").str.extract_groups(_US_STAMP).struct
    parts = lines.with_columns(_stamp("text"), *(groups.field(str(group)).alias(name) for group, name in names.items()))
    parts = parts.unnest("stamp").with_columns(_date=pl.concat_str("_year", "_month", "_day", separator="-"))
    own = pl.col("offset").is_null()
    return parts.with_columns(
        *(pl.when(own).then(f"_{name}").otherwise(name).alias(name) for name in ("date", "time", "fraction")),
        writer=pl.col("text").str.extract(_WRITER),
        **_NO_CLOCK,
    )


def _without_year(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines without a date, with their stamps that lack only the year."""
    names = ("month_day", "time", "fraction")
    found = [pl.col("text").str.extract_groups(pattern).struct for pattern in _YEARLESS]
    lacking = pl.col("date").is_null()
    values = {
        name: pl.when(lacking).then(pl.coalesce(one.field(str(group)) for one in found))
        for group, name in enumerate(names, 1)
    }
    return lines.with_columns(
        month_day=values["month_day"],
        **{name: pl.coalesce(name, values[name]) for name in ("time", "fraction")},
    )


def _clock() -> pl.Expr:
    return pl.col("text").str.extract_groups(_CLOCK).struct.rename_fields(["clock", "clock_fraction"]).alias("clock")


def _nothing() -> pl.Expr:
    return pl.lit(None, dtype=pl.Float64)


@cache
def _in_ascii(pattern: str) -> str:
    r"""A pattern whose classes are those of ASCII, in which numbers are: it takes a third less time.

    >>> _in_ascii(r"step (\d+)"), _in_ascii(r"loss ([^ ]+)")
    ('(?-u)step (\\d+)', 'loss ([^ ]+)')
    """
    try:
        pl.Series([""]).str.extract(f"(?-u){pattern}")
    except PolarsError:  # it could match half of a character
        return pattern
    return f"(?-u){pattern}"


def _text_of(pattern: str) -> pl.Expr:
    return pl.col("text").str.extract(_in_ascii(pattern))


def _number(pattern: str) -> pl.Expr:
    return _number_in(_text_of(pattern), pattern)


def _number_in(found: pl.Expr, pattern: str) -> pl.Expr:
    """The number of a text that a pattern found."""
    text = found.str.replace_all(",", "", literal=True)
    if _SUFFIXES not in pattern:
        return text.cast(pl.Float64, strict=False)
    digits = text.str.strip_chars_end(_SUFFIXES).cast(pl.Float64, strict=False)
    size = text.str.extract(f"([{_SUFFIXES}])$")
    return digits * size.replace_strict(_SIZES, default=1.0, return_dtype=pl.Float64)


def _possible(name: str) -> pl.Expr:
    """A column of a field, null where it is too large: garbled digits. A loss may be infinite; durations are kept.

    Whoever uses a duration checks it: a step whose duration is impossible is a step.
    """
    value = pl.col(name)
    if name in {"loss", *DURATIONS}:
        return value
    too_large = (value.abs() > _LARGEST.get(name, 2.0**53)) & value.is_not_nan()
    return pl.when(too_large).then(None).otherwise(value).alias(name)


_LARGEST: Final = {"elapsed_s": 1e9, "seconds": 1e9, "total_hours": 1e9 / 3600} | dict.fromkeys(
    ("step", "steps_before", "first_step", "total", "micro_batch"), RUN_LOG["step"].most
)
"""Thirty years, as `timeline.LONGEST_US`, and the highest number of a step; other fields are counts of 53 bits."""

_SUFFIXES: Final = "KMGTPE"
_SIZES: Final = {letter: 1e3**power for power, letter in enumerate(_SUFFIXES, 1)}


def _seconds(name: str) -> pl.Expr:
    """A length of time such as `1:52:09`, `1 day, 2:03:04`, `1h 52m 9s`, `12.5` or `12500ms`, in seconds."""
    text = pl.col(name)
    size = pl.when(text.str.ends_with("ms")).then(0.001).otherwise(1.0)
    parts = text.str.strip_suffix("ms").str.strip_chars_end()
    groups = parts.str.extract_groups(_ELAPSED).struct
    days, hours, minutes, seconds = (groups.field(str(group)).cast(pl.Float64) for group in range(1, 5))
    larger = days.fill_null(0) * 86_400 + hours.fill_null(0) * 3_600 + minutes.fill_null(0) * 60
    return (larger + seconds) * size
