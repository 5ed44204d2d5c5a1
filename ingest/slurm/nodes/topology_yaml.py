"""A topology.yaml (Slurm 25.05 and later): several networks, each a tree of switches, blocks, or flat."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ingest.files.yaml_documents import documents

if TYPE_CHECKING:
    from collections.abc import Iterator

BEGINNING: Final = re.compile(r"(?m)^\s*-\s+topology:\s*\S")
"""The first attribute of each network."""

_LINES: Final = {
    "tree": ("switches", {"switch": "SwitchName", "children": "Switches", "nodes": "Nodes"}),
    "block": ("blocks", {"block": "BlockName", "nodes": "Nodes"}),
}
"""Of each kind of network: the list of its parts, and how a topology.conf names their attributes."""

_PLAIN: Final = re.compile(r"[^\s#]+")


def networks(data: bytes, *, origin: str) -> Iterator[list[tuple[int, str]]]:
    r"""The lines of a topology.conf for each network, that of the cluster first; they are numbered through the file.

    A part that is none becomes a line that no topology.conf has, so that it is refused there.

    >>> text = b"- topology: a\n  block: {blocks: [{block: b1, nodes: 'n[1-2]'}]}\n- topology: b\n  flat: true\n"
    >>> list(networks(text, origin="topology.yaml"))
    [[(1, 'BlockName=b1 Nodes=n[1-2]')], []]

    Raises:
        InputError: it is no YAML.
    """
    listed = [
        each for document in documents(data, origin=origin) for each in (document or []) if isinstance(each, dict)
    ]
    number = 0
    for network in sorted(listed, key=lambda each: each.get("cluster_default") is not True):
        lines = []
        for part in _parts(network):
            number += 1
            lines.append((number, part))
        yield lines


def _parts(network: dict[str, Any]) -> Iterator[str]:
    for kind, (name, attributes) in _LINES.items():
        body = network.get(kind)
        parts = body.get(name) if isinstance(body, dict) else None
        for part in parts if isinstance(parts, list) else ():
            yield _line(part, attributes)


def _line(part: Any, attributes: dict[str, str]) -> str:  # noqa: ANN401 - any YAML
    values = (
        {attributes[key]: str(value) for key, value in part.items() if key in attributes}
        if isinstance(part, dict)
        else {}
    )
    if not values or not all(_PLAIN.fullmatch(value) for value in values.values()):
        return f"unusable: {part}"
    return " ".join(f"{key}={value}" for key, value in values.items())
