"""The drawer of a question: definitions, of a number all its parts, SQL, constants, and the command that prints it."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from dash import html

from app.explorer import components, correcting, zones
from app.explorer.answer_table import text_of
from app.explorer.pages import manual
from app.explorer.questions import answer_of, command
from app.json_text import as_json
from app.results.constants import computed_constants
from app.results.references import readable
from app.times import iso
from app.visible import visible
from dashboards import palette
from metrics.catalog import BY_NAME
from queries import sql_files

if TYPE_CHECKING:
    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.explorer.page import PageData
    from app.explorer.questions import QuestionSpec, Shown
    from app.show.answer import Answer
    from metrics.catalog import Metric

PARTS = {
    "value": "Value",
    "numerator": "Numerator",
    "denominator": "Denominator",
    "n": "Events, runs or steps (n)",
    "bound_low": "At least (all unobserved time counted against it)",
    "bound_high": "At most (all unobserved time counted for it)",
    "ci_low": "95 % interval from",
    "ci_high": "to",
    "ci_method": "Interval by",
    "evidence_log": "Evidence: log",
    "evidence_telemetry": "Evidence: telemetry",
    "evidence_accounting": "Evidence: accounting",
    "evidence_assumed": "Evidence: assumed",
}
"""Parts of a number, in words; others are shown by their own name."""

_UNITS: Final = {"_gpu_s": " (GPU-seconds)", "_s": " (seconds)"}
"""Units by how a name ends."""

_LARGE: Final = 1e6, 1e15
"""Numbers in between are shown whole, without a power of ten."""


def drawer(
    spec: QuestionSpec, data: PageData, view: View, row: int | None = None, column: str = ""
) -> tuple[str, Component]:
    """Title and contents.

    Args:
        spec: the question.
        data: the answers.
        view: the current view.
        row: the row that was clicked; None: the question as a whole.
        column: the column that was clicked.

    Raises:
        UsageError: as the question.
    """
    shown = answer_of(spec, data, view)
    used = data.answers.ask(computed_constants, view.window.cluster)
    rows = shown.answer.rows
    at = None if row is None or not 0 <= row < rows.height else row
    clicked = None if at is None else rows.row(at, named=True)
    worded = None if at is None else rows[at].with_columns(shown.answer.in_words).row(0, named=True)
    content = [
        *(() if worded is None else _number(shown, _local(worded, view), column)),
        None if clicked is None else correcting.of_row(view, clicked),
        *_definitions(shown, clicked),
        html.H3("The same on the command line"),
        components.code(view.completed(f"{command(spec, shown.by, view)} --explain")),
        *_sql(shown),
        html.Details(
            [
                html.Summary("Constants and parameters"),
                components.code(
                    "\n".join(f"{name} = {as_json(value)}" for name, value in sorted(used.items())), language="toml"
                ),
                html.P(f"Window: {iso(view.window.since)} to {iso(view.window.until)} (UTC)"),
            ]
        ),
        html.P(components.link(f"Manual: show {spec.question}", manual.address("how-to/questions"))),
    ]
    return spec.heading, html.Div(content, className="drawer")


def _number(shown: Shown, row: dict[str, Any], column: str) -> list[Component | None]:
    """The cell that was clicked, all other cells of its row, and the parts of its number."""
    answer = shown.answer
    heading, unit = answer.columns.get(column, ("", "text"))
    first = next(iter(answer.columns))
    named = text_of(row.get(first), first, shown.by, answer.columns[first][1])
    parts = {name: source for name, source in answer.parts.items() if name not in {"metric", "subject"}}
    pairs = [
        (_label(answer, name, source), _part(row[source], source, shown.by))
        for name, source in parts.items()
        if row.get(source) is not None
    ]
    cells = [
        (other, text_of(row[name], name, shown.by, kind))
        for name, (other, kind) in answer.columns.items()
        if name in row and name not in {first, column} and row[name] is not None
    ]
    value = text_of(row.get(column), column, shown.by, unit)
    return [
        html.P(f"{answer.columns[first][0]}: {named}", className="lead"),
        html.Div([html.Span(value), html.Span(f" {heading}", className="card-bound")],
                 className="card-value bounded") if heading and column != first else None,
        components.facts(pairs),
        html.Details([html.Summary("The whole row"), components.facts(cells)], open=not pairs),
    ]  # fmt: skip


def _label(answer: Answer, part: str, column: str) -> str:
    """The heading of a part of a number: the table's where it differs from the part's name, which is more exact."""
    if part != column and column in answer.columns:
        return answer.columns[column][0]
    return PARTS.get(part) or _in_words(part)


def _in_words(part: str) -> str:
    """A part's own name, its unit apart.

    >>> _in_words("numerator_gpu_s"), _in_words("n_open")
    ('numerator (GPU-seconds)', 'n open')
    """
    end = next((end for end in _UNITS if part.endswith(end)), "")
    return part.removesuffix(end).replace("_", " ") + _UNITS.get(end, "")


def _local(row: dict[str, Any], view: View) -> dict[str, Any]:
    """The row with its times as the table shows them."""
    return {name: zones.local(each, view.zone) if isinstance(each, datetime) else each for name, each in row.items()}


def _part(value: Any, column: str, dimension: str) -> str:
    """A part of a number; names of ours are in words."""
    return text_of(value, column, dimension, "text") if isinstance(value, str) else _exact(value)


def _exact(value: Any) -> str:
    """A part of a number, as exact as it is stored.

    >>> _exact(Decimal("60819668.000000000")), _exact(Decimal("0.500")), _exact(0.1), _exact(1200)
    ('60,819,668', '0.5', '0.1', '1,200')
    >>> _exact(60819668.25), _exact(3.9e24), _exact(math.inf)
    ('60,819,668', '3.9e+24', 'inf')
    """
    if isinstance(value, Decimal):
        return f"{value:,f}".rstrip("0").rstrip(".") if value % 1 else f"{int(value):,}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return visible(str(value))
    if isinstance(value, int) or not math.isfinite(value):
        return f"{value:,}"
    return f"{value:,.0f}" if _LARGE[0] <= abs(value) < _LARGE[1] else f"{value:,.6g}"


def _definitions(shown: Shown, row: dict[str, Any] | None) -> list[Component]:
    """What the number is, or all numbers of the answer: of a category's time its meaning."""
    category = palette.BY_CATEGORY.get(str((row or {}).get("category")))
    if category is not None:
        meaning = html.P(category.meaning)
        more = components.link("All categories", f"/definitions#{category.name}")
        return [html.Div([html.H3(category.label), meaning, html.P(more)])]
    return [_metric(BY_NAME[name]) for name in _metrics(shown, row)]


def _metrics(shown: Shown, row: dict[str, Any] | None) -> tuple[str, ...]:
    """Metrics to define: that of the row where it names one; none of a row that is a sum beside the parts."""
    named = None if row is None else row.get("metric")
    if row is not None and not shown.answer.parts:
        return ()
    return (str(named),) if named in BY_NAME else shown.answer.metrics


def _metric(metric: Metric) -> Component:
    return html.Div(
        [
            html.H3(metric.title),
            html.P(metric.summary),
            components.facts(
                [
                    ("Definition", metric.formula),
                    ("Unit", metric.unit),
                    ("Uncertainty", metric.interval),
                    ("Source", readable(metric.source)),
                    ("Arithmetic", html.Code(metric.computed_by)),
                    ("Manual", components.link(metric.name, manual.address("reference/metrics", metric.name))),
                ]
            ),
        ]
    )


def _sql(shown: Shown) -> list[Component]:
    named = sql_files.named_queries()
    return [
        html.Details(
            [html.Summary(f"SQL of its query ({name})"), components.code(named[name].sql.strip(), language="sql")]
        )
        for name in shown.answer.queries
        if name in named
    ]
