"""What capacity rests on: nodes that no inventory names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.window import RowSource, Window


def nodes_by_accounting(source: RowSource, window: Window) -> str | None:
    """A sentence on the nodes of a window that only accounting has; None where an inventory names all of them.

    Where no inventory was read at all, ratios over capacity have their own note.
    """
    n, share = _counted(source, window)
    if share is None or not 0 < share < 1:
        return None
    many = f"{n:,} nodes are" if n > 1 else "One node is"
    return (
        f"{many} in no inventory, only in accounting ({share:.1%} of the capacity): GPUs are taken to be the most that "
        "jobs held there at once, from the first job to the last. Load an inventory that names them "
        "(scontrol show node)."
    )


def share_by_accounting(source: RowSource, window: Window) -> float | None:
    """The share of a window's capacity on nodes that only accounting has; None where there is no capacity."""
    return _counted(source, window)[1]


def _counted(source: RowSource, window: Window) -> tuple[int, float | None]:
    """How many such nodes there are, and their share."""
    counted = source.query("nodes_by_accounting", cluster=window.cluster, since=window.since, until=window.until)
    return counted["n_nodes"].item(), counted["share"].item()
