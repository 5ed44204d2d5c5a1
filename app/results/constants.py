"""The constants that a cluster's numbers were computed with, as the warehouse keeps them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.window import RowSource


def constants_text(constants: Mapping[str, Any]) -> str:
    """Constants as the table `computes` keeps them: one JSON text. All are finite by the configuration's rules."""
    return json.dumps(constants, sort_keys=True, default=list)


def constants_of(text: str) -> dict[str, Any]:
    """The constants as the table `computes` keeps them: one JSON text."""
    constants: dict[str, Any] = json.loads(text)
    return constants


def computed_constants(source: RowSource, cluster: str) -> dict[str, Any]:
    """The constants of the last computation of a cluster; empty where nothing is computed."""
    texts = source.query("computed", cluster=cluster)["constants"]
    return constants_of(texts.item()) if len(texts) else {}
