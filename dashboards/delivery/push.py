"""Boards brought to a Grafana by its HTTP API: what would change, and the change, without losing a person's edits.

Each version that we save has a message with the fingerprint of what was sent. A board whose newest version has no such
message was edited in Grafana: it is left alone unless the edits are to be replaced, and they stay in its history then.
"""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from dashboards.grafana import as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dashboards.delivery.server import Grafana
    from dashboards.grafana import Json

Kind = Literal["new", "changed", "unchanged", "edited", "provisioned"]
"""Effect of a push on a board: it is made, replaced, or left: because it is the same, was edited in Grafana, or is read
from files."""

FOLDER: Final = "trackside"
"""Uid of the folder for boards that are new."""

MESSAGE: Final = "trackside dashboards push, sha256 "
"""Begins the message of each version that we save; the fingerprint follows."""

OF_THE_SERVER: Final = frozenset({"id", "version", "iteration"})
"""Keys of a board that a Grafana sets."""


@dataclass(frozen=True)
class BoardChange:
    """Effect of a push on one board.

    Attributes:
        board: as built.
        kind: what happens to it.
        folder: uid of the folder in which it is, or comes; a board keeps the folder that a person moved it to.
        version: its version in Grafana; None: it is not there.
        diff: lines of the difference, from what Grafana has to what was built.
    """

    board: Json
    kind: Kind
    folder: str
    version: int | None
    diff: tuple[str, ...]

    @property
    def uid(self) -> str:
        """Of the board."""
        return str(self.board["uid"])


def changes(grafana: Grafana, boards: Iterable[Json], *, folder: str = FOLDER) -> Iterator[BoardChange]:
    """Effects of pushing these boards, one after the other; nothing is changed.

    Args:
        grafana: the server.
        boards: as built.
        folder: uid of the folder for new ones.
    """
    for board in boards:
        there = grafana.board(board["uid"])
        if there is None:
            yield BoardChange(board, "new", folder, None, ())
            continue
        meta, content = there.get("meta", {}), there["dashboard"]
        kind = _kind(grafana, board, content, provisioned=bool(meta.get("provisioned")))
        diff = () if kind == "unchanged" else tuple(_diff(content, board))
        yield BoardChange(board, kind, str(meta.get("folderUid", "")), int(content.get("version", 0)), diff)


def push(grafana: Grafana, change: BoardChange, *, replace_edits: bool = False) -> bool:
    """Carry out a change; whether the board was saved.

    Args:
        grafana: the server.
        change: of a board.
        replace_edits: also where a person edited the board in Grafana.
    """
    if change.kind not in ({"new", "changed", "edited"} if replace_edits else {"new", "changed"}):
        return False
    if change.kind == "new" and grafana.folder(change.folder) is None:
        grafana.make_folder(change.folder, change.folder.capitalize())
    message = MESSAGE + fingerprint(change.board)
    grafana.save(change.board, change.folder, message, version=change.version)
    return True


def fingerprint(board: Json) -> str:
    """Of a board's content: equal for equal boards, whatever a server added.

    >>> fingerprint({"title": "a", "version": 1}) == fingerprint({"version": 7, "id": 3, "title": "a"})
    True
    """
    return hashlib.sha256(_text(board).encode()).hexdigest()[:16]


def _kind(grafana: Grafana, board: Json, there: Json, *, provisioned: bool) -> Kind:
    """Effect on an existing board; Grafana may have migrated the JSON that we sent, so our message decides first."""
    if fingerprint(there) == fingerprint(board):
        return "unchanged"
    if provisioned:
        return "provisioned"
    message = grafana.last_message(board["uid"])
    if not message.startswith(MESSAGE):
        return "edited"
    return "unchanged" if message == MESSAGE + fingerprint(board) else "changed"


def _diff(there: Json, board: Json) -> Iterator[str]:
    old, new = (_text(each).splitlines() for each in (there, board))
    return difflib.unified_diff(old, new, fromfile="Grafana", tofile="built", lineterm="", n=2)


def _text(board: Json) -> str:
    return as_text({key: value for key, value in board.items() if key not in OF_THE_SERVER})
