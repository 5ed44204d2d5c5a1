"""The reporter in a real `serve`: killed in the middle of a delivery, it goes on, and delivers once more at most."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from app.claims.file import read_contract
from app.reports.delivery.outbox import MadeReport, Outbox, folder_of, key_of
from app.reports.delivery.parcel import KEPT
from app.reports.sla import document as sla
from app.times import parse_period
from app.window import Window
from queries.warehouse import open_reader
from tests.app.service.test_serving import address_of, started
from tests.support.warehouses import from_accounting
from tests.support.web import Answer, web

if TYPE_CHECKING:
    from pathlib import Path

PERIOD = "2026-10"
LONG_S = 300.0
CONFIG = """
[[reports]]
name = "monthly"
forms = ["json"]
deliver = ["archive", "hook"]

[deliver]
timeout_s = {timeout}

[[deliver.folder]]
name = "archive"
path = "{archive}"

[[deliver.webhook]]
name = "hook"
url = "{url}"
secret_env = "HOOK"
"""


def recorded(root: Path) -> tuple[Outbox, str]:
    """An outbox with a report that is to be delivered, as a service leaves it that was killed right after making it."""
    with open_reader(root) as reader:
        window = Window("tiny", *parse_period(PERIOD))
        document = sla.sealed(sla.document(reader, window, PERIOD, read_contract(None), sla.origin_of_claims(None)))
    outbox, key = Outbox(folder_of(root)), key_of("monthly", PERIOD, document["sha256"])
    outbox.folder_of(key).mkdir(parents=True)
    for name in (KEPT, "a.json"):
        (outbox.folder_of(key) / name).write_bytes(sla.encoded(document))
    at = datetime(2026, 11, 8, 6, tzinfo=UTC).isoformat()
    made = MadeReport(key, "monthly", PERIOD, "tiny", document["sha256"], at, "", ("a.json",))
    outbox.add(made, ("archive", "hook"))
    return outbox, key


def outcomes(outbox: Outbox, key: str) -> dict[str, str]:
    return {each.target: each.outcome for each in outbox.deliveries(key)}


@pytest.mark.slow
def test_a_killed_service_goes_on_with_its_delivery(tmp_path: Path) -> None:
    root = from_accounting(tmp_path, jobs=20)
    outbox, key = recorded(root)
    arrived, answering = threading.Event(), threading.Event()
    received: list[str] = []

    def read(body: bytes) -> Answer:
        if key.encode() in body:
            received.append(key)
            arrived.set()
            answering.wait(LONG_S)
        return Answer(b"")

    with web(lambda _path, _: Answer(b""), read=read) as there:
        config = tmp_path / "trackside.toml"
        url = f"{there.url}/api/v1/read"
        config.write_text(CONFIG.format(timeout=LONG_S, archive=tmp_path / "archive", url=url))
        arguments = ("serve", "--warehouse", str(root), "--config", str(config))
        first = started(*arguments, env={"HOOK": "a secret"})
        try:
            address_of(first)
            assert arrived.wait(LONG_S)
        finally:
            first.kill()
            first.communicate()
        assert outcomes(outbox, key) == {"archive": "delivered", "hook": "pending"}
        answering.set()
        for _ in range(2):  # the second time there is nothing left to do
            again = started(*arguments, env={"HOOK": "a secret"})
            try:
                address_of(again)
                until = time.monotonic() + LONG_S
                while outcomes(outbox, key)["hook"] == "pending" and time.monotonic() < until:
                    time.sleep(0.05)
            finally:
                again.kill()
                again.communicate()
            assert outcomes(outbox, key) == {"archive": "delivered", "hook": "delivered"}
    assert received == [key, key]
    assert [each.name for each in (tmp_path / "archive").iterdir() if PERIOD in each.name] == [key]
    assert [each.key for each in outbox.made("monthly") if each.period == PERIOD] == [key]
