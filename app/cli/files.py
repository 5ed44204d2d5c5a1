"""The verbs and sources that are there: one file each in a package or one of its rooms, found by its name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def modules_of(package: ModuleType) -> dict[str, str]:
    """The public modules of a package and of the folders in it: full names by own names, which are sorted.

    No module is imported, and `pkgutil` would take longer.

    >>> from app.cli import verbs
    >>> list(modules_of(verbs).items())[:2]
    [('adjudicate', 'app.cli.verbs.data.adjudicate'), ('backfill', 'app.cli.verbs.serving.backfill')]
    """
    modules = {}
    for folder in package.__path__:
        rooms = [name for name in os.listdir(folder) if not name.startswith("_") and "." not in name]  # noqa: PTH208 - faster
        for room in ("", *rooms):
            for file in os.listdir(f"{folder}/{room}"):  # noqa: PTH208 - faster
                if file.endswith(".py") and not file.startswith("_"):
                    name = file.removesuffix(".py")
                    modules[name] = ".".join(filter(None, (package.__name__, room, name)))
    return dict(sorted(modules.items()))
