"""The page Verdicts and corrections: what was claimed, what was measured, and what people corrected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from dash import html

from app import formatting
from app.corrections.records import TITLES, read_corrections
from app.explorer import components
from app.explorer.page import Page, Section
from app.explorer.pages import manual, overview
from app.explorer.questions import heading
from app.json_text import as_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dash.development.base_component import Component

    from app.corrections.records import Correction
    from app.explorer.filters import View
    from app.explorer.page import Data
    from metrics.claims.verdict import Judged
    from queries.warehouse import Reader


def corrections(source: Reader, cluster: str) -> list[Correction]:
    """Corrections of a cluster, withdrawn ones too."""
    return read_corrections(source, cluster)


def _judged(data: Data, view: View) -> tuple[Judged, ...]:
    return data.answers.ask(overview.gather, view.window, data.claims.now(), view.requested).judged


def _claims(judged: Sequence[Judged], _: View) -> Component:
    if not judged:
        return components.panel("Claims", html.P("No claim is configured.", className="nothing"))
    return html.Div([_claim(each) for each in judged], className="verdicts")


def _claim(each: Judged) -> Component:
    claim, measured = each.claim, each.measured
    side = "at least" if claim.direction == "at_least" else "at most"
    target = f"{side} {formatting.measured(claim.target, claim.unit)}"
    low, high = (formatting.measured(end, claim.unit, null=formatting.NOTHING) for end in (measured.low, measured.high))
    return components.panel(
        claim.id,
        html.Blockquote(f"“{claim.quoted}”"),
        components.facts(
            [
                ("Read as", claim.read_as),
                ("Target", f"{target} ({claim.kind})"),
                ("Measured", f"{formatting.measured(measured.value, claim.unit)}, from {low} to {high}"),
                ("Method", measured.method or None),
                ("Evidence still needed", measured.needed if each.verdict == "undetermined" else None),
                (
                    "Judged over",
                    f"{each.since:%Y-%m-%d} to {each.until:%Y-%m-%d}" if each.since and each.until else None,
                ),
                ("Corrections that bear on it", f"{each.adjudications:,}"),
                ("Definition", components.link(claim.metric, manual.address("reference/metrics", claim.metric))),
            ]
        ),
        right=components.verdict_badge(each.verdict, target),
    )


def _corrections(made: Sequence[Correction], _: View) -> Component:
    rows = pl.DataFrame(
        {
            "made_at": [each.made_at for each in made],
            "kind": [TITLES[each.kind] for each in made],
            "subject": [as_json(each.subject, sort_keys=True) for each in made],
            "before": [as_json(each.before, sort_keys=True) for each in made],
            "after": [as_json(each.after, sort_keys=True) for each in made],
            "author": [each.author for each in made],
            "reason": [each.reason for each in made],
            "state": ["in force" if each.counts else f"withdrawn by {each.withdrawn_by}" for each in made],
        },
        schema_overrides={"made_at": pl.Datetime("us", "UTC")},
    )
    texts = {"kind": "Corrected", "subject": "Of", "before": "Derived", "after": "Corrected to", "author": "By",
             "reason": "Because", "state": "State"}  # fmt: skip
    columns = [components.column("made_at", "Made (UTC)", "time", width=140, minWidth=140)]
    columns += [components.column(name, title, flex=2, minWidth=120) for name, title in texts.items()]
    return components.panel(
        "Corrections by people",
        components.grid(rows, columns, name="corrections", empty="Nobody corrected anything."),
        components.code("trackside adjudicate --help"),
        note="Each keeps the derived value beside the corrected one; a computation applies those in force.",
        right=components.export_button("corrections") if made else None,
    )


PAGE = Page(
    "/verdicts",
    "Verdicts and corrections",
    "verdict",
    lambda _, __: None,
    lambda _, __: heading(
        "Verdicts and corrections", "What was claimed, what the data say, and what people corrected."
    ),
    position=60,
    group="Data",
    sections=lambda _: (
        Section("claims", "Claims", _judged, _claims, height=400),
        Section(
            "corrections",
            "Corrections by people",
            lambda data, view: data.answers.ask(corrections, view.window.cluster),
            _corrections,
        ),
    ),
)
