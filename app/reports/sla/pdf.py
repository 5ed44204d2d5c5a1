"""The SLA report as a tagged PDF (PDF/UA-1), by Typst: the same bytes for the same report on any machine.

The template reads two inputs: the report's JSON form, and the same numbers as texts (`texts`). Texts are data to Typst,
so nothing in them becomes markup. Fonts come with the compiler; those of the machine are not used.
"""

from __future__ import annotations

from datetime import datetime
from importlib import resources
from typing import TYPE_CHECKING, Final

from app.json_text import as_json
from app.reports.sla.formats import harmless
from app.reports.sla.words import words_of

if TYPE_CHECKING:
    from app.reports.sla.document import Document

STANDARD: Final = "ua-1"
"""PDF/UA-1 (ISO 14289-1): tagged, titled, with alternative texts."""


def render(document: Document) -> bytes:
    """The PDF of a report."""
    import typst  # noqa: PLC0415 - the compiler is large, and only this form needs it

    document = harmless(document)
    template = (resources.files("app.reports.sla") / "templates" / "sla.typ").read_bytes()
    inputs = {"report": as_json(document), "words": as_json(words_of(document))}
    until = datetime.fromisoformat(document["period"]["until"])
    made: bytes = typst.compile(
        template,
        format="pdf",
        sys_inputs=inputs,
        pdf_standards=[STANDARD],
        ignore_system_fonts=True,
        timestamp=int(until.timestamp()),
    )
    return made
