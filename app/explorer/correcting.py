"""Making corrections in the page: a form for each kind, its effect before, the button that makes it."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import dash_mantine_components as dmc
from dash import ALL, MATCH, Dash, Input, Output, State, ctx, dcc, html, no_update

from app import clock, panics
from app.access import people
from app.access.guard import saw
from app.access.people import Role
from app.adjudicate.requests import (
    CauseRequest,
    NodeStateRequest,
    RunJoinRequest,
    Signature,
    WhichAttempts,
    WithdrawRequest,
)
from app.errors import UsageError
from app.explorer import components
from app.times import iso
from metrics.failures.classes import CLASSES
from queries.errors import LockedWarehouseError, WarehouseError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dash.development.base_component import Component

    from app.adjudicate.make import Done
    from app.adjudicate.requests import Request
    from app.explorer.filters import View
    from app.explorer.page import Addresses, PageData

STATES: Final = ("maintenance", "down", "drained", "in_service")

REFUSED: Final = "Only operators make corrections. Contact one of them, or the administrator of this Trackside."
OFF: Final = (
    "Corrections are off here: other machines reach this server, and it does not identify their users. "
    "On the machine itself: trackside adjudicate"
)


class Field(NamedTuple):
    """An input of a form: its label, an example, and the choices where there are few."""

    label: str
    example: str = ""
    choices: tuple[str, ...] = ()


class Form(NamedTuple):
    """A kind of correction: title, what it does, and its inputs by name."""

    title: str
    explanation: str
    fields: Mapping[str, Field]


_ATTEMPT: Final = {"job": Field("Job", "4711"), "attempt": Field("Attempt of the run", "2")}

FORMS: Final = {
    "cause": Form(
        "Cause of an interruption",
        "What ended an attempt: whose fault it was (class), the cause, and the node that caused it. "
        "What stays empty stays as it is.",
        {
            "run": Field("Run", "a run or job id"),
            **_ATTEMPT,
            "kind": Field("Class", choices=tuple(CLASSES)),
            "cause": Field("Cause", "nvlink"),
            "node": Field("Node", "one that the attempt had"),
        },
    ),
    "node_state": Form(
        "State of a node",
        "Agreed maintenance, for example, is excluded from what was lost to failures.",
        {
            "node": Field("Node", "as the scheduler calls it"),
            "since": Field("From (UTC)", "2026-10-05T08:00"),
            "until": Field("Until (UTC)", "2026-10-05T12:00"),
            "state": Field("State", choices=STATES),
        },
    ),
    "run_join": Form(
        "Attempts of a run",
        "A job that continued a run under another name joins it; one that only has its name is set apart.",
        {
            "run": Field("Run", "a run or job id"),
            **_ATTEMPT,
            "apart": Field("It is", choices=("part of the run", "a run of its own")),
        },
    ),
    "withdraw": Form(
        "Withdraw a correction",
        "The derived value counts again. The correction stays in the list, with who withdrew it and why.",
        {"id": Field("Correction")},
    ),
}
"""Forms by kind; the names of inputs are those of the requests, and of the address that fills them in."""


def correction_link(view: View, kind: str, text: str, **values: str) -> Component | None:
    """A link to the form of a kind of correction, filled in; None for whoever may not correct."""
    if people.current().role < Role.OPERATOR:
        return None
    named = {f"fix-{name}": value for name, value in values.items()}  # `since` and `until` are the page's own
    return components.link(text, view.link("/verdicts", fix=kind, **named) + "#correct")


def of_row(view: View, row: Mapping[str, Any]) -> Component | None:
    """The way to correct what a row of an answer is about: an interruption, or a node's state."""
    if row.get("run_id") and row.get("attempt_no") is not None and row.get("class"):
        named = {"run": str(row["run_id"]), "attempt": str(row["attempt_no"])}
        return correction_link(view, "cause", "Correct its cause", **named)
    if row.get("node") and row.get("state") and row.get("started_at"):
        times = {name: row.get(column) for name, column in (("since", "started_at"), ("until", "ended_at"))}
        named = {name: iso(each) for name, each in times.items() if isinstance(each, datetime)}
        return correction_link(view, "node_state", "Correct its state", node=str(row["node"]), **named)
    return None


def forms(ids: Sequence[str], view: View) -> Component:
    """The forms.

    Args:
        ids: corrections in force: those that can be withdrawn.
        view: the current view; `fix` and `fix-` with names of inputs in its address fill a form in.
    """
    chosen = view.get("fix", "cause")
    tabs = [kind for kind in FORMS if kind != "withdraw" or ids]
    made: Component = dmc.Tabs(
        [
            dmc.TabsList([dmc.TabsTab(FORMS[kind].title, value=kind) for kind in tabs]),
            *[dmc.TabsPanel(_form(kind, ids, view, filled=kind == chosen), value=kind) for kind in tabs],
        ],
        value=chosen if chosen in tabs else tabs[0],
    )
    return made


def _form(kind: str, ids: Sequence[str], view: View, *, filled: bool) -> Component:
    form = FORMS[kind]
    inputs = [
        _input(
            kind,
            name,
            field._replace(choices=tuple(ids)) if name == "id" else field,
            view.get(f"fix-{name}") if filled else "",
        )
        for name, field in form.fields.items()
    ]
    if not people.current().name:
        inputs.append(_input(kind, "author", Field("Your name", "A. Person"), ""))
    inputs.append(_input(kind, "reason", Field("Reason", "RMA 1234: NVLink"), ""))
    return html.Div(
        [
            html.P(form.explanation, className="small"),
            html.Div(inputs, className="fix-inputs"),
            dmc.Button("Show its effect", id={"type": "fix-effect", "kind": kind}, color=components.FILLED, size="sm"),
            html.P("Nothing is changed before you confirm.", className="small"),
            dcc.Loading(html.Div(id={"type": "fix-shown", "kind": kind}, **components.aria({"aria-live": "polite"}))),
        ],
        className="fix-form",
    )


def _input(kind: str, name: str, field: Field, value: str) -> Component:
    common = {"id": {"type": "fix", "kind": kind, "name": name}, "label": field.label, "size": "sm"}
    if field.choices:
        chosen = value if value in field.choices else None
        made: Component = dmc.Select(
            **common, data=[{"value": each, "label": each.replace("_", " ")} for each in field.choices],
            value=chosen, clearable=True,
        )  # fmt: skip
    else:
        made = dmc.TextInput(**common, value=value, placeholder=field.example)
    return made


def changes_of_each(titles: Mapping[str, str]) -> Component:
    """A button for each correction in force, which shows what the numbers are without it.

    Args:
        titles: id -> what was corrected.
    """
    items = [
        html.Li(
            [
                html.Div([html.B(number), html.Span(title)], className="blame-head"),
                dmc.Button(
                    "Numbers without it",
                    id={"type": "fix-without", "id": number},
                    size="compact-xs",
                    variant="default",
                    **components.aria({"aria-label": f"Numbers without {number}"}),
                ),
                dcc.Loading(
                    html.Div(id={"type": "fix-lacking", "id": number}, **components.aria({"aria-live": "polite"}))
                ),
            ]
        )
        for number, title in titles.items()
    ]
    return html.Ul(items, className="blame tasks")


# From what a page sends to a request ------------------------------------------------------------------------------


def request_of(kind: str, cluster: str, values: Mapping[str, str]) -> Request:
    """The request of a filled form.

    Raises:
        UsageError: an input that is needed is empty, or no number.
    """
    given = {name: text.strip() for name, text in values.items() if text and text.strip()}
    if kind == "withdraw":
        return WithdrawRequest(_needed(given, kind, "id"))
    if kind == "node_state":
        needed = {name: _needed(given, kind, name) for name in ("node", "since", "until", "state")}
        return NodeStateRequest(**needed, cluster=cluster)
    which = WhichAttempts(job=given.get("job"), attempt=_number(given))
    if kind == "run_join":
        apart = given.get("apart") == "a run of its own"
        return RunJoinRequest(_needed(given, kind, "run"), which, apart=apart, cluster=cluster)
    if kind != "cause":
        raise UsageError(f"there is no correction of the kind {kind!r}")
    return CauseRequest(
        cluster, given.get("run"), which, kind=given.get("kind"), cause=given.get("cause"), node=given.get("node")
    )


def _needed(given: Mapping[str, str], kind: str, name: str) -> str:
    if name not in given:
        raise UsageError(f"{FORMS[kind].fields[name].label} is missing")
    return given[name]


def _number(given: Mapping[str, str]) -> int | None:
    text = given.get("attempt")
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise UsageError(f"Attempt of the run: {text!r} is no number")
    return int(text)


def in_page_words(text: str) -> str:
    """A refusal of the command line in the words of the form.

    >>> in_page_words("the correction is missing: --class, --cause or --node (one of them, or several)")
    'the correction is missing: Class, Cause or Node (one of them, or several)'
    """
    words = {"--author": "Your name", "--submitted": "trackside adjudicate --submitted", "--from": "From"}
    return re.sub(r"--([a-z]+)", lambda found: words.get(found[0], found[1].capitalize()), text)


# What the callbacks answer ----------------------------------------------------------------------------------------


def effect(data: Addresses, search: str, kind: str, values: Mapping[str, str]) -> Component:
    """The effect of a correction with the button that makes it, or why there is none."""
    saw("correction-effect", kind=kind, values=", ".join(f"{name}={text}" for name, text in sorted(values.items())))
    if refusal := _refusal(data):
        return _refused(refusal)
    assert data.corrector is not None  # noqa: S101 - for the type checker: `_refusal` has looked
    person = people.current()
    try:
        with panics.as_errors():
            request = request_of(kind, data.view(search).window.cluster, values)
            signature = Signature(person.name or values.get("author"), values.get("reason"))
            word, done = data.corrector.effect(request, signature, to=person.name, now=clock.now())
    except (UsageError, WarehouseError) as error:
        return _refused(in_page_words(str(error)))
    if not done.changed:
        return html.P(done.message, className="note")
    confirm = dmc.Button(
        "Make this correction", id={"type": "fix-make", "kind": kind}, color=components.FILLED_WARNING, size="sm"
    )
    return html.Div(
        [
            html.H3("What it would change"),
            _effect(done),
            html.Div([confirm, dcc.Store(id={"type": "fix-word", "kind": kind}, data=word)]),
            html.Div(id={"type": "fix-done", "kind": kind}, **components.aria({"aria-live": "polite"})),
        ]
    )


SEEN_ONLY: Final = Signature("whoever looks", "to see the numbers without it; nothing is stored")
"""Who withdraws a correction on a copy that is thrown away."""


def lacking(data: PageData, number: str) -> Component:
    """What the numbers are without a correction: each as it is, and as it were. Nothing is changed."""
    saw("correction-effect", kind="withdraw", values=f"id={number}")
    if refusal := _refusal(data):
        return _refused(refusal)
    assert data.corrector is not None  # noqa: S101 - for the type checker: `_refusal` has looked
    try:
        with panics.as_errors():
            _, done = data.corrector.tried(WithdrawRequest(number), SEEN_ONLY, now=clock.now())
    except (UsageError, WarehouseError) as error:
        return _refused(in_page_words(str(error)))
    return html.Div([html.P("As it is -> without this correction:", className="small"), _changes(done)])


def make(data: PageData, kind: str, word: str) -> Component:
    """Make a correction whose effect was shown; what was done, or why not."""
    if refusal := _refusal(data):
        saw("correction-refused", kind=kind)
        return _refused(refusal)
    assert data.corrector is not None  # noqa: S101 - for the type checker: `_refusal` has looked
    try:
        with panics.as_errors():
            done = data.corrector.make(word, to=people.current().name, now=clock.now())
    except LockedWarehouseError as error:
        saw("correction-failed", kind=kind, why=str(error))
        return _refused(f"The warehouse is being written just now; nothing was changed. Try again. {error}")
    except (UsageError, WarehouseError) as error:
        saw("correction-failed", kind=kind, why=str(error))
        return _refused(in_page_words(str(error)))
    saw("correct", kind=kind, id=done.correction.id, what=done.message)
    return html.Div(
        [
            html.H3("Done"),
            _effect(done),
            html.P(
                "The pages show the new numbers when they are loaded again: New data, at the top.", className="small"
            ),
        ]
    )


def _refusal(data: PageData) -> str:
    """Why the current viewer may not correct; empty where they may."""
    if people.current().role < Role.OPERATOR:
        return REFUSED
    return OFF if data.corrector is None else ""


def _refused(why: str) -> Component:
    return html.P(why, className="nothing error-text", role="alert")


def _effect(done: Done) -> Component:
    return html.Div([html.P(done.message), _changes(done)])


def _changes(done: Done) -> Component:
    if done.effect is None:
        return html.P("Nothing was computed with it.", className="small")
    if not done.effect:
        return html.P("It changes no verdict, no number, no GPU-time and no interruption.", className="note")
    return html.Ul([html.Li(each) for each in done.effect], className="fix-effects")


def register(made: Dash, explorer: Addresses) -> None:
    """Register the callbacks."""

    @made.callback(
        Output({"type": "fix-shown", "kind": MATCH}, "children"),
        Input({"type": "fix-effect", "kind": MATCH}, "n_clicks"),
        State({"type": "fix", "kind": MATCH, "name": ALL}, "value"),
        State({"type": "fix", "kind": MATCH, "name": ALL}, "id"),
        State("url", "search"),
        running=[(Output({"type": "fix-effect", "kind": MATCH}, "disabled"), True, False)],
        prevent_initial_call=True,
    )
    def show(clicks: int | None, texts: list[Any], ids: list[dict[str, str]], search: str | None) -> Any:
        if not clicks or not isinstance(ctx.triggered_id, dict):
            return no_update
        values = {each["name"]: str(text or "") for each, text in zip(ids, texts, strict=True)}
        return components.readable(effect(explorer, search or "", str(ctx.triggered_id["kind"]), values))

    @made.callback(
        Output({"type": "fix-done", "kind": MATCH}, "children"),
        Input({"type": "fix-make", "kind": MATCH}, "n_clicks"),
        State({"type": "fix-word", "kind": MATCH}, "data"),
        running=[(Output({"type": "fix-make", "kind": MATCH}, "disabled"), True, False)],
        prevent_initial_call=True,
    )
    def confirm(clicks: int | None, word: str | None) -> Any:
        if not clicks or not isinstance(ctx.triggered_id, dict):
            return no_update
        return components.readable(make(explorer, str(ctx.triggered_id["kind"]), str(word or "")))

    @made.callback(
        Output({"type": "fix-lacking", "id": MATCH}, "children"),
        Input({"type": "fix-without", "id": MATCH}, "n_clicks"),
        running=[(Output({"type": "fix-without", "id": MATCH}, "disabled"), True, False)],
        prevent_initial_call=True,
    )
    def show_lacking(clicks: int | None) -> Any:
        if not clicks or not isinstance(ctx.triggered_id, dict):
            return no_update
        return components.readable(lacking(explorer, str(ctx.triggered_id["id"])))
