"""How often Python looks for objects that only refer to one another: seldom in a command, as ever in a server."""

from __future__ import annotations

import gc
from typing import Final

_SELDOM: Final = (200_000, 2, 2)
"""New objects until the next search. Imports make 130,000 and keep them, and would be searched 200 times."""

_PYTHONS_OWN: Final = gc.get_threshold()


def search_seldom() -> None:
    """For a command: it ends soon, and leaves some thousand such objects, no frames of polars among them."""
    gc.set_threshold(*_SELDOM)


def collect_garbage_as_usual() -> None:
    """For a process that stays: an error keeps what its functions held until it is found. Imports are not searched."""
    gc.freeze()
    gc.set_threshold(*_PYTHONS_OWN)
