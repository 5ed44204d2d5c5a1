"""Deliveries to real receivers on this machine: what arrives, is tried again, is given up, and stays secret."""

from __future__ import annotations

import json
import ssl
from datetime import UTC, datetime
from email import message_from_bytes, policy
from typing import TYPE_CHECKING, Any

import pytest
from aiosmtpd.controller import Controller

from app.claims.file import read_contract
from app.config import settings as config
from app.reports.delivery import chat, send, webhook
from app.reports.delivery.outbox import MadeReport, Outbox, folder_of, key_of
from app.reports.delivery.parcel import KEPT, read_parcel
from app.reports.sla import document as sla
from app.times import parse_period
from app.window import Window
from queries.warehouse import open_reader
from tests.ingest.prometheus.client.test_auth import Files, files  # noqa: F401, TC001 - the fixture
from tests.lab.processes import claim_ports
from tests.support.warehouses import from_accounting
from tests.support.web import Answer, web

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 8, 6, tzinfo=UTC)
PERIOD = "2026-10"
SECRET = "whsec_c2VjcmV0LW9mLXRoZS1ob29r"


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = from_accounting(tmp_path_factory.mktemp("delivery"), jobs=40)
    with open_reader(root) as reader:
        window = Window("tiny", *parse_period(PERIOD))
        return sla.sealed(sla.document(reader, window, PERIOD, read_contract(None), sla.origin_of_claims(None)))


class Post:
    """An outbox with one report, and what sends it."""

    def __init__(self, folder: Path, document: dict[str, Any], deliver: dict[str, Any]) -> None:
        names = [target["name"] for kind in deliver.values() if isinstance(kind, list) for target in kind]
        settings = config.parse({"deliver": {"pause_s": 0, "retries": 2, **deliver}}, origin="test").deliver
        self.outbox, self.pauses = Outbox(folder_of(folder / "w")), list[float]()
        self.sender = send.Sender(self.outbox, settings, lambda: NOW, self.pauses.append)
        key = key_of("monthly", PERIOD, document["sha256"])
        self.made = MadeReport(
            key, "monthly", PERIOD, "tiny", document["sha256"], NOW.isoformat(), "", ("a.pdf", "a.json")
        )
        kept = self.outbox.folder_of(key)
        kept.mkdir(parents=True)
        for name, content in {KEPT: sla.encoded(document), "a.pdf": b"%PDF-", "a.json": sla.encoded(document)}.items():
            (kept / name).write_bytes(content)
        self.outbox.add(self.made, names)

    def outcomes(self) -> dict[str, tuple[str, int, str | None]]:
        self.sender.send_pending(self.made)
        return {each.target: (each.outcome, each.tries, each.reason) for each in self.outbox.deliveries()}


def hook(url: str, **more: str) -> dict[str, Any]:
    return {"webhook": [{"name": "hook", "url": url, "secret_env": "HOOK", **more}]}


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", SECRET)
    monkeypatch.setenv("PASSWORD", "hunter2-of-mail")


def test_one_failed_target_neither_stops_nor_repeats_others(tmp_path: Path, document: dict[str, Any]) -> None:
    archive = {"folder": [{"name": "archive", "path": str(tmp_path / "archive")}]}
    post = Post(tmp_path, document, hook("http://127.0.0.1:9/") | archive)
    found = post.outcomes()
    assert found["archive"] == ("delivered", 1, None)
    assert found["hook"] == ("dead", 3, "Connection refused")
    assert post.outcomes() == found
    letter = json.loads((post.outbox.folder / "dead" / f"{post.made.key}.hook.json").read_text())
    assert letter["reason"] == "Connection refused"
    manifest = json.loads((tmp_path / "archive" / post.made.key / "manifest.json").read_text())
    assert manifest["files"].keys() == {"a.pdf", "a.json"}


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([503, 503, 200], ("delivered", 3, None)),
        ([503, 503, 503], ("dead", 3, "the receiver answered 503: busy")),
        ([403], ("dead", 1, "the receiver answered 403: busy")),
        ([302], ("dead", 1, "the receiver answered 302: busy")),
    ],
)
def test_a_webhook_is_tried_again_where_that_may_help(
    tmp_path: Path, document: dict[str, Any], statuses: list[int], expected: tuple[str, int, str | None]
) -> None:
    left = list(statuses)
    with web(lambda _path, _: Answer(b""), read=lambda _: Answer(b"busy", status=left.pop(0))) as there:
        post = Post(tmp_path, document, hook(f"{there.url}/api/v1/read"))
        assert post.outcomes()["hook"] == expected
        assert len(there.posted) == len(statuses)
        for body, headers in there.posted:
            sent = {name.lower(): value for name, value in headers.items()}
            assert sent["webhook-id"] == sent["idempotency-key"] == post.made.key
            signed = webhook.signature(SECRET, sent["webhook-id"], sent["webhook-timestamp"], body)
            assert sent["webhook-signature"] == signed
            assert json.loads(body)["report"]["sha256"] == document["sha256"]


@pytest.mark.slow
def test_a_kill_before_the_record_sends_again_under_the_same_key(
    tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with web(lambda _path, _: Answer(b""), read=lambda _: Answer(b"")) as there:
        post = Post(tmp_path, document, hook(f"{there.url}/api/v1/read"))
        with monkeypatch.context() as patched:
            patched.setattr(Outbox, "note", lambda *_args, **_kwargs: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                post.sender.send_pending(post.made)
        assert post.outcomes()["hook"] == ("delivered", 1, None)
        assert len({headers["webhook-id"] for _, headers in there.posted}) == 1
        assert len(there.posted) == 2


def test_an_unknown_authority_gets_nothing(
    tmp_path: Path,
    document: dict[str, Any],
    files: Files,  # noqa: F811 - the fixture
) -> None:
    with web(lambda _path, _: Answer(b""), read=lambda _: Answer(b""), tls=files.context()) as there:
        post = Post(tmp_path, document, hook(f"{there.url}/api/v1/read", ca_file=files.other_ca))
        outcome, tries, reason = post.outcomes()["hook"]
        assert (outcome, tries) == ("dead", 1)
        assert str(reason).startswith("TLS: the certificate is not trusted")
        assert not there.posted


class Mailbox:
    """Keeps what a mail server accepts."""

    def __init__(self) -> None:
        self.mails: list[bytes] = []

    async def handle_DATA(self, _server: object, _session: object, envelope: Any) -> str:  # noqa: N802 - theirs
        self.mails.append(envelope.content)
        return "250 OK"


@pytest.mark.slow
@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_mail_is_encrypted_and_has_words_and_the_pdf(
    tmp_path: Path,
    document: dict[str, Any],
    files: Files,  # noqa: F811 - the fixture
    security: str,
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server, files.server_key)
    box = Mailbox()
    port, claimed = claim_ports(1)
    encrypted = {"ssl_context": context} if security == "tls" else {"tls_context": context, "require_starttls": True}
    controller = Controller(box, hostname="127.0.0.1", port=port, **encrypted)
    controller.start()
    try:
        mail = {"name": "mail", "host": "127.0.0.1", "port": port, "security": security}
        mail |= {"sender": "t@example.com", "to": ["c@example.com"]}
        trusted = Post(tmp_path / "a", document, {"smtp": [mail | {"ca_file": files.ca}]})
        assert trusted.outcomes()["mail"] == ("delivered", 1, None)
        other = Post(tmp_path / "b", document, {"smtp": [mail | {"ca_file": files.other_ca}]})
        outcome, tries, reason = other.outcomes()["mail"]
        assert (outcome, tries, "TLS" in str(reason)) == ("dead", 1, True)
    finally:
        controller.stop()
        claimed.close()
    [content] = box.mails
    message = message_from_bytes(content, policy=policy.default)
    assert message["X-Trackside-Key"] == trusted.made.key
    assert trusted.made.key in message["Message-ID"]
    body = message.get_body(("plain",))
    assert body is not None
    assert document["sha256"] in body.get_content()
    assert [part.get_filename() for part in message.iter_attachments()] == ["a.pdf"]


def test_no_message_and_no_record_has_a_secret(
    tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address of a chat's webhook is one; also where the receiver says it back."""
    with web(lambda _path, _: Answer(b""), read=lambda _: Answer(url.encode(), status=404)) as there:
        url = f"{there.url}/api/v1/read"
        monkeypatch.setenv("CHANNEL", url)
        post = Post(tmp_path, document, {"slack": [{"name": "ops", "url_env": "CHANNEL"}]})
        assert post.outcomes()["ops"] == ("dead", 1, "the receiver answered 404: ***")
    monkeypatch.setenv("CHANNEL", "http://127.0.0.1:9/T0KEN")
    again = post.sender.send(post.made, "ops")
    assert again.outcome == "dead"
    for file in post.outbox.folder.rglob("*"):
        assert file.is_dir() or b"T0KEN" not in file.read_bytes()


def test_names_are_no_markup_in_a_channel(tmp_path: Path, document: dict[str, Any]) -> None:
    kinds = {kind: [{"name": kind, "url_env": "CHANNEL"}] for kind in ("slack", "teams", "mattermost")}
    post = Post(tmp_path, {**document}, kinds)
    parcel = read_parcel(post.made, post.outbox.folder_of(post.made.key))
    parcel.document["cluster"] = "<!channel> ```@all"
    found = {name: chat.payload(target, parcel) for name, target in post.sender.settings.targets.items()}  # type: ignore[arg-type]  # all are hooks
    assert "<!channel>" not in found["slack"]["text"]
    card = found["teams"]["attachments"][0]
    assert (card["contentType"], card["content"]["type"]) == ("application/vnd.microsoft.card.adaptive", "AdaptiveCard")
    assert found["mattermost"]["text"].count("```") == 2
