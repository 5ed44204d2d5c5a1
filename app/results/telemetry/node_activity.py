"""What the nodes of each attempt did: samples of nodes, day by day, as rows of `attempt_node_activity`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.telemetry.gpu_activity import read_of_day
from metrics import frames
from metrics.telemetry.node_attribution import SERIES, WHAT, added_up, node_activities
from metrics.telemetry.occupancy import occupants
from metrics.telemetry.rollup_fallback import with_hours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.window import Window
    from metrics.telemetry.occupancy import Occupants
    from queries.warehouse import Reader, Writer

AT_ONCE: Final = 2_000_000
"""About so many samples are read at a time: a day of a large cluster has many more."""

EVERY_NODE: Final = (("", "\U0010ffff"),)
"""Names before the first and after the last node."""

_SECONDS: Final = {"observed": "value", "shared": "shared_value"}


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


def attempt_node_activity(
    reader: Reader | Writer, window: Window, attempts: pl.DataFrame, on_nodes: pl.DataFrame, covered: pl.DataFrame
) -> pl.DataFrame | None:
    """Rows of `attempt_node_activity` within the window; None where no sample tells anything.

    Args:
        reader: where samples are.
        window: cluster and time.
        attempts: numbered, as in `metrics.telemetry.occupancy.Holders`.
        on_nodes: `frames.ATTEMPT_NODES`.
        covered: `frames.COVERAGE` of accounting.
    """
    key = list(frames.ATTEMPT_KEY)
    owners = attempts.select(*key, pl.col("attempt").alias("owner"), "verification")
    found = node_activity(reader, window, occupants(on_nodes, owners, covered))
    if found is None or found.owners.is_empty():
        return None
    return found.owners.join(owners.select("owner", *key), on="owner").select(
        *key, *WHAT, "n_nodes", "observed_s", "value_s", "shared_s", "shared_value_s"
    )


def node_activity(
    reader: Reader | Writer, window: Window, occupants_: Occupants, *, metrics: tuple[str, ...] = ()
) -> NodeActivity | None:
    """What nodes did in the window, by owner and by node; None where there are no samples.

    Args:
        reader: where samples are.
        window: cluster and time.
        occupants_: who was where.
        metrics: of these metrics only; all if none is named.
    """
    owners, nodes = _Sums(["owner", *WHAT]), _Sums(list(SERIES))
    for day in node_activities(_days(reader, window, metrics), occupants_.within(window.since, window.until)):
        owners.add(day.owners)
        nodes.add(day.nodes)
    if nodes.whole().is_empty():
        return None
    parts = {name: f"{name}_value" for name in ("attributed", "checks", "shared", "outside")}
    return NodeActivity(
        _in_seconds(owners.whole(), _SECONDS), _in_seconds(nodes.whole(), {"observed": "value", **parts})
    )


class _Sums:
    """Frames of days, added up whenever they are as many rows again as their sums: memory is that of the sums."""

    def __init__(self, by: list[str]) -> None:
        self._by = by
        self._parts: list[pl.DataFrame] = []
        self._enough = 0

    def add(self, part: pl.DataFrame) -> None:
        """One more day."""
        self._parts.append(part)
        if sum(each.height for each in self._parts) > self._enough:
            self._enough = 2 * self.whole().height + AT_ONCE

    def whole(self) -> pl.DataFrame:
        """The sums so far."""
        if len(self._parts) > 1:
            self._parts = [added_up(self._parts, self._by)]
        return self._parts[0] if self._parts else pl.DataFrame()


def _in_seconds(sums: pl.DataFrame, values: dict[str, str]) -> pl.DataFrame:
    return sums.with_columns(
        *((pl.col(seconds) / 1000).alias(seconds) for seconds in values),
        *(pl.when(pl.col(seconds) > 0).then(value).alias(value) for seconds, value in values.items()),
    ).rename({name: f"{name}_s" for pair in values.items() for name in pair})


def _days(reader: Reader | Writer, window: Window, metrics: tuple[str, ...]) -> Iterator[pl.DataFrame]:
    """Samples that may tell of the window, a day or a part of its nodes at a time, the last day first."""
    for day, rows in reader.query("node_sample_days", cluster=window.cluster).rows():
        span = read_of_day(day, window)
        if span is None:
            continue
        period = {"cluster": window.cluster, "since": span[0], "until": span[1]}
        # One part is all nodes, whatever their names: what there are need not be looked for.
        parts = _parts(reader.query("nodes_sampled", **period)["node"], rows) if rows > AT_ONCE else EVERY_NODE
        for first, last in parts:
            some = {**period, "first": first, "last": last, "metrics": ",".join(metrics)}
            samples = reader.query("node_samples_between", **some)
            yield with_hours(samples, reader.query("node_hours_between", **some), by=SERIES)


def _parts(nodes: pl.Series, rows: int) -> Iterator[tuple[str, str]]:
    """Names of the first and the last node of each part that is read at once."""
    size = max(nodes.len() * AT_ONCE // max(rows, 1), 1)
    for begin in range(0, nodes.len(), size):
        part = nodes.slice(begin, size)
        yield part[0], part[-1]
