"""Inventories that lack nodes: a part of one says so, and a record that could not be read removes nobody."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from app.cli import main as cli
from ingest.context import ParseContext
from ingest.load_warnings import messages
from ingest.slurm.parsers import parse
from ingest.slurm.write import write_input
from ingest.store.request import from_file
from queries.warehouse import open_reader, open_writer
from tests.support.slurm.parsing import at

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl

T = 1795280000
"""When the first inventory was made (2026-11-21 16:53:20 UTC)."""

WHOLE = "n1 n2 n3"


def inventory(names: str, *, refused: str = "", gpus: int = 8) -> bytes:
    """What `scontrol show node -o` says of some nodes, one of which has a damaged CfgTRES."""
    lines = [f"NodeName={name} Gres=gpu:{gpus} CPUTot=64 State=IDLE" for name in names.split()]
    return "\n".join([*lines, *([f"NodeName={refused} CfgTRES=cpu=x State=IDLE"] if refused else []), ""]).encode()


def load(root: Path, inputs: Sequence[tuple[int, bytes]]) -> list[list[str]]:
    """Load inventories of some seconds after T; what each load warned of."""
    with open_writer(root, verb="test", now=at(T + 86_400)) as writer:
        return [
            messages(
                write_input(
                    writer,
                    parse("slurm.nodes", data, ParseContext(origin="nodes.txt", cluster="c", until=at(T + seconds))),
                    request=from_file("nodes.txt"),
                    data=data,
                    now=at(T + 86_400),
                    cluster="c",
                ).warnings
            )
            for seconds, data in inputs
        ]


def gone(root: Path) -> dict[str, int | None]:
    """For each node when it was gone, in seconds after T, as metrics see it; None if it is still there."""
    with open_reader(root) as reader:
        nodes = reader.query("nodes", cluster="c")
    newest = nodes["last_seen_at"].max()
    there = set(nodes.filter(nodes["last_seen_at"] == newest)["node"])
    return {
        row["node"]: None if row["gone_at"] is None else int(row["gone_at"].timestamp()) - T
        for row in nodes.to_dicts()
        if row["gone_at"] or row["node"] in there
    }


def node_rows(root: Path) -> pl.DataFrame:
    with open_reader(root) as reader:
        return reader.table("nodes").sort("node", "valid_from")


def test_partial_inventory_is_warned_of_with_its_missing_nodes(tmp_path: Path) -> None:
    warned = load(tmp_path / "w", [(0, inventory(WHOLE)), (100, inventory("n2")), (100, inventory("n2"))])
    output = (
        "this inventory lacks 2 of the 3 nodes loaded before (n1, n3): taken as removed from 2026-11-21 16:55:00 "
        "UTC on. If it was only a part, load a whole one of the same time."
    )
    assert warned == [[], [output], [output]]
    assert gone(tmp_path / "w") == {"n1": 100, "n2": None, "n3": 100}


def test_the_account_of_the_load_and_the_report_keep_the_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, names in enumerate((WHOLE, "n2")):
        path = tmp_path / f"{number}.txt"
        path.write_bytes(inventory(names).replace(b"State", b"BootTime=%d State" % (T + number)))
        assert cli.main(["ingest", "slurm", str(path), "--cluster", "c", "--warehouse", str(tmp_path / "w")]) == 0
    assert "warning: this inventory lacks 2 of the 3 nodes loaded before (n1, n3)" in capsys.readouterr().err
    with open_reader(tmp_path / "w") as reader:
        kept = reader.table("loads").filter(source="slurm.nodes").sort("covers_until")["warnings"].to_list()
    assert [len(warnings) for warnings in kept] == [0, 1]


def test_a_whole_one_of_the_same_time_takes_the_removal_back(tmp_path: Path) -> None:
    warned = load(tmp_path / "w", [(0, inventory(WHOLE)), (100, inventory("n2")), (100, inventory(WHOLE))])
    assert [len(each) for each in warned] == [0, 1, 0]
    assert gone(tmp_path / "w") == dict.fromkeys(WHOLE.split())


def test_the_halves_of_one_time_warn_until_the_last_of_them(tmp_path: Path) -> None:
    warned = load(tmp_path / "w", [(0, inventory(WHOLE)), (100, inventory("n1 n2")), (100, inventory("n3"))])
    assert [len(each) for each in warned] == [0, 1, 0]


def test_node_removed_before_is_not_reported_removed_again(tmp_path: Path) -> None:
    warned = load(tmp_path / "w", [(0, inventory(WHOLE)), (100, inventory("n1 n2")), (200, inventory("n1 n2"))])
    assert [len(each) for each in warned] == [0, 1, 0]


def test_many_missing_nodes_are_counted_and_some_of_them_named(tmp_path: Path) -> None:
    names = " ".join(f"n{number:02}" for number in range(20))
    [_, [output]] = load(tmp_path / "w", [(0, inventory(names)), (100, inventory("n00"))])
    assert "lacks 19 of the 20 nodes loaded before (n01, n02, n03, n04, n05, n06, n07, n08, ...)" in output


def test_a_node_whose_record_was_refused_is_not_removed(tmp_path: Path) -> None:
    warned = load(tmp_path / "w", [(0, inventory(WHOLE)), (100, inventory("n2 n3", refused="n1"))])
    assert warned == [[], []]
    assert gone(tmp_path / "w") == dict.fromkeys(WHOLE.split())


def test_the_next_inventory_that_lacks_such_a_node_removes_it(tmp_path: Path) -> None:
    inputs = [(0, inventory(WHOLE)), (100, inventory("n2 n3", refused="n1")), (200, inventory("n2 n3"))]
    assert [len(each) for each in load(tmp_path / "w", inputs)] == [0, 0, 1]
    assert gone(tmp_path / "w") == {"n1": 200, "n2": None, "n3": None}


@pytest.mark.slow
@pytest.mark.parametrize("other", [8, 4], ids=["as before", "changed"])
def test_loading_order_is_irrelevant_with_a_refused_record(other: int, tmp_path: Path) -> None:
    inputs = [
        (0, inventory(WHOLE)),
        (100, inventory("n2 n3", refused="n1", gpus=other)),
        (200, inventory(WHOLE)),
        (300, inventory(WHOLE)),
    ]
    load(tmp_path / "w", inputs)
    one = node_rows(tmp_path / "w")
    assert one.filter(node="n1").select("valid_from", "last_seen_at").rows() == [(at(T), at(T + 300))]
    assert one.filter(node="n2").height == (1 if other == 8 else 3)
    every = 1 if other == 4 else 3  # of the 24 orders
    for number, order in enumerate(itertools.islice(itertools.permutations(inputs), 0, None, every)):
        load(tmp_path / str(number), order)
        assert node_rows(tmp_path / str(number)).equals(one)
