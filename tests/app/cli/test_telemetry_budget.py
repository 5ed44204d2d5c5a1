"""What doctor says of a day's samples: within the budget, over it, and where the server does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli import telemetry_budget
from app.cli.telemetry_budget import budget_lines
from ingest.errors import ServerDownError
from ingest.prometheus.client.server import PrometheusServer
from ingest.prometheus.demand import Demand
from ingest.prometheus.reader import ScrapeSpec
from tests.support.warehouses import NOW

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

GPUS = Demand("prometheus.gpu", {"DCGM_FI_DEV_GPU_UTIL": 160_000}, {"DCGM_FI_DEV_GPU_UTIL": 15.0}, raw=True)
MEANS = Demand("prometheus.gpu", {"DCGM_FI_DEV_GPU_UTIL": 160_000}, {"DCGM_FI_DEV_GPU_UTIL": 3600.0}, raw=False)
NODES = Demand(
    "prometheus.node",
    {"node_load1": 10, "node_cpu_seconds_total": 2_000_000},
    {"node_load1": 60.0, "node_cpu_seconds_total": 15.0},
    raw=True,
)


def lines(monkeypatch: pytest.MonkeyPatch, *demands: Demand | Exception, budget: int = 10**9) -> list[tuple[str, str]]:
    def given(*_: object, **__: object) -> Iterator[Demand]:
        for each in demands:
            if isinstance(each, Exception):
                raise each
            yield each

    monkeypatch.setattr(telemetry_budget, "demands", given)
    server = PrometheusServer("http://127.0.0.1:9")
    return list(budget_lines(server, ScrapeSpec("c", "", 60), {}, budget=budget, now=NOW))


def test_line_within_the_budget_has_both_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(monkeypatch, GPUS, MEANS) == [
        (
            "ok",
            "GPU telemetry: 160,000 series, 922 million samples a day (raw, one in 15 s); budget 1 billion",
        ),
        (
            "ok",
            "GPU telemetry: 160,000 series, 3.84 million samples a day (means by the server, one in 1 h); "
            "budget 1 billion",
        ),
    ]


def test_line_over_the_budget_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    (state, gpus), (also, nodes) = lines(monkeypatch, GPUS, NODES, budget=900_000_000)
    assert (state, also) == ("warn", "warn")
    assert "over the budget of 900 million (prometheus.daily_samples)" in gpus
    assert "With prometheus.interval_s = 3600 the server computes hourly means: 3.84 million samples a day" in gpus
    assert "11.5 billion samples a day (raw, one in 15 s to 1 min; 15 s of node_cpu_seconds_total, which has" in nodes
    assert "Most samples: node_cpu_seconds_total (2,000,000 series), node_load1 (10 series)." in nodes
    assert "metric_relabel_configs" in nodes


def test_server_that_does_not_count_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = ServerDownError("http://p", "refuses the query", "Narrow it.")
    (_, _), (state, text) = lines(monkeypatch, GPUS, refused)
    assert (state, text) == ("warn", "the number of samples a day is unknown: http://p refuses the query")


def test_metric_of_unknown_pace_is_no_number_within_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    some = Demand("prometheus.node", NODES.series, {"node_load1": 60.0}, raw=True)
    none = Demand("prometheus.node", {"node_load1": 10}, {}, raw=True)
    (state, text), (also, nothing) = lines(monkeypatch, some, none)
    assert (state, also) == ("warn", "warn")
    assert "at least 14.4 thousand samples a day (raw, one in 1 min); whether that is within the budget" in text
    assert text.endswith("the scrape interval of: node_cpu_seconds_total (2,000,000 series)")
    assert "10 series; the number of samples a day is unknown" in nothing
