"""A digest in each of its forms. Names that people chose never become markup; the same digest gives the same bytes."""

from __future__ import annotations

import functools
from datetime import datetime
from importlib import resources
from typing import TYPE_CHECKING

import jinja2
import polars as pl

from app.console import csv_bytes
from app.reports.digest.words import words_of
from app.reports.sla import document as sla
from app.reports.sla.formats import harmless
from app.reports.sla.markdown import escaped
from app.reports.sla.write import joined

if TYPE_CHECKING:
    from app.reports.digest.document import Document


def rendered(digest: Document, form: str) -> bytes:
    """A digest in one of `app.reports.forms.FORMS`."""
    forms = {"html": _html, "json": sla.encoded, "pdf": _pdf, "md": _markdown, "csv": _csv}
    return forms[form](digest)


def file_name(digest: Document, form: str) -> str:
    """A file's name from names that people chose."""
    subject = digest["subject"]
    names = ("digest", subject["kind"], subject["name"][:80], digest["cluster"], digest["period"]["asked"])
    return joined(names, form)


def _html(digest: Document) -> bytes:
    digest = harmless(digest)
    return _environment(html=True).get_template("digest.html").render(r=digest, w=words_of(digest)).encode()


def _markdown(digest: Document) -> bytes:
    digest = harmless(digest)
    return _environment(html=False).get_template("digest.md").render(r=digest, w=words_of(digest)).encode()


def _pdf(digest: Document) -> bytes:
    from app.reports import typst_pdf  # noqa: PLC0415 - the compiler is large, and only this form needs it

    digest = harmless(digest)
    template = (resources.files("app.reports.digest") / "templates" / "digest.typ").read_bytes()
    until = datetime.fromisoformat(digest["period"]["until"])
    return typst_pdf.render(template, {"report": digest, "words": words_of(digest)}, until=until)


def _csv(digest: Document) -> bytes:
    """Where the GPU-time went, a row for each category, cause and evidence."""
    schema = {"category": pl.String, "cause": pl.String, "evidence": pl.String, "gpu_seconds": pl.String,
              "share": pl.Float64}  # fmt: skip
    rows = pl.DataFrame(digest["time"], schema=schema)
    ends = {
        "cluster": digest["cluster"],
        "period": digest["period"]["asked"],
        digest["subject"]["kind"]: digest["subject"]["name"],
    }
    return csv_bytes(rows.with_columns(**{name: pl.lit(value) for name, value in ends.items()}))


@functools.cache
def _environment(*, html: bool) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("app.reports.digest", "templates"),
        autoescape=html,  # noqa: S701 - Markdown is escaped as such
        finalize=None if html else escaped,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
