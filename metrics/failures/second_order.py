"""Second-order loss: attempts that were preempted to make room for one that infrastructure had interrupted before.

A job whose node dies comes back with its priority and may push others out: what they lose is a cost of that failure,
too. Meta found 16 % of what failures cost to be of that kind; one 1,024-GPU job that was requeued 35 times caused 548
preemptions. Kokolis et al. (HPCA 2025), section III-C.
"""

from __future__ import annotations

import polars as pl

from metrics import frames
from metrics.exact import exact_sum
from metrics.metric import Metric, Parts
from metrics.theory import lost_goodput_gpu_s_expr
from metrics.time_join import nearby, prefiltered

ROOM_S = 300.0
"""An attempt that starts on a node within 5 minutes after another was preempted there is what room was made for."""

FIRST, SECOND, UNKNOWN = "first", "second", "unknown"
"""Orders of loss: of an interrupted attempt, of one preempted for its return, of one preempted for an unknown one."""

_KEY = list(frames.ATTEMPT_KEY)


def with_second_order(
    interruptions: pl.DataFrame,
    attempts: pl.DataFrame,
    joined: pl.DataFrame,
    attempt_nodes: pl.DataFrame,
    *,
    room_s: float = ROOM_S,
) -> pl.DataFrame:
    """Say whom each preemption made room for, and whether that came back from an infrastructure interruption.

    Room was made for the attempt of another run that started on a node of the preempted one at its end or up to
    `room_s` later and had been waiting by then. Of several, for the one that took most of its nodes, then the first to
    start, then the largest.

    Args:
        interruptions: `frames.INTERRUPTIONS`.
        attempts: `frames.ATTEMPTS`.
        joined: `frames.RUN_ATTEMPTS`.
        attempt_nodes: `frames.ATTEMPT_NODES`.
        room_s: longest time from the preemption's end to the start, in seconds.

    Returns:
        `frames.INTERRUPTIONS` with `made_room_for`, `made_room_for_attempt` and `second_order`: true where the attempt
        before that one in its run was interrupted by infrastructure, null where no such attempt was found.
    """
    victims = _victims(interruptions)
    room = _made_room(victims, attempts, joined, attempt_nodes, room_s)
    broken = (
        interruptions.filter(pl.col("class") == "infrastructure")
        .select(
            "cluster",
            pl.col("run_id").alias("made_room_for"),
            (pl.col("attempt_no") + 1).alias("made_room_for_attempt"),
            pl.lit(value=True).alias("_broken"),
        )
        .unique()
    )
    matched = (
        interruptions.drop("made_room_for", "made_room_for_attempt", "second_order")
        .join(room, on=_KEY, how="left", maintain_order="left")
        .join(broken, on=["cluster", "made_room_for", "made_room_for_attempt"], how="left", maintain_order="left")
    )
    has_comer = pl.col("made_room_for").is_not_null()
    return frames.conform(
        matched.with_columns(second_order=pl.when(has_comer).then(pl.col("_broken").fill_null(value=False))),
        frames.INTERRUPTIONS,
    )


def attempts_for_second_order(
    interruptions: pl.DataFrame, attempts: pl.DataFrame, *, room_s: float = ROOM_S
) -> pl.DataFrame:
    """Keys of the attempts whose nodes `with_second_order` reads: preempted ones, and those that started after them."""
    victims = _victims(interruptions)
    begun = attempts.select(*_KEY, "started_at")
    comers = prefiltered(begun, victims, of="started_at", at="_freed", before_s=room_s, after_s=0)
    return pl.concat([victims.select(_KEY), comers.select(_KEY)]).unique()


def _victims(interruptions: pl.DataFrame) -> pl.DataFrame:
    """Preempted attempts: key, `_own` (their run), `_freed` (when their nodes became free)."""
    return interruptions.filter(pl.col("class") == "preemption").select(
        *_KEY, pl.col("run_id").alias("_own"), pl.col("ended_at").alias("_freed")
    )


def _made_room(
    victims: pl.DataFrame, attempts: pl.DataFrame, joined: pl.DataFrame, attempt_nodes: pl.DataFrame, room_s: float
) -> pl.DataFrame:
    """The preempted attempt's key, `made_room_for` and `made_room_for_attempt`."""
    freed = attempt_nodes.select(*_KEY, "node").join(victims, on=_KEY)
    starts = attempt_nodes.select(
        "cluster", "node", "started_at", *(pl.col(name).alias(f"_{name}") for name in _KEY if name != "cluster")
    )
    pairs = nearby(starts, freed, of="started_at", at="_freed", by=("cluster", "node"), before_s=room_s, after_s=0)
    comer_key = ["cluster", "_scheduler", "_job_id", "_submitted_at"]
    waited = pl.coalesce("eligible_at", "submitted_at").alias("_waited")
    requested = attempts.select(
        "cluster",
        *(pl.col(name).alias(f"_{name}") for name in _KEY if name != "cluster"),
        waited,
        pl.col("milli_gpus").alias("_gpus"),
    )
    runs = joined.select(
        "cluster",
        *(pl.col(name).alias(f"_{name}") for name in _KEY if name != "cluster"),
        pl.col("run_id").alias("made_room_for"),
        pl.col("attempt_no").alias("made_room_for_attempt"),
    )
    comer = [*_KEY, "made_room_for", "made_room_for_attempt"]
    return (
        pairs.join(requested, on=comer_key)
        .join(runs, on=comer_key)
        .filter((pl.col("_waited") <= pl.col("_freed")) & (pl.col("made_room_for") != pl.col("_own")))
        .group_by(comer)
        .agg(pl.col("node").n_unique().alias("_n"), pl.col("started_at").min().alias("_at"), pl.col("_gpus").max())
        .sort(
            *_KEY, "_n", "_at", "_gpus", "made_room_for", "made_room_for_attempt",
            descending=[False] * len(_KEY) + [True, False, True, False, False],
        )
        .unique(_KEY, keep="first", maintain_order=True)
        .select(comer)
    )  # fmt: skip


def order_of_loss() -> pl.Expr:
    """The order of each interruption's loss: `FIRST`, `SECOND`, `UNKNOWN`; null for what no failure is known to cause.

    A preemption for an attempt that no failure had sent back is part of scheduling, and has none.
    """
    preempted = pl.col("class") == "preemption"
    return (
        pl.when(pl.col("class") == "infrastructure")
        .then(pl.lit(FIRST))
        .when(preempted & pl.col("second_order").is_null())
        .then(pl.lit(UNKNOWN))
        .when(preempted & pl.col("second_order"))
        .then(pl.lit(SECOND))
    )


def second_order_loss(interruptions: pl.DataFrame) -> pl.DataFrame:
    """Cost of failures in the first and in the second order, imputed as Meta does and as measured.

    Args:
        interruptions: one row per interruption, with `class`, `second_order`, `runtime_s`, `milli_gpus` and
            `cost_gpu_s`, the measured cost (null where unknown).

    Returns:
        One row for each of `FIRST`, `SECOND` and `UNKNOWN`: `order`, `n`, `n_unknown` (more, whose GPUs are unknown),
        `gpus`, `imputed_gpu_s` (the sum of min(runtime, 30 min) x GPUs), `n_priced` (whose cost was measured) and
        `cost_gpu_s` of these; null of none.

    Source: Kokolis et al. (HPCA 2025), section III-C.
    """
    cost = pl.col("cost_gpu_s")
    gpus = pl.col("milli_gpus") / 1000
    summed = (
        interruptions.filter((pl.col("milli_gpus") != 0).fill_null(value=True))
        .with_columns(order=order_of_loss())
        .drop_nulls("order")
        .group_by("order")
        .agg(
            pl.col("milli_gpus").count().cast(frames.COUNT).alias("n"),
            pl.col("milli_gpus").null_count().cast(frames.COUNT).alias("n_unknown"),
            exact_sum(gpus).alias("gpus"),
            exact_sum(lost_goodput_gpu_s_expr(pl.col("runtime_s"), gpus)).alias("imputed_gpu_s"),
            cost.count().cast(frames.COUNT).alias("n_priced"),
            pl.when(cost.count() > 0).then(exact_sum(cost)).alias("cost_gpu_s"),
        )
    )
    orders = pl.DataFrame({"order": [FIRST, SECOND, UNKNOWN]})
    return orders.join(summed, on="order", how="left", maintain_order="left").with_columns(
        pl.col("n", "n_unknown", "n_priced").fill_null(0), pl.col("gpus", "imputed_gpu_s").fill_null(0.0)
    )


# Published metrics --------------------------------------------------------------------------------------------------

_META = "Kokolis et al. (HPCA 2025) section III-C"

METRICS = (
    Metric(
        name="interruption_cost",
        unit="gpu_s",
        summary=(
            "GPU-seconds that an interruption cost: lost and stalled time of its attempt, and startup of the next one."
        ),
        formula="lost + stalled (not what restarts in place took) + startup of the attempt that followed",
        query="interruption_costs",
        function=None,
        interval="none: a census; null where more than a tenth was unobserved, or the kept work is not logged",
        source="our definitions 5.2",
    ),
    Metric(
        name="lost_imputed",
        title="Assumed cost of interruptions",
        unit="gpu_s",
        summary="GPU-seconds that infrastructure interruptions cost, as Meta imputes them: an assumption.",
        formula="sum of min(runtime, 30 min) x GPUs over infrastructure interruptions",
        query="interruptions",
        function=lost_goodput_gpu_s_expr,
        interval="none: assumed",
        source="Kokolis et al. (HPCA 2025) section III-C, first order",
    ),
    Metric(
        name="lost_imputed_first_order",
        title="First order, assumed cost",
        unit="gpu_s",
        summary="GPU-seconds that infrastructure interruptions cost their own attempts, as Meta imputes them.",
        formula="sum of min(runtime, 30 min) x GPUs over infrastructure interruptions",
        query="interruptions",
        function=second_order_loss,
        interval="none: assumed",
        source=_META,
    ),
    Metric(
        name="lost_imputed_second_order",
        title="Second order, assumed cost",
        unit="gpu_s",
        summary=(
            "GPU-seconds that attempts lost that were preempted for one that infrastructure had interrupted before."
        ),
        formula=(
            "sum of min(runtime, 30 min) x GPUs over preemptions for an attempt whose predecessor infrastructure ended"
        ),
        query="interruptions",
        function=second_order_loss,
        interval="none: assumed",
        source=_META,
    ),
    Metric(
        name="second_order_share",
        title="Second order, share of what failures cost",
        unit="ratio",
        parts=Parts("gpu_h", "second order", "GPU-h that failures cost"),
        summary="Share of what failures cost that is second order, imputed.",
        formula="lost_imputed_second_order / (lost_imputed_first_order + lost_imputed_second_order)",
        query="interruptions",
        function=second_order_loss,
        interval="bounds: preemptions for an unknown attempt counted as none (low) and all (high) second order",
        source=f"{_META} (16 % on Meta's clusters)",
    ),
    Metric(
        name="lost_first_order",
        title="First order, known cost",
        unit="gpu_s",
        summary="GPU-seconds that infrastructure interruptions are known to have cost their own runs.",
        formula="sum of interruption_cost over infrastructure interruptions whose cost is known",
        query="interruption_costs",
        function=second_order_loss,
        interval="none: the least it can be",
        source=_META,
    ),
    Metric(
        name="lost_second_order",
        title="Second order, known cost",
        unit="gpu_s",
        summary="GPU-seconds that preemptions for runs coming back from a failure are known to have cost.",
        formula="sum of interruption_cost over second-order preemptions whose cost is known",
        query="interruption_costs",
        function=second_order_loss,
        interval="none: the least it can be",
        source=_META,
    ),
)
