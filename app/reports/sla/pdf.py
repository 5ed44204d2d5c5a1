"""The SLA report as a tagged PDF. The template reads two inputs: the JSON form, and the same numbers as texts."""

from __future__ import annotations

from datetime import datetime
from importlib import resources
from typing import TYPE_CHECKING

from app.reports.sla.formats import harmless
from app.reports.sla.words import words_of

if TYPE_CHECKING:
    from app.reports.sla.document import Document


def render(document: Document) -> bytes:
    """The PDF of a report."""
    from app.reports import typst_pdf  # noqa: PLC0415 - the compiler is large, and only this form needs it

    document = harmless(document)
    template = (resources.files("app.reports.sla") / "templates" / "sla.typ").read_bytes()
    until = datetime.fromisoformat(document["period"]["until"])
    return typst_pdf.render(template, {"report": document, "words": words_of(document)}, until=until)
