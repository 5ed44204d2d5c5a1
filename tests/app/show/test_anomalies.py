"""`trackside show anomalies` on a small cluster: one GPU whose clock drops, one slow port, and nothing else."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from datetime import date as date_of
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from app.api import QUESTIONS
from app.compute import pipeline as computing
from app.config.settings import Config
from app.results.telemetry import anomalies as results
from app.results.telemetry.busy_hours import BusyHours
from app.show.answer import Question
from app.show.selection import resolved_runs
from app.window import Window
from ingest.slurm import load_files as ingesting
from ingest.tables import GPU_HOURS, GPU_SAMPLES, HEALTH_EVENTS, NODE_SAMPLES, columns_of, conform
from metrics.anomalies.hours import Limits
from queries.warehouse import open_reader, open_writer
from tests.support.command import trackside
from tests.support.warehouses import copy_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.show.answer import Answer
    from queries.warehouse import Reader

BEGIN = datetime(2026, 9, 20, tzinfo=UTC)
DAYS = 4
NOW = BEGIN + timedelta(days=DAYS)
WINDOW = Window("c", BEGIN, NOW)
DROP = BEGIN + timedelta(days=2, hours=6)
"""From here on GPU 2 of n1 clocks at 85 %, and port 1 of n2 carries half."""

HEAD = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|NNodes|AllocTRES"
    "|NodeList\n"
)


def job(number: int, nodes: str, count: int, begin: datetime, end: datetime) -> str:
    times = "|".join(str(int(at.timestamp())) for at in (begin, begin, begin, end))
    return (
        f"{number}|{number}|c|u|a|main|train{number}|COMPLETED|0:0|{times}|{count}|"
        f"cpu=64,gres/gpu={4 * count},node={count}|{nodes}\n"
    )


SACCT = HEAD + job(1, "n[1-4]", 4, BEGIN, NOW) + job(2, "n5", 1, BEGIN, NOW)


@functools.cache
def gpus() -> pl.DataFrame:
    """Four GPUs on each of n1 to n5, at every 10 minutes; n5 is idle but for GPU 0, which clocks at a third."""
    chance = np.random.default_rng(7)
    rows = []
    for step in range(DAYS * 144):
        ts = BEGIN + timedelta(minutes=10 * step)
        for node in ("n1", "n2", "n3", "n4", "n5"):
            for gpu in "0123":
                busy = node != "n5" or gpu == "0"
                factor = 0.85 if (node, gpu) == ("n1", "2") and ts >= DROP else 1 / 3 if node == "n5" else 1.0
                clock = 1.7e9 * factor * float(np.exp(chance.normal(0, 0.004)))
                tensor = 0.5 * float(np.exp(chance.normal(0, 0.01))) if busy else 0.0
                rows.append(("c", node, gpu, ts, 600.0, tensor, 600.0 if busy else 90.0, 60.0, clock))
    names = ("cluster", "node", "gpu", "ts", "interval_s", "tensor_active", "power_w", "temperature_c", "sm_clock_hz")
    return conform(pl.DataFrame(rows, schema=list(names), orient="row"), GPU_SAMPLES)


def ports() -> pl.DataFrame:
    """What two ports of n1 to n4 receive and send, and filesystems that respond alike."""
    chance = np.random.default_rng(8)
    rows = []
    for hour in range(DAYS * 24):
        ts = BEGIN + timedelta(hours=hour)
        for node in ("n1", "n2", "n3", "n4"):
            scatter = [float(np.exp(chance.normal(0, 0.03))) for _ in range(3)]
            for place, port in enumerate(("mlx5_0", "mlx5_1")):
                slow = 0.5 if (node, port) == ("n2", "mlx5_1") and ts >= DROP else 1.0
                rows += [("c", node, f"ib_{way}_bytes_per_s", port, ts, 3600.0, 1e10 * slow * scatter[place])
                         for way in ("received", "transmitted")]  # fmt: skip
            rows += [("c", node, "fs_operations_per_s", "/data", ts, 3600.0, 50.0),
                     ("c", node, "fs_response_s_per_s", "/data", ts, 3600.0, 0.1 * scatter[2])]  # fmt: skip
    return pl.DataFrame(rows, schema=NODE_SAMPLES, orient="row")


def ranks() -> pl.DataFrame:
    """Ten hours of a job of 16 ranks on n1 to n4, after the drop; rank 2, on n1, is slow."""
    chance = np.random.default_rng(9)
    begin = DROP + timedelta(hours=4)
    rows = [
        {"cluster": "c", "run_id": "r", "session": "1", "rank": rank, "started_at": begin + timedelta(minutes=15 * n),
         "ended_at": begin + timedelta(minutes=15 * (n + 1)), "scheduler": "slurm", "job_id": "1",
         "node": f"n{1 + rank // 4}", "first_step": 100 * n, "steps": 100,
         "compute_s": 800 * (1.18 if rank == 2 else 1.0) * float(np.exp(chance.normal(0, 0.01)))}
        for n in range(40) for rank in range(16)
    ]  # fmt: skip
    return conform(pl.DataFrame(rows), columns_of("rank_steps"))


def filled(folder: Path, *, rolled: bool = False) -> Path:
    """A computed warehouse with samples of GPUs, or with their hourly roll-ups."""
    return copy_of(f"anomalies-{rolled}", lambda place: _fill(place, rolled=rolled), folder, "w")


def _fill(root: Path, *, rolled: bool) -> None:
    (root / "sacct.txt").write_text(SACCT)
    settings = Config()
    samples = gpus()
    event = {"cluster": "c", "node": "n1", "gpu": "2", "ts": DROP, "kind": "throttle", "code": "hw_slowdown",
             "severity": "warning", "source": "prometheus.health", "evidence": "telemetry"}  # fmt: skip
    link = {**event, "ts": DROP + timedelta(hours=5), "kind": "pcie", "code": "link_generation", "severity": "info"}
    told = {**link, "kind": "ecc", "code": "sbe"}  # information that says nothing of a link
    with open_writer(root / "w", verb="test", now=NOW) as writer:
        ingesting.ingest_files(
            writer, settings, [str(root / "sacct.txt")], ingesting.Options(), now=NOW, progress=lambda *_: None
        )
        with writer.transaction():
            for day in range(DAYS):
                date = (BEGIN + timedelta(days=day)).date()
                if not rolled:
                    mine = samples.filter(pl.col("ts").dt.date() == date).sort("node", "gpu", "ts")
                    writer.write_partition("gpu_samples", "c", date, mine)
                mine = ports().filter(pl.col("ts").dt.date() == date)
                writer.write_partition("node_samples", "c", date, mine.sort("node", "metric", "device", "ts"))
            if rolled:
                writer.append("gpu_hours", hours_of(samples))
            writer.append("health_events", conform(pl.DataFrame([event, link, told]), HEALTH_EVENTS))
            for (day,), rows in ranks().group_by(pl.col("started_at").dt.date()):
                assert isinstance(day, date_of)
                writer.write_partition("rank_steps", "c", day, rows.sort("run_id", "session", "rank", "started_at"))
        computing.compute(writer, settings, now=NOW)


def hours_of(samples: pl.DataFrame) -> pl.DataFrame:
    """Hourly roll-ups of samples."""
    wide = samples.group_by("cluster", "node", "gpu", pl.col("ts").dt.truncate("1h")).agg(
        pl.col("tensor_active", "power_w", "temperature_c", "sm_clock_hz").mean().cast(pl.Float64),
        active=(pl.col("tensor_active") >= 0.02).mean(),
    )
    long = wide.unpivot(index=["cluster", "node", "gpu", "ts"], variable_name="metric", value_name="mean")
    active = pl.when(pl.col("metric") == "active").then(3600 * pl.col("mean"))
    return conform(long.with_columns(covered_s=pl.lit(3600.0), active_s=active), GPU_HOURS)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("anomalies"))


@pytest.fixture
def reader(warehouse: Path) -> Iterator[Reader]:
    with open_reader(warehouse) as opened:
        yield opened


def answer_of(reader: Reader, by: str | None = None, run: str | None = None, window: Window = WINDOW) -> Answer:
    return QUESTIONS["anomalies"](reader, window, Question(by=by, run=run))


def test_the_node_is_named_with_gpu_incident_and_since_when(reader: Reader) -> None:
    answer = answer_of(reader)
    by_node: dict[str, dict[str, Any]] = {row["node"]: row for row in answer.rows.to_dicts()}
    assert {node for node, row in by_node.items() if row["anomalous"]} == {"n1", "n2"}
    assert "SM clock of GPU 2 -15" in by_node["n1"]["what"]
    assert by_node["n1"]["since"] == DROP
    assert by_node["n1"]["incidents"] == "ecc sbe, pcie link_generation; throttle hw_slowdown"
    assert by_node["n1"]["n_attempts"] == 1
    assert by_node["n1"]["runs"] == f"1-{BEGIN:%Y%m%dT%H%M%SZ}"
    assert by_node["n3"]["runs"] is None  # nothing deviates there
    assert "InfiniBand throughput of mlx5_1 -" in by_node["n2"]["what"]
    assert by_node["n2"]["since"] == DROP
    assert by_node["n2"]["incidents"] is None
    assert "2 nodes of 4 deviate" in answer.headline


def test_a_node_without_a_deviation_has_a_sentence(reader: Reader) -> None:
    answer = answer_of(reader)
    assert answer.instead is not None
    rows = answer.rows.filter(~pl.col("anomalous"))
    said = dict(zip(rows["node"], rows.select(answer.instead).to_series(), strict=True))
    tests = dict(rows.select("node", "n_tested").iter_rows())
    assert said == {
        node: f"Nothing on {node} deviates from its peers or its past (tests: {tests[node]})." for node in ("n3", "n4")
    }
    untested = rows.with_columns(n_tested=pl.lit(0)).select(answer.instead).to_series()
    assert all("Nothing was tested on n" in each for each in untested)


def test_what_has_no_peers_is_counted_and_not_compared(reader: Reader) -> None:
    answer = answer_of(reader, "gpu")
    assert "n5" not in set(answer.rows["node"])
    busy = 17 * 24 * DAYS
    assert f"{16 / 17:.1%}".replace("%", " %") + f" of {busy:,} busy GPU-hours had peers" in answer.notes[0]
    flagged = answer.rows.filter("anomalous")
    assert set(flagged.select("node", "gpu").rows()) == {("n1", "2")}
    assert flagged.filter(pl.col("signal") == "sm_clock")["effect"].item() == pytest.approx(-0.15, abs=0.01)


def test_signals_with_what_could_have_been_seen(reader: Reader) -> None:
    rows = {(row["signal"], row["level"]): row for row in answer_of(reader, "signal").rows.to_dicts()}
    assert rows["sm_clock", "gpu"]["n_anomalous"] == 1
    assert rows["sm_clock", "gpu"]["n_tested"] == 16
    assert rows["sm_clock", "gpu"]["detectable"].startswith("-3.")
    assert rows["filesystem_response", "node"]["n_anomalous"] == 0
    assert rows["filesystem_response", "node"]["n_tested"] == 4


@pytest.mark.slow
def test_before_the_drop_nothing_deviates(reader: Reader) -> None:
    answer = answer_of(reader, window=Window("c", BEGIN, DROP))
    assert not answer.rows["anomalous"].any()
    assert answer.when_empty.startswith("Nothing deviates from its peers or its past in ")
    late = answer_of(reader, window=Window("c", DROP + timedelta(minutes=1), NOW))
    first = DROP + timedelta(hours=1)
    assert late.rows.filter("anomalous")["since"].min() == first
    assert f"since {first:%Y-%m-%d %H:%M} or before (" in late.headline
    untested = answer_of(reader, window=Window("c", BEGIN, BEGIN + timedelta(hours=2)))
    assert untested.when_empty.startswith("Nothing could be tested on ")


def test_unchanged_days_are_read_without_comparing(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = results.anomalies(reader, replace(WINDOW, until=NOW + timedelta(hours=1))).rows
    monkeypatch.delattr("app.results.telemetry.anomaly_days.digests")
    assert_frame_equal(results.anomalies(reader, WINDOW).rows, compared, check_exact=True)


def test_what_was_held_long_before_or_after_is_not_read(reader: Reader) -> None:
    day = timedelta(days=1)
    assert results.held_by(reader, WINDOW)["job_id"].n_unique() == 2
    early = replace(WINDOW, since=BEGIN - 2 * day, until=BEGIN - day)
    late = replace(WINDOW, since=NOW + 2 * results.LOOKBACK + day, until=NOW + 2 * results.LOOKBACK + 2 * day)
    asked = []

    def query(name: str, **given: Any) -> pl.DataFrame:
        asked.append(name)
        return reader.query(name, **given)

    noted = cast("Reader", SimpleNamespace(query=query))
    for window in (early, late):
        assert results.held_by(noted, window).is_empty()
    assert set(asked) == {"attempt_nodes_in"}


@pytest.mark.slow
def test_of_one_run(reader: Reader) -> None:
    assert answer_of(reader, "gpu", run="1").rows.height == answer_of(reader, "gpu").rows.height
    alone = answer_of(reader, run="2")
    assert alone.rows.is_empty()
    assert alone.when_empty.startswith("96 GPU-hours were busy in this window, but none had 3 peers")


def test_no_hour_is_read_of_days_without_the_run(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    read = set[date_of]()
    of_day = BusyHours.of_day

    def noted(self: BusyHours, since: datetime, until: datetime) -> pl.DataFrame:
        read.add(since.date())
        return of_day(self, since, until)

    held = results.held_by

    def shortened(*asked: Any) -> pl.DataFrame:
        return held(*asked).with_columns(ended_at=pl.col("ended_at").clip(upper_bound=BEGIN + timedelta(days=2)))

    monkeypatch.setattr(BusyHours, "of_day", noted)
    monkeypatch.setattr(results, "held_by", shortened)
    assert results.anomalies(reader, WINDOW, resolved_runs(reader, WINDOW, "1")).rows.height
    assert read == {BEGIN.date(), (BEGIN + timedelta(days=1)).date()}


@pytest.mark.slow
def test_roll_ups_give_the_same_gpus(tmp_path: Path, reader: Reader) -> None:
    with open_reader(filled(tmp_path, rolled=True)) as rolled:
        of_hours = results.anomalies(rolled, WINDOW).rows
    of_samples = results.anomalies(reader, WINDOW).rows
    keys = ["signal", "level", "node", "device"]
    both = of_hours.join(of_samples, on=keys, suffix="_2")
    assert both.height == of_samples.height == of_hours.height
    assert both["anomalous"].to_list() == both["anomalous_2"].to_list()
    assert both["since"].filter(both["anomalous"]).to_list() == both["since_2"].filter(both["anomalous"]).to_list()


def test_hours_of_blocks_are_those_of_the_query(reader: Reader) -> None:
    limits = Limits(0.02, 0.1, 0.1)
    for day in range(DAYS):
        period = {"cluster": "c", "since": BEGIN + timedelta(days=day), "until": BEGIN + timedelta(days=day, hours=23)}
        mine = BusyHours(reader, "c", limits).of_day(period["since"], period["until"])  # type: ignore[arg-type]  # times
        by_query = reader.query("gpu_busy_hours", **period, **limits._asdict())
        assert mine.height == 23 * 17
        assert_frame_equal(mine, by_query, rel_tol=1e-5)


@pytest.mark.slow
def test_every_format_and_without_telemetry(warehouse: Path) -> None:
    where = ("--warehouse", str(warehouse))
    rows = json.loads(trackside("show", "anomalies", *where, "--by", "gpu", "--format", "json").stdout)
    assert {row["node"] for row in rows if row["anomalous"]} == {"n1"}
    csv = trackside("show", "anomalies", *where, "--format", "csv").stdout.splitlines()
    assert csv[0].startswith("cluster,node,anomalous,what,since")
    table = trackside("show", "anomalies", *where).stdout
    assert "SM clock of GPU 2" in table
    assert "n3" not in table
    explained = json.loads(trackside("show", "anomalies", *where, "--explain", "--format", "json").stdout)["explain"]
    assert any("gpu_busy_hours" in query for query in explained["sql"])


@pytest.mark.slow
def test_lost_has_the_waiting_for_slow_ranks_as_an_overlay(reader: Reader) -> None:
    answer = QUESTIONS["lost"](reader, WINDOW, Question())
    (note,) = [note for note in answer.notes if "rank times" in note]
    (session,) = QUESTIONS["stragglers"](reader, WINDOW, Question()).rows.to_dicts()
    waited = session["lost_gpu_s"] / 3600
    assert (
        f"rank times of 1 session (these hours overlap with others and are in no sum): node {waited:,.2f} GPU-h" in note
    )
    before = Window("c", BEGIN, DROP)
    assert not any("times of ranks" in note for note in QUESTIONS["lost"](reader, before, Question()).notes)


@pytest.mark.slow
def test_telemetry_confirms_a_node_with_slow_ranks(warehouse: Path, reader: Reader) -> None:
    answer = QUESTIONS["stragglers"](reader, WINDOW, Question())
    (row,) = answer.rows.to_dicts()
    assert (row["cause"], row["nodes"], row["confirmed"], row["confirmed_by"]) == ("node", "n1", False, "telemetry")
    assert row["telemetry"].startswith("SM clock of GPU 2 -15")
    slow, link = row["telemetry"].split("; ")
    assert slow.endswith(f" since {DROP:%Y-%m-%dT%H:%MZ}")
    assert link == f"pcie link_generation on GPU 2 since {DROP + timedelta(hours=5):%Y-%m-%dT%H:%MZ}"
    assert row["telemetry_since"] == DROP
    table = trackside("show", "stragglers", "--warehouse", str(warehouse)).stdout
    assert "n1 (confirmed by telemetry)" in table


@pytest.mark.parametrize(
    ("names", "text"),
    [([], None), ([None], None), (["b", None, "a", "b"], "a b"), (list("edcba"), "a b c and 2 more")],
)
def test_runs_of_a_node_are_named_or_counted(names: list[str | None], text: str | None) -> None:
    rows = pl.DataFrame({"run_id": names}, schema={"run_id": pl.String})
    assert rows.select(results.listed(pl.col("run_id").unique().sort())).item() == text
