"""Raw readings for tests of health events, and events as short rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ingest.prometheus.client.remote_read import Samples
from ingest.prometheus.health.xid import FIRST_SEEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl

Points = list[tuple[float, float]]
"""Second and value."""

Series = tuple[dict[str, str], Points]


def series(name: str, points: Iterable[tuple[float, float]], /, **labels: str) -> Series:
    return {"__name__": name, **labels}, list(points)


def of_gpu(name: str, points: Iterable[tuple[float, float]], /, **labels: str) -> Series:
    return series(name, points, **{"Hostname": "n1", "gpu": "0", "instance": "n1:9400", "job": "dcgm"} | labels)


def of_node(name: str, points: Iterable[tuple[float, float]], /, **labels: str) -> Series:
    return series(name, points, **{"instance": "n1:9100", "job": "node"} | labels)


def samples(*reported: Series) -> Samples:
    points = [point for _, some in reported for point in some]
    return Samples(
        [labels for labels, _ in reported],
        np.array([len(some) for _, some in reported], np.int64),
        np.array([round(second * 1000) for second, _ in points], np.int64),
        np.array([value for _, value in points], np.float64),
    )


def as_openmetrics(reported: Iterable[Series]) -> str:
    """The same as OpenMetrics, series by series; times are seconds."""
    lines = []
    for labels, points in reported:
        inside = ",".join(f'{key}="{value}"' for key, value in labels.items() if key != "__name__")
        lines += [f"{labels['__name__']}{{{inside}}} {value} {second}" for second, value in points]
    return "\n".join([*lines, "# EOF"]) + "\n"


def every(step: float, begin: float, end: float, value: float) -> Points:
    """Readings from `begin` on, before `end`."""
    return [(float(second), value) for second in np.arange(begin, end, step)]


def between(reported: Sequence[Series], after: float, until: float) -> list[Series]:
    """Readings after a second up to and with another; series without any are left out, as a server does."""
    cut = [(labels, [point for point in points if after < point[0] <= until]) for labels, points in reported]
    return [one for one in cut if one[1]]


def rows(events: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Second, place, what and severity of each event; `!` where it was only found there."""
    return [
        (
            row["ts"].timestamp(),
            "/".join(filter(None, (row["node"], row["gpu"], row["device"]))),
            f"{row['kind']} {row['code']}",
            row["severity"] + ("!" if row["detail"].startswith(FIRST_SEEN) else ""),
        )
        for row in events.iter_rows(named=True)
    ]
