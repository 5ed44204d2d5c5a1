"""Several sources of one server: what one of them lacks or refuses is no reason to leave out the others."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from ingest.errors import OptionError
from ingest.prometheus.client.server import PrometheusServer
from ingest.prometheus.load_live import ADDRESS_LENGTH, READERS, names_of, scrape_spec
from queries.warehouse import open_reader
from tests.ingest.prometheus.store.test_read_from_a_server import ingest, minutes, settings
from tests.support.command import trackside
from tests.support.telemetry.dcgm_files import NOW, START, T
from tests.support.web import Answer, matrix, told, web

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ingest.store.report import LoadReport

WINDOW = {"since": START, "until": START + timedelta(hours=2)}


def load1(path: str, params: dict[str, str]) -> Answer:
    """A GPU as `minutes` has it, and the load of a node, read every minute from T on."""
    if path.endswith("/values"):
        return told(["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "node_load1"])
    if "node_load1" not in params["query"]:
        return minutes(path, params)
    high = min(round(float(params["time"])), T + 7200)
    low = high - int(params["query"].split("[")[1].split("ms]")[0]) // 1000
    seconds = range(max(low - low % 60, T), high + 1, 60)
    return matrix(({"__name__": "node_load1", "instance": "n1:9100"}, [(second, "2") for second in seconds]))


def broken(path: str, params: dict[str, str]) -> Answer:
    """The same, but of nodes it tells nothing: an error."""
    if "node_load1" in params.get("query", ""):
        return Answer(b'{"status":"error","errorType":"internal","error":"a block is corrupt"}', 500)
    return load1(path, params)


def errors(reports: list[LoadReport]) -> list[str]:
    """What the failures among reports say."""
    return [str(report.error) for report in reports if report.error]


@pytest.mark.slow
def test_failing_source_blocks_no_other_and_is_read_next_time(tmp_path: Path) -> None:
    with web(broken) as there:
        config = settings(there.url, remote_read=False, chunk_hours=1, lookback_hours=2)
        (output,) = errors(ingest(tmp_path / "w", config, now=START + timedelta(hours=2)))
    assert "a block is corrupt" in output
    assert "Not read: Node telemetry 2026-11-21 08:00 to 2026-11-21 10:00" in output
    assert "GPU" not in output
    assert output.endswith("The next ingest requests that again.")
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("gpu_samples").height == 120
        assert reader.table("node_samples").is_empty()
    with web(load1) as there:
        config = settings(there.url, remote_read=False, chunk_hours=1, lookback_hours=2)
        assert errors(ingest(tmp_path / "w", config, now=START + timedelta(hours=2))) == []
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("node_samples").filter(metric="load1")["value"].to_list() == [2.0] * 120


def test_time_no_later_ingest_covers_comes_with_its_command(tmp_path: Path) -> None:
    with web(broken) as there:
        (output,) = errors(
            ingest(tmp_path / "w", settings(there.url, remote_read=False), now=NOW + timedelta(days=9), **WINDOW)
        )
    assert output.endswith("trackside ingest prometheus --since 2026-11-21T08:00:00Z --until 2026-11-21T10:00:00Z")


@pytest.mark.slow
def test_each_source_has_a_mark_of_its_own(tmp_path: Path) -> None:
    def later(path: str, params: dict[str, str]) -> Answer:
        return told(["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"]) if path.endswith("/values") else minutes(path, params)

    now = START + timedelta(hours=2)
    for answer in (later, load1):  # node_exporter is scraped from the second ingest on
        with web(answer) as there:
            config = settings("http://127.0.0.1:9", remote_read=False, lookback_hours=2)
            section = config.prometheus.model_copy(update={"url": there.url})
            assert errors(ingest(tmp_path / "w", config.model_copy(update={"prometheus": section}), now=now)) == []
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("node_samples").filter(metric="load1").height == 120


@pytest.mark.slow
def test_time_missed_without_answers_is_read_by_the_next_ingest(tmp_path: Path) -> None:
    """Of sources that the server never had, the last day is not missed."""
    with web(minutes) as there:
        config = settings(there.url)
        assert errors(ingest(tmp_path / "w", config, now=START + timedelta(hours=2))) == []
    (output,) = errors(ingest(tmp_path / "w", config, now=START + timedelta(hours=3)))
    assert output.endswith(
        "Not read: telemetry 2026-11-21 09:59 to 2026-11-21 11:00.\nThe next ingest requests that again."
    )


@pytest.mark.slow
def test_readings_the_server_shows_late_are_read(tmp_path: Path) -> None:
    """Those of one node: the other's are there at once, so that the time is taken for read."""
    late_s = 30

    def answer(path: str, params: dict[str, str]) -> Answer:
        if not path.endswith("query_range"):
            return minutes(path, params)
        low, high = int(params["start"]), int(params["end"])
        until = {"n1": high, "n2": min(high, shown_until)}
        seconds = {node: range(max(low, T + 10), end + 1, 10) for node, end in until.items()}
        return matrix(
            *[({"gpu": "0", "Hostname": node}, [(float(s), "0.5") for s in its]) for node, its in seconds.items()]
        )

    with web(answer) as there:
        config = settings(there.url, remote_read=False, interval_s=10, lookback_hours=1)
        for minute in (5, 7, 9):
            shown_until = T + 60 * minute - late_s
            assert errors(ingest(tmp_path / "w", config, now=START + timedelta(minutes=minute))) == []
    with open_reader(tmp_path / "w") as reader:
        samples = reader.table("gpu_samples").group_by("node").len().sort("node").rows()
    assert samples == [("n1", 9 * 6), ("n2", 9 * 6 - late_s // 10)]


@pytest.mark.parametrize(("since_s", "until_s"), [(10, 50), (7200 - 30, None)])
def test_a_time_without_an_interval_that_is_over_is_a_mistake(
    tmp_path: Path, since_s: int, until_s: int | None
) -> None:
    requested = {"since": START + timedelta(seconds=since_s), "until": until_s and START + timedelta(seconds=until_s)}
    with pytest.raises(OptionError, match=r"no interval of 60 s .* choose an earlier --since or a later --until"):
        ingest(tmp_path / "w", settings("http://127.0.0.1:9"), now=START + timedelta(seconds=7200 - 5), **requested)


def test_sources_that_a_server_has_nothing_of_are_no_warning(tmp_path: Path) -> None:
    with web(minutes) as there:
        reports = ingest(tmp_path / "w", settings(there.url), **WINDOW)
    (report,) = reports
    assert report.parsed is not None
    assert (report.parsed.source, report.parsed.warnings) == ("prometheus.gpu", [])


def counting(count: Answer) -> Callable[[str, dict[str, str]], Answer]:
    """A GPU as `minutes` has it, and this for the question how many series there are."""

    def answer(path: str, params: dict[str, str]) -> Answer:
        return count if params.get("query", "").startswith("count by") else minutes(path, params)

    return answer


def many(series: int) -> Answer:
    """So many series."""
    name = {"__name__": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"}
    return told({"resultType": "vector", "result": [{"metric": name, "value": [T, str(series)]}]})


@pytest.mark.slow
@pytest.mark.parametrize(("series", "n_chunks"), [(2, 1), (8, 2), (4_000, 8)])
def test_chunks_hold_so_many_samples_but_no_less_than_a_quarter(tmp_path: Path, series: int, n_chunks: int) -> None:
    """Of two hours at one sample a minute, and 480 samples at once."""
    with web(counting(many(series))) as there:
        config = settings(there.url, remote_read=False, chunk_samples=480)
        assert errors(ingest(tmp_path / "w", config, **WINDOW)) == []
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("loads").height == n_chunks
        assert reader.table("gpu_samples").height == 120


@pytest.mark.slow
@pytest.mark.parametrize(("interval_s", "chunk_s"), [(360, 1080), (600, 1200), (800, 1600), (1800, 1800), (3600, 3600)])
def test_chunk_is_no_shorter_than_an_interval_or_a_quarter(tmp_path: Path, interval_s: int, chunk_s: int) -> None:
    with web(counting(many(1_000_000))) as there:
        config = settings(there.url, remote_read=False, chunk_samples=1, interval_s=interval_s)
        assert errors(ingest(tmp_path / "w", config, **WINDOW)) == []
        asked = [params for path, params, _ in there.questions if path.endswith("query_range")]
    begins = [int(each["start"]) - interval_s for each in asked]
    assert len(begins) == -(-7200 // chunk_s)
    assert {later - earlier for earlier, later in pairwise(begins)} == {chunk_s}
    assert all(int(later["start"]) == int(earlier["end"]) + interval_s for earlier, later in pairwise(asked))


@pytest.mark.slow
@pytest.mark.parametrize(
    "count",
    [
        Answer(b'{"status":"error","errorType":"internal","error":"a block is corrupt"}', 500),
        Answer(
            b'{"status":"error","errorType":"execution","error":"query processing would load too many samples"}', 422
        ),
        Answer(b'{"status":"error","errorType":"bad_data","error":"unknown function"}', 400),
        told({"resultType": "vector", "result": [{"metric": {}, "value": [T, "many"]}]}),
        told(None),
        Answer(b"no JSON"),
        Answer(b"", promised=9),
    ],
)
def test_server_that_cannot_count_is_read_in_short_chunks(tmp_path: Path, count: Answer) -> None:
    with web(counting(count)) as there:
        config = settings(there.url, remote_read=False, chunk_samples=480, chunk_hours=1)
        assert errors(ingest(tmp_path / "w", config, **WINDOW)) == []
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("loads").height == 8
        assert reader.table("gpu_samples").height == 120


def test_chunks_fit_series_that_are_silent_at_the_end(tmp_path: Path) -> None:
    def answer(path: str, params: dict[str, str]) -> Answer:
        silent = params.get("query", "").startswith("count by") and float(params["time"]) >= T + 7200
        return told({"resultType": "vector", "result": []}) if silent else counting(many(8))(path, params)

    with web(answer) as there:
        config = settings(there.url, remote_read=False, chunk_samples=480)
        assert errors(ingest(tmp_path / "w", config, **WINDOW)) == []
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("loads").height == 2


def test_unavailable_server_is_not_queried_again_and_again(tmp_path: Path) -> None:
    with web(
        lambda path, params: load1(path, params) if path.endswith("/values") else Answer(b"", promised=9)
    ) as there:
        (output,) = errors(ingest(tmp_path / "w", settings(there.url, remote_read=False), **WINDOW))
        n_series, first_chunk = [path for path, _, _ in there.questions if not path.endswith("/values")]
        assert n_series == first_chunk == "/api/v1/query"
    assert "Not read: GPU telemetry 2026-11-21 08:00 to 2026-11-21 10:00, Node telemetry" in output


@pytest.mark.parametrize("selector", ["", 'cluster="a"'])
def test_names_of_all_sources_need_few_queries_of_bounded_length(selector: str) -> None:
    with web(lambda *_: told(["node_load1"])) as there:
        config = settings(there.url, selector=selector)
        wanted = scrape_spec(config, "c")
        result = names_of(PrometheusServer(there.url, retries=0), wanted, since=START, until=NOW)
        requested = [params["match[]"] for _, params, _ in there.questions]
    assert result == {"prometheus.node": ["node_load1"]}
    assert 1 <= len(requested) <= 6
    assert all(len(each) <= ADDRESS_LENGTH + 100 for each in requested)
    names = [name for each in requested for name in each.split('"')[-2].split("|")]
    assert len(names) == len(set(names))
    assert set(names) == {name for reader in READERS for name in reader.names(wanted)}
    assert all(selector in each for each in requested)


def test_doctor_lists_missing_exporters_and_what_they_would_give(tmp_path: Path) -> None:
    with web(load1) as there:
        (tmp_path / "trackside.toml").write_text(f'[prometheus]\nurl = "{there.url}"\nremote_read = false\n')
        done = trackside("doctor", "--warehouse", str(tmp_path / "w"), cwd=tmp_path)
    assert "ok   Node telemetry: 1 metric\n" in done.stdout
    assert "-    not exported: Slurm exporters. Counts by the scheduler itself" in done.stdout
    assert "-    not exported: Kubernetes names of nodes. " in done.stdout
