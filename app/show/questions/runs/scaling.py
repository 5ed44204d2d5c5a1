"""The question of `trackside show` about scaling: what the same recipe gains from more GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.steps.scaling import reference_results, scaling_runs, speeds_by_day, what_changed
from app.show.answer import Answer, Question, with_values
from app.show.registry import question
from app.show.selection import requested_conventions
from app.show.sentences import percent
from ingest.counted import counted
from metrics.mfu.remark import beyond_peak
from metrics.scaling.change import LEAST_DAYS, RateChange, change_of
from metrics.scaling.reference import BASELINE, compared_with_references
from metrics.scaling.table import scaling_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.config.scaling import Scaling
    from app.results.steps.scaling import Differences
    from app.window import Window
    from queries.warehouse import Reader

_QUERIES: Final = ("steps", "run_sessions", "run_events")
_METRICS: Final = ("scaling_efficiency", "time_to_train")
_NO_RUNS: Final = (
    "No run of a known job logged steps with tokens and GPUs in this window.\n"
    "The recorder does it in three lines: trackside recorder --help"
)


@question(
    "scaling",
    "speed of each recipe by number of GPUs, strong and weak",
    help="tokens/s/GPU, MFU, time to train by number of GPUs and batch; strong and weak scaling\n"
    "--by day: a recipe over time; reference: beside published results",
    by=("size", "day", "reference"),
    takes=("convention",),
    position=17,
)
def scaling(source: Reader, window: Window, question: Question) -> Answer:
    """Speed and efficiency of each recipe by size, over time, or beside published results."""
    if question.dimension == "day":
        return _by_day(source, window)
    if question.dimension == "reference":
        return _by_reference(source, window, question.configured.scaling)
    return _by_size(source, window, question.convention)


# Sizes --------------------------------------------------------------------------------------------------------------


def _by_size(source: Reader, window: Window, requested: str | None) -> Answer:
    convention = requested_conventions(requested)[0] if requested else None
    rows = scaling_table(scaling_runs(source, window, convention=convention))
    return Answer(
        "Scaling: each recipe by number of GPUs and global batch",
        rows,
        _present(rows, _SIZE_COLUMNS),
        metrics=_METRICS,
        queries=_QUERIES,
        headline=_headline(rows),
        ranked=("n_gpus", "batch", "tokens_per_gpu_s", "mfu", "time_to_train_s", "by_time", "strong", "weak", "step_s"),
        notes=_notes(rows),
        when_empty=_NO_RUNS,
        parts={"subject": "recipe", "value": "tokens_per_gpu_s", "n": "n", "ci_low": "ci_low", "ci_high": "ci_high"},
    )


_SIZE_COLUMNS: Final = {
    "recipe": ("recipe", "text"),
    "n_gpus": ("GPUs", "count"),
    "batch": ("batch", "count"),
    "n": ("runs", "count"),
    "steps": ("steps", "count"),
    "tokens_per_gpu_s": ("tokens/s/GPU", "number"),
    "ci_low": ("95 % from", "number"),
    "ci_high": ("to", "number"),
    "over": ("interval over", "text"),
    "mfu": ("MFU", "ratio"),
    "step_s": ("s/step", "number"),
    "time_to_train_s": ("to train", "seconds"),
    "time_low": ("at least", "seconds"),
    "time_high": ("at most", "seconds"),
    "by_time": ("by time", "ratio"),
    "by_time_low": ("by time from", "ratio"),
    "by_time_high": ("by time to", "ratio"),
    "strong": ("strong", "ratio"),
    "strong_low": ("strong from", "ratio"),
    "strong_high": ("strong to", "ratio"),
    "weak": ("weak", "ratio"),
    "weak_low": ("weak from", "ratio"),
    "weak_high": ("weak to", "ratio"),
    "learning_rate": ("learning rate", "number"),
}


def _present(rows: pl.DataFrame, columns: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """The columns that have a value in some row; of one recipe the GPUs come first."""
    known = with_values(rows, columns)
    first = ("n_gpus",) if rows["recipe"].n_unique() == 1 else ("recipe",)
    return {name: known[name] for name in (*first, *known)}


def _headline(rows: pl.DataFrame) -> str:
    """The widest efficiency of the recipe with the most GPUs, by time where targets were reached."""
    for kind, words in (("by_time", "by time to train"), ("strong", "strong, by tokens"), ("weak", "weak, by tokens")):
        known = rows.filter(pl.col(kind).is_not_null()).sort("n_gpus", descending=True, maintain_order=True)
        if known.height:
            row = known.row(0, named=True)
            low, high = row[f"{kind}_low"], row[f"{kind}_high"]
            interval = "" if low is None else f", 95 % {percent(low)} to {percent(high)}"
            few, many = row[f"{kind}_base_gpus"], row["n_gpus"]
            return f"Scaling efficiency from {few:,.0f} to {many:,.0f} GPUs: {percent(row[kind])}{interval} ({words})."
    return "" if rows.is_empty() else "No two sizes of one recipe have a batch, a batch per GPU or a target in common."


def _notes(rows: pl.DataFrame) -> tuple[str, ...]:
    missed = rows.filter((pl.col("reached") < pl.col("n")) & (pl.col("reached") > 0))
    words = [
        f"{row['n'] - row['reached']} of {counted(row['n'], 'run')} on {counted(row['n_gpus'], 'GPU')} did not reach "
        "the target."
        for row in missed.iter_rows(named=True)
    ]
    return (*_ABOUT, *_bookkeeping(rows), *words, *beyond_peak(rows["mfu"])) if rows.height else ()


_ABOUT: Final = (
    "Strong: the same global batch; weak: the same batch per GPU; by time: GPU-time to the same target, any batch. "
    "Each is over the smallest such size. Intervals: t of the logarithm over runs, of one run over blocks of its "
    "steps.",
)


def _bookkeeping(rows: pl.DataFrame) -> Iterator[str]:
    """What the batch grew by, and what the learning rate did: stated, not judged."""
    several = rows["recipe"].n_unique() > 1
    for (_, name), recipe in rows.group_by("cluster", "recipe", maintain_order=True):
        last = recipe.row(-1, named=True)
        factor, rate = last["batch_factor"], last["learning_rate_factor"]
        if recipe.height < 2 or factor is None:
            continue
        known = "is unknown" if rate is None else f"x{rate:.3g}"
        few, many = recipe["n_gpus"][0], last["n_gpus"]
        of = f"{name}: from" if several else "From"
        yield (
            f"{of} {few:,.0f} to {many:,.0f} GPUs the global batch is x{factor:.3g}, the learning rate {known} "
            f"(linear-scaling rule: x{factor:.3g})."
        )


# Days ---------------------------------------------------------------------------------------------------------------


def _by_day(source: Reader, window: Window) -> Answer:
    rows = speeds_by_day(source, window).select(
        "cluster",
        pl.col("label").alias("recipe"),
        "n_gpus",
        "batch",
        pl.col("run_id").alias("day"),
        pl.col("n").alias("steps"),
        (pl.col("tokens") / pl.col("gpu_s")).alias("tokens_per_gpu_s"),
        (pl.col("wall_s") / pl.col("n")).alias("step_s"),
        (pl.col("flop") / pl.col("peak_flop")).alias("mfu"),
    )
    changes = list(_changes(source, window, rows))
    return Answer(
        "Speed of each recipe and size by day",
        rows,
        _present(rows, _DAY_COLUMNS),
        queries=("steps", "run_sessions", "run_events", "attempt_nodes", "attempt_labels"),
        headline=" ".join(changes) or _no_change(rows),
        ranked=("n_gpus", "day", "tokens_per_gpu_s", "mfu", "step_s", "batch", "steps"),
        notes=(_ABOUT_DAYS, *beyond_peak(rows["mfu"])) if rows.height else (),
        when_empty=_NO_RUNS,
    )


_DAY_COLUMNS: Final = {
    "recipe": ("recipe", "text"),
    "n_gpus": ("GPUs", "count"),
    "batch": ("batch", "count"),
    "day": ("day", "text"),
    "steps": ("steps", "count"),
    "tokens_per_gpu_s": ("tokens/s/GPU", "number"),
    "step_s": ("s/step", "number"),
    "mfu": ("MFU", "ratio"),
}

_ABOUT_DAYS: Final = (
    f"A change is named where the days before and after it, {LEAST_DAYS} at least on either side, differ beyond their "
    "noise (t test of the logarithms at the clearest split, 5 % over all splits together). The driver is that which "
    "a run log records, nvidia-smi printed into it or dcgm-exporter names (label DCGM_FI_DRIVER_VERSION), the image "
    "that of the submit line."
)


def _no_change(rows: pl.DataFrame) -> str:
    return "" if rows.is_empty() else "No recipe became slower or faster beyond the noise of its days."


def _changes(source: Reader, window: Window, rows: pl.DataFrame) -> Iterator[str]:
    """Each change in a sentence: slower or faster, since when, and what else is different since then."""
    for (recipe, gpus, _), days in rows.group_by("recipe", "n_gpus", "batch", maintain_order=True):
        ordered = days.sort("day")
        change = change_of(ordered["tokens_per_gpu_s"].to_list())
        if change is not None:
            day = str(ordered["day"][change.at])
            changed = what_changed(source, window, float(str(gpus)), day)
            yield _change_words(str(recipe), float(str(gpus)), day, change, changed)


def _change_words(recipe: str, gpus: float, day: str, change: RateChange, changed: Differences) -> str:
    word = "slower" if change.ratio < 1 else "faster"
    since = f"; since then {'; '.join(changed.known)}" if changed.known else "; nothing else that is known changed"
    since += f" (unknown: {', '.join(changed.unknown)})" if changed.unknown else ""
    return f"{recipe} on {gpus:,.0f} GPUs is {percent(abs(change.ratio - 1))} {word} from {day} on{since}."


# References ---------------------------------------------------------------------------------------------------------


def _by_reference(source: Reader, window: Window, configured: Scaling) -> Answer:
    own = [each.row() for each in configured.reference]
    rows = compared_with_references(scaling_runs(source, window), [*own, *reference_results()])
    return Answer(
        f"Beside {'your own and ' if own else ''}published results of the same recipe, kind of GPU and number of GPUs",
        rows,
        {
            "recipe": ("recipe", "text"),
            "n_gpus": ("GPUs", "count"),
            "measure": ("measure", "text"),
            "published": ("published", "number"),
            "measured": ("measured", "number"),
            "share": ("of its speed", "ratio"),
            "share_low": ("95 % from", "ratio"),
            "share_high": ("to", "ratio"),
            "n": ("n", "count"),
            "verdict": ("at least 95 %", "text"),
            "name": ("reference" if own else "published by", "text"),
        },
        metrics=_METRICS,
        queries=_QUERIES,
        headline=_reference_headline(rows),
        ranked=("n_gpus", "measure", "published", "measured", "share", "verdict", "share_low", "share_high"),
        when_empty=(
            "No run here has the recipe, kind of GPU and number of GPUs of a published result,\n"
            "or of yours ([[scaling.reference]] in the configuration).\n"
            "A run log names its recipe: recipe in its `run` line, or ingest runlog --set recipe=llama31_405b"
        ),
        parts={"subject": "recipe", "value": "share", "ci_low": "share_low", "ci_high": "share_high", "n": "n"},
    )


def _reference_headline(rows: pl.DataFrame) -> str:
    if rows.is_empty():
        return ""
    met = rows.filter(pl.col("verdict") == "met").height
    return f"{met} of {rows.height} published figures are met: at least {BASELINE:.0%} of the published speed."
