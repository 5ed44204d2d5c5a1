"""Removal of files that a lake no longer needs: old snapshots, and files that no snapshot names.

Others may have files in the same place: only names that commits give are considered.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queries.errors import LockedWarehouseError
from queries.lake import catalogue as catalogues
from queries.lake import locks, markers
from queries.lake.faults import NO_FILE, unreadable
from queries.lake.storage import origin_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from queries.lake.address import Address
    from queries.lake.catalogue import Catalogue


@dataclass
class Removed:
    """Removed files: those that were replaced, those never committed; and warehouses that are being committed."""

    replaced: int = 0
    loose: int = 0
    bytes: int = 0
    busy: int = 0


def vacuum(address: Address, *, before: datetime, dry_run: bool = False) -> Removed:
    """Forget the snapshots before a time, and remove the files that only they need; then those of commits that stopped.

    The newest snapshot stays. Files of a warehouse that is being committed meanwhile are left as they are.

    Args:
        address: the lake.
        before: the time.
        dry_run: whether it is only counted what would be removed.

    Raises:
        WarehouseError: the catalogue or the files cannot be reached, or another catalogue counts these files, too.
    """
    removed = Removed()
    with (
        locks.held(address, locks.COMMIT, wait_s=locks.COMMIT_WAIT_S),
        catalogues.attached(address, read_only=False) as lake,
    ):
        sizes = lake.storage.sizes("")
        _refuse_missing(lake, sizes)
        others = (markers.others if dry_run else markers.leave)(lake.storage, lake.identity())
        markers.refuse_to_remove(address, lake.storage, others)
        gone = lake.expire(before, dry_run=dry_run)
        removed.replaced = len(gone)
        removed.bytes = sum(sizes.get(name, 0) for name in gone)
        for origin in sorted({origin for name in sizes if (origin := origin_of(name))}):
            _remove_loose(address, lake, origin, removed, dry_run=dry_run)
    return removed


def _refuse_missing(lake: Catalogue, sizes: Mapping[str, int]) -> None:
    """Refuse to tidy up a place that lacks files: it may be one where the files' disk is not mounted.

    Raises:
        CorruptWarehouseError: a file that the catalogue counts is not there.
    """
    missing = next((entry for entry in lake.entries() if entry.name not in sizes), None)
    if missing is not None:
        raise unreadable(lake.address, missing.address, NO_FILE)


def _remove_loose(address: Address, lake: Catalogue, origin: str, removed: Removed, *, dry_run: bool) -> None:
    """Remove the files of an origin that the catalogue does not name, unless it is being committed."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locks.held(address, origin))
        except LockedWarehouseError:
            removed.busy += 1
            return
        found = lake.storage.sizes(f"{origin}/")
        loose = sorted(name for name in found.keys() - lake.known(origin) if origin_of(name))
        if not dry_run:
            lake.storage.remove(loose)
        removed.loose += len(loose)
        removed.bytes += sum(found[name] for name in loose)
