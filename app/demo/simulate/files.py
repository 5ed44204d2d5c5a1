"""List of the files that a simulation made in a folder, so that the next one there removes those and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from app.errors import UsageError
from app.json_text import as_json
from app.output_file import write_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MANIFEST = ".trackside-simulated"
"""File of the folder that names what a simulation made in it."""

PLACES = ("sources", "truth", "truth.json")
"""Folders that a simulation writes to, below its own."""


def clear(folder: Path) -> None:
    """Delete what an earlier simulation made in a folder; whatever else is in it stays.

    Raises:
        UsageError: other files are where the simulation would write. Nothing is deleted then.
    """
    existing = _existing(folder)
    strangers = sorted(existing.keys() - _noted(folder))
    if strangers:
        more = f" and {len(strangers) - 3} more" if len(strangers) > 3 else ""
        raise UsageError(
            f"{folder} has files that no simulation made: {', '.join(strangers[:3])}{more}.\n"
            "Name another folder with --dir, or move them away."
        )
    for path in existing.values():
        path.unlink()


def note(folder: Path, names: Iterable[str]) -> None:
    """Write down what is going to be made, before it is: a simulation that is killed can be cleared away too.

    Args:
        folder: the folder.
        names: files, from the folder on.
    """
    write_file(folder / MANIFEST, (as_json(sorted(names), indent=0) + "\n").encode())


def _noted(folder: Path) -> set[str]:
    """Files that the last simulation made here; none if there was none, or its list cannot be read."""
    try:
        names = json.loads((folder / MANIFEST).read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return set()
    return {str(name) for name in names} if isinstance(names, list) else set()


def _existing(folder: Path) -> dict[str, Path]:
    """Files and links in the places of a simulation, by their names from the folder on."""
    paths = [path for folder_ in PLACES for path in (folder / folder_, *(folder / folder_).rglob("*"))]
    return {path.relative_to(folder).as_posix(): path for path in paths if path.is_symlink() or path.is_file()}
