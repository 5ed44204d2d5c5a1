"""The question of `trackside show` about placement in the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.results.placement.rows import effect_rows, places, span_rows, standing_rows, sums
from app.show.answer import MOST_EXPLAINED, Answer, Question, with_values
from app.show.registry import question
from app.show.sentences import percent
from ingest.counted import counted
from metrics.placement import room

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader

_UNPLACED: Final = "The place of nodes is unknown: load `scontrol show topology` (trackside ingest slurm)."
_PLACED: Final = ("attempt_nodes_in", "node_places", "inventory_of", "node_states")
_ROOM: Final = (*_PLACED, "reserved_node_lists")
_QUERIES: Final = ("attempts_begun", "attempt_nodes_in", "nodes", "node_places", "inventory_of", "node_states")


@question(
    "placement",
    "blocks and switches that jobs span, and which sizes could start now",
    help="blocks (or leaf switches) that attempts on several nodes span, against the least possible at their start;\n"
    "how attempts that span more differ; at the end of the period: blocks, and sizes that could start within them\n"
    "--by size, run, effect, block, segment",
    by=("size", "run", "effect", "block", "segment"),
    position=44,
)
def placement(source: Reader, window: Window, question: Question) -> Answer:
    """Placement by size or run, its effects, or the room that there is."""
    by = question.dimension
    if by == "segment":
        return _segments(source, window)
    if by == "block":
        return _blocks(source, window)
    rows = span_rows(source, window)
    return _effects(source, window, rows) if by == "effect" else _sums(source, window, rows, by)


def _sums(source: Reader, window: Window, rows: pl.DataFrame, by: str) -> Answer:
    table = sums(rows, by).with_columns(pl.lit("least_placement_share").alias("metric"))
    ordered = table.sort(
        "n_gpus" if by == "size" else "excess_gpu_s", "subject", descending=[by != "size", False], nulls_last=True
    )
    return Answer(
        f"Blocks that attempts on several nodes span, by {by}",
        ordered,
        with_values(
            ordered,
            {
                "subject": ("GPUs" if by == "size" else by, "text"),
                "n": ("attempts", "count"),
                "share": ("on the fewest", "ratio"),
                "spanned": ("blocks spanned", "count"),
                "least": ("fewest possible", "count"),
                "least_empty": ("fewest if all were free", "count"),
                "excess": ("excess blocks", "count"),
                "gpu_s": ("GPU-h", "gpu_h"),
                "excess_gpu_s": ("GPU-h with excess", "gpu_h"),
                "upper_spanned": ("upper groups spanned", "count"),
                "upper_least": ("fewest upper groups", "count"),
                "waited_s": ("waited, median", "seconds"),
                "n_known": ("of known place", "count"),
            },
        ),
        headline=_headline(rows),
        ranked=("n", "share", "spanned", "least", "least_empty", "gpu_s", "excess_gpu_s", "waited_s"),
        metrics=("least_placement_share",),
        queries=_QUERIES,
        notes=(*((_SUMMED,) if rows["least"].count() else ()), *_notes(rows, places(source, window))),
        parameters=window.parameters,
        worth_explaining=pl.int_range(pl.len()) < MOST_EXPLAINED,
        parts={
            "metric": "metric", "subject": "subject", "value": "share", "numerator": "n_least",
            "denominator": "n_known", "n": "n", "n_assumed": "n_assumed",
        },
        when_empty="No attempt on several nodes began in this window.",
    )  # fmt: skip


_SUMMED: Final = "Blocks are summed over the attempts; an upper group is one level above."


def _headline(rows: pl.DataFrame) -> str:
    known = rows.filter(pl.col("least").is_not_null())
    if known.is_empty():
        return "The number of blocks that attempts spanned is unknown." if rows.height else ""
    more = known.filter(pl.col("spanned") > pl.col("least"))
    held = float(known["gpu_s"].sum())
    share = percent(float(more["gpu_s"].sum()) / held) if held else "none"
    fewest = percent(1 - more.height / known.height)
    return (
        f"{fewest} of {counted(known.height, 'attempt')} on several nodes spanned no more blocks than they had to; the "
        f"others held {share} of the GPU-time."
    )


def _notes(rows: pl.DataFrame, known_places: pl.DataFrame) -> tuple[str, ...]:
    if known_places.is_empty():
        return (_UNPLACED,)
    unknown = int(rows["least"].null_count())
    assumed = int(rows["assumed"].fill_null(value=False).sum())
    return (
        "Fewest possible: with the nodes of the partition that were in service and free at the start, and its own. "
        "Reservations, CPUs and memory are ignored.",
        *((f"{counted(unknown, 'attempt')} of unknown place or partition: in no share.",) if unknown else ()),
        *(
            (f"{counted(assumed, 'attempt')} began before the network was first read: places are assumed.",)
            if assumed
            else ()
        ),
    )


def _effects(source: Reader, window: Window, rows: pl.DataFrame) -> Answer:
    table = effect_rows(source, window, rows).with_columns(
        pl.lit("spanning_effect").alias("metric"), title=pl.col("what").replace_strict(_TITLES), reads=_read()
    )
    known = rows["least"].count() > 0
    return Answer(
        "What goes with spanning more blocks",
        table if known else table.clear(),
        {
            "title": ("attempts on more blocks, against fewer", "text"),
            "value": ("effect", "number"),
            "low": ("95 % from", "number"),
            "high": ("to", "number"),
            "detectable": ("smallest detectable", "number"),
            "n": ("n", "count"),
            "n_other": ("compared with", "count"),
            "reads": ("conclusion", "text"),
        },
        headline=_sentence(table) if known else "",
        ranked=("value", "low", "high", "reads", "detectable", "n"),
        metrics=("spanning_effect",),
        queries=(*_QUERIES, "step_times_of_attempts", "interruptions"),
        notes=(_COMPARED, *_notes(rows, places(source, window))) if known else (),
        parameters=window.parameters,
        parts={"metric": "metric", "subject": "what", "value": "value", "ci_low": "low", "ci_high": "high", "n": "n"},
        when_empty=_UNPLACED,
    )


_COMPARED: Final = (
    "Observations, not experiments: attempts on more blocks have other nodes and hours, too. Step "
    "time: n runs that ran on fewer and on more; failures and waiting: n attempts on more than the least."
)

_TITLES: Final = {
    "step_time": "step time, ratio",
    "failures": "failures per GPU-day, ratio",
    "waiting": "longer wait in the queue, seconds",
}


def _read() -> pl.Expr:
    """The reading of an interval: more, less, no difference seen, or too few to tell."""
    none = pl.when(pl.col("what") == "waiting").then(0.0).otherwise(1.0)
    return (
        pl.when(pl.col("low").is_null())
        .then(pl.lit("cannot tell: too few"))
        .when(pl.col("low") > none)
        .then(pl.lit("more"))
        .when(pl.col("high") < none)
        .then(pl.lit("less"))
        .otherwise(pl.lit("no difference seen"))
    )


def _sentence(table: pl.DataFrame) -> str:
    """The effect on step time in words; it is what a researcher notices."""
    row: dict[str, Any] = table.filter(pl.col("what") == "step_time").row(0, named=True)
    if row["low"] is None:
        return f"Whether steps are slower on more blocks is unknown: {counted(row['n'], 'run')} ran on both."
    seen = f"an increase of {percent(row['detectable'] - 1)} would have been seen"
    return (
        f"Steps took {row['value']:.3f} times as long on more blocks (95 %: {row['low']:.3f} to {row['high']:.3f}, "
        f"{counted(row['n'], 'run')}); {seen}."
    )


def _blocks(source: Reader, window: Window) -> Answer:
    nodes = standing_rows(source, window)
    return Answer(
        f"Blocks at {window.until:%Y-%m-%d %H:%M} (UTC)",
        room.blocks(nodes),
        {
            "block": ("block", "text"),
            "nodes": ("nodes", "count"),
            "idle": ("idle", "count"),
            "out": ("out of service", "count"),
            "idle_gpus": ("idle GPUs", "number"),
            "gpus": ("GPUs", "number"),
            "attempts": ("attempts", "count"),
            "across": ("across blocks", "count"),
        },
        headline=_idle(nodes),
        metrics=("aligned_room",),
        queries=_ROOM,
        notes=_placed(nodes),
        parameters={"at": window.until, "since": window.until, "until": window.until},
        parts={"subject": "block", "value": "idle", "denominator": "nodes"},
        when_empty="No node with GPUs existed at that moment.",
    )


def _segments(source: Reader, window: Window) -> Answer:
    nodes = standing_rows(source, window)
    table = room.segments(nodes).with_columns(
        pl.lit("aligned_room").alias("metric"),
        share=pl.when(pl.col("idle") > 0).then(pl.col("usable") / pl.col("idle")),
    )
    return Answer(
        f"Sizes that could start within blocks at {window.until:%Y-%m-%d %H:%M} (UTC)",
        table,
        {
            "segment": ("nodes per segment", "count"),
            "segments": ("segments", "count"),
            "usable": ("largest job, nodes", "count"),
            "usable_gpus": ("its GPUs", "number"),
            "share": ("of idle nodes", "ratio"),
            "left_over": ("left over", "count"),
            "idle": ("idle nodes", "count"),
            "whole": ("segments in all", "count"),
        },
        headline=_idle(nodes),
        metrics=("aligned_room",),
        queries=_ROOM,
        notes=(
            "Idle: in service, not reserved and held by no job, so with all CPUs and memory (pods without GPUs are "
            "unknown). Limits and jobs ahead in the queue are ignored. Segments of 1 node: any idle nodes.",
            *_placed(nodes),
        ),
        parameters={"at": window.until, "since": window.until, "until": window.until},
        parts={
            "metric": "metric", "subject": "segment", "value": "share", "numerator": "usable", "denominator": "idle",
        },
        when_empty="No node with GPUs existed at that moment.",
    )  # fmt: skip


def _idle(nodes: pl.DataFrame) -> str:
    if nodes.is_empty():
        return ""
    idle = nodes.filter("idle")
    most = idle.filter(pl.col("block") != room.UNPLACED).group_by("block").len()["len"].max()
    largest = f"; the largest job within one block has {counted(most, 'node')}" if isinstance(most, int) else ""
    return f"{idle.height:,} of {counted(nodes.height, 'node')} idle{largest}."


def _placed(nodes: pl.DataFrame) -> tuple[str, ...]:
    unknown = nodes.filter(pl.col("block") == room.UNPLACED).height
    if not unknown:
        return ()
    return (f"{counted(unknown, 'node')} of unknown place: in no segment. {_UNPLACED}",)
