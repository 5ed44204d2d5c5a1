"""Telemetry of a server in the warehouse: where the next ingest goes on, what is read again, and what is refused."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from app.config.settings import Config
from ingest.errors import OptionError
from ingest.load_warnings import messages
from ingest.prometheus.load_live import ingest_live
from ingest.prometheus.target import TelemetryRequest
from queries.warehouse import open_reader, open_writer
from tests.support.command import trackside
from tests.support.telemetry.dcgm_files import NOW, START, T, load, quiet, steady, written
from tests.support.telemetry.health_readings import as_openmetrics, every, series
from tests.support.web import Answer, Web, matrix, told, web

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ingest.store.report import LoadReport


def settings(url: str, **more: object) -> Config:
    return Config.model_validate({"cluster": "c", "prometheus": {"url": url, "retries": 0, **more}})


def ingest(warehouse: Path, config: Config, *, now: datetime = NOW, **requested: object) -> list[LoadReport]:
    with open_writer(warehouse, verb="test", now=now) as writer:
        return ingest_live(writer, config, TelemetryRequest(**requested), now=now, progress=quiet)  # type: ignore[arg-type]  # fields of TelemetryRequest


def minutes(path: str, params: dict[str, str]) -> Answer:
    """A GPU that has been active since T, of which there is one metric."""
    if path.endswith("/values"):
        return told(["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"])
    if path.endswith("/query"):
        return told({"resultType": "vector", "result": [{"metric": {}, "value": [T, "1"]}]})  # which windows it has
    low, high = int(params["start"]), int(params["end"])
    return matrix(({"gpu": "0", "Hostname": "n1"}, [(s, "0.5") for s in range(max(low, T + 60), high + 1, 60)]))


def energy(path: str, params: dict[str, str]) -> Answer:
    """A GPU of 300 W that has been read every minute since T, of which there is the energy counter in mJ alone."""
    if path.endswith("/values"):
        return told(["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"])
    until = int(params.get("time", T))
    readings: list[tuple[float, str]] = [(s, str(5e9 + (s - T) * 300_000)) for s in range(T, until + 1, 60)]
    return matrix(({"__name__": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "gpu": "0", "Hostname": "n1"}, readings))


def test_energy_once_a_minute_is_power_without_remote_read(tmp_path: Path) -> None:
    """Thanos and Amazon's service have no remote read, and `rate` of a minute with one reading is nothing."""
    with web(energy) as there:
        ingest(tmp_path / "w", settings(there.url, lookback_hours=1), now=START + timedelta(minutes=10))
    with open_reader(tmp_path / "w") as reader:
        rows = reader.table("gpu_samples").select("ts", "interval_s", "power_w").rows()
    assert rows == [(START + timedelta(minutes=minute), 60.0, 300.0) for minute in range(10)]


ADDRESS = {"gpu": "0", "instance": "10.0.0.7:9400"}
HOST = {"nodename": "n7.cluster.local", "instance": "10.0.0.7:9100"}


def scraped_by_address(path: str, params: dict[str, str]) -> Answer:
    """A GPU whose exporter names no node, at an address of which a node_exporter has the name."""
    if path.endswith("/query") and "node_uname_info" in params["query"]:
        return told({"resultType": "vector", "result": [{"metric": HOST, "value": [T, "1"]}]})
    if path.endswith("/query_range"):
        return matrix((ADDRESS, [(s, "0.5") for s in range(T + 60, T + 601, 60)]))
    return minutes(path, params)


@pytest.mark.parametrize("live", [True, False], ids=["server", "file"])
def test_gpus_scraped_by_address_are_of_the_host_there(tmp_path: Path, live: bool) -> None:
    if live:
        with web(scraped_by_address) as there:
            ingest(tmp_path / "w", settings(there.url, lookback_hours=1), now=START + timedelta(minutes=10))
    else:
        tensor = series("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", every(60, T + 60, T + 601, 0.5), **ADDRESS)
        host = series("node_uname_info", every(60, T + 60, T + 601, 1), **HOST)
        (tmp_path / "f.om").write_text(as_openmetrics([tensor, host]))
        load(tmp_path / "w", [str(tmp_path / "f.om")])
    with open_reader(tmp_path / "w") as reader:
        rows = reader.table("gpu_samples").select("node", "gpu", "ts", "tensor_active").rows()
    assert rows == [("n7", "0", START + timedelta(minutes=minute), 0.5) for minute in range(10)]


def requested_from(there: Web) -> list[int]:
    """When each range that was asked for begins, in seconds after T."""
    return [int(params["start"]) - T - 60 for path, params, _ in there.questions if path.endswith("query_range")]


@pytest.mark.slow
def test_the_next_ingest_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    with web(minutes) as there:
        config = settings(there.url, lookback_hours=6, chunk_hours=2)
        ingest(tmp_path / "w", config, now=START + timedelta(hours=1, seconds=59))
        assert requested_from(there) == [-5 * 3600, -3 * 3600, -3600]
        there.questions.clear()
        ingest(tmp_path / "w", config, now=START + timedelta(hours=4))
        assert requested_from(there) == [3540, 3540 + 7200]
    with open_reader(tmp_path / "w") as reader:
        loads = reader.table("loads").sort("covers_from").select("covers_from", "covers_until").rows()
        assert reader.table("gpu_samples").height == 240
    # Before T nothing was recorded: no load speaks for that time.
    ends = [START + timedelta(seconds=second) for second in (0, 3600, 3540, 10740, 10740, 14400)]
    assert [moment for row in loads for moment in row] == ends


@pytest.mark.slow
def test_each_server_and_selector_has_a_mark_and_files_have_none(tmp_path: Path) -> None:
    """What was read elsewhere, or loaded from a file, says nothing of what this server still has."""
    late = written(tmp_path, "late.om", steady(7, range(10_785, 10_801, 15), 0.5))
    now = START + timedelta(hours=3)
    load(tmp_path / "w", [late])
    with web(minutes) as one, web(minutes) as other:
        for there, selector in ((one, ""), (one, 'env="b"'), (other, "")):
            there.questions.clear()
            config = settings(there.url, lookback_hours=3, chunk_hours=6, selector=selector)
            ingest(tmp_path / "w", config, now=now)
            assert requested_from(there) == [0]
            ingest(tmp_path / "w", config, now=now)
            assert requested_from(there)[1:] == [10_800 - 60]
    with open_reader(tmp_path / "w") as reader:
        origins = set(reader.table("loads")["origin"])
    assert origins == {late, one.url, f'{one.url} {{env="b"}}', other.url}


@pytest.mark.slow
def test_a_mark_in_the_future_does_not_hide_what_comes(tmp_path: Path) -> None:
    with web(minutes) as there:
        config = settings(there.url, lookback_hours=3, chunk_hours=6)
        ingest(tmp_path / "w", config, now=START + timedelta(hours=3))  # a clock that is two hours ahead
        there.questions.clear()
        ingest(tmp_path / "w", config, now=START + timedelta(hours=1))
        assert requested_from(there) == [-2 * 3600]


@pytest.mark.slow
@pytest.mark.parametrize(
    "url", ["http://me:s3cret/1@h:9090", "me:s3cret@h", "http://[me:s3cret@", "http://me:1/s3cret@h"]
)
def test_slightly_wrong_address_with_a_password_is_not_printed(tmp_path: Path, url: str) -> None:
    (tmp_path / "trackside.toml").write_text(f'cluster = "c"\n[prometheus]\nurl = "{url}"\n')
    for verb in (["ingest", "prometheus"], ["doctor"]):
        done = trackside(*verb, "--warehouse", str(tmp_path / "w"), cwd=tmp_path)
        assert done.returncode == 2
        assert "cannot be used (not shown: it may hold a password)" in done.stderr + done.stdout
        assert "s3cret" not in done.stderr + done.stdout


def test_a_cluster_that_no_folder_can_be_named_after_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "some.om", steady(0, range(15, 61, 15), 0.5))
    done = trackside("ingest", "prometheus", "--cluster", "a" * 300, "--warehouse", str(tmp_path / "w"), path)
    assert done.returncode == 2
    assert "the name is longer than 200 characters" in done.stderr


@pytest.mark.slow
def test_failing_interval_stops_the_source_and_is_resumed(tmp_path: Path) -> None:
    failing = True

    def answer(path: str, params: dict[str, str]) -> Answer:
        broken = failing and path.endswith("/query_range") and int(params["end"]) > T + 7200
        return Answer(b"", 500) if broken else minutes(path, params)

    window = {"since": START, "until": START + timedelta(hours=6)}
    with web(answer) as there:
        reports = ingest(tmp_path / "w", settings(there.url), **window)
        assert [report.error is None for report in reports] == [True, False]
        failing = False
        there.questions.clear()
        ingest(tmp_path / "w", settings(there.url), now=START + timedelta(hours=6))
        assert requested_from(there)[0] == 7200 - 60
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("gpu_samples").height == 360


@pytest.mark.slow
def test_the_same_time_again_changes_no_file(tmp_path: Path) -> None:
    with web(minutes) as there:
        window = {"since": START, "until": START + timedelta(hours=2)}
        ingest(tmp_path / "w", settings(there.url), **window)
        before = sorted((tmp_path / "w" / "raw").rglob("*.parquet"))
        ingest(tmp_path / "w", settings(there.url), **window)
    assert sorted((tmp_path / "w" / "raw").rglob("*.parquet")) == before


def test_a_server_without_dcgm_is_a_warning_and_no_coverage(tmp_path: Path) -> None:
    def other(path: str, params: dict[str, str]) -> Answer:
        return told([] if "match[]" in params else ["up", "node_load1"]) if path.endswith("/values") else matrix()

    with web(other) as there:
        (report,) = ingest(tmp_path / "w", settings(there.url, selector='env="prod"'))
    assert report.parsed is not None
    assert 'no DCGM series that match {env="prod"}' in messages(report.parsed.warnings)[0]
    assert "node_load1" in messages(report.parsed.warnings)[0]
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("loads").is_empty()


def test_names_without_series_are_a_warning_and_no_coverage(tmp_path: Path) -> None:
    with web(lambda path, _: told(["DCGM_FI_DEV_GPU_UTIL"]) if path.endswith("/values") else matrix()) as there:
        (report,) = ingest(tmp_path / "w", settings(there.url))
    assert report.parsed is not None
    assert messages(report.parsed.warnings)
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("loads").is_empty()


def xids_only(*edges: tuple[int, int]) -> Callable[[str, dict[str, str]], Answer]:
    """A server that has nothing but the XIDs of a GPU: from so many seconds after T on each is the last one."""

    def answer(path: str, params: dict[str, str]) -> Answer:
        if path.endswith("/values"):
            return told(["DCGM_FI_DEV_XID_ERRORS"])
        query, end = params["query"], round(float(params["time"]))
        begin = end - int(query.split("[")[1].split("ms]")[0]) // 1000
        seconds = range(begin - begin % 60, end + 1, 60)
        values = [(s, max([(at, xid) for at, xid in edges if s >= T + at], default=(0, 0))[1]) for s in seconds]
        if query.startswith("max by"):
            hit = [{"metric": {"Hostname": "n1"}, "value": [end, "79"]}] if any(xid for _, xid in values) else []
            return told({"resultType": "vector", "result": hit})
        return matrix(({"gpu": "0", "Hostname": "n1"}, [(float(s), str(xid)) for s, xid in values]))

    return answer


@pytest.mark.slow
def test_xids_without_samples_are_kept_and_cover_no_time(tmp_path: Path) -> None:
    with web(xids_only((1800, 79))) as there:
        reports = ingest(tmp_path / "w", settings(there.url), now=START + timedelta(hours=1))
    warnings = [warning for report in reports if report.parsed for warning in messages(report.parsed.warnings)]
    assert len(warnings) == 1
    assert warnings[0].startswith("XIDs, but no samples")
    with open_reader(tmp_path / "w") as reader:
        actual = reader.table("health_events").select("node", "gpu", "ts", "code", "severity").rows()
        loads = reader.table("loads").select("covers_from", "covers_until").rows()
    assert actual == [("n1", "0", START + timedelta(minutes=30), "79", "critical")]
    assert loads == [(None, None)]


@pytest.mark.slow
def test_time_with_xids_only_is_read_again_without_duplicates(tmp_path: Path) -> None:
    """Nor those of the time since: what was read last is no mark, for there were no samples."""
    kept = []
    for hour, edges in ((1, [(1800, 79)]), (2, [(1800, 79)]), (20, [(1800, 79), (30_000, 48), (60_000, 31)])):
        with web(xids_only(*edges)) as there:
            config = Config.model_validate({"cluster": "c", "prometheus": {"retries": 0}})
            for _ in range(2):
                ingest(tmp_path / "w", config, url=there.url, now=START + timedelta(hours=hour))
        with open_reader(tmp_path / "w") as reader:
            events = reader.table("health_events").sort("ts").select("ts", "code", "severity").rows()
            kept.append((reader.table("loads").height, [((ts - START).total_seconds(), *rest) for ts, *rest in events]))
    first = (1800, "79", "critical")
    assert kept[0] == kept[1] == (1, [first])  # where nothing new is told there is no load
    assert kept[2][1] == [first, (30_000, "48", "critical"), (60_000, "31", "info")]


@pytest.mark.slow
def test_mark_stays_where_samples_ended_while_xids_go_on(tmp_path: Path) -> None:
    xids = xids_only((5400, 79))

    def answer(path: str, params: dict[str, str]) -> Answer:
        if path.endswith("/values"):
            return told(["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_XID_ERRORS"])
        if path.endswith("query_range"):
            low, high = int(params["start"]), min(int(params["end"]), T + 3600)
            return matrix(({"gpu": "0", "Hostname": "n1"}, [(s, "0.5") for s in range(low, high + 1, 60)]))
        return minutes(path, params) if "vector(0)" in params["query"] else xids(path, params)

    with web(answer) as there:
        config = settings(there.url, chunk_hours=1)
        for hour in (1, 2, 3):
            there.questions.clear()
            ingest(tmp_path / "w", config, now=START + timedelta(hours=hour), since=START if hour == 1 else None)
        assert requested_from(there)[0] == 3600 - 60
    with open_reader(tmp_path / "w") as reader:
        reached = reader.query("watermark", cluster="c", source="prometheus.gpu")["covers_until"].item()
        assert reached == START + timedelta(hours=1)
        assert reader.table("health_events")["ts"].to_list() == [START + timedelta(seconds=5400)]


@pytest.mark.parametrize(
    ("more", "requested", "output"),
    [
        ({}, {"url": "prometheus:9090"}, "the address of the Prometheus server cannot be used"),
        ({"token_env": "TRACKSIDE_NO_SUCH_TOKEN"}, {}, r"names \$TRACKSIDE_NO_SUCH_TOKEN, which is not set"),
        ({}, {"since": NOW, "until": NOW - timedelta(hours=1)}, "is not before --until"),
    ],
)
def test_impossible_request_is_refused_before_any_query(
    tmp_path: Path, more: dict[str, object], requested: dict[str, Any], output: str
) -> None:
    with pytest.raises(OptionError, match=output):
        ingest(tmp_path / "w", settings("http://127.0.0.1:9", **more), **requested)


def test_missing_address_is_reported_with_its_setting(tmp_path: Path) -> None:
    done = trackside("ingest", "prometheus", "--cluster", "c", "--warehouse", str(tmp_path / "w"), cwd=tmp_path)
    assert done.returncode == 2
    assert "--url http://prometheus:9090" in done.stderr


def test_token_is_read_from_its_variable_and_not_printed(tmp_path: Path) -> None:
    (tmp_path / "trackside.toml").write_text('cluster = "c"\n[prometheus]\ntoken_env = "MY_TOKEN"\nretries = 0\n')
    with web(lambda *_: Answer(b"no", 403)) as there:
        done = trackside(
            *("ingest", "prometheus", "--url", there.url, "--warehouse", str(tmp_path / "w")),
            env={"MY_TOKEN": "t0k3n"},
            cwd=tmp_path,
        )
    assert done.returncode == 22
    assert there.questions[0][2]["Authorization"] == "Bearer t0k3n"
    assert "t0k3n" not in done.stderr + done.stdout
    assert "prometheus.token_env" in done.stderr


def test_doctor_reports_what_the_server_lacks(tmp_path: Path) -> None:
    def answer(path: str, params: dict[str, str]) -> Answer:
        if path.endswith("/query"):
            return told({"resultType": "vector", "result": [{"metric": {}, "value": [T, str(time.monotonic())]}]})
        return minutes(path, params)

    with web(answer) as there:
        (tmp_path / "trackside.toml").write_text(f'[prometheus]\nurl = "{there.url}"\n')
        done = trackside("doctor", "--warehouse", str(tmp_path / "w"), cwd=tmp_path)
    assert f"ok   {there.url} responds, and has DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" in done.stdout
    assert "warn newest reading" in done.stdout
    assert "warn no XIDs: enable DCGM_FI_DEV_XID_ERRORS" in done.stdout
    assert done.returncode == 0


def test_doctor_fails_if_the_configured_server_does_not_answer(tmp_path: Path) -> None:
    with web(minutes) as there:
        gone = there.url
    (tmp_path / "trackside.toml").write_text(f'[prometheus]\nurl = "{gone}"\n')
    done = trackside("doctor", "--warehouse", str(tmp_path / "w"), cwd=tmp_path)
    assert f"fail {gone} cannot be reached: Connection refused" in done.stdout
    assert done.returncode == 22
