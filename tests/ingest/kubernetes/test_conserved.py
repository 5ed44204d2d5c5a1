"""Slurm and Kubernetes on the same machines, at random: each GPU-second is in the ledger once, and whose it was."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.kubernetes.bridge import OUTLIVES_S
from queries.warehouse import open_reader
from tests.ingest.kubernetes.test_bridge import HEAD, LABEL
from tests.ingest.kubernetes.test_nodes import node
from tests.support.command import trackside
from tests.support.kubernetes.objects import Object, as_list, as_yaml, at, owner, pod

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("no_results")

GPUS = 8
END = 59
HOSTS = ("m1", "m2", "m3")
WITNESS = "m9"
CLUSTERS = ("c", "d")
"""Both have the same names of nodes."""

OF_SLURM = ("slurm", "bridge")
INDEX = "batch.kubernetes.io/job-completion-index"

Held = Counter[tuple[str, str, str]]
"""GPU-minutes by cluster, node and scheduler."""


class Work(NamedTuple):
    """Something that holds GPUs of a machine.

    Attributes:
        kind: `slurm`, `bridge` (a job of Slurm with its pod), `pod`, or `sweep`: a pod of the cluster's one Job.
        lives_on: minutes that the pod of a bridged job lives on after it.
        failed: whether Slurm calls its end NODE_FAIL.
    """

    kind: str
    cluster: str
    host: str
    gpus: int
    begin: int
    end: int
    lives_on: int
    failed: bool


work = st.builds(
    Work,
    kind=st.sampled_from(("slurm", "bridge", "pod", "sweep")),
    cluster=st.sampled_from(CLUSTERS),
    host=st.sampled_from(HOSTS),
    gpus=st.integers(1, 4),
    begin=st.integers(1, 40),
    end=st.integers(1, 15),
    lives_on=st.sampled_from((0, 0, 3, 10)),
    failed=st.booleans(),
).map(lambda one: one._replace(end=min(one.begin + one.end, END - 11)))


def fitting(every: list[Work]) -> list[Work]:
    """Those that fit beside the ones before them: no machine gives more GPUs than it has."""
    taken: Counter[tuple[str, str, int]] = Counter()
    chosen = []
    for one in every:
        minutes = [(one.cluster, one.host, minute) for minute in range(one.begin, one.end + one.lives_on)]
        if all(taken[minute] + one.gpus <= GPUS for minute in minutes):
            taken.update(dict.fromkeys(minutes, one.gpus))
            chosen.append(one)
    return chosen


def truth(every: list[Work], in_pods: str) -> Held:
    """Whose each minute was: of a pod that outlives its job by more than Slurm allows, its own from then on."""
    held: Held = Counter()
    for one in every:
        place = one.cluster, name_in(one.cluster == in_pods)(one.host)
        whose = "slurm" if one.kind in OF_SLURM else "kubernetes"
        held[*place, whose] += one.gpus * (one.end - one.begin)
        if one.kind == "bridge" and one.lives_on * 60 > OUTLIVES_S:
            held[*place, "kubernetes"] += one.gpus * one.lives_on
    return +held


def job_row(number: int, one: Work, name: str) -> str:
    """A row of sacct."""
    times = "|".join(at(minute).removesuffix("Z") for minute in (0, one.begin, one.end))
    state = "NODE_FAIL" if one.failed else "COMPLETED"
    return (
        f"{number}|{number}|{one.cluster}|{times}|{state}|1|cpu=8,gres/gpu={one.gpus}|{name}|"
        f"{(one.end - one.begin) * 60}|ann\n"
    )


def pod_of(number: int, one: Work, seen: int) -> Object:
    """Its pod as it was then."""
    ended = one.end + (one.lives_on if one.kind == "bridge" else 0)
    return pod(
        f"p{number}",
        node=one.host if seen >= one.begin else None,
        gpus=one.gpus,
        scheduled=one.begin,
        ended=ended if seen >= ended else None,
        above=owner("Job", "sweep") if one.kind == "sweep" else None,
        labels={"bridge": {LABEL: str(number)}, "sweep": {INDEX: str(number)}}.get(one.kind, {}),
        identity=f"{one.cluster}/{number}",
    )


def slurm_node(host: str) -> Object:
    """The pod that slurmd runs in; its GPUs are the machine's."""
    return pod(
        f"s-{host}", node=host, scheduled=0, above=owner("NodeSet", "s"), labels={"app.kubernetes.io/name": "slurmd"}
    )


def loads(folder: Path, every: list[Work], in_pods: str) -> list[tuple[str, ...]]:
    """The inputs, each as arguments of `trackside ingest`; in one cluster slurmd runs in pods."""
    arguments = []
    for cluster in CLUSTERS:
        pods_of_slurm = cluster == in_pods
        own = [(number, one) for number, one in enumerate(every, 1) if one.cluster == cluster]
        of_slurm = ("--cluster", cluster, "--timezone", "UTC", "--until", at(0))
        for name, text in slurm_texts(cluster, own, name_in(pods_of_slurm)).items():
            path = folder / f"{cluster}-{name}"
            path.write_text(text)
            arguments.append(("slurm", str(path), *(of_slurm if name == "nodes" else of_slurm[:4])))
        for seen, written in ((30, as_yaml), (END, as_list)):
            objects = [node(host, seen=seen) for host in HOSTS]
            objects += [slurm_node(host) for host in HOSTS] if pods_of_slurm else []
            objects += [pod_of(number, one, seen) for number, one in own if one.kind != "slurm"]
            path = folder / f"{cluster}-{seen}"
            path.write_bytes(written(*objects))
            arguments.append(("kubernetes", str(path), "--cluster", cluster))
    return arguments


def slurm_texts(cluster: str, own: list[tuple[int, Work]], name_of: Callable[[str], str]) -> dict[str, str]:
    """Accounting, which a job beside the others makes cover all of the time; and nodes, each in two partitions."""
    rows = [job_row(number, one, name_of(one.host)) for number, one in own if one.kind in OF_SLURM]
    nodes = [
        f"NodeName={name} CPUTot=96 Gres=gpu:h100:8 CfgTRES=cpu=96,gres/gpu=8 State=IDLE Partitions=train,debug\n"
        for name in (*map(name_of, HOSTS), WITNESS)
    ]
    witness = job_row(99, Work("slurm", cluster, WITNESS, GPUS, 0, END, 0, failed=False), WITNESS)
    return {"jobs": HEAD + "".join(rows) + witness, "nodes": "\n".join(nodes)}


def name_in(pods_of_slurm: bool) -> Callable[[str], str]:
    """Slurm's name of a machine: that of the pod that slurmd runs in, or its own."""
    return lambda host: f"s-{host}" if pods_of_slurm else host


@pytest.mark.slow
@settings(deadline=None, max_examples=3)
@given(
    st.lists(work, min_size=6, max_size=16).map(fitting), st.sampled_from(CLUSTERS), st.randoms(use_true_random=False)
)
def test_every_gpu_second_of_both_is_whose_it_was(every: list[Work], in_pods: str, order: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        where = ("--warehouse", f"{folder}/w")
        arguments = loads(Path(folder), every, in_pods)
        order.shuffle(arguments)
        for one in (*arguments, arguments[0]):
            done = trackside("ingest", *one, *where)
            assert done.returncode == 0, done.stderr
        assert trackside("compute", *where).returncode == 0
        with open_reader(Path(folder) / "w") as reader:
            held = reader.frame(
                "SELECT cluster, node, scheduler, sum(gpu_seconds) / 60 FROM gpu_time"
                f" WHERE state = 'allocated' AND node <> '{WITNESS}' GROUP BY ALL"
            ).rows()
            whole = [
                reader.frame(f"SELECT cluster, node, sum(gpu_seconds) FROM {table} GROUP BY ALL ORDER BY ALL").rows()
                for table in ("gpu_time", "capacity")
            ]
    assert {(cluster, name, whose): minutes for cluster, name, whose, minutes in held} == truth(every, in_pods)
    assert whole[0] == whole[1]
