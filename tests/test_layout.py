"""The rooms of the product: no folder that cannot be overlooked, no class name with two meanings, no stale mention."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PACKAGES: Final = ("app", "dashboards", "ingest", "metrics", "queries")
MOST_MODULES: Final = 25
"""Modules in one folder, `__init__.py` beside them."""

_CLASS: Final = re.compile(r"^class _?(\w+)", re.MULTILINE)


_MENTION: Final = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.[a-z_]+)*\.\w+)`")
"""A module of the product, or what is in one, as docstrings mention it."""


def modules() -> list[Path]:
    """The modules of the product."""
    found = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    assert len(found) > 500
    return found


def test_no_folder_has_more_than_25_modules() -> None:
    sizes: dict[str, int] = defaultdict(int)
    for file in modules():
        sizes[str(file.parent.relative_to(ROOT))] += file.name != "__init__.py"
    assert {folder: n for folder, n in sizes.items() if n > MOST_MODULES} == {}


def test_a_class_name_has_one_meaning() -> None:
    """A leading underscore makes no other name of it."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in modules():
        for name in _CLASS.findall(file.read_text(encoding="utf-8")):
            places[name].append(str(file.relative_to(ROOT)))
    assert len(places) > 500
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_docstrings_mention_what_there_is() -> None:
    mentioned = {(file, name) for file in modules() for name in _MENTION.findall(file.read_text(encoding="utf-8"))}
    assert len(mentioned) > 300
    assert sorted(f"{file.relative_to(ROOT)}: {name}" for file, name in mentioned if not _is_there(name)) == []


def _is_there(name: str) -> bool:
    """Whether a name is of a folder, of a module, or of something that is written in one; or of a file of a log."""
    if name == "metrics.csv":
        return True
    place = ROOT.joinpath(*name.split("."))
    if place.is_dir() or place.with_suffix(".py").exists():
        return True
    within = [place.parent / "__init__.py", place.parent.with_suffix(".py"), place.parent.parent.with_suffix(".py")]
    return any(re.search(rf"\b{place.name}\b", each.read_text(encoding="utf-8")) for each in within if each.exists())
