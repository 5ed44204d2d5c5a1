"""Raw readings of a time: after its beginning, up to and with its end, each once, by whatever transport they come."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from ingest.prometheus.client.raw import ServerReader
from ingest.prometheus.client.server import PrometheusServer
from tests.lab.prometheus import PrometheusLab, need_prometheus
from tests.lab.victoria import VictoriaLab, need_victoria
from tests.support.slurm.parsing import at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.prometheus.client.remote_read import Samples

pytestmark = [pytest.mark.xdist_group("prometheus")]

T = 1_795_248_000
TEXT = (
    "\n".join(
        [
            *(f'one{{env="{env}"}} {second} {T + second}' for env in ("prod", "test") for second in range(0, 301, 30)),
            *(f'two{{env="prod"}} {second} {T + second}.5' for second in range(0, 301, 60)),
            f'three{{env="prod"}} 1 {T + 60}',
            "# EOF",
        ]
    )
    + "\n"
)


def reported(
    server: PrometheusServer, *names: str, selector: str = "", since: int = 0, until: int = 300
) -> set[tuple[str, ...]]:
    """Name, label, milliseconds after T and value of all readings; no two are alike."""

    def each(samples: Samples) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        begin = 0
        for labels, size in zip(samples.labels, samples.sizes.tolist(), strict=True):
            read = slice(begin, begin + size)
            rows += [
                (labels["__name__"], labels["env"], str(moment - T * 1000), str(value))
                for moment, value in zip(samples.times[read].tolist(), samples.values[read].tolist(), strict=True)
            ]
            begin += size
        return rows

    transport = ServerReader(server, selector, timedelta(minutes=1))
    result = [row for rows in transport.raw(names, since=at(T + since), until=at(T + until), each=each) for row in rows]
    assert len(set(result)) == len(result)
    return set(result)


@pytest.fixture(scope="module", params=["remote read", "json", "victoria"])
def server(request: pytest.FixtureRequest) -> Iterator[PrometheusServer]:
    if request.param == "victoria":
        need_victoria()
        with VictoriaLab(history=TEXT) as victoria:
            yield PrometheusServer(victoria.url)
        return
    need_prometheus()
    with PrometheusLab(history=TEXT) as prometheus:
        yield PrometheusServer(prometheus.url, remote_read=request.param == "remote read")


def test_reading_at_the_beginning_is_left_out_at_the_end_kept(server: PrometheusServer) -> None:
    assert {row[2] for row in reported(server, "one", since=60, until=150)} == {"90000", "120000", "150000"}


def test_names_and_selector_choose_the_series(server: PrometheusServer) -> None:
    result = reported(server, "one", "two", selector='env="prod"')
    assert {row[:2] for row in result} == {("one", "prod"), ("two", "prod")}
    assert {row[2:] for row in result if row[0] == "two"} == {
        (str(second * 1000 + 500), f"{second:.1f}") for second in range(0, 300, 60)
    }


def test_times_that_touch_give_each_reading_once(server: PrometheusServer) -> None:
    whole = reported(server, "one", "two")
    parts = [reported(server, "one", "two", since=low, until=low + 75) for low in (0, 75, 150, 225)]
    assert sum(map(len, parts)) == len(whole)
    assert set.union(*parts) == whole


def test_nothing_is_requested_without_names() -> None:
    assert (
        ServerReader(PrometheusServer("http://nobody.invalid")).raw([], since=at(T), until=at(T + 60), each=len) == []
    )
