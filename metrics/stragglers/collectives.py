"""The rank that others waited for in a hang, from how far each rank came in the collectives of each group.

A rank that others wait for has not entered a collective that others of its group have, and waits in none itself. One
that is behind and waits elsewhere is held up by another rank there. Ranks that left no dump may be the ones waited for.

The same is what PyTorch's own analysis of flight recorder dumps and nvidia-resiliency-ext's attribution look for: the
group in which ranks diverge, and who is missing there.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics import frames

SAME_HANG_S: Final = 900
"""Dumps that lie no further apart are of one hang: watchdogs of ranks time out one after the other."""

DUMPS: Final[frames.Schema] = {
    **dict.fromkeys(("run_id", "session", "job_id"), frames.TEXT),
    "reported_at": frames.TIME,
    "measure": frames.TEXT,
    "rank": frames.COUNT,
    "node": frames.TEXT,
    "value": frames.NUMBER,
}
"""Measures of a group in a rank's dump: `entered|GROUP`, `size|GROUP` or `waits|OPERATION|GROUP`, with its value."""

HANGS: Final[frames.Schema] = {
    **dict.fromkeys(("run_id", "session", "job_id"), frames.TEXT),
    **dict.fromkeys(("since", "until"), frames.TIME),
    **dict.fromkeys(("ranks", "waiting", "absent", "n_last", "last_rank"), frames.COUNT),
    **dict.fromkeys(("last_node", "reason"), frames.TEXT),
}
"""A hang of a session: when its ranks made their last entries, how many `ranks` left a dump, how many of them were
`waiting` in a collective, how many of the largest group left none (`absent`; null: unknown), how many others waited for
(`n_last`) and the first of them, where that is recorded."""

_SESSION: Final = ("run_id", "session", "job_id")
_HANG: Final = (*_SESSION, "hang")


def find_hangs(dumps: pl.DataFrame) -> pl.DataFrame:
    """Hangs in dumps.

    Args:
        dumps: `DUMPS`, in any order.

    Returns:
        `HANGS`, the first one first.
    """
    rows = _last_of_ranks(frames.conform(dumps, DUMPS))
    entered = rows.filter(kind="entered").with_columns(most=pl.col("value").max().over(*_HANG, "group"))
    waits = rows.filter(kind="waits")
    whole = rows.group_by(_HANG).agg(
        since=pl.col("reported_at").min(),
        until=pl.col("reported_at").max(),
        ranks=pl.col("rank").n_unique(),
        waiting=pl.col("rank").filter(pl.col("kind") == "waits").n_unique(),
        size=pl.col("value").filter(pl.col("kind") == "size").max(),
    )
    behind = entered.filter(pl.col("value") < pl.col("most"))
    free = behind.join(waits, on=[*_HANG, "rank"], how="anti", nulls_equal=True)
    found = (
        whole.join(_first(free, waits), on=_HANG, how="left", nulls_equal=True)
        .join(behind.group_by(_HANG).agg(behind=pl.len()), on=_HANG, how="left", nulls_equal=True)
        .with_columns(absent=(pl.col("size") - pl.col("ranks")).clip(lower_bound=0))
        .with_columns(reason=_reason())
    )
    return frames.conform(found, HANGS).sort("since", *_SESSION)


def _last_of_ranks(dumps: pl.DataFrame) -> pl.DataFrame:
    """The last dump of each rank in each hang, with the parts of its measures."""
    gap = pl.col("reported_at").diff().dt.total_seconds() > SAME_HANG_S
    numbered = dumps.sort("reported_at", "rank").with_columns(
        hang=gap.fill_null(value=False).cum_sum().over(_SESSION), parts=pl.col("measure").str.split("|")
    )
    last = numbered.filter(pl.col("reported_at") == pl.col("reported_at").max().over(*_HANG, "rank"))
    return last.with_columns(
        kind=pl.col("parts").list.first(), group=pl.col("parts").list.last(), operation=pl.col("parts").list.get(1)
    ).drop("parts")


def _first(free: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """The rank that is furthest behind and waits nowhere, how many there are, and in what most of the others wait."""
    of_group = [*_HANG, "group"]
    awaited = (
        waits.sort("value", "operation")
        .group_by(of_group, maintain_order=True)
        .agg(pl.col("operation").first(), number=pl.col("value").first(), waiters=pl.col("rank").n_unique())
    )
    ordered = (
        free.drop("operation")
        .join(awaited, on=of_group, how="left", nulls_equal=True)
        .sort(pl.col("value") - pl.col("most"), -pl.col("waiters").fill_null(0).cast(pl.Int64), "rank", "group")
    )
    return ordered.group_by(_HANG, maintain_order=True).agg(
        pl.col("operation", "number", "group").first(),
        n_last=pl.col("rank").n_unique(),
        last_rank=pl.col("rank").first(),
        last_node=pl.col("node").first(),
        reached=pl.col("value").first(),
    )


def _reason() -> pl.Expr:
    """The sentence, of what `find_hangs` has put together."""
    place = pl.when(pl.col("last_node").is_not_null()).then(pl.format(" on {}", "last_node")).otherwise(pl.lit(""))
    more = pl.when(pl.col("n_last") > 1).then(pl.format(" (and {} more)", pl.col("n_last") - 1)).otherwise(pl.lit(""))
    what = pl.coalesce(pl.format("{} {}", "operation", _whole("number")), pl.lit("a collective"))
    named = pl.format(
        "rank {}{}{} entered no collective after {} of {}, where others wait in {}",
        "last_rank", place, more, _whole("reached"), "group", what,
    )  # fmt: skip
    gone = pl.format("ranks without a dump: {}; they were gone, or the others wait for them", _whole("absent"))
    return (
        pl.when(pl.col("last_rank").is_not_null())
        .then(named)
        .when(pl.col("absent") > 0)
        .then(gone)
        .when(pl.col("behind") > 0)
        .then(pl.lit("ranks wait for each other in different groups: their collectives are in another order"))
        .when(pl.col("waiting") == pl.col("ranks"))
        .then(pl.lit("all ranks entered the collective: it, or the network under it, is stuck"))
        .when(pl.col("waiting") == 0)
        .then(pl.lit("no rank waits in a collective: they are stuck elsewhere"))
        .otherwise(pl.lit("cannot tell: all ranks entered the same collectives, and some do not wait in one"))
    )


def _whole(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Int64)
