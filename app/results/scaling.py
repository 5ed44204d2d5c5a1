"""What scaling is computed from: the speed of each logged run by recipe and size, and its time to a target."""

from __future__ import annotations

import re
import tomllib
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.results.mfu import flop_convention, kept_steps
from app.results.runs.run_logs import computed_logs
from metrics import frames
from metrics.mfu.mfu import FACTS, step_mfu
from metrics.scaling.speeds import run_speeds
from metrics.scaling.target import logged_times, token_times

if TYPE_CHECKING:
    from app.window import Source, Window
    from metrics.mfu.flops import Convention


def scaling_runs(
    source: Source, window: Window, *, tokens: float | None = None, convention: Convention | None = None
) -> pl.DataFrame:
    """Each run that logged steps in the window, by recipe, GPUs and global batch, with its time to the target.

    Args:
        source: where the rows are read from.
        window: where the steps begin.
        tokens: the target of the time: so many kept tokens; by default the target that the log itself records.
        convention: of the FLOP of an MFU, by default the configured one.

    Returns:
        `metrics.scaling.speeds.run_speeds`'s rows with `status` and `seconds` of the time to the target.
    """
    kept = _steps(source, window)
    used = convention or flop_convention(source, window.cluster)
    times = logged_times(_events(source, window.cluster)) if tokens is None else token_times(kept, tokens)
    runs = run_speeds(step_mfu(kept, convention=used))
    return runs.join(times, on=["cluster", "run_id"], how="left", maintain_order="left")


def _events(source: Source, cluster: str) -> pl.DataFrame:
    """Events of run logs, by the runs that these are joined to."""
    key = ["cluster", "run_id", "scheduler", "job_id"]
    runs = computed_logs(source, cluster)[0].sessions.select(*key, "run").unique(maintain_order=True)
    logged = source.query("run_events", cluster=cluster)
    return logged.join(runs, on=key, nulls_equal=True).with_columns(run_id="run")


def _steps(source: Source, window: Window) -> pl.DataFrame:
    return kept_steps(source, window, (*FACTS, *frames.RECIPE))


# Days ---------------------------------------------------------------------------------------------------------------


def speeds_by_day(source: Source, window: Window) -> pl.DataFrame:
    """`run_speeds`'s rows by UTC day instead of by run: `run_id` is the day, as text."""
    steps = step_mfu(_steps(source, window), convention=flop_convention(source, window.cluster))
    return run_speeds(steps.with_columns(run_id=pl.col("ts").dt.date().cast(pl.String)))


def what_changed(source: Source, window: Window, n_gpus: float, day: str) -> list[str]:
    """What else is different from a day on: nodes and container images of the attempts of a size, where known.

    Args:
        source: where the rows are read from.
        window: with the days before and after.
        n_gpus: GPUs of the attempts.
        day: the first day after the change.
    """
    key = list(frames.ATTEMPT_KEY)
    steps = _steps(source, window).filter(pl.col("n_gpus") == n_gpus)
    after = pl.col("ts").dt.date().cast(pl.String) >= day
    attempts = steps.select(*key, after=after).unique(maintain_order=True)
    nodes = source.query("attempt_nodes", cluster=window.cluster).select(*key, "node")
    labels = source.query("attempt_labels", cluster=window.cluster).select(*key, "submit_line")
    images = labels.with_columns(image=pl.col("submit_line").str.extract(_IMAGE.pattern, 1)).drop("submit_line")
    return [
        *_difference("nodes", attempts.join(nodes, on=key), "node"),
        *_difference("image", attempts.join(images, on=key), "image"),
    ]


_IMAGE: Final = re.compile(r"--container-image[= ](\S+)")
"""The container image in a submit line (Pyxis)."""

_MOST_NAMED: Final = 5


def _difference(what: str, rows: pl.DataFrame, column: str) -> list[str]:
    """What of a column is there after the change and not before it, and the other way round."""
    before, after = (set(rows.filter(pl.col("after") == side)[column].drop_nulls().unique()) for side in (False, True))
    texts = [f"{word} {_names(names)}" for word, names in (("new", after - before), ("gone", before - after)) if names]
    return [f"{what}: {', '.join(texts)}"] if texts else []


def _names(names: set[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - _MOST_NAMED} more" if len(ordered) > _MOST_NAMED else ""
    return ", ".join(ordered[:_MOST_NAMED]) + more


# References ---------------------------------------------------------------------------------------------------------


def reference_results() -> list[dict[str, Any]]:
    """The published results that come with Trackside, as their file has them."""
    text = (resources.files("app") / "results" / "reference_results.toml").read_text("utf-8")
    rows: list[dict[str, Any]] = tomllib.loads(text)["reference"]
    return rows
