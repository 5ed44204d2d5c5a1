"""Groups of pods without a common controller: they are labels and annotations.

Source: Kueue, "Run plain pods" (labels pod-group-name and pod-group-pod-index); PodGroup of Volcano and of
scheduler-plugins; NVIDIA/KAI-Scheduler (annotation pod-group-name); labels of LeaderWorkerSet; Determined (an
allocation is `TASK.NUMBER`: master/pkg/model/task.go and kubernetesrm/spec.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ingest.kubernetes.objects import Metadata

POD_GROUP: Final = "PodGroup"
LEADER_WORKER_SET: Final = "LeaderWorkerSet"
JOB_SET: Final = "JobSet"
TASK: Final = "Task"
"""Kind of Determined's tasks; each allocation of one is an execution."""

GROUPS: Final = (
    "kueue.x-k8s.io/pod-group-name",
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io/name",
    "pod-group.scheduling.sigs.k8s.io",
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "pod-group-name",
)
"""Labels and annotations that name a group: Kueue's, scheduler-plugins', Volcano's, KAI's."""

JOB_SET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
"""Label of a JobSet's pods. It deletes its Jobs at a restart and makes new ones; a later list lacks the old ones."""

PLACE: Final = "kueue.x-k8s.io/pod-group-pod-index"
"""Labels with the index of a pod in its group."""

ALLOCATION: Final = "determined"
"""Label of Determined's pods: the id of the allocation."""

LONGEST_NUMBER: Final = 9


class Gang(NamedTuple):
    """A group of pods.

    Attributes:
        kind: kind of the group.
        name: its name within the namespace.
        place: index of the pod in the group; None: not recorded.
        number: number of the group's execution; None: not recorded.
    """

    kind: str
    name: str
    place: str | None = None
    number: int | None = None

    @property
    def text(self) -> str:
        """As the column `gang` has it."""
        return f"{self.kind}/{self.name}"


def gang_of(meta: Metadata) -> Gang | None:
    """The group of a pod; None: it has none.

    A group that Volcano made for a single pod is none: it is named after the pod's uid.
    """
    labels = meta.labels or {}
    if name := labels.get("leaderworkerset.sigs.k8s.io/name"):
        return Gang(LEADER_WORKER_SET, name)
    task, _, number = labels.get(ALLOCATION, "").rpartition(".")
    if task and number.isascii() and number.isdigit() and len(number) <= LONGEST_NUMBER:
        return Gang(TASK, task, number=int(number))
    if name := labels.get(JOB_SET_NAME):
        return Gang(JOB_SET, name)
    group = meta.label(*GROUPS)
    return Gang(POD_GROUP, group, labels.get(PLACE)) if group and not group.endswith(meta.uid) else None
