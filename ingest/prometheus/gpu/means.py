"""Averages of GPUs from a server, turned into samples for some nodes at a time.

An average with its labels and intermediate tables takes half a kilobyte. Here it is a time and a value, and labels are
stored once for each series, so a chunk takes some 16 bytes per average. The intermediate tables are in memory for
`CELLS_AT_ONCE` averages only, however large the cluster is.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from ingest.prometheus.gpu.samples import JudgedValues, judge, of_whole_gpus, warnings_of, wide
from ingest.prometheus.series.labels import SAMPLES, as_ratios, in_percent, is_blank
from ingest.prometheus.series.node_turns import node_turns
from ingest.tables import GPU_SAMPLES, conform, empty

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from ingest.load_warnings import LoadWarning
    from ingest.prometheus.client.remote_read import Samples
    from ingest.prometheus.client.xor_chunks import Whole
    from ingest.prometheus.reader import ScrapeSpec
    from ingest.prometheus.series.hosts import Hosts
    from ingest.prometheus.series.labels import Indexes
    from ingest.tables import Schema

CELLS_AT_ONCE: Final = 1 << 18
"""Approximate number of averages turned into rows together, for whole nodes."""

SERIES: Final[Schema] = {name: SAMPLES[name] for name in ("name", "node", "gpu", "instance")}


class Means(NamedTuple):
    """Averages series by series, in the order of `Samples`: `sizes` of them belong to each row of `series` (SERIES)."""

    series: pl.DataFrame
    sizes: Whole
    times: Whole
    values: npt.NDArray[np.float64]

    def renamed(self, indexes: Indexes, hosts: Hosts) -> Means:
        """With indexes of GPUs in place of their UUIDs, and names of hosts in place of addresses, where known."""
        return self._replace(series=hosts.renamed(indexes.renamed(self.series)))

    def of(self, chosen: npt.NDArray[np.bool_]) -> pl.DataFrame:
        """SAMPLES of some of the series, without blanks."""
        keep = np.repeat(chosen, self.sizes)
        owners = np.repeat(np.arange(int(chosen.sum())), self.sizes[chosen])
        rows = pl.DataFrame({"ts": self.times[keep], "value": self.values[keep]})
        texts = self.series.filter(pl.Series(chosen))[owners]
        return conform(
            texts.with_columns(rows["ts"].cast(pl.Datetime("ms", "UTC")), rows["value"]).filter(~is_blank()),
            SAMPLES,
        )


class AverageRows(NamedTuple):
    """GPU_SAMPLES of averages, sorted; the number of averages, of usable ones among them, and the warnings."""

    frame: pl.DataFrame
    n_read: int
    n_good: int
    warnings: list[LoadWarning]


def means_of(identities: Sequence[tuple[str, ...] | None], samples: Samples) -> Means:
    """Averages without the series that have no identity; an identity begins with the values of SERIES."""
    good = np.array([each is not None for each in identities], bool)
    keep = np.repeat(good, samples.sizes)
    rows = [each[: len(SERIES)] for each in identities if each is not None]
    return Means(
        pl.DataFrame(rows, SERIES, orient="row"), samples.sizes[good], samples.times[keep], samples.values[keep]
    )


def samples_of(parts: Sequence[Means], spec: ScrapeSpec) -> AverageRows:
    """The samples of all averages of a load."""
    percents = _percents(parts, spec)
    frames, n_good, strange, n_percents = [empty(GPU_SAMPLES)], 0, Counter[str](), 0
    for exported in _by_nodes(parts):
        judged = judge(exported, percents, spec.mapping)
        frames.append(_rows(judged.good, spec))
        n_good += judged.good.height
        strange += judged.strange
        n_percents += judged.n_percents
    warnings = warnings_of(JudgedValues(empty({}), strange, n_percents), percents)
    return AverageRows(pl.concat(frames), sum(part.times.size for part in parts), n_good, warnings)


def _rows(values: pl.DataFrame, spec: ScrapeSpec) -> pl.DataFrame:
    """GPU_SAMPLES of values (LONG) at the ends of their intervals."""
    begins = pl.col("ts") - timedelta(seconds=spec.interval_s)
    cells = of_whole_gpus(values).with_columns(begins, interval_s=pl.lit(float(spec.interval_s)))
    return wide(cells, cluster=spec.cluster)


def _percents(parts: Sequence[Means], spec: ScrapeSpec) -> list[str]:
    """Names that count in percent, judged by all values of a load.

    Only values of ratios are gathered. Blanks are larger than any percentage, so none of them counts.
    """
    ratios = as_ratios(spec.mapping)
    names = pl.Enum(ratios)
    named = []
    for part in parts:
        chosen = part.series["name"].is_in(ratios).to_numpy()
        series = part.series["name"].filter(pl.Series(chosen)).cast(names)
        owners = np.repeat(np.arange(series.len(), dtype=np.uint32), part.sizes[chosen])
        named.append(pl.DataFrame({"name": series[owners], "value": part.values[np.repeat(chosen, part.sizes)]}))
    return [str(name) for name in in_percent(pl.concat(named, rechunk=False), spec.mapping)] if named else []


def _by_nodes(parts: Sequence[Means]) -> Iterator[pl.DataFrame]:
    """SAMPLES of some nodes at a time, in the order of their names."""
    cells = [part.series.select("node", n=pl.Series(part.sizes, dtype=pl.Int64)) for part in parts]
    if not cells:
        return
    nodes = node_turns(pl.concat(cells), CELLS_AT_ONCE)
    turns = [part.series.join(nodes, on="node", maintain_order="left")["turn"].to_numpy() for part in parts]
    for turn in nodes["turn"].unique().sort():
        yield pl.concat([part.of(of == turn) for part, of in zip(parts, turns, strict=True)])
