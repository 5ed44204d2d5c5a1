"""What `trackside show` accepts: its questions, and the name of any metric with result rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Names:
    """The accepted names. The metrics are only read for a name that is no question, so that `--help` stays quick."""

    def __init__(self, questions: tuple[str, ...]) -> None:
        self._questions = questions

    def __contains__(self, what: object) -> bool:
        """Whether it is a question or a metric."""
        if what in self._questions:
            return True
        from app.results.registry import results  # noqa: PLC0415 - slow to import, and few names need it

        return what in results()

    def __iter__(self) -> Iterator[str]:
        """The questions: what an error message lists."""
        return iter(self._questions)
