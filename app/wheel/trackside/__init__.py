"""Trackside from Python, and the one name that its wheel installs.

The wheel holds Trackside's five packages in `trackside/_packages`, so that nobody else's `app` or `metrics` can meet
them in site-packages. This module puts that folder (in a checkout: the repository) first on `sys.path`, and gives
the command line (`main`) and the questions of `trackside show` (`open`).
"""

from __future__ import annotations

import os
import sys

PACKAGES = ("app", "dashboards", "ingest", "metrics", "queries")

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would cost `--help` its start
_WHEEL = os.path.join(_HERE, "_packages")  # noqa: PTH118
FOLDER = _WHEEL if os.path.isdir(_WHEEL) else os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))  # noqa: PTH112, PTH120
"""Where the five packages are."""

for _name in PACKAGES:
    _other = getattr(sys.modules.get(_name), "__file__", None)
    if _name in sys.modules and not str(_other).startswith(os.path.join(FOLDER, "")):  # noqa: PTH118
        raise ImportError(
            f"trackside needs the import name {_name!r}, and this process has imported {_other} under it: "
            "rename that module, or import trackside in a process of its own"
        )
if sys.path[:1] != [FOLDER]:
    sys.path.insert(0, FOLDER)

from app.cli.main import main as main  # noqa: E402
