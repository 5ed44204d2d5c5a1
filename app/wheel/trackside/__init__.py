"""Trackside from Python, and the one name that its wheel installs.

>>> import trackside
>>> warehouse = trackside.open("trackside-demo/warehouse")    # doctest: +SKIP
>>> warehouse.goodput(by="day")                               # doctest: +SKIP

The wheel holds Trackside's five packages in `trackside/_packages`, so that nobody else's `app` or `metrics` can meet
them in site-packages. This module puts that folder (in a checkout: the repository) first on `sys.path`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from trackside.warehouse import Answer, TracksideWarning, Warehouse

__all__ = ["Answer", "TracksideWarning", "Warehouse", "errors", "main", "open"]

_HERE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - pathlib would cost `--help` its start
_WHEEL = os.path.join(_HERE, "_packages")  # noqa: PTH118 - as above
_FOLDER = _WHEEL if os.path.isdir(_WHEEL) else os.path.abspath(os.path.join(_HERE, "../../.."))  # noqa: PTH100, PTH112, PTH118 - as above
"""Where the five packages are."""

for _name in {"app", "dashboards", "ingest", "metrics", "queries"} & sys.modules.keys():
    _origin = os.path.realpath(getattr(sys.modules[_name], "__file__", None) or "")
    if not _origin.startswith(os.path.join(_FOLDER, "")):  # noqa: PTH118 - as above
        raise ImportError(
            f"trackside needs the import name {_name!r}, and this process has imported {_origin} under it: "
            "rename that module, or import trackside in a process of its own"
        )
if sys.path[:1] != [_FOLDER]:
    sys.path.insert(0, _FOLDER)

from app.cli.main import main  # noqa: E402 - found by what is above
from trackside import errors  # noqa: E402 - as above


def open(folder: str | Path | None = None, *, config: str | Path | None = None) -> Warehouse:  # noqa: A001 - `trackside.open`
    """Open a warehouse for questions; see `Warehouse`."""
    from trackside.warehouse import Warehouse  # noqa: PLC0415 - heavy, and the command line does not need it

    return Warehouse(folder, config=config)


def __getattr__(name: str) -> object:
    if name in {"Answer", "TracksideWarning", "Warehouse"}:
        from trackside import warehouse  # noqa: PLC0415 - as above

        return getattr(warehouse, name)
    raise AttributeError(f"module 'trackside' has no attribute {name!r}")
