"""Nodes that an inventory lacks count as removed; a warning lists them, since the inventory may be incomplete."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Final

from ingest.load_warnings import LoadWarning

if TYPE_CHECKING:
    from ingest.tables import Parsed
    from queries.warehouse import Writer

SHOWN: Final = 8
"""Names of nodes that a warning shows."""


def removed(writer: Writer, parsed: Parsed) -> list[LoadWarning]:
    """A warning for each cluster whose inventory lacks some of the nodes loaded before; call it before writing.

    An inventory with refused records removes no node.
    """
    inventory, moment = parsed.frames.get("nodes"), parsed.covers_until
    if inventory is None or moment is None or parsed.rows_rejected:
        return []
    warnings: list[LoadWarning] = []
    for (cluster,), nodes in inventory.group_by("cluster", maintain_order=True):
        listed = set(nodes["node"])
        counted = writer.query("nodes_counted", cluster=cluster, moment=moment).rows()
        lacking = [node for node, inventoried in counted if not inventoried and node not in listed]
        if lacking:
            names = ", ".join(lacking[:SHOWN]) + (", ..." if len(lacking) > SHOWN else "")
            detail = (
                f"this inventory lacks {len(lacking)} of the {len(counted)} nodes loaded before ({names}): taken as "
                f"removed from {moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC on. "
                f"If it was only a part, load a whole one of the same time."
            )
            warnings.append(LoadWarning("nodes_removed", len(lacking), detail))
    return warnings
