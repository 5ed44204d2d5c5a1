"""Goodput and what surrounds it, from sums over the ledger.

"Goodput" has at least four published meanings, so the bare word is never a metric here: the denominator is part of
the name. Each ratio carries bounds: what it would be if all time that we could not see was unproductive, or productive.
GPUs that were active while one of their attempt was idle are stalled by the lockstep rule, and in the high bound.
Provisional productive time (steps that no durable checkpoint holds yet, or activity right before an interruption) is
in the value and the high bound, and not in the low one.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from metrics.categories import EVIDENCE_KINDS, GPUS_UNKNOWN, LOCKSTEP
from metrics.metric import BOUNDS, UNSEEN_BOUNDS, Claimable, ExportedFamily, Metric, Parts

KNOWN_ENOUGH = 0.9
"""A value is given only if at least this share of the allocated time was observed; below it there are only bounds."""


def goodput(sums: pl.DataFrame, inventoried: pl.Series) -> pl.DataFrame:
    """Goodput over allocated and over capacity, occupancy and availability, per cluster and subject.

    - `goodput_allocated` = productive / allocated GPU-seconds
    - `goodput_capacity`  = productive / all GPU-seconds of capacity (cluster and node subjects)
    - `occupancy`         = allocated / all GPU-seconds of capacity
    - `availability`      = 1 - (unavailable + held by attempts on dead nodes) / all GPU-seconds of capacity; bounded by
      time with no known node state

    Where attempts ran whose GPUs are unknown (cause `gpus_unknown`, see `metrics.ledger.sweep`), they held between
    none and all of the GPUs that were left there. Occupancy and goodput over capacity have no value then, however few
    they are, but bounds: none of that time allocated, and all of it.

    Args:
        sums: `frames.LEDGER_SUMS` within the window.
        inventoried: clusters of which an inventory was read; of others, capacity is unknown.

    Returns:
        `cluster`, `subject` and the number columns of `frames.RESULT`; `value` is numerator / denominator. It is null
        where more than a tenth of what decides it was not seen (allocated time that is unattributed or assumed; for
        availability, time without a known node state), and where the denominator is zero.

    Source: Kokolis et al. (HPCA 2025) for the cluster form; the allocated form is over allocations alone.
    """
    totals = sums.group_by("cluster", "subject").agg(
        _sum(PRODUCTIVE, "productive"),
        _sum(PRODUCTIVE & SURE, "productive_sure"),
        _sum((pl.col("state") == "allocated") & UNSEEN, "unseen"),
        _sum((pl.col("state") == "allocated") & (UNSEEN | BESIDE_IDLE), "open"),
        _sum((pl.col("category") == "unknown") & ~UNCLEAR, "unknown"),
        _sum(pl.col("state") == "allocated", "allocated"),
        _sum(UNCLEAR, "unclear"),
        _sum(UNCLEAR & (pl.col("state") == "unavailable"), "unclear_out"),
        _sum(UNCLEAR & (pl.col("state") == "unavailable") & (pl.col("category") != "down"), "unclear_up"),
        _sum(
            (pl.col("state") == "unavailable") | (pl.col("cause") == "node_down").fill_null(value=False), "unavailable"
        ),
        _sum(pl.lit(value=True), "capacity"),
        *(
            _sum((pl.col("state") == "allocated") & (pl.col("evidence") == kind), f"allocated_{kind}")
            for kind in EVIDENCE_KINDS
        ),
        *(_sum(pl.col("evidence") == kind, f"capacity_{kind}") for kind in EVIDENCE_KINDS),
    )
    inventoried_cluster = pl.col("cluster").is_in(inventoried.implode())
    parts = [
        _productive(totals, "allocated").with_columns(metric=pl.lit("goodput_allocated")),
        _without_inventory(_productive(totals, "capacity"), inventoried_cluster).with_columns(
            metric=pl.lit("goodput_capacity")
        ),
        _without_inventory(_occupancy(totals), inventoried_cluster).with_columns(metric=pl.lit("occupancy")),
        _without_inventory(
            _of_capacity(totals, pl.col("capacity") - pl.col("unavailable"), pl.col("unknown") + pl.col("unclear_up")),
            inventoried_cluster,
        ).with_columns(metric=pl.lit("availability")),
    ]
    return pl.concat(parts, how="diagonal").with_columns(unit=pl.lit("ratio")).sort("cluster", "subject", "metric")


PRODUCTIVE = (pl.col("category") == "productive") & (pl.col("evidence") != "assumed")
"""Time that went into training that was kept, by the evidence."""
SURE = pl.col("cause").ne_missing("provisional")
"""Productive time that nothing can take back any more."""
UNSEEN = (pl.col("category") == "unattributed") | (pl.col("evidence") == "assumed")
"""Allocated time whose use is unobserved."""
BESIDE_IDLE = (pl.col("category") == "stalled") & pl.col("cause").eq_missing(LOCKSTEP)
"""Time of active GPUs that only the lockstep rule calls stalled: productive at most."""


UNCLEAR = (pl.col("cause") == GPUS_UNKNOWN).fill_null(value=False)
"""Time of GPUs on nodes where an attempt ran that held an unknown number of them."""

SWITCH_ON = (
    "no source records how many (Slurm: add gres/gpu to AccountingStorageTRES in slurm.conf and restart slurmctld, and "
    "dump ReqTRES and AllocTRES; for jobs of today, load scontrol show job -d; parts of GPUs, as shard and MPS; "
    "Kubernetes: time slices, MPS, GPU memory, or a claim not loaded)"
)
"""Why the GPUs of attempts are unknown, and what to do about it."""


def _sum(which: pl.Expr, name: str) -> pl.Expr:
    return pl.col("gpu_seconds").filter(which).sum().cast(pl.Float64).alias(name)


def _over(top: pl.Expr, bottom: pl.Expr) -> pl.Expr:
    return pl.when(bottom > 0).then(top / bottom)


def _evidence(of: str) -> list[pl.Expr]:
    return [_over(pl.col(f"{of}_{kind}"), pl.col(of)).alias(f"evidence_{kind}") for kind in EVIDENCE_KINDS]


def _productive(totals: pl.DataFrame, of: str) -> pl.DataFrame:
    """Productive over `of` with its bounds.

    They come of what was not seen, what only the lockstep rule decides, and GPUs that may have been allocated.
    """
    unclear_out = pl.col("unclear_out")
    # Of the time with unknown GPUs, the part in service is counted as allocated in the ledger, the rest is not.
    known_amount = most = in_use = pl.col(of)
    if of == "allocated":
        known_amount = pl.col("allocated") - (pl.col("unclear") - unclear_out)
        most, in_use = pl.col("allocated") + unclear_out, pl.col("allocated") + pl.col("unclear_up")
    held = pl.col("allocated") + unclear_out
    hidden = pl.when(held > 0).then((pl.col("unseen") + unclear_out) / held).otherwise(0.0)
    sufficient = (1 - hidden >= KNOWN_ENOUGH) & ((pl.col("unclear") <= 0) | (pl.lit(of) == "allocated"))
    note = pl.format("cannot tell: {} % of the allocated GPU-time is unattributed", (hidden * 100).round(1))
    return totals.select(
        "cluster",
        "subject",
        pl.when(sufficient).then(_over(pl.col("productive"), known_amount)).alias("value"),
        pl.col("productive").alias("numerator"),
        known_amount.alias("denominator"),
        _over(pl.col("productive_sure"), most).alias("bound_low"),
        _over(pl.col("productive") + pl.col("open") + pl.col("unclear_up"), in_use).alias("bound_high"),
        *_evidence(of),
        pl.when(pl.col("unclear") > 0).then(_unknown_gpus(sufficient)).when(~sufficient).then(note).alias("note"),
    )


def _unknown_gpus(sufficient: pl.Expr) -> pl.Expr:
    """Why there are bounds and no value, or bounds beside a value, and what to switch on."""
    share = (pl.col("unclear") / pl.col("capacity") * 100).round(1)
    return pl.format(
        "{}attempts with unknown GPUs ran beside {} % of the GPU-time; {}",
        pl.when(sufficient).then(pl.lit("")).otherwise(pl.lit("cannot tell: ")),
        share,
        pl.lit(SWITCH_ON),
    )


def _occupancy(totals: pl.DataFrame) -> pl.DataFrame:
    """Allocated over capacity; GPUs that may have been allocated are in the high bound only."""
    capacity = pl.col("capacity")
    known_amount = pl.col("allocated") - (pl.col("unclear") - pl.col("unclear_out"))
    sure = pl.col("unclear") <= 0
    return totals.select(
        "cluster",
        "subject",
        pl.when(sure).then(_over(known_amount, capacity)).alias("value"),
        known_amount.alias("numerator"),
        capacity.alias("denominator"),
        _over(known_amount, capacity).alias("bound_low"),
        _over(known_amount + pl.col("unclear"), capacity).alias("bound_high"),
        *_evidence("capacity"),
        pl.when(~sure).then(_unknown_gpus(sure)).alias("note"),
    )


def _of_capacity(totals: pl.DataFrame, top: pl.Expr, unknown: pl.Expr) -> pl.DataFrame:
    """A share of capacity; `unknown` GPU-seconds may belong to it or not."""
    share, hidden = _over(top, pl.col("capacity")), _over(unknown, pl.col("capacity"))
    note = pl.format("cannot tell: the node state is unknown for {} % of the GPU-time", (hidden * 100).round(1))
    return totals.select(
        "cluster",
        "subject",
        pl.when(1 - hidden >= KNOWN_ENOUGH).then(share).alias("value"),
        top.alias("numerator"),
        pl.col("capacity").alias("denominator"),
        share.alias("bound_low"),
        (share + hidden).alias("bound_high"),
        *_evidence("capacity"),
        pl.when(1 - hidden < KNOWN_ENOUGH).then(note).alias("note"),
    )


def _without_inventory(goodputs: pl.DataFrame, inventoried_cluster: pl.Expr) -> pl.DataFrame:
    """Without an inventory the capacity is a guess, and so is everything over it."""
    numbers = [
        pl.when(inventoried_cluster).then(pl.col(name)).alias(name) for name in ("value", "bound_low", "bound_high")
    ]
    inventory = "of Slurm: scontrol show node; of Kubernetes: kubectl get nodes -o json"
    why = f"cannot tell: no node inventory was read ({inventory})"
    return goodputs.with_columns(
        *numbers, note=pl.when(inventoried_cluster).then(pl.col("note")).otherwise(pl.lit(why))
    )


def lost(sums: pl.DataFrame) -> pl.DataFrame:
    """GPU-seconds by state, category, cause and evidence, largest first, each with its share of all.

    Args:
        sums: `frames.LEDGER_SUMS` within the window.

    Returns:
        `cluster`, `subject`, `state`, `category`, `cause`, `evidence`, `gpu_seconds`, `gpu_hours`, `share` (of all the
        cluster's GPU-time), `share_allocated` (of its allocated GPU-time; null for time that was not allocated) and
        `straggling_gpu_seconds`, the part of it that straggled (an overlay: it is in no sum). All categories are
        there, productive time too, so that the shares of a cluster's subjects add up to 1.
    """
    groups = ["cluster", "subject", "state", "category", "cause", "evidence"]
    amount = pl.col("gpu_seconds").cast(pl.Float64)
    held = pl.col("gpu_seconds").filter(pl.col("state") == "allocated").sum().over("cluster").cast(pl.Float64)
    whole = pl.col("gpu_seconds").sum().over("cluster").cast(pl.Float64)
    return (
        sums.group_by(groups)
        .agg(pl.col("gpu_seconds").sum(), pl.col("straggling_gpu_seconds").sum())
        .filter(pl.col("gpu_seconds") > 0)
        .with_columns(
            gpu_hours=amount / 3600,
            share=amount / whole,
            share_allocated=pl.when(pl.col("state") == "allocated").then(amount / held),
        )
        .select(*groups, "gpu_seconds", "gpu_hours", "share", "share_allocated", "straggling_gpu_seconds")
        .sort("cluster", "gpu_seconds", *groups[1:], descending=[False, True, *[False] * 5], nulls_last=True)
    )


# --- the product of three ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Program:
    """Distance of the kept steps from the hardware's limit: MFU, as far as it is logged.

    Attributes:
        value: achieved over peak FLOP of the steps that log it; None where none does.
        numerator: FLOP.
        denominator: peak FLOP.
        n: steps.
        known_gpu_s: GPU-seconds of those steps.
        ci_low: lower end of its confidence interval.
        ci_high: upper end.
        note: remarks for the reader, such as the FLOP convention.
    """

    value: float | None
    numerator: float | None = None
    denominator: float | None = None
    n: int | None = None
    known_gpu_s: float = 0.0
    ci_low: float | None = None
    ci_high: float | None = None
    note: str | None = None


def ml_productivity(goodputs: pl.DataFrame, program: Program) -> pl.DataFrame:
    """ML Productivity Goodput and its three factors: scheduling x runtime x program.

    - `scheduling_goodput` = allocated / all GPU-seconds: Slurm gives a job all its GPUs at once, so a job that holds
      GPUs holds all that it requested. It is the `occupancy`.
    - `runtime_goodput`    = productive / allocated GPU-seconds: the `goodput_allocated`.
    - `program_goodput`    = achieved / peak FLOP of the kept steps. Bounds: productive GPU-time without a logged MFU
      counted as 0 and as 1.
    - `mpg`                = their product; its bounds are the products of theirs.

    Args:
        goodputs: as `goodput` returns it, of one subject.
        program: the third factor.

    Returns:
        The number columns of `frames.RESULT` for the four; a value is null where a factor is unknown, and then its
        note gives which and why.

    Source: "Introducing ML Productivity Goodput", Google Cloud blog, 10 April 2024; arXiv 2502.06982 for the fleet
    form, over chip-time capacity.
    """
    by_name = {row["metric"]: row for row in goodputs.iter_rows(named=True)}
    scheduling, runtime = by_name["occupancy"], by_name["goodput_allocated"]
    factors = {
        "scheduling_goodput": scheduling | {"note": _noted("equals occupancy", scheduling["note"])},
        "runtime_goodput": runtime | {"note": _noted("equals goodput_allocated", runtime["note"])},
        "program_goodput": _program(program, runtime),
    }
    lacking = [name for name, row in factors.items() if row["value"] is None]
    numbers = {name: _product([row[name] for row in factors.values()]) for name in ("value", "bound_low", "bound_high")}
    unknown = f"{' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} unknown"
    note = f"cannot tell: {unknown}" if lacking else "the product of the three"
    common = {"cluster": scheduling["cluster"], "subject": scheduling["subject"], "unit": "ratio"}
    rows = [row | common | {"metric": name} for name, row in factors.items()]
    return pl.DataFrame([*rows, common | numbers | {"metric": "mpg", "note": note}], infer_schema_length=None)


def _program(program: Program, runtime: dict[str, object]) -> dict[str, object]:
    """The third factor as a row. Where less than nine tenths of the productive time is logged, it has only bounds."""
    productive = runtime["numerator"]
    if not isinstance(productive, float) or productive <= 0 or program.value is None:
        why = "cannot tell: no kept step logs its FLOP (tokens, model sizes and GPU name)"
        return {"value": None, "bound_low": None, "bound_high": None, "note": why}
    known_amount = min(program.known_gpu_s / productive, 1.0)
    sufficient = known_amount >= KNOWN_ENOUGH
    note = f"MFU is known for {100 * known_amount:.1f} % of the productive GPU-time"
    return {
        "value": program.value if sufficient else None,
        "numerator": program.numerator,
        "denominator": program.denominator,
        "n": program.n,
        "bound_low": program.value * known_amount,
        "bound_high": program.value * known_amount + (1 - known_amount),
        "ci_low": program.ci_low if sufficient else None,
        "ci_high": program.ci_high if sufficient else None,
        "evidence_log": known_amount,
        "note": _noted(note if sufficient else f"cannot tell: {note}", program.note),
    }


def _product(factors: list[float | None]) -> float | None:
    product = 1.0
    for factor in factors:
        if factor is None:
            return None
        product *= factor
    return product


def _noted(*notes: str | None) -> str | None:
    return "; ".join(note for note in notes if note) or None


# Published metrics --------------------------------------------------------------------------------------------------


METRICS = (
    Metric(
        name="goodput_allocated",
        unit="ratio",
        exported=ExportedFamily(
            "goodput_ratio",
            "Share of GPU-time, of what was allocated or of capacity, that became kept training steps; "
            f"{UNSEEN_BOUNDS}.",
            labels=(("of", "allocated"),),
        ),
        claim=Claimable("ledger_ratio", of="gpu_time"),
        title="Goodput (of allocated)",
        show="goodput",
        by=("day", "node", "user", "account", "partition", "run"),
        parts=Parts("gpu_h", "productive", "allocated GPU-h"),
        judged=True,
        headline=1,
        summary="Share of allocated GPU-time that ended up as kept training steps.",
        formula="productive GPU-seconds / allocated GPU-seconds",
        query="ledger_sums",
        function=goodput,
        interval=BOUNDS,
        source="goodput_alloc of our definitions 5.2; queueing and idle GPUs are not in it",
    ),
    Metric(
        name="goodput_capacity",
        unit="ratio",
        exported=ExportedFamily("goodput_ratio", labels=(("of", "capacity"),)),
        claim=Claimable("ledger_ratio", of="capacity"),
        title="Goodput (of capacity)",
        show="goodput",
        by=("day", "node"),
        parts=Parts("gpu_h", "productive", "GPU-h in all"),
        headline=6,
        summary="Share of all GPU-time that ended up as kept training steps.",
        formula="productive GPU-seconds / GPU-seconds of all nodes in the inventory",
        query="ledger_sums",
        function=goodput,
        interval=BOUNDS,
        source="cluster goodput, Kokolis et al. (HPCA 2025) section II, normalised by capacity",
    ),
    Metric(
        name="occupancy",
        unit="ratio",
        claim=Claimable("ledger_ratio", of="capacity"),
        show="goodput",
        by=("day", "node"),
        parts=Parts("gpu_h", "allocated", "GPU-h in all"),
        exported=ExportedFamily(
            "occupancy_ratio", "Share of all GPU-time there was that was allocated to jobs.", bounds=False
        ),
        headline=7,
        summary="Share of all GPU-time that was allocated to jobs.",
        formula="allocated GPU-seconds / GPU-seconds of all nodes in the inventory",
        query="ledger_sums",
        function=goodput,
        interval="exact (a census)",
        source="our definitions 5.2",
    ),
    Metric(
        name="availability",
        unit="ratio",
        exported=ExportedFamily(
            "availability_ratio",
            "Share of all GPU-time in which the GPUs were in service; lower and upper: time without a known "
            "node state counted unavailable and available.",
        ),
        claim=Claimable("ledger_ratio", of="capacity"),
        show="goodput",
        by=("day", "node"),
        parts=Parts("gpu_h", "in service", "GPU-h in all"),
        headline=8,
        summary="Share of all GPU-time in which the GPUs were in service.",
        formula=(
            "1 - (unavailable + on dead nodes under attempts) GPU-seconds / GPU-seconds of all nodes in the inventory"
        ),
        query="ledger_sums",
        function=goodput,
        interval="bounds: time without a known node state counted unavailable (low) and available (high)",
        source="our definitions 5.2",
    ),
    Metric(
        name="scheduling_goodput",
        unit="ratio",
        parts=Parts("gpu_h", "allocated", "GPU-h in all"),
        summary="Share of all GPU-time in which jobs held all the GPUs they needed.",
        formula=(
            "allocated GPU-seconds / GPU-seconds of all nodes in the inventory: Slurm gives a job all its GPUs at once"
        ),
        query="ledger_sums",
        function=ml_productivity,
        interval="exact (a census); equals occupancy",
        source="Google Cloud, Introducing ML Productivity Goodput (2024); arXiv 2502.06982, over chip-time capacity",
    ),
    Metric(
        name="runtime_goodput",
        unit="ratio",
        parts=Parts("gpu_h", "productive", "allocated GPU-h"),
        summary="Share of the GPU-time that jobs held which went into kept steps.",
        formula="productive GPU-seconds / allocated GPU-seconds",
        query="ledger_sums",
        function=ml_productivity,
        interval=f"{BOUNDS}; equals goodput_allocated",
        source="Google Cloud, Introducing ML Productivity Goodput (2024)",
    ),
    Metric(
        name="program_goodput",
        unit="ratio",
        parts=Parts("flop", "model FLOP", "peak FLOP"),
        summary="How near the kept steps came to the hardware's peak.",
        formula=(
            "model FLOP of the kept steps / peak FLOP of their GPUs in that time: MFU under the configured convention"
        ),
        query="steps",
        function=ml_productivity,
        interval="bounds: productive GPU-time without a logged MFU counted as 0 and as 1; interval as of mfu",
        source="Google Cloud, Introducing ML Productivity Goodput (2024): program goodput like MFU",
    ),
    Metric(
        name="mpg",
        unit="ratio",
        summary=("ML Productivity Goodput: how much of the hardware's peak, over all GPU-time, became kept training."),
        formula="scheduling_goodput x runtime_goodput x program_goodput",
        query="ledger_sums",
        function=ml_productivity,
        interval="bounds: the products of the factors' bounds",
        source="Google Cloud, Introducing ML Productivity Goodput (2024); arXiv 2502.06982",
    ),
)
