"""The Dash application: from an address to a page, and what reacts to clicks."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final

from dash import ALL, MATCH, ClientsideFunction, Dash, Input, Output, State, ctx, html, no_update

from app import panics
from app.access import people
from app.access.guard import saw
from app.access.protect import protect
from app.adjudicate.trial import Corrector
from app.claims.watched import WatchedClaims
from app.config.watched import WatchedConfig
from app.errors import UsageError
from app.explorer import (
    commands,
    components,
    correcting,
    gate,
    grafana,
    loading,
    messages,
    open_pages,
    row_filters,
    sections,
    security,
    shell,
    zooming,
)
from app.explorer import filters as view
from app.explorer.drawers import drawer, explaining
from app.explorer.filters import NothingYetError
from app.explorer.one_run import log_pages
from app.explorer.page import pages
from app.explorer.pages import manual, overview
from app.explorer.pages import sql as sql_page
from app.results.constants import computed_constants
from app.results.serving.cache import AnswerCache
from app.visible import visible
from queries.errors import NoWarehouseError, WarehouseError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dash.development.base_component import Component

    from app.config.settings import Config
    from app.explorer.filters import View


INDEX = """<!DOCTYPE html>
<html lang="en">
<head>
{%metas%}
<title>{%title%}</title>
{%favicon%}
<script src="SCHEME"></script>
{%css%}
</head>
<body>
{%app_entry%}
<noscript>The explorer needs JavaScript. `trackside show goodput` and `trackside report` do not.</noscript>
<footer>{%config%}{%scripts%}{%renderer%}</footer>
</body>
</html>
"""


class _Application(Dash):
    """Dash without the script of its old table, which no page uses."""

    def _generate_scripts_html(self) -> str:
        return _OLD_TABLE.sub("", super()._generate_scripts_html())


_OLD_TABLE: Final = re.compile(r'<script src="[^"]*/dash_table/[^"]*"></script>')


def create_app(
    root: Path,
    settings: Config,
    claims: WatchedClaims | None = None,
    answers: AnswerCache | None = None,
    *,
    configured: WatchedConfig | None = None,
    trusted: bool = False,
) -> Dash:
    """The explorer on a warehouse directory, as a Dash application whose `server` any WSGI server serves.

    Args:
        root: the warehouse directory; it need not exist yet.
        settings: which claims to judge, and prices; its file is read again when it has changed.
        claims: the same, where the exporter judges them too; read from their file if None.
        answers: the cache of that directory, where the exporter uses it too; a new one if None.
        configured: prices and references, where others use them too; read from the file of `settings` if None.
        trusted: whether its visitors are known, or on this machine: operators may then run SELECTs and correct.

    Raises:
        ClaimsError: the claims file cannot be used.
        ConfigError: a file with a secret of the login cannot be read.
        UsageError: the audit log cannot be written.
    """
    made = _Application(
        __name__,
        assets_ignore=r"scheme\.js",  # it is in the head, before anything is drawn
        title="Trackside",
        update_title="",
        serve_locally=True,
        suppress_callback_exceptions=True,
        meta_tags=[
            {"name": "viewport", "content": "width=device-width, initial-scale=1"},
            {"name": "color-scheme", "content": "light dark"},
        ],
        add_log_handler=False,
        enable_mcp=False,
    )
    made.index_string = INDEX.replace("SCHEME", made.get_asset_url("scheme.js"))
    made.layout = shell.layout(made.get_asset_url("favicon.svg"))
    explorer = Explorer(
        AnswerCache(root) if answers is None else answers,
        claims or WatchedClaims(settings.claims),
        sql=trusted,
        corrector=Corrector(root, settings) if trusted else None,
        grafana=settings.grafana.url,
        configured=configured or WatchedConfig(settings),
        options=commands.options_of(root, settings) if trusted else "",
        rules=settings.rules.model_dump_json(),
    )
    _pages(made, explorer)
    _reactions(made, explorer)
    loading.register(made, explorer)
    explaining.register(made, explorer)
    sql_page.register(made, explorer)
    correcting.register(made, explorer)
    zooming.register(made, explorer)
    security.protect(made, encrypted=settings.access.url.startswith("https://"))
    protect(made.server, settings.access, root)
    loading.keep(made, explorer)
    return made


class Explorer:
    """Addresses to pages.

    Args:
        answers: the published warehouse.
        claims: the claims to judge.
        sql: whether its visitors may run their own SELECTs.
        corrector: what makes their corrections; None where they may make none.
        grafana: the address of Grafana, if pages link to its boards.
        configured: prices and references; those of the defaults if None.
        options: what commands need to read the same warehouse by the same configuration (`commands.options_of`).
        rules: of the configuration, as JSON: by these logs are read.
    """

    def __init__(
        self,
        answers: AnswerCache,
        claims: WatchedClaims,
        *,
        sql: bool = False,
        corrector: Corrector | None = None,
        grafana: str | None = None,
        configured: WatchedConfig | None = None,
        options: str = "",
        rules: str = "{}",
    ) -> None:
        self.rules = rules
        self._answers = answers
        self.claims = claims
        self._sql = sql
        self._corrector = corrector
        self.grafana = grafana
        self.configured = configured or WatchedConfig()
        self._options = options

    @property
    def answers(self) -> AnswerCache:
        """The answers that the current viewer may see."""
        return gate.answers_for(self._answers)

    @property
    def options(self) -> str:
        """What commands of pages need, for the current viewer: viewers see no paths of the server."""
        return self._options if people.current().role >= people.Role.OPERATOR else ""

    @property
    def allows_sql(self) -> bool:
        """Whether the current viewer may run their own SELECTs."""
        return self._sql and people.current().sees_all

    @property
    def corrector(self) -> Corrector | None:
        """What makes corrections, if the current viewer may make them."""
        return self._corrector if people.current().role >= people.Role.OPERATOR else None

    @panics.as_errors()
    def view(self, search: str | None) -> View:
        """The checked address.

        Raises:
            NothingYetError: nothing was computed yet.
            UsageError: the address names something that does not exist.
        """
        situation = self.answers.ask(view.situation)
        if not situation.computed:
            raise NothingYetError(situation)
        return replace(view.resolve(situation, view.parameters(search)), options=self.options)

    def waits(self) -> bool:
        """Nothing is computed yet."""
        try:
            return not self.answers.ask(view.situation).computed
        except WarehouseError:
            return True

    @panics.as_errors()
    def about(self, metric: str, shown: View) -> tuple[str, Component]:
        """Title and contents of the drawer of a headline number."""
        data = self.answers.ask(overview.gather, shown.window, self.claims.now(), shown.requested)
        headline = overview.headline_of(data, metric)
        judged = [each for each in data.judged if each.claim.metric == metric]
        used = self.answers.ask(computed_constants, shown.window.cluster)
        return headline.title, drawer.layout(headline, judged, used, shown)


@panics.as_errors()
def page(
    explorer: Explorer, path: str | None, search: str | None, *, at_once: bool = True, page_url: str = ""
) -> tuple[Component, Component | None, Component, str]:
    """Navigation, filters, contents and title of an address. An error becomes the contents.

    Args:
        explorer: its data.
        path: the page.
        search: the address's parameters.
        at_once: whether sections are there; else the browser requests each.
        page_url: the whole address, as the browser has it.
    """
    navigation, filters, contents, title = _page(explorer, path, search, at_once=at_once, page_url=page_url)
    return components.readable(navigation), components.readable(filters), components.readable(contents), visible(title)


def _page(
    explorer: Explorer, path: str | None, search: str | None, *, at_once: bool, page_url: str
) -> tuple[Component, Component | None, Component, str]:
    path = (path or "/").rstrip("/") or "/"
    if path == manual.PATH or path.startswith(f"{manual.PATH}/"):
        return _manual(explorer, path, search)
    pages_by_path = pages()
    if path not in pages_by_path:
        return shell.navigation(path, None), None, messages.not_found(path), "Not found · Trackside"
    each = pages_by_path[path]
    title = f"{each.name} · Trackside"
    closed = None if open_pages.is_open(path) else messages.cannot(gate.NotYoursError(), "/")
    instead = closed or _by_logs(explorer, path, search)
    if instead is not None:
        return shell.navigation(path, None), None, instead, title
    try:
        shown = each.view(explorer, search)
    except (NoWarehouseError, NothingYetError) as error:
        contents = messages.nothing_yet(error, explorer.options) if each.without_data is None else each.without_data()
        return shell.navigation(path, None), None, contents, title
    except (UsageError, WarehouseError) as error:
        return shell.navigation(path, None), None, messages.cannot(error, path), title
    choices = explorer.answers.ask(row_filters.choices, shown.window) if each.pickers else {}
    to_grafana = grafana.link(explorer.grafana, path, shown, page_url)
    filters = shell.filters(shown, each, choices, to_grafana, page_url=page_url) if each.filters else None
    try:
        gathered = each.gather(explorer, shown)
        contents = each.layout(gathered, shown)
        if each.sections is None:
            pass
        elif each.alone(gathered, shown):
            contents = sections.none(contents)
        elif at_once:
            contents = sections.at_once(contents, each, explorer, shown)
        else:
            contents = sections.waiting(contents, each, shown, search or "")
    except (UsageError, WarehouseError) as error:
        contents = messages.cannot(error, path)
    return shell.navigation(path, shown), filters, contents, f"{each.name} · {shown.window.cluster} · Trackside"


def _by_logs(explorer: Explorer, path: str, search: str | None) -> Component | None:
    """What an address shows of runs with logs only."""
    try:
        return log_pages.instead(explorer, path, search, computed=not explorer.waits())
    except UsageError as error:
        return messages.cannot(error, path)
    except WarehouseError:  # the page itself shows what is wrong with the warehouse
        return None


def _manual(explorer: Explorer, path: str, search: str | None) -> tuple[Component, Component | None, Component, str]:
    """A page of the manual: it needs no data, and its links keep the cluster and period where there are some."""
    try:
        shown = explorer.view(search)
    except (UsageError, WarehouseError, NothingYetError):
        shown = None
    title, contents = manual.layout(path, shown.link if shown is not None else str)
    return shell.navigation(manual.PATH, shown), None, contents, f"{title} · Trackside"


def _pages(made: Dash, explorer: Explorer) -> None:
    """Register the callbacks that turn an address into a page, and that check for newer data."""

    def failed(error: Exception) -> tuple[Any, ...]:
        return no_update, None, messages.broken(error), "Trackside", no_update, no_update

    @made.callback(
        Output("nav", "children"),
        Output("filters", "children"),
        Output("content", "children"),
        Output("page-title", "data"),
        Output("version", "data"),
        Output("refresh", "style"),
        Input("url", "pathname"),
        Input("url", "search"),
        Input("refresh", "n_clicks"),
        State("url", "href"),
        on_error=failed,
    )
    def show(path: str | None, search: str | None, _: int | None, page_url: str | None) -> tuple[Any, ...]:
        saw("see", path=path or "/", search=search or "")
        shown = {"version": explorer.answers.version(), "waits": explorer.waits()}
        with explorer.answers.pool.on_behalf(sections.new_ticket()):
            return *page(explorer, path, search, at_once=False, page_url=page_url or ""), shown, {"display": "none"}

    @made.callback(
        Output("refresh", "style", allow_duplicate=True),
        Output("refresh", "n_clicks"),
        Input("poll", "n_intervals"),
        State("version", "data"),
        State("refresh", "n_clicks"),
        prevent_initial_call=True,
        on_error=lambda _: (no_update, no_update),
    )
    def check_for_newer(_: int | None, shown: dict[str, Any] | None, clicks: int | None) -> tuple[Any, Any]:
        if shown is None or explorer.answers.version() == shown["version"]:
            return no_update, no_update
        if shown["waits"]:  # there was no number yet to read: show the new ones
            return no_update, (clicks or 0) + 1
        return {}, no_update


def _reactions(made: Dash, explorer: Explorer) -> None:
    """Register the callbacks of filters, the drawer, exports, and the automatic ones."""

    @made.callback(
        Output("url", "search"),
        Input({"type": "filter", "name": ALL}, "value"),
        State("url", "search"),
        prevent_initial_call=True,
        on_error=lambda _: no_update,
    )
    def narrow(_: list[Any], search: str | None) -> Any:
        params = view.parameters(search)
        params.pop(shell.VERSION, None)  # it is of the copied address, and not of the next one
        changed_params = dict(params)
        try:
            shown = explorer.view(search)
        except (UsageError, WarehouseError, NothingYetError):
            return no_update
        named = ctx.triggered_prop_ids
        for change in ctx.triggered:
            changed_params = with_filter(shown, changed_params, named[change["prop_id"]]["name"], change["value"])
        return no_update if changed_params == params else view.address("", changed_params) or "?"

    @made.callback(
        Output("drawer", "opened"),
        Output("drawer", "title"),
        Output("drawer", "children"),
        Input({"type": "headline", "metric": ALL}, "n_clicks"),
        State("url", "search"),
        prevent_initial_call=True,
        on_error=lambda error: (True, "Something went wrong", messages.broken(error)),
    )
    def explain(clicks: list[int | None], search: str | None) -> tuple[Any, ...]:
        if not any(clicks) or not isinstance(ctx.triggered_id, dict):
            return no_update, no_update, no_update
        saw("see", number=str(ctx.triggered_id["metric"]), search=search or "")
        try:
            title, contents = explorer.about(ctx.triggered_id["metric"], explorer.view(search))
            title, contents = visible(title), components.readable(contents)
        except (UsageError, WarehouseError, NothingYetError) as error:
            return True, "This cannot be shown", html.P(str(error))
        return True, title, contents

    made.clientside_callback(
        ClientsideFunction("trackside", "csv"),
        Output({"type": "grid", "name": MATCH}, "exportDataAsCsv"),
        Input({"type": "export", "name": MATCH}, "n_clicks"),
        prevent_initial_call=True,
    )
    made.clientside_callback(
        ClientsideFunction("trackside", "navbar"),
        Output("shell", "navbar"),
        Input("burger", "opened"),
        State("shell", "navbar"),
    )
    made.clientside_callback(
        ClientsideFunction("trackside", "arrived"),
        Input("page-title", "data"),
        Input("url", "hash"),
    )
    made.clientside_callback(
        ClientsideFunction("trackside", "shut"), Output("burger", "opened"), Input("url", "pathname")
    )
    made.clientside_callback(
        ClientsideFunction("trackside", "follow"),
        Input({"type": "leads", "name": ALL}, "clickData"),
        prevent_initial_call=True,
    )


_DEFAULTS = {"by": "cause", "class": "infrastructure", "sort": "gpus"}
"""Parameters of single pages with what they are where the address does not say."""


def with_filter(shown: View, params: Mapping[str, str], name: str, value: Any) -> dict[str, str]:
    """Parameters of an address after a filter was changed.

    Args:
        shown: the current view. A filter with the same value changes nothing.
        params: the address's parameters so far.
        name: the filter: a parameter, or `period` or `dates`, which set since and until. `NAME=DEFAULT` is a parameter
            with the value that stands for its absence: a control says its value when it appears, too, and a page that
            appears must not change its own address.
        value: the chosen value; none, or the default, leaves the parameter out.
    """
    name, _, default = name.partition("=")
    default = default or _DEFAULTS.get(name, "")
    others = {key: each for key, each in params.items() if key not in {"since", "until"}}
    if name == "period":
        offered = view.periods(shown.state, shown.zone)
        return others | offered[value][1] if value in offered else dict(params)
    if name == "dates":
        dates = [str(day)[:10] for day in value or [] if day]
        if len(dates) < 2 or dates == view.days(shown.window, shown.zone):
            return dict(params)
        until = date.fromisoformat(dates[1]) + timedelta(days=1)
        return others | {"since": dates[0], "until": until.isoformat()}
    if name == "cluster":
        kept = {key: each for key, each in params.items() if key == "zone"}
        return {"cluster": str(value)} | kept if value and value != shown.window.cluster else dict(params)
    if (value or default or "") == (params.get(name) or default):
        return dict(params)
    made = {key: each for key, each in params.items() if key not in {name, "skip"}}
    if value and value != default:
        made[name] = str(value)
    return made
