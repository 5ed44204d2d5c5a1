"""The audit log: who saw or changed what, and when; a line of JSON each, in files that are begun anew when full.

It is a file and no table: the warehouse has one writer, which no reader of a page may wait for; the log must outlive a
warehouse that is made anew; and what collects a site's other logs collects files.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from app import clock
from app.errors import UsageError
from app.json_text import as_json
from app.times import iso

if TYPE_CHECKING:
    from pathlib import Path

    from app.access.people import Person

logger = logging.getLogger("trackside.access")

NAME = "trackside-audit.jsonl"
"""The log where the configuration names none."""

LONGEST = 500
"""Characters of a value that are kept."""


class AuditLog:
    """Lines `time`, `user`, `role`, `address`, `action`, and what it was about. Safe for threads.

    The file is opened for each line, so that what moves logs away may move it at any time.

    Args:
        file: where; None keeps nothing.
        megabytes: a new file is begun at this size.
        files: how many full ones are kept: `file.1` is the newest of them.

    Raises:
        UsageError: it cannot be written.
    """

    def __init__(self, file: Path | None, *, megabytes: float = 50.0, files: int = 10) -> None:
        self.file, self._most, self._files = file, int(megabytes * 1e6), files
        self._lock = threading.Lock()
        if file is None:
            return
        try:
            self._append(file, b"")
        except OSError as error:
            raise UsageError(
                f"the audit log {file} cannot be written: {error.strerror}; name another file in [access]: audit_file"
            ) from None

    def write(self, action: str, person: Person, address: str, **about: str | int) -> None:
        """Add a line. A log that can no longer be written stops no request; the service's own log has the error."""
        if self.file is None:
            return
        line = {
            "time": iso(clock.now()),
            "user": person.name,
            "role": person.role.name.lower(),
            "address": address,
            "action": action,
            **{name: value[:LONGEST] if isinstance(value, str) else value for name, value in about.items()},
        }
        try:
            with self._lock:
                self._append(self.file, as_json(line).encode(errors="backslashreplace") + b"\n")
        except OSError:
            logger.exception("the audit log %s cannot be written", self.file)

    def _append(self, file: Path, line: bytes) -> None:
        if file.exists() and file.stat().st_size + len(line) > self._most:
            self._rotate(file)
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(opened, line)
        finally:
            os.close(opened)

    def _rotate(self, file: Path) -> None:
        for number in range(self._files - 1, 0, -1):
            older = file.with_name(f"{file.name}.{number}")
            if older.exists():
                older.replace(file.with_name(f"{file.name}.{number + 1}"))
        file.replace(file.with_name(f"{file.name}.1"))
