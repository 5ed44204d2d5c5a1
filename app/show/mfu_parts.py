"""MFU over time, by class of node, and before and after each restart of a run: parts of the kept steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.mfu import fleet_row, flop_convention, kept_steps
from app.show.answer import Answer
from app.show.selection import only, requested_conventions, resolved_runs, several
from app.show.sentences import percent
from ingest.counted import counted
from metrics import frames
from metrics.mfu.flops import MEASURES
from metrics.mfu.mfu import step_mfu
from metrics.mfu.remark import beyond_peak

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.show.answer import Question
    from app.window import Window
    from metrics.mfu.flops import Convention
    from queries.warehouse import Reader

UNKNOWN_CLASS: Final = "not in the inventory"

PARTS: Final = {
    "day": {"day": ("day", "text")},
    "restart": {"run_id": ("run", "text"), "start": ("start", "count"), "began": ("began", "time")},
    "node_class": {"node_class": ("nodes", "text")},
}
"""The columns that name a part, by what MFU is split by."""

_VALUES: Final = {
    "metric": ("measure", "text"),
    "value": ("value", "ratio"),
    "change": ("change", "ratio"),
    "ci_low": ("95 % from", "ratio"),
    "ci_high": ("to", "ratio"),
    "n": ("steps", "count"),
    "note": ("note", "text"),
}
_ABOUT: Final = (
    "One FLOP convention: {}; --convention NAME for another. The peak is dense, for the data type of the log."
)
_ABOUT_RESTARTS: Final = "change: of the MFU, over that of the run's start before."


def by_part(source: Reader, window: Window, question: Question, *, when_empty: str) -> Answer:
    """MFU (and HFU) of each part under one convention: what was requested, else the headline's."""
    by = question.dimension
    convention = requested_conventions(question.convention)[0] if question.convention else None
    used = convention or flop_convention(source, window.cluster)
    steps = kept_steps(source, window)
    notes: tuple[str, ...] = ()
    if question.run is not None:
        run_ids = resolved_runs(source, window, question.run)
        steps, notes = only(steps, run_ids), several(question.run, run_ids)
    rows = _rows(_with_part(source, window, steps, by), window, by, used)
    about = (_ABOUT.format(used), *([_ABOUT_RESTARTS] if by == "restart" else []))
    return Answer(
        f"MFU by {by.replace('_', ' ')}",
        rows,
        PARTS[by] | {name: shown for name, shown in _VALUES.items() if name != "change" or by == "restart"},
        metrics=("mfu", "hfu"),
        queries=("steps", "run_sessions", "run_events", *(["attempt_nodes", "nodes"] if by == "node_class" else [])),
        headline=_headline(rows, by),
        notes=(*notes, *((*about, *beyond_peak(rows["value"])) if rows.height else ())),
        parameters={"convention": used},
        when_empty=when_empty,
        parts={"metric": "metric", "subject": next(iter(PARTS[by])), "value": "value", "n": "n",
               "numerator": "numerator", "denominator": "denominator", "ci_low": "ci_low", "ci_high": "ci_high",
               "ci_method": "ci_method"},
    )  # fmt: skip


def _rows(steps: pl.DataFrame, window: Window, by: str, convention: Convention) -> pl.DataFrame:
    names = list(PARTS[by])
    parts = list(_fleets(steps, window, names, convention))
    if not parts:
        return pl.DataFrame(schema=dict.fromkeys((*names, "metric"), pl.String()))
    rows = pl.concat(parts).filter(pl.col("n") > 0).sort(*names, "metric", descending=[False] * len(names) + [True])
    before = pl.col("value").shift(1).over("run_id", "metric") if by == "restart" else None
    return rows if before is None else rows.with_columns(change=pl.col("value") / before - 1)


def _fleets(steps: pl.DataFrame, window: Window, names: list[str], convention: Convention) -> Iterator[pl.DataFrame]:
    for measure in MEASURES:
        counted = step_mfu(steps, convention=convention, measure=measure)
        for part, some in counted.group_by(names, maintain_order=True):
            named = (pl.lit(value).alias(name) for name, value in zip(names, part, strict=True))
            yield fleet_row(some, window, convention, measure).with_columns(*named)


def _with_part(source: Reader, window: Window, steps: pl.DataFrame, by: str) -> pl.DataFrame:
    """The steps with the columns that name their part."""
    if by == "day":
        return steps.with_columns(day=pl.col("ts").dt.date().cast(pl.String))
    if by == "restart":
        began = pl.col("ts").min().over("run_id", "session")
        return steps.with_columns(began=began).with_columns(
            start=pl.col("began").rank("dense").over("run_id").cast(pl.Int64)
        )
    classes = _classes(source, window.cluster)
    key = list(frames.ATTEMPT_KEY)
    return steps.join(classes, on=key, how="left", maintain_order="left").with_columns(
        pl.col("node_class").fill_null(UNKNOWN_CLASS)
    )


def _classes(source: Reader, cluster: str) -> pl.DataFrame:
    """The class of each attempt's nodes: GPUs of a node and their model, as the last inventory has them."""
    inventory = source.query("nodes", cluster=cluster).sort("valid_from").unique("node", keep="last")
    gpus = pl.col("milli_gpus") / 1000
    named = pl.when(gpus > 0).then(pl.format("{} {} a node", gpus, pl.col("gpu_model").fill_null("GPUs")))
    of_nodes = inventory.select("node", node_class=named.str.replace(r"^(\d+)\.0 ", "$1 "))
    held = source.query("attempt_nodes", cluster=cluster).join(of_nodes, on="node", how="left")
    every = pl.col("node_class").fill_null(UNKNOWN_CLASS).unique().sort().str.join(" and ")
    return held.group_by(frames.ATTEMPT_KEY).agg(every)


def _headline(rows: pl.DataFrame, by: str) -> str:
    """The highest and the lowest part; of restarts the one that changed the MFU most."""
    known = rows.filter((pl.col("metric") == "mfu") & pl.col("value").is_not_null()) if rows.height else rows
    if known.is_empty():
        return "The MFU of these steps is unknown." if rows.height else ""
    if by == "restart":
        return _of_restarts(known)
    if known.height < 2:
        return f"MFU {percent(known['value'].item())}, all of it {known[by].item()}."
    low, high = (known.sort("value", maintain_order=True).row(at, named=True) for at in (0, -1))
    return f"MFU from {percent(low['value'])} ({low[by]}) to {percent(high['value'])} ({high[by]})."


def _of_restarts(known: pl.DataFrame) -> str:
    changed = known.filter(pl.col("change").is_not_null())
    if changed.is_empty():
        return "No run with steps before and after a restart."
    row = changed.sort(pl.col("change").abs(), descending=True, maintain_order=True).row(0, named=True)
    word = "lower" if row["change"] < 0 else "higher"
    return (
        f"{counted(changed.height, 'restart')} with steps on both sides; the largest change: {row['run_id']}, start "
        f"{row['start']}, MFU {percent(abs(row['change']))} {word} than before."
    )
