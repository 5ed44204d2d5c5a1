"""Averages put together to samples some nodes at a time: the same as all at once."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import polars as pl
import pytest

from ingest.prometheus.client.remote_read import Samples
from ingest.prometheus.gpu import means
from ingest.prometheus.gpu.means import Means, means_of, samples_of
from ingest.prometheus.gpu.samples import of_whole_gpus, usable, wide
from ingest.prometheus.gpu.server import read
from ingest.prometheus.reader import ScrapeSpec
from ingest.prometheus.series.labels import BLANK_INT32, is_blank
from ingest.tables import GPU_SAMPLES, conform

if TYPE_CHECKING:
    from ingest.prometheus.client.server import PrometheusServer

SPEC = ScrapeSpec("c", "", 60)
NAMES = ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_TEMP")
NODES = ("n3", "n1", "n2")


def batches(values: tuple[float, ...]) -> list[Means]:
    """A batch for each metric: GPUs of three nodes, one of them with MIG instances, and a series that is refused."""
    result = []
    for name in NAMES:
        places = [
            (name, node, gpu, part) for node in NODES for gpu in "01" for part in ("", "7") if gpu == "1" or not part
        ]
        samples = Samples(
            [{"__name__": name} for _ in [*places, None]],
            np.full(len(places) + 1, len(values)),
            np.tile(1_700_000_040_000 + 60_000 * np.arange(len(values)), len(places) + 1),
            np.tile(np.array(values), len(places) + 1) + np.repeat(np.arange(len(places) + 1), len(values)) / 1000,
        )
        result.append(means_of([*places, None], samples))
    return result


def at_once(parts: list[Means]) -> tuple[pl.DataFrame, list[object]]:
    """The same of one frame of all averages."""
    exported = pl.concat([part.of(np.full(part.series.height, fill_value=True)) for part in parts])
    good = usable(exported.filter(~is_blank()), SPEC.mapping)
    begins = pl.col("ts") - pl.duration(seconds=60)
    cells = of_whole_gpus(good.values).with_columns(begins, interval_s=pl.lit(60.0))
    return conform(wide(cells, cluster="c"), GPU_SAMPLES), list(good.warnings)


@pytest.mark.parametrize("values", [(0.1, 0.4), (0.5, float(BLANK_INT32), 0.9), (55.0, 0.2, -1.0)])
def test_samples_of_node_after_node_are_those_of_all(
    monkeypatch: pytest.MonkeyPatch, values: tuple[float, ...]
) -> None:
    expected, warnings = at_once(batches(values))
    assert expected["node"].unique().sort().to_list() == sorted(NODES)
    for cells in (1, 20, 1 << 18):
        monkeypatch.setattr(means, "CELLS_AT_ONCE", cells)
        made = samples_of(batches(values), SPEC)
        assert made.frame.equals(expected)
        assert made.warnings == warnings


def test_samples_of_no_averages_are_none() -> None:
    made = samples_of([], SPEC)
    assert (made.frame.height, made.n_read, made.n_good, made.warnings) == (0, 0, 0, [])


@pytest.mark.parametrize("cuts", [(0, 9), (0, 5, 9), (0, 1, 2, 9)])
def test_counters_grow_from_one_batch_to_the_next(cuts: tuple[int, ...]) -> None:
    """500 W, read once a minute: a server with a limit cuts the time where it likes."""
    name, since = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", datetime.fromtimestamp(1_700_000_100, UTC)
    labels, times = {"__name__": name, "Hostname": "n1", "gpu": "0"}, 1_700_000_040_000 + 60_000 * np.arange(9)
    parts = [times[low:high] for low, high in itertools.pairwise(cuts)]
    server = SimpleNamespace(
        url="http://s",
        samples=lambda *_, each, **__: [
            each(Samples([labels], np.array([part.size]), part, 500.0 * (part - times[0]))) for part in parts
        ],
    )
    made = read(cast("PrometheusServer", server), SPEC, [name], since=since, until=since + timedelta(minutes=7))
    assert made.frames["gpu_samples"].select("ts", "power_w").rows() == [
        (since + timedelta(minutes=n), 500.0) for n in range(7)
    ]
