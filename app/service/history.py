"""History of `/metrics`: the samples that it would have had at past moments, by the data as they are today.

Prometheus never changes a sample, so its own history is as computed at the time, and begins with the first scrape. This
one begins with the data. It is OpenMetrics text with times, of which `promtool tsdb create-blocks-from` makes blocks.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest

from app.results.source import OF_ALL_WINDOWS, CachedSource
from app.service.exporter import Missing, exported_at
from app.service.samples import ExportedSamples
from app.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from app.service.samples import ExportedSample
    from metrics.claims.verdict import Claim
    from queries.warehouse import Reader

    Report = Callable[[str, int, int], None]


def moments(window: Window, every: timedelta, *, before: datetime) -> list[datetime]:
    """The moments of a history: whole steps since 1970 in a window, and its end, oldest first.

    Args:
        window: from its end of the first step on.
        every: the step.
        before: all moments are earlier than this.
    """
    step_s = int(every.total_seconds())
    first = int(window.since.timestamp()) // step_s + 1
    last = int(window.until.timestamp()) // step_s
    found = [datetime.fromtimestamp(number * step_s, window.until.tzinfo) for number in range(first, last + 1)]
    return [moment for moment in dict.fromkeys([*found, window.until]) if moment < before]


def history(
    reader: Reader,
    windows: Sequence[tuple[Window, Sequence[datetime]]],
    claims: tuple[Claim, ...],
    *,
    report: Report = lambda _what, _done, _total: None,
) -> tuple[bytes, list[Missing]]:
    """OpenMetrics text of the samples that `/metrics` would have had.

    Args:
        reader: the published warehouse.
        windows: for each cluster the window of all its data, and the moments to write.
        claims: the claims that are judged.
        report: receives the progress.

    Returns:
        The text, and the parts that could not be computed.
    """
    source = CachedSource(reader, only=OF_ALL_WINDOWS)
    samples: list[ExportedSample] = []
    missing: list[Missing] = []
    total = sum(len(at) for _, at in windows)
    done = 0
    for whole, at in windows:
        for moment in at:
            report(whole.cluster, done, total)
            made = exported_at(CachedSource(source), Window(whole.cluster, whole.since, moment), claims)
            missing += [each for each in made.missing if each.failed]
            samples += [replace(sample, at=moment) for sample in made.samples]
            done += 1
    registry = CollectorRegistry()
    registry.register(ExportedSamples(samples))
    text: bytes = generate_latest(registry)
    return text, missing
