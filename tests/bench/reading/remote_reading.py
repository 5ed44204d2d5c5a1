"""Raw samples from a real Prometheus: our transports against `curl` of the same in JSON, and against the library."""

from __future__ import annotations

import importlib.util
import subprocess
import time
import urllib.parse
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from prometheus_api_client import PrometheusConnect

from ingest.prometheus.client.server import PrometheusServer
from tests.bench.table import row
from tests.lab.prometheus import PrometheusLab

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from ingest.prometheus.client.remote_read import Samples

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
"""Begins a block of Prometheus, two hours long."""

HOURS = 2
SCRAPE_S = 15
METRICS: dict[str, tuple[str, Callable[[np.random.Generator, int], npt.NDArray[Any]]]] = {
    "DCGM_FI_DEV_GPU_UTIL": ("d", lambda chance, n: chance.integers(0, 101, n)),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": (".6f", lambda chance, n: chance.random(n)),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": (".6f", lambda chance, n: chance.random(n)),
    "DCGM_FI_DEV_FB_USED": ("d", lambda chance, n: np.repeat(chance.integers(0, 81_000, n // 60 + 1), 60)[:n]),
    "DCGM_FI_DEV_POWER_USAGE": (".3f", lambda chance, n: 400 + np.cumsum(chance.normal(0, 3, n))),
    "DCGM_FI_DEV_GPU_TEMP": ("d", lambda chance, n: 60 + np.cumsum(chance.integers(-1, 2, n))),
}
"""How each is written, and so many values of a GPU: some never rest, some seldom change."""


@dataclass(frozen=True)
class _Fleet:
    """A server with this many samples."""

    url: str
    samples: int

    @property
    def end(self) -> datetime:
        return BEGIN + timedelta(hours=HOURS)


def _history(gpus: int) -> tuple[str, int]:
    """Two hours of GPUs, eight on a node, as dcgm-exporter labels them, and how many samples they are."""
    chance = np.random.default_rng(11)
    times = [int(BEGIN.timestamp()) + second for second in range(SCRAPE_S, HOURS * 3600, SCRAPE_S)]
    lines = []
    for name, (form, values) in METRICS.items():
        for number in range(gpus):
            node, gpu = f"n{number // 8:04d}", number % 8
            labels = (
                f'gpu="{gpu}",UUID="GPU-{number:08x}-1c2d-3e4f-5a6b-7c8d9e0f1a2b",pci_bus_id="00000000:{gpu:02X}:00.0",'
                f'device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="{node}",'
                f'DCGM_FI_DRIVER_VERSION="550.54.15",hpc_job="{90_000 + number // 64}"'
            )
            reported = zip(times, values(chance, len(times)).tolist(), strict=True)
            lines += [f"{name}{{{labels}}} {value:{form}} {at}" for at, value in reported]
    return "\n".join([*lines, "# EOF"]) + "\n", len(lines)


def _ours(fleet: _Fleet) -> None:
    """All raw samples as numpy columns, with their labels."""
    server = PrometheusServer(fleet.url)
    result: list[Samples] = []
    every = f'{{__name__=~"{"|".join(METRICS)}"}}'
    step = timedelta(hours=HOURS)
    assert server.samples(every, first=fleet.end, last=fleet.end, step=step, each=result.append) is not None
    server.close()
    assert sum(each.times.size for each in result) == fleet.samples


def _ours_in_json(fleet: _Fleet) -> None:
    """The same without remote read."""
    server = PrometheusServer(fleet.url, remote_read=False)
    every = f'{{__name__=~"{"|".join(METRICS)}"}}'
    step = timedelta(hours=HOURS)
    result = server.json_readings(every, since=BEGIN, until=fleet.end, step=step)
    assert sum(each.times.size for each in result) == fleet.samples
    server.close()


def _curl(fleet: _Fleet) -> None:
    """All of them in JSON, to nowhere, over one connection."""
    requested = []
    for name in METRICS:
        query = {"query": name, "start": BEGIN.timestamp() + SCRAPE_S, "end": fleet.end.timestamp() - SCRAPE_S}
        url = f"{fleet.url}/api/v1/query_range?{urllib.parse.urlencode(query | {'step': SCRAPE_S})}"
        requested += ["--output", "/dev/null", url]
    subprocess.run(["curl", "--silent", "--fail", *requested], check=True)


def _frames(fleet: _Fleet) -> None:
    """All of them as the library's MetricRangeDataFrame."""
    from prometheus_api_client import MetricRangeDataFrame  # it needs pandas, which we do not

    library, result = PrometheusConnect(fleet.url), 0
    for name in METRICS:
        reported = library.custom_query_range(name, BEGIN, fleet.end, step=str(SCRAPE_S))
        result += len(MetricRangeDataFrame(reported))
    assert result >= fleet.samples


def bench_remote_read(gpus: int, *, repeats: int = 5) -> list[dict[str, Any]]:
    """Rows for the table. Goals, in samples a second: by remote read 1.4 of curl's and 35 times the library's, in JSON
    0.6 and 15 times.
    """
    text, samples = _history(gpus)
    with PrometheusLab(history=text) as lab:
        del text
        fleet = _Fleet(lab.url, samples)
        times: dict[Callable[[_Fleet], None], list[float]] = {_ours: [], _ours_in_json: [], _curl: []}
        for _ in range(repeats):
            for work, result in times.items():
                result.append(_seconds(work, fleet))
        library = _seconds(_frames, fleet) if importlib.util.find_spec("pandas") is not None else None
    curl, rows = min(times[_curl]), []
    for work, transport, of_curl, of_library in ((_ours, "remote read", 1.4, 35), (_ours_in_json, "JSON", 0.6, 15)):
        name, ours = f"{samples:,} samples by {transport}", min(times[work])
        rows.append(row(name, ours, curl, "curl of them as JSON", 1 / of_curl))
        if library is not None:
            rows.append(row(name, ours, library, "MetricRangeDataFrame", 1 / of_library))
    return rows


def _seconds(work: Callable[[_Fleet], None], fleet: _Fleet) -> float:
    began = time.perf_counter()
    work(fleet)
    return time.perf_counter() - began
