"""The report's drawings: inline SVG, written here, the same for the same numbers.

Positions across are percentages, so a drawing fits an A4 page and a telephone while its letters keep their size.
Colours that depend on light or dark are classes of the page's style sheet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from app.formatting import display
from dashboards.palette import EVIDENCE_COLOURS, swatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

EMPTY = Markup("")


@dataclass(frozen=True)
class Scale:
    """Where values lie across a drawing, in percent.

    Attributes:
        low: value at the left edge.
        high: value at the right edge.
        ticks: values that get a label.
        log: distances are ratios.
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def at(self, value: float) -> float:
        """Percent from the left edge; what is outside lies on the edge.

        >>> Scale(0.0, 1.0, ()).at(0.25), Scale(1.0, 100.0, (), log=True).at(10.0), Scale(0.0, 1.0, ()).at(2.0)
        (25.0, 50.0, 100.0)
        """
        if self.log:
            share = (math.log(max(value, self.low)) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        else:
            share = (value - self.low) / (self.high - self.low)
        return 100 * min(1.0, max(0.0, share))


def ratio_scale(values: Iterable[float]) -> Scale:
    """Shares up to 100 %, from as far up as the values allow.

    >>> ratio_scale([0.97, 0.992]).low, ratio_scale([0.2, 0.96]).low
    (0.95, 0.0)
    """
    lowest = min(values, default=0.0)
    low = next((edge for edge in (0.95, 0.9, 0.8, 0.5) if lowest >= edge + (1 - edge) / 10), 0.0)
    return Scale(low, 1.0, tuple(low + (1 - low) * part / 4 for part in range(5)))


_DURATIONS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400, 172_800,
              345_600, 604_800, 1_209_600, 2_592_000)  # fmt: skip
"""Lengths in seconds that clocks and calendars have marks for."""


def duration_scale(values: Iterable[float]) -> Scale:
    """Seconds, by ratios, with labels at lengths that clocks have.

    >>> duration_scale([90.0, 1085.0]).ticks
    (60, 120, 300, 600, 1200)
    """
    low, high, positive = _around(values)
    inside = [length for length in _DURATIONS if low <= length <= high]
    every = -(-len(inside) // 6)
    return Scale(low, high, tuple(inside[:: max(every, 1)]) or tuple(sorted({min(positive), max(positive)})), log=True)


def _around(values: Iterable[float]) -> tuple[float, float, list[float]]:
    """A little less than the least and more than the most of what is above zero, and that."""
    positive = [value for value in values if value > 0] or [1.0]
    return min(positive) / 1.6, max(positive) * 1.6, positive


def log_scale(values: Iterable[float]) -> Scale:
    """Amounts above zero, by ratios, with round labels.

    >>> log_scale([0.4, 3.66]).ticks
    (0.5, 1.0, 2.0, 5.0)
    """
    low, high, positive = _around(values)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        ticks = tuple(t for d in decades for step in steps if low <= (t := round(step * 10.0**d, 12)) <= high)
        if len(ticks) <= 6:
            break
    return Scale(low, high, ticks or tuple(sorted({min(positive), max(positive)})), log=True)


def scale_of(unit: str, values: Iterable[float]) -> Scale:
    """The scale of a unit for values: ratios up to 100 %, seconds with a clock's labels, else by ratios."""
    return {"ratio": ratio_scale, "s": duration_scale}.get(unit, log_scale)(values)


def label_of(unit: str) -> Callable[[float], str]:
    """The writer of a scale's labels."""
    if unit == "ratio":
        return lambda value: f"{100 * value:.4g} %"
    if unit == "s":
        return lambda value: display(value, "seconds")
    return lambda value: f"{value:.3g} {unit}"


def _pc(percent: float) -> str:
    """A position, with as many digits as a printer can show."""
    return f"{percent:.3f}%"


def _anchor(percent: float) -> str:
    """Letters stay inside the drawing."""
    return "start" if percent < 12 else "end" if percent > 88 else "middle"


def range_chart(
    *,
    unit: str,
    target: float,
    direction: str,
    value: float | None,
    low: float | None,
    high: float | None,
    unlimited: bool,
    verdict: str,
    kind: str,
) -> Markup:
    """The measured range, its value, and the target across it; the side that meets the target is shaded.

    Args:
        unit: ratio, d or s.
        target: of the claim.
        direction: at_least or at_most.
        value: the number itself, if known.
        low: lower end; None if unknown.
        high: upper end.
        unlimited: there is no upper end.
        verdict: colours the range.
        kind: delivered (the ends are bounds) or capability (they are an interval).
    """
    numbers = [each for each in (target, value, low, high) if each is not None]
    scale = scale_of(unit, numbers)
    label = label_of(unit)
    at_target = scale.at(target)
    right = 100.0 if high is None else scale.at(high)
    promised = (at_target, 100 - at_target) if direction == "at_least" else (0.0, at_target)
    parts = [
        Markup('<rect class="promised" x="{}" y="18" width="{}" height="26"/>').format(*map(_pc, promised)),
        Markup('<line class="axis" x1="0" x2="100%" y1="44" y2="44"/>'),
    ]
    for tick in scale.ticks:
        x = scale.at(tick)
        parts.append(
            Markup(
                '<line class="axis" x1="{0}" x2="{0}" y1="44" y2="48"/><text class="tick" x="{0}" y="60" '
                'text-anchor="{1}">{2}</text>'
            ).format(_pc(x), _anchor(x), label(tick))
        )
    if low is not None and (high is not None or unlimited):
        parts.append(_bar(scale.at(low), right, verdict, open_above=unlimited))
    else:
        parts.append(Markup('<text class="none" x="50%" y="35" text-anchor="middle">nothing measured</text>'))
    if value is not None:
        parts.append(Markup('<circle class="point {}" cx="{}" cy="31" r="5"/>').format(verdict, _pc(scale.at(value))))
    sign = "at least" if direction == "at_least" else "at most"
    parts.append(
        Markup(
            '<line class="target" x1="{0}" x2="{0}" y1="14" y2="48"/><text class="targettext" x="{0}" y="10" '
            'text-anchor="{1}">target: {2} {3}</text>'
        ).format(_pc(at_target), _anchor(at_target), sign, label(target))
    )
    ends = "bounds" if kind == "delivered" else "95 % interval"
    low_text = "unknown" if low is None else label(low)
    high_text = "no limit" if unlimited else "unknown" if high is None else label(high)
    description = f"Target {sign} {label(target)}; {ends} {low_text} to {high_text}"
    return _drawing("range", 64, description, parts)


def _bar(left: float, right: float, verdict: str, *, open_above: bool) -> Markup:
    """A range, at least as wide as is visible; one without upper end has an arrow."""
    width = max(right - left, 0.4)
    bar = Markup('<rect class="bar {}" x="{}" y="25" width="{}" height="12" rx="2"/>').format(
        verdict, _pc(min(left, 99.6)), _pc(width)
    )
    arrow = Markup('<text class="arrow {}" x="100%" y="36" text-anchor="end">&#9654;</text>').format(verdict)
    return bar + (arrow if open_above else EMPTY)


def share_bar(shares: Sequence[tuple[str, float, str]], *, height: int, description: str) -> Markup:
    """One bar of parts that together are the whole: name, share and colour of each."""
    parts, left = [], 0.0
    for name, share, colour in shares:
        if share <= 0:
            continue
        width = 100 * share
        parts.append(_part(left, width, 0, height, colour, hatched=swatch(name).hatched))
        if width > 9:
            parts.append(
                Markup('<text class="onbar" x="{}" y="{}" text-anchor="middle" style="fill:{}">{}</text>').format(
                    _pc(left + width / 2), height // 2 + 4, swatch(name).ink, f"{width:.1f} %"
                )
            )
        left += width
    return _drawing("shares", height, description, parts)


def category_bar(categories: Sequence[tuple[str, float]]) -> Markup:
    """Where the GPU-time went, as one bar."""
    description = ", ".join(f"{swatch(name).label} {100 * share:.1f} %" for name, share in categories if share > 0)
    coloured = [(name, share, swatch(name).colour) for name, share in categories]
    return share_bar(coloured, height=38, description=f"GPU-time by category: {description}")


def evidence_bar(shares: dict[str, float]) -> Markup:
    """The evidence of a number, as one thin bar."""
    description = ", ".join(f"{kind} {100 * share:.1f} %" for kind, share in shares.items())
    parts, left = [], 0.0
    for kind, share in shares.items():
        parts.append(_part(left, 100 * share, 0, 8, EVIDENCE_COLOURS[kind], hatched=False))
        left += 100 * share
    return _drawing("evidence", 8, f"Evidence: {description}", parts)


def _part(left: float, width: float, top: float, height: float, colour: str, *, hatched: bool) -> Markup:
    box = Markup('x="{}" y="{}" width="{}" height="{}"').format(_pc(left), f"{top:.2f}", _pc(width), f"{height:.2f}")
    drawn = Markup('<rect {} fill="{}"/>').format(box, colour)
    return drawn + Markup('<rect {} fill="url(#hatch)"/>').format(box) if hatched else drawn


DAY_HEIGHT = 120
_TOP = 8


def daily_bars(days: Sequence[str], shares: Sequence[dict[str, float]], order: Sequence[str]) -> Markup:
    """A bar per day, each the whole capacity of its day; days without data are left empty.

    Args:
        days: all days of the period, as YYYY-MM-DD.
        shares: of each day: category -> share of the day's capacity.
        order: categories from the bottom up.
    """
    step = 100 / max(len(days), 1)
    parts = _grid(Scale(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0)))
    for number, day in enumerate(shares):
        bottom = _TOP + float(DAY_HEIGHT)
        for name in order:
            height = DAY_HEIGHT * day.get(name, 0.0)
            if height > 0:
                bottom -= height
                left, width = number * step + step * 0.08, step * 0.84
                parts.append(_part(left, width, bottom, height, swatch(name).colour, hatched=swatch(name).hatched))
    return _drawing(
        "daily",
        _TOP + DAY_HEIGHT + 20,
        "GPU-time by category for each day",
        [*parts, *_labels([day[5:] for day in days])],
    )


Range = tuple[float | None, float | None, float | None]
"""A value, the lower end and the upper end of its range; None: unknown."""


def daily_range(days: Sequence[str], values: dict[str, Range], target: float | None) -> Markup:
    """A ratio day by day: from bound to bound a box, the value a line in it, and the target across all days.

    Args:
        days: all days of the period.
        values: of each day: value, lower and upper bound.
        target: of the claim, if there is one.
    """
    scale = ratio_scale(
        each for each in (target, *(end for ends in values.values() for end in ends)) if each is not None
    )
    columns = [values.get(day, _UNKNOWN) for day in days]
    return _ranges([day[5:] for day in days], columns, scale, "ratio", target, "Value and bounds for each day")


def trend(periods: Sequence[str], values: Sequence[Range], target: float, unit: str) -> Markup:
    """An objective period by period: from end to end of its range a box, the value a line in it, and the target.

    Args:
        periods: their names, in order of time.
        values: of each period: value, lower and upper end; infinite where there is no limit.
        target: of the claim.
        unit: ratio, d or s.
    """
    finite = [end for ends in (*values, (target,)) for end in ends if end is not None and math.isfinite(end)]
    scale = scale_of(unit, finite)
    return _ranges(periods, values, scale, unit, target, "Value and range for each period")


def burn_down(days: Sequence[str], left: dict[str, Range]) -> Markup:
    """What is left of an error budget at the end of each day, as a share of it; below zero it is overspent.

    Args:
        days: all days of the period.
        left: of each day: by the value, at least, at most. What lies below -100 % is drawn there.
    """
    columns, scale = [left.get(day, _UNKNOWN) for day in days], budget_scale(left)
    return _ranges([day[5:] for day in days], columns, scale, "ratio", 0.0, "Error budget left at the end of each day")


def budget_scale(left: dict[str, Range]) -> Scale:
    """Shares of a budget, down to -100 % where it is overspent."""
    overspent = any(end is not None and end < 0 for ends in left.values() for end in ends)
    return Scale(-1.0, 1.0, (-1.0, -0.5, 0.0, 0.5, 1.0)) if overspent else Scale(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0))


def remaining(row: dict[str, Any], allowed: float) -> Range:
    """What is left of a budget at the end of a day, as a share of it: by the value, at least, at most.

    >>> remaining({"spent": 5.0, "spent_low": 4.0, "spent_high": 12.0}, 10.0)
    (0.5, -0.2, 0.6)
    """
    value, low, high = (
        None if row[name] is None or not allowed else round(1 - row[name] / allowed, 12)
        for name in ("spent", "spent_high", "spent_low")
    )
    return value, low, high


_UNKNOWN: Range = (None, None, None)


def _ranges(  # noqa: PLR0917 - what is drawn, where, and against what
    labels: Sequence[str],
    columns: Sequence[Range],
    scale: Scale,
    unit: str,
    target: float | None,
    description: str,
) -> Markup:
    """Ranges side by side: boxes from end to end, values as lines in them, and a target across."""
    step = 100 / max(len(labels), 1)
    parts = _grid(scale, unit)
    for number, (value, low, high) in enumerate(columns):
        left, width = number * step + step * 0.12, step * 0.76
        if low is not None and high is not None:
            top, height = _height(scale, high), _height(scale, low) - _height(scale, high)
            parts.append(
                Markup('<rect class="bound" x="{}" y="{}" width="{}" height="{}"/>').format(
                    _pc(left), f"{top:.2f}", _pc(width), f"{max(height, 1.5):.2f}"
                )
            )
        if value is not None:
            y = f"{_height(scale, value):.2f}"
            parts.append(
                Markup('<line class="dayvalue" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>').format(
                    _pc(left), _pc(left + width), y
                )
            )
    if target is not None:
        y = f"{_height(scale, target):.2f}"
        parts.append(Markup('<line class="target" x1="0" x2="100%" y1="{0}" y2="{0}"/>').format(y))
    return _drawing("daily", _TOP + DAY_HEIGHT + 20, description, [*parts, *_labels(labels)])


def _height(scale: Scale, value: float) -> float:
    """Pixels from the top of a drawing of days."""
    return _TOP + DAY_HEIGHT * (100 - scale.at(value)) / 100


def _grid(scale: Scale, unit: str = "ratio") -> list[Markup]:
    """Lines at the marks; their labels are outside, to the left (the style sheet leaves them room)."""
    lines = []
    for tick in scale.ticks:
        y = _height(scale, tick)
        lines.append(
            Markup(
                '<line class="grid" x1="0" x2="100%" y1="{0:.1f}" y2="{0:.1f}"/><text class="tick" x="-6" y="{1:.1f}" '
                'text-anchor="end">{2}</text>'
            ).format(y, y + 3.5, label_of(unit)(tick))
        )
    return lines


def _labels(labels: Sequence[str]) -> list[Markup]:
    """At most seven labels beneath."""
    every = max(1, math.ceil(len(labels) / 7))
    step = 100 / max(len(labels), 1)
    y = _TOP + DAY_HEIGHT + 15
    return [
        Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(
            _pc((number + 0.5) * step), y, label
        )
        for number, label in enumerate(labels)
        if number % every == 0
    ]


def _drawing(name: str, height: int, description: str, parts: Iterable[Markup]) -> Markup:
    drawing = '<svg class="{0}" role="img" aria-label="{1}" width="100%" height="{2}"><title>{1}</title>{3}</svg>'
    return Markup(drawing).format(name, description, height, EMPTY.join(parts))  # noqa: S704 - a constant; what is put in is escaped


HATCH = Markup(
    '<svg width="0" height="0" aria-hidden="true" class="defs"><defs><pattern id="hatch" width="7" height="7" '
    'patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="2.4" height="7" class="hatching"/>'
    "</pattern></defs></svg>"
)
"""The hatching of unobserved time; once in a page."""
