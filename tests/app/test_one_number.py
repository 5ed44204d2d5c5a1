"""One number is one number: on the command line, in `/metrics`, on the Grafana board, and in the report."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from waitress.server import create_server

from app import formatting
from app.config.settings import Config
from app.reports.sla.write import write_sla
from app.results.serving.cache import AnswerCache
from app.results.windows import CLAIMED_GPUS
from app.service import exporter
from app.service import server as service
from app.times import parse_period
from app.window import Window
from metrics.units import DAY_S
from queries.warehouse import open_reader
from tests.lab.prometheus import PrometheusLab, need_prometheus
from tests.support.command import ROOT, trackside
from tests.support.warehouses import NOW, from_everything

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BOARDS = [ROOT / "dashboards" / "generated" / f"{name}.json" for name in ("fleet", "reliability")]
Shown = dict[str, float]
"""What a place says: goodput, ettr, mttf (days) and restart, and the ends of their bounds or intervals."""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_everything(tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="module")
def period(warehouse: Path) -> str:
    """All the data, as a period."""
    with open_reader(warehouse) as reader:
        computed = reader.query("computed", cluster="demo").row(0, named=True)
    return f"{computed['since'].isoformat()}..{computed['until'].isoformat()}"


@pytest.fixture(scope="module")
def shown(warehouse: Path) -> Shown:
    """As `trackside show` says it."""
    goodput = _row(_show(warehouse, "goodput"), metric="goodput_allocated")
    ettr = _row(_show(warehouse, "ettr"), metric="ettr")
    mttf = _row(_show(warehouse, "mttf"), **{"class": "infrastructure", "counted": "attempts", "size": "pooled"})
    restart = _row(_show(warehouse, "restarts"), **{"class": "infrastructure", "cause": "all"})
    return {
        "goodput": goodput["value"],
        "goodput_low": goodput["bound_low"],
        "goodput_high": goodput["bound_high"],
        "ettr": ettr["value"],
        "ettr_low": ettr["bound_low"],
        "ettr_high": ettr["bound_high"],
        "mttf": mttf["mttf_d"] / CLAIMED_GPUS,
        "mttf_low": mttf["mttf_low_d"] / CLAIMED_GPUS,
        "mttf_high": mttf["mttf_high_d"] / CLAIMED_GPUS,
        "failures": mttf["n_failures"],
        "restart": restart["median_s"],
        "restarts": restart["n"],
    }


def _show(warehouse: Path, what: str) -> list[dict[str, Any]]:
    done = trackside("show", what, "--format", "json", "--warehouse", str(warehouse))
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def _row(rows: list[dict[str, Any]], **where: str) -> dict[str, Any]:
    (actual,) = (row for row in rows if all(row[name] == value for name, value in where.items()))
    return actual


def test_every_shown_metric_has_an_explanation(shown: Shown) -> None:
    assert 0.5 < shown["goodput"] < 1
    assert shown["goodput_low"] <= shown["goodput"] <= shown["goodput_high"]
    assert shown["mttf_low"] < shown["mttf"] < shown["mttf_high"]
    assert shown["restarts"] > 0


_PLACES = {
    "goodput": ("trackside_goodput_ratio", {"of": "allocated", "bound": "point"}),
    "goodput_low": ("trackside_goodput_ratio", {"of": "allocated", "bound": "lower"}),
    "goodput_high": ("trackside_goodput_ratio", {"of": "allocated", "bound": "upper"}),
    "ettr": ("trackside_ettr_ratio", {"bound": "point"}),
    "ettr_low": ("trackside_ettr_ratio", {"bound": "lower"}),
    "ettr_high": ("trackside_ettr_ratio", {"bound": "upper"}),
    "mttf": ("trackside_mttf_seconds", {"bound": "point"}),
    "mttf_low": ("trackside_mttf_seconds", {"bound": "lower"}),
    "mttf_high": ("trackside_mttf_seconds", {"bound": "upper"}),
    "failures": ("trackside_failures_observed", {"class": "infrastructure"}),
    "restart": ("trackside_restart_seconds", {"statistic": "median"}),
    "restarts": ("trackside_restarts_observed", {}),
}
"""Where `/metrics` and the board have each of them."""


def _in_base_units(shown: Shown) -> Shown:
    return {name: value * DAY_S if name.startswith("mttf") else value for name, value in shown.items()}


@pytest.mark.slow
def test_metrics_declare_where_they_are_shown(warehouse: Path, shown: Shown) -> None:
    text = exporter.negotiated(AnswerCache(warehouse), "", now=NOW)[0].decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    actual = {}
    for name, (family, labels) in _PLACES.items():
        wanted = {"cluster": "demo", "window": "all", **labels}
        (actual[name],) = (
            sample.value for sample in samples if sample.name == family and wanted.items() <= sample.labels.items()
        )
    assert actual == _in_base_units(shown)


@pytest.fixture
def scraped(warehouse: Path) -> Iterator[str]:
    """A real Prometheus that scrapes our exporter."""
    need_prometheus()
    application = service.make_application(warehouse, Config())
    with application.test_client() as client:  # the first scrape works everything out, and Prometheus is impatient
        assert client.get("/metrics").status_code == 200
    listening = socket.create_server(("127.0.0.1", 0))
    server = create_server(application, sockets=[listening], threads=2)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        with PrometheusLab(targets=[f"127.0.0.1:{listening.getsockname()[1]}"]) as prometheus:
            yield prometheus.url
    finally:
        server.close()
        thread.join(10)


@pytest.mark.slow
def test_board_equals_show(scraped: str, shown: Shown) -> None:
    """Its own queries, read from the JSON that ships, on what Prometheus scraped."""
    expressions = [
        target["expr"]
        for board in BOARDS
        for panel in _panels(json.loads(board.read_text()))
        if panel["type"] == "stat"
        for target in panel["targets"]
    ]
    actual = {}
    for name, (family, labels) in _PLACES.items():
        matching = [
            expr
            for expr in expressions
            if f"{family}{{" in expr and all(f'{label}="{value}"' in expr for label, value in labels.items())
        ]
        assert matching, f"no panel shows {name}"
        actual[name] = _scraped(scraped, matching[0].replace("$cluster", ".+").replace("$window", "all"))
    assert actual == _in_base_units(shown)


def _panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in board["panels"]:
        yield panel
        yield from _panels({"panels": panel.get("panels", [])})


def _scraped(url: str, expression: str) -> float:
    """The one value of an expression, as soon as there is one."""
    for _ in range(100):
        with urlopen(f"{url}/api/v1/query?{urlencode({'query': expression})}", timeout=10) as answer:
            rows = json.load(answer)["data"]["result"]
        if rows:
            (row,) = rows
            return float(row["value"][1])
        time.sleep(0.1)
    raise AssertionError(f"Prometheus has nothing for {expression}")


def test_report_equals_show(warehouse: Path, shown: Shown, period: str, tmp_path: Path) -> None:
    window = Window("demo", *parse_period(period))
    with open_reader(warehouse) as reader:
        write_sla(reader, window, period, None, tmp_path / "r.json", "json")
        write_sla(reader, window, period, None, tmp_path / "r.html", "html")
    reported = json.loads((tmp_path / "r.json").read_text())
    goodput, ettr, mttf, restart = (
        _row(reported["headlines"], metric=name)
        for name in ("goodput_allocated", "ettr", "mttf", "time_to_job_restart")
    )
    assert shown == {
        "goodput": goodput["value"],
        "goodput_low": goodput["bound_low"],
        "goodput_high": goodput["bound_high"],
        "ettr": ettr["value"],
        "ettr_low": ettr["bound_low"],
        "ettr_high": ettr["bound_high"],
        "mttf": mttf["value"],
        "mttf_low": mttf["ci_low"],
        "mttf_high": mttf["ci_high"],
        "failures": mttf["n"],
        "restart": restart["value"],
        "restarts": restart["n"],
    }
    objectives = {each["id"]: each for each in reported["objectives"]}
    assert objectives["goodput"]["value"] == shown["goodput"]
    assert objectives["mttf"]["value"] == shown["mttf"]
    assert objectives["restart"]["value"] == shown["restart"]
    html = (tmp_path / "r.html").read_text()
    for name, unit in (("goodput", "ratio"), ("mttf", "d"), ("restart", "s")):
        assert f"<dd>{formatting.measured(shown[name], unit, digits=2)}</dd>" in html
