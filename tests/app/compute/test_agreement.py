"""Slurm's events and Kubernetes' objects of one cluster, loaded as they come: each disagreement at its known time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from queries.warehouse import open_reader
from tests.support.command import trackside
from tests.support.kubernetes.objects import Object, as_list, at, moment, owner, pod

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("no_results")

SACCT = (
    "JobID", "JobIDRaw", "Cluster", "Partition", "Account", "User", "Submit", "Eligible", "Start", "End", "State",
    "ExitCode", "NNodes", "AllocTRES", "NodeList", "JobName",
)  # fmt: skip
NAMES = ("gpu-0", "gpu-1", "gpu-2", "gpu-3")
END = 800


def epoch(minutes: float) -> int:
    return int(moment(minutes).timestamp())


def job(number: int, node: str, start: float, end: float, state: str = "COMPLETED") -> str:
    shown = dict.fromkeys(SACCT, "") | {
        "JobID": number, "JobIDRaw": number, "Cluster": "c", "Partition": "main", "Account": "lab", "User": "alice",
        "Submit": epoch(start), "Eligible": epoch(start), "Start": epoch(start), "End": epoch(end), "State": state,
        "ExitCode": "0:0", "NNodes": 1, "AllocTRES": "gres/gpu=8,node=1", "NodeList": node, "JobName": "train",
    }  # fmt: skip
    return "|".join(str(shown[name]) for name in SACCT)


def host(name: str, seen: float, *, since: float = 0, ready: bool = True, cordoned: float | None = None) -> Object:
    condition = {"type": "Ready", "status": "True" if ready else "Unknown", "lastTransitionTime": at(since),
                 "lastHeartbeatTime": at(seen), "reason": "KubeletReady" if ready else "NodeStatusUnknown"}  # fmt: skip
    taint = {"key": "node.kubernetes.io/unschedulable", "timeAdded": at(cordoned or 0)}
    fault = {"key": "example.com/triage", "timeAdded": at(cordoned or 0)}
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "creationTimestamp": at(0)},
        "spec": {"unschedulable": True, "taints": [taint, fault]} if cordoned is not None else {},
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "conditions": [condition]},
    }


def slurmd(number: int, *, on: str | None = None, created: float = 0, changed: Object | None = None) -> Object:
    made = pod(
        f"gpu-{number}", above=owner("NodeSet", "gpu"), node=on or f"host-{number}", created=created, scheduled=created
    )
    made["metadata"] |= changed or {}
    return made


def looks() -> list[bytes]:
    """What lists and a watch of the API printed, in their order."""
    pods = [slurmd(n) for n in range(4)]
    going = {"deletionTimestamp": at(501), "deletionGracePeriodSeconds": 60}
    last = [slurmd(0), slurmd(1, on="host-9", created=720), slurmd(2), slurmd(3, changed=going)]

    def nodes(seen: float, first: Object, *, since: float = 0, ready: bool = True) -> list[Object]:
        other = host("host-1", seen, since=since, ready=ready)
        return [first, other, *(host(name, seen) for name in ("host-2", "host-3", "host-9"))]

    removed = json.dumps({"type": "DELETED", "object": slurmd(1, changed={"deletionTimestamp": at(700)})}).encode()
    return [
        as_list(*nodes(90, host("host-0", 90)), *pods),
        as_list(*nodes(200, host("host-0", 200, cordoned=100)), *pods),
        as_list(*nodes(210, host("host-0", 210)), *pods),
        as_list(*nodes(310, host("host-0", 310), since=300, ready=False), *pods),
        as_list(*nodes(410, host("host-0", 410), since=330), *pods[:3], slurmd(3)),
        removed,
        as_list(*nodes(END, host("host-0", END), since=330), *last),
    ]


def slurm_files(folder: Path) -> list[str]:
    jobs = [job(1, "gpu-0", 50, 130), job(2, "gpu-1", 290, 320), job(3, "gpu-3", 480, 790), job(4, "gpu-2", 10, END)]
    events = [
        "Cluster|NodeName|TimeStart|TimeEnd|State|StateRaw|Reason|User",
        f"c||{epoch(0)}|Unknown||0|Cluster Registered TRES|",
        f"c|gpu-0|{epoch(130)}|{epoch(240)}|DRAIN|514|k8s: cordon: needs triage|root(0)",
        f"c|gpu-2|{epoch(400)}|{epoch(460)}|DOWN*|2049|Not responding|slurm(64030)",
    ]
    shown = (
        "NodeName={} Arch=x86_64 CPUTot=96 Gres=gpu:h100:8 CfgTRES=cpu=96,mem=1T,gres/gpu=8 State={} Partitions=main{}"
    )
    drain = f" Reason=k8s: cordon: needs triage [root@{epoch(103)}]"
    lines = [shown.format(n, "MIXED+DRAIN" if n == "gpu-0" else "IDLE", drain if n == "gpu-0" else "") for n in NAMES]
    start = [shown.format(n, "IDLE", "") for n in NAMES]
    texts = {"sacct.txt": ["|".join(SACCT), *jobs], "events.txt": events, "nodes.txt": lines, "start.txt": start}
    for name, content in texts.items():
        (folder / name).write_text("\n".join(content) + "\n")
    return [str(folder / name) for name in texts]


def load(root: Path, folder: Path, objects: list[bytes], *, slurm_last: bool = False) -> None:
    where = ("--warehouse", str(root))

    def slurm() -> None:
        sacct, events, nodes, start = slurm_files(folder)
        named = ("--cluster", "c", "--timezone", "UTC")
        for until, files in ((END, (sacct, events)), (0, (start,)), (104, (nodes,))):
            done = trackside("ingest", "slurm", *files, *named, "--until", at(until), *where)
            assert done.returncode == 0, done.stderr

    if not slurm_last:
        slurm()
    for number, text in enumerate(objects):
        (folder / f"objects-{number}.json").write_bytes(text)
        done = trackside("ingest", "kubernetes", str(folder / f"objects-{number}.json"), "--cluster", "c", *where)
        assert done.returncode == 0, done.stderr
    if slurm_last:
        slurm()
    done = trackside("compute", *where)
    assert done.returncode == 0, done.stderr


def intervals(root: Path) -> list[tuple[Any, ...]]:
    columns = "node, kind, started_at, ended_at, began_by, ended_by, wrong, evidence"
    with open_reader(root) as reader:
        return reader.frame(f"SELECT {columns} FROM sync_intervals ORDER BY started_at, node").rows()


def times(minutes: float | None) -> datetime | None:
    return None if minutes is None else moment(minutes)


EXPECTED = [
    ("gpu-0", "cordoned", 100, 103, "kubernetes", "slurm", "slurm", "followed"),
    ("gpu-0", "out_of_slurm", 210, 240, "kubernetes", "slurm", "slurm", "followed"),
    ("gpu-1", "not_ready", 300, 330, "kubernetes", "kubernetes", "kubernetes", "work_completed"),
    ("gpu-2", "out_of_slurm", 400, 460, "slurm", "slurm", "unknown", None),
    ("gpu-3", "terminating", 500, END, "kubernetes", "open", "unknown", None),
    ("gpu-1", "only_slurm", 700, 720, "kubernetes", "kubernetes", "unknown", None),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agreement")
    load(folder / "w", folder, looks())
    return folder / "w"


def test_each_disagreement_is_found_at_its_time(root: Path) -> None:
    assert intervals(root) == [(n, k, times(b), times(e), *rest) for n, k, b, e, *rest in EXPECTED]


def test_details_of_a_cordon_name_reasons_and_drained_time(root: Path) -> None:
    with open_reader(root) as reader:
        cordon, back = reader.frame("SELECT * FROM sync_intervals WHERE node = 'gpu-0' ORDER BY started_at").to_dicts()
        going = reader.frame("SELECT * FROM sync_intervals WHERE kind = 'terminating'").row(0, named=True)
    assert (cordon["kubernetes_node"], cordon["kubernetes_reason"]) == ("host-0", "example.com/triage")
    assert (cordon["slurm_state"], cordon["settled_at"]) == ("allocated", moment(130))
    assert (cordon["gpu_seconds"], cordon["held_gpu_seconds"]) == (3 * 60 * 8, 3 * 60 * 8)
    assert (back["slurm_reason"], back["begin_uncertain_s"]) == ("k8s: cordon: needs triage", 600)
    assert (going["held_gpu_seconds"], going["gpu_seconds"]) == (290 * 60 * 8, 300 * 60 * 8)


@pytest.mark.slow
def test_any_order_of_loads_gives_the_same_intervals(root: Path, tmp_path: Path) -> None:
    objects = looks()
    load(tmp_path / "w", tmp_path, [*objects[::-1], *objects[3:]], slurm_last=True)
    assert intervals(tmp_path / "w") == intervals(root)


def test_ledger_has_no_second_of_it(root: Path) -> None:
    with open_reader(root) as reader:
        kinds = reader.frame("SELECT DISTINCT state, category FROM gpu_time ORDER BY ALL").rows()
        assert not reader.failed_checks()
    assert ("unavailable", "drained") in kinds


@pytest.mark.slow
@pytest.mark.parametrize("by", ["kind", "side", "lag", "node", "event"])
def test_question_answers_by_everything_it_names(root: Path, by: str) -> None:
    where = ("--warehouse", str(root))
    printed = trackside("show", "agreement", "--by", by, *where, "--format", "csv")
    assert printed.returncode == 0, printed.stderr
    assert len(printed.stdout.splitlines()) > 1
    explained = trackside("show", "agreement", "--by", by, *where, "--explain")
    assert explained.returncode == 0, explained.stderr


@pytest.mark.slow
def test_question_without_kubernetes_says_what_to_load(tmp_path: Path) -> None:
    load(tmp_path / "w", tmp_path, [])
    printed = trackside("show", "agreement", "--warehouse", str(tmp_path / "w"))
    assert printed.returncode == 0, printed.stderr
    assert "trackside ingest kubernetes" in printed.stdout
    assert "GPU-hours" not in printed.stdout, "nothing was compared, so nothing is to be known of the comparison"
