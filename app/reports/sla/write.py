"""`trackside report`: documents about a period, made of the numbers of `show` and `verify`.

    document.py   the contents of the SLA report: a plain value, its JSON form
    terms.py      what a contract adds to it
    page.py       the same as one HTML page without script; charts.py: its drawings, as inline SVG
    words.py      its numbers as texts, for pdf.py and markdown.py
    rows.py       its objectives as rows, for CSV

A report is a pure function of (data, period, claims): it reads no clock, and the same data give the same bytes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from app.claims.file import read_contract
from app.errors import UsageError
from app.output_file import write_file
from app.reports.forms import FORMS
from app.reports.sla import document as sla

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from app.window import Window
    from queries.warehouse import Reader

_ENDINGS = {"htm": "html", "markdown": "md"} | {form: form for form in FORMS}


def write_sla(  # noqa: PLR0917 - all are needed, in their natural order
    reader: Reader,
    window: Window,
    period_text: str,
    claims_path: Path | None,
    target: Path,
    form: str,
    earlier: Path | None = None,
) -> sla.Document:
    """Write the SLA report of a period to a file.

    Args:
        reader: a published copy.
        window: the cluster, and the period (time without data is left out, and reported).
        period_text: the period as typed; the covered share is the share of this.
        claims_path: claims to judge; the vendor's headlines if None.
        target: where to.
        form: one of `FORMS`.
        earlier: the JSON form of an earlier period's report; what changed since is reported as corrections to it.

    Returns:
        The report as a value: what its JSON form holds.

    Raises:
        UsageError: the period has no data, or the file cannot be written.
        ClaimsError: mistakes in the claims file.
    """
    contract = read_contract(claims_path)
    origin, before = sla.origin_of_claims(claims_path), None if earlier is None else sla.read_report(earlier)
    document = sla.sealed(sla.document(reader, window, period_text, contract, origin, before))
    write_file(target, rendered(document, form))
    return document


def rendered(document: sla.Document, form: str) -> bytes:
    """A report in one of its forms."""
    from app.reports.sla import markdown, page, pdf, rows  # noqa: PLC0415 - one of them is needed

    forms = {
        "html": page.render,
        "json": sla.encoded,
        "pdf": pdf.render,
        "md": markdown.render,
        "csv": rows.render,
    }
    return forms[form](document)


def file_name(cluster: str, period: str, form: str) -> str:
    """A file's name from names that people chose.

    >>> file_name("prod/a", "2026-10-01..2026-10-08", "html")
    'sla-prod-a-2026-10-01-2026-10-08.html'
    """
    return joined(("sla", cluster, period), form)


def joined(names: Iterable[str], form: str) -> str:
    """A file's name from parts in which only letters, digits, hyphens and underscores stay as they are."""
    parts = [re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") for name in names]
    return f"{'-'.join(part for part in parts if part)}.{form}"


def form_of(requested: str | None, target: Path | None) -> str:
    """The form requested, or what the file's name ends in, or HTML.

    Raises:
        UsageError: the name ends in something else.
    """
    if requested is not None:
        return requested
    if target is None or not target.suffix:
        return "html"
    form = _ENDINGS.get(target.suffix.removeprefix(".").lower())
    if form is None:
        raise UsageError(f"{target}: use --format {', '.join(FORMS)}, or a file name with such an ending")
    return form
