"""`trackside show placement` where the network changes under running jobs: nodes moved, renamed and left out."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.app.show.test_placement import HOUR, START, job
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

SACCT = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|NNodes|AllocTRES"
    "|NodeList\n"
    + job(1, "n[1-2]", 1, 9)  # in one block when it began, in two from hour 4 on
    + job(2, "n[3,5]", 2, 9)  # in two, in one from hour 4 on
    + job(3, "n[4,6]", 5, 9)  # n4 is in no block then
    + job(4, "n[1-2]", 9, 10)  # in one again, of another name
)
NODES = "".join(
    f"NodeName=n{number} CPUTot=64 Gres=gpu:h100:2 State=IDLE Partitions=main,debug\n\n" for number in range(1, 7)
)


def blocks(*lists: str) -> str:
    return "".join(
        f"BlockName=b{number} BlockIndex={number} Nodes={nodes} BlockSize=2\n" for number, nodes in enumerate(lists, 1)
    )


TREE = "".join(
    f"SwitchName=l{number} Level=0 LinkSpeed=1 Nodes={nodes}\n" for number, nodes in enumerate(("n[1-4]", "n[5-6]"))
)
NETWORK = ((0, blocks("n[1-2]", "n[3-4]", "n[5-6]")), (4, blocks("n[1,6]", "n2", "n[3,5]")), (8, TREE))
"""Hours, and what `scontrol show topology` printed then."""


@pytest.fixture(scope="module", params=[1, -1], ids=["forwards", "backwards"])
def warehouse(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    root = tmp_path_factory.mktemp("moved")
    texts = {"sacct": (10, SACCT), "nodes": (0, NODES)} | {f"network-{hour}": (hour, text) for hour, text in NETWORK}
    for name, (hour, text) in list(texts.items())[:: request.param]:
        (root / name).write_text(text)
        until = datetime.fromtimestamp(START + hour * HOUR, UTC).isoformat()
        done = trackside(
            "ingest", "slurm", str(root / name), "--cluster", "c", "--until", until, "--warehouse", str(root / "w")
        )
        assert done.returncode == 0, done.stderr
    assert trackside("compute", "--warehouse", str(root / "w")).returncode == 0
    return root / "w"


def shown(warehouse: Path, by: str, *more: str) -> dict[str, dict[str, Any]]:
    done = trackside("show", "placement", "--by", by, "--format", "json", *more, "--warehouse", str(warehouse))
    assert done.returncode == 0, done.stderr
    subject = "block" if by == "block" else "subject"
    return {row[subject]: row for row in json.loads(done.stdout)}


@pytest.mark.slow
def test_attempts_are_placed_by_the_network_at_their_start(warehouse: Path) -> None:
    found = {run.split("-")[0]: (row["n_known"], row["spanned"]) for run, row in shown(warehouse, "run").items()}
    assert found == {"1": (1, 1), "2": (1, 2), "3": (0, None), "4": (1, 1)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hour", "expected"),
    [
        (3, {"b1": (2, 1, 0), "b2": (2, 1, 1), "b3": (2, 1, 1)}),
        (7, {"b1": (2, 2, 2), "b2": (1, 1, 1), "b3": (2, 1, 0), "(unknown)": (1, 1, 1)}),
        (10, {"l0": (4, 1, 0), "l1": (2, 0, 0)}),
    ],
)
def test_blocks_are_those_of_the_moment(warehouse: Path, hour: int, expected: dict[str, tuple[int, int, int]]) -> None:
    until = datetime.fromtimestamp(START + hour * HOUR, UTC).strftime("%Y-%m-%dT%H:%M")
    found = shown(warehouse, "block", "--until", until)
    assert {name: (row["nodes"], row["attempts"], row["across"]) for name, row in found.items()} == expected
