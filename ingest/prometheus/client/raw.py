"""Raw readings of any series by any transport: the input of everything but averages of GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from ingest.prometheus.client.remote_read import Samples
    from ingest.prometheus.client.server import PrometheusServer

Answer = TypeVar("Answer")

GONE_S: Final = 300
"""Seconds without a reading after which a series is gone (Prometheus' own limit). Such a gap is unobserved time."""


@dataclass
class ServerReader:
    """Readings from a server, by its fastest transport. `selector` is label matchers, without braces."""

    server: PrometheusServer
    selector: str = ""
    step: timedelta = timedelta(minutes=1)

    def raw(
        self,
        names: Sequence[str],
        *,
        since: datetime,
        until: datetime,
        each: Callable[[Samples], Answer],
    ) -> list[Answer]:
        """Results of `each` for the readings after `since`, up to and with `until`, batch by batch.

        The series are those with one of the `names`; `__name__` is among their labels. A series may be in several
        batches, later readings in later ones; no reading comes twice.

        Raises:
            SourceError: The server does not return them.
        """
        if not names:
            return []
        matchers = ",".join(filter(None, [f'__name__=~"{"|".join(names)}"', self.selector]))
        selector = f"{{{matchers}}}"
        streamed = self.server.samples(selector, first=since + self.step, last=until, step=self.step, each=each)
        if streamed is not None:
            return streamed
        answers = self.server.json_readings(selector, since=since, until=until, step=self.step)
        return [each(samples) for samples in answers]


def as_samples(samples: Samples, name: str | None = None) -> Samples:
    """Samples of an answer in JSON; `name` is the metric's where the answer does not have it (averages)."""
    if name is None:
        return samples
    return samples._replace(labels=[{"__name__": name, **labels} for labels in samples.labels])
