"""`trackside docs`: the manual in the terminal."""

from __future__ import annotations

import sys

from app import console, manual


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
    page, text = manual.read(topic)
    if not sys.stdout.isatty():
        console.echo(text.rstrip("\n"))
        return
    console.markdown(manual.linked(page, text, _command))


def _list() -> None:
    pages = manual.pages().values()
    width = max(len(page.topic) for page in pages)
    for page in pages:
        console.echo(f"{page.topic:<{width}}  {page.title}")
    console.echo()
    console.echo("One page: trackside docs TOPIC, for example: trackside docs claims")
    console.echo("One section: trackside docs TOPIC#SECTION, for example: trackside docs metrics#ettr")


def _command(topic: str, section: str) -> str:
    """What a link of a page leads to in a terminal: the argument of the next `trackside docs`."""
    return f"{topic}#{section}" if section else topic
