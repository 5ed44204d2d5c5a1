"""Markers of the catalogues that use the files of a place. Each leaves a file there, named by its identity.

Two catalogues over the same files have no record of each other: files that one of them does not name may belong to the
other one. So a second one is not made, and none removes a file where the marker of another lies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from queries.errors import WarehouseError
from queries.lake.storage import UNFINISHED

if TYPE_CHECKING:
    from queries.lake.address import Address
    from queries.lake.storage import Storage

FOLDER: Final = "catalogues"


def leave(storage: Storage, identity: str) -> set[str]:
    """Leave the marker of a catalogue if it is not there; returns the identities of the others."""
    identities = _identities(storage)
    if identity not in identities:
        with storage.writing(f"{FOLDER}/{identity}") as file:
            file.write_text(identity)
    return identities - {identity}


def others(storage: Storage, identity: str) -> set[str]:
    """Identities of the other catalogues that have left a marker."""
    return _identities(storage) - {identity}


def refuse_a_second(address: Address, storage: Storage) -> None:
    """Refuse to make a catalogue over files that another one counts.

    Raises:
        WarehouseError: there is another.
    """
    if identities := _identities(storage):
        raise WarehouseError(
            f"{address}: a lake cannot be made over {storage.address('')}, which has the files of another one "
            f"({', '.join(sorted(identities))}).\nName another place with --data-path, or the address of that lake. "
            f"{_hint(storage, identities)}\nNothing was changed."
        )


def refuse_to_remove(address: Address, storage: Storage, others: set[str]) -> None:
    """Refuse to remove files that another catalogue may count.

    Raises:
        WarehouseError: there is another.
    """
    if others:
        raise WarehouseError(
            f"{address}: other catalogues count files of {storage.address('')}, too ({', '.join(sorted(others))}): "
            f"what this one does not need may be what they are made of.\n{_hint(storage, others)}\nNothing was removed."
        )


def _hint(storage: Storage, identities: set[str]) -> str:
    named = ", ".join(storage.address(f"{FOLDER}/{identity}") for identity in sorted(identities))
    return f"If that catalogue is no more, remove its marker and run it again: {named}"


def _identities(storage: Storage) -> set[str]:
    names = (name.removeprefix(f"{FOLDER}/") for name in storage.sizes(f"{FOLDER}/"))
    return {name for name in names if not name.endswith(UNFINISHED)}  # of whoever was killed, or is about to be done
