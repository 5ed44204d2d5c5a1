"""The verbs and sources that are there: one file each in a package, found by its name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def modules_of(package: ModuleType) -> list[str]:
    """Names of the public modules of a package, sorted; no module is imported (`pkgutil` would take longer).

    >>> from app.cli import verbs
    >>> modules_of(verbs)[:2]
    ['adjudicate', 'backfill']
    """
    files = {file for folder in package.__path__ for file in os.listdir(folder)}  # noqa: PTH208 - faster
    return sorted(file[:-3] for file in files if file.endswith(".py") and not file.startswith("_"))
