"""The question of `trackside show` about failure rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.results.failures.failure_rates import (
    failure_history,
    failure_rate_rows,
    hazard_rows,
    reference_rows,
    size_law_rows,
)
from app.results.failures.rate_words import CLASS_IN_WORDS, META, PER_GPU_IN_WORDS, SIZE_IN_WORDS
from app.show import failure_headlines as headlines
from app.show.answer import Answer, Brief, Question
from app.show.registry import question
from app.show.sentences import days
from metrics.failures.rates import rates_by, rates_by_cause
from metrics.failures.size_law import caveat
from metrics.statistics import OVERDISPERSION_P

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.terminal.rows import Headings
    from app.window import Window
    from metrics.failures.exposure import Histories
    from queries.warehouse import Reader

_QUERIES = ("exposures", "endings")

_PARTS = {
    "metric": "class",
    "counted": "counted",
    "subject": "size",
    "value": "mttf_d",
    "numerator": "numerator",
    "denominator": "denominator",
    "n": "n_attempts",
    "ci_low": "mttf_low_d",
    "ci_high": "mttf_high_d",
    "ci_method": "ci_method",
    "rate_per_gpu_day": "rate_per_gpu_day",
    "rate_low": "rate_low",
    "rate_high": "rate_high",
    "jeffreys_low": "jeffreys_low",
    "jeffreys_high": "jeffreys_high",
    "phi": "phi",
    "phi_p": "phi_p",
}


@question(
    "mttf",
    "mean time to failure, with exact intervals",
    help="mean time to failure by job size, with exact intervals; --at GPUS: scaled to that size\n"
    "--by size, law, hazard, reference, cause, partition, user",
    by=("size", "law", "hazard", "reference", "cause", "partition", "user"),
    takes=("at",),
    position=3,
)
def mttf(source: Reader, window: Window, question: Question) -> Answer:
    """Failure rates and MTTF."""
    by = question.dimension
    if by != "size":
        return _BY[by](source, failure_history(source, window), window, question)
    rows = _explained(failure_rate_rows(source, window, claimed_gpus=question.at_gpus))
    chosen = (pl.col("size") == "pooled") & (pl.col("class") == "infrastructure") & (pl.col("counted") == "attempts")
    pooled = rows.filter(chosen).row(0, named=True)
    law = caveat(pooled["b"], pooled["b_low"], pooled["b_high"], slope=question.details)
    columns = {
        "class": ("class", "text"),
        "counted": ("counted", "text"),
        "size": ("GPUs", "text"),
        "n_failures": ("failures", "count"),
        "n_attempts": ("attempts", "count"),
        "exposure_gpu_days": ("GPU-days", "number"),
        "rate_per_gpu_day": ("per GPU-day", "number"),
        "per_1000_node_days": ("per 1000 node-days", "number"),
        "mttf_d": ("MTTF (days)", "number"),
        "mttf_low_d": ("95 % from", "number"),
        "mttf_high_d": ("to", "number_or_open"),
        "phi": ("phi", "number"),
        "note": ("note", "text"),
    }
    worth_showing = (pl.col("n_attempts") > 0) | (pl.col("n_failures") > 0)
    own = rows.filter(worth_showing, pl.col("class") == "infrastructure", pl.col("counted") == "attempts")
    return Answer(
        "MTTF by job size",
        rows,
        columns,
        metrics=("mttf", "failure_rate", "failure_phi"),
        queries=_QUERIES,
        headline=_scaled(pooled, question.at_gpus, law),
        ranked=("size", "counted", "n_failures", "mttf_d", "mttf_low_d", "mttf_high_d", "n_attempts"),
        in_words=(CLASS_IN_WORDS, PER_GPU_IN_WORDS),
        explained=_RATES_EXPLAINED,
        notes=(_POOLED, _COUNTED, *_clustered(rows, question)),
        worth_showing=worth_showing,
        brief=_of_infrastructure(
            own, columns, _RATES_EXPLAINED, (_ALONE.format("size"), _POOLED, *_clustered(own, question))
        ),
        parts=_PARTS,
        when_empty=_NOTHING,
    )


_RATES_EXPLAINED: Final = ("phi", "note")
"""Columns of rates that are shown with `--explain`."""


def _of_infrastructure(
    rows: pl.DataFrame, columns: Headings, explained: Sequence[str], notes: tuple[str, ...]
) -> Brief:
    """The rows that the headline is about, without the columns that are alike in all of them."""
    named = {name: shown for name, shown in columns.items() if name not in {"class", "counted", *explained}}
    return Brief(rows, named, notes=notes, on_pages=True)


_ALONE = (
    "Only what infrastructure interrupted, each attempt counted. All classes: `trackside show mttf --by {} --wide`."
)

_NOTHING = "No attempt is known to have held GPUs in this window."

_POOLED = (
    "per GPU: the MTTF of one GPU, to be divided by a job's GPUs (1/N: twice the GPUs fail twice as often); the others "
    "are of a job of that size."
)

_COUNTED = (
    "attempts: interrupted jobs. incidents: interruptions on one node within 15 minutes are one; the fleet's rate is "
    f"that of incidents. {META}"
)


def _explained(rates: pl.DataFrame) -> pl.DataFrame:
    """Rows of rates with the parts of their MTTF, how the interval was made, and the rate as papers print it."""
    per_gpu = pl.col("size").is_in(["pooled", "over 128"])
    clustered = pl.col("phi_p").fill_null(1) < OVERDISPERSION_P
    node_days = pl.col("exposure_node_days")
    return rates.with_columns(
        numerator=pl.when(per_gpu).then("exposure_gpu_days").otherwise("exposure_job_days"),
        denominator=pl.col("n_failures"),
        per_1000_node_days=pl.when(node_days > 0).then(1000 * pl.col("n_failures") / node_days),
        ci_method=pl.when(clustered)
        .then(pl.lit("exact Poisson of k/phi in T/phi, 95 %"))
        .otherwise(pl.lit("exact Poisson, 95 %")),
    )


def _clustered(rows: pl.DataFrame, question: Question) -> tuple[str, ...]:
    """That failures cluster in time, and that the intervals allow for it; the statistics with `--explain`."""
    overdispersed = rows.filter((pl.col("phi_p") < OVERDISPERSION_P) & (pl.col("size") == "pooled"))
    return tuple(
        f"{row['class']} ({row['counted']}): the daily counts vary more than by chance, as where failures come in "
        "bursts or on days with little work"
        + (f" (phi {row['phi']:.2f}, p {row['phi_p']:.2g})" if question.details else "")
        + "; the interval allows for it."
        for row in overdispersed.iter_rows(named=True)
    )


def _scaled(pooled: dict[str, Any], gpus: float, law: str) -> str:
    """The pooled estimate for a job of a given size, with its assumption."""
    if not pooled["exposure_gpu_days"]:
        return "No exposure yet: no attempt is known to have held GPUs in this window."
    low = pooled["mttf_low_d"] / gpus
    high = "no upper limit" if pooled["mttf_high_d"] is None else days(pooled["mttf_high_d"] / gpus)
    value = "no failure yet" if pooled["mttf_d"] is None else days(pooled["mttf_d"] / gpus)
    return (
        f"At {gpus:,g} GPUs, from jobs of all sizes ({law}): infrastructure MTTF {value}, 95 % interval {days(low)} to "
        f"{high}."
    )


def _by_law(_: Reader, past: Histories, window: Window, question: Question) -> Answer:
    gpus = question.at_gpus
    rows = size_law_rows(past, window, gpus)
    return Answer(
        "Whether the failure rate grows as the GPUs do",
        rows.with_columns(ci_method=pl.lit("profile likelihood, widened by phi, 95 %")),
        {
            "class": ("class", "text"),
            "n_failures": ("failures", "count"),
            "n_sizes": ("job sizes", "count"),
            "gpus_smallest": ("from GPUs", "count"),
            "gpus_largest": ("to", "count"),
            "b": ("b", "number"),
            "b_low": ("95 % from", "number"),
            "b_high": ("to", "number"),
            "p_value": ("p of b = 1", "number"),
            "phi": ("phi", "number"),
            "mttf_d": (f"MTTF (days) at {gpus:,.10g} as fitted", "number"),
            "mttf_low_d": ("95 % from", "number"),
            "mttf_high_d": ("to", "number"),
            "mttf_by_1_n_d": ("by 1/N", "number"),
            "note": ("note", "text"),
        },
        headline=headlines.of_law(rows, gpus),
        ranked=("n_failures", "mttf_d", "mttf_low_d", "mttf_high_d", "mttf_by_1_n_d", "note"),
        in_words=(headlines.law_in_words(rows), CLASS_IN_WORDS),
        explained=("b", "b_low", "b_high", "p_value", "phi"),
        metrics=("size_law",),
        queries=_QUERIES,
        notes=(_SLOPE if question.details else _TESTED, META),
        parts={
            "metric": "class",
            "value": "b",
            "n": "n_failures",
            "ci_low": "b_low",
            "ci_high": "b_high",
            "ci_method": "ci_method",
            "p_value": "p_value",
            "phi": "phi",
            "n_sizes": "n_sizes",
            "mttf_d": "mttf_d",
            "mttf_low_d": "mttf_low_d",
            "mttf_high_d": "mttf_high_d",
        },
    )


_TESTED = (
    "1/N: twice the GPUs fail twice as often. It is tested only where the fit to the job sizes includes it and is "
    "narrow; a lack of evidence against it is no evidence for it (the slope: --explain)."
)
_SLOPE = (
    "rate = exp(a + b log GPUs); b = 1 is the law behind MTTF = 1/(N r). It is stated only where b's interval includes "
    "1 and half of it is below 0.25; a lack of evidence against it is no evidence for it."
)


def _by_hazard(_: Reader, past: Histories, window: Window, __: Question) -> Answer:
    methods = (
        pl.when(pl.col("curve") == "summary")
        .then(pl.lit("profile likelihood of the shape, 95 %"))
        .otherwise(pl.lit("log-log (Greenwood; delta method for incidence), 95 %"))
    )
    rows = hazard_rows(past, window).with_columns(ci_method=methods)
    worth_showing = (pl.col("curve") == "summary") & (pl.col("n_attempts") > 0)
    own = rows.filter(worth_showing, pl.col("class") == "infrastructure")
    columns = {
        "class": ("class", "text"),
        "size": ("GPUs", "text"),
        "n_attempts": ("attempts", "count"),
        "n_failures": ("failures", "count"),
        "survival_1h": ("uninterrupted at 1 h", "ratio"),
        "survival_24h": ("uninterrupted at 24 h", "ratio"),
        "survival_24h_low": ("95 % from", "ratio"),
        "survival_24h_high": ("to", "ratio"),
        "median_s": ("half interrupted by", "seconds"),
        "shape": ("Weibull shape", "number"),
        "shape_low": ("95 % from", "number"),
        "shape_high": ("to", "number"),
        "scale_s": ("scale", "seconds"),
        "p_value": ("p of shape 1", "number"),
        "note": ("note", "text"),
    }
    return Answer(
        "Interruptions by age of the attempt",
        rows,
        columns,
        headline=headlines.of_hazard(rows),
        ranked=("size", "n_failures", "survival_24h", "survival_24h_low", "median_s", "note"),
        in_words=(SIZE_IN_WORDS,),
        explained=_HAZARD_EXPLAINED,
        brief=_of_infrastructure(own, columns, _HAZARD_EXPLAINED, (_ALONE.format("hazard"), _KAPLAN_MEIER)),
        metrics=("survival", "cumulative_incidence", "hazard_shape"),
        queries=_QUERIES,
        notes=(_KAPLAN_MEIER,),
        worth_showing=worth_showing,
        drawn=pl.col("curve") != "summary",
        parts={
            "metric": "class",
            "subject": "size",
            "value": "shape",
            "n": "n_failures",
            "ci_low": "shape_low",
            "ci_high": "shape_high",
            "ci_method": "ci_method",
            "scale_s": "scale_s",
            "scale_low_s": "scale_low_s",
            "scale_high_s": "scale_high_s",
            "aic_weibull": "aic_weibull",
            "aic_exponential": "aic_exponential",
            "p_value": "p_value",
            "n_attempts": "n_attempts",
            "n_entered_late": "n_entered_late",
        },
        when_empty=_NOTHING,
    )


_HAZARD_EXPLAINED: Final = ("shape", "shape_low", "shape_high", "scale_s", "p_value")
"""Columns of survival that are shown with `--explain`."""

_KAPLAN_MEIER = (
    "Not interrupted by an age (Kaplan-Meier): attempts that already ran enter at their age; what else ends one "
    "censors it. `trackside show mttf --by hazard --format json` also has the curves, and the cumulative incidence by "
    "cause."
)

_P_VALUE = (
    "p of one rate: of counts as far apart as these, or farther, if both failed at one rate (exact, two-sided, given "
    "their total); for references with a count.",
)
_FACTS = (
    "A ratio below 1: this cluster fails less often than the reference.",
    "Meta's own numbers do not lie on one line: the fitted 6.50 per 1000 node-days (RSC-1) gives 28.8 h at 1024 GPUs, "
    "the paper also reports 7.9 h measured there, and 47.7 d at 8 GPUs where the fit gives 153.8 d. The failure "
    "definition behind the measured points must be wider.",
    "CoreWeave's tenfold MTTF sets a model value (3.66 d = 3,748.25 GPU-days / 1024) against the measured 7.9 h; "
    "against Meta's fitted rates it is 3.05 (RSC-1) or 1.10 (RSC-2), against Llama 3 1.78.",
    "Rates at other sizes are scaled by 1/N; `trackside show mttf --by law` tests that.",
)


def _by_reference(source: Reader, past: Histories, window: Window, question: Question) -> Answer:
    rows = reference_rows(source, past, window, question.at_gpus)
    return Answer(
        "Failure rates and published ones",
        rows,
        {
            "reference": ("reference", "text"),
            "class": ("our class", "text"),
            "size": ("our GPUs", "text"),
            "n_failures": ("our failures", "count"),
            "exposure_gpu_days": ("GPU-days", "number"),
            "per_1000_node_days": ("here per 1000 8-GPU node-days", "number"),
            "reference_per_1000_node_days": ("theirs", "number"),
            "rate_ratio": ("here / published", "number"),
            "ci_low": ("95 % from", "number"),
            "ci_high": ("to", "number"),
            "p_value": ("p of one rate", "number"),
            "at_gpus": ("at GPUs", "count"),
            "mttf_d": ("our MTTF (days)", "number"),
            "reference_mttf_d": ("theirs", "number"),
            "like_with_like": ("like with like", "text"),
            "note": ("note", "text"),
        },
        headline=headlines.of_references(rows),
        ranked=(
            "class",
            "rate_ratio",
            "ci_low",
            "ci_high",
            "per_1000_node_days",
            "reference_per_1000_node_days",
            "mttf_d",
            "n_failures",
        ),
        in_words=(CLASS_IN_WORDS, SIZE_IN_WORDS),
        explained=("p_value",),
        metrics=("failure_rate_ratio",),
        queries=(*_QUERIES, "clusters"),
        notes=(*_FACTS, META, *(_P_VALUE if question.details else ())),
        parts={
            "metric": "class",
            "subject": "reference",
            "value": "rate_ratio",
            "numerator": "rate_per_gpu_day",
            "denominator": "reference_rate_per_gpu_day",
            "n": "n_failures",
            "exposure_gpu_days": "exposure_gpu_days",
            "reference_failures": "reference_failures",
            "reference_gpu_days": "reference_gpu_days",
            "ci_low": "ci_low",
            "ci_high": "ci_high",
            "ci_method": "ci_method",
            "p_value": "p_value",
            "phi": "phi",
            "like_with_like": "like_with_like",
            "source": "source",
        },
    )


def _by_cause(_: Reader, past: Histories, window: Window, __: Question) -> Answer:
    rows = rates_by_cause(past, window.since, window.until)
    return Answer(
        "Failures by cause, in the exposure of all attempts",
        _explained(rows),
        {
            "class": ("class", "text"),
            "cause": ("cause", "text"),
            "n_failures": ("failures", "count"),
            "share": ("of all", "ratio"),
            **_POOLED_COLUMNS,
        },
        headline=headlines.of_causes(rows),
        ranked=_POOLED_RANKS,
        explained=("phi",),
        metrics=("mttf", "failure_rate", "failure_phi"),
        queries=_QUERIES,
        notes=("MTTF of one GPU by this cause alone: divide by a job's GPUs (assumes 1/N).",),
        parts=_PARTS | {"subject": "cause"},
        when_empty="No attempt failed in this window.",
    )


def _by_label(label: str) -> Callable[[Reader, Histories, Window, Question], Answer]:
    def answer(_: Reader, past: Histories, window: Window, __: Question) -> Answer:
        rows = rates_by(past, window.since, window.until, label)
        return Answer(
            f"Failure rates by {label}",
            _explained(rows),
            {
                label: (label, "text"),
                "class": ("class", "text"),
                "counted": ("counted", "text"),
                "n_failures": ("failures", "count"),
                "n_attempts": ("attempts", "count"),
                "exposure_gpu_days": ("GPU-days", "number"),
                **_POOLED_COLUMNS,
            },
            headline=headlines.of_labels(rows, label),
            ranked=("class", "counted", *_POOLED_RANKS),
            in_words=(CLASS_IN_WORDS,),
            explained=("phi",),
            metrics=("mttf", "failure_rate", "failure_phi"),
            queries=_QUERIES,
            notes=("MTTF of one GPU: divide by a job's GPUs.", _COUNTED),
            parts=_PARTS | {"subject": label},
            when_empty=_NOTHING,
        )

    return answer


_POOLED_COLUMNS = {
    "rate_per_gpu_day": ("per GPU-day", "number"),
    "rate_low": ("95 % from", "number"),
    "rate_high": ("to", "number"),
    "mttf_d": ("MTTF (days) of one GPU", "number"),
    "mttf_low_d": ("95 % from", "number"),
    "mttf_high_d": ("to", "number_or_open"),
    "phi": ("phi", "number"),
}

_POOLED_RANKS = ("cause", "n_failures", "share", "mttf_d", "mttf_low_d", "mttf_high_d")

_BY: dict[str, Callable[[Reader, Histories, Window, Question], Answer]] = {
    "law": _by_law,
    "hazard": _by_hazard,
    "reference": _by_reference,
    "cause": _by_cause,
    "partition": _by_label("partition"),
    "user": _by_label("user"),
}
"""What else failure rates can be split by."""
