"""Work that Kubernetes places on nodes on which Slurm has none: as attempts of the history, and as its objects.

A TrainJob is evicted by Kueue for a PyTorchJob and goes on behind it, a Job is evicted because its pods were not ready,
a notebook and a server hold some GPUs of a node, the server by a claim. Besides, three of Slurm's own jobs are
placeholders of slurm-bridge: one of their pods lives on after Slurm freed its GPUs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from app.demo.simulate.plan import BEGIN, DAY_S, GPUS_PER_NODE, HOUR_S
from app.demo.simulate.scheduler import Attempt
from app.demo.simulate.times import spelled
from app.demo.simulate.trace import Item
from app.demo.simulate.work import OF_KUBERNETES, SimulatedJob

if TYPE_CHECKING:
    from app.demo.simulate.scheduler import History
    from app.demo.simulate.world import World

FIRST_ID: Final = 900_001
NOT_READY_S: Final = 600
"""So long Kueue waits for pods to be ready."""

GONE_S: Final = 150
"""From the eviction of the TrainJob to the end of its pods."""

OUTLIVES_S: Final = 2400
BRIDGED: Final = 3
NODES: Final = 2

Places = list[tuple[int, tuple[int, ...]]]
Object = dict[str, Any]


class Execution(NamedTuple):
    """GPUs that were held from one time to another; for the first `idle_s` seconds they did nothing."""

    submitted: int
    began: int
    ended: int
    places: Places
    state: str = "COMPLETED"
    idle_s: int = 0


class Work(NamedTuple):
    """An object, and its executions."""

    kind: str
    namespace: str
    name: str
    user: str
    executions: list[Execution]


class Eviction(NamedTuple):
    """An order of Kueue to end an execution: the job, why, for which other, and how long its pods held on."""

    job: str
    reason: str
    preemptor: str | None
    at: int
    gone_s: int
    gpus: int


def with_work(history: History) -> History:
    """The history with what Kubernetes did besides; without a change where Slurm left no nodes empty."""
    made: list[Attempt] = []
    for number, work in enumerate(planned(history)):
        for restart, execution in enumerate(work.executions):
            made.append(_attempt(FIRST_ID + number, restart, work, execution, len(history.attempts) + len(made)))
    return replace(history, attempts=[*history.attempts, *made])


def planned(history: History) -> list[Work]:
    """All of it, in the order of its ids."""
    nodes = _empty_nodes(history)
    if len(nodes) < NODES:
        return []
    zero = _zero(history)
    whole: list[Places] = [[(node, tuple(range(GPUS_PER_NODE)))] for node in nodes]
    pair = whole[0] + whole[1]
    hour = [zero + number * HOUR_S for number in range(48)]
    works = [
        Work("TrainJob", "vision", "sft-8b", "freya", [
            Execution(hour[0], hour[0] + 60, hour[6] + GONE_S, pair, "PREEMPTED"),
            Execution(hour[6], hour[9] + 90, hour[15], pair),
        ]),
        Work("PyTorchJob", "pretraining", "ablation-3b", "amara", [
            Execution(hour[6] - 20, hour[6] + 180, hour[9], pair),
        ]),
        Work("Job", "speech", "embed", "goran", [
            Execution(hour[16], hour[16] + 30, hour[16] + 50 + NOT_READY_S, whole[0], "CANCELLED", 20 + NOT_READY_S),
            Execution(hour[16] + 30 + NOT_READY_S, hour[17], hour[20], whole[0]),
        ]),
        Work("Pod", "research", "notebook", "priya", [
            Execution(hour[16], hour[16] + 5, hour[40], [(nodes[1], (0,))], idle_s=20 * HOUR_S),
        ]),
        Work("Pod", "speech", "server", "goran", [
            Execution(hour[17], hour[17] + 5, hour[29], [(nodes[1], (1, 2))]),
        ]),
    ]  # fmt: skip
    for attempt in placeholders(history)[:1]:
        ended = attempt.ended or 0
        lived_on = Execution(ended, ended, ended + OUTLIVES_S, attempt.places)
        works.append(Work("Pod", "research", _bridged_name(attempt), attempt.job.user, [lived_on]))
    return works


def evictions(history: History) -> list[Eviction]:
    """Evictions that Kueue ordered."""
    works = {work.name: work for work in planned(history)}
    if not works:
        return []
    train, embed = works["sft-8b"].executions[0], works["embed"].executions[0]
    ordered, late = train.ended - GONE_S, embed.ended - 20
    return [
        Eviction("speech/embed", "PodsReadyTimeout", None, late, 20, GPUS_PER_NODE),
        Eviction("vision/sft-8b", "Preempted", "pretraining/ablation-3b", ordered, GONE_S, 2 * GPUS_PER_NODE),
    ]


def placeholders(history: History) -> list[Attempt]:
    """Placeholder jobs of Slurm, each for a pod; the GPUs of the first are free for a while after its end."""
    own = [each for each in history.of_slurm if each.job.partition == "dev" and each.state == "COMPLETED"]
    free_later = next((each for each in own if _free_after(history, each)), None)
    if free_later is None or len(_empty_nodes(history)) < NODES:
        return []
    return [free_later, *[each for each in own if each is not free_later][: BRIDGED - 1]]


def truth(world: World) -> dict[str, Any]:
    """Facts that Trackside should find."""
    history = world.history
    attempts = [
        {
            "name": work.name,
            "state": execution.state,
            "since": execution.began,
            "until": execution.ended,
            "gpus": sum(len(gpus) for _, gpus in execution.places),
            "nodes": [world.settings.name(node) for node, _ in execution.places],
        }
        for work in planned(history)
        for execution in work.executions
    ]
    bridged = [str(each.job.id) for each in placeholders(history)]
    return {
        "attempts": attempts,
        "evictions": [{**each._asdict(), "held_gpu_s": each.gone_s * each.gpus} for each in evictions(history)],
        "placeholders": bridged,
        "outlived": bridged[:1],
    }


def objects(world: World) -> list[Object]:
    """Output of a watch: objects, and Kueue's Workloads after each of their changes."""
    works = planned(world.history)
    made = [each for work in works for each in _tree(work)]
    pods = [pod for work in works for pod in _pods(world, work)]
    bridged = [
        _bridged(world, attempt, outlives=not number) for number, attempt in enumerate(placeholders(world.history))
    ]
    queued = _queued(world.history) if works else []
    claims = [_claim(work) for work in works if work.name == "server"]
    return [*made, *pods, *bridged, *queued, *claims]


# --- the history -------------------------------------------------------------------------------------------


def _zero(history: History) -> int:
    """When it begins: after two fifths of the time."""
    return BEGIN + int(0.4 * history.settings.days) * DAY_S + 9 * HOUR_S


def _empty_nodes(history: History) -> list[int]:
    """Shared nodes to which nothing happens, all the time."""
    settings = history.settings
    busy = {node for attempt in history.of_slurm for node, _ in attempt.places}
    busy |= {state.node for state in history.states} | {failure.node for failure, _ in history.struck}
    if _zero(history) + 3 * DAY_S > settings.end:
        return []
    return [node for node in range(settings.n_whole, settings.n_nodes) if node not in busy][:NODES]


def _free_after(history: History, one: Attempt) -> bool:
    """Whether nothing else holds the GPUs of an attempt, and its node is in service, for a while after its end."""
    if one.ended is None or one.started is None or one.ended + 2 * OUTLIVES_S > history.settings.end:
        return False
    low, high = one.ended - 1, one.ended + 2 * OUTLIVES_S
    [(node, gpus)] = one.places
    out = any(each.node == node and each.began < high and (each.ended or high) > low for each in history.states)
    others = (each for each in history.of_slurm if each is not one and each.started is not None)
    return not out and not any(
        each.started < high and (each.ended or high) > low and place == node and set(held) & set(gpus)
        for each in others
        if each.started is not None
        for place, held in each.places
    )


def _attempt(number: int, restart: int, work: Work, execution: Execution, index: int) -> Attempt:
    job = SimulatedJob(
        number, work.name, work.user, OF_KUBERNETES, "", "interactive" if work.kind == "Pod" else "train",
        work.executions[0].submitted, len(execution.places), len(execution.places[0][1]), 0, 0,
    )  # fmt: skip
    begin, end, works_from = (
        1000 * at for at in (execution.began, execution.ended, execution.began + execution.idle_s)
    )
    idle = [Item("idle", begin, works_from, -1)] if works_from > begin else []
    busy = [Item("interact", works_from, end, -1)] if end > works_from else []
    return Attempt(
        job, restart, index, execution.submitted, execution.submitted, started=execution.began, ended=execution.ended,
        state=execution.state, places=execution.places, items=[*idle, *busy],
    )  # fmt: skip


# --- the objects -------------------------------------------------------------------------------------------


def _uid(*names: str) -> str:
    return str(uuid5(NAMESPACE_URL, "/".join(names)))


def _metadata(namespace: str, name: str, kind: str, created: int, above: Object | None = None, **more: Any) -> Object:  # noqa: ANN401 - JSON
    owners = {} if above is None else {"ownerReferences": [above]}
    uid = _uid(kind, namespace, name)
    return {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": spelled(created), **owners, **more}


def _owner(kind: str, namespace: str, name: str) -> Object:
    return {"kind": kind, "name": name, "uid": _uid(kind, namespace, name), "controller": True}


def _condition(kind: str, since: int, reason: str, message: str = "", *, holds: bool = True) -> Object:
    return {
        "type": kind,
        "status": str(holds),
        "lastTransitionTime": spelled(since),
        "reason": reason,
        "message": message,
    }


_VERSIONS: Final = {
    "TrainJob": "trainer.kubeflow.org/v1alpha1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "PyTorchJob": "kubeflow.org/v1",
    "Job": "batch/v1",
}
_OVER: Final = {"TrainJob": "Complete", "JobSet": "Completed", "PyTorchJob": "Succeeded", "Job": "Complete"}


def _tree(work: Work) -> list[Object]:
    """The object, and what it makes: a TrainJob a JobSet, and that a Job."""
    if work.kind == "Pod":
        return []
    chain = [work.kind, *(("JobSet", "Job") if work.kind == "TrainJob" else ())]
    names = [work.name] * len(chain)
    if len(chain) > 1:
        names[-1] = f"{work.name}-node-0"
    made = []
    for place, (kind, name) in enumerate(zip(chain, names, strict=True)):
        above = _owner(chain[place - 1], work.namespace, names[place - 1]) if place else None
        labels = {"trackside.io/user": work.user, "kueue.x-k8s.io/queue-name": "research"}
        made.append({
            "apiVersion": _VERSIONS[kind], "kind": kind,
            "metadata": _metadata(work.namespace, name, kind, work.executions[0].submitted, above, labels=labels),
            "spec": {},
            "status": {"conditions": [_condition(_OVER[kind], work.executions[-1].ended, "Completed")]},
        })  # fmt: skip
    return made


def _pods(world: World, work: Work) -> list[Object]:
    """The pods of each execution."""
    above = _owner(work.kind, work.namespace, work.name)
    if work.kind == "TrainJob":
        above = _owner("Job", work.namespace, f"{work.name}-node-0")
    made = []
    bridged = work.name.startswith("bridged-")
    for restart, execution in enumerate(work.executions if not bridged else []):
        for index, (node, gpus) in enumerate(execution.places):
            name = work.name if work.kind == "Pod" else f"{work.name}-{index}-{restart}"
            labels = {"trackside.io/user": work.user, "batch.kubernetes.io/job-completion-index": str(index)}
            if work.kind == "TrainJob":
                labels |= {
                    "jobset.sigs.k8s.io/jobset-name": work.name,
                    "jobset.sigs.k8s.io/restart-attempt": str(restart),
                }
            if work.kind == "PyTorchJob":
                labels = {
                    "training.kubeflow.org/replica-type": "worker",
                    "training.kubeflow.org/replica-index": str(index),
                }
            made.append(
                _pod(
                    world, node, execution,
                    _metadata(work.namespace, name, "Pod", max(execution.submitted, execution.began - 30),
                              None if work.kind == "Pod" else above, labels=labels),
                    gpus=None if work.name == "server" else len(gpus),
                )
            )  # fmt: skip
    return made


def _pod(world: World, node: int, held: Execution, metadata: Object, *, gpus: int | None) -> Object:
    """A pod that is over; without a number of GPUs it has those of its claim."""
    good = held.state == "COMPLETED"
    ended = {
        "exitCode": 0 if good else 143,
        "reason": "Completed" if good else "Error",
        "finishedAt": spelled(held.ended),
    }
    resources: Object = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {"claims": [{"name": "gpus"}]}
    claims = {} if gpus else {"resourceClaims": [{"name": "gpus", "resourceClaimName": "server-gpus"}]}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"nodeName": host(world, node), "containers": [{"name": "main", "resources": resources}], **claims},
        "status": {
            "phase": "Succeeded" if good else "Failed",
            "conditions": [_condition("PodScheduled", held.began, "")],
            "containerStatuses": [{"name": "main", "restartCount": 0, "state": {"terminated": ended}}],
        },
    }  # fmt: skip


def host(world: World, node: int) -> str:
    """Kubernetes' name of the host of a node."""
    return world.settings.name(node).replace("gpu-", "host-")


def _bridged_name(attempt: Attempt) -> str:
    return f"bridged-{attempt.job.id}"


def _bridged(world: World, attempt: Attempt, *, outlives: bool) -> Object:
    """The pod of a placeholder job of Slurm."""
    [(node, gpus)] = attempt.places
    began, ended = attempt.started or 0, (attempt.ended or 0) + (OUTLIVES_S if outlives else 0)
    labels = {"scheduler.slinky.slurm.net/slurm-jobid": str(attempt.job.id), "trackside.io/user": attempt.job.user}
    held = Execution(attempt.submitted, began, ended, attempt.places)
    metadata = _metadata("research", _bridged_name(attempt), "Pod", attempt.submitted, labels=labels)
    made = _pod(world, node, held, metadata, gpus=len(gpus))
    made["spec"]["schedulerName"] = "slurm-bridge-scheduler"
    return made


def _queued(history: History) -> list[Object]:
    """Kueue's Workloads: as they were after each eviction, and at the end."""
    works = {work.name: work for work in planned(history)}
    made = []
    for name in ("sft-8b", "ablation-3b", "embed"):
        work = works[name]
        evicted = next((each for each in evictions(history) if each.job.endswith(f"/{name}")), None)
        for execution in work.executions:
            admitted = execution.began - 20
            conditions = [_condition(kind, admitted, kind) for kind in ("QuotaReserved", "Admitted")]
            last = execution is work.executions[-1]
            if last:
                conditions.append(_condition("Finished", execution.ended, "Succeeded"))
            elif evicted is not None:
                conditions = [
                    _condition("QuotaReserved", evicted.at, "Pending", holds=False),
                    _condition("Evicted", evicted.at, evicted.reason, _preemption_message(evicted)),
                    *(
                        [_condition("Preempted", evicted.at, "InClusterQueue", _preemption_message(evicted))]
                        if evicted.preemptor
                        else []
                    ),
                ]
            made.append(_workload(work, conditions, len(execution.places), len(execution.places[0][1])))
    return made


def _preemption_message(evicted: Eviction) -> str:
    if evicted.preemptor is None:
        return "Exceeded the PodsReady timeout"
    namespace, _, name = evicted.preemptor.partition("/")
    uids = f"UID: {_uid('Workload', namespace, name)}, JobUID: {_uid('PyTorchJob', namespace, name)}"
    return f"Preempted to accommodate a workload ({uids}) due to prioritization in the ClusterQueue"


def _workload(work: Work, conditions: list[Object], pods: int, gpus: int) -> Object:
    template = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]}}
    above = _owner(work.kind, work.namespace, work.name)
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload",
        "metadata": _metadata(work.namespace, work.name, "Workload", work.executions[0].submitted, above),
        "spec": {"queueName": "research", "podSets": [{"name": "main", "count": pods, "template": template}]},
        "status": {"admission": {"clusterQueue": "gpus"}, "conditions": conditions},
    }  # fmt: skip


def _claim(work: Work) -> Object:
    """The claim of the server: two GPUs by their names."""
    results = [
        {"request": "gpus", "driver": "gpu.nvidia.com", "pool": "host", "device": f"gpu-{gpu}"}
        for gpu in work.executions[0].places[0][1]
    ]
    request = {"deviceClassName": "gpu.nvidia.com", "count": len(results)}
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": _metadata(work.namespace, "server-gpus", "ResourceClaim", work.executions[0].submitted),
        "spec": {"devices": {"requests": [{"name": "gpus", "exactly": request}]}},
        "status": {"allocation": {"devices": {"results": results}}},
    }  # fmt: skip
