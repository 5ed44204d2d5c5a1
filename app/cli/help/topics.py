"""`trackside help TOPIC`: what the manual has on a verb, a question, a metric, a term, an exit status or a page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from app import manual
from app.errors import UsageError
from dashboards.palette import STATES, SWATCHES
from queries.near_names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

_CELLS = re.compile(r"(?<!\\)\|")
_STATUS = "exit-codes"
_TERMS = "glossary"
_SECTIONS = ("reference/cli", "how-to/questions", "reference/metrics")
"""Pages with a section for each verb, question and metric."""


_LEDGER: Final = {
    **{each.name: f"category of the ledger, of {each.state} GPU-time: {each.meaning}" for each in SWATCHES},
    **{
        state: "state of the ledger, with the categories "
        + ", ".join(each.name.replace("_", " ") for each in SWATCHES if each.state == state)
        for state in STATES
    },
    "provisional": "cause of productive time that may turn out to be lost: it was not saved before the attempt ended",
}
"""The words of the ledger, which most tables have, with their meaning."""


class TopicText(NamedTuple):
    """A part of the manual about a topic.

    Attributes:
        page: where it is.
        section: of the page; empty for the whole page.
        text: Markdown.
    """

    page: manual.ManualPage
    section: str
    text: str


def answers(topic: str) -> list[TopicText]:
    """Texts of the manual on a topic: its definition, its verb, question and metric; else a page, or a section.

    Args:
        topic: `ingest slurm`, `ettr`, `goodput_allocated`, `lemon`, `34`, `claims`; case does not matter.

    Raises:
        UsageError: nothing; the message suggests near topics.
    """
    requested = " ".join(topic.split()).lower().removeprefix("trackside ").removeprefix("show ")
    direct = [*_rows(requested), *_of_ledger(requested), *_sections(requested)]
    if direct:
        return direct
    pages = [page for name, page in manual.pages().items() if requested in {name, name.rpartition("/")[2]}]
    pages = pages or [page for name, page in manual.pages().items() if f"/{requested}-" in name]
    if len(pages) == 1:
        return [TopicText(pages[0], "", pages[0].text)]
    if anywhere := list(_anywhere(requested)):
        return anywhere[:1]
    hint = did_you_mean(requested, topics())
    raise UsageError(f"the manual has nothing on {topic!r}{hint}\nAll pages: trackside docs")


def topics() -> list[str]:
    """Every topic: terms, words of the ledger, exit statuses, verbs, questions, metrics, pages."""
    rows = [name for page in (_TERMS, _STATUS) for names, _ in _table(manual.find(page)) for name in names]
    sections = [
        each.slug.removeprefix("trackside-").replace("-", " ")
        for name in _SECTIONS
        for each in manual.find(name).sections
        if each.level > 1
    ]
    return list(dict.fromkeys([*rows, *_LEDGER, *sections, *(name.rpartition("/")[2] for name in manual.pages())]))


def _rows(requested: str) -> Iterator[TopicText]:
    """The row of a term in the glossary, and of an exit status in their list."""
    for name, heading in ((_TERMS, ""), (_STATUS, "Exit status ")):
        page = manual.find(name)
        for names, meaning in _table(page):
            if requested in {name.lower() for name in names}:
                yield TopicText(page, "", f"**{heading}{', '.join(names)}**: {meaning}")


def _of_ledger(requested: str) -> Iterator[TopicText]:
    """The meaning of a state, a category or a mark of the ledger."""
    name = requested.replace(" ", "_")
    if name in _LEDGER:
        yield TopicText(manual.find("concepts/ledger"), "", f"**{name.replace('_', ' ')}**: {_LEDGER[name]}")


def _table(page: manual.ManualPage) -> Iterator[tuple[list[str], str]]:
    """The rows of a page's tables: the names in the first cell, and the second cell."""
    for line in page.text.splitlines():
        cells = [cell.strip() for cell in _CELLS.split(line)[1:-1]]
        if len(cells) == 2 and not set(cells[0]) <= {"-", ":"} and cells[0] not in {"word", "status"}:
            yield cells[0].split(", "), cells[1]


def _sections(requested: str) -> Iterator[TopicText]:
    """The sections about a verb, a question and a metric of that name."""
    slug = requested.replace(" ", "-")
    for name in _SECTIONS:
        section = f"trackside-{slug}" if name == "reference/cli" else slug
        page = manual.find(name)
        text = page.part(section)
        if text is not None:
            yield TopicText(page, section, text)


def _anywhere(requested: str) -> Iterator[TopicText]:
    """The sections of that name on any page."""
    slug = manual.slug_of(requested)
    for page in manual.pages().values():
        text = page.part(slug)
        if text is not None:
            yield TopicText(page, slug, text)
