"""The server of the size plan sends what Prometheus would: its chunks are read back, bit by bit and by the client."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ingest.prometheus.client.server import PrometheusServer
from tests.bench.sizes.exporters import Exporters
from tests.bench.sizes.xor_series import chunks
from tests.support.telemetry.xor import bits_of, read_chunk
from tests.support.web import web

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.prometheus.client.remote_read import Samples

HOUR = datetime(2026, 9, 7, 3, tzinfo=UTC)


@pytest.fixture
def server() -> Iterator[PrometheusServer]:
    made = Exporters(["gpu-001", "gpu-002"])
    with web(made.answer, made.read) as running:
        client = PrometheusServer(running.url)
        yield client
        client.close()


def test_chunks_are_read_back_bit_by_bit() -> None:
    values = np.array([[1.0, 1.0, -2.5, 1e300], [0.0, 3.0, 3.0, 3.0]])
    for row, chunk in zip(values, chunks(1_793_530_800_000, 30_000, values), strict=True):
        assert read_chunk(chunk) == [(1_793_530_800_000 + 30_000 * i, bits_of(v)) for i, v in enumerate(row)]


def test_client_reads_the_requested_hours(server: PrometheusServer) -> None:
    result: list[Samples] = []
    two = timedelta(hours=2)
    selector = '{__name__=~"DCGM_FI_DEV_GPU_TEMP|node_load1",instance!~"gpu-002.*"}'
    assert server.samples(selector, first=HOUR + two, last=HOUR + two, step=two, each=result.append) is not None
    [samples] = result
    assert [labels["__name__"] for labels in samples.labels] == ["DCGM_FI_DEV_GPU_TEMP"] * 16 + ["node_load1"]
    assert samples.sizes.tolist() == [240] * 17
    assert samples.times.min() == (HOUR.timestamp() + 30) * 1000


def test_names_are_those_of_the_selector(server: PrometheusServer) -> None:
    names = server.names('{__name__=~"node_load1|up"}', since=HOUR, until=HOUR)
    assert names == ["node_load1"]
