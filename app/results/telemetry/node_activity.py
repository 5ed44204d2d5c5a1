"""What nodes did, and whose they were: samples of nodes, day by day, and sums of days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.telemetry.gpu_activity import day_begin, read_of_day
from metrics import frames
from metrics.telemetry.node_attribution import SERIES, WHAT, CountedNodes, added_up, day_parts
from metrics.telemetry.rollup_fallback import with_hours

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date

    from app.window import Window
    from metrics.telemetry.node_attribution import NodeDay
    from metrics.telemetry.occupancy import Occupants
    from queries.warehouse import Reader, Writer

AT_ONCE: Final = 2_000_000
"""About so many samples are read at a time: a day of a large cluster has many more."""

EVERY_NODE: Final = (("", "\U0010ffff"),)
"""Names before the first and after the last node."""


@dataclass(frozen=True)
class NodeActivity:
    """What nodes did, in seconds and value x seconds; null where there were no such seconds.

    Attributes:
        owners: by `owner`, `metric`, `device`: `n_nodes`, `observed_s`, `value_s`, `shared_s`, `shared_value_s`.
        nodes: by `node`, `metric`, `device`: `observed_s`, `value_s`, and what of these was `attributed_s`,
            `checks_s`, `shared_s`, `outside_s` and `attributed_value_s`, ...
    """

    owners: pl.DataFrame
    nodes: pl.DataFrame


def attempt_rows(found: pl.DataFrame | None, owners: pl.DataFrame) -> pl.DataFrame | None:
    """Rows of the table `attempt_node_activity`; None where there is no usable sample.

    Args:
        found: what attempts did: `NodeActivity.owners`.
        owners: as `metrics.telemetry.occupancy.occupants` reads them: an attempt each.
    """
    if found is None or found.is_empty():
        return None
    key = list(frames.ATTEMPT_KEY)
    return found.join(owners.select("owner", *key), on="owner").select(
        *key, *WHAT, "n_nodes", "observed_s", "value_s", "shared_s", "shared_value_s"
    )


def node_activity(
    reader: Reader | Writer, window: Window, occupants_: Occupants, *, metrics: tuple[str, ...] = ()
) -> NodeActivity | None:
    """What nodes did in the window, by owner and by node, from samples; None where there are none.

    Args:
        reader: where samples are.
        window: cluster and time.
        occupants_: who was where.
        metrics: of these metrics only; all if none is named.
    """
    days = reader.query("node_sample_days", cluster=window.cluster)
    samples = (part for _, part in samples_of_days(reader, window, days.rows(), metrics=metrics))
    within = occupants_.within(window.since, window.until)
    return summed(map(CountedNodes(within).day, day_parts(samples, within)))


def summed(days: Iterable[NodeDay]) -> NodeActivity | None:
    """Days, the last one first, as one; None where there are no samples."""
    owners, nodes = RunningDaySums(["owner", *WHAT]), RunningDaySums(list(SERIES))
    for day in days:
        owners.add(day.owners)
        nodes.add(day.nodes)
    if nodes.whole().is_empty():
        return None
    return NodeActivity(in_seconds_of_owners(owners), of_nodes(nodes))


def in_seconds_of_owners(owners: RunningDaySums) -> pl.DataFrame:
    """`NodeActivity.owners` of the sums of all days."""
    return _in_seconds(owners.whole(), {"observed": "value", "shared": "shared_value"})


def of_nodes(nodes: RunningDaySums) -> pl.DataFrame:
    """`NodeActivity.nodes` of the sums of all days."""
    parts = {name: f"{name}_value" for name in ("attributed", "checks", "shared", "outside")}
    return _in_seconds(nodes.whole(), {"observed": "value", **parts})


class RunningDaySums:
    """Frames of days, added up whenever they are as many rows again as their sums: memory is that of the sums."""

    def __init__(self, by: list[str]) -> None:
        self._by = by
        self._parts: list[pl.DataFrame] = []
        self._is_whole = False
        self._enough = 0

    def add(self, part: pl.DataFrame) -> None:
        """One more day, or several, the last one first."""
        if part.is_empty() and self._parts:
            return
        self._parts.append(part)
        self._is_whole = False
        if sum(each.height for each in self._parts) > self._enough:
            self._enough = 2 * self.whole().height + AT_ONCE

    def whole(self) -> pl.DataFrame:
        """The sums so far."""
        if self._parts and not self._is_whole:
            self._parts, self._is_whole = [added_up(self._parts, self._by)], True
        return self._parts[0] if self._parts else pl.DataFrame()


def _in_seconds(sums: pl.DataFrame, values: dict[str, str]) -> pl.DataFrame:
    return sums.with_columns(
        *((pl.col(seconds) / 1000).alias(seconds) for seconds in values),
        *(pl.when(pl.col(seconds) > 0).then(value).alias(value) for seconds, value in values.items()),
    ).rename({name: f"{name}_s" for pair in values.items() for name in pair})


def samples_of_days(
    reader: Reader | Writer,
    window: Window,
    days: Iterable[tuple[date, int]],
    *,
    metrics: tuple[str, ...] = (),
    hours: int = 24,
) -> Iterator[tuple[date, pl.DataFrame]]:
    """Samples that may concern the window, a day or a part of its nodes at a time.

    Args:
        reader: where samples are.
        window: cluster and time.
        days: UTC days with how many samples they have, the last one first.
        metrics: of these metrics only; all if none is named.
        hours: of the first so many hours of the days only.
    """
    for day, rows in days:
        span = read_of_day(day, window)
        if span is None:
            continue
        until = min(span[1], day_begin(day) + timedelta(hours=hours))
        period = {"cluster": window.cluster, "since": span[0], "until": until}
        # One part is all nodes, whatever their names: what there are need not be looked for.
        many = rows * hours // 24
        parts = _parts(reader.query("nodes_sampled", **period)["node"], many) if many > AT_ONCE else EVERY_NODE
        for first, last in parts:
            some = {**period, "first": first, "last": last, "metrics": ",".join(metrics)}
            samples = reader.query("node_samples_between", **some)
            yield day, with_hours(samples, reader.query("node_hours_between", **some), by=SERIES)


def _parts(nodes: pl.Series, rows: int) -> Iterator[tuple[str, str]]:
    """Names of the first and the last node of each part that is read at once."""
    size = max(nodes.len() * AT_ONCE // max(rows, 1), 1)
    for begin in range(0, nodes.len(), size):
        part = nodes.slice(begin, size)
        yield part[0], part[-1]
