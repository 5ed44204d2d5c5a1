"""Settings of run logs: the section [runlog] of the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field

from ingest.settings import SettingsSection

if TYPE_CHECKING:
    from ingest.runlog.text_format import TextFormat


def _format(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of a text format, in the words of `ingest/runlog/formats/text`."""
    from ingest.runlog.text_format import FormatError, parse_format  # noqa: PLC0415 - only if one is configured

    try:
        parse_format(entry, origin="this entry")
    except FormatError as error:
        raise ValueError(str(error)) from None
    return entry


class RunLogs(SettingsSection):
    """How logs of training runs are read."""

    format: tuple[Annotated[dict[str, Any], AfterValidator(_format)], ...] = Field(
        default=(), description="text formats that are read besides those that are built in"
    )

    def text_formats(self) -> tuple[TextFormat, ...]:
        """The formats of the configuration."""
        if not self.format:
            return ()
        from ingest.runlog.text_format import parse_format  # noqa: PLC0415 - only if one is configured

        return tuple(parse_format(entry, origin="[[runlog.format]]") for entry in self.format)
