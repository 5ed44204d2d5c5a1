"""Names that `trackside show` accepts: its questions, and any metric with result rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.show.declared import is_question

if TYPE_CHECKING:
    from collections.abc import Iterator


class AcceptedNames:
    """The accepted names. Nothing is read before a name is compared, so that `--help` of other verbs stays quick."""

    def __contains__(self, what: object) -> bool:
        """Whether a name is a question or a metric; the metrics are only read for a name that is no question."""
        if is_question(what):
            return True
        from app.results.registry import results

        return what in results()

    def __iter__(self) -> Iterator[str]:
        """The questions in the order of all lists: what a refusal lists."""
        from app.show.declared import declared

        return iter(declared())

    def similar(self) -> list[str]:
        """The names that a refusal may suggest: questions first, then metrics."""
        from app.results.registry import results

        return [*self, *results()]

    def elsewhere(self, name: str) -> str:
        """The end of a refusal of a published metric that no question is called by; of any other name nothing."""
        from metrics.catalog import BY_NAME

        if name not in BY_NAME:
            return ""
        question = BY_NAME[name].show
        shown = f", and trackside show {question} has it" if question else ""
        return f", but a metric of that name: trackside help {name} explains it{shown}"
