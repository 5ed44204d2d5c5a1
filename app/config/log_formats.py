"""The text formats of logs that a configuration adds, tried on their own examples before any log is read by them.

`trackside ingest runlog` stops at once if an example is wrong, because a person waits for the result. `serve` and
fleets leave out the logs of that format alone, and report the mistake as a failure (`/healthz`, `trackside doctor`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from app.errors import ConfigError
from ingest.counted import counted

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.runlog.settings import RunLogs
    from ingest.runlog.text_format import TextFormat


def tried_formats(runlog: RunLogs, file: Path | None) -> tuple[TextFormat, ...]:
    """The text formats of a configuration. Their examples are read when a verb reads logs, not whenever one starts.

    Args:
        runlog: the section of the configuration.
        file: the configuration, for messages; None if unknown.

    Raises:
        ConfigError: examples do not give the stated result; all are listed.
    """
    forms = marked_formats(runlog)
    wrong = [each for form in forms for each in form.mistake.splitlines()]
    if wrong:
        listed = "\n".join(f"  {each}" for each in wrong)
        raise ConfigError(f"{file or 'the configuration'} has {counted(len(wrong), 'mistake')}:\n{listed}")
    return forms


def marked_formats(runlog: RunLogs) -> tuple[TextFormat, ...]:
    """The text formats of a configuration; one with wrong examples has them, a line each, as its `mistake`.

    A service reads all other logs by them. A log in which such a format has a step is refused with the mistake: read
    by another format it could have other steps, which would stay when the mistake is corrected.
    """
    forms = runlog.text_formats()
    if not forms:
        return ()
    from ingest.runlog.formats.text.examples import mistakes  # noqa: PLC0415 - only if a format is configured

    wrong = [
        [f"runlog.format {number} ({form.name}), {each}" for each in mistakes(form)]
        for number, form in enumerate(forms, 1)
    ]
    return tuple(replace(form, mistake="\n".join(each)) for form, each in zip(forms, wrong, strict=True))
