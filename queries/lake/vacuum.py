"""Removing what a lake keeps and nobody needs: old snapshots, and files that no snapshot names."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queries.errors import LockedWarehouseError
from queries.lake import catalogue as catalogues
from queries.lake import locks, markers

if TYPE_CHECKING:
    from datetime import datetime

    from queries.lake.address import Address
    from queries.lake.catalogue import Catalogue


@dataclass
class Removed:
    """What was removed: files that were replaced, files that were never counted, and whose are being written."""

    replaced: int = 0
    loose: int = 0
    bytes: int = 0
    busy: int = 0


def vacuum(address: Address, *, before: datetime) -> Removed:
    """Forget the snapshots before a time, and remove the files that only they need; then those of commits that stopped.

    The newest snapshot stays. Files of a warehouse that is being committed meanwhile are left as they are.

    Raises:
        WarehouseError: the catalogue or the files cannot be reached, or another catalogue counts these files, too.
    """
    removed = Removed()
    with (
        locks.held(address, locks.COMMIT, wait_s=locks.COMMIT_WAIT_S),
        catalogues.attached(address, read_only=False) as lake,
    ):
        markers.refuse_to_remove(address, lake.storage, markers.leave(lake.storage, lake.identity()))
        sizes = lake.storage.sizes("")
        gone = lake.expire(before)
        removed.replaced = len(gone)
        removed.bytes = sum(sizes.get(name, 0) for name in gone)
        for origin in sorted({name.partition("/")[0] for name in sizes} - {markers.FOLDER}):
            _remove_loose(address, lake, origin, removed)
    return removed


def _remove_loose(address: Address, lake: Catalogue, origin: str, removed: Removed) -> None:
    """Remove the files of an origin that the catalogue does not know, unless it is being committed."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locks.held(address, origin))
        except LockedWarehouseError:
            removed.busy += 1
            return
        found = lake.storage.sizes(f"{origin}/")
        loose = sorted(found.keys() - lake.known(origin))
        lake.storage.remove(loose)
        removed.loose += len(loose)
        removed.bytes += sum(found[name] for name in loose)
