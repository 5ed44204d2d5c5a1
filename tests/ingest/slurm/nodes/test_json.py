"""Nodes and reservations in JSON: the same result as from text, in every version's words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ingest.context import ParseContext
from ingest.slurm.nodes.inventory import parse_nodes
from ingest.slurm.nodes.inventory_json import parse_nodes_json
from ingest.slurm.nodes.reservations import parse_reservations
from ingest.slurm.nodes.reservations_json import parse_reservations_json
from tests.support.slurm.answers import VERSIONS, answer, node, number
from tests.support.slurm.parsing import DATA

NOW = datetime(2026, 9, 22, tzinfo=UTC)


def test_captured_nodes_equal_their_text() -> None:
    reported = parse_nodes_json(
        (DATA / "nodes.slurmrestd.json").read_bytes(), ParseContext(origin="j", cluster="bench", until=NOW)
    )
    text = parse_nodes(
        (DATA / "nodes-as-text.scontrol.txt").read_bytes(), ParseContext(origin="t", cluster="bench", until=NOW)
    )
    assert reported.rows_loaded == 3
    for name in ("nodes", "node_states"):
        assert reported.frames[name].equals(text.frames[name])
    assert reported.frames["node_states"]["state_raw"].to_list() == ["IDLE+DRAIN"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_node_is_the_same_in_the_words_of_every_version(version: str) -> None:
    found = parse_nodes_json(answer(version, nodes=[node(version)]), ParseContext(origin="x", cluster="bench"))
    (row,) = found.frames["nodes"].to_dicts()
    assert (row["n_gpus"], row["gpu_model"], row["n_cpus"], row["memory_bytes"]) == (8, "h100", 64, 512_000 << 20)
    assert (row["partitions"], row["labels"]) == (["main", "scav"], ["h100", "ib"])
    assert row["valid_from"] == datetime.fromtimestamp(1_790_000_000, UTC)
    (state,) = found.frames["node_states"].to_dicts()
    assert (state["reason"], state["actor"]) == ("bad gpu | 3", "root")
    assert state["started_at"] == datetime.fromtimestamp(1_789_999_000, UTC)


def test_a_bad_node_is_refused_and_the_others_load() -> None:
    nodes = [node(), {"state": ["IDLE"]}, node(name=" "), node(name="n4", gres="gpu:x", tres=""), node(name="n5\nx=1")]
    found = parse_nodes_json(answer(nodes=nodes), ParseContext(origin="x"))
    assert found.rejects["line"].to_list() == [2, 3, 4]
    assert found.rejects["reason"][0] == "object missing required field name"
    assert (found.rows_read, found.rows_loaded) == (5, 2)
    only_bad = parse_nodes_json(answer(nodes=[{}]), ParseContext(origin="x"))
    assert (only_bad.rows_read, only_bad.rows_rejected, only_bad.frames) == (1, 1, {})


@pytest.mark.parametrize("version", VERSIONS)
def test_reservation_equals_its_text_in_the_words_of_any_version(version: str) -> None:
    def when(value: int) -> object:
        return value if version <= "0.0.39" else number(version, value)

    one = {
        "name": "maint1",
        "start_time": when(1_790_000_000),
        "end_time": when(1_790_003_600),
        "node_list": "n[1-2]",
        "node_count": 2,
        "partition": "",
        "flags": ["MAINT", "SPEC_NODES"],
        "users": "root,alice",
        "accounts": "",
    }
    text = (
        b"ReservationName=maint1 StartTime=1790000000 EndTime=1790003600 Duration=01:00:00 Nodes=n[1-2] NodeCnt=2 "
        b"CoreCnt=64 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES TRES=cpu=64 Users=root,alice "
        b"Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null)"
    )
    reported = parse_reservations_json(
        answer(version, reservations=[one]), ParseContext("j", cluster="bench", until=NOW)
    )
    listed = parse_reservations(text, ParseContext("t", cluster="bench", timezone="UTC", until=NOW))
    assert reported.frames["reservations"].equals(listed.frames["reservations"])
    assert reported.frames["reservations"]["maintenance"].to_list() == [True]


def test_no_reservations_and_bad_ones() -> None:
    nobody = parse_reservations_json(answer(reservations=[]), ParseContext("x", until=NOW))
    assert (nobody.rows_read, nobody.rejects.height, set(nobody.clusters)) == (0, 0, {"bench"})
    bad = [{"start_time": 7}, {"name": " "}, {"name": "late", "start_time": 0}]
    found = parse_reservations_json(answer(reservations=bad), ParseContext("x", until=NOW))
    assert found.rejects["line"].to_list() == [1, 2, 3]
    assert (found.rows_read, found.rows_loaded) == (3, 0)
