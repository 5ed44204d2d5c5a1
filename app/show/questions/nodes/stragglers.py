"""The question of `trackside show` about stragglers: slow nodes, or the shape of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.steps.stragglers import confirmed_sessions, rank_times
from app.show.answer import Answer, Question
from app.show.registry import question
from app.show.sentences import gpu_hours, percent
from ingest.counted import counted
from metrics.stragglers.reported import reported_ranks
from metrics.stragglers.sessions import session_stragglers
from metrics.stragglers.slow_ranks import IMMATERIAL, LEVEL, slow_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.window import Window
    from queries.warehouse import Reader

_QUERIES: Final = (
    "rank_sessions",
    "rank_steps",
    "rank_steps_of_sessions",
    "rank_steps_summed",
    "rank_nodes",
    "hardware_events_between",
)

_ABOUT: Final = (
    "A rank is compared with the middle rank of its pipeline stage over the same steps, by seconds of computation: wall"
    " time is equal on all ranks, which wait for each other.",
    f"Slow: by more than {percent(IMMATERIAL - 1, digits=0)}, and by more than the ranks of the session differ"
    f" anyway; the false discovery rate over all ranks is {percent(LEVEL, digits=0)}.",
    "A node is suspected where few nodes have slow ranks. Another run that is slow there confirms it, and so does"
    " telemetry of the same time: events of its hardware that few of its peers had, or a deviation from them (show"
    " anomalies). The time that ranks waited is part of productive time, and in no sum.",
    "Network: transfers take longer than in the fastest quarter of the same run, or than in other runs on as many ranks"
    " that compute as long a step; launch: what ranks neither compute nor wait does, or one rank's host is late.",
)

_ONE_RUN: Final = (
    "Of one run alone: only all runs together (without --run) show whether another one confirms a node, and whether a"
    " link is slow from the first step to the last."
)

_NONE: Final = (
    "No rank times in this window. The recorder writes them (trackside_log.rank_times), a file per node. Load them:"
    " trackside ingest ranks FILE..."
)


@question(
    "stragglers",
    "slow nodes, or the shape of the job",
    help="slow nodes, or the shape of the job, and what waiting for them cost; --run R: of one run\n"
    "--by session, rank, report",
    by=("session", "rank", "report"),
    takes=("run",),
    position=18,
    span="rank_steps_span",
)
def stragglers(source: Reader, window: Window, question: Question) -> Answer:
    """Why sessions straggle, or each rank against its peers, or the ranks that frameworks themselves list as slow."""
    if question.dimension == "report":
        period = {"cluster": window.cluster, "since": window.since, "until": window.until}
        return _by_report(reported_ranks(source.query("rank_reports", **period, run=question.run)))
    times = rank_times(source, window, question.run)
    if question.dimension == "rank":
        return _by_rank(times)
    sessions = confirmed_sessions(source, window, session_stragglers(times))
    beside = () if question.run is None else (_ONE_RUN,)
    return _by_session(sessions.with_columns(nodes=pl.col("nodes").list.join(" ")), beside)


def _by_session(rows: pl.DataFrame, beside: tuple[str, ...]) -> Answer:
    return Answer(
        "Sessions by what their ranks waited for the slowest",
        rows,
        {
            "run_id": ("run", "text"),
            "session": ("job.restart", "text"),
            "cause": ("cause", "text"),
            "nodes": ("nodes", "text"),
            "confirmed_by": ("confirmed by", "text"),
            "telemetry": ("telemetry", "text"),
            "lost_gpu_s": ("lost GPU-h", "gpu_h"),
            "slowdown": ("slowest / middle", "number"),
            "explained": ("explained", "ratio"),
            "ranks": ("ranks", "count"),
            "intervals": ("intervals", "count"),
            "detectable": ("detectable x", "number"),
            "reason": ("reason", "text"),
            "confidence": ("confidence", "number"),
            "action": ("action", "text"),
        },
        headline=_headline(rows),
        ranked=("cause", "nodes", "lost_gpu_s", "slowdown", "confirmed_by", "telemetry"),
        explained=("explained", "detectable", "confidence", "action"),
        queries=_QUERIES,
        notes=(*_ABOUT, *beside) if rows.height else (),
        when_empty=_NONE,
        parts={"subject": "run_id", "value": "slowdown", "numerator": "slowest_s", "denominator": "middle_s"},
    )


_SURE: Final = {
    None: "suspected",
    "run": "confirmed by another run",
    "telemetry": "confirmed by telemetry",
    "run, telemetry": "confirmed by another run and by telemetry",
}


_OTHERS: Final = {
    "job_shape": "slowed by the shape of the job",
    "network": "slowed by the network",
    "launch": "slowed by the host (launch)",
    "unknown": "slowed by an unknown cause",
}


def _headline(rows: pl.DataFrame) -> str:
    if rows.is_empty():
        return ""
    slow = rows.filter(pl.col("cause") == "node")
    parts = []
    if slow.height:
        first = slow.row(0, named=True)
        sure = _SURE[first["confirmed_by"]]
        parts.append(
            f"{counted(slow.height, 'session')} waited for a slow node: {first['nodes']} ({sure}) cost"
            f" {gpu_hours(first['lost_gpu_s'])}"
        )
    others = rows.filter(pl.col("cause").is_in(list(_OTHERS))).group_by("cause")
    by_cost = others.agg(n=pl.len(), lost=pl.col("lost_gpu_s").sum()).sort("lost", "cause", descending=[True, False])
    parts += [
        f"{counted(n, 'session')} {_OTHERS[cause]}: {gpu_hours(float(lost))}" for cause, n, lost in by_cost.iter_rows()
    ]
    if not parts:
        return f"No node is slow in {counted(rows.height, 'session')} with rank times."
    return "; ".join(parts) + "."


def _by_rank(times: Iterable[pl.DataFrame]) -> Answer:
    rows = slow_ranks(times)
    flagged = rows.filter(pl.col("slow").fill_null(value=False))
    return Answer(
        "Ranks against the middle rank of their stage",
        rows,
        {
            "run_id": ("run", "text"),
            "session": ("job.restart", "text"),
            "rank": ("rank", "count"),
            "node": ("node", "text"),
            "stage": ("stage", "count"),
            "slow": ("slow", "text"),
            "ratio": ("ratio", "number"),
            "ratio_low": ("ratio, low", "number"),
            "ratio_high": ("ratio, high", "number"),
            "since_step": ("since step", "count"),
            "ratio_since": ("ratio since", "number"),
            "intervals": ("intervals", "count"),
            "immaterial": ("tested against", "number"),
            "detectable": ("detectable x", "number"),
            "p_value": ("p", "number"),
            "q_value": ("q", "number"),
        },
        headline=f"{len(flagged):,} of {counted(rows.height, 'rank')} compute longer than their peers."
        if rows.height
        else "",
        ranked=("node", "slow", "ratio", "since_step", "ratio_since"),
        explained=("ratio_low", "ratio_high", "p_value", "q_value", "immaterial", "detectable"),
        queries=_QUERIES,
        notes=_ABOUT if rows.height else (),
        when_empty=_NONE,
        worth_showing=pl.col("slow").fill_null(value=False) | (pl.col("ratio") >= pl.col("immaterial")),
        parts={"subject": "rank", "value": "ratio", "p_value": "p_value", "n": "intervals"},
    )


_REPORTS: Final = (
    "The framework lists the slowest and the fastest ranks of an interval, or flags some. That is no measurement of all"
    " ranks: it does not distinguish a slow node from the shape of the job. If the same rank recurs, record rank times"
    " (trackside docs rank-times): they give the verdict.",
    "Slowest / fastest: of the reports in which the rank was the slowest, the middle one. Megatron-LM's round trip is"
    " the forward pass, with the waiting within the rank's own group.",
)

_NO_REPORTS: Final = (
    "No straggler reports in this window. Megatron-LM (--log-straggler) and nvidia-resiliency-ext print them into the"
    " log of the job. Load it: trackside ingest ranks LOG"
)


def _by_report(rows: pl.DataFrame) -> Answer:
    return Answer(
        "Ranks that frameworks report as the slowest, the most frequent first",
        rows.with_columns(worst_in_words=_worst()),
        {
            "run_id": ("run", "text"),
            "session": ("job.restart", "text"),
            "program": ("program", "text"),
            "measure": ("measure", "text"),
            "rank": ("rank", "count"),
            "node": ("node", "text"),
            "times_slowest": ("slowest", "count"),
            "times_flagged": ("flagged", "count"),
            "reports": ("of", "count"),
            "share": ("share", "ratio"),
            "times_fastest": ("slowest / fastest", "number"),
            "worst_in_words": ("worst", "text"),
            "since": ("since", "time"),
            "until": ("until", "time"),
        },
        headline=_of_first(rows),
        ranked=("rank", "node", "share", "times_slowest", "times_fastest"),
        explained=("times_flagged", "worst_in_words", "since", "until"),
        queries=("rank_reports",),
        notes=_REPORTS if rows.height else (),
        when_empty=_NO_REPORTS,
        parts={"subject": "rank", "value": "share", "numerator": "times_slowest", "denominator": "reports"},
    )


def _of_first(rows: pl.DataFrame) -> str:
    if rows.is_empty():
        return ""
    first = rows.row(0, named=True)
    where = f" on {first['node']}" if first["node"] else ""
    return (
        f"Rank {first['rank']}{where} of {first['run_id']} is the slowest, or flagged, by {first['measure']} in"
        f" {percent(first['share'])} of {counted(first['reports'], 'report')} of {first['program']}."
    )


def _worst() -> pl.Expr:
    """The worst value with its unit."""
    value = pl.col("worst")
    return (
        pl.when(pl.col("measure") == "flops_per_s")
        .then(pl.format("{} TFLOP/s", (value / 1e12).round(2)))
        .when(pl.col("measure").str.ends_with("_s"))
        .then(pl.format("{} s", value.round(4)))
        .otherwise(value.round(4).cast(pl.String))
    )
