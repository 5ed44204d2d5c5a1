"""Readers of a warehouse: its owner, and the members of a group where one is configured.

Accounting, names of users and commands are nothing for everybody on a login node.
"""

from __future__ import annotations

import contextlib
import grp
import os
import stat
from typing import TYPE_CHECKING, Final

from queries.errors import WarehouseError
from queries.opening import disk_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OWNER_ALONE: Final = (0o700, 0o600)
AND_GROUP: Final = (0o2750, 0o640)
"""Modes of directories and files. New files in a directory of mode 2750 are of its group."""


@contextlib.contextmanager
def private(root: Path, group: str | None) -> Iterator[None]:
    """Make the directory if need be, make it unreadable for others, and let files that are made meanwhile be alike.

    Args:
        root: the warehouse directory.
        group: whose members may read it, too.

    Raises:
        WarehouseError: no group has that name.
    """
    with disk_errors(root):
        root.parent.mkdir(parents=True, exist_ok=True)
    number = _number(group)
    modes = OWNER_ALONE if number is None else AND_GROUP
    before = os.umask(0o077 if number is None else 0o027)
    try:
        with disk_errors(root):
            root.mkdir(exist_ok=True)
            with contextlib.suppress(PermissionError):  # another's, who lets us write: `doctor` reports what it is
                _permit(root, modes, number)
        yield
    finally:
        os.umask(before)


def _number(group: str | None) -> int | None:
    if group is None:
        return None
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise WarehouseError(
            f"warehouse_group in the configuration: this machine has no group {group!r}. Nothing was changed."
        ) from None


def _permit(root: Path, modes: tuple[int, int], group: int | None) -> None:
    """Give everything in a directory its mode and group, the directory itself last: where that is right, all is."""
    if _is(root, modes[0], group):
        return
    for folder, _, files in os.walk(root, topdown=False):
        for name in files:
            _set(os.path.join(folder, name), modes[1], group)  # noqa: PTH118 - os.walk's own strings
        _set(folder, modes[0], group)


def _is(path: Path, mode: int, group: int | None) -> bool:
    status = path.stat()
    return stat.S_IMODE(status.st_mode) == mode and group in {None, status.st_gid}


def _set(path: str, mode: int, group: int | None) -> None:
    if os.path.islink(path):  # noqa: PTH114 - os.walk's own strings
        return
    if group is not None:
        os.chown(path, -1, group)
    os.chmod(path, mode)  # noqa: PTH101 - os.walk's own strings


def refuse_unreadable(root: Path) -> None:
    """Refuse a directory that we may not read, and name its owner.

    Raises:
        WarehouseError: we may not read it.
    """
    try:
        exists = root.is_dir()
    except PermissionError:
        exists = True
    if exists and not os.access(root, os.R_OK | os.X_OK):
        raise WarehouseError(
            f"{root} may not be read by you.\nIts owner can let a group read it: warehouse_group in the configuration, "
            "then any command that writes."
        )
