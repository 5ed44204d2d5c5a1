"""Agreement of two control planes: node state in Slurm against node and pod state in Kubernetes, over time.

Both control a node whose slurmd runs on a Kubernetes host, as a pod or beside the kubelet. They *agree* where
both have it in service, or both have it out; in between they disagree, and one has not followed yet. Draining is not
drained: a node that Slurm is to take out of service counts as out, and `settled_at` is when its last attempt has left.
Maintenance in Slurm is planned, and no disagreement whatever Kubernetes has. Time that either side does not cover is
unknown, and never a disagreement; the uncertainty of an interval's ends is recorded with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames
from metrics.agreement.evidence import with_evidence, with_reasons
from metrics.intervals import sweep

if TYPE_CHECKING:
    from datetime import datetime

PAIRS: Final[frames.Schema] = {
    "cluster": frames.TEXT,
    "node": frames.TEXT,
    "kubernetes_node": frames.TEXT,
    "started_at": frames.TIME,
    "ended_at": frames.TIME,
    "terminating_at": frames.TIME,
    "pod_ended_at": frames.TIME,
}
"""Kubernetes node of each Slurm node, by time: one row for each pod that slurmd ran in, or for a host with one name in
both; `terminating_at` is when the pod's deletion was requested, `pod_ended_at` when its containers had ended."""

SIDES: Final[frames.Schema] = {
    "cluster": frames.TEXT,
    "node": frames.TEXT,
    "started_at": frames.TIME,
    "ended_at": frames.TIME,
    "state": frames.TEXT,
    "reason": frames.TEXT,
}
"""States of nodes on one side; null `ended_at`: it lasts."""

HELD: Final[frames.Schema] = {
    "cluster": frames.TEXT,
    "node": frames.TEXT,
    "started_at": frames.TIME,
    "ended_at": frames.TIME,
    "state": frames.TEXT,
    "milli_gpus": frames.COUNT,
}
"""Attempts on nodes, with their final state; null `ended_at`: it runs, null `milli_gpus`: unknown."""

SYNC_INTERVALS: Final[frames.Schema] = {
    "cluster": frames.TEXT,
    "node": frames.TEXT,
    "kubernetes_node": frames.TEXT,
    "started_at": frames.TIME,
    "ended_at": frames.TIME,
    "kind": frames.TEXT,
    "slurm_state": frames.TEXT,
    "kubernetes_state": frames.TEXT,
    "slurm_reason": frames.TEXT,
    "kubernetes_reason": frames.TEXT,
    "began_by": frames.TEXT,
    "ended_by": frames.TEXT,
    "wrong": frames.TEXT,
    "evidence": frames.TEXT,
    "settled_at": frames.TIME,
    "begin_uncertain_s": frames.NUMBER,
    "end_uncertain_s": frames.NUMBER,
    "gpu_seconds": frames.NUMBER,
    "held_gpu_seconds": frames.NUMBER,
}

SERVING: Final = ("idle", "allocated")
"""States in which Slurm has a node in service."""

_KEY = ["cluster", "node"]
_PAIR = ["cluster", "node", "kubernetes_node"]
_US = 1e6
_UNITS = 1e9
_SPAN = (pl.col("started_at").dt.epoch("us").alias("started"), pl.col("ended_at").dt.epoch("us").alias("ended"))
_PLACE = ("lane", "started", "ended")
_ONE = pl.lit(1, dtype=pl.Int64)


def sync_intervals(
    pairs: pl.DataFrame,
    slurm: pl.DataFrame,
    kubernetes: pl.DataFrame,
    held: pl.DataFrame,
    inventory: pl.DataFrame,
    *,
    slurm_known: pl.DataFrame,
    kubernetes_known: tuple[datetime, datetime],
    pods_listed_at: datetime | None = None,
) -> pl.DataFrame:
    """Times in which the two disagree about a node.

    Args:
        pairs: `PAIRS` of one cluster; null `ended_at`: it still is.
        slurm: `SIDES` by Slurm's names: down, drained, maintenance or unknown; else it has the node in service.
        kubernetes: `SIDES` by Kubernetes' names: down (not ready), drained (cordoned) or unknown; else it is ready.
        held: `HELD`: attempts of Slurm.
        inventory: `frames.INVENTORY`: which nodes Slurm had, and their GPUs.
        slurm_known: `frames.COVERAGE` of Slurm's node events.
        kubernetes_known: from the first to the last observation of nodes.
        pods_listed_at: first list of pods. Before it, and before its first pod that is known, a node may have had one
            that was gone by then.

    Returns:
        `SYNC_INTERVALS`, sorted by node and time.
    """
    first, last = (int(each) for each in pl.Series(kubernetes_known, dtype=frames.TIME).dt.epoch("us"))
    last = min(last, int(slurm_known.select(pl.col("ended_at").dt.epoch("us").max()).item() or first))
    lanes = _lanes(pairs, inventory)
    spans = _clipped(pairs, lanes, _PAIR, last)
    own, hosts = lanes.select("lane", *_KEY), lanes.select("lane", "cluster", node="kubernetes_node")
    layers = [
        spans.select(*_PLACE, paired=_ONE),
        _elsewhere(pairs, lanes, last),
        _observable(pairs, lanes, pods_listed_at, last),
        _terminating(spans),
        _both(lanes, slurm_known, first, last),
        *(_state(slurm, own, name, f"s_{name}", last) for name in ("down", "drained", "maintenance", "unknown")),
        *(_state(kubernetes, hosts, name, f"k_{name}", last) for name in ("down", "drained", "unknown")),
        _held(held, own, last),
        _clipped(inventory, own, _KEY, last).select(*_PLACE, capacity="milli_gpus", known=_ONE),
    ]
    found = _intervals(_judged(sweep(layers)), last).join(lanes, on="lane").with_row_index("_row")
    explained = with_evidence(with_reasons(found, slurm, kubernetes), held, spans)
    return frames.conform(explained, SYNC_INTERVALS).sort(*_KEY, "started_at", "kubernetes_node")


def _lanes(pairs: pl.DataFrame, inventory: pl.DataFrame) -> pl.DataFrame:
    """A lane for each pair of names; one without a Kubernetes node for Slurm nodes that have one at other times."""
    named = pairs.select(_PAIR).unique()
    alone = named.select(*_KEY, kubernetes_node=pl.lit(None, dtype=pl.String)).unique()
    every = pl.concat([named, alone.join(inventory.select(_KEY).unique(), on=_KEY, how="semi")])
    return every.sort(pl.all(), nulls_last=True).with_row_index("lane")


def _clipped(rows: pl.DataFrame, lanes: pl.DataFrame, on: list[str], end: int) -> pl.DataFrame:
    placed = rows.join(lanes, on=on).with_columns(*_SPAN)
    clipped = placed.with_columns(pl.col("ended").fill_null(end).clip(upper_bound=end))
    return clipped.filter(pl.col("started") < pl.col("ended"))


def _elsewhere(pairs: pl.DataFrame, lanes: pl.DataFrame, end: int) -> pl.DataFrame:
    """In the lane without a Kubernetes node: when the node has one (`hosted`)."""
    alone = lanes.filter(pl.col("kubernetes_node").is_null()).select("lane", *_KEY)
    return _clipped(pairs, alone, _KEY, end).select(*_PLACE, hosted=_ONE)


def _observable(pairs: pl.DataFrame, lanes: pl.DataFrame, pods_listed_at: datetime | None, end: int) -> pl.DataFrame:
    """In the same lane: since when a pod of the node would have been observed (`observable`)."""
    first = pairs.group_by(_KEY).agg(pl.col("started_at").min())
    listed = pl.lit(pods_listed_at, dtype=frames.TIME)
    for_good = pl.lit(None, dtype=frames.TIME)
    since = first.with_columns(started_at=pl.min_horizontal("started_at", listed), ended_at=for_good)
    return _elsewhere(since, lanes, end).rename({"hosted": "observable"})


def _terminating(spans: pl.DataFrame) -> pl.DataFrame:
    terminating = spans.filter(pl.col("terminating_at").is_not_null())
    return terminating.select("lane", pl.col("terminating_at").dt.epoch("us").alias("started"), "ended", going=_ONE)


def _both(lanes: pl.DataFrame, slurm_known: pl.DataFrame, first: int, last: int) -> pl.DataFrame:
    """The time that both sides cover (`both`), and whether the lane has no Kubernetes node (`alone`)."""
    covered = slurm_known.select("cluster", *_SPAN).with_columns(
        pl.col("started").clip(lower_bound=first), pl.col("ended").fill_null(last).clip(upper_bound=last)
    )
    alone = pl.col("kubernetes_node").is_null().cast(pl.Int64)
    return lanes.select("lane", "cluster", alone=alone).join(covered, on="cluster").select(*_PLACE, "alone", both=_ONE)


def _state(side: pl.DataFrame, lanes: pl.DataFrame, state: str, name: str, end: int) -> pl.DataFrame:
    return _clipped(side.filter(pl.col("state") == state), lanes, _KEY, end).select(*_PLACE, _ONE.alias(name))


def _held(held: pl.DataFrame, own: pl.DataFrame, end: int) -> pl.DataFrame:
    unclear = pl.col("milli_gpus").is_null().cast(pl.Int64)
    known = pl.col("milli_gpus").fill_null(0)
    return _clipped(held, own, _KEY, end).select(*_PLACE, held=known, busy=_ONE, unclear=unclear)


def _judged(pieces: pl.DataFrame) -> pl.DataFrame:
    """Pieces with the state on each side (`slurm`, `kube`), and the kind of disagreement; null: there is none."""

    def on(name: str) -> pl.Expr:
        return pl.col(name) > 0

    slurm = (
        pl.when(on("s_maintenance")).then(pl.lit("maintenance"))
        .when(on("s_down")).then(pl.lit("down"))
        .when(on("s_drained")).then(pl.lit("drained"))
        .when(on("s_unknown")).then(pl.lit("unknown"))
        .when(on("known")).then(pl.when(on("busy")).then(pl.lit("allocated")).otherwise(pl.lit("idle")))
        .otherwise(pl.lit("absent"))
    )  # fmt: skip
    kube = (
        pl.when(on("alone") & on("hosted")).then(pl.lit("hosted"))
        .when(on("alone") & ~on("observable")).then(pl.lit("unknown"))
        .when(~on("paired")).then(pl.lit("absent"))
        .when(on("k_down")).then(pl.lit("not_ready"))
        .when(on("k_unknown")).then(pl.lit("unknown"))
        .when(on("k_drained")).then(pl.lit("cordoned"))
        .when(on("going")).then(pl.lit("terminating"))
        .otherwise(pl.lit("ready"))
    )  # fmt: skip
    stated = pieces.with_columns(slurm=slurm, kube=kube)
    serves = pl.col("slurm").is_in(SERVING)
    kind = (
        pl.when(~on("both")).then(None)
        .when(on("alone") & serves & (pl.col("kube") == "absent")).then(pl.lit("only_slurm"))
        .when(~on("paired")).then(None)
        .when(serves & pl.col("kube").is_in(["cordoned", "not_ready", "terminating"])).then("kube")
        .when(pl.col("slurm").is_in(["down", "drained"]) & (pl.col("kube") == "ready")).then(pl.lit("out_of_slurm"))
        .when((pl.col("slurm") == "absent") & pl.col("kube").is_in(["ready", "cordoned"]))
        .then(pl.lit("only_kubernetes"))
    )  # fmt: skip
    blind = (pl.col("kube") == "unknown") | (pl.col("slurm") == "unknown") | ~on("both")
    return stated.with_columns(kind=kind).with_columns(blind=blind)


def _intervals(pieces: pl.DataFrame, end: int) -> pl.DataFrame:
    """Neighbouring pieces of one kind put together, and which side changed at their ends."""
    length = pl.col("ended") - pl.col("started")
    out = ~pl.col("slurm").is_in([*SERVING, "unknown", "absent"])
    same = (pl.col("lane") == pl.col("lane").shift(1)) & (pl.col("started") == pl.col("ended").shift(1))
    same &= pl.col("kind").eq_missing(pl.col("kind").shift(1)) & (pl.col("blind") == pl.col("blind").shift(1))
    grouped = (
        pieces.with_columns(_part=(~same.fill_null(value=False)).cum_sum())
        .group_by("lane", "_part", maintain_order=True)
        .agg(
            pl.col("kind", "blind").first(),
            pl.col("slurm").first().alias("slurm_state"),
            pl.col("slurm").last().alias("_last_slurm"),
            pl.col("kube").first().alias("kubernetes_state"),
            pl.col("kube").last().alias("_last_kube"),
            pl.col("started").min(),
            pl.col("ended").max(),
            (pl.col("capacity") * length).sum().alias("gpu_units"),
            (pl.col("held") * length).sum().alias("held_units"),
            pl.col("unclear").sum(),
            pl.col("started").filter(out & (pl.col("busy") == 0)).first().alias("_quiet"),
        )
    )
    changed = grouped.with_columns(
        began_by=_side(_seen("_last_slurm", 1), "slurm_state", _seen("_last_kube", 1), "kubernetes_state"),
        ended_by=pl.when(pl.col("ended") >= end)
        .then(pl.lit("open"))
        .otherwise(_side(_seen("slurm_state", -1), "_last_slurm", _seen("kubernetes_state", -1), "_last_kube")),
        begin_uncertain_s=_blind_s(1),
        end_uncertain_s=_blind_s(-1),
        _settled=_neighbouring("_quiet", -1),
    )
    followed = pl.col("kind").is_in(["cordoned", "not_ready", "terminating"]) & (pl.col("ended_by") == "slurm")
    return changed.filter(pl.col("kind").is_not_null() & ~pl.col("blind")).with_columns(
        started_at=frames.from_us("started"),
        ended_at=frames.from_us("ended"),
        settled_at=pl.when(followed).then(frames.from_us("_settled")),
        gpu_seconds=(pl.col("gpu_units") / _UNITS).round(9),
        held_gpu_seconds=pl.when(pl.col("unclear") == 0).then((pl.col("held_units") / _UNITS).round(9)),
    )


def _neighbouring(name: str, step: int) -> pl.Expr:
    """A column of the row so many before (positive) or after (negative), where all between touch each other."""
    gap = (pl.col("started") != pl.col("ended").shift(1)) | (pl.col("lane") != pl.col("lane").shift(1))
    breaks = gap.fill_null(value=True)
    crossed = [breaks.shift(n, fill_value=True) for n in (range(step) if step > 0 else range(step, 0))]
    return pl.when(~pl.any_horizontal(crossed)).then(pl.col(name).shift(step))


def _seen(name: str, step: int) -> pl.Expr:
    """A column of the neighbour; where a side was not observed there, of the one beyond it."""
    return (
        pl.when(_neighbouring("blind", step)).then(_neighbouring(name, 2 * step)).otherwise(_neighbouring(name, step))
    )


def _blind_s(step: int) -> pl.Expr:
    """Time for which a side was unobserved just before (1) or after (-1), in seconds."""
    length = _neighbouring("ended", step) - _neighbouring("started", step)
    return (pl.when(_neighbouring("blind", step)).then(length) / _US).fill_null(0.0)


def _side(other_slurm: pl.Expr, slurm: str, other_kube: pl.Expr, kube: str) -> pl.Expr:
    """Side that changed between an interval and its neighbour; unknown where that is unobserved, or both changed."""
    moved = other_slurm.is_in(SERVING) != pl.col(slurm).is_in(SERVING)
    turned = other_kube != pl.col(kube)
    return (
        pl.when(moved & ~turned).then(pl.lit("slurm"))
        .when(turned & ~moved).then(pl.lit("kubernetes"))
        .otherwise(pl.lit("unknown"))
    )  # fmt: skip
