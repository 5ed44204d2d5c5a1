from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from ingest.context import ParseContext
from ingest.delimited.repair import doubted
from ingest.errors import InputError, MissingColumnError, TimeZoneError, UnrecognisedInputError
from ingest.load_warnings import messages
from ingest.node_reasons import driver
from ingest.slurm.commands.runner import Completed
from ingest.slurm.nodes.events import node_state
from ingest.slurm.nodes.inventory import (
    SETTINGS,
    fetch_reservation_history,
    fetch_reservations,
    fetch_topology,
    parse_events,
    parse_nodes,
    parse_settings,
)
from ingest.tables import NODE_STATES, NODES, Parsed
from tests.support.slurm.parsing import DATA, at, refusals

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADER = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User"


def events(*lines: str, header: str = HEADER, **options: Any) -> Parsed:
    return parse_events("\n".join([header, *lines, ""]).encode(), ParseContext(origin="events.txt", **options))


def states(parsed: Parsed) -> list[dict[str, Any]]:
    return parsed.frames["node_states"].to_dicts()


# --- events -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["events.sacctmgr.txt", "events-utc.sacctmgr.txt"])
def test_the_events_of_real_slurm_are_read_in_both_forms(name: str) -> None:
    parsed = parse_events((DATA / name).read_bytes(), ParseContext(origin=name, timezone="UTC"))
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_skipped, parsed.rows_rejected) == (5, 4, 1, 0)
    assert dict(parsed.frames["node_states"].schema) == NODE_STATES
    down, drained, _, broken = states(parsed)
    assert (down["node"], down["state"], down["state_raw"], down["planned"]) == ("n2", "down", "DOWN*", False)
    assert down["started_at"] == down["ended_at"] == at(1795247806)
    assert (drained["state"], drained["planned"], drained["reason"]) == ("maintenance", True, "maintenance window")
    assert (broken["reason"], broken["actor"]) == ('bad "dimm"|slot 3', "root(0)")


def test_row_of_the_cluster_itself_dates_the_first_events() -> None:
    parsed = parse_events((DATA / "events.sacctmgr.txt").read_bytes(), ParseContext(origin="x"))
    assert (parsed.covers_from, parsed.covers_until) == (at(1795247784), at(1795247903))


def test_an_event_that_lasts_has_no_end() -> None:
    [row] = states(events("c|n1|1795247806|Unknown|DOWN*|Not responding|root(0)"))
    assert row["ended_at"] is None


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("DOWN", "down"),
        ("DOWN*", "down"),
        ("FAIL", "down"),
        ("FAILING*", "down"),
        ("ERROR", "down"),
        ("DOWN+NOT_RESPONDING", "down"),
        ("DRAIN", "drained"),
        ("drained*", "drained"),
        ("DRAINING", "drained"),
        ("MIXED+DRAIN", "drained"),
        ("IDLE+DRAIN~", "drained"),
        ("MAINT", "maintenance"),
        ("IDLE+MAINTENANCE+RESERVED", "maintenance"),
        ("DOWN+POWERED_DOWN", "maintenance"),
        ("POWERING_UP#", "maintenance"),
        ("REBOOT_ISSUED^", "maintenance"),
        ("UNK", "unknown"),
        ("QUANTUM", "unknown"),
        ("idle~", None),
        ("allocated+", None),
        ("mixed-", None),
        ("IDLE+NOT_RESPONDING", None),
        ("IDLE+PLANNED", None),
    ],
)
def test_states_of_nodes_lose_their_marks(text: str, state: str | None) -> None:
    assert node_state(text) == state


@pytest.mark.parametrize(
    ("raw", "state"), [("2049", "down"), ("514", "drained"), ("1", "down"), ("0", "unknown"), ("2", None)]
)
def test_numeric_state_is_used_without_a_word(raw: str, state: str | None) -> None:
    assert node_state("", raw) == state


@pytest.mark.parametrize(
    ("reason", "planned"),
    [
        ("Maintenance window", True),
        ("maint: firmware", True),
        ("OS upgrade", True),
        ("planned work", True),
        ("Reboot ASAP : kernel", True),
        ("[compute_maintenance] node replacement process", True),
        ("k8s: cordon: scheduled maintenance", True),
        ("slurm-operator: Kubernetes upgrade", True),
        ("k8s: cordon: GPU fell off the bus", False),
        ("k8s: pod terminated: cordon: x", False),
        ("slurm-operator: Pod is terminating", False),
        ("[node_problem] Failed ib-gpu-perf: job 7 [slurm_job]", False),
        ("prolog pre-hook failed (sunk:verify-undrain)", False),
        ("unplanned outage", False),
        ("Not responding", False),
        ("", False),
    ],
)
def test_a_planned_reason_makes_it_maintenance(reason: str, planned: bool) -> None:
    [row] = states(events(f"c|n1|1795247806|Unknown|DRAIN|{reason}|bob"))
    assert (row["planned"], row["state"]) == (planned, "maintenance" if planned else "drained")


@pytest.mark.parametrize(
    ("reason", "actor", "who"),
    [
        ("k8s: cordon: GPU fell off the bus", "root(0)", "kubernetes"),
        ("k8s: pod terminated: cordon: x", "root", "kubernetes"),
        ("prolog pre-hook failed (sunk:verify-undrain)", "root", "kubernetes"),
        ("alice: swap sunk:verify-undrain", "alice(2001)", "kubernetes"),
        ("slurm-operator: (GpuCountMismatch: has 3, expected 4)", "slurm(64030)", "kubernetes"),
        ("[compute_maintenance] node reboot process", None, "kubernetes"),
        ("[node_problem] compute_maintenance: node reboot process", None, "kubernetes"),
        ("Soperator auto-healing: node replacement process", None, "kubernetes"),
        ("[node_problem] Failed ib-gpu-perf: job 7 [slurm_job]", "root", "health_check"),
        ("[HC] All reduce perf nccl failed", "root", "health_check"),
        ("NHC: check_hw_physmem: too little", "root", "health_check"),
        ("Not responding", "slurm(64030)", "slurm"),
        ("Kill task failed", "root", "slurm"),
        ("gres/gpu count reported lower than configured (7 < 8)", "root", "slurm"),
        ("Reboot ASAP : kernel", "bob(1001)", "slurm"),
        ("swap dimm", "bob(1001)", "person"),
        ("swap dimm", "root(0)", None),
        ("swap dimm", None, None),
        (None, None, None),
        ("risk8s: none", "root", None),
    ],
)
def test_reason_text_names_who_took_the_node_out(reason: str | None, actor: str | None, who: str | None) -> None:
    assert driver(reason, actor) == who


def test_what_counts_as_planned_can_be_set() -> None:
    [row] = states(events("c|n1|1795247806|Unknown|DOWN|swap dimm|bob", planned_reasons=[r"\bswap\b"]))
    assert row["planned"]
    with pytest.raises(InputError, match="planned_reasons"):
        events("c|n1|1795247806|Unknown|DOWN|x|bob", planned_reasons=["["])


def test_the_same_event_twice_is_one_and_its_end_is_kept() -> None:
    lasting = "c|n1|1795247806|Unknown|DOWN*|Not responding|root(0)"
    for lines in (
        (lasting, lasting.replace("Unknown", "1795247900")),
        (lasting.replace("Unknown", "1795247900"), lasting),
    ):
        parsed = events(*lines)
        assert (parsed.rows_loaded, parsed.rows_duplicate) == (1, 1)
        assert states(parsed)[0]["ended_at"] == at(1795247900)


def test_rows_of_a_node_in_service_are_skipped() -> None:
    parsed = events("c|n1|1795247806|Unknown|IDLE||", "c|n2|1795247806|Unknown|PLANNED||")
    assert (parsed.rows_loaded, parsed.rows_skipped, parsed.rows_rejected) == (0, 2, 0)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("c|n1|Unknown|Unknown|DOWN|x|r", "no TimeStart"),
        ("c|n1|soon|Unknown|DOWN|x|r", "timestart: not a time: 'soon'"),
        ("c|n1|1795247806|1795247800|DOWN|x|r", "TimeEnd is before TimeStart"),
        ("|n1|1795247806|Unknown|DOWN|x|r", "no cluster name"),
        ("c|n1|1795247806|Unknown||x|r", "no state"),
        ("c|n1|1795247806", "3 fields, expected 7"),
    ],
)
def test_impossible_events_are_refused(line: str, reason: str) -> None:
    assert refusals(events(line)) == [(2, reason)]


def test_columns_may_be_any_subset_with_the_times() -> None:
    [row] = states(events("n1|1795247806|1795247807|514", header="NodeName|TimeStart|TimeEnd|StateRaw", cluster="c"))
    assert (row["cluster"], row["state"], row["state_raw"], row["actor"]) == ("c", "drained", "514", None)
    with pytest.raises(MissingColumnError, match="TimeStart, TimeEnd, State or StateRaw, Cluster"):
        events("n1|x", header="NodeName|Reason")


def test_local_event_times_need_a_zone() -> None:
    with pytest.raises(TimeZoneError):
        events("c|n1|2026-11-21T08:00:00|Unknown|DOWN|x|r")


def test_event_across_the_autumn_change_ends_after_it_begins() -> None:
    [row] = states(events("c|n1|2026-10-25T02:50:00|2026-10-25T02:10:00|DOWN|x|r", timezone="Europe/Berlin"))
    assert (row["ended_at"] - row["started_at"]).total_seconds() == 20 * 60


# --- nodes --------------------------------------------------------------------------------------------


def nodes(text: str, **options: Any) -> Parsed:
    return parse_nodes(text.encode(), ParseContext(origin="nodes.txt", cluster="c", **options))


def test_the_inventory_of_real_slurm_is_read() -> None:
    parsed = parse_nodes(
        (DATA / "nodes.scontrol.txt").read_bytes(), ParseContext(origin="x", cluster="bench", timezone="UTC")
    )
    assert dict(parsed.frames["nodes"].schema) == NODES
    rows = parsed.frames["nodes"].to_dicts()
    assert [row["node"] for row in rows] == ["n1", "n3", "n6"]
    assert rows[2] == {
        "cluster": "bench",
        "node": "n6",
        "valid_from": at(1795247833),
        "last_seen_at": at(1795247833),
        "n_gpus": Decimal(4),
        "gpu_model": "a100",
        "n_cpus": 32,
        "memory_bytes": 256000 * 2**20,
        "partitions": ["scav"],
        "topology": None,
        "labels": ["a100"],
        "evidence": "accounting",
    }
    down, draining = states(parsed)
    assert (down["node"], down["state"], down["started_at"], down["ended_at"]) == ("n1", "down", at(1795247658), None)
    assert (down["reason"], down["actor"], down["source"]) == ("Not responding", "root", "slurm.nodes")
    assert (draining["node"], draining["state"], draining["planned"]) == ("n3", "maintenance", True)


def test_one_line_records_with_epochs_are_equal() -> None:
    one = parse_nodes((DATA / "nodes-o.scontrol.txt").read_bytes(), ParseContext(origin="x", cluster="bench"))
    assert one.frames["nodes"]["valid_from"].to_list() == [at(1795247658)]
    assert states(one)[0]["reason"] == "Not responding"


def test_gpus_come_from_gres_where_cfgtres_has_none() -> None:
    text = "NodeName=n1 Gres=gpu:volta:8(S:0-1) CPUTot=64 BootTime=1795247658 CfgTRES=cpu=64,mem=1G\n"
    [row] = nodes(text).frames["nodes"].to_dicts()
    assert (row["n_gpus"], row["gpu_model"]) == (8, "volta")


def test_a_reason_may_hold_anything() -> None:
    text = (
        "NodeName=n1 OS=Linux 6.1 #1 SMP State=DOWN+DRAIN BootTime=1795247658 "
        "Reason=Prolog error: State=bad [x] [root@1795247700]\n   Comment=see a|b\n"
    )
    [row] = states(nodes(text))
    assert row["reason"] == "Prolog error: State=bad [x]"
    assert (row["state"], row["actor"], row["started_at"]) == ("down", "root", at(1795247700))


def test_node_without_a_stamp_is_out_since_it_was_seen() -> None:
    [row] = states(nodes("NodeName=n1 State=FAIL BootTime=1795247658\n", until=at(1795249999)))
    assert (row["started_at"], row["reason"]) == (at(1795249999), None)


def test_an_inventory_without_any_time_must_be_dated() -> None:
    with pytest.raises(InputError, match="--until"):
        nodes("NodeName=n1 State=IDLE\n")
    assert nodes("NodeName=n1 State=IDLE\n", until=at(1795249999)).covers_until == at(1795249999)


def test_a_node_with_a_damaged_tres_is_refused_alone() -> None:
    parsed = nodes("NodeName=n1 BootTime=1795247658 CfgTRES=cpu=x\n\nNodeName=n2 Gres=gpu:2\n")
    assert refusals(parsed) == [(1, "TRES item 'cpu=x'")]
    assert parsed.frames["nodes"]["node"].to_list() == ["n2"]


@pytest.mark.parametrize("gpus", ["Gres=gpu:999999", "CfgTRES=cpu=8,gres/gpu=999999999", "Gres=gpu:257"])
def test_node_with_impossibly_many_gpus_is_refused_alone(gpus: str) -> None:
    text = (
        f"NodeName=n1 State=IDLE {gpus} BootTime=1795240000\nNodeName=n2 State=IDLE Gres=gpu:256 BootTime=1795240000\n"
    )
    parsed = parse_nodes(text.encode(), ParseContext(origin="nodes.txt", cluster="c"))
    assert parsed.frames["nodes"].select("node", "n_gpus").rows() == [("n2", Decimal(256))]
    ((_, reason),) = refusals(parsed)
    assert "GPUs in a node cannot be (at most 256: nodes have 4 to 16 GPUs" in reason


def test_a_node_has_no_more_cpus_and_memory_than_a_node_can_have() -> None:
    text = "NodeName=n1 State=IDLE CPUTot=2147483648 RealMemory=999999999999 BootTime=1795240000\n"
    (node,) = parse_nodes(text.encode(), ParseContext(origin="nodes.txt", cluster="c")).frames["nodes"].to_dicts()
    assert (node["n_cpus"], node["memory_bytes"]) == (None, None)


def test_repeated_node_is_one_row() -> None:
    parsed = nodes("NodeName=n1 BootTime=1795247658\nNodeName=n1 BootTime=1795247658\n")
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_duplicate) == (2, 1, 1)


def test_newer_versions_give_the_topology_of_a_node() -> None:
    text = "NodeName=n1 BootTime=1795247658 Topology=topo-tree:spine:leaf1,topo-block:b1\n"
    assert nodes(text).frames["nodes"]["topology"].to_list() == [["spine", "leaf1"]]


def test_no_record_is_no_inventory() -> None:
    with pytest.raises(UnrecognisedInputError, match="hello"):
        nodes("hello\n")


# --- settings -----------------------------------------------------------------------------------------


def test_settings_are_kept_without_units_and_without_secrets() -> None:
    parsed = parse_settings((DATA / "config.scontrol.txt").read_bytes(), ParseContext(origin="x"))
    kept = dict(parsed.frames["cluster_settings"].select("name", "value").rows())
    assert parsed.clusters == {"bench"}
    assert set(kept) == set(SETTINGS)
    assert (kept["KillWait"], kept["MinJobAge"], kept["SlurmdTimeout"]) == ("3", "3600", "10")
    assert kept["AuthInfo"] == "cred_expire=5"
    assert "gres/gpu" in kept["AccountingStorageTRES"]
    assert parsed.rows_read == parsed.rows_loaded + parsed.rows_skipped


def test_settings_that_are_not_set_are_left_out() -> None:
    parsed = parse_settings(b"ClusterName = c\nAuthInfo = (null)\nPreemptType = (null)\n", ParseContext(origin="x"))
    assert parsed.frames["cluster_settings"]["name"].to_list() == ["ClusterName"]


def test_settings_without_a_cluster_need_one() -> None:
    with pytest.raises(MissingColumnError, match="--cluster"):
        parse_settings(b"KillWait = 30 sec\n", ParseContext(origin="x"))
    assert parse_settings(b"KillWait = 30 sec\n", ParseContext(origin="x", cluster="c")).clusters == {"c"}


def test_another_text_is_no_configuration() -> None:
    with pytest.raises(UnrecognisedInputError, match="scontrol show config"):
        parse_settings(b"hello\n", ParseContext(origin="x"))


# --- live ---------------------------------------------------------------------------------------------


def test_the_network_and_the_reservations_are_requested() -> None:
    requested: list[list[str]] = []

    def runner(command: list[str], _: Mapping[str, str]) -> Completed:
        requested.append(command)
        return Completed(0, b"x", b"")

    fetch_topology(runner)
    fetch_reservations(runner)
    window = {"since": at(1795247700), "until": at(1795250000)}
    got = fetch_reservation_history(runner, **window, clusters=["a", "b"])
    assert requested[:2] == [["scontrol", "show", "topology"], ["scontrol", "show", "reservation", "-o"]]
    assert requested[2][:7] == [
        *("sacctmgr", "-P", "show", "reservation", "Clusters=a,b"),
        *("Start=2026-11-21T07:55:00", "End=2026-11-21T08:33:20"),
    ]
    assert {"Associations", "Flags", "NodeNames", "UnusedWall"} < set(
        requested[2][7].removeprefix("Format=").split(",")
    )
    assert got.data == b"x"
    with pytest.raises(InputError, match="empty"):
        fetch_reservation_history(runner, since=window["until"], until=window["since"])


def test_sacctmgr_text_in_doubt_gets_no_advice_for_sacct_only() -> None:
    doubts: Counter[tuple[str, ...]] = Counter({("Info", "Where"): 2})
    assert "--delimiter" in doubted(doubts)[0].message
    [output] = messages(doubted(doubts, of_sacct=False))
    assert output.startswith("2 rows: the text that holds the delimiter is ambiguous")
    assert "--delimiter" not in output
