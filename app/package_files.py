"""The modules that are in a package: a verb, a question and a source are there because their file is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def files_of(package: ModuleType) -> dict[str, str]:
    """The public modules of a package and of the folders in it: their files, by their names below the package.

    No module is imported, and `pkgutil` would take longer.

    >>> from app.cli import verbs
    >>> sorted(files_of(verbs))[:2]
    ['answers.compute', 'answers.job']
    """
    files = {}
    for folder in package.__path__:
        rooms = [name for name in os.listdir(folder) if not name.startswith("_") and "." not in name]  # noqa: PTH208 - faster
        for room in ("", *rooms):
            for file in os.listdir(f"{folder}/{room}"):  # noqa: PTH208 - faster
                if file.endswith(".py") and not file.startswith("_"):
                    files[".".join(filter(None, (room, file.removesuffix(".py"))))] = f"{folder}/{room}/{file}"
    return files
