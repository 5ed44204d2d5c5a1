"""`trackside backfill`: past moments of `/metrics`, each with the numbers of the windows that end there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families

from app.claims.file import read_claims
from app.cli.main import main
from app.cli.verbs.serving import backfill
from app.results import headlines
from app.service import exporter
from app.service.history import moments
from app.window import Window
from dashboards.exported_metrics import FAMILIES
from queries.warehouse import open_reader
from tests.dashboards.server import Prometheus
from tests.lab.prometheus import PrometheusLab, need_prometheus
from tests.support.warehouses import NOW, from_accounting

if TYPE_CHECKING:
    from pathlib import Path

    from prometheus_client.samples import Sample

DAY = timedelta(days=1)
AT_THE_END = {
    "trackside_claim_target",
    "trackside_flagged_node",
    "trackside_gpus",
    "trackside_data_end_timestamp_seconds",
}
"""Families that a history has next to those of windows."""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_accounting(tmp_path_factory.mktemp("accounting"), jobs=300)


@pytest.fixture(scope="module")
def text(warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Every third day: a day's numbers take a second, and none depends on the step."""
    target = tmp_path_factory.mktemp("history") / "h.om"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(backfill.STEPS_S, "1d", 3 * 86_400)
        assert main(["backfill", "--warehouse", str(warehouse), "--every", "1d", "-o", str(target), "--quiet"]) == 0
    return target.read_text()


def _at(sample: Sample, moment: datetime) -> bool:
    """Whether a sample is of a moment; the parser has a type of its own for times."""
    return float(sample.timestamp or 0) == moment.timestamp()


def _samples(text: str) -> list[Sample]:
    families = openmetrics_families(text)
    return [sample for family in families for sample in family.samples]


def _whole(warehouse: Path) -> Window:
    with open_reader(warehouse) as reader:
        cluster = reader.query("clusters")["cluster"][0]
        row = reader.query("computed", cluster=cluster).row(0, named=True)
    return Window(cluster, row["since"], row["until"])


@pytest.mark.slow
def test_last_moment_of_the_history_is_what_is_scraped(warehouse: Path, text: str) -> None:
    end = _whole(warehouse).until
    told: dict[tuple[object, ...], float] = {
        (each.name, *sorted(each.labels.items())): each.value for each in _samples(text) if _at(each, end)
    }
    with open_reader(warehouse) as reader:
        now = exporter.exported(reader, tuple(read_claims(None)))
    scraped: dict[tuple[object, ...], float] = {
        (each.family.name, *sorted(zip(each.family.labels, each.labels, strict=True))): each.value
        for each in now.samples
    }
    of_history = {each.name for each in FAMILIES if "window" in each.labels} | AT_THE_END
    assert told == {key: value for key, value in scraped.items() if key[0] in of_history}
    assert len(told) > 40


def test_earlier_moment_has_numbers_of_windows_that_end_there(warehouse: Path, text: str) -> None:
    whole = _whole(warehouse)
    moment = moments(whole, 3 * DAY, before=NOW + 999 * DAY)[-2]
    assert moment < whole.until
    with open_reader(warehouse) as reader:
        window = Window(whole.cluster, whole.since, moment)
        parts = headlines.parts(reader, window, exported=True)
        (expected,) = [each for make in parts.values() for each in make() if each.metric == "goodput_allocated"]
    labels = {"cluster": whole.cluster, "window": "all", "of": "allocated"}
    told = {
        each.labels["bound"]: each.value
        for each in _samples(text)
        if each.name == "trackside_goodput_ratio" and _at(each, moment) and labels.items() <= each.labels.items()
    }
    assert told == pytest.approx(
        {
            bound: value
            for bound, value in (
                ("point", expected.value),
                ("lower", expected.bound_low),
                ("upper", expected.bound_high),
            )
            if value is not None
        }
    )


def test_moments_are_whole_steps_and_the_end() -> None:
    day = datetime(2026, 10, 1, tzinfo=UTC)
    window = Window("a", day + timedelta(hours=5), day + timedelta(days=2, hours=7))
    assert moments(window, DAY, before=day + 9 * DAY) == [day + DAY, day + 2 * DAY, window.until]
    assert moments(window, DAY, before=window.until) == [day + DAY, day + 2 * DAY]
    assert moments(window, DAY, before=day) == []


def test_history_of_the_last_hours_is_refused(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = _whole(warehouse)
    monkeypatch.setattr("app.clock.now", lambda: whole.since + timedelta(hours=1))
    assert main(["backfill", "--warehouse", str(warehouse), "-o", str(tmp_path / "h.om")]) == 2
    assert "older than three hours" in capsys.readouterr().err
    assert not (tmp_path / "h.om").exists()


def test_prometheus_answers_with_the_history(text: str, warehouse: Path) -> None:
    need_prometheus()
    whole = _whole(warehouse)
    with PrometheusLab(history=text) as prometheus:
        rows = Prometheus(prometheus.url).instant('trackside_gpu_seconds{window="all"}', at=whole.until.timestamp())
    expected = {
        (each.labels["state"], each.labels["category"]): each.value
        for each in _samples(text)
        if each.name == "trackside_gpu_seconds" and each.labels["window"] == "all" and _at(each, whole.until)
    }
    told = {(row["metric"]["state"], row["metric"]["category"]): float(row["value"][1]) for row in rows}
    assert told == pytest.approx(expected)
    assert told
