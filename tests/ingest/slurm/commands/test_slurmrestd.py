"""slurmrestd is asked in the right words of its version, and whatever it answers instead is told clearly."""

from __future__ import annotations

import contextlib
import socket
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from ingest.context import ParseContext
from ingest.errors import InputError, ServerDownError
from ingest.load_warnings import messages
from ingest.slurm.accounting.sacct_json import parse_accounting_json
from ingest.slurm.commands.slurmrestd import Client, RestTransport, fetch_accounting_rest
from ingest.slurm.formats.json_answer import SUPPORTED_VERSIONS
from tests.support.slurm.answers import answer, job, node
from tests.support.web import Answer, web

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SINCE, UNTIL = datetime(2026, 9, 21, tzinfo=UTC), datetime(2026, 9, 28, tzinfo=UTC)
NO_SUCH_URL = Answer(b"Unable find requested URL. Please view /openapi/v3 for API reference.", 404, "text/plain")
TOKEN = "eyJhbGciOi.c2VjcmV0.c2lnbmF0dXJl"


def serving(*versions: str) -> Callable[[str, dict[str, str]], Answer]:
    """A slurmrestd of these versions."""

    def say(path: str, _: dict[str, str]) -> Answer:
        if path == "/openapi/v3":
            listed = ",".join(f'"\\/slurmdb\\/v{version}\\/jobs\\/": {{}}' for version in versions)
            return Answer(b'{"paths": {' + listed.encode() + b"}}")
        for version in versions:
            if path == f"/slurmdb/v{version}/jobs":
                return Answer(answer(version, jobs=[job(version)]))
            if path.startswith(f"/slurmdb/v{version}/job/"):
                found = [job(version, job_id=int(path.rpartition("/")[2]))] if not path.endswith("9") else []
                return Answer(answer(version, jobs=found))
            if path == f"/slurm/v{version}/nodes":
                return Answer(answer(version, nodes=[node(version)]))
            if path == f"/slurmdb/v{version}/clusters":
                return Answer(answer(version, clusters=[{"name": "bench"}]))
        return NO_SUCH_URL

    return say


def complaint(client: Client) -> str:
    with pytest.raises(ServerDownError) as caught:
        fetch_accounting_rest(client, SINCE, UNTIL)
    return str(caught.value)


# --- the question --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "requests_seen"),
    [
        ("0.0.38", {"start_time": "uts1789948800", "end_time": "uts1790553600"}),
        ("0.0.39", {"start_time": "uts1789948800", "end_time": "uts1790553600"}),
        *(
            (
                version,
                {
                    "start_time": "1789948800",
                    "end_time": "1790553600",
                    "scheduler_unset": "true",
                    "show_duplicates": "true",
                    "skip_steps": "true",
                    "disable_truncate_usage_time": "true",
                },
            )
            for version in SUPPORTED_VERSIONS[2:]
        ),
    ],
)
def test_a_window_is_requested_with_parameters_of_the_version(version: str, requests_seen: dict[str, str]) -> None:
    with web(serving(version)) as server:
        fetched = fetch_accounting_rest(Client(server.url), SINCE, UNTIL)
        path, parameters, _ = server.questions[-1]
    assert (path, parameters) == (f"/slurmdb/v{version}/jobs", requests_seen)
    assert parse_accounting_json(fetched.data, ParseContext(origin=fetched.origin)).rows_loaded == 1
    assert fetched.origin.startswith(f"slurmrestd {server.url}/slurmdb/v{version}/jobs?start_time=")


def test_the_newest_common_version_is_taken_and_remembered() -> None:
    with web(serving("0.0.38", "0.0.40", "0.0.99")) as server:
        transport = RestTransport(Client(server.url))
        transport.accounting(SINCE, UNTIL)
        tried = [path.split("/")[2] for path, _, _ in server.questions]
        assert tried == ["v0.0.44", "v0.0.43", "v0.0.42", "v0.0.41", "v0.0.40"]
        transport.accounting(SINCE, UNTIL)
        assert len(server.questions) == len(tried) + 1
        assert transport.nodes().origin.endswith("/slurm/v0.0.40/nodes")
        assert transport.settings().origin.endswith("/slurmdb/v0.0.40/clusters")


def test_server_of_unknown_versions_is_queried_in_its_newest() -> None:
    """The parser then warns of the unknown version."""

    def newer(path: str, parameters: dict[str, str]) -> Answer:
        output = serving("0.0.99", "0.0.100")(path, parameters)
        body = output.body.replace(b"data_parser/v0.0.99", b"data_parser/v0.0.100")
        return Answer(body, output.status, output.kind)

    with web(newer) as server:
        fetched = fetch_accounting_rest(Client(server.url), SINCE, UNTIL)
        assert server.questions[-1][1]["show_duplicates"] == "true"
    assert "/slurmdb/v0.0.100/jobs" in fetched.origin
    assert "not supported" in parse_accounting_json(fetched.data, ParseContext(origin="x")).warnings[0].message


def test_a_configured_version_is_the_only_one_requested() -> None:
    with web(serving("0.0.38", "0.0.40")) as server:
        assert "/v0.0.38/" in RestTransport(Client(server.url, version="0.0.38")).nodes().origin
        output = complaint(Client(server.url, version="0.0.41"))
    assert "does not serve /slurmdb/ in v0.0.41" in output
    with web(serving("0.0.37")) as server:
        fetch_accounting_rest(Client(server.url, version="0.0.37"), SINCE, UNTIL)
        assert set(server.questions[-1][1]) == {"start_time", "end_time"}
    assert "It serves: v0.0.38, v0.0.40" in output


def test_server_without_accounting_is_reported() -> None:
    with web(lambda *_: NO_SUCH_URL) as server:
        output = complaint(Client(server.url))
    assert "does not serve /slurmdb/ in any of v0.0.38 to v0.0.44" in output
    assert "It serves: none" in output


@pytest.mark.parametrize("version", ["0.0.38", "0.0.44"])
def test_single_jobs_are_requested_singly_and_returned_together(version: str) -> None:
    with web(serving(version)) as server:
        fetched = RestTransport(Client(server.url)).jobs(["7", "9", "8"])
    found = parse_accounting_json(fetched.data, ParseContext(origin=fetched.origin))
    assert found.frames["attempts"]["job_id"].sort().to_list() == ["7", "8"]
    assert ("exit codes" in str(messages(found.warnings))) == (version == "0.0.38")
    assert fetched.origin.endswith("/slurmdb/job: 3 open jobs, 7 to 8")


@pytest.mark.parametrize("ids", [[], ["7", "8; x"], ["7_1"], ["\u0663"]])
def test_an_invalid_id_is_not_requested(ids: list[str]) -> None:
    with pytest.raises(InputError, match="job ids"):
        RestTransport(Client("unix:/x")).jobs(ids)


def test_an_empty_window_is_refused() -> None:
    with pytest.raises(InputError, match="window is empty"):
        fetch_accounting_rest(Client("unix:/x"), UNTIL, UNTIL)


# --- who asks ------------------------------------------------------------------------------------------


def test_the_token_is_sent_and_shown_nowhere() -> None:
    with web(serving("0.0.38")) as server:
        client = Client(server.url.replace("http://", "http://me:pass@"), user="alice", token=TOKEN)
        fetched = fetch_accounting_rest(client, SINCE, UNTIL)
        headers = server.questions[-1][2]
    assert headers["X-SLURM-USER-TOKEN"] == TOKEN
    assert headers["X-SLURM-USER-NAME"] == "alice"
    for shown in (fetched.origin, repr(client)):
        assert TOKEN not in shown
    assert "pass" not in fetched.origin


@pytest.mark.parametrize(
    "refusal",
    [
        Answer(b"Authentication failure", 401, "text/plain"),
        Answer(b"Authentication failure", 500, "text/plain"),
        Answer(answer("0.0.38", errors=[{"error_number": 1007, "error": "Protocol authentication error"}], jobs=[])),
        Answer(answer("0.0.44", errors=[{"error_number": 1007, "error": "Protocol authentication error"}]), 511),
        Answer(answer("0.0.44", errors=[{"error": "Unable to validate token"}]), 500),
        Answer(b"", 403, "text/plain"),
    ],
)
def test_bad_token_is_reported_for_every_versions_refusal(refusal: Answer) -> None:
    with web(lambda *_: refusal) as server:
        output = complaint(Client(server.url, user="alice", token=TOKEN))
    assert "access denied" in output
    assert "scontrol token" in output
    assert TOKEN not in output


@pytest.mark.parametrize("token", ["two words", "a\r\nX-Other: 1", "caf\u00e9", ""])
def test_a_token_that_is_none_is_not_sent(token: str) -> None:
    with pytest.raises(ServerDownError, match="cannot be sent"):
        Client("http://127.0.0.1:1", token=token)


# --- what comes back instead ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "output"),
    [
        (Answer(b"<html><title>Welcome</title></html>", kind="text/html"), "something else than JSON (text/html)"),
        (Answer(b"", kind="text/plain"), "something else than JSON"),
        (Answer(b"moved", 302, "text/plain", {"Location": "http://x/"}), "answered 302"),
        (Answer(answer(jobs=[]), promised=9_999), "broke off in the middle"),
        (Answer(answer(jobs=[]), after_s=2.0), "did not answer within 0.3 s"),
        (Answer(answer(jobs=[]), drip_s=0.1), "did not answer within 0.3 s"),
        (Answer(answer(errors=[{"error": "Unable to connect to database"}], jobs=[])), "Unable to connect to database"),
        (Answer(answer(errors=[{"error_number": 9000, "error": "Unknown Query field"}]), 500), "Unknown Query field"),
        (Answer(b"{}", 503), "answered 503: no reason"),
    ],
)
def test_any_non_answer_is_reported_clearly(given: Answer, output: str) -> None:
    with web(lambda *_: given) as server:
        late = given.after_s or given.drip_s
        assert output in complaint(Client(server.url, timeout_s=0.3 if late else 60))


def test_an_empty_result_is_an_answer() -> None:
    nothing = [{"error_number": 9003, "error": "Nothing found with query"}]
    for status in (200, 500):
        with web(lambda *_, status=status: Answer(answer("0.0.38", errors=nothing, jobs=[]), status)) as server:
            fetched = fetch_accounting_rest(Client(server.url), SINCE, UNTIL)
        assert parse_accounting_json(fetched.data, ParseContext(origin="x")).rows_read == 0


@pytest.mark.parametrize(
    ("url", "output"),
    [
        ("unix:/nowhere/rest.sock", "no such socket"),
        ("http://127.0.0.1:1", "no server listens there"),
        ("http://host.invalid:6820", "no such host"),
        ("unix:" + "x" * 200, "cannot be queried"),
    ],
)
def test_an_address_that_does_not_respond(url: str, output: str) -> None:
    assert output in complaint(Client(url))


@pytest.mark.parametrize("url", ["localhost:6820", "", "unix:", "ftp://x", "http://me:se/cret@host"])
def test_an_invalid_address_is_neither_used_nor_shown(url: str) -> None:
    with pytest.raises(ServerDownError, match="unix:/path") as caught:
        Client(url)
    assert "se/cret" not in str(caught.value)


# --- a unix socket -------------------------------------------------------------------------------------


@contextlib.contextmanager
def one_answer(path: Path, body: bytes, *, promised: int | None = None) -> Iterator[None]:
    """A server on a unix socket that says one thing and hangs up."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def serve() -> None:
        taken, _ = listening.accept()
        with taken:
            taken.recv(65_536)
            length = len(body) if promised is None else promised
            taken.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % length)
            taken.sendall(body)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(5)
        listening.close()


def test_a_unix_socket_is_used_like_a_port(tmp_path: Path) -> None:
    with one_answer(tmp_path / "s", answer(jobs=[job()])):
        fetched = fetch_accounting_rest(Client(f"unix:{tmp_path / 's'}"), SINCE, UNTIL)
    assert parse_accounting_json(fetched.data, ParseContext(origin="x")).rows_loaded == 1
    assert fetched.origin.startswith(f"slurmrestd unix:{tmp_path / 's'}/slurmdb/v0.0.44/jobs?")


def test_half_an_answer_on_a_unix_socket_is_no_answer(tmp_path: Path) -> None:
    with one_answer(tmp_path / "s", answer(jobs=[job()])[:300], promised=9_999):
        assert "broke off" in complaint(Client(f"unix:{tmp_path / 's'}"))
    (tmp_path / "s").unlink()
    with one_answer(tmp_path / "s", b"", promised=10):
        assert "broke off" in complaint(Client(f"unix:{tmp_path / 's'}"))
