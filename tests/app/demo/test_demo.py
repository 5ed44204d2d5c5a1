"""The demo: each step once, on again after an interruption, no folder but its own, the truth beside each number."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.cli.verbs.first_steps import demo as verb
from app.config import settings as config
from app.demo import demo
from app.demo import planted as of_planted
from app.demo.simulate import Settings
from app.errors import UsageError
from app.results.headlines import Headline
from app.service import server as service
from queries.warehouse import open_reader

if TYPE_CHECKING:
    from pathlib import Path

SMALL = Settings(gpus=64, days=3, seed=5, failures_per_1000_node_days=200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("demo") / "work"
    demo.show(made, config.Config(), simulated=SMALL, quiet=True)
    return made


@pytest.mark.slow
def test_it_leaves_everything_that_it_names(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} >= {"sources", "truth.json", "truth", "warehouse", "grafana"}
    assert list(folder.glob("sla-demo-*.html"))
    with open_reader(folder / "warehouse") as reader:
        assert set(reader.table("gpu_time")["evidence"]) >= {"log", "telemetry", "accounting"}


def test_second_run_keeps_finished_steps_and_reports_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "warehouse/published/current").read_bytes()
    demo.show(folder, config.Config(), simulated=SMALL)
    output = capsys.readouterr().out
    assert output.count("done before, kept") == 8
    assert (folder / "warehouse/published/current").read_bytes() == before
    assert "the truth behind them" in output


@pytest.mark.slow
def test_it_goes_on_where_it_was_interrupted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    marker = folder / demo.MARKER
    whole = json.loads(marker.read_text())
    marker.write_text(json.dumps({**whole, "done": whole["done"][:-2]}))
    demo.show(folder, config.Config(), simulated=SMALL)
    output = capsys.readouterr().out
    assert output.count("done before, kept") == 6
    assert "write the report: sla-demo-2026" in output
    assert json.loads(marker.read_text()) == whole


def test_all_numbers_are_shown_with_the_truth(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo.show(folder, config.Config(), simulated=SMALL, quiet=True)
    output = capsys.readouterr().out
    for title in ("Goodput (of allocated)", "Occupancy", "ETTR", "MTTF at 1,024 GPUs", "Time to job restart"):
        assert title in output
    assert "Claims against demo" in output
    assert "because" in output
    assert "inside the" in output.partition("Claims against")[0]


def test_new_demo_starts_over_and_deletes_only_its_own_files(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / demo.MARKER).write_text(json.dumps({"made_by": {"trackside": "0"}, "done": ["simulate", "slurm"]}))
    (work / "warehouse").mkdir()
    (work / "warehouse/old").write_text("old")
    (work / "notes.txt").write_text("mine")
    monkeypatch.setattr(demo, "_steps", lambda *_: [])
    with pytest.raises(FileNotFoundError):  # nothing was simulated, so there is no truth to show
        demo.show(work, config.Config(), simulated=SMALL, quiet=True)
    assert sorted(path.name for path in work.iterdir()) == [demo.MARKER, "notes.txt"]


def test_the_needs_are_printed_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_do", stopped)
    for quiet, shown in ((False, f"{demo.NEEDS} Steps that are done are kept when you stop it.\n"), (True, "")):
        with pytest.raises(KeyboardInterrupt):
            demo.show(tmp_path / "d", config.Config(), quiet=quiet)
        assert capsys.readouterr().out == shown
    with pytest.raises(KeyboardInterrupt):
        demo.show(tmp_path / "small", config.Config(), simulated=SMALL)
    assert capsys.readouterr().out == "", "the needs are those of the usual size"


@pytest.mark.parametrize("marker", ["", "{", "[]", '{"done": 3}', "\x00"])
def test_a_marker_that_cannot_be_read_means_that_nothing_is_done(tmp_path: Path, marker: str) -> None:
    (tmp_path / demo.MARKER).write_text(marker)
    assert demo.DemoFolder.open(tmp_path, SMALL).done == []


@pytest.mark.parametrize("done", [{}, {"done": 3}, {"done": None}])
def test_marker_without_finished_steps_is_ignored(tmp_path: Path, done: dict[str, object]) -> None:
    demo.DemoFolder.open(tmp_path, SMALL)
    made_by = json.loads((tmp_path / demo.MARKER).read_text())["made_by"]
    (tmp_path / demo.MARKER).write_text(json.dumps({"made_by": made_by, **done}))
    assert demo.DemoFolder.open(tmp_path, SMALL).done == []


def test_folder_of_another_owner_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "warehouse").mkdir()
    with pytest.raises(UsageError, match="was not made by a demo"):
        demo.show(tmp_path, config.Config(), simulated=SMALL)
    assert [path.name for path in tmp_path.iterdir()] == ["warehouse"]


def test_file_in_the_way_is_reported_and_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="was not made by a demo"):
        demo.show(tmp_path / "file", config.Config(), simulated=SMALL)
    assert (tmp_path / "file").read_text() == "mine"


def test_the_verb_serves_the_explorer_on_this_machine_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served = []
    monkeypatch.setattr(demo, "show", lambda *_args, **_more: None)
    monkeypatch.setattr(
        service, "serve_explorer", lambda root, _settings, *, host, port: served.append((root, host, port))
    )
    options = argparse.Namespace(
        dir=folder, config=None, quiet=True, no_serve=False, host=None, port=None, without_login=False
    )
    assert verb.run(options) == 0
    assert served == [(folder / "warehouse", "127.0.0.1", 8050)]

    options.no_serve = True
    assert verb.run(options) == 0
    assert len(served) == 1


def test_invalid_port_is_refused_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    monkeypatch.setattr(demo, "show", lambda *args, **_: done.append(args))
    monkeypatch.setattr(service, "serve_explorer", lambda *args, **_: done.append(args))
    options = argparse.Namespace(
        dir=tmp_path / "demo", config=None, quiet=True, no_serve=False, host=None, port=99_999, without_login=False
    )
    with pytest.raises(UsageError, match="--port 99999"):
        verb.run(options)
    assert done == []


@pytest.mark.parametrize(
    ("result", "truth", "output"),
    [
        ({"value": 0.9, "bound_low": 0.88, "bound_high": 0.93}, 0.91, "91.0 %, inside the bounds"),
        ({"value": 0.9, "bound_low": 0.88, "bound_high": 0.9}, 0.95, "95.0 %, OUTSIDE the bounds"),
        ({"value": 0.9, "bound_low": 0.9, "bound_high": 0.9}, 0.9, "90.0 %, the same"),
        ({"value": 0.9, "bound_low": 0.9, "bound_high": 0.9}, 0.8, "80.0 %, off by 12.50 % of it"),
        ({"value": None, "ci_low": 0.1, "ci_high": None}, 0.8, "80.0 %, inside the interval"),
        ({"value": None}, 0.8, "80.0 %"),
        ({"value": 0.9}, None, "-"),
    ],
)
def test_position_of_a_number_to_its_truth_is_reported(
    result: dict[str, float | None], truth: float | None, output: str
) -> None:
    headline = Headline(metric="ettr", title="ETTR", unit="ratio", **result)  # type: ignore[arg-type]  # numbers only
    assert demo.compared_to_truth(headline, truth) == output


def test_planted_anomalies_are_compared_with_what_is_named() -> None:
    planted = {"node": "gpu-001", "gpu": "5", "signal": "sm_clock", "since": 1_788_220_800, "effect": -0.12}
    since = datetime(2026, 9, 1, 2, tzinfo=UTC)
    named = {"signal": "sm_clock", "level": "gpu", "node": "gpu-001", "device": "5", "anomalous": True, "since": since,
             "effect": -0.118}  # fmt: skip
    rows = pl.DataFrame([named, {**named, "node": "gpu-002", "anomalous": False}])
    assert list(of_planted.compared_anomalies(rows, [planted])) == [
        "Planted anomaly: GPU 5 of gpu-001 clocks -12.0 % since 2026-09-01T00:00:00Z: found, -11.8 % since "
        "2026-09-01T02:00:00Z",
        "False alarms: 0 of 2 nodes",
    ]
    wrong = rows.with_columns(anomalous=pl.col("node") == "gpu-002")
    assert list(of_planted.compared_anomalies(wrong, [planted])) == [
        "Planted anomaly: GPU 5 of gpu-001 clocks -12.0 % since 2026-09-01T00:00:00Z: not found",
        "False alarms: 1 of 2 nodes",
    ]
