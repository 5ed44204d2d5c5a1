"""The log of the service: a line for each record, in one format, whoever logs."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from app.service import log

if TYPE_CHECKING:
    import pytest


def test_log_writes_a_line_for_each_record_an_exception_included(capsys: pytest.CaptureFixture[str]) -> None:
    with log.to_stderr():
        logging.getLogger("trackside.worker").info("loaded", extra={"fields": {"origin": "a file.txt", "rows": 2}})
        logging.getLogger("trackside.explorer").error("a page failed", exc_info=ValueError("first\nsecond"))
        logging.getLogger("somebody.else").info("chatter")
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        r'time=\S+Z level=info message=loaded origin="a file.txt" rows=2 logger=trackside.worker', first
    )
    assert re.fullmatch(
        r'time=\S+Z level=error message="a page failed" logger=trackside.explorer exception=".*'
        r'ValueError: first\\nsecond"',
        second,
    )


def test_log_leaves_logging_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    before = list(logging.getLogger().handlers), logging.getLogger("trackside").level
    with log.to_stderr():
        pass
    assert (logging.getLogger().handlers, logging.getLogger("trackside").level) == before
    logging.getLogger("trackside.worker").info("unheard")
    assert capsys.readouterr().err == ""
