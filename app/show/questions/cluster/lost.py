"""`trackside show lost`: where all GPU-time went, by category and cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.results.failures.interruptions import SECOND_ORDER, second_order_rows
from app.results.goodput import lost_imputed_rows, lost_rows
from app.results.stored import stored_rows
from app.show.answer import Answer, Brief, Question
from app.show.questions.cluster.goodput import NO_TIME, capacity_notes
from app.show.questions.runs.interruptions import second_order_notes
from app.show.registry import question
from app.show.sentences import bounded, gpu_hours, percent
from ingest.counted import counted
from metrics.categories import COSTLY
from metrics.goodput.goodput import BESIDE_IDLE, PRODUCTIVE, SURE, UNSEEN

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader


IMPUTED: Final = "lost_imputed"
"""The metric of `lost_imputed_rows`."""


@question(
    "lost",
    "where all GPU-time went",
    help="where all GPU-time went, by category and cause\n"
    "--by cause, category, day, node, user, account, partition, run",
    by=("cluster", "day", "node", "user", "account", "partition", "run", "cause", "category"),
    default="cause",
    position=6,
)
def lost(source: Reader, window: Window, question: Question) -> Answer:
    """Where all GPU-time went."""
    dimension = question.dimension
    by_what = dimension in {"cause", "category"}
    subject = "cluster" if by_what else dimension
    rows = lost_rows(source, window, subject)
    stored = stored_rows(source, window, (IMPUTED, *SECOND_ORDER))
    guess = lost_imputed_rows(source, window) if stored is None else stored
    costs = second_order_rows(source, window) if stored is None else stored
    notes = (
        *_straggling(rows),
        *_waited(source, window),
        _imputed(guess.row(by_predicate=pl.col("metric") == IMPUTED, named=True)),
        *second_order_notes(costs),
        *capacity_notes(source, window),
    )
    shown = {} if by_what else {"subject": (subject, "text")}
    headline = _headline(rows, subject)
    if dimension == "category":
        rows = _by_category(rows)
    why = {} if dimension == "category" else {"cause": ("cause", "text"), "evidence": ("evidence", "text")}
    return Answer(
        "Where the GPU-time went",
        rows,
        shown | _columns(why),
        headline=headline,
        ranked=("category", "gpu_hours", "share", "cause", *_OF_SUBJECT),
        in_words=(SUBJECT_IN_WORDS,),
        brief=_brief(rows, shown, why),
        metrics=(IMPUTED, "second_order_share"),
        queries=(
            "ledger_sums",
            "interruptions" if stored is None else "stored_cluster_metrics",
            "nodes_by_accounting",
        ),
        notes=notes,
        parameters={"dimension": subject},
        parts={
            "metric": "state",
            "subject": "category",
            "of": "subject",
            "cause": "cause",
            "evidence": "evidence",
            "numerator_gpu_s": "gpu_seconds",
            "value": "share",
            "share_allocated": "share_allocated",
        },
        when_empty=NO_TIME,
    )


NO_SUBJECT: Final = "(no attempt)"
"""The subject of time that no attempt held."""

SUBJECT_IN_WORDS: Final = pl.col("subject").replace(NO_SUBJECT, "(held by no job)")
"""The subject as people read it."""

SMALL: Final = 0.001
"""Shares below this are one row in a terminal: other."""

LARGEST: Final = 3
"""Categories that the headline names."""


def _headline(rows: pl.DataFrame, subject: str) -> str:
    """The productive share of all GPU-time, and the largest of the rest; of subjects the one that lost most."""
    if rows.is_empty():
        return ""
    if subject != "cluster":
        return _costliest(rows, subject)
    sums = (
        rows.group_by("category").agg(pl.col("gpu_hours").sum()).sort("gpu_hours", "category", descending=[True, False])
    )
    whole = float(sums["gpu_hours"].sum())
    rest = sums.filter(pl.col("category") != "productive")
    largest = ", ".join(
        f"{row['category'].replace('_', ' ')} {percent(row['gpu_hours'] / whole)}"
        for row in rest.head(LARGEST).iter_rows(named=True)
    )
    return (
        f"{_productive(rows, whole)} of {gpu_hours(whole * 3600)} was productive; the largest other parts: {largest}."
    )


def _productive(rows: pl.DataFrame, whole: float) -> str:
    """The productive share with its bounds, as goodput has it; only these where none of the time is known to be."""
    allocated, hours = pl.col("state") == "allocated", pl.col("gpu_hours").cast(pl.Float64)
    kinds = (PRODUCTIVE, PRODUCTIVE & SURE, allocated & (UNSEEN | BESIDE_IDLE))
    value, sure, unseen = (rows.select(hours.filter(kind).sum() / whole).item() for kind in kinds)
    return bounded(value if value or not unseen else None, sure, min(value + unseen, 1.0))


def _costliest(rows: pl.DataFrame, subject: str) -> str:
    """Which of the subjects has most time in categories that cost something, and in which of these."""
    hours, is_costly = pl.col("gpu_hours"), pl.col("category").is_in(COSTLY)
    held = rows.filter(pl.col("subject") != NO_SUBJECT)
    sums = held.group_by("subject").agg(hours.sum().alias("whole"), hours.filter(is_costly).sum().alias("cost"))
    first = sums.sort("cost", "subject", descending=[True, False]).head(1).to_dicts()
    if not first or not first[0]["cost"]:
        return f"No GPU-time of {counted(sums.height, subject)} is known to have cost training."
    name, cost, whole = (first[0][key] for key in ("subject", "cost", "whole"))
    mine = held.filter((pl.col("subject") == name) & is_costly).group_by("category").agg(hours.sum())
    largest = mine.sort("gpu_hours", "category", descending=[True, False])["category"].item(0).replace("_", " ")
    return (
        f"{counted(sums.height, subject)}; {subject} {name} cost most: {gpu_hours(cost * 3600)} that could have "
        f"trained, {percent(cost / whole)} of its time, mostly {largest}."
    )


def _brief(rows: pl.DataFrame, shown: dict[str, tuple[str, str]], why: dict[str, tuple[str, str]]) -> Brief | None:
    """A row for each subject; without one, small shares put together. None where that saves no row."""
    if shown:
        return _by_subject(rows, shown) if rows["subject"].n_unique() > 1 else None
    small = rows.filter(pl.col("share") < SMALL)
    if small.height < 2:
        return None
    named = {name: how for name, how in _columns(why).items() if name != "evidence"}
    other = small.select(pl.lit(f"other ({small.height})").alias("category"), pl.col("gpu_hours", "share").sum())
    large = rows.filter(pl.col("share") >= SMALL)
    sums = large.group_by([name for name in named if large.schema[name] == pl.String], maintain_order=True).agg(
        pl.col("gpu_hours", "share").sum(),
        pl.when(pl.col("share_allocated").count() > 0).then(pl.col("share_allocated").sum()).alias("share_allocated"),
    )
    ordered = sums.sort("gpu_hours", descending=True, maintain_order=True)
    below = f"other: {counted(small.height, 'row')} of less than {percent(SMALL)} each: --all; by evidence: --wide"
    return Brief(pl.concat([ordered, other], how="diagonal_relaxed"), named, below)


def _by_subject(rows: pl.DataFrame, shown: dict[str, tuple[str, str]]) -> Brief:
    """A row for each subject, those that cost most first: its time, and what of it cost, trained, is unobserved."""
    hours, is_costly = pl.col("gpu_hours"), pl.col("category").is_in(COSTLY)
    key = [name for name in ("cluster", "subject") if name in rows.columns]
    mostly = rows.filter(is_costly).group_by(*key, "category").agg(hours.sum())
    largest = mostly.sort("gpu_hours", "category", descending=[True, False]).unique(key, keep="first")
    sums = rows.group_by(key).agg(
        hours.sum(),
        hours.filter(is_costly).sum().alias("cost"),
        hours.filter(PRODUCTIVE).sum().alias("productive"),
        hours.filter((pl.col("state") == "allocated") & UNSEEN).sum().alias("unobserved"),
    )
    parts = ("cost", "productive", "unobserved")
    named = largest.select(*key, pl.col("category").alias("mostly"))
    whole = sums.join(named, on=key, how="left").with_columns(
        (pl.col(name) / hours).alias(f"{name}_share") for name in parts
    )
    return Brief(
        whole.sort("cost", "gpu_hours", "subject", descending=[True, True, False]),
        shown | _OF_SUBJECT,
        "cost: time that could have trained: " + ", ".join(name.replace("_", " ") for name in COSTLY) + ".\n"
        "also: a row for each category, cause and evidence (--wide, --all, or --columns NAME,...)",
        on_pages=True,
    )


_OF_SUBJECT: Final = {
    "gpu_hours": ("GPU-h", "number"),
    "cost": ("cost GPU-h", "number"),
    "cost_share": ("cost", "ratio"),
    "mostly": ("mostly", "text"),
    "productive_share": ("productive", "ratio"),
    "unobserved_share": ("unobserved", "ratio"),
}


def _columns(why: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    return (
        {"category": ("category", "text")}
        | why
        | {
            "gpu_hours": ("GPU-h", "number"),
            "share": ("of all", "ratio"),
            "share_allocated": ("of allocated", "ratio"),
            "state": ("state", "text"),
        }
    )


def _by_category(rows: pl.DataFrame) -> pl.DataFrame:
    """Causes and evidence of a category put together, the largest first."""
    groups = ["cluster", "subject", "state", "category"]
    sums = ["gpu_seconds", "gpu_hours", "share", "straggling_gpu_seconds"]
    held = (
        pl.when(pl.col("state").first() == "allocated").then(pl.col("share_allocated").sum()).alias("share_allocated")
    )
    return (
        rows.group_by(groups)
        .agg(pl.col(sums).sum(), held)
        .select(*groups, *sums[:3], "share_allocated", sums[3])
        .sort("gpu_seconds", "category", descending=[True, False])
    )


def _imputed(guess: dict[str, Any]) -> str:
    """What infrastructure interruptions cost by assumption, and of how many the GPUs are unknown."""
    least, cost_s = ("at least ", guess["bound_low"]) if guess["value"] is None else ("", guess["value"])
    unknown = guess["note"].partition("; ")[2]
    return (
        f"Assumed, beside the ledger: {counted(guess['n'], 'infrastructure interruption')} cost "
        f"{least}{gpu_hours(cost_s)} if half an hourly checkpoint interval was lost each time"
        f"{f'; {unknown}' if unknown else ''}."
    )


IN_NO_SUM: Final = "these hours overlap with others and are in no sum"
"""The note on hours that are counted beside the categories."""


def _waited(source: Reader, window: Window) -> tuple[str, ...]:
    """Time that ranks waited for slow nodes and uneven work, where rank times are loaded: an overlay, too."""
    sessions = source.query("rank_sessions", **window.parameters, run=None)
    if sessions.is_empty():
        return ()
    from app.results.steps.stragglers import MOST_ROWS, rank_times  # noqa: PLC0415 - few have times of ranks
    from metrics.stragglers.sessions import session_stragglers  # noqa: PLC0415 - as above

    if sessions["n_rows"].sum() > MOST_ROWS:
        return ("Rank times are loaded: trackside show stragglers sums the waits for the slowest rank.",)
    slow = session_stragglers(rank_times(source, window)).filter(pl.col("cause") != "none")
    causes = (
        slow.group_by("cause").agg(pl.col("lost_gpu_s").sum()).sort("lost_gpu_s", "cause", descending=[True, False])
    )
    in_words = causes.with_columns(pl.col("cause").replace("unknown", "cause unknown").str.replace_all("_", " "))
    parts = [f"{cause} {gpu_hours(lost)}" for cause, lost in in_words.iter_rows()]
    return (
        f"of which waiting for stragglers, by rank times of {counted(sessions.height, 'session')} ({IN_NO_SUM}):"
        f" {', '.join(parts) if parts else gpu_hours(0.0)}; see trackside show stragglers.",
    )


def _straggling(rows: pl.DataFrame) -> tuple[str, ...]:
    """How much of the time straggled: an overlay, which is in the categories already."""
    slow = float(rows["straggling_gpu_seconds"].sum() or 0)
    if not slow:
        return ()
    productive = float(rows.filter(pl.col("category") == "productive")["gpu_seconds"].sum())
    share = f", {percent(slow / productive)} of the productive time" if productive else ""
    return (f"of which straggling ({IN_NO_SUM}): {gpu_hours(slow)}{share}.",)
