"""Why a session has its cause, in a sentence."""

from __future__ import annotations

import polars as pl

from metrics.stragglers.verdict import MAJORITY, STRAGGLING


def share_explained(ratio: str) -> pl.Expr:
    """Share of a session's slowdown that a ratio to the middle rank explains; 0 where it is unknown."""
    return ((pl.col(ratio) - 1) / (pl.col("slowdown") - 1)).clip(0, 1).fill_nan(0.0).fill_null(0.0)


def reason(n_slow: pl.Expr) -> pl.Expr:
    """The sentence, by `cause` and what `sessions` measured; `n_slow` is how many nodes have slow ranks."""
    cause = pl.col("cause")
    return (
        pl.when(cause == "node")
        .then(pl.format("its slowest rank computes {} % longer than the middle one", _percent("slow_ratio")))
        .when(cause == "network")
        .then(_transfers())
        .when(pl.col("outside_cause") == "late host")
        .then(_late_host())
        .when(pl.col("outside_cause") == "late hosts")
        .then(pl.lit("the others wait for a rank whose host is late, another one from interval to interval"))
        .when(pl.col("outside_cause") == "now and then")
        .then(_longer("now and then (saving, loading data) what ranks neither compute nor wait takes", "launch"))
        .when((cause == "launch") & pl.col("launch_times").is_not_null())
        .then(_longer("what ranks neither compute nor wait takes", "launch"))
        .when(cause == "launch")
        .then(pl.format("ranks neither compute nor wait for {} % of the time", _whole_percent("launch_share")))
        .when(cause == "none")
        .then(_no_cause())
        .when((cause == "unknown") & (pl.col("network_share") >= MAJORITY / 2) & ~(pl.col("slowdown") >= STRAGGLING))
        .then(
            pl.format(
                "{} {} % of the time from the first step to the last: a slow link would look the same",
                pl.when(pl.col("stages") > 1)
                .then(pl.lit("transfers and bubbles take"))
                .otherwise(pl.lit("transfers take")),
                _whole_percent("network_share"),
            )
        )
        .when((n_slow == 0) & pl.col("block"))
        .then(pl.lit("slow ranks are a block in a row: a pipeline stage that is not recorded, or their nodes"))
        .when(~pl.col("tested").fill_null(value=False))
        .then(pl.lit("too few intervals, ranks or nodes to compare"))
        .when(cause == "job_shape")
        .then(_shape(n_slow))
        .when((n_slow == 0) & (share_explained("lasting") >= MAJORITY))
        .then(pl.lit("ranks differ for good, and too many of them to decide which are slow and which are fast"))
        .otherwise(pl.lit("slow ranks explain less than half of it"))
    )


def _no_cause() -> pl.Expr:
    """Reason where no rank is slow, with the limits of that for the network and the hosts."""
    none_slow = "no rank computes longer than its peers by what matters"
    share = pl.col("network_share")
    return (
        pl.when(share.is_null())
        .then(pl.lit(f"{none_slow}; waiting is not recorded, so slow links and hosts would not be seen"))
        .when(share >= STRAGGLING - 1)
        .then(
            pl.format(
                f"{none_slow}; a link slow throughout costs at most {{}} % (all waiting)",
                _whole_percent("network_share"),
            )
        )
        .otherwise(pl.lit(none_slow))
    )


def _transfers() -> pl.Expr:
    """Against other runs where that shows more, against the run's own fastest quarter, or as a share of the time."""
    others = "transfers take {} times as long as in {} other runs on as many ranks that compute as long a step"
    by_others = pl.format(others, pl.col("others_times").round(1), "others")
    own = pl.col("network_s").is_not_null() & ~(pl.col("others_s") > pl.col("network_s")).fill_null(value=False)
    return (
        pl.when(own)
        .then(_longer("transfers take", "network"))
        .when(pl.col("others_s").is_not_null())
        .then(by_others)
        .otherwise(pl.format("transfers take {} % of the time", _whole_percent("network_share")))
    )


def _late_host() -> pl.Expr:
    """Text of a late host: rank, node, and share of the time that the others wait for it."""
    what = "the others wait {} % of the time for rank {} on {}, which computes no longer: its host is late"
    of_time = (100 * pl.col("late_s") / pl.col("wall_s")).round(1)
    return pl.format(what, of_time, "late_rank", pl.col("late_node").fill_null("an unknown node"))


def _shape(n_slow: pl.Expr) -> pl.Expr:
    stage = pl.format("stage {} computes {} % longer than the middle rank", "slowest_stage", _percent("stage_ratio"))
    return (
        pl.when(share_explained("stage_ratio") >= MAJORITY)
        .then(stage)
        .when(n_slow > 0)
        .then(pl.format("ranks on {} of {} nodes are slow", n_slow, pl.col("all_nodes")))
        .when(pl.col("roaming").is_not_null())
        .then(pl.format("rank {} is slow on whichever node it runs: its work is more", "roaming"))
        .when(pl.col("loaded").is_not_null())
        .then(pl.format("rank {} of each stage is slow, on several nodes: its data are more work", "loaded"))
        .otherwise(pl.lit("the slowest rank is another one from interval to interval"))
    )


def _longer(what: str, part: str) -> pl.Expr:
    text = f"{what} {{}} times as long as in the fastest quarter of the run, first in step {{}}"
    return pl.format(text, pl.col(f"{part}_times").round(1), f"{part}_since")


def _percent(ratio: str) -> pl.Expr:
    return ((pl.col(ratio) - 1) * 100).round(1)


def _whole_percent(share: str) -> pl.Expr:
    return (100 * pl.col(share)).round(0).cast(pl.Int64)
