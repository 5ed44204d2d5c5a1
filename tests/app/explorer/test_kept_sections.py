"""What was sent of a section is sent again, to the same person only, and never an error."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest

from app.access import people
from app.access.guard import LONGEST_QUERY
from app.access.people import Person, Role
from app.config.settings import Config, load
from app.explorer import create_app, sections
from app.results.serving.cache import AnswerCache
from queries.errors import WarehouseError

if TYPE_CHECKING:
    from pathlib import Path

    from flask.testing import FlaskClient


@pytest.fixture
def client(warehouse: Path) -> FlaskClient:
    """A browser without a screen at an explorer that has answered nothing yet."""
    made: FlaskClient = create_app(warehouse, Config()).server.test_client()
    return made


def request_of(ticket: str, path: str = "/reliability", name: str = "mttf", search: str = "") -> dict[str, Any]:
    """The request for a section as browsers send it."""
    of = {"name": name, "type": "ask"}
    return {
        "output": '{"name":["MATCH"],"type":"section"}.children',
        "outputs": {"id": {"name": name, "type": "section"}, "property": "children"},
        "inputs": [{"id": of, "property": "data", "value": {"ticket": ticket, "path": path, "search": search}}],
        "changedPropIds": [f"{json.dumps(of, separators=(',', ':'))}.data"],
        "state": [{"id": of, "property": "id", "value": of}],
    }


def sent(client: FlaskClient, ticket: str, path: str = "/reliability", name: str = "mttf", search: str = "") -> str:
    """The section as it is sent."""
    return answer_to(client, request_of(ticket, path, name, search))


def answer_to(client: FlaskClient, body: dict[str, Any]) -> str:
    """What is sent to a request."""
    answer = client.post("/_dash-update-component", json=body, headers={"Origin": "http://localhost"})
    assert answer.status_code == 200
    return answer.get_data(as_text=True)


def test_a_section_is_made_once_for_a_data_version(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    first = sent(client, "1")
    monkeypatch.setattr(sections, "shown", None)
    assert "Mean time to failure" in first
    assert sent(client, "2") == first


@pytest.mark.parametrize("place", ["state", "outputs", "inputs"])
def test_a_forged_request_fills_no_other_section(client: FlaskClient, place: str) -> None:
    answer_to(client, request_of("1") | {place: request_of("1", name="references")[place]})
    for name, title in (("mttf", "Mean time to failure, by size"), ("references", "Beside published clusters")):
        answered = json.loads(sent(client, "2", name=name))["response"]
        assert [json.loads(each)["name"] for each in answered] == [name]
        assert title in str(answered)


def test_a_long_address_is_answered_and_not_kept(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    long = f"?more={'x' * LONGEST_QUERY}"
    first = sent(client, "1", search=long)
    made = MagicMock(wraps=sections.shown)
    monkeypatch.setattr(sections, "shown", made)
    assert sent(client, "2", search=long) == first
    made.assert_called_once()


def test_an_overtaken_answer_clears_no_newer_one(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    versions, shown = ["2"], sections.shown
    monkeypatch.setattr(AnswerCache, "version", lambda _: versions[-1])

    def overtaken(*about: Any) -> Any:
        versions.append("2")
        return shown(*about)

    newer = sent(client, "1")
    versions.append("1")
    monkeypatch.setattr(sections, "shown", overtaken)
    sent(client, "2", name="references")
    monkeypatch.setattr(sections, "shown", None)
    assert sent(client, "3") == newer


def priced(file: Path, currency: str) -> Path:
    """A configuration file with prices in a currency, whose name is of three letters."""
    file.write_text(f'[cost]\ncurrency = "{currency}"\n[[cost.prices]]\nper_gpu_hour = 2.5\n', encoding="utf-8")
    return file


@pytest.mark.parametrize("name", ["cost", "people"])
def test_prices_are_those_of_the_served_file_as_it_is_now(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    other = priced(tmp_path / "trackside.toml", "AUD")  # the usual place is not what is served
    file = priced(tmp_path / "served.toml", "EUR")
    client, beside = (create_app(warehouse, load(each)).server.test_client() for each in (file, other))
    told = [sent(each, "1", "/people", name) for each in (client, beside)]
    assert [currency in text for text in told for currency in ("EUR", "AUD")] == [True, False, False, True]
    os.utime(priced(file, "USD"), ns=(1, 1))
    assert "USD" in sent(client, "2", "/people", name)
    os.utime(priced(file, "EUR"), ns=(2, 2))
    assert sent(client, "3", "/people", name) == told[0]


def test_a_section_that_failed_is_made_again(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise WarehouseError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr("app.explorer.questions.answered", broken)
        assert "the disk is gone" in sent(client, "1")
    assert "the disk is gone" not in sent(client, "2")


def test_nothing_kept_is_sent_to_another_person(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sent(client, "1", "/people", "people")
    with monkeypatch.context() as patch:
        patch.setattr(people, "current", lambda: Person("ada", Role.VIEWER))
        own = sent(client, "2", "/people", "people")
    assert own != whole
    assert sent(client, "3", "/people", "people") == whole


def test_requests_without_the_form_of_a_section_pass_by(client: FlaskClient) -> None:
    odd: list[object] = [[], {"inputs": [1]}, {"inputs": [{"id": "x", "value": 1, "property": "data"}]}, {"inputs": {}}]
    for body in odd:
        answer = client.post("/_dash-update-component", json=body, headers={"Origin": "http://localhost"})
        assert b"inputs[" not in answer.get_data()
