"""Traps in node lists: products, padding, suffixes, lists that are damaged, lists of thousands."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.support.slurm.parsing import NEVER_RAN, attempt, parse, text
from tests.support.slurm.row_accounts import on_nodes
from tests.support.slurm.traps import Trap, agree, refused, spring, traps


def held(text_: str) -> list[str]:
    """The nodes that a job with this list held."""
    parsed = parse(text({"NodeList": text_, "NNodes": ""}))
    assert parsed.warnings == []
    agree(parsed)
    return on_nodes(parsed)["node"].to_list()


LISTS = [
    ("n1", "n1"),
    ("n1,n2", "n1 n2"),
    ("n[1-2,5]", "n1 n2 n5"),
    ("cpn-f13-03-[01-02],cpn-f13-04-[01-02]", "cpn-f13-03-01 cpn-f13-03-02 cpn-f13-04-01 cpn-f13-04-02"),
    ("d13n[03,05,07-08,16]", "d13n03 d13n05 d13n07 d13n08 d13n16"),
    ("h100-193-[039,041,043]", "h100-193-039 h100-193-041 h100-193-043"),
    ("node[1-2][3-4]", "node13 node14 node23 node24"),
    ("r[1-2]-gpu[08-10]", "r1-gpu08 r1-gpu09 r1-gpu10 r2-gpu08 r2-gpu09 r2-gpu10"),
    (
        "compute-a-[0-1]-b-[3,9-10],compute-c",
        "compute-a-0-b-3 compute-a-0-b-9 compute-a-0-b-10 compute-a-1-b-3 compute-a-1-b-9 compute-a-1-b-10 compute-c",
    ),
    ("n[1-2]-ib", "n1-ib n2-ib"),
    ("n[098-101].cluster.local", "n098.cluster.local n099.cluster.local n100.cluster.local n101.cluster.local"),
    ("x", "x"),
    ("a_b.c-d", "a_b.c-d"),
    ("n[1,1],n1", "n1"),
    (" n[1-2] ", "n1 n2"),
    ("Nodes=n[1-2],m1", "n1 n2 m1"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("written", "nodes"), LISTS)
def test_a_list_is_the_nodes_that_the_job_held(written: str, nodes: str) -> None:
    assert sorted(held(written)) == sorted(nodes.split())


BROKEN = ["gpu[30", "14-15]", "n[3-1]", "n[]", "n[1,,2]", "n[1-2,]", "n[a-b]", "n[1-2]]", "n[1-[2-3]]", "[", "(x)"]
BROKEN += ["a,,b", "a,", ",a", "a b", "a;b", "a/b", "n1\tn2"]
BROKEN += ["n[1-3:2]", "bg[000x111]", "n[²]", "n[-1]", "n[1-]", "n[0-999999999]"]


@pytest.mark.slow
@pytest.mark.parametrize("written", BROKEN)
def test_a_damaged_list_refuses_the_row_and_is_quoted(written: str) -> None:
    assert refused({"NodeList": written}).startswith(f"node list {written!r}: ")


@pytest.mark.parametrize("word", ["None assigned", "none assigned", "(null)", "", "None", "N/A", "Unknown"])
def test_a_word_for_no_node_is_no_node(word: str) -> None:
    got = attempt({**NEVER_RAN, "NodeList": word})
    assert (got["node_list"], got["n_nodes"], got["n_gpus"]) == (None, 0, 0)


def test_a_list_of_thousands_is_expanded_once_for_all_its_jobs() -> None:
    written = ",".join(f"gpu-r{rack:03d}-[{','.join(f'{2 * node:02d}' for node in range(16))}]" for rack in range(256))
    rows = [
        {"JobIDRaw": str(job), "NodeList": written, "NNodes": "4096", "AllocTRES": "gres/gpu=32768"}
        for job in range(1, 9)
    ]
    parsed = parse(text(*rows))
    nodes = on_nodes(parsed)
    assert nodes.height == 8 * 4096
    assert nodes["node"].n_unique() == 4096
    assert nodes["n_gpus"].unique().to_list() == [Decimal(8)]
    agree(parsed)


SPREAD = [
    Trap("even", {"NodeList": "n[1-4]", "NNodes": "4", "AllocTRES": "gres/gpu=32"}, {"n_gpus": 32, "n_nodes": 4}),
    Trap("uneven", {"NodeList": "n[1-3]", "NNodes": "3", "AllocTRES": "gres/gpu=8"}, {"n_gpus": 8, "n_nodes": 3}),
    Trap("fewer GPUs than nodes", {"NodeList": "n[1-4]", "NNodes": "4", "AllocTRES": "gres/gpu=1"}, {"n_gpus": 1}),
    Trap("fractions", {"NodeList": "n[1-3]", "NNodes": "3", "AllocTRES": "gres/gpu=0.5"}, {"n_gpus": Decimal("0.5")}),
    Trap("one name twice", {"NodeList": "n1,n1", "NNodes": "1"}, {"n_nodes": 1, "n_gpus": 16}),
]


@pytest.mark.parametrize("trap", traps(*SPREAD))
def test_the_gpus_of_the_nodes_are_those_of_the_job(trap: Trap) -> None:
    spring(trap)
