"""The door: headers of nobody but the proxy are believed, pages elsewhere may not post, limits hold, all is logged."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests
from flask import Flask

from app.access.audit import AuditLog
from app.access.guard import LONGEST_BODY, LONGEST_QUERY
from app.access.people import LOCAL
from app.access.protect import protect
from app.config.access import Access
from app.errors import UsageError
from app.service import connections
from tests.app.access.conftest import application, audited, headers_believed

if TYPE_CHECKING:
    from werkzeug.test import TestResponse

SAME = {"Sec-Fetch-Site": "same-origin"}


def ask(folder: Path, access: Access, path: str = "/page", *, peer: str = "127.0.0.1", **headers: str) -> TestResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    client = application(access, folder).test_client()
    return client.get(path, headers=named, environ_overrides={"REMOTE_ADDR": peer})


def test_without_login_a_header_means_nothing(tmp_path: Path) -> None:
    answer = ask(tmp_path, Access(), X_Forwarded_User="eve", X_Forwarded_Groups="ops")
    assert (answer.status_code, answer.text) == (200, ":ADMIN:")
    assert not (tmp_path / "trackside-audit.jsonl").exists()


def test_proxy_names_person_role_and_accounts(tmp_path: Path) -> None:
    access = headers_believed(operators=("group:ops",), account_groups="^slurm-(.+)$")
    assert ask(tmp_path, access, X_Forwarded_User="ada", X_Forwarded_Groups="x, ops").text == "ada:OPERATOR:"
    assert ask(tmp_path, access, X_Forwarded_User="eve", X_Forwarded_Groups="slurm-nlp").text == "eve:VIEWER:nlp"


@pytest.mark.parametrize("peer", ["10.0.0.1", "127.0.0.2", "::1", ""])
def test_header_of_another_address_is_ignored(peer: str, tmp_path: Path) -> None:
    more = {"X_Forwarded_User": "ada", "X_Forwarded_For": "127.0.0.1"}
    assert ask(tmp_path, headers_believed(), peer=peer, **more).status_code == 401
    assert ask(tmp_path, headers_believed(), **more).status_code == 200


@pytest.mark.parametrize("name", ["", "eve,ada", "eve, ada", "a b", "<b>", "x" * 300, "a\u202eb"])
def test_header_that_is_no_name_is_refused(name: str, tmp_path: Path) -> None:
    assert ask(tmp_path, headers_believed(), X_Forwarded_User=name).status_code == 401


def test_header_is_ignored_where_login_is_oidc(tmp_path: Path) -> None:
    access = Access(login="oidc", url="https://t.example", issuer="https://i.example", client_id="t",
                    proxies=("127.0.0.1",))  # fmt: skip
    answer = ask(tmp_path, access, X_Forwarded_User="ada")
    assert (answer.status_code, answer.location) == (302, "/login?next=%2Fpage")


def test_person_without_a_role_sees_nothing(tmp_path: Path) -> None:
    answer = ask(tmp_path, headers_believed(viewers=("group:staff",)), X_Forwarded_User="eve")
    assert answer.status_code == 403
    assert audited(tmp_path)[-1]["reason"] == "no role"


@pytest.mark.parametrize(
    ("headers", "status"),
    [(SAME, 200), ({"Origin": "http://localhost"}, 200), ({"Origin": "https://evil.example"}, 403),
     ({"Origin": "null"}, 403), ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Sec-Fetch-Site": "same-site"}, 403),
     ({"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"}, 403), ({}, 403)],
)  # fmt: skip
def test_only_own_pages_may_post_where_people_log_in(headers: dict[str, str], status: int, tmp_path: Path) -> None:
    client = application(headers_believed(), tmp_path).test_client()
    assert client.post("/change", headers={**headers, "X-Forwarded-User": "ada"}).status_code == status


def test_pages_elsewhere_may_not_post_without_a_login(tmp_path: Path) -> None:
    client = application(Access(), tmp_path).test_client()
    assert client.post("/change", headers={"Origin": "https://evil.example"}).status_code == 403
    assert client.post("/change", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert client.post("/change").status_code == 200  # no browser


def test_configured_address_is_the_only_origin(tmp_path: Path) -> None:
    client = application(headers_believed(url="https://t.example"), tmp_path).test_client()
    for origin, status in (("https://t.example", 200), ("http://t.example", 403), ("http://localhost", 403)):
        headers = {**SAME, "Origin": origin, "X-Forwarded-User": "ada"}
        assert client.post("/change", headers=headers).status_code == status


def test_oversized_inputs_are_refused(tmp_path: Path) -> None:
    client = application(Access(), tmp_path).test_client()
    assert client.get("/page?" + "a" * LONGEST_QUERY).status_code == 200
    assert client.get("/page?" + "a" * (LONGEST_QUERY + 1)).status_code == 414
    assert client.post("/read", data=b"a" * LONGEST_BODY).text == str(LONGEST_BODY)
    assert client.post("/read", data=b"a" * (LONGEST_BODY + 1)).status_code == 413


def test_requests_of_one_person_are_limited(tmp_path: Path) -> None:
    client = application(headers_believed(requests_per_minute=10), tmp_path).test_client()
    codes = [client.get("/page", headers={"X-Forwarded-User": "ada"}).status_code for _ in range(30)]
    assert codes[:10] == [200] * 10
    assert codes[-1] == 429
    other = client.get("/page", headers={"X-Forwarded-User": "eve"})
    assert other.status_code == 200
    late = client.get("/page", headers={"X-Forwarded-User": "ada"})
    assert int(late.headers["Retry-After"]) >= 1


def test_requests_without_login_are_limited_by_address(tmp_path: Path) -> None:
    client = application(headers_believed(logins_per_minute=3), tmp_path).test_client()

    def codes(address: str) -> list[int]:
        return [client.get("/page", headers={"X-Forwarded-For": address}).status_code for _ in range(8)]

    assert codes("192.0.2.1")[-1] == 429
    assert codes("192.0.2.2")[0] == 401


def test_metrics_take_a_token_or_an_operator(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    access = headers_believed(metrics_token_file=tmp_path / "token")
    assert ask(tmp_path, access, "/metrics").status_code == 401
    assert ask(tmp_path, access, "/metrics", Authorization="Bearer s3cret").status_code == 200
    assert ask(tmp_path, access, "/metrics", Authorization="Bearer s3cre").status_code == 401
    assert ask(tmp_path, access, "/metrics", X_Forwarded_User="eve").status_code == 403
    operators = headers_believed(operators=("user:ada",))
    assert ask(tmp_path, operators, "/metrics", X_Forwarded_User="ada").status_code == 200
    assert ask(tmp_path, access, "/page", Authorization="Bearer s3cret").status_code == 401
    assert ask(tmp_path, headers_believed(), "/metrics", Authorization="Bearer ").status_code == 401


def test_header_with_an_underscore_never_arrives(tmp_path: Path) -> None:
    made = application(headers_believed(), tmp_path)
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        server = connections.make_server(made.wsgi_app, listening)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/page"
            assert requests.get(url, headers={"X_Forwarded_User": "ada"}, timeout=30).status_code == 401
            assert requests.get(url, headers={"X-Forwarded-User": "ada"}, timeout=30).status_code == 200
        finally:
            server.close()
            thread.join(30)


def test_health_needs_no_login(tmp_path: Path) -> None:
    assert ask(tmp_path, headers_believed(), "/healthz").text == ":NOBODY:"


def test_audit_log_says_who_saw_what_and_from_where(tmp_path: Path) -> None:
    access = headers_believed(operators=("group:ops",))
    ask(tmp_path, access, X_Forwarded_User="ada", X_Forwarded_Groups="ops", X_Forwarded_For="192.0.2.7")
    line = audited(tmp_path)[-1]
    time = line.pop("time")
    assert time.endswith("Z")
    assert line == {"user": "ada", "role": "operator", "address": "192.0.2.7", "action": "see", "status": 200,
                    "path": "/page"}  # fmt: skip
    assert (tmp_path / "trackside-audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_audit_log_begins_a_new_file_and_drops_the_oldest(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "log", megabytes=0.001, files=2)
    for number in range(40):
        log.write("see", LOCAL, "127.0.0.1", path=f"/{number}\n" + "x" * 900)
    files = sorted(each.name for each in tmp_path.iterdir())
    assert files == ["log", "log.1", "log.2"]
    assert all(each.stat().st_mode & 0o777 == 0o600 for each in tmp_path.iterdir())
    assert all(line.startswith("{") for each in tmp_path.iterdir() for line in each.read_text().splitlines())
    assert "/39" in (tmp_path / "log").read_text()


def test_audit_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="audit_file"):
        AuditLog(tmp_path / "none" / "log")


def test_answers_for_a_person_are_kept_out_of_caches(tmp_path: Path) -> None:
    assert ask(tmp_path, headers_believed(), X_Forwarded_User="ada").headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("lake", ["ducklake:postgres:dbname=lake host=db", "ducklake:sqlite:lake.sqlite"])
def test_audit_file_of_a_lake_must_be_named(lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"a lake.*\n.*\[access\].*audit_file = "):
        protect(Flask("behind"), headers_believed(), Path(lake))
    protect(Flask("behind"), Access(), Path(lake))  # nobody logs in: nothing is kept
    assert list(tmp_path.iterdir()) == []
    protect(Flask("behind"), headers_believed(audit_file=tmp_path / "audit.jsonl"), Path(lake))
    assert [file.name for file in tmp_path.iterdir()] == ["audit.jsonl"]
