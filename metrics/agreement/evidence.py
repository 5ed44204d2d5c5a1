"""Evidence for which side of a disagreement was wrong, and the reasons that each side gives."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import polars as pl

from metrics import frames

NODE_FAIL_S: Final = 60
"""An attempt that ends so soon after an interval with NODE_FAIL had been lost in it."""

_FAR: Final = datetime(2200, 1, 1, tzinfo=UTC)
_KEY = ["cluster", "node"]


def with_reasons(found: pl.DataFrame, slurm: pl.DataFrame, kubernetes: pl.DataFrame) -> pl.DataFrame:
    """The reason that each side gives for the state it is out in, at the beginning of an interval."""
    by_slurm = _reason(found, slurm.filter(pl.col("state") != "unknown"), "node")
    by_kubernetes = _reason(found, kubernetes.filter(pl.col("state") != "unknown"), "kubernetes_node")
    return (
        found.join(by_slurm.rename({"reason": "slurm_reason"}), on="_row", how="left")
        .join(by_kubernetes.rename({"reason": "kubernetes_reason"}), on="_row", how="left")
    )  # fmt: skip


def _reason(found: pl.DataFrame, side: pl.DataFrame, name: str) -> pl.DataFrame:
    reported = side.select("cluster", node="node", since=pl.col("started_at"), till=pl.col("ended_at"), reason="reason")
    return (
        found.select("_row", "cluster", "started_at", node=name)
        .join(reported, on=_KEY)
        .filter(
            (pl.col("since") <= pl.col("started_at"))
            & (pl.col("till").is_null() | (pl.col("till") > pl.col("started_at")))
            & pl.col("reason").is_not_null()
        )
        .sort("_row", "since", "reason")
        .unique("_row", keep="last", maintain_order=True)
        .select("_row", "reason")
    )


def with_evidence(found: pl.DataFrame, held: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Side that was wrong, where there is evidence, and the evidence.

    The side that followed the other was late. Without that, the work on the node decides: work that Slurm placed on a
    cordoned node, or lost on a node that is not ready, or completed on one.
    """
    work = held.select(*_KEY, began="started_at", finished="ended_at", final="state")
    is_open = pl.col("ended_by") == "open"
    begin, end = pl.col("started_at"), pl.when(is_open).then(frames.instant(_FAR)).otherwise("ended_at")
    ran = (
        found.select("_row", *_KEY, "started_at", "ended_at", "ended_by")
        .join(work, on=_KEY)
        .group_by("_row")
        .agg(
            ((pl.col("began") >= begin) & (pl.col("began") < end)).any().alias("_placed"),
            ((pl.col("finished") > begin) & (pl.col("finished") <= end) & (pl.col("final") == "COMPLETED")).any()
            .alias("_completed"),
            ((pl.col("finished") > begin) & (pl.col("finished") <= end + pl.duration(seconds=NODE_FAIL_S))
             & (pl.col("final") == "NODE_FAIL")).any().alias("_failed"),
        )
    )  # fmt: skip
    gone = spans.filter(pl.col("pod_ended_at").is_not_null()).group_by("lane").agg(pl.col("pod_ended_at").min())
    kind, followed = pl.col("kind"), pl.col("ended_by") == "slurm"
    verdict = (
        pl.when(kind.is_in(["cordoned", "not_ready"]) & followed).then(pl.lit("slurm followed"))
        .when((kind == "cordoned") & pl.col("_placed")).then(pl.lit("slurm work_placed"))
        .when((kind == "not_ready") & pl.col("_failed")).then(pl.lit("slurm node_fail"))
        .when((kind == "not_ready") & pl.col("_completed")).then(pl.lit("kubernetes work_completed"))
        .when((kind == "out_of_slurm") & (pl.col("began_by") == "kubernetes") & followed).then(pl.lit("slurm followed"))
        .when((kind == "out_of_slurm") & (pl.col("ended_by") == "kubernetes")).then(pl.lit("kubernetes followed"))
        .when((kind == "terminating") & (pl.col("pod_ended_at") < end)).then(pl.lit("slurm pod_ended"))
    )  # fmt: skip
    return (
        found.join(ran, on="_row", how="left")
        .join(gone, on="lane", how="left")
        .with_columns(_verdict=verdict.str.split(" "))
        .with_columns(
            wrong=pl.col("_verdict").list.first().fill_null("unknown"),
            evidence=pl.col("_verdict").list.get(1, null_on_oob=True),
        )
    )
