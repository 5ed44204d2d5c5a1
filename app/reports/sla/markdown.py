"""The SLA report as Markdown (CommonMark with tables). Names that people chose never become markup."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

import jinja2

from app.reports.sla.formats import harmless
from app.reports.sla.words import words_of

if TYPE_CHECKING:
    from app.reports.sla.document import Document


def render(document: Document) -> bytes:
    """The Markdown of a report."""
    document = harmless(document)
    text = _environment().get_template("sla.md").render(r=document, w=words_of(document))
    return (re.sub(r"\n{3,}", "\n\n", text).strip() + "\n").encode()


class _AsIs(str):
    """Text that is Markdown already."""

    __slots__ = ()


def escaped(value: object) -> str:
    r"""A text whose characters mean themselves, in one line.

    >>> escaped("a|b *c* <i>\n# d")
    'a\\|b \\*c\\* \\<i\\> \\# d'
    """
    if isinstance(value, _AsIs):
        return value
    return re.sub(r"([\\`*_\[\]<>|~#&$!])", r"\\\1", re.sub(r"[\r\n]", " ", str(value)))


def _code(text: str) -> _AsIs:
    """A command as an indented block: nothing in it can end it but its own lines."""
    return _AsIs("\n".join(f"      {line}" for line in text.splitlines()))


@functools.cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("app.reports.sla", "templates"),
        autoescape=False,  # noqa: S701 - not HTML: every value is escaped for Markdown
        finalize=escaped,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["code"] = _code
    return made
