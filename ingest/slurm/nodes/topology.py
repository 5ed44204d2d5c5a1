"""Where nodes hang in the network: `scontrol show topology`, a topology.conf or .yaml, as a path for each node."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.delimited.reader import clean
from ingest.errors import InputError, UnrecognisedInputError, shorten
from ingest.load_warnings import LoadWarning
from ingest.slurm.formats.nodelist import expand
from ingest.slurm.nodes.topology_yaml import BEGINNING, networks
from ingest.tables import NODE_TOPOLOGY, RAW_LIMIT, REJECTS, Parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.context import ParseContext

NOTHING: Final = "No topology information available"
"""Printed by scontrol for a flat network."""

_PAIR = re.compile(r"([A-Za-z]\w*)=(\S*)")
_BEGINNING = re.compile(r"(?im)^\s*(?:SwitchName|BlockName|AggregatedBlock)=\S")
_OTHER_LINES: Final = ("blocksizes", "topologyparam", "include")


@dataclass(frozen=True)
class _TopologyLine:
    """One line: a switch (its `children` are switches) or a block (its `size` is how much it holds)."""

    line: int
    raw: str
    plugin: str
    name: str
    nodes: tuple[str, ...]
    children: tuple[str, ...] = ()
    size: int = 0


def is_topology(text: str) -> bool:
    r"""Whether a text lists switches or blocks, or that there are none.

    >>> is_topology("SwitchName=leaf1 Nodes=n[1-2]\n"), is_topology("NodeName=n1 Topology=default:leaf1\n")
    (True, False)
    """
    return bool(_BEGINNING.search(text) or BEGINNING.search(text)) or text.lstrip().startswith(NOTHING)


def parse_topology(data: bytes, context: ParseContext) -> Parsed:
    """The place of each node, outermost switch (or aggregated block) first.

    All forms are read: `scontrol show topology`, whose upper switches list all nodes below them, topology.conf, where
    they do not, and topology.yaml. In a tree a node is attached to the switch that lists it and has no switches below.
    Lines that cannot be used are refused one by one. Where a text lists several networks, the first one to name a node
    counts; in a topology.yaml the one with `cluster_default` goes first.

    The text has neither time nor cluster: both are passed.

    Raises:
        UnrecognisedInputError: The text has neither a switch nor a block.
        InputError: Its time is unknown; or switches hang on each other in a circle.
    """
    origin, cluster = context.origin, context.cluster or ""
    cleaned, warnings = clean(data, origin)
    text = cleaned.decode()
    if not is_topology(text):
        beginning = shorten(text.strip()[:200])
        message = f"{origin}: neither SwitchName= nor BlockName= nor topology:; it begins with\n  {beginning}"
        raise UnrecognisedInputError(message)
    seen_at = context.seen_at()
    of_yaml = not _BEGINNING.search(text) and bool(BEGINNING.search(text))
    nets = list(networks(cleaned, origin=origin)) if of_yaml else [_lines(text)]
    lines = [line for each in nets for line in each]
    paths: dict[str, tuple[str, list[str]]] = {}
    found = _Topology()
    for net in nets:
        entries = _entries(net, found)
        for node, path in _tree_paths([one for one in entries if one.plugin == "tree"], origin, warnings).items():
            paths.setdefault(node, path)
        for node, way in _block_paths(one for one in entries if one.plugin == "block").items():
            paths.setdefault(node, ("block", way))
    rows = [(cluster, node, seen_at, seen_at, plugin, path) for node, (plugin, path) in sorted(paths.items())]
    rejects = [(cluster, "slurm.topology", origin, line, why, raw[:RAW_LIMIT]) for line, why, raw in found.refused]
    return Parsed(
        source="slurm.topology",
        clusters=frozenset({cluster}),
        frames={"node_topology": pl.DataFrame(rows, schema=NODE_TOPOLOGY, orient="row")},
        rejects=pl.DataFrame(rejects, schema=REJECTS, orient="row"),
        rows_read=len(lines),
        rows_loaded=found.loaded,
        rows_duplicate=found.duplicate,
        rows_skipped=found.skipped,
        rows_rejected=len(found.refused),
        columns=sorted({key for _, line in lines for key, _ in _PAIR.findall(line)}),
        warnings=warnings,
        covers_from=seen_at,
        covers_until=seen_at,
    )


@dataclass
class _Topology:
    """Result of the lines."""

    loaded: int = 0
    duplicate: int = 0
    skipped: int = 0
    refused: list[tuple[int, str, str]] = field(default_factory=list)


def _entries(lines: list[tuple[int, str]], found: _Topology) -> list[_TopologyLine]:
    """The switches and blocks of a network; the result of its lines is added to `found`."""
    entries: dict[tuple[str, str], _TopologyLine] = {}
    for number, line in lines:
        if line.startswith(NOTHING) or line.lower().startswith(_OTHER_LINES):
            found.skipped += 1
            continue
        try:
            entry = _parse_entry(number, line)
        except ValueError as error:
            found.refused.append((number, str(error), line))
            continue
        same = entries.setdefault((entry.plugin, entry.name), entry)
        if same is entry:
            continue
        if (same.nodes, same.children) == (entry.nodes, entry.children):
            found.duplicate += 1
        else:
            found.refused.append((number, f"{entry.name} is defined otherwise in line {same.line}", line))
    found.loaded += len(entries)
    return list(entries.values())


def node_path(text: str | None) -> list[str] | None:
    """The path in a node's own `Topology=`: the first network's, without that network's name.

    >>> node_path("topo-tree:spine:leaf1,topo-block:b1"), node_path("(null)")
    (['spine', 'leaf1'], None)
    """
    first = (text or "").split(",")[0].split(":")[1:]
    return [name for name in first if name] or None


def _lines(text: str) -> list[tuple[int, str]]:
    """The lines with something in them, comments apart, counted from 1."""
    plain = ((number, line.partition("#")[0].strip()) for number, line in enumerate(text.split("\n"), start=1))
    return [(number, line) for number, line in plain if line]


def _parse_entry(number: int, line: str) -> _TopologyLine:
    """Parse a line.

    Raises:
        ValueError: It is neither a switch nor a block, or its list cannot be read.
    """
    fields = {key.lower(): value for key, value in _PAIR.findall(line)}
    first = next(iter(fields), "")
    if first not in {"switchname", "blockname", "aggregatedblock"} or not fields[first]:
        message = "neither a switch nor a block"
        raise ValueError(message)
    if not {"nodes", "switches"} & fields.keys():
        message = "neither Nodes nor Switches: the line is cut off"
        raise ValueError(message)
    nodes, children = (tuple(expand(fields.get(key, ""))) for key in ("nodes", "switches"))
    if first == "switchname":
        return _TopologyLine(number, line, "tree", fields[first], nodes, children)
    size = fields.get("blocksize", "")
    return _TopologyLine(
        number, line, "block", fields[first], nodes, size=int(size) if re.fullmatch(r"\d{1,9}", size) else 0
    )


def _tree_paths(
    switches: list[_TopologyLine], origin: str, warnings: list[LoadWarning]
) -> dict[str, tuple[str, list[str]]]:
    above: dict[str, str] = {}
    hung = [(child, switch.name) for switch in switches for child in switch.children]
    twice = sorted({child for child, parent in hung if above.setdefault(child, parent) != parent})
    if twice:
        detail = f"{origin}: {', '.join(twice[:3])} hang on several switches above; the first one counts"
        warnings.append(LoadWarning("several_switches", len(twice), detail))
    way = {switch.name: _way(switch.name, above, origin) for switch in switches}
    homes: dict[str, _TopologyLine] = {}
    for switch in sorted(switches, key=lambda one: (bool(one.children), -len(way[one.name]))):
        for node in switch.nodes:
            homes.setdefault(node, switch)
    leaves = Counter(node for switch in switches if not switch.children for node in switch.nodes)
    several = sorted(node for node, count in leaves.items() if count > 1)
    if several:
        detail = f"{origin}: {len(several)} nodes hang on several switches, {several[0]} first; one counts"
        warnings.append(LoadWarning("several_switches", len(several), detail))
    return {node: ("tree", way[switch.name]) for node, switch in homes.items()}


def _way(name: str, above: Mapping[str, str], origin: str) -> list[str]:
    """From the outermost switch down to this one."""
    way = [name]
    while (parent := above.get(way[-1])) is not None:
        if parent in way:
            circle = " on ".join([*way[way.index(parent) :], parent])
            message = f"{origin}: the switches hang on each other in a circle: {circle}"
            raise InputError(message)
        way.append(parent)
    return way[::-1]


def _block_paths(blocks: Iterable[_TopologyLine]) -> dict[str, list[str]]:
    """A node's blocks, the largest first: aggregated blocks hold other ones."""
    held: dict[str, list[str]] = {}
    for block in sorted(blocks, key=lambda one: (-one.size, -len(one.nodes), one.line)):
        for node in block.nodes:
            held.setdefault(node, []).append(block.name)
    return held
