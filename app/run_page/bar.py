"""The time of a run as a bar for each category, with its share, and hours that add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.run_page import texts
from app.run_page.contents import QUEUED_AGAIN, QUEUED_FIRST, TimeShare
from app.terminal.cells import fit, width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.run_page.lines import TextPage
    from app.terminal.colour import Meaning

OTHER: Final = "other"
"""The category of what is less than `LEAST` of the whole."""

LEAST: Final = 0.001

_FIRST: Final = ("productive",)

_MEANINGS: Final[dict[str, Meaning]] = {
    "productive": "good",
    "lost": "bad",
    "stalled": "bad",
    "startup": "warning",
    "checkpoint": "warning",
    "teardown": "warning",
    QUEUED_FIRST: "quiet",
    QUEUED_AGAIN: "warning",
    "unattributed": "quiet",
    OTHER: "quiet",
}

_LABELS: Final = {
    QUEUED_FIRST: "first queue",
    QUEUED_AGAIN: "queued again",
    "other_work": "other work",
    "unattributed": "unobserved",
}

GAP: Final = "gap"
"""What `QUEUED_AGAIN` is called of a log alone: nothing was logged between two processes."""

_NAME: Final = 13
_BAR: Final = 23
_EIGHTHS: Final = " \u258f\u258e\u258d\u258c\u258b\u258a\u2589"


@dataclass(frozen=True)
class Bar:
    """A row of the chart.

    Attributes:
        category: as in `TimeShare`, or `OTHER`.
        label: for people.
        share: of the whole (0-1).
        hours: GPU-hours (or hours), rounded so that all add up to the rounded whole.
        causes: cause and its share of the category, the largest first.
    """

    category: str
    label: str
    share: float
    hours: float
    causes: tuple[tuple[str, float], ...]


def bars(parts: Sequence[TimeShare], *, logged_only: bool = False) -> list[Bar]:
    """The rows of the chart: productive time first, then the largest; small ones are one row."""
    whole = sum(part.gpu_s for part in parts)
    if not whole:
        return []
    shown = _folded(parts, whole)
    digits = texts.decimals(whole / 3600)
    hours = texts.adding_up([part.gpu_s / 3600 for part in shown], digits)
    return [
        Bar(
            part.category,
            _label(part.category, logged_only=logged_only),
            part.gpu_s / whole,
            rounded,
            tuple((cause, gpu_s / part.gpu_s) for cause, gpu_s in part.causes if cause != _PROVISIONAL),
        )
        for part, rounded in zip(shown, hours, strict=True)
    ]


def _label(category: str, *, logged_only: bool) -> str:
    if logged_only and category == QUEUED_AGAIN:
        return GAP
    return _LABELS.get(category, category)


def _folded(parts: Sequence[TimeShare], whole: float) -> list[TimeShare]:
    """What is shown in a row each; of what is small the names are causes of one row, `other`."""
    order = sorted(parts, key=lambda part: (part.category not in _FIRST, -part.gpu_s, part.category))
    small = [part for part in order if part.gpu_s < LEAST * whole and part.category not in _FIRST]
    if len(small) < 2:
        return order
    names = tuple((part.category, part.gpu_s) for part in small)
    return [*(part for part in order if part not in small), TimeShare(OTHER, sum(part.gpu_s for part in small), names)]


def draw(page: TextPage, rows: Sequence[Bar], unit: str) -> None:
    """Add the chart to the page: name, bar, share, hours, and the causes as far as they fit."""
    digits = texts.decimals(sum(row.hours for row in rows))
    amounts = [f"{row.hours:,.{digits}f}" for row in rows]
    wide = max(width(each) for each in amounts)
    columns = max(0, min(_BAR, page.columns - _NAME - _SHARE - wide - width(unit) - 2))
    for row, amount in zip(rows, amounts, strict=True):
        numbers = f"{texts.share(row.share):>{_SHARE}} {amount:>{wide}} {unit}"
        bar = stroke(row.share, columns, unicode=page.unicode) if columns else ""
        room = page.columns - _NAME - columns - width(numbers) - 2
        causes = f"  {_causes(row, room)}".rstrip()
        page.add((fit(row.label, _NAME), None), (bar, _MEANINGS.get(row.category)), (numbers, None), (causes, "quiet"))


_SHARE: Final = 8
"""Columns of a share, with the blank before it."""


def stroke(share: float, columns: int, *, unicode: bool) -> str:
    """A horizontal bar; what is there at all shows at least a stroke.

    >>> stroke(0.5, 4, unicode=False), stroke(0.001, 4, unicode=False), stroke(0.0, 4, unicode=False)
    ('##  ', '|   ', '    ')
    """
    eighths = max(round(min(share, 1.0) * columns * 8), 1 if share > 0 else 0)
    whole, part = divmod(eighths, 8)
    if unicode:
        return fit("\u2588" * whole + (_EIGHTHS[part] if part else ""), columns)
    filled = "#" * (whole + (1 if part >= 4 else 0))
    return fit(filled or ("|" if eighths else ""), columns)


def _causes(row: Bar, room: int) -> str:
    """The causes of a category, as many as there is room for; the largest with its share of it, if that is not all."""
    if not row.causes:
        return ""
    words = [_LABELS.get(cause, texts.name(cause).replace("_", " ")) for cause, _ in row.causes]
    if row.category != OTHER and row.causes[0][1] < _ALL:
        words[0] += f" {100 * row.causes[0][1]:.0f} %"
    text = words[0]
    for more in words[1:]:
        if width(f"{text}, {more}") > room:
            break
        text = f"{text}, {more}"
    return text if width(text) <= room else ""


_ALL: Final = 0.995
_PROVISIONAL: Final = "provisional"
"""Cause of productive time that the next failure can take back: the ETTR's bounds show it."""
