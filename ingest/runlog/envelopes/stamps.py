r"""Lines of a log that begin with a time in an unusual form, as lines that begin with a usual one.

    1790841604.123 step 5                  seconds since 1970, also milliseconds (`ts %.s`)
    20261001-08:00:04 step 5               also 20261001_080004, 2026.10.01 08:00:04, 2026-10-01_08-00-04
    Thu Oct  1 08:00:04 UTC 2026 step 5    `date`, ctime; also 01/Oct/2026:08:00:04 +0000, 01.10.2026 08:00:04
    [10/01/26 08:00:04] INFO     step 5    Python's rich, which prints a time only if it is another one than before:
                        INFO     step 6    such a line has the time of the line before

The number of the lines stays, and so does what the file has of them, to be quoted (`MARK`). A form is one of the log
if its beginning has two different times in it (a name of a run, 20261001_080004, is the same text each time), if most
lines of steps have it, and if seconds since 1970 do not decrease. Dates with slashes (10/01/2026) are left as they are:
it is unknown which number is the month. So are those of `date` in another zone than UTC: its name is no zone.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    _Forms = Sequence[re.Pattern[bytes]]

SEARCHED: Final = 1 << 18
"""Bytes at the beginning of a log in which unusual forms are searched."""

MARK: Final = b"\x1f"
"""Stands behind the usual time of a line, and again behind what the file has in its place."""

_DIFFERENT: Final = 2
"""Times of a form by which it is one of the log."""

_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_BEFORE: Final = r"(?P<before>\s*(?:\[[A-Za-z]\w*\]:?\s?|\d{1,4}:\s)?\[?)"
"""What a launcher writes before a line, and a bracket around its time."""

_USUAL: Final = r"(?!\d{4}([-/]?)\d\d\2\d\d[T _]\d\d:\d\d:\d\d)"
_YEAR, _MONTH, _DAY = r"(?P<year>20\d\d)", r"(?P<month>0[1-9]|1[0-2])", r"(?P<day>[0-2]?\d|3[01])"
_NAME: Final = rf"(?P<month>{'|'.join(_MONTHS)})"
_TIME: Final = (
    r"(?P<hour>[01]\d|2[0-3])[:.-]?(?P<minute>[0-5]\d)[:.-]?(?P<second>[0-5]\d)(?:[.,](?P<fraction>\d{1,9}))?"
)
_ZONE: Final = r"(?: ?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)\b)?"
_LEVEL: Final = r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) "
_END: Final = r"(?=[\]\s:,|])"

_DATES: Final = tuple(
    re.compile((_BEFORE + form + _END).encode())
    for form in (
        rf"{_USUAL}{_YEAR}[-/._]?{_MONTH}[-/._]?{_DAY}[-_T ]{_TIME}{_ZONE}",
        rf"(?:[A-Z][a-z]{{2}} )?{_NAME} +{_DAY} {_TIME}(?: (?P<zone>UTC|GMT))? {_YEAR}",
        rf"(?:[A-Z][a-z]{{2}}, )?{_DAY}[ /-]{_NAME}[ /-]{_YEAR}[ :]{_TIME}{_ZONE}",
        rf"{_DAY}\.{_MONTH}\.{_YEAR},? {_TIME}{_ZONE}",
    )
)
_OF_RICH: Final = re.compile(rf"{_BEFORE}(?<=\[){_MONTH}/{_DAY}/(?P<year>\d\d) {_TIME}(?=\]\s+{_LEVEL})".encode())
_EPOCH: Final = re.compile((_BEFORE + r"(?P<epoch>1[4-9]\d{8}(?:\d{3}){0,3}(?:[.,]\d{1,9})?)" + _END).encode())
_CANDIDATE: Final = re.compile(
    rb"(?:\[[A-Za-z]\w*\]:?)?[\s[]*(?!20\d\d[-/]\d\d[-/]\d\d[T ]\d\d:)(?:\d|[A-Z][a-z]{2}[ ,])|\s{8,40}[DIWEC]"
)
"""What a line with one of the forms matches: nearly all other lines are passed over at once."""

_FINER: Final = 1e11
"""A larger number counts milliseconds, or something a thousand times finer."""

_HELD: Final = re.compile(rf"\s*(?P<stamp>\[[^\]]*\d\d:\d\d:\d\d[^\]]*\])\s+{_LEVEL}".encode())
"""A line of rich with a time, once that is a usual one."""

_REPEATED: Final = re.compile(rf"\s{{8,40}}(?={_LEVEL})".encode())
"""What rich writes in place of a time that is as before."""

_RICH: Final = {_OF_RICH, _HELD, _REPEATED}


def restamped(chunks: Iterable[bytes], choose: Callable[[bytes, _Forms], _Forms]) -> Iterator[bytes]:
    r"""A log whose lines begin with usual times, marked; one without unusual ones as it comes.

    Args:
        chunks: the log.
        choose: which of the forms that are in the beginning of the log count; called if there are any.

    >>> made = restamped([b"1790841604.5 step 1\n1790841606 st", b"ep 2\nstep 3\n"], lambda _, forms: forms)
    >>> b"".join(made).splitlines()[1:]
    [b'2026-10-01 08:00:06.000000Z\x1f1790841606\x1f step 2', b'step 3']
    """
    rest, head = iter(chunks), b""
    while len(head) < SEARCHED and (chunk := next(rest, b"")):
        head += chunk
    found = _forms(head)
    forms = choose(head, found) if found else found
    if not forms:
        yield head
        del head
        yield from rest
        return
    stamps = _LineStamps(forms)
    open_line = b""
    for chunk in chain([head], rest):
        *lines, open_line = (open_line + chunk).split(b"\n")
        if lines:
            yield b"".join(stamps.marked(line) + b"\n" for line in lines)
    if open_line:
        yield stamps.marked(open_line)


def in_usual_form(text: bytes, forms: _Forms) -> bytes:
    r"""A text whose lines begin with usual times.

    >>> text = b"20261001_080004 x\n20261001_080005 y\n01.10.2026 8 z"
    >>> in_usual_form(text, _forms(text)).splitlines()
    [b'2026-10-01 08:00:04 x', b'2026-10-01 08:00:05 y', b'01.10.2026 8 z']
    """
    stamps = _LineStamps(forms)
    return b"\n".join(b"".join(stamps.usual(line)[::2]) for line in text.split(b"\n"))


def forms_of_most(lines: Sequence[bytes], forms: _Forms) -> _Forms:
    """The forms that most of these lines have; lines of rich count together. Seconds since 1970 do not decrease."""
    every = (*forms, _HELD) if _REPEATED in forms else forms
    matches = [(form, form.match(line)) for line in lines for form in every]
    counts = Counter(_OF_RICH if form in _RICH else form for form, match in matches if match is not None)
    epochs = [_seconds(match["epoch"]) for form, match in matches if form is _EPOCH and match is not None]
    decreases = any(later < earlier for earlier, later in pairwise(epochs))
    most = {form for form, count in counts.items() if 2 * count > len(lines) and not (form is _EPOCH and decreases)}
    return [form for form in forms if form in most or (form in _RICH and _OF_RICH in most)]


def _forms(head: bytes) -> _Forms:
    """The forms of which there are different times in the beginning of a log."""
    found: dict[re.Pattern[bytes], set[bytes]] = {}
    for line in filter(_CANDIDATE.match, head.split(b"\n")):
        for form in (*_DATES, _OF_RICH, _EPOCH, _REPEATED):
            match = form.match(line)
            if match is not None:
                found.setdefault(form, set()).add(match[0] if form is not _REPEATED else line)
                break
    return [form for form, times in found.items() if len(times) >= _DIFFERENT or (form in _RICH and _OF_RICH in found)]


@dataclass
class _LineStamps:
    """The forms of a log, and the last time of rich."""

    forms: _Forms
    _held: bytes = field(default=b"")

    def marked(self, line: bytes) -> bytes:
        """A line with a usual time, and with marks what the file has in its place."""
        time, text, rest = self.usual(line)
        return time + MARK + text + MARK + rest if text else rest

    def usual(self, line: bytes) -> tuple[bytes, bytes, bytes]:
        """The usual time of a line, what the line has in its place, and the rest of it."""
        match = next((match for form in self.forms if (match := form.match(line)) is not None), None)
        time = b"" if match is None else self._with_usual(match.re, match)
        text = b"" if match is None else match[0]
        held = _HELD.match(time + line[len(text) :])
        if held is not None:
            self._held = held["stamp"] + b" "
        return time, text, line[len(text) :]

    def _with_usual(self, form: re.Pattern[bytes], match: re.Match[bytes]) -> bytes:
        if form is _REPEATED:
            return self._held or match[0]
        time = _of_epoch(match["epoch"]) if form is _EPOCH else _of_date(match)
        return bytes(match["before"]) + time.encode()


def _seconds(text: bytes) -> float:
    """Seconds since 1970, also of milliseconds and finer."""
    number = float(text.replace(b",", b"."))
    while number > _FINER:
        number /= 1_000
    return number


def _of_epoch(text: bytes) -> str:
    return f"{datetime.fromtimestamp(_seconds(text), UTC):%Y-%m-%d %H:%M:%S.%fZ}"


def _of_date(match: re.Match[bytes]) -> str:
    part = {name: text.decode() for name, text in match.groupdict().items() if text is not None}
    month = _MONTHS.index(part["month"]) + 1 if part["month"].isalpha() else int(part["month"])
    date = f"{part['year']:0>4}"[-2:] + f"-{month:02d}-{int(part['day']):02d}"
    fraction = f".{part['fraction']}" if "fraction" in part else ""
    zone = part.get("zone", "").replace("UTC", "Z").replace("GMT", "Z")
    return f"20{date} {part['hour']}:{part['minute']}:{part['second']}{fraction}{zone}"
