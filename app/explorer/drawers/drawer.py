"""The drawer of a headline number: its definition, parts, verdicts, SQL and constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dash import html

from app import formatting
from app.claims.printed import more_digits, target_text, verdict_word
from app.explorer import components
from app.explorer.pages import manual
from app.json_text import as_json
from app.results import headline_text, references
from metrics.catalog import BY_NAME
from queries import sql_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.results.headlines import Headline
    from metrics.catalog import Metric
    from metrics.claims.verdict import Judged


def layout(headline: Headline, judged: Sequence[Judged], constants: dict[str, Any], view: View) -> Component:
    """The drawer of a headline.

    Args:
        headline: the number.
        judged: verdicts on claims about it.
        constants: the constants of its computation.
        view: the current view.
    """
    metric = BY_NAME.get(headline.metric)
    evidence = ", ".join(f"{kind} {headline_text.share(part)}" for kind, part in headline.evidence)
    return html.Div(
        [
            html.P(metric.summary if metric else "", className="lead"),
            html.Div(
                headline_text.headline_text(headline),
                className="card-value" if headline.value is not None else "card-value unknown",
            ),
            html.P(headline.note, className="note") if headline.note and not _parts_repeat_note(headline) else None,
            components.facts(
                [
                    ("Definition", metric.formula if metric else None),
                    ("This number", headline_text.fraction_text(headline)),
                    ("Numerator", _numerator(headline)),
                    ("Denominator", _exact(headline.denominator, headline.metric)),
                    ("Events, runs or steps", None if headline.n is None else f"{headline.n:,}"),
                    ("Bounds", headline_text.bounds_text(headline)),
                    ("Confidence interval", headline_text.interval_text(headline)),
                    ("Uncertainty", metric.interval if metric else None),
                    ("Evidence", evidence or None),
                    ("Source", references.readable(metric.source) if metric else None),
                    ("Arithmetic", html.Code(metric.computed_by) if metric else None),
                ]
            ),
            *[_claim(each, headline) for each in judged],
            html.H3("The same number on the command line"),
            components.code(view.completed(command(headline, view))),
            *(_sql(metric) if metric else []),
            html.H3("Constants used"),
            components.code(
                "\n".join(f"{name} = {as_json(value)}" for name, value in sorted(constants.items())), language="toml"
            ),
            html.P(components.link("All definitions", f"/definitions#{headline.metric}")),
            html.P(components.link("Manual: this metric", manual.address("reference/metrics", headline.metric))),
        ],
        className="drawer",
    )


def command(headline: Headline, view: View) -> str:
    """The command that prints the number, for the same cluster and period."""
    return f"{headline.show} {view.command} --explain"


def _parts_repeat_note(headline: Headline) -> bool:
    """Whether the line of its parts has the words of its note: what an MTTF pools."""
    return headline.metric == "mttf" and bool(headline.denominator)


def _numerator(headline: Headline) -> str | None:
    if headline.metric == "mttf":
        return headline_text.pooled_text(headline)
    return _exact(headline.numerator, headline.metric)


def _exact(value: float | None, metric: str) -> str | None:
    if value is None:
        return None
    if metric == "mttf":
        return f"{value:,.6g}"
    parts = BY_NAME[metric].parts
    return formatting.display(value, "flop") if parts and parts.unit == "flop" else f"{value:,.0f} GPU-seconds"


def _claim(judged: Judged, headline: Headline) -> Component:
    claim, measured, more = judged.claim, judged.measured, more_digits(judged)
    low = formatting.measured(measured.low, claim.unit, more=more)
    open_end = measured.low is not None and measured.high in {None, float("inf")}
    high = "no limit" if open_end else formatting.measured(measured.high, claim.unit, more=more)
    within = headline_text.judged_as(claim, headline)
    needed = measured.needed if judged.verdict == "undetermined" else None
    return html.Div(
        [
            html.Div(
                [
                    html.H3(f"Claim: {claim.id}"),
                    components.verdict_badge(judged.verdict, word_shown=verdict_word(judged)),
                ],
                className="claim-head",
            ),
            html.Blockquote(f"“{claim.quoted}”"),
            components.facts(
                [
                    ("Read as", claim.read_as),
                    ("Target", f"{target_text(judged)} ({claim.kind})"),
                    (
                        "Measured",
                        f"{formatting.measured(measured.value, claim.unit, more=more)}, from {low} to {high}"
                        + (f", {within}" if within else ""),
                    ),
                    ("Method", measured.method or None),
                    ("Evidence still needed", needed),
                ]
            ),
            html.P(components.link("Manual: how claims are judged", manual.address("how-to/claims", "a-verdict"))),
        ],
        className="claim",
    )


def _sql(metric: Metric) -> list[Component]:
    named = sql_files.named_queries().get(metric.query)
    if named is None:
        return []
    return [
        html.Details(
            [html.Summary(f"SQL of its query ({metric.query})"), components.code(named.sql.strip(), language="sql")],
            open=True,
        )
    ]
