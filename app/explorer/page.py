"""A page of the explorer: one file in `app.explorer.pages` with a `PAGE`, collected for application and navigation."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from app.explorer import pages as package

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dash.development.base_component import Component

    from app.adjudicate.trial import Corrector
    from app.claims.watched import WatchedClaims
    from app.config.watched import WatchedConfig
    from app.explorer.filters import View
    from app.results.serving.cache import AnswerCache


class PageData(Protocol):
    """What a page takes its data from."""

    claims: WatchedClaims
    configured: WatchedConfig

    @property
    def answers(self) -> AnswerCache:
        """The answers that the current viewer may see."""

    @property
    def allows_sql(self) -> bool:
        """Whether the current viewer may run their own SELECTs."""

    @property
    def corrector(self) -> Corrector | None:
        """What makes corrections, if the current viewer may make them."""


class Addresses(PageData, Protocol):
    """What checks addresses, with the data behind them."""

    def view(self, search: str | None) -> View:
        """The checked address."""


@dataclass(frozen=True)
class Section:
    """A part of a page that is loaded and shown by itself: a slow one delays no other, and can be stopped.

    Attributes:
        name: its anchor, one of its page.
        title: its name while it loads, and where it failed.
        gather: from the answers and a checked address to what the section shows.
        layout: from that to its contents.
        span: columns of twelve that it takes on a wide screen.
        height: pixels that are kept free until it is there.
        kept: whether it follows from data version, address, person, and prices and references alone, so that it can be
            sent again as it was: not what looks at a clock or at the claims, whose file may change.
    """

    name: str
    title: str
    gather: Callable[[PageData, View], Any]
    layout: Callable[[Any, View], Component]
    span: int = 12
    height: int = 220
    kept: bool = False


@dataclass(frozen=True)
class ExplorerPage:
    """A page.

    Attributes:
        path: its address, such as `/runs`.
        name: in the navigation and in the browser's title.
        icon: in the navigation, one of `components.icon`; None leaves the page out of it.
        gather: from the answers and a checked address to what the page shows.
        layout: from that to its contents; of a page with sections, what stands above them.
        position: in the navigation; smaller is higher, then by path.
        filters: whether it is about a cluster and a period that can be chosen.
        without_data: its contents where nothing is computed yet; None shows how to begin.
        parent: path of the page that the navigation marks instead of one that it leaves out.
        find: the view for an address that does not name its cluster; None takes the first cluster.
        sections: what it shows part by part, by its address; None: all of it comes from `layout`.
        alone: whether `layout` is all that there is to show of what was gathered: its sections would have nothing.
        group: heading of the navigation that it stands under.
        narrowed_by: parameters of the address that narrow its rows, besides those of a cluster and period.
        pickers: whether users, accounts, partitions, GPU models and schedulers can be chosen above it.
        questions: its sections that are questions of `trackside show`, by name, each a `QuestionSpec`: drawers explain
            them.
    """

    path: str
    name: str
    icon: str | None
    gather: Callable[[PageData, View], Any]
    layout: Callable[[Any, View], Component]
    position: int = 50
    filters: bool = True
    without_data: Callable[[], Component] | None = None
    parent: str | None = None
    find: Callable[[PageData, View], View] | None = None
    sections: Callable[[View], Sequence[Section]] | None = None
    alone: Callable[[Any, View], bool] = lambda *_: False
    group: str = ""
    narrowed_by: tuple[str, ...] = ()
    pickers: bool = False
    questions: Mapping[str, Any] = field(default_factory=dict)

    def view(self, explorer: Addresses, search: str | None) -> View:
        """The checked address of this page, of the cluster that it means where it names none.

        Raises:
            NothingYetError: nothing was computed yet.
            UsageError: the address names something that does not exist.
        """
        view = explorer.view(search)
        return view if self.find is None else self.find(explorer, view)


def pages() -> dict[str, ExplorerPage]:
    """Every page by its path, in the order of the navigation."""
    modules = (import_module(f"{package.__name__}.{module.name}") for module in pkgutil.iter_modules(package.__path__))
    every: list[ExplorerPage] = [module.PAGE for module in modules]
    return {page.path: page for page in sorted(every, key=lambda page: (page.position, page.path))}
