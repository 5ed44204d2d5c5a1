"""Packages that libraries import where they are installed, and that we do without.

DuckDB imports pandas to compare the first parameter of a query with pandas' nulls. pyarrow imports numpy to convert
arrays.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def block_pandas() -> None:
    """Make `import pandas` fail in this process, unless it is imported already.

    The import takes longer than most answers, and no parameter of ours comes from pandas. Only a process that is ours
    alone may call this: elsewhere others may need pandas.
    """
    block_import("pandas")


def block_import(name: str) -> None:
    """Make the import of a package fail in this process, unless it is imported already."""
    modules: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]  # None makes an import fail
    modules.setdefault(name, None)
