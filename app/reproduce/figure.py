"""The figure of a reproduction: panels of points with intervals, as one SVG that needs nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

WIDTH, HEIGHT = 430, 300
"""Of a panel, in pixels."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 24, 62, 44
_HEAD: Final = 34
_TICKS: Final = 5
_FONT: Final = "font-family='system-ui, sans-serif' font-size='12' fill='#10202e'"

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#6b7785"
"""Colours of series: ours, another reading, what was published."""


@dataclass(frozen=True)
class FigurePoint:
    """A point, with the ends of its interval where it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class FigureSeries:
    """Points of one kind.

    Attributes:
        name: in the legend.
        colour: of its marks.
        points: in the order of x.
        ring: drawn as rings without a line, so that points beneath stay visible.
    """

    name: str
    colour: str
    points: tuple[FigurePoint, ...]
    ring: bool = False


@dataclass(frozen=True)
class Panel:
    """A diagram.

    Attributes:
        title: above it.
        x: what is along it.
        series: what is drawn.
        percent: whether the values are shares.
        line: a value that is marked across it, with its words.
    """

    title: str
    x: str
    series: tuple[FigureSeries, ...]
    percent: bool = False
    line: tuple[float, str] | None = None


@dataclass(frozen=True)
class _Axes:
    """Where values lie in a panel."""

    x: Sequence[float]
    y: Sequence[float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Pixels from the panel's corner."""
        return (
            _LEFT + _share(x, self.x) * (WIDTH - _LEFT - _RIGHT),
            HEIGHT - _BOTTOM - _share(y, self.y) * (HEIGHT - _TOP - _BOTTOM),
        )


def _share(value: float, ticks: Sequence[float]) -> float:
    return (value - ticks[0]) / (ticks[-1] - ticks[0])


def ticks(low: float, high: float) -> list[float]:
    """Round values that hold both ends.

    >>> ticks(512, 2496), ticks(0, 0.75), ticks(3, 3)
    ([500.0, 1000.0, 1500.0, 2000.0, 2500.0], [0.0, 0.2, 0.4, 0.6, 0.8], [3.0, 3.5])
    """
    rough = max(high - low, 1e-9 if high > low else 1.0) / (_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= rough * 0.99)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, max(last, first + 1) + 1)]


def svg(title: str, panels: Sequence[Panel]) -> str:
    """The panels side by side, below a title: a file of its own."""
    width, height = WIDTH * len(panels), HEIGHT + _HEAD
    drawn = "".join(
        f"<g transform='translate({number * WIDTH},{_HEAD})'>{''.join(_panel(panel))}</g>"
        for number, panel in enumerate(panels)
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' "
        f"role='img' aria-label='{escape(title)}' {_FONT}><title>{escape(title)}</title>"
        f"<rect width='100%' height='100%' fill='#ffffff'/>"
        f"<text x='16' y='24' font-size='16' font-weight='600'>{escape(title)}</text>{drawn}</svg>\n"
    )


def _panel(panel: Panel) -> Iterator[str]:
    points = [point for series in panel.series for point in series.points]
    yield f"<text x='16' y='20' font-weight='600'>{escape(panel.title)}</text>"
    if not points:
        yield f"<text x='16' y='{HEIGHT / 2}'>cannot tell: nothing to draw</text>"
        return
    heights = [value for point in points for value in (point.y, point.low, point.high) if value is not None]
    heights += [0.0, *([panel.line[0]] if panel.line else [])]
    axes = _Axes(ticks(min(p.x for p in points), max(p.x for p in points)), ticks(min(heights), max(heights)))
    yield from _grid(axes, panel)
    yield from _legend(panel.series)
    for series in panel.series:
        yield from _marks(axes, series)


def _grid(axes: _Axes, panel: Panel) -> Iterator[str]:
    left, right = axes.x[0], axes.x[-1]
    for tick in axes.y:
        (x1, y), (x2, _) = axes.at(left, tick), axes.at(right, tick)
        text = f"{100 * tick:g} %" if panel.percent else f"{tick:,g}"
        yield f"<line x1='{x1:.1f}' x2='{x2:.1f}' y1='{y:.1f}' y2='{y:.1f}' stroke='#dfe4e8'/>"
        yield f"<text x='{x1 - 6:.1f}' y='{y + 4:.1f}' text-anchor='end'>{text}</text>"
    for tick in axes.x:
        x, y = axes.at(tick, axes.y[0])
        yield f"<text x='{x:.1f}' y='{y + 18:.1f}' text-anchor='middle'>{tick:,g}</text>"
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    yield f"<text x='{middle}' y='{HEIGHT - 6}' text-anchor='middle' fill='{GREY}'>{escape(panel.x)}</text>"
    if panel.line is not None:
        (x1, y), (x2, _) = axes.at(left, panel.line[0]), axes.at(right, panel.line[0])
        yield f"<line x1='{x1:.1f}' x2='{x2:.1f}' y1='{y:.1f}' y2='{y:.1f}' stroke='#10202e' stroke-dasharray='5 4'/>"
        yield f"<text x='{x1 + 6:.1f}' y='{y + 16:.1f}'>{escape(panel.line[1])}</text>"


def _legend(series: Iterable[FigureSeries]) -> Iterator[str]:
    x = 16.0
    for each in series:
        yield f"<circle cx='{x + 5:.1f}' cy='37' r='4.5' {_look(each)}/>"
        yield f"<text x='{x + 15:.1f}' y='41'>{escape(each.name)}</text>"
        x += 34 + 6.6 * len(each.name)


def _look(series: FigureSeries) -> Markup:
    fill = "none" if series.ring else series.colour
    return Markup("fill='{}' stroke='{}' stroke-width='2'").format(fill, series.colour)


def _marks(axes: _Axes, series: FigureSeries) -> Iterator[str]:
    placed = [(axes.at(point.x, point.y), point) for point in series.points]
    if not series.ring and len(placed) > 1:
        path = " ".join(f"{x:.1f},{y:.1f}" for (x, y), _ in placed)
        yield f"<polyline points='{path}' fill='none' stroke='{series.colour}' stroke-width='1.5'/>"
    for (x, y), point in placed:
        if point.low is not None and point.high is not None:
            low, high = axes.at(point.x, point.low)[1], axes.at(point.x, point.high)[1]
            yield f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{low:.1f}' y2='{high:.1f}' stroke='{series.colour}'/>"
        yield f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{7 if series.ring else 3.5}' {_look(series)}/>"
