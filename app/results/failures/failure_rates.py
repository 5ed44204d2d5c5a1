"""How often attempts are interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app.results.source import memo_of_cache
from app.results.windows import CLAIMED_GPUS
from app.window import Window
from metrics import theory
from metrics.failures.exposure import OVER_128, POOLED, Histories, SizeRange, around, buckets, histories
from metrics.failures.hazard import hazard_curves, hazards
from metrics.failures.published import REFERENCES, Ratio, Reference, p_of_counts, ratio_to_constant, ratio_to_count
from metrics.failures.rates import CLASSES, RATES, law_in, rates_in
from metrics.statistics import OVERDISPERSION_P

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from app.window import RowSource


def failure_history(source: RowSource, window: Window) -> Histories:
    """What ran in a window and how it was interrupted."""
    return memo_of_cache(source, ("failure_history", window), lambda: _failure_history(source, window))


def _failure_history(source: RowSource, window: Window) -> Histories:
    period = {"cluster": window.cluster, "since": window.since, "until": window.until}
    return histories(source.query("exposures", **period), source.query("endings", **period))


def failure_rate_rows(source: RowSource, window: Window, *, claimed_gpus: float = CLAIMED_GPUS) -> pl.DataFrame:
    """Failure rates and MTTF by class, way of counting and size; those of a standard window are read as stored."""
    stored = stored_failure_rates(source, window) if claimed_gpus == CLAIMED_GPUS else None
    if stored is None:
        return failure_rates_of(failure_history(source, window), window, claimed_gpus=claimed_gpus)
    return stored


def stored_failure_rates(source: RowSource, window: Window) -> pl.DataFrame | None:
    """The rows of `failure_rates_of` as `compute` stored them; None where none can be read."""
    rows = source.query("stored_failure_rates", cluster=window.cluster, since=window.since, until=window.until)
    if rows.is_empty():
        return None
    kind, counted = pl.Enum(list(CLASSES)), pl.Enum(["attempts", "incidents"])
    sizes = [POOLED.label, OVER_128.label, "bucket", around(CLAIMED_GPUS).label]
    first = pl.Enum(sizes)
    of_bucket = pl.when(pl.col("size").is_in(sizes)).then("size").otherwise(pl.lit("bucket"))
    by = (pl.col("class").cast(kind), pl.col("counted").cast(counted), of_bucket.cast(first), pl.col("gpus_low"))
    return rows.sort(by).select(*RATES, "cluster")


def failure_rate_tables(past: Histories, windows: Sequence[Window]) -> pl.DataFrame:
    """Failure rates of several windows of one cluster, out of a history that holds them."""
    return pl.concat([failure_rates_of(past, window) for window in windows])


def failure_rates_of(past: Histories, window: Window, *, claimed_gpus: float = CLAIMED_GPUS) -> pl.DataFrame:
    """Failure rates and MTTF of a window, out of a history that holds it."""
    rates = rates_in(past, window.since, window.until, [*sizes_of(past), around(claimed_gpus)])
    return rates.with_columns(cluster=pl.lit(window.cluster))


def sizes_of(past: Histories) -> list[SizeRange]:
    """The job sizes that rates are computed for: all, large ones, and powers of two up to the largest of a history."""
    largest = past.ran["gpus"].max()
    return [POOLED, OVER_128, *buckets(largest if isinstance(largest, float) else 0.0)]


def size_law_rows(past: Histories, window: Window, gpus: float) -> pl.DataFrame:
    """How each class of failures grows with a job's GPUs, and what that makes of the MTTF at a size.

    `mttf_d` is by the fitted slope, `mttf_by_1_n_d` by the pooled rate, which assumes a slope of 1.
    """
    rates = rates_in(past, window.since, window.until, [POOLED, OVER_128])
    rows = []
    for kind in CLASSES:
        law = law_in(past, window.since, window.until, kind)
        at_size = law.mttf_d(gpus)
        pooled = _rate(rates, kind, OVER_128 if kind == "meta_rf" else POOLED)
        rows.append(
            {
                "class": kind,
                "n_failures": law.n_failures,
                "n_sizes": law.n_sizes,
                "gpus_smallest": law.smallest,
                "gpus_largest": law.largest,
                "b": law.b,
                "b_low": law.b_low,
                "b_high": law.b_high,
                "p_value": law.p_value,
                "phi": law.phi,
                "holds": law.holds,
                "at_gpus": gpus,
                "mttf_d": at_size[0],
                "mttf_low_d": at_size[1],
                "mttf_high_d": at_size[2],
                **{name.replace("mttf", "mttf_by_1_n"): _per_gpu(pooled[name], gpus) for name in _MTTF},
                "note": law.words,
            }
        )
    return pl.DataFrame(rows, schema=_LAW)


_MTTF = ("mttf_d", "mttf_low_d", "mttf_high_d")
_LAW: dict[str, pl.DataType] = {
    "class": pl.String(),
    "n_failures": pl.Int64(),
    "n_sizes": pl.Int64(),
    **{name: pl.Float64() for name in ("gpus_smallest", "gpus_largest", "b", "b_low", "b_high", "p_value", "phi")},
    "holds": pl.Boolean(),
    "at_gpus": pl.Float64(),
    **{name: pl.Float64() for name in _MTTF},
    **{name.replace("mttf", "mttf_by_1_n"): pl.Float64() for name in _MTTF},
    "note": pl.String(),
}


def hazard_rows(past: Histories, window: Window) -> pl.DataFrame:
    """How interruptions depend on an attempt's age: a row for each class and size, then the points of its curves."""
    sizes = sizes_of(past)
    summary = hazards(past, window.since, window.until, sizes).with_columns(curve=pl.lit("summary"))
    return pl.concat([summary, hazard_curves(past, window.since, window.until, sizes)], how="diagonal")


# --- others ------------------------------------------------------------------------------------------


def reference_rows(source: RowSource, past: Histories, window: Window, gpus: float) -> pl.DataFrame:
    """Our failure rates over what others published, and over those of the warehouse's other clusters in that time.

    `mttf_d` and `reference_mttf_d` are at the size of a quoted point, else at `gpus` (each its own rate, scaled).
    """
    rates = rates_in(past, window.since, window.until, _COMPARED)
    rows = [_against(rates, each, gpus) for each in REFERENCES]
    ours = _rate(rates, "infrastructure", POOLED)
    others = [name for name in source.query("clusters")["cluster"] if name != window.cluster]
    for name in others:
        theirs_past = failure_history(source, Window(name, window.since, window.until))
        theirs = _rate(rates_in(theirs_past, window.since, window.until, [POOLED]), "infrastructure", POOLED)
        rows.append(_against_cluster(ours, theirs, name, gpus))
    return pl.DataFrame(rows, schema=_REFERENCE)


def published_rows(source: RowSource, window: Window) -> pl.DataFrame:
    """Our failure rates over what others published: the rows of `reference_rows` without this warehouse's clusters."""
    rates = rates_in(failure_history(source, window), window.since, window.until, _COMPARED)
    return pl.DataFrame([_against(rates, each, CLAIMED_GPUS) for each in REFERENCES], schema=_REFERENCE)


_COMPARED = [POOLED, OVER_128, *(around(each.size) for each in REFERENCES if each.size is not None)]
"""Sizes of our jobs that published rates are compared with."""

_REFERENCE: dict[str, pl.DataType] = {
    "reference": pl.String(),
    "class": pl.String(),
    "size": pl.String(),
    "at_gpus": pl.Float64(),
    "n_failures": pl.Int64(),
    "exposure_gpu_days": pl.Float64(),
    "rate_per_gpu_day": pl.Float64(),
    "per_1000_node_days": pl.Float64(),
    "mttf_d": pl.Float64(),
    "reference_failures": pl.Int64(),
    "reference_gpu_days": pl.Float64(),
    "reference_rate_per_gpu_day": pl.Float64(),
    "reference_per_1000_node_days": pl.Float64(),
    "reference_mttf_d": pl.Float64(),
    "rate_ratio": pl.Float64(),
    "ci_low": pl.Float64(),
    "ci_high": pl.Float64(),
    "ci_method": pl.String(),
    "p_value": pl.Float64(),
    "phi": pl.Float64(),
    "like_with_like": pl.Boolean(),
    "note": pl.String(),
    "source": pl.String(),
}


def _against(rates: pl.DataFrame, other: Reference, gpus: float) -> dict[str, Any]:
    """Our rate beside a published one."""
    pooled = OVER_128 if other.large else POOLED
    size = pooled if other.size is None else around(other.size)
    ours = _rate(rates, other.kind, size)
    counts = (ours["n_failures"], ours["exposure_gpu_days"])
    p_value = None
    if other.failures is None or other.exposure_gpu_days is None:
        ratio = ratio_to_constant(*counts, other.rate_per_gpu_day, phi=_divisor(ours))
    else:
        theirs = (other.failures, other.exposure_gpu_days)
        ratio = ratio_to_count(*counts, *theirs, phi=_divisor(ours))
        p_value = p_of_counts(*counts, *theirs, phi=_divisor(ours))
    return _comparison(ours, ratio, other.rate_per_gpu_day, other.size or gpus) | {
        "reference": other.name,
        "reference_failures": other.failures,
        "reference_gpu_days": other.exposure_gpu_days,
        "p_value": p_value,
        "like_with_like": other.like_with_like,
        "note": other.note,
        "source": other.source,
    }


def _against_cluster(ours: dict[str, Any], theirs: dict[str, Any], name: str, gpus: float) -> dict[str, Any]:
    """Our rate beside that of another cluster: two counts, the wider of the two overdispersions allowed for."""
    phi = max(_divisor(ours), _divisor(theirs))
    counts = [each[name] for each in (ours, theirs) for name in ("n_failures", "exposure_gpu_days")]
    ratio = ratio_to_count(*counts, phi=phi, both=True)
    return _comparison(ours, ratio, theirs["rate_per_gpu_day"], gpus) | {
        "reference": f"cluster {name}",
        "reference_failures": theirs["n_failures"],
        "reference_gpu_days": theirs["exposure_gpu_days"],
        "p_value": p_of_counts(*counts, phi=phi, both=True),
        "like_with_like": True,
        "note": "counted alike in the same time; sizes of jobs and kinds of GPUs may differ",
        "source": "this warehouse",
    }


def _comparison(ours: dict[str, Any], ratio: Ratio | None, their_rate: float | None, gpus: float) -> dict[str, Any]:
    """The fields of both kinds of comparison; of a rate at one size, the size is the point's own."""
    rate = ours["rate_per_gpu_day"]
    return {
        "class": ours["class"],
        "size": ours["size"],
        "at_gpus": gpus,
        "n_failures": ours["n_failures"],
        "exposure_gpu_days": ours["exposure_gpu_days"],
        "rate_per_gpu_day": rate,
        "per_1000_node_days": None if rate is None else theory.failures_per_1000_node_days(rate),
        "mttf_d": _mttf(rate, gpus),
        "reference_rate_per_gpu_day": their_rate,
        "reference_per_1000_node_days": None if their_rate is None else theory.failures_per_1000_node_days(their_rate),
        "reference_mttf_d": _mttf(their_rate, gpus),
        "rate_ratio": ratio and ratio.value,
        "ci_low": ratio and ratio.low,
        "ci_high": ratio and ratio.high,
        "ci_method": ratio and ratio.method,
        "phi": _divisor(ours),
    }


def _rate(rates: pl.DataFrame, kind: str, size: SizeRange) -> dict[str, Any]:
    """The row of a class and size, by attempts."""
    chosen = (pl.col("class") == kind) & (pl.col("counted") == "attempts") & (pl.col("size") == size.label)
    return rates.filter(chosen).row(0, named=True)


def _divisor(row: dict[str, Any]) -> float:
    clustered = row["phi_p"] is not None and row["phi_p"] < OVERDISPERSION_P
    return float(row["phi"]) if clustered else 1.0


def _mttf(rate: float | None, gpus: float) -> float | None:
    return theory.mttf_d(rate, gpus) if rate else None


def _per_gpu(value: float | None, gpus: float) -> float | None:
    return None if value is None else value / gpus
