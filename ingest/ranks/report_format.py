r"""A format of straggler reports: which lines of a log list ranks, and the values in them. Data in `reports/*.toml`.

    name = "mydetector"
    title = "My detector"
    words = ["SLOW"]
    step = 'step (\d+)'

    [[heading]]
    starts = 'Slowest ranks by (?:time):'
    measure = "round_trip_s"
    place = "highest"

    [[entry]]
    each = 'rank (?P<rank>\d+) on (?P<node>\S+): (?P<value>[\d.]+) ms'
    factor = 1e-3

    [[example]]
    text = "[2026-10-01 08:00:02] Slowest ranks by time:\n rank 7 on n1: 12 ms"
    gives = [["round_trip_s", "highest", 7, 0.012]]

Patterns are regular expressions in Python's syntax. A line has a rank for each match of an entry's `each`, if `starts`
matches in the line (left out: in any line). `measure` and `place` are the entry's, else those of the last heading that
has them. `value` times `factor` is in the unit that the measure's name ends in. Lines without any of `words` are
passed over.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

PLACES: Final = ("lowest", "highest", "flagged", "listed")


@dataclass(frozen=True)
class RankLines:
    """Lines that list ranks; `heading`: such lines list none, but give the subject of the lines after them."""

    starts: re.Pattern[str] | None = None
    each: re.Pattern[str] | None = None
    measure: str | None = None
    place: str | None = None
    factor: float = 1.0


class ReportExample(NamedTuple):
    """Lines of a log, and the ranks that they list: measure, place, rank and (where there is one) value."""

    text: str
    gives: tuple[tuple[object, ...], ...]


class ListedRank(NamedTuple):
    """A rank in a report."""

    measure: str
    place: str
    rank: int
    node: str | None
    value: float | None


@dataclass(frozen=True)
class ReportFormat:
    """A format of reports; the keys are described above."""

    name: str
    title: str
    words: tuple[str, ...]
    step: re.Pattern[str] | None
    entries: tuple[RankLines, ...]
    examples: tuple[ReportExample, ...]


@dataclass
class ReportReader:
    """State of reading the lines of a log as a format: the values of its last headings, and its last step."""

    form: ReportFormat
    measure: str | None = None
    place: str | None = None
    step: int | None = None
    found: list[ListedRank] = field(default_factory=list)

    def read(self, line: str) -> list[ListedRank]:
        """The ranks that a line lists."""
        if not any(word in line for word in self.form.words):
            return []
        if self.form.step is not None and (step := self.form.step.search(line)):
            self.step = int(step[1])
        return [one for entry in self.form.entries for one in self._of_entry(entry, line)]

    def _of_entry(self, entry: RankLines, line: str) -> list[ListedRank]:
        begin = entry.starts.search(line) if entry.starts is not None else None
        if entry.starts is not None and begin is None:
            return []
        if entry.each is None:
            self.measure, self.place = entry.measure or self.measure, entry.place or self.place
            return []
        measure, place = entry.measure or self.measure, entry.place or self.place
        if measure is None or place is None:
            return []
        rest = line[begin.end() :] if begin is not None else line
        return [_listed(match, measure, place, entry.factor) for match in entry.each.finditer(rest)]


def _listed(match: re.Match[str], measure: str, place: str, factor: float) -> ListedRank:
    groups = match.groupdict()
    value = groups.get("value")
    return ListedRank(
        measure, place, int(groups["rank"]), groups.get("node"), None if value is None else _number(value, factor)
    )


def _number(text: str, factor: float) -> float | None:
    """A printed number in base units; None where it is none."""
    try:
        return float(text) * factor
    except ValueError:
        return None


@cache
def formats() -> tuple[ReportFormat, ...]:
    """The formats that come with Trackside, by name."""
    folder = resources.files("ingest") / "ranks" / "reports"
    files = [file for file in folder.iterdir() if file.name.endswith(".toml")]
    return tuple(sorted((_format(tomllib.loads(file.read_text(encoding="utf-8"))) for file in files), key=_name))


def _name(form: ReportFormat) -> str:
    return form.name


def _format(values: Mapping[str, Any]) -> ReportFormat:
    entries = [_entry(each) for each in (*values.get("heading", ()), *values["entry"])]
    examples = [ReportExample(each["text"], tuple(map(tuple, each["gives"]))) for each in values["example"]]
    step = re.compile(values["step"]) if "step" in values else None
    return ReportFormat(values["name"], values["title"], tuple(values["words"]), step, tuple(entries), tuple(examples))


def _entry(values: Mapping[str, Any]) -> RankLines:
    patterns = {key: re.compile(values[key]) for key in ("starts", "each") if key in values}
    place = values.get("place")
    if place is not None and place not in PLACES:
        raise ValueError(f"place = {place!r}: one of {', '.join(PLACES)}")
    return RankLines(**patterns, measure=values.get("measure"), place=place, factor=float(values.get("factor", 1.0)))
