"""Where nodes hang in the network: the texts of tree and block, and what is wrong with some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.context import ParseContext
from ingest.errors import InputError, UnrecognisedInputError
from ingest.slurm.detect import detect_kind
from ingest.slurm.nodes.topology import node_path, parse_topology
from ingest.tables import NODE_TOPOLOGY, Parsed
from tests.support.slurm.parsing import at, refusals

if TYPE_CHECKING:
    from datetime import datetime

NOW = at(1795281830)

TREE = """\
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-2]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[3-4]
SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=leaf[1-2]
"""
"""`scontrol show topology` of Slurm 22.05.8."""

CONF = """\
# the network
SwitchName=leaf1 Nodes=n[1-2]   # row A
switchname=leaf2 nodes=n[3-4]
SwitchName=spine Switches=leaf[1-2]
"""
"""The same as a topology.conf."""

BLOCKS = """\
BlockName=b0 BlockIndex=0 Nodes=n[1-2] BlockSize=2
BlockName=b1 BlockIndex=1 Nodes=n[3-4] BlockSize=2
AggregatedBlock=b[0-1] BlockIndex=2 Nodes=n[1-4] BlockSize=4
"""
"""`scontrol show topology` with topology/block, as of Slurm 25.05."""


def read(text: str, *, until: datetime | None = NOW) -> Parsed:
    return parse_topology(text.encode(), ParseContext("topology.txt", cluster="c", until=until))


def places(parsed: Parsed) -> dict[str, tuple[str, str]]:
    rows = parsed.frames["node_topology"].select("node", "plugin", "path").rows()
    return {node: (plugin, " > ".join(path)) for node, plugin, path in rows}


@pytest.mark.parametrize("text", [TREE, CONF])
def test_a_tree_is_the_same_from_the_command_and_from_the_file(text: str) -> None:
    parsed = read(text)
    assert places(parsed) == {
        "n1": ("tree", "spine > leaf1"),
        "n2": ("tree", "spine > leaf1"),
        "n3": ("tree", "spine > leaf2"),
        "n4": ("tree", "spine > leaf2"),
    }
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected, parsed.warnings) == (3, 3, 0, [])
    assert dict(parsed.frames["node_topology"].schema) == NODE_TOPOLOGY
    assert parsed.covers_from == parsed.covers_until == NOW


def test_three_levels_are_listed_from_the_outside_in() -> None:
    text = "SwitchName=l Nodes=n1\nSwitchName=s Switches=l\nSwitchName=core Switches=s\n"
    assert places(read(text)) == {"n1": ("tree", "core > s > l")}


def test_blocks_hang_below_the_larger_ones_that_hold_them() -> None:
    assert places(read(BLOCKS)) == {
        "n1": ("block", "b[0-1] > b0"),
        "n2": ("block", "b[0-1] > b0"),
        "n3": ("block", "b[0-1] > b1"),
        "n4": ("block", "b[0-1] > b1"),
    }


def test_block_file_has_its_sizes_in_a_line_that_is_skipped() -> None:
    parsed = read("BlockName=b0 Nodes=n[1-2]\nBlockSizes=2,4\n")
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_skipped) == (2, 1, 1)
    assert places(parsed)["n1"] == ("block", "b0")


YAML = """\
---
- topology: fat
  cluster_default: false
  tree:
    switches:
      - switch: root
        children: s[1-2]
      - switch: s1
        nodes: n[1-2]
      - switch: s2
        nodes: n[3-5]
- topology: racks
  cluster_default: true
  block:
    block_sizes: [2, 4]
    blocks:
      - block: b1
        nodes: n[1-2]
      - block: b2
        nodes: n[3-4]
- topology: rest
  flat: true
"""


def test_yaml_has_the_clusters_own_network_first() -> None:
    parsed = read(YAML)
    assert detect_kind(YAML.encode()) == "slurm.topology"
    assert places(parsed) == {
        "n1": ("block", "b1"), "n2": ("block", "b1"), "n3": ("block", "b2"), "n4": ("block", "b2"),
        "n5": ("tree", "root > s2"),
    }  # fmt: skip
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected) == (5, 5, 0)


def test_yaml_refuses_parts_that_are_none() -> None:
    text = YAML.replace("nodes: n[3-4]", "nodes: 'n3 n4'").replace("- switch: s1", "- swich: s1")
    parsed = read(text)
    assert (parsed.rows_loaded, parsed.rows_rejected) == (3, 2)
    assert set(places(parsed)) == {"n1", "n2", "n3", "n4", "n5"}


def test_of_several_networks_a_nodes_first_one_counts() -> None:
    assert {plugin for plugin, _ in places(read(TREE + BLOCKS)).values()} == {"tree"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("SwitchName=leaf9 Nodes=n[1-", "node list 'n[1-': unbalanced bracket"),
        ("SwitchName=leaf9 Nodes=n[9-7]", "node list 'n[9-7]': '9-7' is not a range"),
        ("SwitchName=leaf9 Level=0 Li", "neither Nodes nor Switches: the line is cut off"),
        ("slurm_load_topology error: something", "neither a switch nor a block"),
        ("SwitchName=leaf1 Nodes=n7", "leaf1 is defined otherwise in line 1"),
    ],
)
def test_a_broken_line_is_refused_alone(line: str, reason: str) -> None:
    parsed = read(TREE + line + "\n")
    assert refusals(parsed) == [(4, reason)]
    assert len(places(parsed)) == 4


def test_repeated_switch_is_one() -> None:
    parsed = read(TREE + TREE)
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_duplicate) == (6, 3, 3)


def test_switches_in_a_circle_are_an_error_and_no_endless_way() -> None:
    with pytest.raises(InputError, match=r"circle: .*a on b on a|circle: .*b on a on b"):
        read("SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Switches=a\n")
    with pytest.raises(InputError, match="circle: a on a"):
        read("SwitchName=a Nodes=n1 Switches=a\n")


def test_switch_with_two_parents_and_node_on_two_leaves_warn() -> None:
    parsed = read("SwitchName=l Nodes=n1\nSwitchName=m Nodes=n1\nSwitchName=a Switches=l\nSwitchName=b Switches=l\n")
    assert places(parsed) == {"n1": ("tree", "a > l")}
    assert len(parsed.warnings) == 2


def test_a_text_without_a_date_must_be_dated() -> None:
    with pytest.raises(InputError, match="--until"):
        read(TREE, until=None)


def test_a_flat_network_is_no_error() -> None:
    text = "No topology information available\n"
    parsed = read(text)
    assert (parsed.rows_read, parsed.rows_skipped, places(parsed)) == (1, 1, {})
    assert detect_kind(text.encode()) == "slurm.topology"


def test_another_text_is_no_topology() -> None:
    with pytest.raises(UnrecognisedInputError, match="hello"):
        read("hello\n")


@pytest.mark.parametrize("text", [TREE, CONF, BLOCKS])
def test_it_is_detected_by_its_beginning(text: str) -> None:
    assert detect_kind(text.encode()) == "slurm.topology"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("default:leaf1", ["leaf1"]),
        ("topo-tree:spine:leaf1,topo-block:b1", ["spine", "leaf1"]),
        ("(null)", None),
        ("", None),
        (None, None),
    ],
)
def test_a_nodes_own_word_on_its_place_is_a_path(text: str | None, path: list[str] | None) -> None:
    assert node_path(text) == path


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_cut_or_change_is_read_or_refused_and_counted(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from([TREE, CONF, BLOCKS]))
    place = data.draw(st.integers(0, len(whole)))
    text = whole[:place] + data.draw(st.sampled_from(["", "=", "\n", "[", "Switches=spine", "SwitchName=leaf1", "#"]))
    text += data.draw(st.sampled_from(["", whole[place:], whole[place + 3 :]]))
    try:
        parsed = read(text)
    except InputError:
        return
    reported = (parsed.rows_loaded, parsed.rows_duplicate, parsed.rows_skipped, parsed.rows_rejected)
    assert parsed.rows_read == sum(reported)
