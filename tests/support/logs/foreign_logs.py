"""Logs of training frameworks as the frameworks write them, and what is read from them, in a few columns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from ingest.runlog.formats.registry import chunks_of_run_log
from ingest.runlog.parse import read_runlog
from ingest.runlog.translation import Findings, LogRequest
from ingest.tables import STEPS, empty

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.runlog.text_format import TextFormat
    from ingest.tables import Parsed

DAY = datetime(2026, 10, 1, tzinfo=UTC)
"""The day of the logs."""


def read(
    text: str | bytes,
    *,
    timezone: str | None = "UTC",
    begin: datetime | None = None,
    facts: Mapping[str, Any] | None = None,
    formats: tuple[TextFormat, ...] = (),
    chunk: int = 1 << 20,
    **stated: Any,
) -> Parsed:
    """A log as the loader reads it, in chunks of so many bytes."""
    data = text if isinstance(text, bytes) else text.encode()
    request = LogRequest({"cluster": "c", **(facts or {})}, timezone, begin, formats=formats, **stated)
    findings = Findings()
    pieces = [data[at : at + chunk] for at in range(0, len(data), chunk)] or [b""]
    lines = chunks_of_run_log(pieces, "train.log", request, findings)
    log = read_runlog(lines, origin="train.log", findings=findings)
    days = [rows for _, _, rows in log.days()]
    steps = pl.concat(days).sort("ts", "step") if days else empty(STEPS)
    return log.parsed(steps.height, steps)


def seconds(moment: datetime | None) -> float | None:
    """Seconds since the beginning of the day."""
    return None if moment is None else round((moment - DAY).total_seconds(), 3)


def steps(parsed: Parsed) -> list[tuple[int, float | None, float | None]]:
    """Number, begin and length of each step."""
    rows = parsed.frames["steps"].select("step", "ts", "duration_s").rows()
    return [(step, seconds(ts), length if length is None else round(length, 3)) for step, ts, length in rows]


def events(parsed: Parsed) -> list[tuple[str, int | None, float | None, float | None]]:
    """Kind, step, begin and end of each event."""
    rows = parsed.frames["run_events"].sort("ts", "kind").select("kind", "step", "ts", "ended_at").rows()
    return [(kind, step, seconds(begin), seconds(end)) for kind, step, begin, end in rows]


def starts(parsed: Parsed) -> list[float | None]:
    """When each session began."""
    return [seconds(moment) for moment in parsed.frames["run_sessions"].sort("started_at")["started_at"]]


def codes(parsed: Parsed) -> list[str]:
    """The warnings of a load."""
    return [warning.code for warning in parsed.warnings]
