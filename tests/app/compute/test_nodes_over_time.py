"""From Slurm's texts to the ledger: maintenance by reservation, and nodes that come, change and go."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.claims.watched import WatchedClaims
from app.compute import pipeline as computing
from app.config.settings import Config
from app.explorer.application import Explorer, page
from app.results.nodes.capacity import nodes_by_accounting
from app.results.serving.cache import AnswerCache
from app.service import exporter
from app.show.answer import Question
from app.show.questions.cluster.goodput import goodput as goodput_asked
from app.show.questions.cluster.lost import lost as lost_asked
from app.show.questions.nodes.nodes import nodes as nodes_asked
from app.window import Window
from ingest.context import ParseContext
from ingest.slurm.parsers import parse
from ingest.slurm.write import write_input
from ingest.store.request import from_file
from queries.warehouse import open_reader, open_writer
from tests.app.explorer.test_pages import words
from tests.support.slurm.parsing import at, text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ingest.tables import SourceName

pytestmark = pytest.mark.usefixtures("no_results")

T = 1795280000
"""When accounting and events begin to speak."""

SPAN = 10_000
"""Seconds that they speak for."""

Input = tuple["SourceName", bytes, dict[str, int]]
"""A kind, its text, and `since` and `until` in seconds after T."""

_JOB = {"Submit": T + 100, "Eligible": T + 100, "Start": T + 100, "End": T + 200, "ElapsedRaw": 100}
_PLACE = {"Cluster": "c", "NodeList": "n3", "NNodes": "1", "AllocTRES": "cpu=2,gres/gpu=8,node=1"}
BASIS: list[Input] = [
    (
        "slurm.accounting",
        text({**_PLACE, **{name: str(value) for name, value in _JOB.items()}}),
        {"since": 0, "until": SPAN},
    ),
    (
        "slurm.events",
        b"Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\nc|n3|1795280300|1795280400|DOWN|x|root(0)\n",
        {"since": 0, "until": SPAN},
    ),
]


def nodes(until: int, **gpus: int) -> Input:
    """What `scontrol show node -o` says at a time."""
    lines = (f"NodeName={name} Gres=gpu:h100:{count} CPUTot=64 State=IDLE" for name, count in gpus.items())
    return "slurm.nodes", "\n".join([*lines, ""]).encode(), {"until": until}


def reserved(until: int, *lasting: tuple[str, int, int, str]) -> Input:
    """What `scontrol show reservation -o` says at a time: name, start and end in seconds after T, nodes."""
    lines = (
        f"ReservationName={name} StartTime={T + start} EndTime={T + end} Nodes={where} Flags=MAINT State=ACTIVE"
        for name, start, end, where in lasting
    )
    return "slurm.reservations", "\n".join([*lines, "" if lasting else "No reservations in the system\n"]).encode(), {
        "until": until
    }  # fmt: skip


def was_reserved(since: int, until: int, *lasted: tuple[str, int, int, str]) -> Input:
    """The same as `sacctmgr show reservation` tells it."""
    lines = (f"2|c|{T + end}|MAINT|1|{name}|{where}|{T + start}|cpu=64|0" for name, start, end, where in lasted)
    header = "Assocs|Cluster|TimeEnd|Flags|ID|Name|NodeName|TimeStart|TRES|UnusedWall"
    return "slurm.reservations", "\n".join([header, *lines, ""]).encode(), {"since": since, "until": until}


def warehouse(root: Path, inputs: Sequence[Input], *, compute: bool = True) -> Path:
    now = at(T + SPAN)
    with open_writer(root, verb="test", now=now) as writer:
        for kind, data, window in inputs:
            times = {name: at(T + seconds) for name, seconds in window.items()}  # since and until
            given = ParseContext(origin=kind, cluster="c", **times)  # type: ignore[arg-type]  # its times
            write_input(writer, parse(kind, data, given), request=from_file(kind), data=data, now=now, cluster="c")
        if compute:
            computing.compute(writer, Config(), now=now)
    return root


def spent(root: Path, category: str | None = None) -> dict[str, float]:
    """GPU-seconds of the ledger by node."""
    with open_reader(root) as reader:
        rows = reader.table("gpu_time")
    rows = rows if category is None else rows.filter(pl.col("category") == category)
    return {node: float(total) for node, total in rows.group_by("node").agg(pl.col("gpu_seconds").sum()).rows()}


def tables(root: Path) -> dict[str, list[dict[str, Any]]]:
    with open_reader(root) as reader:
        names = ("nodes", "reservations", "node_states")
        result = {name: reader.table(name) for name in names}
    return {
        name: rows.sort([c for c, t in rows.schema.items() if t != pl.List]).to_dicts() for name, rows in result.items()
    }


THREE = nodes(0, n1=8, n2=8, n3=8)


@pytest.mark.slow
def test_idle_gpus_of_a_maintenance_reservation_are_maintenance(tmp_path: Path) -> None:
    root = warehouse(tmp_path / "w", [*BASIS, THREE, reserved(2000, ("m", 1000, 4000, "n[1-2]"))])
    assert spent(root, "maintenance") == {"n1": 8 * 3000, "n2": 8 * 3000}
    assert spent(root, "down") == {"n3": 8 * 100}
    assert spent(root) == {f"n{i}": 8 * SPAN for i in (1, 2, 3)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("texts", "lasted"),
    [
        pytest.param([reserved(2000, ("m", 1000, 6000, "n1"))], 5000, id="extended"),
        pytest.param([reserved(2000, ("m", 1000, 2500, "n1"))], 1500, id="cut short"),
        pytest.param([reserved(2000)], 1000, id="withdrawn: it lasted until the first list without it"),
        pytest.param([reserved(5000)], 3000, id="over and gone"),
        pytest.param([was_reserved(0, 3000, ("m", 1000, 1700, "n1"))], 700, id="withdrawn, and the history knows when"),
        pytest.param([reserved(2000), was_reserved(0, 3000, ("m", 1000, 1700, "n1"))], 700, id="both"),
        pytest.param([reserved(2000, ("m", 1700, 4000, "n1"))], 3000, id="another record of the name"),
        pytest.param([reserved(2000, ("m", 1700, 4000, "n2"))], 700, id="moved to another node"),
    ],
)
def test_what_becomes_of_a_reservation_counts_in_any_order(tmp_path: Path, texts: list[Input], lasted: int) -> None:
    inputs = [*BASIS, THREE, reserved(1500, ("m", 1000, 4000, "n1")), *texts]
    root = warehouse(tmp_path / "w", inputs)
    assert spent(root, "maintenance")["n1"] == 8 * lasted
    backwards = warehouse(tmp_path / "backwards", [*inputs[::-1], inputs[3]], compute=False)
    assert tables(backwards) == tables(root)


@pytest.mark.slow
def test_reservation_cancelled_before_its_start_has_no_effect(tmp_path: Path) -> None:
    inputs = [*BASIS, THREE, reserved(500, ("m", 1000, 4000, "n1")), reserved(800)]
    assert spent(warehouse(tmp_path / "w", inputs), "maintenance") == {}


@pytest.mark.slow
def test_a_repeated_reservation_counts_where_it_was_listed(tmp_path: Path) -> None:
    lists = [reserved(seen, ("daily", start, start + 500, "n1")) for seen, start in ((100, 1000), (3000, 5000))]
    root = warehouse(tmp_path / "w", [*BASIS, THREE, *lists])
    assert spent(root, "maintenance") == {"n1": 8 * 1000}


@pytest.mark.slow
def test_node_counts_until_an_inventory_lacks_it_and_again_later(tmp_path: Path) -> None:
    """A node exists until the first inventory without it, and again from the one that has it back."""
    inventories = [THREE, nodes(2000, n1=8, n2=8, n3=8), nodes(4000, n1=8, n3=8), nodes(7000, n1=8, n2=4, n3=8)]
    root = warehouse(tmp_path / "w", [*BASIS, *inventories])
    assert spent(root) == {"n1": 8 * SPAN, "n2": 8 * 4000 + 4 * 3000, "n3": 8 * SPAN}


@pytest.mark.slow
def test_a_node_that_grew_has_more_gpus_from_then_on(tmp_path: Path) -> None:
    root = warehouse(tmp_path / "w", [*BASIS, THREE, nodes(6000, n1=16, n2=8, n3=8)])
    assert spent(root)["n1"] == 8 * 6000 + 16 * 4000


@pytest.mark.slow
def test_inventories_in_any_order_are_one_history(tmp_path: Path) -> None:
    inventories = [THREE, nodes(2000, n1=4, n3=8), nodes(4000, n1=8, n2=8, n3=8)]
    result = [
        tables(warehouse(tmp_path / str(number), [*order, order[0]], compute=False))
        for number, order in enumerate(itertools.permutations(inventories))
    ]
    assert all(each == result[0] for each in result)
    assert [(row["node"], row["n_gpus"]) for row in result[0]["nodes"]] == [
        ("n1", 8), ("n1", 4), ("n1", 8), ("n2", 8), ("n2", 8), ("n3", 8),
    ]  # fmt: skip


@pytest.mark.slow
def test_nodes_show_the_last_reason_and_person_of_their_outage(tmp_path: Path) -> None:
    header = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User"
    events = [
        f"c|n1|{T + 300}|{T + 400}|DOWN*|Not responding|slurm(64030)",
        f"c|n1|{T + 500}|{T + 600}|DRAIN|k8s: cordon: GPU fell off the bus|root(0)",
        f"c|n3|{T + 300}|Unknown|DRAIN|swap dimm|bob(1001)",
    ]
    data = "\n".join([header, *events, ""]).encode()
    called_off = [reserved(500, ("m", 1000, 4000, "n2")), reserved(800)]
    inputs: list[Input] = [BASIS[0], ("slurm.events", data, {"since": 0, "until": SPAN}), THREE, *called_off]
    with open_reader(warehouse(tmp_path / "w", inputs)) as reader:
        window = Window("c", at(T), at(T + SPAN))
        answer = nodes_asked(reader, window, Question())
    # what ended a job without naming a node may have been one of them
    assert answer.headline == "No interruption is attributed to one of 3 nodes."
    rows = answer.rows
    assert {row["node"]: (row["last_reason"], row["driven_by"]) for row in rows.to_dicts()} == {
        "n1": ("drained: k8s: cordon: GPU fell off the bus", "kubernetes"),
        "n2": (None, None),
        "n3": ("drained: swap dimm", "person"),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inventory", "output", "share"),
    [
        (nodes(0, n1=8), True, 300 / (SPAN + 300)),  # n3 is known from its job alone
        (nodes(0, n1=8, n3=8), False, 0.0),
        (None, False, 1.0),  # without any inventory the ratios themselves are not given
        (nodes(0, n1=0, n3=0), False, None),  # no capacity at all
    ],
)
def test_node_known_from_accounting_only_is_reported(
    tmp_path: Path, inventory: Input | None, share: float | None, *, output: bool
) -> None:
    """It is reported wherever a number uses its capacity."""
    inputs = [*BASIS, *([inventory] if inventory else [])]
    root = warehouse(tmp_path / "w", inputs)
    with open_reader(root) as reader:
        window = Window("c", at(T), at(T + SPAN))
        notes = [*goodput_asked(reader, window, Question()).notes, *lost_asked(reader, window, Question()).notes]
        sentence = nodes_by_accounting(reader, window)
        exported = exporter.exported(reader, ()).samples
    assert (sentence is not None) is output
    assert sum(note.startswith("One node is in no inventory, only in accounting (") for note in notes) == 2 * output
    assert (
        "in no inventory, only in accounting ("
        in words(page(Explorer(AnswerCache(root), WatchedClaims(None)), "/", "")[2])
    ) is output
    if sentence:  # 8 GPUs from 100 to 400 s, beside 8 for all the time
        assert f"({share:.1%} of the capacity)" in sentence
    shares = [each.value for each in exported if each.family.name == "trackside_capacity_by_accounting_ratio"]
    assert shares == ([pytest.approx(share)] * 2 if share is not None else [])  # all data, and the month
