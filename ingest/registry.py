"""The sources that are installed: every folder of this package with a module `sources` hands in its own."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from typing import TYPE_CHECKING, Final

import ingest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.source import Source, SourceFolder


def _folders() -> Iterator[SourceFolder]:
    for module in pkgutil.iter_modules(ingest.__path__):
        if module.ispkg and importlib.util.find_spec(f"ingest.{module.name}.sources"):
            yield importlib.import_module(f"ingest.{module.name}.sources").FOLDER


FOLDERS: Final = tuple(sorted(_folders(), key=lambda folder: (folder.position, folder.name)))
"""Folders of sources, in the order in which they are listed."""

SOURCES: Final = tuple(source for folder in FOLDERS for source in folder.sources)
"""All sources, in the order of their folders."""


def source(name: str) -> Source:
    """The source of that name.

    >>> source("slurm.events").feeds
    ('node_states',)

    Raises:
        KeyError: There is none.
    """
    for one in SOURCES:
        if one.name == name:
            return one
    known = ", ".join(one.name for one in SOURCES)
    message = f"{name}; sources are {known}"
    raise KeyError(message)
