"""Sections that are questions of `trackside show`: a page names its questions and nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import groupby
from textwrap import dedent
from typing import TYPE_CHECKING, Final, NamedTuple

import dash_mantine_components as dmc
import polars as pl
from dash import html

from app.errors import UsageError
from app.explorer import components, phone_columns, row_filters, wording
from app.explorer.answer_table import CAUSES, PAGES, addresses, answer_table, linked
from app.explorer.charts import question_figures
from app.explorer.mentions import mentions
from app.explorer.page import ExplorerPage, Section
from app.show.answer import Answer, Question
from app.show.registry import of_runs, question_of
from app.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import plotly.graph_objects as go
    from dash.development.base_component import Component

    from app.explorer.answer_table import Leads
    from app.explorer.filters import View
    from app.explorer.page import PageData
    from app.explorer.row_filters import Narrowed
    from app.window import Window
    from queries.warehouse import Reader

FILTERS = ("user", "account", "partition", "node", "run", "gpu_model", "scheduler", "category", "cause", "class")
"""Filters that pages of questions take."""

MONTH = 31
"""Days that a section with sums of each GPU and day reads at most."""

QUARTER = 92
"""Days that a section with a row for each attempt reads at most: a year of a large cluster has millions."""


@dataclass(frozen=True)
class QuestionSpec:
    """A question as a section.

    Attributes:
        question: its name in `trackside show`, or a metric's.
        by: what it is split by where the address has nothing; empty: its own default.
        title: of the section; empty: the question's summary.
        figure: drawn above the table from the rows that are shown, or from those that the answer has for figures; None,
            or a figure that is None: nothing.
        undrawn: rows that the figure leaves out, in words; None: the figure has such a text itself.
        run: the parameter of the address with the run that it is about; empty: it is about all.
        name: the anchor of the section; needed where a page has one question twice.
        span: columns of twelve that it takes on a wide screen.
        chosen: whether people can split it by something else.
        days: of a longer window only so many last days are read, since it reads samples or every attempt; 0: all of it.
        runs: named query with the ids of the runs that it is about where no filter is chosen; empty: all.
        most: so many of these at most, in the query's order; 0: all of them.
        only: the section's text where it is not about all runs, with `{most}` in the place of their number.
        no_runs: the text where there is none of these runs; empty: that of the answer.
        ignores: filters of the page that are not about this section.
        causes: whether its causes are those of lost GPU-time, so that they lead to it.
        about: the filter that names what the page is about: its column is left out, also as the first one.
        notes: whether the answer's notes are beneath it; False where another section of the page has
            the same.
    """

    question: str
    by: str = ""
    title: str = ""
    figure: Callable[[pl.DataFrame, str], go.Figure | None] | None = None
    undrawn: Callable[[pl.DataFrame], str] | None = None
    run: str = ""
    name: str = ""
    span: int = 12
    chosen: bool = True
    days: int = 0
    runs: str = ""
    most: int = 0
    only: str = ""
    no_runs: str = ""
    ignores: tuple[str, ...] = ()
    causes: bool = False
    about: str = ""
    notes: bool = True

    @property
    def leads(self) -> Leads:
        """Where its cells and bars lead."""
        return {**PAGES, **CAUSES} if self.causes else PAGES

    @property
    def filters(self) -> tuple[str, ...]:
        """Filters that narrow the section."""
        return tuple(each for each in FILTERS if each not in self.ignores)

    @property
    def anchor(self) -> str:
        """The section's name."""
        return self.name or self.question.replace("_", "-")

    @property
    def parameter(self) -> str:
        """The parameter of the address with what it is split by."""
        return f"by-{self.anchor}"

    @property
    def heading(self) -> str:
        """The section's title."""
        summary = self.title or question_of(self.question).summary
        return summary[:1].upper() + summary[1:]


@dataclass(frozen=True)
class Shown:
    """What a section shows.

    Attributes:
        answer: with at most `components.ROWS_SHOWN` rows, those that are shown.
        by: what it is split by.
        splits: what else it can be split by.
        total: how many rows there are to show.
        narrowed: whether filters of the address kept some rows only.
        beside: filters that these rows have no column for.
        filtered_by: filters that the question was narrowed by, so that it has no other rows at all.
        of_some: whether it is about some runs only, so that others have no row.
        instead: the text where there are no rows, not because of the filters.
        drawn: rows of the answer that figures are made of; None: those that are shown.
    """

    answer: Answer
    by: str
    splits: tuple[str, ...]
    total: int
    narrowed: bool
    beside: tuple[str, ...]
    filtered_by: tuple[str, ...] = ()
    of_some: bool = False
    instead: str = ""
    drawn: pl.DataFrame | None = None


def answered(  # noqa: PLR0917 - the gate has rules for functions by their positional arguments
    source: Reader,
    window: Window,
    name: str,
    question: Question,
    filters: Narrowed,
    runs: str = "",
    most: int = 0,
) -> Shown:
    """The answer of a question as a section shows it: only the rows that it shows are kept."""
    entry = question_of(name)
    by = question.by or (entry.default if question.run is None else entry.default_of_run)
    some = _some_runs(source, window, filters, runs, most) if by in entry.of_some_runs else None
    reader = source if some is None else of_runs(source, window, some.ids or [""])
    answer = entry(reader, window, replace(question, by=by))
    if some is not None and filters:  # others may have rows
        answer = replace(answer, when_empty=NO_ROW)
    splits = entry.by if question.run is None else entry.by_of_run or entry.by
    shown = shown_of(source, window, answer, by=by, splits=splits, filters=filters)
    own = some is not None and bool(dict(filters).get("user"))
    return replace(shown, filtered_by=("user",) if own else (), of_some=some is not None and some.left_out)


def shown_of(
    source: Reader, window: Window, answer: Answer, *, by: str, splits: tuple[str, ...], filters: Narrowed
) -> Shown:
    """What a section shows of an answer that is split by `by` and can be split by `splits`."""
    rows, beside = row_filters.narrow(source, window, answer.rows, by, filters)
    narrowed = len(beside) < len(filters)
    drawn = None if answer.drawn is None else rows.filter(answer.drawn)
    rows = rows if answer.drawn is None else rows.filter(~answer.drawn)
    if not narrowed:
        answer = _ranked(answer)
        rows = answer.shown
    rows = rows if answer.order is None else answer.order.sorted(rows)
    instead = _empty_text(answer, rows) if narrowed else ""
    if narrowed and answer.instead is not None and answer.worth_showing is not None:
        rows = rows.filter(answer.worth_showing)
    kept = replace(
        answer,
        rows=rows.head(components.ROWS_SHOWN),
        details=(),
        brief=None,
        worth_showing=None,
        drawn=None,
        instead=None,
        order=None,
    )
    return Shown(kept, by, splits, rows.height, narrowed, beside, instead=instead, drawn=drawn)


def _empty_text(answer: Answer, rows: pl.DataFrame) -> str:
    """The text where no row is worth showing, or where there is none even without filters."""
    if answer.rows.is_empty():
        return answer.when_empty
    if answer.instead is None or answer.worth_showing is None or rows.filter(answer.worth_showing).height:
        return ""
    return "\n".join(rows.select(answer.instead).to_series().unique(maintain_order=True))


def _ranked(answer: Answer) -> Answer:
    """The answer with a row for each subject, where it has a short form that pages show."""
    if answer.brief is None or not answer.brief.on_pages:
        return answer
    brief = answer.brief
    parts = answer.parts if brief.rows.columns == answer.rows.columns else {}
    notes = answer.notes if brief.notes is None else brief.notes
    return replace(answer, rows=brief.rows, columns=brief.columns, parts=parts, notes=notes, order=None)


class _RunSelection(NamedTuple):
    """Ids of the only runs that an answer is about, and whether the query that named them left others out."""

    ids: list[str]
    left_out: bool


def _some_runs(source: Reader, window: Window, filters: Narrowed, runs: str, most: int) -> _RunSelection | None:
    """Those of the chosen user; where nothing is chosen, of a query: all of them, or the first `most`."""
    user = dict(filters).get("user")
    if not user and (filters or not runs):
        return None
    # One more than needed shows whether there are more.
    name, parameters = ("runs_with_user", {"user": user}) if user else (runs, window.parameters | {"most": most + 1})
    parameters = parameters | {"cluster": window.cluster}
    ids = source.memo((name, *parameters.values()), lambda: source.query(name, **parameters))["run_id"].to_list()
    if user or not most:
        return _RunSelection(ids, left_out=not user)
    return _RunSelection(ids[:most], left_out=len(ids) > most)


def answer_of(spec: QuestionSpec, data: PageData, view: View) -> Shown:
    """The answer for an address.

    Raises:
        UsageError: the address splits it by something that it cannot be split by, or it has no answer.
    """
    by = view.get(spec.parameter, spec.by) or None
    run = view.get(spec.run) if spec.run else None
    question = Question(by=by, run=run or None, details=False, known=data.configured.now())
    entry = question_of(spec.question)
    if by is not None and by not in entry.splits:
        raise UsageError(f"{spec.parameter}: it cannot be split by {by!r}; there are: {', '.join(entry.splits)}")
    filters = tuple(each for each in row_filters.narrowed_by(view, spec.filters) if not (run and each[0] == "run"))
    shown = data.answers.ask(answered, window_of(spec, view), spec.question, question, filters, spec.runs, spec.most)
    if not spec.no_runs or shown.total or filters:
        return shown
    return replace(shown, answer=replace(shown.answer, when_empty=spec.no_runs))


def window_of(spec: QuestionSpec, view: View) -> Window:
    """The time that the question covers."""
    since = view.window.until - timedelta(days=spec.days) if spec.days else view.window.since
    return replace(view.window, since=max(since, view.window.since))


def section(spec: QuestionSpec) -> Section:
    """A question as a section of a page."""
    return Section(
        spec.anchor,
        spec.heading,
        lambda data, view: answer_of(spec, data, view),
        lambda shown, view: panel(spec, shown, view),
        span=spec.span,
        kept=True,
    )


def panel(spec: QuestionSpec, shown: Shown, view: View) -> Component:
    """The answer: headline, figure, table, notes."""
    answer = shown.answer
    has_sentence = (
        answer.headline and not shown.narrowed and not (answer.rows.is_empty() and answer.headline == answer.when_empty)
    )
    return components.panel(
        spec.heading,
        html.P(_linked(answer, shown.by, spec, view), className="answer") if has_sentence else None,
        _chooser(spec, shown),
        _figure(spec, shown, view),
        _table(spec, shown, view),
        _notes(spec, shown, view),
        note=_only_last_days(spec, view),
        right=html.Div([_definition_button(spec), components.export_button(f"ask-{spec.anchor}")], className="tools"),
    )


def _linked(answer: Answer, by: str, spec: QuestionSpec, view: View) -> list[Component | str]:
    """The sentence that answers, in which nodes and runs that the rows name are links."""
    sentence = wording.categories_in_words(answer.headline)
    found: dict[str, str] = {}
    for column in answer.rows.columns:
        if answer.rows.schema[column] == pl.String and linked(column, by, spec.leads):
            in_sentence = answer.rows.filter(_in_sentence(answer.rows[column], answer.headline))
            hrefs = addresses(in_sentence, column, by, view, spec.leads) or []
            found |= {
                name: href
                for name, href in zip(in_sentence[column], hrefs, strict=True)
                if href and href.startswith(("/node", "/run"))
            }
    if not found:
        return [sentence]
    names = "|".join(map(re.escape, sorted(found, key=len, reverse=True)))
    parts = re.split(rf"(?<![\w.-])({names})(?![\w-]|\.\w)", sentence)
    return [components.link(part, found[part]) if part in found else part for part in parts]


def _in_sentence(names: pl.Series, sentence: str) -> pl.Series:
    """Which names a sentence has: an answer may have thousands of rows, of which it names few."""
    named = (name is not None and name in sentence and _NAME.match(name) is not None for name in names)
    return pl.Series(list(named), dtype=pl.Boolean)


_NAME: Final = re.compile(r"(?=.*[A-Za-z])(?=.*[\d-])")
"""Names that are no plain words or numbers, which a sentence may have for other reasons."""


def _only_last_days(spec: QuestionSpec, view: View) -> Component | None:
    """That it is not about the whole period: above the answer, which would else be read as if it were."""
    if window_of(spec, view) == view.window:
        return None
    why = f"Only the last {spec.days} days of the period. Choose an earlier period to see earlier ones."
    return html.Span(why, className="stale")


def _chooser(spec: QuestionSpec, shown: Shown) -> Component | None:
    if len(shown.splits) < 2 or not spec.chosen:
        return None
    entry = question_of(spec.question)
    default = spec.by or (entry.default_of_run if spec.run else entry.default)
    labels = {each: wording.SPLITS.get(each, each.replace("_", " ")) for each in shown.splits}
    chooser = components.chooser(f"{spec.parameter}={default}", labels, shown.by, "Split by")
    return html.Div([html.Span("by", className="small"), chooser], className="chooser")


def _figure(spec: QuestionSpec, shown: Shown, view: View) -> Component | None:
    rows = shown.answer.rows if shown.drawn is None else shown.drawn
    if spec.figure is None or rows.is_empty():
        return None
    made = spec.figure(rows, shown.by)
    if made is None:
        return None
    if spec.undrawn is not None:
        drawn = components.figure(made, f"figure-{spec.anchor}", spec.heading)
        return html.Div([drawn, html.P(spec.undrawn(rows), className="small")])
    subject = next((each for each in (shown.by, "subject") if each in rows.columns), "")
    hrefs = addresses(rows, subject, shown.by, view, spec.leads) if subject else None
    leads = question_figures.lead_to(made, dict(zip(rows[subject], hrefs, strict=True)) if hrefs else {})
    return components.figure(made, f"figure-{spec.anchor}", spec.heading, leads=leads)


def _table(spec: QuestionSpec, shown: Shown, view: View) -> Component:
    answer = shown.answer
    if answer.rows.is_empty():
        return html.Div(_written(_why_empty(spec, shown, view), "nothing pre-line", view))
    rows = answer.rows.with_columns(answer.in_words)
    applied = [name for name, _ in row_filters.narrowed_by(view, spec.filters) if name not in shown.beside]
    about = "run" if spec.run else spec.about
    columns = _columns(answer, {row_filters.COLUMNS[name] for name in applied}, row_filters.COLUMNS.get(about, ""))
    first = phone_columns.FIRST.get(spec.question, ())
    table = answer_table(
        rows, columns, view, name=f"ask-{spec.anchor}", dimension=shown.by, leads=spec.leads, first=first
    )
    every = view.completed(command(spec, shown.by, view))
    more = f"The first {rows.height:,} of {shown.total:,} rows; all: {every}"
    return html.Div(
        [table, html.P(more, className="small") if shown.total > rows.height else None], className="grid-box"
    )


NO_ROW: Final = "No row matches the filters above."
"""Why a table is empty where a filter of the address keeps some rows only."""


def _why_empty(spec: QuestionSpec, shown: Shown, view: View) -> str:
    """Why there is no row."""
    if shown.instead or not shown.narrowed:
        return shown.instead or shown.answer.when_empty
    subject = _sole_subject(spec, shown, view)
    return f"No row is about {subject} in this period." if subject else NO_ROW


def _sole_subject(spec: QuestionSpec, shown: Shown, view: View) -> str:
    """What a page is about, where no filter above narrows the section besides; else empty."""
    applied = [name for name, _ in row_filters.narrowed_by(view, spec.filters) if name not in shown.beside]
    return view.get(spec.about) if applied == [spec.about] else ""


ACTION: Final = "action"
"""The column with what to do: a page has room for it even where a terminal has not."""

NOTE: Final = "note"
"""A column that is left out where it is empty in all rows."""


def _columns(answer: Answer, pinned: set[str], about: str = "") -> dict[str, tuple[str, str]]:
    """The columns of the table: what matters most and what to do first, without those whose value a filter fixes.

    The first one stays, since it names the subject of a row, unless the page is `about` that alone.
    """
    first, *others = (name for name in answer.columns if name not in answer.explained or name == ACTION)
    ranked = [name for name in (*answer.ranked, ACTION) if name in others]
    silent = {NOTE} if NOTE in answer.rows.columns and not answer.rows[NOTE].drop_nulls().len() else set()
    left_out = ((pinned | silent) - {first}) | {about}
    return {name: answer.columns[name] for name in dict.fromkeys((first, *ranked, *others)) if name not in left_out}


def _notes(spec: QuestionSpec, shown: Shown, view: View) -> Component | None:
    """The notes; commands can be copied."""
    notes: list[Component] = []
    for text, commands in _grouped(shown.answer.notes if spec.notes else ()):
        about = [each for each in commands if not shown.narrowed or _names(each, view)]
        if commands and not about:
            continue  # advice about what the filters leave out
        notes += _written(text, "small pre-line", view)
        notes += [components.code(view.completed(each)) for each in about]
    if notes and _left_out(spec, shown, view):
        subject = _sole_subject(spec, shown, view)
        others = f"not only those about {subject}" if subject else "also those that the filters leave out"
        notes.insert(0, html.P(f"These notes are about all rows, {others}:", className="small"))
    if shown.beside:
        named = ", ".join(row_filters.label(name) for name in shown.beside)
        notes.append(html.P(f"Not narrowed by: {named} (these rows do not have it).", className="stale"))
    if shown.by == "day" and not view.in_utc:
        notes.append(html.P("Each day is a day in UTC.", className="stale"))
    if spec.only and shown.of_some:
        notes.append(html.P(spec.only.format(most=f"{spec.most:,}"), className="small"))
    return html.Div(notes, className="notes") if notes else None


def _left_out(spec: QuestionSpec, shown: Shown, view: View) -> bool:
    """Whether filters above left out rows of the answer, which its notes are about, too."""
    if not shown.narrowed:
        return False
    names = {name for name, _ in row_filters.narrowed_by(view, spec.filters)}
    return bool(names - {*shown.beside, *shown.filtered_by})


def _written(text: str, class_name: str, view: View) -> list[Component]:
    """A text; its indented lines are to be copied, to a terminal or into a file."""
    made: list[Component] = []
    for to_copy, lines in groupby(text.split("\n"), key=lambda line: line.startswith("  ")):
        joined = "\n".join(lines)
        if to_copy:
            made.append(components.code(view.completed(dedent(joined))))
        else:
            made.append(html.P(mentions(joined, view.options, view.link), className=class_name))
    return made


def _grouped(notes: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Notes, each with the commands that follow it."""
    grouped: list[tuple[str, list[str]]] = []
    for each in notes:
        line = each.strip()
        typed = each.startswith("  ") and line.split(" ")[0] in {"scontrol", "trackside"}
        if typed and grouped:
            grouped[-1][1].append(line)
        else:
            grouped.append((line, []))
    return grouped


def _names(command: str, view: View) -> bool:
    """Whether a command is about what a filter of the address names."""
    words = command.replace("=", " ").split()
    return any(view.get(name) in words for name in FILTERS if view.get(name))


def _definition_button(spec: QuestionSpec) -> Component:
    made: Component = dmc.Button(
        "Definition",
        id={"type": "about", "name": spec.anchor},
        size="compact-xs",
        variant="default",
        **components.aria({"aria-label": f"Definition, SQL and command: {spec.heading}", "aria-haspopup": "dialog"}),
    )
    return made


def command(spec: QuestionSpec, by: str, view: View) -> str:
    """The command that prints the same."""
    import shlex  # noqa: PLC0415 - only here

    run = f" --run {shlex.quote(view.get(spec.run))}" if spec.run and view.get(spec.run) else ""
    window = window_of(spec, view)
    if window != view.window:
        options = f"--cluster {shlex.quote(window.cluster)} --since {iso(window.since)} --until {iso(window.until)}"
        return f"trackside show {spec.question} --by {by}{run} {options}"
    return f"trackside show {spec.question} --by {by}{run} {view.command}"


def page_of(
    path: str, name: str, questions: Sequence[QuestionSpec], *, icon: str, group: str, position: int, lead: str
) -> ExplorerPage:
    """A page that is nothing but questions.

    Args:
        path: its address.
        name: in the navigation.
        questions: its questions, from top to bottom.
        icon: in the navigation.
        group: heading of the navigation.
        position: in the navigation.
        lead: what it answers, in a sentence.
    """
    sections = [section(each) for each in questions]
    return ExplorerPage(
        path,
        name,
        icon,
        lambda _, __: None,
        lambda _, __: heading(name, lead),
        position=position,
        group=group,
        sections=lambda _: sections,
        narrowed_by=FILTERS,
        pickers=True,
        questions={each.anchor: each for each in questions},
    )


def heading(name: str, lead: str) -> Component:
    """The top of a page of questions."""
    return html.Div([html.H1(name), html.P(lead, className="lead")], className="page-head")
