"""What scaling is computed from: the speed of each logged run by recipe and size, and its time to a target."""

from __future__ import annotations

import re
import tomllib
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from app.results.mfu import flop_convention, kept_steps, sized_gpus
from app.results.runs.run_logs import computed_logs
from metrics import frames
from metrics.mfu.mfu import FACTS, step_mfu
from metrics.scaling.speeds import KEY, has_speed, run_speeds
from metrics.scaling.target import logged_times, token_times

if TYPE_CHECKING:
    from app.window import RowSource, Window
    from metrics.mfu.flops import Convention


def scaling_runs(
    source: RowSource, window: Window, *, tokens: float | None = None, convention: Convention | None = None
) -> pl.DataFrame:
    """Each run that logged steps in the window, by recipe, GPUs and global batch, with its time to the target.

    Args:
        source: where the rows are read from.
        window: where the steps begin.
        tokens: the target of the time: so many kept tokens; by default the target that the log itself records.
        convention: of the FLOP of an MFU, by default the configured one.

    Returns:
        `metrics.scaling.speeds.run_speeds`'s rows with `status` and `seconds` of the time to the target. A run whose
        log records its time, and of which no step has tokens and a length, has a row without a speed.
    """
    kept = _steps(source, window)
    used = convention or flop_convention(source, window.cluster)
    times = logged_times(_events(source, window.cluster)) if tokens is None else token_times(kept, tokens)
    steps = step_mfu(kept, convention=used)
    runs = run_speeds(steps, _timed_alone(source, window, steps, times) if tokens is None else None)
    return runs.join(times, on=["cluster", "run_id"], how="left", maintain_order="left")


def _timed_alone(source: RowSource, window: Window, steps: pl.DataFrame, times: pl.DataFrame) -> pl.DataFrame:
    """The sessions of runs with a time of which no step has a speed, as rows of steps without tokens and length."""
    sessions = computed_logs(source, window.cluster)[0].sessions
    low, high = frames.instant(window.since), frames.instant(window.until)
    inside = sessions.filter((pl.col("started_at") >= low) & (pl.col("started_at") < high))
    lacking = inside.with_columns(sized_gpus(), run_id="run", ts="started_at").filter(pl.col("n_gpus") > 0)
    without = lacking.join(times, on=["cluster", "run_id"], how="semi")
    without = without.join(steps.filter(has_speed()), on=["cluster", "run_id"], how="anti", maintain_order="left")
    columns = ("cluster", "run_id", "ts", "n_gpus", *frames.RECIPE, *(name for name in KEY if name != "recipe"))
    empty = [pl.lit(None, pl.Float64).alias(name) for name in ("tokens", "mfu", "flop", "peak_flop")]
    return without.select(*columns, *empty, wall_s=pl.lit(0.0)).unique(["run_id", "n_gpus", *KEY], maintain_order=True)


def _events(source: RowSource, cluster: str) -> pl.DataFrame:
    """Events of run logs, by the runs that these are joined to."""
    key = ["cluster", "run_id", "scheduler", "job_id"]
    runs = computed_logs(source, cluster)[0].sessions.select(*key, "run").unique(maintain_order=True)
    logged = source.query("run_events", cluster=cluster)
    return logged.join(runs, on=key, nulls_equal=True).with_columns(run_id="run")


def _steps(source: RowSource, window: Window) -> pl.DataFrame:
    return kept_steps(source, window, (*FACTS, *frames.RECIPE))


# Days ---------------------------------------------------------------------------------------------------------------


def speeds_by_day(source: RowSource, window: Window) -> pl.DataFrame:
    """`run_speeds`'s rows by UTC day instead of by run: `run_id` is the day, as text."""
    steps = step_mfu(_steps(source, window), convention=flop_convention(source, window.cluster))
    return run_speeds(steps.with_columns(run_id=pl.col("ts").dt.date().cast(pl.String)))


class Differences(NamedTuple):
    """What is different after a change: each in words; and what is not known before or after it."""

    known: list[str]
    unknown: list[str]


def what_changed(source: RowSource, window: Window, n_gpus: float, day: str) -> Differences:
    """What else is different from a day on: driver, nodes and container image of the attempts of a size.

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
    labels = source.query("attempt_labels", cluster=window.cluster, every=True, env="", comment_key="", by_wckey=False)
    found = {
        "nodes": nodes.rename({"node": "value"}),
        "image": labels.select(*key, value=pl.col("submit_line").str.extract(_IMAGE.pattern, 1)),
    }
    measured = _measured_drivers(source, window, steps.with_columns(after=after), nodes)
    recorded = attempts.join(_drivers(source, window.cluster), on=key, nulls_equal=True).select("after", "value")
    sides = {"driver": _sides(pl.concat([recorded, measured]))}
    sides |= {what: _sides(attempts.join(rows, on=key, nulls_equal=True)) for what, rows in found.items()}
    unknown = [what for what, (before, since) in sides.items() if not (before and since)]
    texts = (_difference(what, *both) for what, both in sides.items() if what not in unknown)
    return Differences([text for text in texts if text], unknown)


DRIVER: Final = "driver"
"""Kind of the event of a run log whose detail is the version of the GPUs' driver."""

_IMAGE: Final = re.compile(r"--container-image[= ](\S+)")
"""The container image in a submit line (Pyxis)."""

_MOST_NAMED: Final = 5


def _drivers(source: RowSource, cluster: str) -> pl.DataFrame:
    """The driver (`value`) of each attempt whose log records it: that of the session at whose time it was recorded."""
    logs, _ = computed_logs(source, cluster)
    of = ["run_id", "scheduler", "job_id"]
    sessions = logs.sessions.select(*frames.ATTEMPT_KEY, "run_id", "started_at").sort("started_at")
    events = source.query("run_events", cluster=cluster)
    recorded = (
        events.filter(pl.col("kind") == DRIVER)
        .select(*of, pl.col("ts").cast(sessions.schema["started_at"]), value="detail")
        .sort("ts")
    )
    found = recorded.join_asof(sessions, left_on="ts", right_on="started_at", by=of, check_sortedness=False)
    return found.select(*frames.ATTEMPT_KEY, "value")


def _measured_drivers(source: RowSource, window: Window, steps: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """The drivers (`value`) that telemetry names of the nodes of steps, on either side (`after`).

    Of a day on which a node's driver changed, that which was there while the steps were, if one was seen then.

    Args:
        source: where the rows are read from.
        window: of the steps.
        steps: the steps, with `after`.
        nodes: of each attempt.
    """
    key = list(frames.ATTEMPT_KEY)
    day = pl.col("ts").dt.truncate("1d")
    spans = steps.group_by(*key, "after", day=day).agg(low=pl.col("ts").min(), high=pl.col("ts").max())
    versions = source.query("driver_versions", **window.parameters).rename({"ts": "day", "version": "value"})
    versions = versions.with_columns(pl.col("day").cast(spans.schema["day"]))
    of_nodes = spans.join(nodes, on=key, nulls_equal=True).join(versions, on=["cluster", "node", "day"])
    seen = (pl.col("first_seen_at") <= pl.col("high")) & (pl.col("last_seen_at") >= pl.col("low"))
    then = of_nodes.with_columns(seen=seen).filter(pl.col("seen") | ~pl.col("seen").any().over(*key, "node", "day"))
    return then.select("after", "value").unique()


def _sides(rows: pl.DataFrame) -> tuple[set[str], set[str]]:
    """The values before and after the change."""
    before, since = (set(rows.filter(pl.col("after") == side)["value"].drop_nulls()) for side in (False, True))
    return before, since


def _difference(what: str, before: set[str], since: set[str]) -> str | None:
    """What is there after the change and not before it, and the other way round; None where nothing is."""
    texts = [f"{word} {_names(names)}" for word, names in (("new", since - before), ("gone", before - since)) if names]
    return f"{what}: {', '.join(texts)}" if texts else None


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
