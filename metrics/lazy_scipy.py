"""scipy's `special` and `optimize`, imported with the first function that is called.

Most answers need neither, and importing them takes longer than to import everything else. Nearly all of the time of
`scipy.special` goes into wrapping its functions for kinds of arrays that are not used here: with numpy's arrays each
wrapper calls the compiled function. So the module of these is imported without the package around it, in a thirtieth
of the time; where that fails, or another part of the package is needed, the whole package is imported.
"""

from __future__ import annotations

import sys
import threading
from importlib import import_module, util
from typing import TYPE_CHECKING, Any, Final

__all__ = ["load", "optimize", "special"]

_PACKAGE: Final = "scipy.special"
_COMPILED: Final = ("_ufuncs", "_lambertw")
"""Modules of the package with the functions that we call. They import nothing else of it that is written in Python."""

_lock: Final = threading.RLock()


def load() -> None:
    """Import both now: a server has the time before anyone waits for an answer."""
    with _lock:
        for name in (_PACKAGE, "scipy.optimize"):
            import_module(name)


def special_modules() -> tuple[Any, ...]:
    """Module with `scipy.special`'s functions: the package, if it is imported already, else its compiled modules."""
    with _lock:
        if _PACKAGE in sys.modules:
            return (sys.modules[_PACKAGE],)
        known = [sys.modules.get(f"{_PACKAGE}.{name}") for name in _COMPILED]
        return tuple(known) if None not in known else _compiled()


def _compiled() -> tuple[Any, ...]:
    """The compiled modules, imported below a package that has not been run; none where that cannot be."""
    spec = util.find_spec(_PACKAGE)
    if spec is None:
        return ()
    sys.modules[_PACKAGE] = util.module_from_spec(spec)
    try:
        return tuple(import_module(f"{_PACKAGE}.{name}") for name in _COMPILED)
    except ImportError:
        return ()
    finally:
        del sys.modules[_PACKAGE]  # who imports it later gets the whole


if TYPE_CHECKING:
    from scipy import optimize, special
else:

    class _LazyModule:
        """A module that is imported when something of it is used."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the module has
            if self._name == _PACKAGE:
                for module in special_modules():
                    if hasattr(module, name):
                        return getattr(module, name)
            with _lock:
                return getattr(import_module(self._name), name)

    optimize, special = _LazyModule("scipy.optimize"), _LazyModule(_PACKAGE)
