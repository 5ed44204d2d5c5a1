"""One number a panel: coloured by the claims' targets, with its course behind it and its two ends small beside it.

The number is that of the end of the time range: one that was known earlier and is not any more is not shown.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dashboards import grafana
from dashboards.grafana import fixed, instant, ranged, steps
from dashboards.parts import BAD, CANNOT_TELL, GOOD, MIDDLING, PLAIN, exported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.grafana import Json

COURSE: Final[dict[str, Any]] = {"graphMode": "area", "textMode": "auto"}
"""Options of a stat with its course behind it; the name is shown where there are several clusters."""

stat = partial(grafana.stat, options=COURSE)
"""A stat with its course behind it; its target is `ranged`."""

SMALL: Final[dict[str, Any]] = {
    "orientation": "horizontal",
    "text": {"titleSize": 11, "valueSize": 15},
    "wideLayout": False,
}

BY_BOUNDS: Final = ("at least", "at most")
BY_INTERVAL: Final = ("95 % from", "95 % to")


def at_least(targets: Mapping[str, tuple[float, ...]], metric: str, scale: float = 1.0) -> list[Json]:
    """Thresholds where more is better: red below the lowest target, green from the strictest on."""
    values = targets.get(metric, ())
    colors = (*(MIDDLING for _ in values[:-1]), GOOD)
    return steps(BAD, *((value * scale, color) for value, color in zip(values, colors, strict=True))) if values else []


def at_most(targets: Mapping[str, tuple[float, ...]], metric: str) -> list[Json]:
    """Thresholds where less is better: green below the strictest target, red from the highest on."""
    values = targets.get(metric, ())
    colors = (*(MIDDLING for _ in values[:-1]), BAD)
    return steps(GOOD, *zip(values, colors, strict=True)) if values else []


def known_now(expr: str) -> str:
    """A number's course, if it is known at the end of the time range, too."""
    return f"({expr} and {at_end(expr)})"


def at_end(expr: str) -> str:
    """An expression at the end of the time range: of selectors with a matcher, which all of ours have."""
    return expr.replace("})", "} @ end())")


def course(name: str, **equal: str) -> list[Any]:
    """The query of a stat: an exported number with its course."""
    return [ranged(known_now(exported(name, **equal)), "{{cluster}}")]


def bounded(
    title: str,
    description: str,
    name: str,
    *,
    ends: tuple[str, str] = BY_BOUNDS,
    width: int = 4,
    height: int = 4,
    equal: Mapping[str, str] | None = None,
    **look: Any,
) -> list[Any]:
    """A number, and its two ends in small print beside it.

    Args:
        title: of the number.
        description: what it is, where it comes from, what to do.
        name: family with the label `bound`.
        ends: what its ends are called.
        width: columns of the number; the ends have two more.
        height: rows of both.
        equal: further labels.
        look: unit, thresholds, ...
    """
    labels = dict(equal or {})
    colour = {} if look.get("thresholds") else {"color": fixed(PLAIN)}
    small = {key: value for key, value in look.items() if key not in {"thresholds", "no_value"}}
    return [
        stat(
            title,
            f"{description} Its ends are beside it.",
            course(name, bound="point", **labels),
            size=(width, height),
            **{"no_value": CANNOT_TELL, **look, **colour},
        ),
        grafana.stat(
            f"{ends[0]}, {ends[1]}",
            f"The ends of {title}. Far apart means that evidence is missing.",
            [
                instant(exported(name, bound=bound, **labels), f"{{{{cluster}}}} {called}")
                for bound, called in zip(("lower", "upper"), ends, strict=True)
            ],
            size=(2, height),
            options=SMALL,
            no_value="no limit",
            color=fixed(PLAIN),
            **small,
        ),
    ]


def top(count: int, expr: str) -> str:
    """The series that were highest at any time of the range: the same ones at each moment, so that lines are whole.

    `topk` alone picks others at each moment: a panel of five then has dozens of broken lines.
    """
    return f"topk({count}, max_over_time(({expr})[$__range:$__interval] @ end()))"


def most(count: int, expr: str) -> str:
    """The course of those series."""
    return f"({expr}) and {top(count, expr)}"


def least(count: int, expr: str) -> str:
    """The course of the series that were lowest at any time of the range."""
    return f"({expr}) and bottomk({count}, min_over_time(({expr})[$__range:$__interval] @ end()))"
