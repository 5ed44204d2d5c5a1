"""The questions of `trackside show`: each is one file below `app.show.questions`, with `@question` above its function.

The command line's choices, options, help and refusals follow from the entries, as do the methods of `app.api`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from app.errors import UsageError
from app.results.runs.runs import resolve_run
from app.results.runs.some_runs import SomeRuns
from app.show import questions as package
from app.show.declared import LAST, declared, module_of
from app.show.selection import split_by

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.show.answer import Answer, Question
    from app.window import Window
    from queries.warehouse import Reader

Option: TypeAlias = Literal["run", "at", "convention"]
"""An option of some questions only: --run, --at, --convention."""


@dataclass(frozen=True)
class QuestionEntry:
    """A question, with what it takes. Call it with a reader, a window and a `Question`.

    Attributes:
        name: what follows `trackside show`.
        summary: what it answers, in a few words.
        help: its text in `trackside show --help`; lines are kept.
        by: what it can be split by.
        default: what it is split by without --by.
        function: answers it; `Question.dimension` is one of `by`.
        takes: its options, next to cluster, period and --by.
        by_of_run: what it can be split by with --run; `by` if empty.
        default_of_run: what it is split by with --run and without --by.
        position: questions are listed by it, then by name.
        span: the named query with the time that its rows cover, where it needs no accounting; else empty.
        of_some_runs: those of `by` whose rows are each about one run and need the rows of no other (of a user all
            runs: `--by user`): with --run, and where a page has chosen a user, only these are read.
    """

    name: str
    summary: str
    help: str
    by: tuple[str, ...]
    default: str
    function: Callable[[Reader, Window, Question], Answer]
    takes: tuple[Option, ...]
    by_of_run: tuple[str, ...]
    default_of_run: str
    position: int = LAST
    span: str = ""
    of_some_runs: tuple[str, ...] = ()

    @property
    def splits(self) -> tuple[str, ...]:
        """All that it can be split by, with --run or without."""
        return tuple(dict.fromkeys((*self.by, *self.by_of_run)))

    def __call__(self, source: Reader, window: Window, question: Question) -> Answer:
        """The answer.

        Raises:
            UsageError: the question cannot be split so, or there is no such run.
        """
        if question.run is None:
            if question.by in set(self.by_of_run) - set(self.by):
                raise UsageError(f"--by {question.by} is of one run: add --run R.\nThe runs:  trackside show runs")
            by = split_by(question.by, self.by, self.default)
        else:
            by = split_by(question.by, self.by_of_run or self.by, self.default_of_run)
        if question.run is not None and by in self.of_some_runs:
            source = of_runs(source, window, resolve_run(source, window.cluster, question.run))
        return self.function(source, window, replace(question, by=by))


def of_runs(source: Reader, window: Window, run_ids: Sequence[str]) -> Reader:
    """The source with the rows of these runs only; unchanged if there are none: then the question reports that."""
    return cast("Reader", SomeRuns(source, window.cluster, run_ids)) if run_ids else source


_entries: dict[str, QuestionEntry] = {}


def question(
    name: str,
    summary: str,
    *,
    help: str,  # noqa: A002 - argparse's word
    by: tuple[str, ...],
    default: str | None = None,
    takes: tuple[Option, ...] = (),
    by_of_run: tuple[str, ...] = (),
    default_of_run: str | None = None,
    position: int = LAST,
    span: str = "",
    of_some_runs: tuple[str, ...] = (),
) -> Callable[[Callable[[Reader, Window, Question], Answer]], QuestionEntry]:
    """Make a function a question of `trackside show`; the arguments are those of `QuestionEntry`.

    Without `default` it is split by the first of `by`; with --run by the first of `by_of_run`, else as without.
    All arguments are literals, because `app.show.declared` reads them without the file's imports.
    """

    def register(function: Callable[[Reader, Window, Question], Answer]) -> QuestionEntry:
        usual = default or by[0]
        of_run = default_of_run or (by_of_run[0] if by_of_run else usual)
        entry = QuestionEntry(
            name, summary, help, by, usual, function, takes, by_of_run, of_run, position, span, of_some_runs
        )
        if name in _entries and _entries[name].function.__module__ != function.__module__:
            raise ValueError(f"two files have a question {name!r}")
        _entries[name] = entry
        return entry

    return register


def questions() -> dict[str, QuestionEntry]:
    """Every question by its name, in the order of all lists: the files of `app.show.questions` are imported."""
    return {name: _imported(name) for name in declared()}


def _imported(name: str) -> QuestionEntry:
    import_module(f"{package.__name__}.{module_of(name)}")
    return _entries[name]


def question_of(what: str) -> QuestionEntry:
    """The question of that name, or the one about the metric of that name; only the file of a question is imported."""
    if what in declared():
        return _imported(what)
    from app.show import metric  # noqa: PLC0415 - the catalogue imports all that computes a metric
    from metrics.catalog import BY_NAME  # noqa: PLC0415 - as above

    by = ("cluster", *BY_NAME[what].by)
    return QuestionEntry(what, BY_NAME[what].title, "", by, "cluster", metric.questions()[what], (), (), "cluster")


def refuse_options(entry: QuestionEntry, question: Question) -> None:
    """Refuse an option that the question does not take.

    Raises:
        UsageError: there is one.
    """
    for option, present in (
        ("run", question.run is not None),
        ("at", question.at is not None),
        ("convention", question.convention is not None),
    ):
        if not present or option in entry.takes:
            continue
        takers = ", ".join(f"show {each.name}" for each in questions().values() if option in each.takes)
        instead = f"; show {entry.name} can be split with --by" if option == "run" else ""
        raise UsageError(f"show {entry.name} does not take --{option}; these do: {takers}{instead}")


def epilog() -> str:
    """The text of each question in `trackside show --help`."""
    blocks = (f"  {entry.name:<15}" + entry.help.replace("\n", "\n" + " " * 17) for entry in questions().values())
    return "\n".join(("what to show, and what it can be split --by:", *blocks, "", TIMES))


TIMES = "times are UTC: 2026-10-01, 2026-10-01T12:00, or backwards from the end of the data: 7d, 24h"
