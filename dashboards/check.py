"""Checks of boards: those of a folder, or the included ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboards import board_json, grafana, lint
from dashboards.build import generated
from dashboards.errors import BoardError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Checked:
    """The result of a check.

    Attributes:
        findings: the mistakes.
        boards: how many boards were checked.
        panels: how many panels they have; 0 where there are mistakes.
    """

    findings: Sequence[lint.Finding]
    boards: int
    panels: int


def check(target: Path | None) -> Checked:
    """Check the boards of a folder, or the included ones.

    Args:
        target: folder, whose boards a person may have made or edited; None means the included boards, which must follow
            all of our rules and equal what their Python builds.

    Raises:
        BoardError: the folder cannot be used.
    """
    boards = _included() if target is None else _read(target)
    beside = None if target is None else [str(board["uid"]) for board, _ in _included().values()]
    findings = lint.lint([board for board, _ in boards.values()], beside=beside)
    if target is None:
        findings += [_stale(path) for path, text in generated().items() if boards[Path(path)][1] != text]
    panels = 0 if findings else sum(1 for board, _ in boards.values() for _ in board_json.panels(board))
    return Checked(findings, len(boards), panels)


def boards_in(target: Path) -> list[grafana.Json]:
    """The boards of a folder, in the order of their paths.

    Raises:
        BoardError: the folder cannot be used.
    """
    return [board for board, _ in _read(target).values()]


def _stale(path: str) -> lint.Finding:
    return lint.Finding(
        Path(path).stem, "board", "generated", f"{path} differs from what its Python builds; run: make fix"
    )


_BoardText = tuple[grafana.Json, str]
"""A board and its text."""


def _included() -> dict[Path, _BoardText]:
    root = resources.files("dashboards") / "generated"
    texts = {Path("dashboards/generated") / each.name: each.read_text("utf-8") for each in root.iterdir()}
    return {path: (_parsed(path, text), text) for path, text in sorted(texts.items())}


def _read(target: Path) -> dict[Path, _BoardText]:
    """Every board in a folder and those below it.

    Raises:
        BoardError: there is none, or a file is not a JSON object.
    """
    if not target.is_dir():
        raise BoardError(f"{target} is not a folder; trackside dashboards build --dir {target} writes one")
    paths = sorted(target.rglob("*.json"))
    if not paths:
        raise BoardError(f"{target} holds no board (*.json); trackside dashboards build --dir {target} writes them")
    try:
        texts = {path: path.read_text("utf-8") for path in paths}
    except OSError as error:
        raise BoardError(f"{error.filename} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BoardError(f"a file in {target} is not UTF-8 text, so it is not a board") from None
    return {path: (_parsed(path, text), text) for path, text in texts.items()}


def _parsed(path: Path, text: str) -> grafana.Json:
    try:
        board: Any = json.loads(text)
    except ValueError as error:
        raise BoardError(f"{path} is not JSON: {error}") from None
    if not isinstance(board, dict):
        raise BoardError(f"{path} is not a board: it holds no JSON object")
    return board
