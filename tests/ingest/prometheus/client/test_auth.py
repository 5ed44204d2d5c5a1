"""Who we are for a server and whom we trust: what every request carries, real TLS on loopback, and no secret told."""

from __future__ import annotations

import base64
import shutil
import ssl
import subprocess
import warnings
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import pytest

from app.config.settings import Config, parse
from app.errors import ConfigError
from ingest.errors import OptionError, ServerDownError
from ingest.prometheus.client.auth import HIDDEN, CertificateError, Login
from ingest.prometheus.client.server import PrometheusServer
from ingest.prometheus.client.victoria import KIND
from ingest.prometheus.connect import connect
from tests.support.slurm.parsing import at
from tests.support.web import Answer, matrix, told, web

if TYPE_CHECKING:
    from pathlib import Path

T = 1_795_248_000
SECRET = "t0k3n-s3cr3t"
NAMES = told(["up"])


def server(url: str, login: Login) -> PrometheusServer:
    return PrometheusServer(url, login=login, retries=0, timeout_s=60, sleep=lambda _: pytest.fail("nobody waits"))


def names(url: str, login: Login) -> list[str]:
    return server(url, login).names(since=at(T), until=at(T + 60))


def shown(login: Login, *, url: str = "http://127.0.0.1") -> list[dict[str, str]]:
    """The headers of one request of each kind: metadata, a query of the library, one of ours, both raw transports."""

    def answer(path: str, _: dict[str, str]) -> Answer:
        if path.endswith("/query"):
            return told({"resultType": "vector", "result": []})
        return NAMES if "label" in path else matrix()

    with web(answer) as there:
        one = server(there.url.replace("http://127.0.0.1", url), login)
        one.names(since=at(T), until=at(T + 60))
        one.latest("up", at=at(T))
        one.points("up", first=at(T), last=at(T + 60), step=timedelta(seconds=60))
        one.samples("up{}", first=at(T), last=at(T), step=timedelta(seconds=60), each=len)
    actual = [headers for _, _, headers in there.questions]
    actual += [headers for _, headers in there.posted] + [headers for _, headers in there.exported]
    assert len(actual) == 5
    return actual


def test_every_request_carries_the_token_and_the_headers() -> None:
    login = Login(token=SECRET, headers={"X-Scope-OrgID": "team-a"}, secret_headers={"X-Api-Key": "k3y"})
    for headers in shown(login):
        told_by = (headers["Authorization"], headers["X-Scope-OrgID"], headers["X-Api-Key"])
        assert told_by == (f"Bearer {SECRET}", "team-a", "k3y")


def test_every_request_carries_user_and_password_in_any_script() -> None:
    for headers in shown(Login(user="jürgen", password="pässwörd"), url="http://other:login@127.0.0.1"):
        assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode() == "jürgen:pässwörd"


@pytest.mark.parametrize("where", ["headers", "secret_headers"])
def test_login_in_a_header_takes_precedence_over_the_address(where: str) -> None:
    for headers in shown(Login(**{where: {"authorization": "Custom x"}}), url="http://other:login@127.0.0.1"):  # type: ignore[arg-type]  # mypy does not know which
        assert headers["authorization"] == "Custom x"
        assert "Authorization" not in headers


def test_a_login_in_a_netrc_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for headers in shown(Login(headers={"Authorization": "Custom x"})):
        assert headers["Authorization"] == "Custom x"
    assert "Authorization" not in shown(Login())[0]


def test_headers_and_token_do_not_follow_to_another_host() -> None:
    login = Login(token=SECRET, headers={"X-Scope-OrgID": "team-a"}, secret_headers={"X-Api-Key": "k3y"})
    with web(lambda *_: NAMES) as other:
        elsewhere = other.url.replace("127.0.0.1", "localhost")
        with web(lambda path, _: Answer(b"", 302, headers={"Location": elsewhere + path})) as there:
            assert names(there.url, login) == ["up"]
    (_, _, headers) = other.questions[0]
    assert not {"Authorization", "X-Scope-OrgID", "X-Api-Key"} & set(headers)


def test_wrong_token_is_reported_without_it() -> None:
    """Some servers and proxies tell us back what they were shown."""
    for output in (f"token {SECRET}, key k3y-k3y", f'{{"status":"error","error":"bad key k3y-k3y, {SECRET}"}}'):
        with (
            web(lambda *_, output=output: Answer(output.encode(), 401, "text/plain")) as there,
            pytest.raises(ServerDownError) as caught,
        ):
            names(there.url, Login(token=SECRET, headers={"x-api-KEY": "k3y-k3y"}))
        assert "status 401" in str(caught.value)
        assert HIDDEN in str(caught.value)
        assert "prometheus.token_env" in str(caught.value)
        assert SECRET not in f"{caught.value} {caught.value.args}"
        assert "k3y-k3y" not in str(caught.value)
        assert not caught.value.unreachable


@pytest.mark.parametrize("user", ["", "me"])
def test_refused_password_is_reported_without_any_spelling_of_it(user: str) -> None:
    """A page that helps to find faults shows the whole request."""
    login = Login(user=user, password="p@ss/word" if user else "")
    inside = "" if user else "me:p%40ss%2Fword@"

    def answer(*_: object) -> Answer:
        shown = there.questions[-1][2]["Authorization"]
        return Answer(f"Authorization: {shown}; http://{inside or 'me:p@ss/word@'}host/".encode(), 401, "text/plain")

    with web(answer) as there, pytest.raises(ServerDownError) as caught:
        names(there.url.replace("//", f"//{inside}"), login)
    sent = base64.b64encode(b"me:p@ss/word").decode()
    assert there.questions[-1][2]["Authorization"] == f"Basic {sent}"
    assert f"Authorization: Basic {HIDDEN}" in str(caught.value)
    assert not [told for told in (sent, "p@ss/word", "p%40ss%2Fword") if told in str(caught.value)]


@pytest.mark.parametrize("before", range(140, 165, 3))
def test_cut_message_contains_no_part_of_a_secret(before: int) -> None:
    """Long messages are shown by their beginning and their end."""
    output = "x" * max(0, before - 110) + SECRET + "y" * before
    for status in (400, 401, 422, 500):
        answer = Answer(output.encode(), status, "text/plain")
        with web(lambda *_, answer=answer: answer) as there, pytest.raises(ServerDownError) as caught:
            names(there.url, Login(token=SECRET))
        assert SECRET[:5] not in str(caught.value)
        assert SECRET[-5:] not in str(caught.value)


def test_no_secret_is_in_what_a_login_shows_of_itself() -> None:
    login = Login(token=SECRET, password=SECRET, headers={"A": SECRET}, secret_headers={"B": SECRET})
    assert SECRET not in repr(login)


def test_mimirs_message_about_a_missing_tenant_is_reported() -> None:
    def answer(path: str, _: dict[str, str]) -> Answer:
        return NAMES if "X-Scope-Orgid" in there.questions[-1][2] else Answer(b"no org id\n", 401, "text/plain")

    with web(answer) as there, pytest.raises(ServerDownError, match=r"status 401: no org id\n.*X-Scope-OrgID"):
        names(there.url, Login(token=SECRET))


# --- TLS


class Files(NamedTuple):
    """Certificates and keys below one authority, and the certificate of another one."""

    ca: str
    other_ca: str
    server: str
    server_key: str
    client: str
    client_key: str

    def context(self, *, ask_for_client: bool = False) -> ssl.SSLContext:
        """What a server is started with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server, self.server_key)
        if ask_for_client:
            context.maximum_version = ssl.TLSVersion.TLSv1_2  # later ones hear of it, or not, when all is sent
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.ca)
        return context


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Made with openssl, good for a day."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine")
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("-newkey", "rsa:2048", "-nodes", "-days", "1")
    for name in ("ca", "other_ca"):
        openssl("req", "-x509", *new, "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                "-keyout", f"{name}.key", "-out", f"{name}.pem")  # fmt: skip
    for name in ("server", "client"):
        openssl("req", *new[:3], "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (folder / "more").write_text("subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "1", "-extfile", "more", "-out", f"{name}.pem")  # fmt: skip
    actual = ("ca.pem", "other_ca.pem", "server.pem", "server.key", "client.pem", "client.key")
    return Files(*(str(folder / name) for name in actual))


def test_server_of_a_trusted_authority_works_by_every_transport(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment says of others."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", files.other_ca)

    def export(params: dict[str, str]) -> Answer:
        line = f'{{"metric":{{}},"values":[1],"timestamps":[{T}000]}}\n'
        return Answer(line.encode() if params["match[]"] == "up{}" else b"", kind=KIND)

    context = files.context()
    with web(lambda path, _: NAMES if "label" in path else matrix(), export=export, tls=context) as there:
        one = server(there.url, Login(token=SECRET, ca_file=files.ca))
        assert one.names(since=at(T), until=at(T + 60)) == ["up"]
        step = timedelta(seconds=60)
        assert one.points("up", first=at(T), last=at(T), step=step).labels == []
        actual = one.samples("up{}", first=at(T), last=at(T), step=step, each=lambda batch: batch.values.tolist())
        assert actual == [[1.0]]
    shown_to = [headers["Authorization"] for _, _, headers in there.questions]
    shown_to += [headers["Authorization"] for _, headers in (*there.posted, *there.exported)]
    assert set(shown_to) == {f"Bearer {SECRET}"}


@pytest.mark.slow
@pytest.mark.parametrize("which", ["nobody's", "another's"])
def test_untrusted_server_is_sent_nothing(files: Files, which: str) -> None:
    ca_file = files.other_ca if which == "another's" else ""
    with web(lambda *_: NAMES, tls=files.context()) as there, pytest.raises(ServerDownError) as caught:
        names(there.url, Login(token=SECRET, ca_file=ca_file))
    assert "cannot be trusted: " in str(caught.value)
    assert "prometheus.ca_file" in str(caught.value)
    assert there.questions == []
    assert caught.value.unreachable


def test_certificates_are_not_checked_if_configured_so(files: Files) -> None:
    with web(lambda *_: NAMES, tls=files.context()) as there, warnings.catch_warnings():
        assert names(there.url, Login(verify_tls=False)) == ["up"]
        assert names(there.url, Login(verify_tls=False, ca_file=files.other_ca)) == ["up"]


def test_a_server_that_requires_a_certificate_gets_ours(files: Files) -> None:
    with web(lambda *_: NAMES, tls=files.context(ask_for_client=True)) as there:
        ours = Login(ca_file=files.ca, cert_file=files.client, key_file=files.client_key)
        ours.check()
        assert names(there.url, ours) == ["up"]
        with pytest.raises(ServerDownError, match=r"prometheus\.cert_file"):
            names(there.url, Login(ca_file=files.ca))


def test_port_without_tls_is_reported(files: Files) -> None:
    with web(lambda *_: NAMES) as there, pytest.raises(ServerDownError, match=r"does not use TLS.*\nIs it http://"):
        names(there.url.replace("http:", "https:"), Login(ca_file=files.ca))


def test_unusable_files_are_reported_before_any_request(files: Files, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no certificate\n")
    gone, text = str(tmp_path / "gone"), str(tmp_path / "text")
    for login, output in (
        (Login(ca_file=gone), "^ca_file: No such file"),
        (Login(ca_file=text), "^ca_file: no certificates"),
        (Login(cert_file=gone), "^cert_file, key_file: No such file"),
        (Login(cert_file=files.client), "^cert_file, key_file: no certificates, or no key"),
        (Login(cert_file=files.client, key_file=files.server_key), "^cert_file, key_file: .* no key that fits"),
    ):
        with pytest.raises(CertificateError, match=output):
            login.check()


# --- the configuration


def config(**section: object) -> Config:
    return parse({"prometheus": {"url": "http://127.0.0.1:9", **section}}, origin="trackside.toml")


def test_secrets_come_stripped_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", f" {SECRET}\n")
    monkeypatch.setenv("MY_KEY", "k3y")
    settings = config(
        username="me", password_env="MY_PASSWORD", headers={"X-Scope-OrgID": "a b"}, header_env={"X-Api-Key": "MY_KEY"}
    )
    with web(lambda *_: NAMES) as there:
        connect(settings, there.url).names(since=at(T), until=at(T + 60))
    (_, _, headers) = there.questions[0]
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode() == f"me:{SECRET}"
    assert (headers["X-Scope-OrgID"], headers["X-Api-Key"]) == ("a b", "k3y")


@pytest.mark.parametrize(
    "section",
    [
        {"token_env": "NOT_SET"},
        {"username": "me", "password_env": "NOT_SET"},
        {"header_env": {"X-Api-Key": "NOT_SET"}},
    ],
)
@pytest.mark.parametrize("value", [None, " ", "two\nlines", "s3cr\x7ft"])
def test_variable_without_a_secret_is_named_and_not_printed(
    section: dict[str, object], value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is not None:
        monkeypatch.setenv("NOT_SET", value)
    with pytest.raises(OptionError, match=r"^prometheus\.\w+_env(\.X-Api-Key)?.* \$NOT_SET") as caught:
        connect(config(**section))
    assert value is None or not value.strip() or value not in str(caught.value)


def test_unusable_certificate_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"^prometheus\.ca_file: No such file"):
        connect(config(ca_file=str(tmp_path / "gone")))


@pytest.mark.parametrize(
    ("section", "output"),
    [
        ({"token_env": "A", "username": "me"}, "several logins"),
        ({"token_env": "A", "header_env": {"authorization": "B"}}, "several logins"),
        ({"password_env": "A"}, "username is not"),
        ({"key_file": "k"}, "cert_file is not"),
        ({"headers": {"X-A": "1"}, "header_env": {"x-a": "V"}}, "set twice"),
        ({"headers": {"X A": "1"}}, "headers"),
        ({"headers": {"X-A": "two\nlines"}}, "headers"),
        ({"headers": {"X-A": " s3cr3t"}}, "headers"),
        ({"concurrency": 0}, "concurrency"),
    ],
)
def test_login_mistakes_are_reported_without_their_values(section: dict[str, object], output: str) -> None:
    with pytest.raises(ConfigError, match=output) as caught:
        config(**section)
    assert "s3cr3t" not in str(caught.value)
