"""The first page: headline numbers, where the GPU-time went, how it developed, what costs most."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
from dash import html

from app import formatting
from app.claims import verify as verifying
from app.claims.printed import target_text, verdict_word
from app.errors import UsageError
from app.explorer import components, filters, wording
from app.explorer.charts import figures
from app.explorer.page import ExplorerPage, PageData, Section
from app.explorer.row_texts import texts_of
from app.explorer.to_do import costliest
from app.results import headline_text
from app.results.failures.interruptions import interruption_costs
from app.results.headlines import headlines
from app.results.nodes.capacity import nodes_by_accounting
from app.results.source import CachedSource
from app.results.windows import ledger_sums
from app.times import iso
from ingest.counted import counted
from metrics.goodput.goodput import lost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.results.headlines import Headline
    from app.window import Window
    from metrics.claims.verdict import Claim, Judged
    from queries.warehouse import Reader

LISTED = 200
"""Interruptions that the page lists."""

COSTLIEST = "Interruptions that cost most"
"""The title of the list of interruptions."""

CLASSES = {"infrastructure": "Infrastructure", "all": "All"}
"""What the list of interruptions can show; users' own cancels are many and cost nothing that hardware would change."""


@dataclass(frozen=True)
class Numbers:
    """The headline numbers, and the verdicts on the claims about them."""

    headlines: tuple[Headline, ...]
    judged: tuple[Judged, ...]


@dataclass(frozen=True)
class GpuTimeAccount:
    """Where the GPU-time went.

    Attributes:
        lost: `app.results.goodput.lost_rows` of the cluster.
        by_day: the same by day.
        capacity_note: a sentence on nodes that only accounting names; None where there are none.
    """

    lost: pl.DataFrame
    by_day: pl.DataFrame
    capacity_note: str | None


def gather(source: Reader, window: Window, claims: tuple[Claim, ...], requested: Window) -> Numbers:
    """The headline numbers.

    Args:
        source: where from.
        window: cluster and time.
        claims: the claims to judge.
        requested: the requested period; the window is its computed part.
    """
    once = CachedSource(source)
    return Numbers(headlines(once, window), tuple(verifying.verify(once, requested, claims)))


def account(source: Reader, window: Window) -> GpuTimeAccount:
    """Where the GPU-time went, as a whole and by day."""
    days = ledger_sums(source, window, "day")
    whole = lost(days.with_columns(subject=pl.lit(window.cluster)))
    return GpuTimeAccount(whole, lost(days), nodes_by_accounting(source, window))


def interruption_counts(source: Reader, window: Window) -> pl.DataFrame:
    """Interruptions by `day`, `class` and `cause`: `n`."""
    return source.query("interruption_counts", **window.parameters)


def by_cost(source: Reader, window: Window, of_class: str, node: str = "", cause: str = "") -> tuple[pl.DataFrame, int]:
    """The interruptions that cost most, those by infrastructure first, then the newest; and how many there are.

    Returns:
        The first `LISTED` of `interruption_costs`, with `cost_gpu_h`; and how many there are.
    """
    events = interruption_costs(source, window, "" if of_class == "all" else of_class)
    for column, value in (("node", node), ("cause", cause)):
        events = events.filter(pl.col(column) == value) if value else events
    order = [pl.col("class") != "infrastructure", -pl.col("cost_gpu_s"), -pl.col("ended_at").dt.epoch("us")]
    shown = events.sort(order, nulls_last=True, maintain_order=True).head(LISTED)
    return shown.with_columns(cost_gpu_h=pl.col("cost_gpu_s") / 3600), events.height


def verdict_on(judged: Sequence[Judged], metric: str) -> Judged | None:
    """The first claim on a metric: the one that its card shows."""
    return next((each for each in judged if each.claim.metric == metric), None)


def headline_of(overview: Numbers, metric: str) -> Headline:
    """The headline number of a metric.

    Raises:
        UsageError: there is none.
    """
    for each in overview.headlines:
        if each.metric == metric:
            return each
    raise UsageError(f"there is no headline number {metric!r}")


def _ordered(headlines: Sequence[Headline]) -> list[Headline]:
    return sorted(headlines, key=lambda headline: headline.definition.headline or 0)


def _card(headline: Headline, judged: Sequence[Judged]) -> Component:
    """A headline number with its range, target, verdict, numerator and denominator, and evidence."""
    claim = verdict_on(judged, headline.metric)
    within = None if claim is None else headline_text.judged_as(claim.claim, headline)
    # A target is drawn only against the number that it is a target of.
    target = None if claim is None or within is not None else claim.claim.target
    has_value = headline.value is not None
    bounds = None if headline_text.at_most(headline) is not None else headline_text.bounds_text(headline)
    ranges = [text for text in (bounds, headline_text.interval_text(headline)) if text]
    aim = None if claim is None else f"target {target_text(claim)}"
    return html.Button(
        [
            html.Span(
                [
                    html.Span(headline.title, className="card-title"),
                    components.verdict_badge(claim.verdict, aim or "", word_shown=verdict_word(claim))
                    if claim is not None
                    else None,
                ],
                className="card-head",
            ),
            _value(headline),
            components.headline_range(headline, target) or html.Span(className="span-bar none"),
            html.Span(" · ".join(ranges), className="card-line") if ranges else None,
            html.Span(f"judged: {headline_text.judged_value(claim)} {within}", className="card-line")
            if claim is not None and within
            else None,
            html.Span(aim, className="card-line aim") if aim else None,
            html.Span(headline_text.fraction_text(headline), className="small"),
            html.Span(headline.note, className="small card-note") if headline.note and not has_value else None,
            components.evidence_strip(headline.evidence),
        ],
        id={"type": "headline", "metric": headline.metric},
        className="card",
        type="button",
        **components.aria(
            {
                "aria-haspopup": "dialog",
                "aria-label": f"{headline.title}: {headline_text.headline_text(headline)}. Show its definition",
            }
        ),
    )


def _value(headline: Headline) -> Component:
    """The large number; a lower bound is labelled as such, with the upper one next to it."""
    number = headline_text.headline_value(headline)
    high = headline_text.at_most(headline)
    if high is None:
        return html.Span(number, className="card-value" if headline.value is not None else "card-value unknown")
    return html.Span(
        [
            html.Span("at least ", className="card-bound"),
            html.Span(number),
            html.Span(f" at most {formatting.measured(high, headline.unit)}", className="card-bound"),
        ],
        className="card-value bounded",
    )


def _account(data: GpuTimeAccount, view: View) -> Component:
    """Where the GPU-time went: a bar that is the whole capacity, the rows behind it, and what the capacity rests on."""
    lost, capacity_note = data.lost, data.capacity_note
    if lost.is_empty():
        return components.panel("Where the GPU-time went", html.P("No GPU-time in this period.", className="nothing"))
    by_category = lost.group_by("category").agg(pl.col("gpu_hours").sum())
    whole = float(by_category["gpu_hours"].sum())
    parts = (
        lost.group_by("state", "category", "cause", "evidence")
        .agg(pl.col("gpu_hours").sum(), pl.col("share").sum())
        .sort("gpu_hours", descending=True)
    )
    rows = parts.with_columns(**costliest.category_style(parts), href=costliest.links_of_causes(parts, view))
    return components.panel(
        "Where the GPU-time went",
        components.stacked_bar(
            list(by_category.iter_rows()), whole, href=lambda name: view.link("/gpu-time", category=name)
        ),
        html.Details(
            [
                html.Summary("By category, cause and evidence"),
                components.grid(
                    rows,
                    [
                        components.column("label", "Category", href="href", swatch="colour", flex=2, minWidth=168),
                        components.column("gpu_hours", "GPU-h", "hours", flex=1, minWidth=92),
                        components.column("share", "Share", "share", bar=True, flex=2, minWidth=126),
                        components.column("cause", "Cause", "words", flex=2, minWidth=110),
                        components.column("evidence", "Evidence", flex=2, minWidth=110),
                    ],
                    name="account",
                    height=440,
                ),
            ],
            open=True,
            className="details",
        ),
        note=f"All {headline_text.hours(whole)} GPU-hours of the period, each GPU-second counted exactly once. "
        f"Hatched: unobserved time.{f' {capacity_note}' if capacity_note else ''}",
        right=components.export_button("account"),
    )


def _of_day(view: View) -> Callable[[str], str]:
    """From a day (UTC) to where its GPU-time went and what interrupted attempts."""

    def address_of(day: str) -> str:
        since = datetime.fromisoformat(day).replace(tzinfo=UTC)
        return view.link("/gpu-time", since=iso(since), until=iso(since + timedelta(days=1)))

    return address_of


def _trend(data: GpuTimeAccount, view: View) -> Component:
    if data.by_day.is_empty():
        return components.panel("GPU-hours per day", html.P("Nothing in this period.", className="nothing"))
    unseen = bool((data.by_day["category"] == "unattributed").any())
    return components.panel(
        "GPU-hours per day",
        components.figure(
            figures.trend(data.by_day, href=_of_day(view)),
            "trend",
            "GPU-hours of each day by category, stacked",
            leads=True,
        ),
        note="Productive time lies between the lower and the upper edge of the hatched band."
        if unseen
        else "The colours are those of the bar above.",
    )


def _interruptions_by_day(counts: pl.DataFrame, view: View) -> Component:
    if counts.is_empty():
        return components.panel("Interruptions per day", html.P("No attempt was interrupted.", className="nothing"))
    return components.panel(
        "Interruptions per day",
        components.figure(
            figures.interruptions(counts, every_day(view.window), href=_of_day(view)),
            "interruptions-by-day",
            "Interruptions of each day by class",
            leads=True,
        ),
        note=(
            f"{counted(int(counts['n'].sum()), 'attempt')} ended without completing. A click on a day shows that day."
        ),
    )


def every_day(window: Window) -> list[str]:
    """Every day (UTC) that a window touches."""
    first, last = filters.days(window)
    return pl.date_range(pl.lit(first).str.to_date(), pl.lit(last).str.to_date(), eager=True).cast(pl.String).to_list()


def interruptions_table(
    found: tuple[pl.DataFrame, int], view: View, *, title: str = COSTLIEST, chosen: str = ""
) -> Component:
    """A panel with interruptions as `by_cost` has them.

    Args:
        found: the first of them, and how many there are.
        view: the current view.
        title: of the panel.
        chosen: the class that people chose, where they can.
    """
    events, count = found
    node, cause = view.get("node"), wording.in_words(view.get("cause"))
    rows = events.with_columns(cause=texts_of(events["cause"], wording.in_words)).with_columns(
        href=texts_of(events["run_id"], lambda run: view.link("/run", id=run)),
        node_href=texts_of(events["node"], lambda name: view.link("/node", node=name)),
        colour=costliest.class_colours(events),
        why=pl.when((pl.col("class") == pl.col("cause")) | (chosen == "infrastructure"))
        .then(pl.col("cause"))
        .otherwise(pl.format("{}: {}", "class", "cause")),
    )
    narrowed = " and ".join(filter(None, (f"on node {node}" if node else "", f"caused by {cause}" if cause else "")))
    what = " by infrastructure" if chosen == "infrastructure" else ""
    order = "the costliest first" if what else "infrastructure first, then by cost"
    listed = f"the first {events.height:,} of {count:,}" if events.height < count else f"{count:,}"
    note = (
        f"{listed}{what} {narrowed or 'in this period'}, {order}, then the newest. Cost: lost and stalled time, and "
        "startup of the attempt that followed; unknown (-) where more than a tenth of the attempt was unobserved."
    )
    chooser = components.chooser("class", CLASSES, chosen, "Which interruptions")
    return components.panel(
        title,
        html.Div(chooser, className="chooser") if chosen else None,
        components.grid(
            rows,
            [
                components.column("run_id", "Run", "run", href="href", flex=1, minWidth=112),
                components.column("cost_gpu_h", "Cost (GPU-h)", "hours", width=84, minWidth=80),
                components.column("node", "Node", href="node_href", flex=1, minWidth=92),
                components.column("why", "Cause", swatch="colour", flex=4, minWidth=150),
                components.column("n_gpus", "GPUs", "count", width=72, minWidth=72),
                components.column("ended_at", view.titled("Ended"), "time", width=138, minWidth=138),
            ],
            name="costliest",
            height=min(620, 60 + 34 * events.height),
            zone=view.zone,
            empty="Infrastructure interrupted nothing." if what else "None.",
        ),
        note=note if count else None,
        right=components.export_button("costliest"),
    )


def _interruptions(found: tuple[pl.DataFrame, int], view: View) -> Component:
    return interruptions_table(found, view, chosen=view.get("class", "infrastructure"))


def _cards(data: Numbers, _: View) -> Component:
    return html.Div([_card(each, data.judged) for each in _ordered(data.headlines)], className="cards")


def _checked(_: PageData, view: View) -> None:
    """Refuse an address that the page cannot show."""
    by, of_class = view.get("by", "cause"), view.get("class", "infrastructure")
    if by not in costliest.DIMENSIONS:
        raise UsageError(f"by: costs cannot be split by {by!r}; there are: {', '.join(costliest.DIMENSIONS)}")
    if of_class not in CLASSES:
        raise UsageError(f"class: there is no list {of_class!r}; there are: {', '.join(CLASSES)}")


def _numbers_of(data: PageData, view: View) -> Numbers:
    return data.answers.ask(gather, view.window, data.claims.now(), view.requested)


def _account_of(data: PageData, view: View) -> GpuTimeAccount:
    return data.answers.ask(account, view.window)


def _costs_of(data: PageData, view: View) -> pl.DataFrame:
    by = view.get("by", "cause")
    return (
        costliest.costs_by_cause(_account_of(data, view).lost)
        if by == "cause"
        else data.answers.ask(costliest.costs, view.window, by)
    )


def _interruptions_of(data: PageData, view: View) -> tuple[pl.DataFrame, int]:
    of_class = view.get("class", "infrastructure")
    return data.answers.ask(by_cost, view.window, of_class, view.get("node"), view.get("cause"))


SECTIONS = (
    Section("numbers", "Headline numbers", _numbers_of, _cards, height=420),
    Section("account", "Where the GPU-time went", _account_of, _account, height=420, kept=True),
    Section("costs", "What is costing us most", _costs_of, costliest.panel, span=5, height=560, kept=True),
    Section("interruptions", COSTLIEST, _interruptions_of, _interruptions, span=7, height=560, kept=True),
    Section("trend", "GPU-hours per day", _account_of, _trend, span=8, height=380, kept=True),
    Section(
        "by-day",
        "Interruptions per day",
        lambda data, view: data.answers.ask(interruption_counts, view.window),
        _interruptions_by_day,
        span=4,
        height=380,
        kept=True,
    ),
)

PAGE = ExplorerPage(
    "/",
    "Overview",
    "overview",
    _checked,
    lambda _, __: html.H1("Overview", className="visually-hidden"),
    position=10,
    sections=lambda _: SECTIONS,
    narrowed_by=("node", "cause"),
)
