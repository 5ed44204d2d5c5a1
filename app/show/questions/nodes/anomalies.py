"""The question of `trackside show` about anomalies in telemetry: GPUs and nodes that deviate for hours on end."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.failures.lemons import judged, node_score_rows
from app.results.telemetry.anomalies import Anomalies, node_anomalies
from app.results.telemetry.anomalies import anomalies as scanned
from app.show.answer import Answer, Question
from app.show.registry import question
from app.show.selection import resolved_runs
from app.show.sentences import percent
from app.show.telemetry import none_left
from ingest.counted import counted
from metrics.anomalies.day_sums import PAST_DAYS
from metrics.anomalies.deviations import MIN_PEERS
from metrics.anomalies.evidence import effect_text
from metrics.anomalies.scan import LEVEL, MIN_HOURS
from metrics.anomalies.signals import BY_NAME

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader

_QUERIES: Final = ("gpu_busy_hours", "node_device_hours", "attempt_nodes_in")

_ABOUT: Final = (
    "Each busy hour of a GPU, port or mount is compared with the middle of what the same attempt held meanwhile (at"
    f" least {MIN_PEERS} peers), and that deviation with its own of the last {PAST_DAYS} days. A dip of a whole job is"
    " no anomaly, and neither are idle hours or hours without samples.",
    "Anomalous: the deviation lasts, and is larger than what matters and than what peers differ anyway; false discovery"
    f" rate {percent(LEVEL, digits=0)} over all tests. It is no proof of a fault.",
)


@question(
    "anomalies",
    "GPUs and nodes whose telemetry deviates from their peers",
    help="GPUs and nodes that deviate from their peers or their own past: activity, clock, power, temperature,\n"
    "InfiniBand, filesystems (needs telemetry); --run R: of one run\n--by node, gpu, signal",
    by=("node", "gpu", "signal"),
    takes=("run",),
    position=19,
)
def anomalies(source: Reader, window: Window, question: Question) -> Answer:
    """What deviates: by node, by GPU, or by signal."""
    run_ids = None if question.run is None else resolved_runs(source, window, question.run)
    found = scanned(source, window, run_ids)
    if question.dimension == "gpu":
        return _by_gpu(source, window, found)
    if question.dimension == "signal":
        return _by_signal(source, window, found)
    return _by_node(source, window, found)


def _by_node(source: Reader, window: Window, found: Anomalies) -> Answer:
    rows = _with_lemons(source, window, node_anomalies(source, window, found))
    return Answer(
        "Nodes by what deviates on them, the clearest first",
        rows,
        {
            "node": ("node", "text"),
            "anomalous": ("anomalous", "text"),
            "what": ("what deviates", "text"),
            "since": ("since", "time"),
            "until": ("until", "time"),
            "incidents": ("incidents meanwhile", "text"),
            "n_attempts": ("attempts meanwhile", "count"),
            "runs": ("runs meanwhile", "text"),
            "lemon": ("lemon", "text"),
            "n_tested": ("tests", "count"),
            "q_value": ("q", "number"),
        },
        headline=_headline(found.rows, window),
        ranked=("what", "since", "until", "runs", "incidents", "n_attempts"),
        explained=("q_value", "n_tested"),
        queries=(*_QUERIES, "incidents_in", "run_attempts"),
        notes=_notes(found),
        when_empty=_empty(source, window, found),
        worth_showing=pl.col("anomalous"),
        instead=_NOTHING,
        parts={"subject": "node", "value": "q_value", "n": "n_tested", "started_at": "since"},
    )


_NOTHING: Final = (
    pl.when(pl.col("n_tested") > 0)
    .then(pl.format("Nothing on {} deviates from its peers or its past (tests: {}).", "node", "n_tested"))
    .otherwise(pl.format(f"Nothing was tested on {{}}: it has fewer than {MIN_HOURS} hours to compare.", "node"))
)
"""The sentence about a node without a deviation, instead of its row."""


def _by_gpu(source: Reader, window: Window, found: Anomalies) -> Answer:
    rows = in_words(found.rows.filter(pl.col("level") == "gpu").rename({"device": "gpu"}))
    return Answer(
        "GPUs against their peers and their own past, the clearest first",
        rows,
        {
            "node": ("node", "text"),
            "gpu": ("GPU", "text"),
            "signal": ("signal", "text"),
            "anomalous": ("anomalous", "text"),
            "deviation": ("deviation", "text"),
            "against": ("against its", "text"),
            "since": ("since", "time"),
            "until": ("until", "time"),
            "hours": ("hours", "count"),
            "tested_hours": ("of", "count"),
            "detectable_in_words": ("detectable", "text"),
            "p_value": ("p", "number"),
            "q_value": ("q", "number"),
        },
        headline=_headline(found.rows, window),
        ranked=("gpu", "signal", "deviation", "since", "until", "hours"),
        explained=("detectable_in_words", "p_value", "q_value"),
        queries=_QUERIES,
        notes=_notes(found),
        when_empty=_empty(source, window, found),
        worth_showing=pl.col("anomalous").fill_null(value=False),
        parts={"subject": "node", "gpu": "gpu", "value": "effect", "p_value": "p_value", "n": "tested_hours"},
    )


def _by_signal(source: Reader, window: Window, found: Anomalies) -> Answer:
    rows = by_signal(found.rows)
    return Answer(
        "Signals: what was tested, and what could have been seen",
        rows,
        {
            "title": ("signal", "text"),
            "level": ("of a", "text"),
            "n_tested": ("tested", "count"),
            "n_anomalous": ("anomalous", "count"),
            "n_nodes": ("on nodes", "count"),
            "immaterial": ("tested against", "text"),
            "detectable": ("detectable", "text"),
            "tested_hours": ("hours each", "number"),
        },
        headline=_headline(found.rows, window),
        queries=_QUERIES,
        notes=_notes(found),
        when_empty=_empty(source, window, found),
        parts={"subject": "signal", "value": "n_anomalous", "n": "n_tested"},
    )


def by_signal(rows: pl.DataFrame) -> pl.DataFrame:
    """What was tested of each signal, and of what size a deviation would have been seen (the middle subject's).

    Args:
        rows: `metrics.anomalies.scan.ANOMALIES`.
    """
    flagged = pl.col("anomalous").fill_null(value=False)
    order = pl.col("signal").replace_strict({name: n for n, name in enumerate(BY_NAME)}, return_dtype=pl.Int64)
    grouped = (
        rows.group_by("signal", "level", "scale")
        .agg(
            n_tested=pl.col("p_value").count().cast(pl.Int64),
            n_anomalous=flagged.sum().cast(pl.Int64),
            n_nodes=pl.col("node").filter(flagged).n_unique().cast(pl.Int64),
            immaterial=pl.col("immaterial").median(),
            detectable=pl.col("detectable").median(),
            tested_hours=pl.col("tested_hours").median(),
        )
        .sort(order, "level")
    )
    titles = {name: signal.title for name, signal in BY_NAME.items()}
    return grouped.with_columns(
        title=pl.col("signal").replace_strict(titles, return_dtype=pl.String),
        immaterial=effect_text("immaterial"),
        detectable=effect_text("detectable"),
    )


def in_words(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `metrics.anomalies.scan.ANOMALIES` with `deviation` and `detectable_in_words`."""
    return rows.with_columns(deviation=effect_text("effect"), detectable_in_words=effect_text("detectable"))


def _with_lemons(source: Reader, window: Window, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the verdicts of `show lemons`, where a node is anomalous."""
    if not rows["anomalous"].any():
        return rows.with_columns(lemon=pl.lit(None, dtype=pl.String))
    scores = node_score_rows(source, judged(window)).select("node", lemon="verdict")
    return rows.join(scores, on="node", how="left", maintain_order="left")


def _headline(rows: pl.DataFrame, window: Window) -> str:
    if rows.is_empty():
        return ""
    if not rows["p_value"].count():
        untested = counted(rows["node"].n_unique(), "node")
        return f"Nothing could be tested on {untested}: no signal has {MIN_HOURS} hours to compare."
    tested = f"{counted(int(rows['p_value'].count()), 'test')} on {counted(rows['node'].n_unique(), 'node')}"
    flagged = in_words(rows.filter(pl.col("anomalous").fill_null(value=False)))
    if flagged.is_empty():
        return f"Nothing deviates from its peers or its past in {tested}."
    first = flagged.row(0, named=True)
    title = BY_NAME[first["signal"]].title
    where = f"GPU {first['device']} of {first['node']}" if first["level"] == "gpu" else first["node"]
    if first["level"] == "node" and first["device"]:
        where = f"{first['device']} of {first['node']}"
    nodes = flagged["node"].n_unique()
    began = f"{first['since']:%Y-%m-%d %H:%M}"
    if first["since"] - window.since < timedelta(hours=1):  # the first hour of the window, which shows no earlier one
        began = f"{began} or before"
    deviate = "deviates" if nodes == 1 else "deviate"
    return (
        f"{counted(nodes, 'node')} of {rows['node'].n_unique():,} {deviate}: {where}, {title} {first['deviation']} "
        f"against its {first['against']} since {began} ({tested})."
    )


def _notes(found: Anomalies) -> tuple[str, ...]:
    rows = found.rows
    if rows.is_empty():
        return ()
    compared = ""
    if found.busy_hours:
        share = percent(found.compared_hours / found.busy_hours)
        compared = f"{share} of {found.busy_hours:,} busy GPU-hours had peers; the others were not compared. "
    seen = [
        f"{BY_NAME[each['signal']].title} {each['detectable']}"
        for each in by_signal(rows.filter(pl.col("level") == "gpu")).to_dicts()
        if each["detectable"] is not None
    ]
    reach = f"Detectable, if it lasts: {', '.join(seen)}." if seen else ""
    short = rows["p_value"].null_count()
    few = f"Not tested for fewer than {MIN_HOURS} hours: {short:,} of {rows.height:,}." if short else ""
    return tuple(filter(None, (f"{compared}{reach}".strip(), few, *_ABOUT)))


def _empty(source: Reader, window: Window, found: Anomalies) -> str:
    """Why no row is shown: nothing deviates, or nothing was compared."""
    if found.rows.height:
        return _headline(found.rows, window)
    if found.busy_hours:
        return (
            f"{found.busy_hours:,} GPU-hours were busy in this window, but none had {MIN_PEERS} peers: other GPUs of "
            "an attempt that alone held its nodes for the whole hour. Is accounting of the same time loaded (trackside "
            "status)?"
        )
    days = source.query("gpu_sample_days", cluster=window.cluster)["day"]  # the last one first
    if days.is_empty():
        return none_left(source, window, "gpu", "GPUs")
    return (
        f"Telemetry shows no busy GPU in this window. There is telemetry of GPUs of {days[-1]} to {days[0]}: "
        "choose a window of it with --since and --until."
    )
