"""A panic of a library written in Rust is no `Exception`: nobody gets a traceback for it, and nothing hangs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from werkzeug.test import Client

from app.cli import main as cli
from app.cli import verbs
from app.cli.options import modules_of
from app.config.settings import Config
from app.panics import LibraryPanicError, as_errors
from app.service import exporter
from app.service import server as service
from ingest.files.prefetch import prefetch_one, started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def panic(*_: Any, **__: Any) -> int:
    """A real one: polars writes no date of the year 5,881,580."""
    pl.DataFrame({"day": pl.Series([2**31 - 1], dtype=pl.Int32).cast(pl.Date)}).write_json()
    return 0


def test_it_is_no_exception() -> None:
    with pytest.raises(BaseException, match="out-of-range date") as caught:
        panic()
    assert not isinstance(caught.value, Exception)


@pytest.mark.parametrize("verb", ["status", "doctor", "sql SELECT", "show nodes", "compute", "retention"])
def test_every_verb_ends_with_a_message(
    verb: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    name = verb.split(maxsplit=1)[0]
    monkeypatch.setattr(import_module(modules_of(verbs)[name]), "run", panic)
    monkeypatch.delenv("TRACKSIDE_DEBUG", raising=False)
    assert cli.main(verb.split()) == 70
    message = capfd.readouterr().err
    assert "trackside: a library gave up (out-of-range date): this is a fault of Trackside" in message
    assert "Traceback" not in message


def test_what_is_no_panic_passes() -> None:
    with pytest.raises(KeyboardInterrupt), as_errors():
        raise KeyboardInterrupt


def test_a_server_answers_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(service.make_application(tmp_path, Config()).wsgi_app)
    monkeypatch.setattr(exporter, "negotiated", panic)
    failed = client.get("/metrics")
    assert failed.status_code == 500
    assert "out-of-range date" in failed.text
    assert client.get("/healthz").status_code in {200, 503}


def test_a_page_gets_an_error() -> None:
    with pytest.raises(LibraryPanicError, match="out-of-range date"), as_errors():
        panic()


def test_work_in_another_thread_raises_it_where_it_is_waited_for() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield panic()

    with pytest.raises(BaseException, match="out-of-range date"):
        started(panic)()
    with pytest.raises(BaseException, match="out-of-range date"):
        list(prefetch_one(items()))
