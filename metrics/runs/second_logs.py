"""One process that wrote two logs at once (our recorder and W&B, for example) trained once.

Sessions of one run and job that lie in one another are logs of the same process, if they come from different files. A
step of theirs that begins while the same step runs is that step: a step is run again only after it was finished.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from datetime import timedelta

_RUN = ["cluster", "run_id", "scheduler", "job_id"]
_BOUNDS = {"started_at", "ended_at", "read_at"}


def one_log_per_process(sessions: pl.DataFrame, steps: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Sessions and steps without those that a second log of the same process repeats.

    Args:
        sessions: `frames.SESSIONS` of rank 0, with `origin`, the file of each.
        steps: `frames.STEPS`.

    Returns:
        The same columns. A session that two logs have reaches from the earlier start to the later end, and has the
        facts of the log that began first, then those of the other. A step has the duration of the log that measured it
        as the shorter one: a logger that has no duration has the time between its lines.
    """
    doubled = _overlapping(sessions)
    if doubled.is_empty():
        return sessions, steps
    merged = [
        row
        for group in sessions.join(doubled, on=_RUN, how="semi", nulls_equal=True).partition_by(_RUN)
        for row in _merged(group.sort("started_at", "origin", nulls_last=True).to_dicts())
    ]
    others = sessions.join(doubled, on=_RUN, how="anti", nulls_equal=True)
    return pl.concat([others, pl.DataFrame(merged, schema=sessions.schema)]), _once(steps, doubled)


def one_event_per_process(sessions: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Events without those that a second log of the same process repeats.

    Args:
        sessions: `frames.SESSIONS` of rank 0, with `origin`, the file of each.
        events: `frames.RUN_EVENTS`.

    Returns:
        The same columns. Events of one kind and step that overlap, or begin within a second, are one: from the earliest
        begin to the latest end, safe from the first time in a log.
    """
    doubled = _overlapping(sessions)
    own = events.join(doubled, on=_RUN, how="semi", nulls_equal=True)
    if own.is_empty():
        return events
    key = [*_RUN, "kind", "step"]
    ordered = own.sort(*key, "ts", "ended_at", nulls_last=True)
    reached = pl.max_horizontal(pl.col("ended_at"), pl.col("ts") + pl.duration(milliseconds=_SAME_MS))
    again = (pl.col("ts") < reached.cum_max().shift(1).over(key)).fill_null(value=False)
    facts = pl.all().exclude(*key, "ts", "ended_at", "durable_at", "_event")
    once = (
        ordered.with_columns(_event=(~again).cum_sum())
        .group_by(*key, "_event", maintain_order=True)
        .agg(pl.col("ts").min(), pl.col("ended_at").max(), pl.col("durable_at").min(), facts.drop_nulls().first())
        .select(events.columns)
    )
    rest = events.join(doubled, on=_RUN, how="anti", nulls_equal=True, maintain_order="left")
    return pl.concat([rest, once])


_SAME_MS = 1_000
"""Two logs of one process stamp an event apart by less."""


def _overlapping(sessions: pl.DataFrame) -> pl.DataFrame:
    """Runs and jobs of which one session begins within another one of another file."""
    reached = pl.col("ended_at").cum_max().shift(1).over(_RUN)
    before = pl.col("origin").n_unique().over(_RUN) > 1
    ordered = sessions.sort("started_at").filter(before).with_columns(_reached=reached)
    return ordered.filter(pl.col("started_at") < pl.col("_reached")).select(_RUN).unique()


def _merged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sessions of one run and job, in the order of their beginnings, each process once."""
    processes: list[dict[str, Any]] = []
    for row in rows:
        same = next((one for one in reversed(processes) if _is_second(one, row)), None)
        if same is None:
            processes.append(dict(row))
            continue
        for name, value in row.items():
            if name in _BOUNDS:
                continue
            same[name] = value if same[name] is None else same[name]
        for name in ("ended_at", "read_at"):
            same[name] = max(same[name], row[name])
    return processes


def _is_second(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether a session that begins later is most of another file's log of the same process."""
    shared: timedelta = min(one["ended_at"], other["ended_at"]) - other["started_at"]
    shorter = min(one["ended_at"] - one["started_at"], other["ended_at"] - other["started_at"])
    begins_within = other["started_at"] < one["ended_at"]
    return bool(one["origin"] != other["origin"] and begins_within and 2 * shared >= shorter)


def _once(steps: pl.DataFrame, doubled: pl.DataFrame) -> pl.DataFrame:
    """Steps of these runs, each execution once."""
    own = steps.join(doubled, on=_RUN, how="semi", nulls_equal=True).sort(*_RUN, "step", "ts")
    rest = steps.join(doubled, on=_RUN, how="anti", nulls_equal=True, maintain_order="left")
    key = [*_RUN, "step"]
    ended = pl.col("ts") + pl.duration(microseconds=(pl.col("duration_s").fill_null(0) * 1e6).round())
    again = (pl.col("ts") < ended.cum_max().shift(1).over(key)).fill_null(value=False)
    execution = (~again).cum_sum()
    best = pl.all().exclude(*key, "tokens", "loss", "_execution").sort_by("duration_s", "ts", nulls_last=True).first()
    once = (
        own.with_columns(_execution=execution)
        .group_by(*key, "_execution", maintain_order=True)
        .agg(best, pl.col("tokens", "loss").drop_nulls().first())
        .select(steps.columns)
    )
    return pl.concat([rest, once])
