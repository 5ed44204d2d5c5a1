"""The measurement of claims about scaling: the efficiency of a larger size, and the time to train."""

from __future__ import annotations

import fnmatch
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from app.results.steps.scaling import scaling_runs
from ingest.counted import counted
from metrics.claims.verdict import Claim, Measurement
from metrics.scaling.efficiency import by_time, by_tokens, comparable, size_of, sizes
from metrics.scaling.target import REACHED, official_time, timed, whole_runs
from metrics.scaling.target import time_to_train as mean_time

if TYPE_CHECKING:
    from app.claims.scope import Scoped
    from app.window import RowSource, Window
    from metrics.scaling.estimate import Estimate

MOST_NAMED = 5
"""Recipes that a message names."""


def scaling_efficiency(source: RowSource, window: Window, claim: Claim, scoped: Scoped | None) -> Measurement:
    """The efficiency of `gpus` over `base_gpus`, for the one recipe and the one pair of batches that fit the claim."""
    runs = _runs(source, window, claim, scoped)
    if claim.basis == "time":
        runs = timed(runs)
    pairs = [pair for (_,), recipe in _by_recipe(runs) for pair in _pairs(recipe, claim)]
    if len(pairs) != 1:
        return Measurement(n=0, needed=_pair_needed(pairs, claim))
    few, many = pairs[0]
    result = (by_time if claim.basis == "time" else by_tokens)(few, many)
    if result is None:
        return Measurement(n=0, needed="runs of both sizes with tokens and times in their logs")
    return replace(_measured(claim, result), beside=_bookkeeping(few, many))


def time_to_train(source: RowSource, window: Window, claim: Claim, scoped: Scoped | None) -> Measurement:
    """The time to train of the runs of the claim's size, which are of one recipe.

    It is the mean of those that reached the target, or MLPerf's official result.
    """
    runs = _of_size(whole_runs(_runs(source, window, claim, scoped)), claim.gpus)
    recipes = _by_recipe(timed(runs))
    what = "a target in their log" if claim.tokens is None else f"{claim.tokens:,.4g} tokens"
    if not recipes:
        return Measurement(n=0, needed=f"runs of {claim.gpus:,.10g} GPUs that reached {what}")
    if len(recipes) > 1:
        return Measurement(n=0, needed=_several_recipes([str(label) for (label,), _ in recipes]))
    if claim.score == "mlperf":
        return _official(claim, runs, recipes[0][0][0])
    result = mean_time(recipes[0][1])
    if result is None:
        return Measurement(n=0, needed=f"runs of {claim.gpus:,.10g} GPUs with a time above zero")
    missed = runs.filter(pl.col("seconds").is_null())["run_id"].n_unique()
    beside = (f"{counted(missed, 'more run')} of this size did not reach {what}: not in the mean",) if missed else ()
    return replace(_measured(claim, result), beside=beside)


def _official(claim: Claim, runs: pl.DataFrame, recipe: str | None) -> Measurement:
    """MLPerf's official result of the runs of a recipe."""
    own = runs.filter(pl.col("label").eq_missing(pl.lit(recipe)))
    missed = own["seconds"].null_count()
    result = official_time(own)
    if result is None:
        needed = f"three runs, of which at most one missed the target: there are {own.height}, and {missed} missed it"
        return Measurement(n=0, needed=needed)
    beside = ["1 run missed the target: it is the slowest"] if missed else []
    if (mean := mean_time(own)) is not None:
        beside.append(f"mean of the {mean.n} runs that reached it: {mean.value:,.1f} s")
    method = "mean without the fastest and the slowest run"
    return replace(_measured(claim, result), method=method, beside=tuple(beside))


def _runs(source: RowSource, window: Window, claim: Claim, scoped: Scoped | None) -> pl.DataFrame:
    """The runs in the claim's scope, with the pattern of run ids that it names."""
    runs = scaling_runs(source, window, tokens=claim.tokens)
    if scoped is not None:
        runs = runs.join(scoped.runs(), on="run_id", how="semi", maintain_order="left")
    if claim.runs is None:
        return runs
    names = [name for name in runs["run_id"].unique() if fnmatch.fnmatchcase(name, claim.runs)]
    return runs.filter(pl.col("run_id").is_in(names))


def _by_recipe(runs: pl.DataFrame) -> list[tuple[tuple[Any, ...], pl.DataFrame]]:
    return list(runs.group_by("label", maintain_order=True))


def _of_size(runs: pl.DataFrame, gpus: float | None) -> pl.DataFrame:
    return runs.filter(pl.col("n_gpus") == gpus)


def _pairs(recipe: pl.DataFrame, claim: Claim) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
    """The smaller and the larger size that the claim compares; by time all batches of a size are one."""
    few, many = _of_size(recipe, claim.base_gpus), _of_size(recipe, claim.gpus)
    if claim.basis == "time":
        return [(few, many)] if few.height and many.height else []
    return [
        (small, large)
        for small in sizes(few)
        for large in sizes(many)
        if comparable(size_of(small), size_of(large), claim.scaling or "strong")
    ]


def _pair_needed(pairs: list[tuple[pl.DataFrame, pl.DataFrame]], claim: Claim) -> str:
    """Why there is not exactly one pair of sizes to compare."""
    if pairs:
        return _several_recipes([str(few["label"][0]) for few, _ in pairs])
    common = "the target" if claim.basis == "time" else "batch" if claim.scaling == "strong" else "batch per GPU"
    reached = " that reached it" if claim.basis == "time" else ""
    return (
        f"logged runs of {claim.base_gpus:,.10g} and of {claim.gpus:,.10g} GPUs with the same recipe, with {common} in "
        f"common{reached}"
    )


def _several_recipes(labels: list[str]) -> str:
    more = f" and {len(labels) - MOST_NAMED} more" if len(labels) > MOST_NAMED else ""
    return f"one recipe and batch, and several fit: {'; '.join(labels[:MOST_NAMED])}{more}. Name runs: runs = PATTERN"


def _measured(claim: Claim, result: Estimate) -> Measurement:
    """A delivered claim is about these runs themselves; a capability about further ones."""
    logged = Measurement(result.value, n=result.n, level="logs", evidence=(("log", 1.0),))
    if claim.kind == "delivered":
        return replace(logged, low=result.value, high=result.value, method=f"the {result.over}' own value")
    low, high = result.interval() or (None, None)
    method = f"t interval of the logarithm over {result.over}, 95 %"
    return replace(logged, low=low, high=high, needed="more runs of each size", method=method)


def _bookkeeping(few: pl.DataFrame, many: pl.DataFrame) -> tuple[str, ...]:
    """What else changed between the sizes: global batch and learning rate, stated and not judged."""
    texts = [f"global batch {_values(few, 'batch')} and {_values(many, 'batch')}"]
    rates = _values(few, "learning_rate"), _values(many, "learning_rate")
    texts += [f"learning rate {rates[0]} and {rates[1]}"] if rates != ("unknown", "unknown") else []
    reached = ", ".join(sorted({each for each in many["status"].drop_nulls() if each != REACHED}))
    return ("; ".join(texts), *([f"ended otherwise: {reached}"] if reached else []))


def _values(runs: pl.DataFrame, name: str) -> str:
    return ", ".join(f"{each:.4g}" for each in runs[name].drop_nulls().unique().sort()) or "unknown"
