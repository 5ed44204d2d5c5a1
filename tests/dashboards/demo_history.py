"""History of the demo's numbers for a Prometheus: as computed at the end of each day, and hours of its telemetry.

A day's numbers are what the exporter would have had at its end, from what is known today. Of a GPU or node the means of
hours stand for the recorded series. What the demo does not have (Slurm's exporters, Kubernetes) is not there.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

import polars as pl

from app.claims.file import read_claims
from app.service import exporter
from app.service.samples import ExportedSample
from app.window import Window
from dashboards import exported_metrics as families
from queries.warehouse import open_reader
from tests.dashboards import filled
from tests.dashboards.server import Prometheus, running, stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime
    from pathlib import Path

    from queries.warehouse import Reader

DAYS: Final = 8
"""Ends of days with numbers, the last one that of the data."""

SCRAPED: Final = {"job": "trackside", "instance": "trackside:8050"}

Lines = dict[str, list[str]]
"""Samples by family."""


class AsOf:
    """A reader of which a cluster's data end earlier."""

    def __init__(self, reader: Reader, until: datetime) -> None:
        self._reader, self._until = reader, until

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """Rows of a named query."""
        rows = self._reader.query(name, **params)
        return rows.with_columns(until=pl.lit(self._until)) if name == "computed" else rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


def history(warehouse: Path) -> tuple[str, str, float]:
    """OpenMetrics text of the first cluster, its name, and its last moment in seconds since 1970."""
    lines: Lines = defaultdict(list)
    with open_reader(warehouse) as reader:
        cluster = reader.query("clusters")["cluster"][0]
        row = reader.query("computed", cluster=cluster).row(0, named=True)
        whole = Window(cluster, row["since"], row["until"])
        for days in reversed(range(DAYS)):
            until = whole.until - timedelta(days=days)
            told = exporter.exported(cast("Reader", AsOf(reader, until)), tuple(read_claims(None)))
            ages = (
                ExportedSample(families.INPUT_LAG, (of, source), max(0.0, (until - newest).total_seconds()))
                for of, source, newest in told.newest
            )
            _add(
                lines,
                (
                    each
                    for each in (*told.samples, *ages)
                    if cluster in each.labels or "cluster" not in each.family.labels
                ),
                until,
            )
        _telemetry(reader, whole, lines)
    text = [line for name in sorted(lines) for line in (f"# TYPE {name} gauge", *lines[name])]
    return "\n".join([*text, "# EOF", ""]), whole.cluster, whole.until.timestamp()


def _add(lines: Lines, samples: Iterable[ExportedSample], at: datetime) -> None:
    for each in samples:
        named = {**dict(zip(each.family.labels, each.labels, strict=True)), **SCRAPED}
        _line(lines, each.family.name, named, _at_then(each, at), at)


def _at_then(sample: ExportedSample, at: datetime) -> float:
    """Its value; what the computer's clock gave is the moment itself."""
    clocked = {families.COMPUTED.name, families.LAST_LOAD.name}
    return at.timestamp() if sample.family.name in clocked else sample.value


def _line(lines: Lines, name: str, labels: dict[str, str], value: float, at: datetime) -> None:
    quoted = ",".join(f'{key}="{text}"' for key, text in labels.items())
    lines[name].append(f"{name}{{{quoted}}} {value:.10g} {at.timestamp():.0f}")


def _telemetry(reader: Reader, whole: Window, lines: Lines) -> None:
    """Hours of the last days, as the series that the recording rules of a cluster make."""
    of_period = {"cluster": whole.cluster, "since": whole.until - timedelta(days=2), "until": whole.until}
    gpus = "SELECT node, gpu, ts, metric, mean FROM gpu_hours WHERE cluster = $cluster AND ts >= $since AND ts < $until"
    for node, gpu, ts, metric, mean in reader.frame(gpus, of_period).iter_rows():
        if mean is not None:
            labels = {"cluster": whole.cluster, "node": node, "gpu": gpu}
            _line(lines, f"trackside:gpu:{metric}", labels, mean, ts + timedelta(hours=1))
    nodes = gpus.replace("gpu_hours", "node_hours").replace("gpu, ts", "device, ts")
    for node, device, ts, metric, mean in reader.frame(nodes, of_period).iter_rows():
        if mean is not None:
            labels = {"cluster": whole.cluster, "node": node, "device": device}
            _line(lines, f"trackside:node:{metric}", labels, mean, ts + timedelta(hours=1))


@contextlib.contextmanager
def serving(warehouse: Path, folder: Path) -> Iterator[tuple[Prometheus, str]]:
    """A server with that history and what the rules derive from it, and the cluster, until the block is left."""
    text, cluster, end_s = history(warehouse)
    blocks = folder / "tsdb"
    stored(text, blocks)
    for layer in filled.layers()[1:]:
        filled.record(layer, blocks, folder, since_s=end_s - 2 * 86_400, end_s=end_s, every="1h", remembers="25h")
    with running(blocks, folder, remembers="25h", end_s=end_s) as server:
        yield server, cluster
