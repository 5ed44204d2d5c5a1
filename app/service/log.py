"""The service's log: the standard `logging`, a line on stderr for each record, as key=value (logfmt)."""

from __future__ import annotations

import contextlib
import logging
import re
import traceback
from typing import TYPE_CHECKING

from app import clock, console
from app.json_text import as_json
from app.times import iso

if TYPE_CHECKING:
    from collections.abc import Iterator


class LogfmtFormatter(logging.Formatter):
    """A record in one line: time, level, message, what is in `extra={"fields": {...}}`, logger, exception."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record.

        >>> from unittest import mock; from datetime import datetime, UTC
        >>> record = logging.LogRecord("trackside.worker", logging.INFO, "", 0, "%s cycles", (2,), None)
        >>> record.fields = {"source": "slurm"}
        >>> with mock.patch.object(clock, "now", lambda: datetime(2026, 11, 1, tzinfo=UTC)):
        ...     LogfmtFormatter().format(record)
        'time=2026-11-01T00:00:00Z level=info message="2 cycles" source=slurm logger=trackside.worker'
        """
        fields = {
            "time": iso(clock.now()),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
            "logger": record.name,
        }
        if record.exc_info and record.exc_info[1] is not None:
            fields["exception"] = "".join(traceback.format_exception(record.exc_info[1])).strip()
        return " ".join(f"{name}={_quoted(str(value))}" for name, value in fields.items())


def _quoted(text: str) -> str:
    """Quoted where it would fall apart: a log line is one line."""
    return text if re.fullmatch(r"[\w.:+/-]+", text) else as_json(text)


class _ConsoleHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        try:
            console.echo(self.format(record), error=True)
        except Exception:  # noqa: BLE001 - a handler of `logging` raises nothing
            self.handleError(record)


@contextlib.contextmanager
def to_stderr() -> Iterator[None]:
    """Write what this process logs to stderr as logfmt, from level INFO for Trackside's own loggers."""
    handler = _ConsoleHandler()
    handler.setFormatter(LogfmtFormatter())
    own = logging.getLogger("trackside")
    before = own.level
    logging.getLogger().addHandler(handler)
    own.setLevel(logging.INFO)
    try:
        yield
    finally:
        own.setLevel(before)
        logging.getLogger().removeHandler(handler)
