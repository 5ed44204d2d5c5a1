"""The manual: the pages of Markdown below `app/docs`.

The terminal (`trackside docs`), the explorer (`/docs`) and a forge show the same files. The folder is the list of
pages: a new file is a new page. A topic is searched in that list and never used as a path.
"""

from __future__ import annotations

import functools
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import UsageError
from queries.near_names import near_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDER = Path(__file__).parent / "docs"
INDEX = "README"
"""The list of pages, for a forge; it is no topic."""

ROOMS = {
    "": "Start",
    "sources": "Sources",
    "how-to": "How to",
    "concepts": "Concepts",
    "reference": "Reference",
    "developing": "Developing",
}
"""Folders and their headings, in the order of a list of pages; others follow. The tutorial is the first page."""

_FENCE = re.compile(r"(`{3,}|~{3,})")
_HEADING = re.compile(r"(#{1,6}) +(.+?) *#*$")
_LINK = re.compile(r"(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_NOT_IN_SLUGS = re.compile(r"[^\w\- ]")


@dataclass(frozen=True)
class PageSection:
    """A heading and the text down to the next heading.

    Attributes:
        level: 1 for the page's title; 0 for text before any heading.
        title: text of the heading, as Markdown.
        slug: name of the heading in addresses, as forges make it.
        text: Markdown with the heading.
    """

    level: int
    title: str
    slug: str
    text: str


@dataclass(frozen=True)
class ManualPage:
    """A page of the manual.

    Attributes:
        topic: its name: the path below `app/docs` without `.md`.
        text: Markdown.
    """

    topic: str
    text: str

    @property
    def title(self) -> str:
        """The first heading."""
        return next((each.title for each in self.sections if each.level == 1), self.topic)

    @property
    def summary(self) -> str:
        """The first sentence below the title, without links and marks of emphasis."""
        body = next((each.text for each in self.sections if each.level == 1), self.text)
        paragraphs = [part for part in body.split("\n\n")[1:] if not part.startswith(("<!--", "```", "|"))]
        plain = _LINK.sub(r"\2", paragraphs[0] if paragraphs else "").replace("**", "")
        return re.split(r"(?<=[.?!]) ", " ".join(plain.split()), maxsplit=1)[0]

    @functools.cached_property
    def sections(self) -> tuple[PageSection, ...]:
        """The page in order, a section for each heading."""
        return tuple(_sections(self.text))

    def part(self, slug: str) -> str | None:
        """A section with its subsections; None if the page has no such heading."""
        parts = self.sections
        first = next((n for n, each in enumerate(parts) if each.slug == slug and each.level), None)
        if first is None:
            return None
        rest = parts[first + 1 :]
        end = next((n for n, each in enumerate(rest) if each.level <= parts[first].level), len(rest))
        return "\n".join(each.text for each in parts[first : first + 1 + end])


def _sections(text: str) -> Iterator[PageSection]:
    heading, lines, fence, seen = (0, "", ""), list[str](), "", dict[str, int]()
    for line in text.splitlines():
        mark = _FENCE.match(line.lstrip())
        if mark and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else mark[1]
        title = None if fence or mark else _HEADING.match(line)
        if title is not None:
            if lines:
                yield PageSection(*heading, "\n".join(lines))
            heading, lines = (len(title[1]), title[2], _unique(slug_of(title[2]), seen)), []
        lines.append(line)
    if lines:
        yield PageSection(*heading, "\n".join(lines))


def slug_of(heading: str) -> str:
    """The name of a heading in addresses, as forges make it.

    >>> slug_of("What is read"), slug_of("`goodput_allocated`"), slug_of("`--since`, and more")
    ('what-is-read', 'goodput_allocated', '--since-and-more')
    """
    return _NOT_IN_SLUGS.sub("", _LINK.sub(r"\2", heading).lower()).replace(" ", "-")


def _unique(slug: str, seen: dict[str, int]) -> str:
    """A second heading of the same name gets `-1`, as on a forge."""
    seen[slug] = seen.get(slug, -1) + 1
    return f"{slug}-{seen[slug]}" if seen[slug] else slug


@functools.cache
def pages() -> dict[str, ManualPage]:
    """All pages by topic, in the order of the manual."""
    result = {}
    for path in sorted(FOLDER.rglob("*.md")):
        topic = path.relative_to(FOLDER).with_suffix("").as_posix()
        if topic != INDEX:
            result[topic] = ManualPage(topic, path.read_text(encoding="utf-8"))
    return dict(sorted(result.items(), key=lambda each: _order(each[0])))


def _order(topic: str) -> tuple[int, str]:
    room = posixpath.dirname(topic)
    order = [*ROOMS]
    return order.index(room) if room in ROOMS else len(order), "" if topic == "tutorial" else topic


def rooms() -> dict[str, list[ManualPage]]:
    """The pages by the heading of their folder, in the order of the manual."""
    result: dict[str, list[ManualPage]] = {}
    for page in pages().values():
        room = posixpath.dirname(page.topic)
        result.setdefault(ROOMS.get(room, room), []).append(page)
    return result


def find(topic: str) -> ManualPage:
    """The page of a topic: its whole name, or the last part of it where one page alone has that.

    Raises:
        UsageError: no page has the name; near names are listed.
    """
    all_pages = pages()
    requested = topic.strip().strip("/").lower().removesuffix(".md")
    matches = [name for name in all_pages if requested in {name, posixpath.basename(name)}]
    if len(matches) == 1:
        return all_pages[matches[0]]
    names = {each: name for name in all_pages for each in (name, posixpath.basename(name))}
    near = matches or list(dict.fromkeys(names[each] for each in near_names(requested, names, most=3)))
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise UsageError(f"the manual has no page {topic!r}{hint}\nAll pages: trackside docs")


def read(topic: str) -> tuple[ManualPage, str]:
    """A page and the Markdown that `PAGE` or `PAGE#SECTION` names.

    Raises:
        UsageError: there is no such page, or it has no such section.
    """
    name, _, section = topic.partition("#")
    page = find(name)
    if not section:
        return page, page.text
    text = page.part(section.lower())
    if text is None:
        slugs = [each.slug for each in page.sections if each.level > 1]
        near = near_names(section, slugs, most=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(
            f"the page {page.topic} has no section {section!r}{hint}\nThe page: trackside docs {page.topic}"
        )
    return page, text


def linked(page: ManualPage, text: str, address: Callable[[str, str], str]) -> str:
    """Markdown of a page with its links rewritten: only pages of the manual and the web can be reached.

    Links to other files of the repository become their text; pictures and comments are left out.

    Args:
        page: where the text is from; its links are relative to it.
        text: the Markdown.
        address: topic and section (empty: the whole page) to the address of a link.
    """

    def rewritten(link: re.Match[str]) -> str:
        picture, label, target = link.groups()
        if picture:
            return ""
        if target.startswith(("https://", "http://")):
            return link[0]
        topic, section = target_of(page, target)
        return f"[{label}]({address(topic, section)})" if topic in pages() else label

    parts = _fenced(text)
    return "".join(each if _is_code(each) else _LINK.sub(rewritten, _COMMENT.sub("", each)) for each in parts)


def _is_code(part: str) -> bool:
    return part.lstrip().startswith("```")


def target_of(page: ManualPage, target: str) -> tuple[str, str]:
    """Topic and section that a relative link of a page leads to; the topic need not exist.

    >>> target_of(ManualPage("how-to/claims", ""), "../reference/metrics.md#ettr")
    ('reference/metrics', 'ettr')
    >>> target_of(ManualPage("how-to/claims", ""), "#exclusions")
    ('how-to/claims', 'exclusions')
    """
    path, _, section = target.partition("#")
    if not path:
        return page.topic, section
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(page.topic), path))
    return joined.removesuffix(".md"), section


def _fenced(text: str) -> list[str]:
    """The text in parts: each code block is one."""
    return re.split(r"(?ms)(^ *```.*?^ *```$)", text)
