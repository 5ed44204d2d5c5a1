"""Pages with a message in place of data."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from dash import html

from app.explorer import commands, components
from app.explorer import filters as view
from app.explorer.filters import NothingYetError
from app.explorer.one_run import log_pages

if TYPE_CHECKING:
    from dash.development.base_component import Component

logger = logging.getLogger("trackside.explorer")


def not_found(path: str) -> Component:
    """There is no such page."""
    return components.message(
        "This page does not exist",
        html.P(["Nothing is at ", html.Code(path), "."]),
        html.P(components.link("Go to the overview", "/", class_name="button")),
    )


def cannot(error: Exception, path: str) -> Component:
    """The address requests something that cannot be shown."""
    return components.message(
        "This cannot be shown",
        html.P(str(error), className="error-text"),
        html.P(components.link("Start over without filters", LISTS.get(path, path), class_name="button")),
        kind="error",
    )


LISTS: Final = {"/run": "/", "/node": "/nodes"}
"""Where one starts over from a page that is of one thing, which its address must name."""


def nothing_yet(error: Exception, options: str) -> Component:
    """How to begin, by what is loaded; `options` as in `commands.completed`."""

    def code(text: str) -> Component:
        return components.code(commands.completed(text, options))

    situation = error.situation if isinstance(error, NothingYetError) else view.Situation()
    if situation.clusters and not situation.any_attempts:
        return components.message(
            "No accounting is loaded",
            html.P(
                f"Loaded of {', '.join(situation.clusters)}: run logs, telemetry or lists of nodes. The numbers of "
                "these pages also need accounting: which job held which GPUs. Where Slurm's commands work:"
            ),
            code("trackside ingest slurm\ntrackside compute"),
            html.P("On Kubernetes:"),
            code("trackside ingest kubernetes\ntrackside compute"),
            html.P(["Run logs need neither: ", components.link("the runs of logs", log_pages.LIST), "."]),
        )
    if situation.clusters:
        return components.message(
            "The data are loaded, but nothing is computed yet",
            html.P(
                f"Loaded clusters: {', '.join(situation.clusters)}. One command computes the ledger and the numbers:"
            ),
            code("trackside compute"),
            html.P(
                "This page shows them as soon as they exist. Kubernetes is observed from one reading to the next, so "
                "without Slurm's accounting it is read twice first.",
                className="small",
            ),
        )
    return components.message(
        "There are no data yet",
        html.P("Where Slurm's commands work, two commands read the last 30 days and compute the numbers:"),
        code("trackside ingest slurm\ntrackside compute"),
        html.P("To try it on a simulated cluster first:"),
        code("trackside demo"),
        html.P("This page shows the numbers as soon as they exist.", className="small"),
    )


def broken(error: Exception) -> Component:
    """The contents in place of a page that failed unexpectedly."""
    logger.error("a page failed", exc_info=error)
    return components.message(
        "Something went wrong here",
        html.P("It is a fault of Trackside; the log of the server has the details. The other pages still work."),
        html.P(f"{type(error).__name__}: {str(error)[:300]}", className="error-text"),
        html.P(components.link("Go to the overview", "/", class_name="button")),
        kind="error",
    )
