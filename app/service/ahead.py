"""Pages computed before they are requested: when the server starts, and whenever newer data are published.

Their answers read the ledger, which takes seconds for a year of a large cluster. Answers are cached until newer data
are published, so the first visitor of the morning does not wait for the first pages, nor a later one for a page that
somebody opened during the last day. scipy is imported in the same thread: the import takes seconds, and the first pages
do not need it.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from app import panics
from app.explorer import filters
from app.explorer.application import Explorer
from app.explorer.page import pages
from app.explorer.sections import new_ticket, sections_of
from app.faults import FAULTS, reason_of
from metrics import lazy_scipy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.claims.watched import WatchedClaims
    from app.config.watched import WatchedConfig
    from app.explorer.filters import View
    from app.explorer.page import Section
    from app.results.serving.cache import AnswerCache

logger = logging.getLogger("trackside.ahead")

PATHS: Final = ("/", "/today")
"""Pages that people open first."""

CLUSTERS: Final = 8
"""Clusters whose pages are computed ahead; the pages of further clusters are computed when they are requested."""

VISITED_S: Final = 60.0
"""Time that the pages opened lately may take together; what is left then is computed when it is requested."""

TICK_S: Final = 5.0
"""Time between two checks for newer data."""

PATIENCE_S: Final = 20.0
"""How long a stop waits for a query that is running."""


class Ahead:
    """A thread that runs the queries of the first pages, over all data of each cluster, and of those opened lately.

    Args:
        answers: the explorer's cache.
        claims: the claims that it judges.
        configured: its prices and references; those of the defaults if None.
    """

    def __init__(self, answers: AnswerCache, claims: WatchedClaims, configured: WatchedConfig | None = None) -> None:
        self._explorer = Explorer(answers, claims, configured=configured)
        self._answered = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trackside-ahead", daemon=True)

    def start(self) -> None:
        """Begin with a look at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop between two questions."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE_S)

    def look(self) -> None:
        """Answer these pages, if newer data were published since the last look."""
        version = self._explorer.answers.version()
        if not version or version == self._answered:
            return
        self._answered = version
        for section, view in self._of_first_pages():
            if self._stop.is_set():
                return
            self._answer(section, view)
        until = time.monotonic() + VISITED_S
        for section, view in self._of_visits():
            if self._stop.is_set() or time.monotonic() > until or self._explorer.answers.version() != version:
                return
            self._answer(section, view)

    def _answer(self, section: Section, view: View) -> None:
        """Answer one section, with the limits of a visitor; a failure is shown to the visitor who opens the page."""
        try:
            with self._explorer.answers.pool.on_behalf(new_ticket()), panics.as_errors():
                section.gather(self._explorer, view)
        except FAULTS as error:
            logger.warning("%s is not computed ahead: %s", section.name, reason_of(error))

    def _of_first_pages(self) -> Iterator[tuple[Section, View]]:
        situation = self._explorer.answers.ask(filters.situation)
        for each in situation.computed[:CLUSTERS]:
            view = filters.resolve(situation, {"cluster": each.cluster})
            for path in PATHS:
                yield from ((section, view) for section in sections_of(pages()[path], view))

    def _of_visits(self) -> Iterator[tuple[Section, View]]:
        """What follows from the data alone: not the rows of a visitor's own SELECT."""
        for path, search in self._explorer.answers.visits.latest():
            page = pages()[path]
            try:
                view = page.view(self._explorer, search)
            except FAULTS as error:  # such as a run that is gone
                logger.info("%s is not computed ahead: %s", path, reason_of(error))
                continue
            yield from ((section, view) for section in sections_of(page, view) if section.kept)

    def _run(self) -> None:
        self._try_to_look()
        if not self._stop.wait(TICK_S):
            lazy_scipy.load()
        while not self._stop.is_set():
            self._try_to_look()
            self._stop.wait(TICK_S)

    def _try_to_look(self) -> None:
        try:
            self.look()
        except FAULTS as error:
            logger.warning("the first pages are not computed ahead: %s", reason_of(error))
