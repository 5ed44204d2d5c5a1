"""First sentences of `trackside show mttf`: what each split of the failure rates answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from app.show.sentences import days, lasted, percent
from ingest.counted import counted
from metrics.failures.size_law import caveat

if TYPE_CHECKING:
    from collections.abc import Mapping


def _law(row: Mapping[str, Any]) -> str:
    return caveat(row["b"], row["b_low"], row["b_high"], slope=False)


def law_in_words(rows: pl.DataFrame) -> pl.Expr:
    """The note of `size_law_rows` without the fitted slope."""
    return pl.col("note").replace({row["note"]: _law(row) for row in rows.iter_rows(named=True)})


def of_law(rows: pl.DataFrame, gpus: float) -> str:
    """The MTTF of infrastructure at a size, by the fit and by 1/N, and whether the data test 1/N.

    Args:
        rows: of `size_law_rows`.
        gpus: the size.
    """
    row = rows.filter(pl.col("class") == "infrastructure").row(0, named=True)
    words = _law(row)
    if row["mttf_d"] is None or row["mttf_by_1_n_d"] is None:
        return f"Infrastructure, {counted(row['n_failures'], 'failure')}: {words}."
    return (
        f"At {gpus:,g} GPUs: infrastructure MTTF {days(row['mttf_d'])} as fitted to the job sizes, "
        f"{days(row['mttf_by_1_n_d'])} by 1/N ({words})."
    )


def of_hazard(rows: pl.DataFrame) -> str:
    """How likely infrastructure interrupts an attempt in its first day, all sizes together.

    Args:
        rows: of `hazard_rows`.
    """
    pooled = (pl.col("curve") == "summary") & (pl.col("class") == "infrastructure") & (pl.col("size") == "pooled")
    matching = rows.filter(pooled).to_dicts()
    if not matching or matching[0]["survival_24h"] is None:
        failures = matching[0]["n_failures"] if matching else 0
        return f"{counted(failures, 'interruption')} by infrastructure: too few to determine how they depend on age."
    row = matching[0]
    half = "" if row["median_s"] is None else f" and half within {lasted(row['median_s'])}"
    return (
        f"Infrastructure interrupts {percent(1 - row['survival_24h'])} of attempts within 24 h{half}, "
        "if nothing else ends them."
    )


def of_references(rows: pl.DataFrame) -> str:
    """How the failure rate compares with the first reference that counts alike.

    Args:
        rows: of `reference_rows`.
    """
    compared = rows.filter(pl.col("like_with_like") & pl.col("rate_ratio").is_not_null()).head(1).to_dicts()
    if not compared:
        return "No failure rate of this window can be compared with a published one that counts alike."
    row = compared[0]
    ends = (f"{end:.2f}" if end is not None else "no limit" for end in (row["ci_low"], row["ci_high"]))
    size = "" if row["size"] == "pooled" else f" with {row['size']} GPUs"
    return (
        f"Jobs{size} fail {row['rate_ratio']:.2f} times as often as those of {row['reference']}, which counts alike "
        f"(95 % {' to '.join(ends)})."
    )


def of_causes(rows: pl.DataFrame) -> str:
    """The most frequent cause, and the most frequent one of infrastructure.

    Args:
        rows: of `rates_by_cause`.
    """
    if rows.is_empty():
        return ""
    by_count = rows.sort("n_failures", descending=True, maintain_order=True)
    own = by_count.filter(pl.col("class") == "infrastructure")
    total = int(rows["n_failures"].sum())
    text = f"Most frequent of {counted(total, 'failure')}: {_cause(by_count.row(0, named=True))}"
    if own.is_empty() or by_count["class"].item(0) == "infrastructure":
        return f"{text}."
    return f"{text}; of infrastructure: {_cause(own.row(0, named=True))}."


def _cause(row: Mapping[str, Any]) -> str:
    return f"{row['cause'] or 'unknown'}, {row['n_failures']:,} ({percent(row['share'])})"


def of_labels(rows: pl.DataFrame, label: str) -> str:
    """Whose attempts infrastructure interrupted most.

    Args:
        rows: of `rates_by`.
        label: what the rates are split by.
    """
    chosen = rows.filter((pl.col("class") == "infrastructure") & (pl.col("counted") == "attempts"))
    failed = chosen.filter(pl.col("n_failures") > 0).sort("n_failures", descending=True, maintain_order=True)
    if failed.is_empty():
        return f"Infrastructure interrupted no attempt of {counted(chosen.height, label)}." if chosen.height else ""
    first = failed.row(0, named=True)
    return (
        f"Most often interrupted by infrastructure: {label} {first[label] or 'unknown'}, {first['n_failures']:,} of "
        f"{counted(int(failed['n_failures'].sum()), 'attempt')}, MTTF of one of its GPUs {days(first['mttf_d'])}."
    )
