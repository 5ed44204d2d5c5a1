"""scipy's `special` and `optimize`, imported with the first function that is called.

Most answers need neither, and importing them takes longer than to import everything else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["load", "optimize", "special"]

if TYPE_CHECKING:
    from scipy import optimize, special
else:

    class _LazyModule:
        """A module that is imported when something of it is used."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the module has
            return getattr(import_module(self._name), name)

    optimize, special = _LazyModule("scipy.optimize"), _LazyModule("scipy.special")


def load() -> None:
    """Import both now: a server has the time before anyone waits for an answer."""
    for name in ("scipy.special", "scipy.optimize"):
        import_module(name)
