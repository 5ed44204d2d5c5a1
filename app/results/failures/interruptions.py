"""Interruptions, what they cost, and how long runs took to get going again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.results.registry import result
from app.results.windows import as_results
from metrics import frames, unknown
from metrics.exact import exact_sum
from metrics.failures.second_order import FIRST, SECOND, UNKNOWN, order_of_loss, second_order_loss
from metrics.theory import lost_goodput_gpu_s_expr

if TYPE_CHECKING:
    from app.window import RowSource, Window


def every_restart(source: RowSource, window: Window) -> pl.DataFrame:
    """One row per restart in the window, those within an allocation among them (`in_allocation`)."""
    return source.query("restarts", cluster=window.cluster, since=window.since, until=window.until)


def restart_rows(source: RowSource, window: Window) -> pl.DataFrame:
    """One row per restart in the window by a new attempt; those within an allocation are no time to job restart."""
    return every_restart(source, window).filter(~pl.col("in_allocation"))


def interruption_costs(source: RowSource, window: Window, of_class: str = "") -> pl.DataFrame:
    """What interruptions cost, the newest first.

    Args:
        source: where rows are read.
        window: cluster and time.
        of_class: only those of this class, which are found sooner; empty: all.

    Returns:
        `cluster`, `run_id`, `attempt_no`, `job_id`, `submitted_at`, `ended_at`, `class`, `cause`, `node`, `n_gpus`,
        `cost_gpu_s`: GPU-seconds of the interrupted attempt that were lost or stalled, but for what restarts in place
        took, and of the next one's startup; null where more than a tenth of the attempt was not seen, or no log (its
        own, and the next one's) records which work was kept. The components of a heterogeneous job are interrupted
        once, and are one row.
    """
    # A cost is the whole attempt's, whatever the window: all are read at once, since each question reads the ledger.
    key = ("interruption_costs", window.cluster, of_class)
    every = source.memo(key, lambda: _all_interruptions(source, window.cluster, of_class))
    return every.filter(frames.ended_in(window.since, window.until))


def _all_interruptions(source: RowSource, cluster: str, of_class: str) -> pl.DataFrame:
    return source.query("interruption_costs", cluster=cluster, since=_FIRST, until=_LAST, of_class=of_class)


_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(9999, 1, 1, tzinfo=UTC)


def priced_interruptions(source: RowSource, window: Window) -> pl.DataFrame:
    """Interruptions, the newest first, each with what it cost.

    Returns:
        The named query `interruptions`, and `cost_gpu_s` as `interruption_costs` has it.
    """
    which = ["run_id", "attempt_no"]
    priced = interruption_costs(source, window).select(*which, "cost_gpu_s").drop_nulls("cost_gpu_s")  # most are not
    return (
        source.query("interruptions", cluster=window.cluster, since=window.since, until=window.until)
        .join(priced, on=which, how="left")
        .sort("ended_at", "job_id", descending=[True, False])
    )


def orders_of_loss(source: RowSource, window: Window) -> pl.DataFrame:
    """What failures cost in the first and in the second order: as `metrics.failures.second_order.second_order_loss`."""
    return second_order_loss(priced_interruptions(source, window))


SECOND_ORDER: Final = (
    "lost_imputed_first_order",
    "lost_imputed_second_order",
    "second_order_share",
    "lost_first_order",
    "lost_second_order",
)
"""The metrics of `second_order_rows`, in the order of its rows."""


@result(*SECOND_ORDER, in_standard_windows=True)
def second_order_rows(source: RowSource, window: Window) -> pl.DataFrame:
    """What failures cost in the first and in the second order, and the share of the second, as result rows.

    Returns:
        `frames.RESULT`: `lost_imputed_first_order`, `lost_imputed_second_order` (assumed, as Meta imputes them),
        `second_order_share` of these (its bounds: preemptions for an unknown job counted as none, and as all), and
        `lost_first_order`, `lost_second_order`, what was measured (null where no cost is known).
    """
    by_order = {row["order"]: row for row in orders_of_loss(source, window).iter_rows(named=True)}
    first, second, unknown = (by_order[name] for name in (FIRST, SECOND, UNKNOWN))
    common = {"cluster": window.cluster, "subject": window.cluster}
    return as_results(
        pl.DataFrame(
            [
                common | _imputed("lost_imputed_first_order", first),
                common | _imputed("lost_imputed_second_order", second),
                common | _share(first["imputed_gpu_s"], second["imputed_gpu_s"], unknown),
                common | _measured("lost_first_order", first),
                common | _measured("lost_second_order", second),
            ],
            infer_schema_length=None,
        ),
        window,
        "cluster",
    )


def _imputed(metric: str, row: dict[str, Any]) -> dict[str, Any]:
    unknown = row["n_unknown"]
    note = "assumed: half an hourly checkpoint interval lost per interruption"
    return {
        "metric": metric,
        "unit": "gpu_s",
        "value": None if unknown else row["imputed_gpu_s"],
        "bound_low": row["imputed_gpu_s"] if unknown else None,
        "n": row["n"],
        "evidence_assumed": 1.0,
        "note": note + (f"; of {unknown:,} more the GPUs are unknown" if unknown else ""),
    }


def _share(first: float, second: float, unknown: dict[str, Any]) -> dict[str, Any]:
    both, most = first + second, first + second + unknown["imputed_gpu_s"]
    blind = f"; the preemptor of {unknown['n']:,} preemptions is unknown" if unknown["n"] else ""
    return {
        "metric": "second_order_share",
        "unit": "ratio",
        "value": second / both if both else None,
        "numerator": second,
        "denominator": both,
        "bound_low": second / both if both else None,
        "bound_high": (most - first) / most if most else None,
        "evidence_assumed": 1.0,
        "note": f"of what failures cost, imputed{blind}",
    }


def _measured(metric: str, row: dict[str, Any]) -> dict[str, Any]:
    blind = row["n"] - row["n_priced"]
    return {
        "metric": metric,
        "unit": "gpu_s",
        "value": row["cost_gpu_s"],
        "n": row["n_priced"],
        "evidence_log": None if row["cost_gpu_s"] is None else 1.0,
        "note": f"at least: the cost of {blind:,} more is unknown" if blind else None,
    }


def interruptions_by(source: RowSource, window: Window, dimension: str) -> pl.DataFrame:
    """Interruptions summed up by class, cause, node or order of loss, what cost most first.

    Returns:
        The dimension (`class` and `cause` for cause), `n`, `n_unpriced` (whose cost is unknown), `n_gpus`,
        `cost_gpu_s` (of the others; null where none is known), `share` of all that is known, and
        `imputed_gpu_s`: min(runtime, 30 min) x GPUs, assumed.
    """
    rows = priced_interruptions(source, window).with_columns(order=order_of_loss().fill_null("none"))
    keys = {"cause": ["class", "cause"]}.get(dimension, [dimension])
    cost, gpus = pl.col("cost_gpu_s"), pl.col("milli_gpus") / 1000
    summed = rows.group_by(keys).agg(
        pl.len().alias("n"),
        cost.null_count().alias("n_unpriced"),
        unknown.all_or_null("milli_gpus", exact_sum(gpus)).alias("n_gpus"),
        pl.when(cost.count() > 0).then(exact_sum(cost)).alias("cost_gpu_s"),
        unknown.all_or_null("milli_gpus", exact_sum(lost_goodput_gpu_s_expr(pl.col("runtime_s"), gpus))).alias(
            "imputed_gpu_s"
        ),
    )
    whole = exact_sum(pl.col("cost_gpu_s"))
    return summed.with_columns(share=pl.when(whole > 0).then(pl.col("cost_gpu_s") / whole)).sort(
        pl.col("cost_gpu_s").fill_null(0.0), "n", *keys, descending=[True, True, *[False] * len(keys)]
    )


def node_failures(source: RowSource, window: Window) -> pl.DataFrame:
    """What infrastructure interruptions that name a node cost, by node, the most first.

    Returns:
        `cluster`, `node`, `interruptions`, `unpriced` (those whose cost is unknown), `cause` (the most frequent),
        `cost_gpu_s`: GPU-seconds of those whose cost is known, so a lower bound; null where none is known.
    """
    cost = pl.col("cost_gpu_s")
    return (
        interruption_costs(source, window, "infrastructure")
        .filter(pl.col("class") == "infrastructure", pl.col("node").is_not_null())
        .group_by("cluster", "node")
        .agg(
            pl.len().alias("interruptions"),
            cost.null_count().alias("unpriced"),
            pl.col("cause").drop_nulls().mode().sort().first(),
            pl.when(cost.is_not_null().any()).then(exact_sum(cost)).alias("cost_gpu_s"),
        )
        .sort(cost.fill_null(0.0), "interruptions", "node", descending=[True, True, False])
    )
