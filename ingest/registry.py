"""The installed sources: those in the module `sources` of every folder of this package."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Final

import ingest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.source import IngestSource, SourceFolder


def _folders() -> Iterator[SourceFolder]:
    """The entries of the folders; they are listed by their files, since `pkgutil` would take longer to import."""
    for folder in ingest.__path__:
        for name in os.listdir(folder):  # noqa: PTH208 - faster
            if os.path.isfile(f"{folder}/{name}/sources.py"):  # noqa: PTH113 - as above
                yield import_module(f"ingest.{name}.sources").FOLDER


FOLDERS: Final = tuple(sorted(_folders(), key=lambda folder: (folder.position, folder.name)))
"""Folders of sources, in the order in which they are listed."""

SOURCES: Final = tuple(source for folder in FOLDERS for source in folder.sources)
"""All sources, in the order of their folders."""


def source(name: str) -> IngestSource:
    """The source of that name.

    >>> source("slurm.events").feeds
    ('node_states',)

    Raises:
        KeyError: There is none.
    """
    for one in SOURCES:
        if one.name == name:
            return one
    names = ", ".join(one.name for one in SOURCES)
    message = f"{name}; sources are {names}"
    raise KeyError(message)
