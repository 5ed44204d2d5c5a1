"""Login by a real OpenID provider: what it takes, and what is refused."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from joserfc import jwt
from joserfc.jwk import OctKey

from app.access import oidc, sessions
from app.access.oidc import LoginError, Provider
from app.access.people import Person, Role
from app.access.sessions import Sessions
from app.config.access import Access
from app.errors import ConfigError
from tests.app.access.conftest import application, audited
from tests.support.web import Answer, web

if TYPE_CHECKING:
    from pathlib import Path

    from flask import Flask
    from flask.testing import FlaskClient
    from werkzeug.test import TestResponse

URL = "http://localhost"
SECRET = "very-secret-of-the-client"


@dataclass
class Visitor:
    """A browser that goes from the explorer to the provider and back."""

    client: FlaskClient
    addresses: list[str] = field(default_factory=list)

    def begin(self, path: str = "/page") -> str:
        """Ask for a page; where the provider wants the browser."""
        first = self.client.get(path)
        assert first.status_code == 302
        address = str(self.client.get(first.location).location)
        self.addresses.append(address)
        return address

    def authorize(self, address: str, sub: str) -> str:
        """Log in at the provider; where it sends the browser."""
        back = requests.post(address, data={"sub": sub}, allow_redirects=False, timeout=30)
        assert back.status_code == 302, back.text[:500]
        return back.headers["Location"].removeprefix(URL)

    def log_in(self, sub: str, path: str = "/page") -> TestResponse:
        """Log in; the answer that brings the session."""
        return self.client.get(self.authorize(self.begin(path), sub))

    def session(self) -> str:
        """The cookie of the session."""
        cookie = self.client.get_cookie("trackside")
        assert cookie is not None
        return str(cookie.value)

    def page(self) -> str:
        return self.client.get("/page").text


def rules(issuer: str, **more: object) -> Access:
    values = {"login": "oidc", "url": URL, "issuer": issuer, "client_id": "trackside", "operators": ["group:ops"],
              "account_groups": "^slurm-(.+)$"}  # fmt: skip
    return Access.model_validate(values | more)


@pytest.fixture
def behind(issuer: str, tmp_path: Path) -> Flask:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    return application(rules(issuer, client_secret_file=tmp_path / "secret"), tmp_path)


@pytest.fixture
def visitor(behind: Flask) -> Visitor:
    return Visitor(behind.test_client())


def test_login_leads_back_to_the_page_with_the_role(visitor: Visitor, tmp_path: Path) -> None:
    answer = visitor.log_in("1", "/page?id=7")
    assert (answer.status_code, answer.location) == (302, "/page?id=7")
    assert visitor.page() == "ada:OPERATOR:vision"
    log = (tmp_path / "trackside-audit.jsonl").read_text("utf-8")
    assert audited(tmp_path)[-2]["action"] == "login"
    assert SECRET not in log
    assert visitor.session() not in log


def test_login_sends_pkce_state_and_nonce(visitor: Visitor) -> None:
    asked = [parse_qs(urlsplit(visitor.begin()).query) for _ in range(2)]
    assert asked[0]["code_challenge_method"] == ["S256"]
    assert asked[0]["redirect_uri"] == [f"{URL}/login/callback"]
    for name in ("state", "nonce", "code_challenge"):
        assert len(asked[0][name][0]) >= 43
        assert asked[0][name] != asked[1][name]
    assert SECRET not in visitor.addresses[0]


def test_session_cookie_is_for_the_server_alone(visitor: Visitor, tmp_path: Path, issuer: str) -> None:
    answer = visitor.log_in("2")
    cookie = next(each for each in answer.headers.getlist("Set-Cookie") if each.startswith("trackside="))
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Domain" not in cookie
    encrypted = application(rules(issuer, url="https://t.example"), tmp_path).test_client().get("/login")
    cookie = encrypted.headers["Set-Cookie"]
    assert cookie.startswith("__Host-trackside-login=")
    assert "Secure" in cookie


def test_stolen_session_is_refused_after_logout(behind: Flask, visitor: Visitor) -> None:
    visitor.log_in("2")
    thief = Visitor(behind.test_client())
    thief.client.set_cookie("trackside", visitor.session())
    assert thief.page() == "eve:VIEWER:"
    answer = visitor.client.post("/logout", headers={"Origin": URL})
    assert (answer.status_code, answer.location) == (303, "/logged-out")
    assert thief.client.get("/page").status_code == 302
    assert thief.client.post("/change", headers={"Origin": URL}).status_code == 401
    assert "Log in again" in visitor.client.get("/logged-out").text


def test_page_elsewhere_cannot_end_a_session(visitor: Visitor) -> None:
    visitor.log_in("2")
    assert visitor.client.post("/logout", headers={"Origin": "https://evil.example"}).status_code == 403
    assert visitor.client.get("/logout").status_code in {404, 405}
    assert visitor.page() == "eve:VIEWER:"


def test_answer_of_the_provider_is_used_once(visitor: Visitor) -> None:
    back = visitor.authorize(visitor.begin(), "1")
    begun = visitor.client.get_cookie("trackside-login")
    assert begun is not None
    assert visitor.client.get(back).status_code == 302
    visitor.client.delete_cookie("trackside")
    visitor.client.set_cookie("trackside-login", str(begun.value))
    assert visitor.client.get(back).status_code == 403
    assert visitor.client.get("/page").status_code == 302


def test_login_begun_in_another_browser_is_refused(behind: Flask, visitor: Visitor) -> None:
    other = Visitor(behind.test_client())
    back = other.authorize(other.begin(), "1")  # an attacker's own login, sent to somebody as a link
    assert visitor.client.get(back).status_code == 403
    visitor.begin()
    assert visitor.client.get(back).status_code == 403
    assert visitor.client.get_cookie("trackside") is None


def test_wrong_state_is_refused(visitor: Visitor) -> None:
    back = visitor.authorize(visitor.begin(), "1")
    assert visitor.client.get(re.sub(r"state=[^&]+", "state=guessed", back)).status_code == 403
    assert visitor.client.get(back).status_code == 403  # the login is over


def test_nonce_of_another_login_is_refused(visitor: Visitor) -> None:
    first, second = visitor.begin(), visitor.begin()
    nonces = [parse_qs(urlsplit(each).query)["nonce"][0] for each in (first, second)]
    back = visitor.authorize(second.replace(nonces[1], nonces[0]), "1")
    answer = visitor.client.get(back)
    assert answer.status_code == 403
    assert visitor.client.get_cookie("trackside") is None


def test_session_of_before_the_login_is_worth_nothing(behind: Flask, visitor: Visitor) -> None:
    visitor.client.set_cookie("trackside", "chosen-by-somebody-else")
    visitor.log_in("1")
    assert visitor.session() != "chosen-by-somebody-else"
    thief = behind.test_client()
    thief.set_cookie("trackside", "chosen-by-somebody-else")
    assert thief.get("/page").status_code == 302


def test_second_login_ends_the_first_session(behind: Flask, visitor: Visitor) -> None:
    visitor.log_in("1")
    before = visitor.session()
    back = visitor.authorize(str(visitor.client.get("/login").location), "2")
    visitor.client.get(back)
    assert visitor.page() == "eve:VIEWER:"
    other = behind.test_client()
    other.set_cookie("trackside", before)
    assert other.get("/page").status_code == 302


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example", "/%09/evil.example"])
def test_login_leads_to_no_other_site(target: str, visitor: Visitor) -> None:
    address = str(visitor.client.get(f"/login?next={target}").location)
    location = urlsplit(visitor.client.get(visitor.authorize(address, "1")).location)
    assert (location.netloc, location.scheme) == ("", "")
    assert not location.path.startswith(("//", "/\\", "/\t"))


def test_login_that_the_provider_denies_is_said(visitor: Visitor) -> None:
    back = requests.post(visitor.begin(), data={"action": "deny"}, allow_redirects=False, timeout=30)
    answer = visitor.client.get(back.headers["Location"].removeprefix(URL))
    assert answer.status_code == 403
    assert "did not let you in" in answer.text


def test_login_without_a_usable_name_is_refused(visitor: Visitor) -> None:
    answer = visitor.log_in("3")
    assert answer.status_code == 403
    assert "preferred_username" in answer.text


def test_provider_that_is_down_is_said_without_a_secret(tmp_path: Path) -> None:
    client = application(rules("http://127.0.0.1:1"), tmp_path).test_client()
    answer = client.get("/login")
    assert answer.status_code == 403
    assert "no valid response" in answer.text


def test_provider_with_another_issuer_is_refused(tmp_path: Path) -> None:
    with web(lambda _path, _params: Answer(b'{"issuer": "https://evil.example"}')) as server:
        answer = application(rules(server.url), tmp_path).test_client().get("/login")
    assert answer.status_code == 403
    assert "another address" in answer.text


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_id_token_without_the_provider_key_is_refused(algorithm: str, issuer: str) -> None:
    claims = {"iss": issuer, "aud": "trackside", "sub": "1", "nonce": "n", "exp": 9_999_999_999, "iat": 1}
    if algorithm == "none":
        parts = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in ({"alg": "none"}, claims)]
        forged = b".".join([*parts, b""]).decode()
    else:
        forged = jwt.encode({"alg": algorithm}, claims, OctKey.import_key(SECRET * 2), algorithms=[algorithm])
    with pytest.raises(LoginError, match="not the provider"):
        Provider(rules(issuer), SECRET * 2)._claims(forged, "n", "")  # noqa: SLF001 - what a login rests on


def test_sessions_end_when_old_or_idle() -> None:
    now = [0.0]
    kept = Sessions(lasts_s=100, idle_s=30, clock=lambda: now[0])
    ada = Person("ada", Role.VIEWER)
    name, idle = kept.open(ada), kept.open(ada)
    for now[0] in (29, 58, 87):
        assert kept.person(name) == ada
    assert kept.person(idle) is None
    now[0] = 101
    assert kept.person(name) is None
    kept.open(ada)
    assert len(kept) == 1


def test_logins_that_are_never_finished_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST", 5)
    kept = Sessions(lasts_s=100, idle_s=30)
    names = [kept.begin("/", f"s{number}", "n", "v") for number in range(8)]
    assert kept.finish(names[0], "s0") is None
    assert kept.finish(names[7], "s7") is not None


def test_secret_comes_from_file_or_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(oidc.SECRET, "of the environment")
    assert oidc.secret_of(rules("https://i.example")) == "of the environment"
    with pytest.raises(ConfigError, match="client_secret_file"):
        oidc.secret_of(rules("https://i.example", client_secret_file=tmp_path / "none"))
    assert SECRET not in repr(Provider(rules("https://i.example"), SECRET))
