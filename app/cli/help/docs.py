"""`trackside docs` and `trackside help`: the manual in the terminal."""

from __future__ import annotations

import sys

from app import manual
from app.terminal_text import echo


def show(topic: str | None) -> None:
    """Print a page or a section of it; without a topic, the list of pages.

    Args:
        topic: PAGE or PAGE#SECTION. A terminal gets formatted text, a pipe the Markdown as it is.

    Raises:
        UsageError: there is no such page or section.
    """
    if topic is None:
        _list()
        return
    _print(*manual.read(topic))


def explain(topic: str) -> None:
    """Print what the manual has on a topic, and where there is more.

    Args:
        topic: a verb, a question, a metric, a term, an exit status, a page or a section.

    Raises:
        UsageError: nothing.
    """
    from app.cli.help.topics import answers

    for answer in answers(topic):
        _print(answer.page, answer.text)
        echo()
    if answer.section or answer.text != answer.page.text:
        echo(f"More: trackside docs {answer.page.topic}")


def _print(page: manual.ManualPage, text: str) -> None:
    if not sys.stdout.isatty():
        echo(text.rstrip("\n"))
        return
    from app import console

    console.markdown(manual.linked(page, text, _command))


def _list() -> None:
    pages = manual.pages().values()
    width = max(len(page.topic) for page in pages)
    for page in pages:
        echo(f"{page.topic:<{width}}  {page.title}")
    echo()
    echo("One page: trackside docs TOPIC, for example: trackside docs claims")
    echo("One section: trackside docs TOPIC#SECTION, for example: trackside docs metrics#ettr")


def _command(topic: str, section: str) -> str:
    """Argument of the next `trackside docs` that a link of a page stands for in a terminal."""
    return f"{topic}#{section}" if section else topic
