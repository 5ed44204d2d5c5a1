"""The page Verdicts and corrections: what was claimed, what was measured, and what people corrected."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

import polars as pl
from dash import html

from app import formatting
from app.claims.printed import more_digits, target_text, verdict_word
from app.corrections.describe import describe_after, describe_before, describe_subject
from app.corrections.records import TITLES, read_corrections
from app.explorer import components, correcting, open_pages
from app.explorer.page import ExplorerPage, Section
from app.explorer.pages import manual, overview
from app.explorer.questions import heading
from app.times import iso
from metrics.catalog import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dash.development.base_component import Component

    from app.corrections.records import Correction
    from app.explorer.filters import View
    from app.explorer.page import PageData
    from metrics.claims.verdict import Judged
    from queries.warehouse import Reader


def corrections(source: Reader, cluster: str) -> list[Correction]:
    """Corrections of a cluster, withdrawn ones too."""
    return read_corrections(source, cluster)


def _judged(data: PageData, view: View) -> tuple[Judged, ...]:
    return data.answers.ask(overview.gather, view.window, data.claims.now(), view.requested).judged


def _claims(judged: Sequence[Judged], view: View) -> Component:
    if not judged:
        return components.panel("Claims", html.P("No claim is configured.", className="nothing"))
    return html.Div(
        [
            html.Div([_claim(each, view) for each in judged], className="verdicts"),
            components.panel(
                "To sign or dispute",
                html.P("How each claim is read, its evidence and its arithmetic; and a report of the same period:"),
                components.code(view.completed(f"trackside verify --explain {view.command}\n{_report(view)}")),
                right=components.link("Manual", manual.address("how-to/reports")),
            ),
        ],
        className="claims",
    )


def _report(view: View) -> str:
    """The command that writes the report of the period that is shown."""
    period = f"{iso(view.window.since)}..{iso(view.window.until)}"
    return f"trackside report sla --period {period} --cluster {shlex.quote(view.window.cluster)}"


BEHIND: Final = {
    "goodput": ("/gpu-time", "GPU time, by what it was lost to"),
    "occupancy": ("/gpu-time", "GPU time, by what it was lost to"),
    "availability": ("/nodes", "Nodes, and their outages"),
    "ettr": ("/runs", "Runs, with the ETTR of each"),
    "mfu": ("/runs", "Runs, with the MFU on the page of each"),
    "mttf": ("/reliability", "Reliability, by size and cause"),
    "scaling": ("/scaling", "Scaling, with the speed of each run"),
    "time_to_job_restart": ("/reliability", "Reliability, stage by stage of a restart"),
    "time_to_train": ("/scaling", "Scaling, with the time of each run"),
}
"""Where what a claim's number is made of can be looked at, by its metric or how the name of that begins."""


def _number_link(metric: str, view: View) -> Component | None:
    path, words = BEHIND.get(metric) or BEHIND.get(metric.split("_", 1)[0], ("", ""))
    return components.link(words, view.link(path)) if path and open_pages.is_open(path) else None


def _title(metric: str) -> str:
    return BY_NAME[metric].title if metric in BY_NAME else metric


def _claim(each: Judged, view: View) -> Component:
    claim, measured, more, target = each.claim, each.measured, more_digits(each), target_text(each)
    low, high = (
        formatting.measured(end, claim.unit, null=formatting.NOTHING, more=more)
        for end in (measured.low, measured.high)
    )
    value = formatting.measured(measured.value, claim.unit, more=more)
    return components.panel(
        claim.id,
        html.Blockquote(f"“{claim.quoted}”"),
        components.facts(
            [
                ("Read as", claim.read_as),
                ("Target", f"{target} ({claim.kind})"),
                ("Measured", f"{value}, from {low} to {high}"),
                ("Method", measured.method or None),
                ("Evidence still needed", measured.needed if each.verdict == "undetermined" else None),
                (
                    "Judged over",
                    f"{view.moment(each.since)} to {view.moment(each.until)} {view.zone_name}"
                    if each.since and each.until
                    else None,
                ),
                ("Corrections that bear on it", f"{each.adjudications:,}"),
                ("Behind it", _number_link(claim.metric, view)),
                (
                    "Definition",
                    components.link(_title(claim.metric), manual.address("reference/metrics", claim.metric)),
                ),
            ]
        ),
        right=components.verdict_badge(each.verdict, target, word_shown=verdict_word(each)),
    )


def _corrections(data: PageData, view: View) -> tuple[list[Correction], bool]:
    """All corrections, and whether the current viewer may see the numbers without them."""
    return data.answers.ask(corrections, view.window.cluster), data.corrector is not None


def _listed(found: tuple[list[Correction], bool], view: View) -> Component:
    made, may_try = found
    in_force = {each.id: _in_words(each) for each in made if each.counts}
    rows = pl.DataFrame(
        {
            "made_at": [each.made_at for each in made],
            "id": [each.id for each in made],
            "kind": [TITLES[each.kind] for each in made],
            "subject": [describe_subject(each) for each in made],
            "before": [describe_before(each) for each in made],
            "after": [describe_after(each) for each in made],
            "author": [each.author for each in made],
            "reason": [each.reason for each in made],
            "state": [_state(each) for each in made],
        },
        schema_overrides={"made_at": pl.Datetime("us", "UTC")},
    )
    texts = {"id": "Correction", "kind": "Corrected", "subject": "Of", "before": "Derived", "after": "Corrected to",
             "author": "By", "reason": "Because", "state": "State"}  # fmt: skip
    columns = [components.column("made_at", view.titled("Made"), "time", width=140, minWidth=140)]
    columns += [components.column(name, title, flex=2, minWidth=120) for name, title in texts.items()]
    return components.panel(
        "Corrections by people",
        components.grid(rows, columns, name="corrections", empty="No corrections.", zone=view.zone),
        html.Details([html.Summary("What each of them changes"), correcting.changes_of_each(in_force)], open=True)
        if in_force and may_try
        else None,
        note="Each keeps the derived value beside the corrected one; a computation applies those in force.",
        right=components.export_button("corrections") if made else None,
    )


def _in_words(each: Correction) -> str:
    return f"{describe_subject(each)}: {describe_before(each)} -> {describe_after(each)}"


def _state(each: Correction) -> str:
    if each.counts:
        return "in force"
    return f"withdrawn by {each.withdrawn_by}: {each.withdrawn_reason}"


def _correct(data: PageData, view: View) -> list[str] | None:
    """Ids of the corrections in force; None where the current viewer can make none."""
    if data.corrector is None:
        return None
    return [each.id for each in data.answers.ask(corrections, view.window.cluster) if each.counts]


def _forms(ids: list[str] | None, view: View) -> Component:
    if ids is None:
        return components.panel(
            "Make a correction",
            html.P(correcting.OFF, className="note"),
            components.code("trackside adjudicate --help"),
        )
    return components.panel(
        "Make a correction",
        correcting.forms(ids, view),
        note="It overrules what was derived, with your name and a reason, and can be withdrawn.",
        right=components.link("Manual", manual.address("how-to/corrections")),
    )


PAGE = ExplorerPage(
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
            _corrections,
            _listed,
        ),
        Section("correct", "Make a correction", _correct, _forms, height=360),
    ),
)
