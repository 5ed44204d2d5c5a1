"""The text formats of logs that a configuration adds, tried on their own examples before any log is read by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.runlog.settings import RunLogs
    from ingest.runlog.text_format import TextFormat


def tried_formats(runlog: RunLogs, file: Path | None) -> tuple[TextFormat, ...]:
    """The text formats of a configuration. Their examples are read when a verb reads logs, not whenever one starts.

    Args:
        runlog: the section of the configuration.
        file: the configuration, for messages; None where it is not known.

    Raises:
        ConfigError: examples do not give what they say; all are listed.
    """
    forms = runlog.text_formats()
    if not forms:
        return ()
    from ingest.runlog.formats.text.examples import mistakes  # noqa: PLC0415 - only if a format is configured

    wrong = [
        f"runlog.format {number} ({form.name}), {each}"
        for number, form in enumerate(forms, 1)
        for each in mistakes(form)
    ]
    if wrong:
        listed = "\n".join(f"  {each}" for each in wrong)
        raise ConfigError(f"{file or 'the configuration'} has {len(wrong)} mistake(s):\n{listed}")
    return forms
