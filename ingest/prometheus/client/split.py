"""Queries in segments of time and metrics, smaller where they are too large.

Servers count in whole milliseconds; so do segments.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from ingest.prometheus.client.responses import SERIES

if TYPE_CHECKING:
    from collections.abc import Sequence

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)

_ALTERNATIVES: Final = re.compile(r'__name__=~"([a-zA-Z_:][a-zA-Z0-9_:]*(?:\|[a-zA-Z_:][a-zA-Z0-9_:]*)+)"')
"""Several metrics by name, as we write it."""


class QuerySegment(NamedTuple):
    """A part of a query: its selector or expression, its time, and the number of the query."""

    what: str
    low: datetime
    high: datetime
    question: int = 0


def halves(segment: QuerySegment, step: timedelta, apart: timedelta, error: Exception) -> list[QuerySegment]:
    """Halves of a segment, if any: in time down to a step, then by metrics; by metrics first for too many series."""
    metrics = halves_by_name(segment.what)
    steps = (segment.high - segment.low) // step
    if metrics and (steps < 1 or SERIES.search(str(error))):
        return [segment._replace(what=some) for some in metrics]
    if steps < 1:
        return []
    middle = segment.low + (steps // 2) * step if apart else whole(segment.low + (segment.high - segment.low) / 2)
    return [segment._replace(high=middle), segment._replace(low=middle + apart)]


def halves_by_name(selector: str) -> list[str]:
    """Selectors of one half and the other of the metrics that it names; [] where it does not name several.

    >>> halves_by_name('{__name__=~"up|x|y",a="b"}')
    ['{__name__="up",a="b"}', '{__name__=~"x|y",a="b"}']
    >>> halves_by_name('{__name__=~"up|up"}'), halves_by_name('{__name__=~"up.*|x"}')
    ([], [])
    """
    names = _names_in(selector)
    return [_of(selector, names[: len(names) // 2]), _of(selector, names[len(names) // 2 :])] if names else []


def by_name(selector: str) -> list[str]:
    """A selector for each metric that it names; itself where it does not name several."""
    return [_of(selector, [name]) for name in _names_in(selector)] or [selector]


def _names_in(selector: str) -> list[str]:
    """The metrics that a selector names, if they are several."""
    match = _ALTERNATIVES.search(selector)
    names = sorted(set(match[1].split("|"))) if match else []
    return names if len(names) > 1 else []


def _of(selector: str, names: Sequence[str]) -> str:
    """A selector with these metrics in place of all that it names."""
    matcher = f'__name__="{names[0]}"' if len(names) == 1 else f'__name__=~"{"|".join(names)}"'
    return _ALTERNATIVES.sub(lambda _: matcher, selector, count=1)


def whole(moment: datetime) -> datetime:
    """Cut to whole milliseconds: servers have no others."""
    return EPOCH + (moment - EPOCH) // MILLISECOND * MILLISECOND


def seconds(moment: datetime) -> str:
    """Epoch seconds in whole milliseconds, as a parameter."""
    return f"{epoch_ms(moment) / 1000:.3f}".removesuffix(".000")


def epoch_ms(moment: datetime) -> int:
    """Epoch milliseconds, cut to whole ones."""
    return (moment - EPOCH) // MILLISECOND
