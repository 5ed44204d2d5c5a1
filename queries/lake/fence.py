"""Rules on which directory may commit which warehouse and clusters: newer or foreign data are never replaced.

A directory notes the token of its last commit to each lake. If a lake has one that is in none of these notes, another
directory has committed the same warehouse since: the two have grown apart, and neither may replace the other unasked.
Tokens are compared, not addresses: a lake may have several, and get others.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shlex
from typing import TYPE_CHECKING, Final

from queries import directory
from queries.errors import WarehouseError
from queries.lake import origins
from queries.opening import disk_errors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from queries.copying import AttachedCopy
    from queries.lake.address import Address
    from queries.lake.catalogue import CatalogueFile

_PENDING: Final = "pending"
_LAST: Final = "last"


def refuse(
    address: Address, source: AttachedCopy, lake_facts: Mapping[str, str], entries: Iterable[CatalogueFile]
) -> None:
    """Refuse to commit a directory that is not the one that the lake's state is of, or that comes before it.

    `lake_facts` and `entries` are what the lake has of its warehouse.

    Raises:
        WarehouseError: it is; the message has the remedy.
    """
    if not lake_facts:
        return
    ours = {token for notes in _notes(source.root).values() for token in notes.values()}
    version = int(lake_facts["data_version"])
    if lake_facts[origins.TOKEN] in ours and version <= source.version:
        return
    cluster = min((entry.cluster for entry in entries if entry.cluster), default="")
    raise WarehouseError(
        f"{address} has data version {version} of this warehouse, committed at {lake_facts[origins.COMMITTED_AT]} "
        f"by {lake_facts[origins.COMMITTED_BY]}; {source.root} has version {source.version} and did not make "
        "that commit.\n"
        "Go on from the lake's state in a new directory:  "
        f"trackside warehouse copy '{address}' DIR --cluster {shlex.quote(cluster)}\n"
        "Nothing was changed."
    )


def refuse_clusters_of_others(address: Address, clusters: Collection[str | None], others: Mapping[str, str]) -> None:
    """Refuse to commit clusters that the lake has from another warehouse; `others` are all that it has of such.

    Raises:
        WarehouseError: it has.
    """
    both = sorted(others.keys() & set(clusters))
    if both:
        raise WarehouseError(
            f"{address} has cluster {both[0]} from another warehouse ({others[both[0]]}): one cluster is committed "
            f"by one directory.\nGo on from the lake's state in a new directory:  trackside warehouse copy '{address}' "
            f"DIR --cluster {shlex.quote(both[0])}\nNothing was changed."
        )


# What a directory notes --------------------------------------------------------------------------------------------


def note_pending(root: Path, address: Address) -> str:
    """Note that a commit begins; returns its token."""
    token = secrets.token_hex(8)
    _note(root, address, **{_PENDING: token})
    return token


def adopt_last_commit(root: Path, address: Address, lake_facts: Mapping[str, str]) -> None:
    """Note the lake's last commit as ours if it is the one that was under way when its process ended."""
    token = lake_facts.get(origins.TOKEN)
    if token is not None and token != _notes(root).get(str(address), {}).get(_LAST):
        note_committed(root, address, token)


def note_committed(root: Path, address: Address, token: str) -> None:
    """Note that a lake has the state that this directory had at a commit."""
    _note(root, address, **{_LAST: token, _PENDING: token})


def _note(root: Path, address: Address, **more: str) -> None:
    notes = _notes(root)
    notes[str(address)] = notes.get(str(address), {}) | more
    file = root / directory.LAKES
    unfinished = file.with_name(f"{file.name}.unfinished")
    with disk_errors(root):
        unfinished.write_text(json.dumps(notes, indent=1))
        directory.sync(unfinished)
        unfinished.replace(file)


def _notes(root: Path) -> dict[str, dict[str, str]]:
    """Notes of a directory, by the address of a lake."""
    with contextlib.suppress(OSError, ValueError):
        notes = json.loads((root / directory.LAKES).read_text())
        if isinstance(notes, dict):
            return notes
    return {}
