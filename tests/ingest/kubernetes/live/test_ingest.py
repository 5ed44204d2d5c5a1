"""An API server that is read again and again: pages, events in between, what it forgot, tokens, refusals."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from ingest.errors import ServerDownError
from ingest.kubernetes.live import ingest as live
from ingest.kubernetes.live.follow import Follower
from ingest.kubernetes.settings import Kubernetes
from queries.warehouse import open_reader, open_writer
from tests.ingest.kubernetes.test_store import content, load
from tests.support.kubernetes.api_server import ApiServer
from tests.support.kubernetes.objects import as_list, completed, moment, owner, pod, queued, workload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ingest.store.report import LoadReport

NOW = datetime(2100, 1, 1, tzinfo=UTC)
JOB = owner("Job", "j")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    with ApiServer() as server:
        (tmp_path / "token").write_text("secret\n")
        (tmp_path / "config").write_text(
            "current-context: c\n"
            "contexts: [{name: c, context: {cluster: c, user: me}}]\n"
            f"clusters: [{{name: c, cluster: {{server: '{server.url}/'}}}}]\n"
            "users: [{name: me, user: {tokenFile: token}}]\n"
        )
        yield server


def read(tmp_path: Path, follower: Follower | None = None, **settings: Any) -> LoadReport:
    kubernetes = Kubernetes(kubeconfig=tmp_path / "config", retries=2, **settings)
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        (report,) = live.ingest_live(
            writer, kubernetes, cluster="c", now=NOW, progress=lambda *_: None, follower=follower
        )
    return report


@pytest.fixture
def follower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Follower]:
    monkeypatch.setattr("ingest.kubernetes.live.follow.PAUSE_S", 0.02)
    kubernetes = Kubernetes(kubeconfig=tmp_path / "config", retries=0)
    made = Follower(lambda: live.connected(kubernetes))
    yield made
    made.stop()


def caught_up(api: ApiServer, plural: str) -> None:
    """Wait until watches that began after now have ended twice."""
    before = sum(plural in request for request in api.requests)
    for _ in range(500):
        if sum(plural in request for request in api.requests) >= before + 3:
            return
        time.sleep(0.02)
    raise AssertionError(api.requests[-5:])


def all_caught_up(api: ApiServer) -> None:
    """Wait until no kind's watch stands at what was before now: one that does ends when the server forgets."""
    for plural in ("pods", "nodes", "jobs", "workloads"):
        caught_up(api, plural)


def attempts(tmp_path: Path) -> list[tuple[Any, ...]]:
    with open_reader(tmp_path / "w") as reader:
        return reader.frame("SELECT name, state, started_at, ended_at, n_gpus FROM attempts ORDER BY ALL").rows()


def warned(report: LoadReport) -> dict[str, str]:
    assert report.parsed is not None
    return {warning.code: warning.detail for warning in report.parsed.warnings}


@pytest.mark.slow
def test_live_reading_has_what_a_file_of_the_same_has(tmp_path: Path, api: ApiServer) -> None:
    job = workload("Job", "j", status=completed(60))
    objects = (job, *(pod(f"j-{n}", above=JOB, created=n, ended=50, node=f"h{n}") for n in range(5)))
    api.put(*objects, queued("q", ("Admitted", True, 1, "Admitted"), above=JOB))
    report = read(tmp_path, page=2)
    assert report.parsed is not None
    assert (report.parsed.rows_read, report.parsed.rows_loaded, report.parsed.rows_rejected) == (7, 7, 0)
    load(tmp_path / "file", as_list(*objects))
    stored = [content(tmp_path / name) for name in ("w", "file")]
    assert [rows["stored.attempts"] for rows in stored[:1]] == [stored[1]["stored.attempts"]]
    assert sum("limit=2" in request for request in api.requests if "/pods" in request) == 3


@pytest.mark.slow
def test_what_came_and_went_in_between_is_known(tmp_path: Path, api: ApiServer) -> None:
    api.put(pod("stays"))
    read(tmp_path)
    short = pod("short", created=10, ended=20, exit_code=1)
    api.put(pod("short", created=10), short)
    api.remove(short)
    read(tmp_path)
    assert attempts(tmp_path) == [
        ("short", "FAILED", moment(10.5), moment(20), Decimal(8)),
        ("stays", "RUNNING", moment(0.5), None, Decimal(8)),
    ]


@pytest.mark.slow
def test_what_the_server_forgot_is_reported_and_listed_anew(tmp_path: Path, api: ApiServer) -> None:
    gone = pod("gone")
    api.put(gone, pod("stays"))
    assert warned(read(tmp_path)) == {}
    api.remove(gone)
    api.put(pod("new", created=5))
    api.forget()
    assert warned(read(tmp_path)) == {"events_missed": "nodes, pods, jobs, workloads"}
    assert [(row[0], row[1]) for row in attempts(tmp_path)] == [
        ("gone", "CANCELLED"), ("new", "RUNNING"), ("stays", "RUNNING"),
    ]  # fmt: skip
    assert warned(read(tmp_path)) == {}


def test_list_that_is_forgotten_between_pages_is_read_again(tmp_path: Path, api: ApiServer) -> None:
    api.put(*(pod(f"p{n}", node=f"h{n}") for n in range(5)))
    api.forget_pages = True
    read(tmp_path, page=2)
    assert len(attempts(tmp_path)) == 5


@pytest.mark.slow
def test_last_pod_of_a_namespace_ends_when_it_is_gone(tmp_path: Path, api: ApiServer) -> None:
    alone = pod("alone")
    api.put(alone)
    read(tmp_path)
    api.remove(alone)
    api.forget()
    read(tmp_path)
    assert [(row[0], row[1]) for row in attempts(tmp_path)] == [("alone", "CANCELLED")]


@pytest.mark.slow
def test_token_that_expired_is_read_anew(tmp_path: Path, api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    api.put(pod("a"))
    answer = api.answer

    def expiring(path: str, query: dict[str, str], token: str) -> tuple[int, list[Any]]:
        if path.endswith("/nodes"):
            api.tokens = {"renewed"}
            (tmp_path / "token").write_text("renewed")
        return answer(path, query, token)

    monkeypatch.setattr(api, "answer", expiring)
    read(tmp_path)
    assert [row[0] for row in attempts(tmp_path)] == ["a"]
    api.tokens = {"another"}
    assert "401" in str(read(tmp_path).error)


def test_refused_kind_is_left_out_and_named(tmp_path: Path, api: ApiServer) -> None:
    api.put(pod("a"))
    api.forbidden = {"jobs"}
    assert warned(read(tmp_path)) == {"may_not_list": "jobs"}
    api.forbidden = {"pods"}
    report = read(tmp_path)
    assert isinstance(report.error, ServerDownError)
    assert "--rbac" in str(report.error)
    assert [row[0] for row in attempts(tmp_path)] == ["a"]


@pytest.mark.parametrize("refusals", [1, 2, 3, 4])
def test_server_that_starts_is_waited_for(
    tmp_path: Path, api: ApiServer, monkeypatch: pytest.MonkeyPatch, refusals: int
) -> None:
    """Until it has read its roles it refuses everything, also whether it is ready."""
    monkeypatch.setattr("ingest.kubernetes.live.client.time.sleep", lambda _: None)
    api.put(pod("a"))
    answer = api.answer

    def restarted(path: str, query: dict[str, str], token: str) -> tuple[int, list[Any]]:
        if path.endswith("/pods"):
            monkeypatch.setattr(api, "answer", answer)
            api.starting = refusals
        return answer(path, query, token)

    monkeypatch.setattr(api, "answer", restarted)
    assert warned(read(tmp_path)) == {}
    assert [row[0] for row in attempts(tmp_path)] == ["a"]


def test_server_that_never_is_ready_refuses_in_the_end(
    tmp_path: Path, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.kubernetes.live.client.time.sleep", lambda _: None)
    api.starting = 10**6
    assert "is forbidden" in str(read(tmp_path).error)
    assert len(api.requests) < 20


@pytest.mark.slow
def test_failures_of_the_server_are_tried_again(
    tmp_path: Path, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.kubernetes.live.client.time.sleep", lambda _: None)
    api.put(pod("a"))
    api.failures = 2
    assert read(tmp_path).error is None
    api.failures = 10
    assert "503" in str(read(tmp_path).error)
    with open_reader(tmp_path / "w") as reader:
        assert reader.frame("SELECT count(*) FROM loads WHERE source = 'kubernetes.objects'").item() == 1


def test_server_that_is_something_else_is_named(
    tmp_path: Path, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "answer", lambda *_: (200, ["hello"]))
    assert "no API server" in str(read(tmp_path).error)


@pytest.mark.slow
def test_held_watch_keeps_what_the_server_forgets(tmp_path: Path, api: ApiServer, follower: Follower) -> None:
    api.put(pod("stays"))
    assert warned(read(tmp_path, follower)) == {}
    short = pod("short", created=10, ended=20, exit_code=1)
    api.put(pod("short", created=10), short)
    api.remove(short)
    all_caught_up(api)
    api.forget()
    assert warned(read(tmp_path, follower)) == {}
    assert [row[:2] for row in attempts(tmp_path)] == [("short", "FAILED"), ("stays", "RUNNING")]
    assert warned(read(tmp_path, follower)) == {}


@pytest.mark.slow
def test_watch_that_holds_too_much_counts_as_forgotten(
    tmp_path: Path, api: ApiServer, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.kubernetes.live.follow.MOST_HELD", 10)
    read(tmp_path, follower)
    api.put(pod("a"), pod("b", node="h2"))
    caught_up(api, "jobs")
    assert warned(read(tmp_path, follower)) == {"events_missed": "pods"}
    assert len(attempts(tmp_path)) == 2
    assert warned(read(tmp_path, follower)) == {}


@pytest.mark.slow
def test_events_of_a_reading_that_failed_are_in_the_next(tmp_path: Path, api: ApiServer, follower: Follower) -> None:
    read(tmp_path, follower)
    short = pod("short", created=10, ended=20, exit_code=1)
    api.put(short)
    api.remove(short)
    all_caught_up(api)
    api.broken = {"jobs"}
    api.forget()
    assert "418" in str(read(tmp_path, follower).error)
    api.broken = set()
    caught_up(api, "jobs")
    read(tmp_path, follower)
    assert [row[:2] for row in attempts(tmp_path)] == [("short", "FAILED")]
