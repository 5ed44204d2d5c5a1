"""Places in a gang that no object records: a pod that is made soon after another one failed takes its place.

Pods of a Job without indices, of a RayCluster and of a plain group have random names. Their controller makes a new pod
for each one that failed, not for one that completed or was removed.
"""

from __future__ import annotations

from collections import defaultdict, deque
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SOON: Final = timedelta(minutes=10)
"""The latest time after a failure at which a controller makes the pod that replaces the failed one.

Kubernetes documents back-off delays of a Job up to six minutes; its source has a limit of ten
(`MaxJobPodFailureBackOff`). KubeRay's operator makes workers again as soon as it finds that one has failed.
"""

_GANG: Final = ("cluster", "job", "execution")


def with_taken_places(pods: pl.DataFrame, *, failures: Sequence[str]) -> pl.DataFrame:
    """Pods with the `slot` of the failed pod that each of them replaces, where no object records one.

    A pod replaces the earliest failure of its execution that happened at most `SOON` before, and is not replaced yet.

    Args:
        pods: pods of jobs (`job`) with `execution`, `slot`, `placeless` (no object records their slot), `created_at`,
            `held_until` and `state`.
        failures: states of pods that are replaced.
    """
    in_order = ["created_at", "uid"]
    first, last = (pl.col("uid") == pl.col("uid").sort_by(in_order).get(end).over(*_GANG, "slot") for end in (0, -1))
    failed = pl.col("state").is_in(failures) & pl.col("held_until").is_not_null()
    lost = pods.filter("placeless", last & failed).sort("held_until", "uid").select(*_GANG, "held_until", "uid")
    if lost.is_empty():
        return pods
    made = pods.filter("placeless", first).join(lost, on=_GANG, how="semi").sort(in_order)
    pairs = _replacements(made.select(*_GANG, "created_at", "uid"), lost)
    replaced = pl.DataFrame(pairs, schema=dict.fromkeys(("cluster", "uid", "old"), pl.String), orient="row")
    return _with_slots_of(pods, _first_ones(replaced))


def _replacements(made: pl.DataFrame, lost: pl.DataFrame) -> Iterator[tuple[str, str, str]]:
    """Cluster and uid of each pod that replaces a failed one, and the uid of that; both frames are in order of time."""
    waiting: defaultdict[Any, deque[tuple[Any, str]]] = defaultdict(deque)
    for *gang, held_until, uid in lost.iter_rows():
        waiting[tuple(gang)].append((held_until, uid))
    for *gang, created_at, uid in made.iter_rows():
        failures = waiting[tuple(gang)]
        while failures and failures[0][0] < created_at - SOON:
            failures.popleft()
        if failures and failures[0][0] <= created_at:
            yield gang[0], uid, failures.popleft()[1]


def _first_ones(replaced: pl.DataFrame) -> pl.DataFrame:
    """For each pod that replaces another (`old`), the first one of its chain."""
    while True:
        further = replaced.join(
            replaced.select("cluster", old="uid", older="old"), on=["cluster", "old"], how="left", maintain_order="left"
        )
        if further["older"].null_count() == further.height:
            return replaced
        replaced = further.select("cluster", "uid", old=pl.coalesce("older", "old"))


def _with_slots_of(pods: pl.DataFrame, firsts: pl.DataFrame) -> pl.DataFrame:
    slots = firsts.join(pods.select("cluster", "slot", old="uid"), on=["cluster", "old"]).rename({"slot": "taken"})
    joined = pods.join(slots.drop("old"), on=["cluster", "uid"], how="left", maintain_order="left")
    return joined.with_columns(slot=pl.coalesce("taken", "slot")).drop("taken")
