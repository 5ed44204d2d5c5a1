r"""OpenMetrics and Prometheus text with timestamps, line by line: readings of series, and why a line is refused.

    DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 97 1795247700.015
    {"node.load", instance="n1"} 3 1795247700015

The text comes in chunks, and of each chunk only the readings are kept. Nearly all lines are a name with labels, a value
and a time, one space between them: those are split at the separator (`} `), and the part before it is parsed once
for each series. The others (tabs, exemplars, no labels) are taken apart by a regular expression.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from ingest.errors import InputError, UnrecognisedInputError, UntimedError, shorten
from ingest.files.input import LONGEST_LINE
from ingest.future import TOLERANCE
from ingest.load_warnings import LoadWarning
from ingest.plausible import EARLIEST_S
from ingest.tables import RAW_LIMIT, REAL, TEXT, WHOLE, Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from ingest.prometheus.client.xor_chunks import Whole
    from ingest.prometheus.series.gather import Gathered, Gathering, Real

MILLISECONDS_FROM: Final = 1e11
"""Timestamps from here on are milliseconds (the older text format's): as seconds they would lie past the year 5000."""

AHEAD_S: Final = TOLERANCE.total_seconds()
"""How far a server's clock may be ahead; later readings count as in the future."""

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_ITEM = rf"(?:(?:[a-zA-Z_][a-zA-Z0-9_]*|{_QUOTED})[ \t]*=[ \t]*)?{_QUOTED}"
_BRACES = rf"\{{[ \t]*(?:{_ITEM}(?:[ \t]*,[ \t]*{_ITEM})*[ \t]*,?[ \t]*)?\}}"
_SERIES = rf"(?:{_NAME})?[ \t]*{_BRACES}"
_LINE = rf"^(?:({_SERIES})[ \t]*|({_NAME})[ \t]+)([^ \t{{}}\"#]+)(?:[ \t]+([^ \t#]+))?[ \t]*(?:#.*)?$"
_LABEL = re.compile(rf"(?:([a-zA-Z_][a-zA-Z0-9_]*|{_QUOTED})[ \t]*=[ \t]*)?({_QUOTED})")
_ESCAPE = re.compile(r"\\(.)")

_UNWANTED, _INVALID, _UNPLACED = -1, -2, -3
_UNTIMED: Final = "no timestamp: a scrape alone does not record when it was made"
_BOM: Final = b"\xef\xbb\xbf"
_NEWLINE: Final = 10
NO_LINE: Final = "not a line of the text format"
"""Reason for the refusal of a line without a metric's name."""

REFUSED: Final[Schema] = {"line": WHOLE, "reason": TEXT, "raw": TEXT}
"""Rows that are refused; `line` is null where there are no lines."""


class OpenMetricsText(NamedTuple):
    """The contents of a text.

    Attributes:
        gathered: the readings of the requested series.
        n_lines: lines that are not comments and not blank.
        refused: those that were refused: line, reason, raw.
        n_skipped: those of other metrics.
        warnings: its warnings.
    """

    gathered: Gathered
    n_lines: int
    refused: pl.DataFrame
    n_skipped: int
    warnings: list[LoadWarning]


@dataclass
class TextReader:
    """One text that is being read.

    Attributes:
        origin: its name.
        requested: the requested metrics.
        refuse: returns the reason to refuse the lines of a series (its labels, with `__name__`); None: accepted.
        gathering: takes the readings.
        latest_s: an epoch; no reading can be later.
    """

    origin: str
    requested: Collection[str]
    refuse: Callable[[dict[str, str]], str | None]
    gathering: Gathering
    latest_s: float
    _numbers: dict[str, int] = field(default_factory=dict)
    _reasons: list[str] = field(default_factory=list)
    _refused: list[pl.DataFrame] = field(default_factory=list)
    _n_lines: int = 0
    _n_skipped: int = 0
    _n_requested: int = 0
    _n_untimed: int = 0
    _cut: bool = False

    def read(self, chunks: Iterable[bytes]) -> OpenMetricsText:
        """All of it.

        Raises:
            UnrecognisedInputError: it is empty or of another kind.
            UntimedError: No line of a requested metric has a timestamp.
            InputError: it has a line that is too long to be one.
        """
        at, beginning = 0, ""
        for lines in self._lines(chunks):
            first = self._read(lines, at)
            beginning = beginning or first
            at += len(lines)
            if self._n_lines and not self._n_requested:
                break
        if not self._n_requested:
            raise unrecognised(self.origin, beginning)
        gathered, refused = self.gathering.finish(), pl.concat([pl.DataFrame(schema=REFUSED), *self._refused])
        n_requested = self._n_lines - self._n_skipped
        if n_requested and self._n_untimed == n_requested:
            raise UntimedError(
                f"{self.origin}: none of its lines has a timestamp: a scrape alone does not record when it was made\n"
                "Write it with timestamps, as SERVER/federate, VictoriaMetrics' /api/v1/export/prometheus and promtool "
                "tsdb dump-openmetrics do"
            )
        return OpenMetricsText(gathered, self._n_lines, refused, self._n_skipped, self._warnings(gathered))

    def _warnings(self, gathered: Gathered) -> list[LoadWarning]:
        cut = [LoadWarning("file_cut")] if self._cut else []
        return [*cut, *conflicts(gathered)]

    def _lines(self, chunks: Iterable[bytes]) -> Iterator[pl.Series]:
        """Whole lines of each chunk, and at last the rest behind the last end of a line."""
        rest = b""
        for number, chunk in enumerate(chunks):
            data = rest + (chunk.removeprefix(_BOM) if number == 0 else chunk)
            end = data.rfind(b"\n") + 1
            if end:
                yield _as_lines(data[:end])
            rest = data[end:]
            if len(rest) > LONGEST_LINE and self._n_requested:
                raise InputError(f"{self.origin}: a line is longer than {LONGEST_LINE:,} bytes; is the file damaged?")
            if len(rest) > LONGEST_LINE:
                break
        if rest:
            self._cut = rest.strip() not in {b"", b"# EOF"}
            yield pl.Series([rest[: LONGEST_LINE + 1].decode(errors="replace")])

    def _read(self, lines: pl.Series, at: int) -> str:
        """Lines, of which `at` come before; returns the first that is no comment."""
        raw = lines.str.strip_chars(" \t\r\n").alias("raw").to_frame().with_row_index("line", offset=at + 1)
        parts = raw.with_columns(_apart("raw", "} ", "head", "rest")).unnest("apart")
        parts = parts.with_columns(_apart("rest", " ", "text", "stamp")).unnest("apart")
        parts = parts.with_columns(value=pl.col("text").cast(REAL, strict=False), at=_number("stamp"))
        plain = pl.all_horizontal(pl.col("value", "at").is_not_null())
        first = self._numbered(parts.filter(plain), "}")
        fitting = pl.col("number") != _INVALID
        odd = pl.concat([parts.filter(~plain).select("line", "raw"), first.filter(~fitting).select("line", "raw")])
        others = self._numbered(_by_expression(odd), "")
        for rows in (first.filter(fitting), others):
            self._take(rows)
        text_lines = others if others.height else first
        return str(text_lines["raw"].first()) if text_lines.height else ""

    def _numbered(self, rows: pl.DataFrame, closing: str) -> pl.DataFrame:
        """Rows with `number`: that of the series in their `head` (without the `closing`), or a code for the refusal."""
        unique = rows["head"].unique().drop_nulls()
        closed = unique + closing
        valid = closed.str.contains(rf"^(?:{_SERIES}|{_NAME})$").to_numpy()
        names = closed.str.extract(rf"^({_NAME})").fill_null("")
        requested_series = valid & names.is_in([*self.requested, ""]).to_numpy()
        numbers = np.where(valid, _UNWANTED, _INVALID)
        numbers[requested_series] = [
            self._number_of(head) for head in closed.filter(pl.Series(requested_series)).to_list()
        ]
        table = pl.DataFrame({"head": unique, "number": numbers}, schema={"head": TEXT, "number": WHOLE})
        return rows.join(table, on="head", how="left", maintain_order="left").with_columns(
            pl.col("number").fill_null(_INVALID)
        )

    def _number_of(self, head: str) -> int:
        """The number of a series by its text; `_UNPLACED` and below are codes of reasons to refuse its lines."""
        number = self._numbers.get(head)
        if number is None:
            number = self._numbers[head] = self._number_of_labels(labels_of(head))
        return number

    def _number_of_labels(self, labels: dict[str, str]) -> int:
        if labels.get("__name__") not in self.requested:
            return _UNWANTED
        why = self.refuse(labels)
        if why is None:
            return self.gathering.number(labels)
        if why not in self._reasons:
            self._reasons.append(why)
        return _UNPLACED - self._reasons.index(why)

    def _take(self, rows: pl.DataFrame) -> None:
        """Count lines, and add their readings."""
        self._n_lines += rows.height
        text_lines = (pl.col("number") != _UNWANTED) | pl.col("value").is_not_null()  # two words are no line of ours
        self._n_requested += rows.filter(pl.col("number") != _INVALID, text_lines).height
        is_last = pl.lit(self._cut)  # then there is one line, the last
        unwanted = (pl.col("number") == _UNWANTED) & ~is_last
        requested = rows.filter(~unwanted).with_columns(reason=self._reason(is_last))
        self._n_skipped += rows.height - requested.height
        refused = requested.filter(pl.col("reason").is_not_null())
        self._n_untimed += refused.filter(pl.col("reason") == _UNTIMED).height
        if refused.height:
            refusals = refused.select(
                pl.col("line").cast(WHOLE), "reason", pl.col("raw").str.slice(0, RAW_LIMIT).alias("raw")
            )
            self._refused.append(refusals)
            requested = requested.filter(pl.col("reason").is_null())
        self.gathering.add(
            requested["number"].to_numpy(), in_milliseconds(requested["at"].to_numpy()), requested["value"].to_numpy()
        )

    def _reason(self, cut: pl.Expr) -> pl.Expr:
        """Reason for the refusal of a line; null for accepted ones."""
        number = pl.col("number")
        reasons = (
            (cut, "the file ends in the middle of this line"),
            (number == _INVALID, NO_LINE),
            (pl.col("value").is_null(), "the value is not a number"),
            (pl.col("stamp").is_null(), _UNTIMED),
            *time_reasons(pl.col("at"), self.latest_s),
            *((number == _UNPLACED - index, why) for index, why in enumerate(self._reasons)),
        )
        return pl.coalesce(pl.when(when).then(pl.lit(refusals)) for when, refusals in reasons)


def time_reasons(at: pl.Expr, latest_s: float) -> tuple[tuple[pl.Expr, str], ...]:
    """Conditions that refuse a timestamp (in seconds or milliseconds), each with its reason."""
    seconds = pl.when(at >= MILLISECONDS_FROM).then(at / 1000).otherwise(at)
    return (
        (~(at.is_finite() & (at >= 0)).fill_null(value=False), "not a timestamp"),
        (seconds < EARLIEST_S, "before the year 2000: the clock was not set"),
        (seconds > latest_s, "lies in the future"),
    )


def conflicts(gathered: Gathered) -> list[LoadWarning]:
    """The warning about series with several values for one time."""
    count = gathered.n_conflicts
    return [LoadWarning("values_conflict", count)] if count else []


def _as_lines(data: bytes) -> pl.Series:
    """Lines, with their ends; bytes that are not UTF-8 are replaced by a mark."""
    try:
        data.decode()
    except UnicodeDecodeError:
        data = data.decode(errors="replace").encode()
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1
    limits = np.concatenate([[0], ends]).astype(np.int64)
    return pl.Series(pa.LargeStringArray.from_buffers(ends.size, pa.py_buffer(limits.tobytes()), pa.py_buffer(data)))


def _apart(column: str, between: str, *names: str) -> pl.Expr:
    """The text before and behind the first `between`, as fields of `apart`; nothing behind is null."""
    return pl.col(column).str.splitn(between, 2).struct.rename_fields(list(names)).alias("apart")


def _by_expression(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines that are no comments (line, raw), taken apart one by one; `head` is null where that cannot be done."""
    text_lines = lines.filter(~pl.col("raw").str.contains(r"^(?:#|$)")).sort("line")
    fields = pl.col("raw").str.extract_groups(_LINE).struct.rename_fields(["series", "bare", "text", "stamp"])
    parts = text_lines.with_columns(fields.alias("fields")).unnest("fields")
    return parts.with_columns(pl.coalesce("series", "bare").alias("head"), value=_number("text"), at=_number("stamp"))


def _number(column: str) -> pl.Expr:
    return pl.col(column).str.strip_prefix("+").cast(REAL, strict=False)


def in_milliseconds(at: Real) -> Whole:
    """Timestamps in seconds or milliseconds, as milliseconds."""
    return np.rint(np.where(at >= MILLISECONDS_FROM, at, at * 1000)).astype(np.int64)


def labels_of(series: str) -> dict[str, str]:
    r"""Labels of a series as text writes it, `__name__` among them; a name in quotes is a label without a name.

    >>> labels_of('up{job="a\\"b"}')
    {'__name__': 'up', 'job': 'a"b'}
    >>> labels_of('{"node.load",instance="n1"}')
    {'__name__': 'node.load', 'instance': 'n1'}
    """
    name, _, inside = series.partition("{")
    labels = {"__name__": name.strip()} if name.strip() else {}
    for label, value in _LABEL.findall(inside):
        labels[_unquoted(label) if label.startswith('"') else label or "__name__"] = _unquoted(value)
    return labels


def _unquoted(text: str) -> str:
    """Text without its quotes and escapes."""
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text[1:-1])


def unrecognised(origin: str, beginning: str) -> UnrecognisedInputError:
    """The message about a file of an unknown kind."""
    begins = f"not telemetry of a known kind; it begins with\n  {shorten(beginning)}" if beginning.strip() else "empty"
    return UnrecognisedInputError(
        f"{origin}: {begins}\n"
        "Accepted are OpenMetrics text with timestamps, JSON of the HTTP API (query, query_range, or /api/v1/export of "
        "VictoriaMetrics), and Parquet with the columns of gpu_samples, gpu_hours, "
        "node_samples, node_hours, cluster_samples or health_events, or with those of readings: a name, labels, a time "
        "and a value"
    )
