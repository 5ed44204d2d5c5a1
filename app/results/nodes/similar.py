"""Whether there is a node of a name, and which have names that read like it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from app.window import RowSource

MOST: Final = 3
"""Names that are suggested at most."""


def similar_nodes(source: RowSource, cluster: str, node: str) -> list[str] | None:
    """Names of a cluster's nodes that read much like one that no source has, the most alike first.

    None where there is such a node: in the inventory, in events, in telemetry's health events, or where jobs ran.
    """
    rows = source.query("similar_nodes", cluster=cluster, node=node)
    return None if (rows["alike"] == 1.0).any() else rows["node"].head(MOST).to_list()
