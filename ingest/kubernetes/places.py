"""Places in a gang that no object records: a pod that is made after another one failed takes its place.

Pods of a Job without indices, of a RayCluster and of a plain group have random names. Their controller makes a new pod
for each one that failed, not for one that completed or was removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

_JOB: Final = ("cluster", "job")


def with_taken_places(pods: pl.DataFrame, *, failures: Sequence[str]) -> pl.DataFrame:
    """Pods with the `slot` of the failed pod that each of them replaces, where no object records one.

    The k-th failure of a job gets the first pod that is made after it and replaces no earlier failure.

    Args:
        pods: pods of jobs (`job`) with `slot`, `placeless` (no object records their slot), `created_at`, `held_until`
            and `state`.
        failures: states of pods that are replaced.
    """
    in_order = ["created_at", "uid"]
    first, last = (pl.col("uid") == pl.col("uid").sort_by(in_order).get(end).over(*_JOB, "slot") for end in (0, -1))
    failed = pl.col("state").is_in(failures) & pl.col("held_until").is_not_null()
    lost = pods.filter("placeless", last & failed).sort("held_until", "uid")
    lost = lost.select(*_JOB, "held_until", old="uid", number=pl.int_range(1, pl.len() + 1).over(_JOB))
    if lost.is_empty():
        return pods
    made = pods.filter("placeless", first).sort(in_order).select(*_JOB, "uid", "created_at")
    made = made.join_asof(
        lost.select(*_JOB, "held_until", n_lost="number"),
        left_on="created_at", right_on="held_until", by=list(_JOB), check_sortedness=False,
    )  # fmt: skip
    place = pl.int_range(1, pl.len() + 1).over(_JOB)
    ahead = (pl.col("n_lost").fill_null(0) - place).cum_min().over(_JOB)
    taken = made.with_columns(number=place + pl.min_horizontal(ahead, 0))
    takes = pl.col("number") > pl.col("number").shift(1).over(_JOB).fill_null(0)
    replaced = taken.filter(takes).join(lost, on=[*_JOB, "number"]).select("cluster", "uid", "old")
    return _with_slots_of(pods, _first_ones(replaced))


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
