"""Rank times of a window: what slow ranks and sessions that straggle are made of."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.results.telemetry.anomalies import LOOKBACK, anomalies
from app.window import Window
from metrics import frames
from metrics.anomalies.evidence import BEFORE_S, telemetry_evidence
from metrics.anomalies.scan import ANOMALIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.window import RowSource
    from queries.warehouse import Reader, Writer

MOST_ROWS: Final = 4_000_000
"""Of a part."""


def rank_times(source: RowSource, window: Window, run: str | None = None) -> Iterator[pl.DataFrame]:
    """Rank times of steps that began in the window, as `frames.RANK_STEPS`: of all runs, or of the run or job named.

    They come in parts, each session in one part, so that no more than a part is in memory. Lines of a session that has
    more than `MOST_ROWS` are added up over so many steps that it has no more.
    """
    of_window = {"cluster": window.cluster, "since": window.since, "until": window.until}
    sessions = source.query("rank_sessions", **of_window, run=run)
    if sessions["n_rows"].sum() <= MOST_ROWS:
        yield frames.conform(source.query("rank_steps", **of_window, run=run), frames.RANK_STEPS)
        return
    large = pl.col("n_rows") > MOST_ROWS
    for session in sessions.filter(large).iter_rows(named=True):
        yield _summed(source, window, session)
    sessions = sessions.filter(~large)
    part = pl.col("n_rows").cum_sum() // MOST_ROWS
    for of_part in sessions.with_columns(part.alias("part")).partition_by("part", maintain_order=True):
        rows = source.query(
            "rank_steps_of_sessions",
            cluster=window.cluster,
            since=max(window.since, of_part["since"].min()),  # type: ignore[type-var]  # a time
            until=window.until,
            runs=of_part["run_id"].unique().sort().to_list(),
            sessions=of_part["name"].to_list(),
        )
        yield frames.conform(rows, frames.RANK_STEPS)


def _summed(source: RowSource, window: Window, session: dict[str, Any]) -> pl.DataFrame:
    rows = source.query(
        "rank_steps_summed",
        cluster=window.cluster,
        since=max(window.since, session["since"]),
        until=window.until,
        run=session["run_id"],
        session=session["session"],
        bin=-(-session["n_rows"] // MOST_ROWS) * session["steps_a_line"],
    )
    return frames.conform(rows, frames.RANK_STEPS)


def confirmed_sessions(source: Reader | Writer, window: Window, sessions: pl.DataFrame) -> pl.DataFrame:
    """Sessions with what telemetry shows of their suspected nodes, and what confirms these.

    Args:
        source: where rank times, health events and samples are.
        window: of the rank times.
        sessions: `metrics.stragglers.sessions.SESSION_STRAGGLERS`.

    Returns:
        The same rows with `telemetry` and `telemetry_since` (null where it shows nothing, or there is none) and
        `confirmed_by`: `run`, `telemetry`, both with a comma, or null.
    """
    suspects = sessions.filter(pl.col("cause") == "node").select("run_id", "session", node="nodes").explode("node")
    evidence = _evidence(source, window, suspects)
    rows = sessions.join(evidence, on=["run_id", "session"], how="left", maintain_order="left")
    by_run = pl.when(pl.col("confirmed")).then(pl.lit("run"))
    by_telemetry = pl.when(pl.col("telemetry").is_not_null()).then(pl.lit("telemetry"))
    named = pl.concat_str(by_run, by_telemetry, separator=", ", ignore_nulls=True)
    return rows.with_columns(confirmed_by=pl.when(named != "").then(named))


def _evidence(source: Reader | Writer, window: Window, suspects: pl.DataFrame) -> pl.DataFrame:
    runs = suspects["run_id"].unique().sort().to_list()
    nodes = source.query("rank_nodes", **window.parameters, runs=runs).join(
        suspects.select("run_id", "session").unique(), on=["run_id", "session"], how="semi"
    )
    if nodes.is_empty():
        return telemetry_evidence(suspects, nodes, _no_events(), frames.empty(ANOMALIES))
    since, until = nodes["since"].min(), nodes["until"].max()
    span = Window(window.cluster, since, until)  # type: ignore[arg-type]  # polars types min() broadly
    early = span.since - timedelta(seconds=BEFORE_S)
    events = source.query("hardware_events_between", **(span.parameters | {"since": early}))
    return telemetry_evidence(suspects, nodes, events, _deviations(source, span))


def _no_events() -> pl.DataFrame:
    texts = dict.fromkeys(("node", "gpu", "kind", "code", "device"), frames.TEXT)
    return pl.DataFrame(schema={**texts, "ts": frames.TIME})


def _deviations(source: Reader | Writer, span: Window) -> pl.DataFrame:
    """What deviates in a time, or began in the week before; nothing without a computation: then peers are unknown."""
    if source.query("computed", cluster=span.cluster).is_empty():
        return frames.empty(ANOMALIES)
    return anomalies(source, replace(span, since=span.since - LOOKBACK)).rows
