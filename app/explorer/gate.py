"""What a viewer may see: the one place through which every page, section, drawer and callback gets its data.

For operators it is the cache of answers itself. For a viewer a question passes only if there is a rule for it here;
what has none, such as that of a new page, is refused. Rules let pass what names no person, or keep what is their own.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

import polars as pl

from app.access import people
from app.errors import UsageError
from app.explorer import filters, questions, row_filters
from app.explorer.pages import overview, run, runs
from app.explorer.to_do import costliest
from app.results.constants import computed_constants
from app.results.runs.runs import resolve_run, similar_runs
from app.results.serving.cache import AnswerCache
from app.show.registry import of_runs, question_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Set

    from app.access.people import Person
    from app.explorer.row_filters import Narrowed
    from app.show.answer import Question
    from app.window import Window
    from queries.warehouse import Reader

NOT_YOURS: Final = (
    "This is not yours, or not there. You see your own runs, those of your accounts, and sums of the cluster."
)

P = ParamSpec("P")
T = TypeVar("T")


class NotYoursError(UsageError):
    """A viewer requested data of others; the message does not reveal whether they exist."""

    def __init__(self) -> None:
        super().__init__(NOT_YOURS)


def answers_for(whole: AnswerCache) -> AnswerCache:
    """The answers that the current viewer may see."""
    person = people.current()
    return whole if person.sees_all else OwnAnswers(whole, person)


class OwnAnswers(AnswerCache):
    """The answers that a viewer may see.

    Args:
        whole: all answers.
        person: the viewer.
    """

    def __init__(self, whole: AnswerCache, person: Person) -> None:  # the whole cache is behind it: it keeps nothing
        self._whole, self.person = whole, person
        self.pool = whole.pool

    def __len__(self) -> int:
        return len(self._whole)

    def version(self) -> str:
        """Name of the newest published copy."""
        return self._whole.version()

    def ask(self, function: Callable[Concatenate[Reader, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The answer, if a rule lets it pass.

        Raises:
            NotYoursError: none does.
            NoWarehouseError: nothing has been published yet.
        """
        rule = RULES.get(_name(function))
        if rule is None or kwargs:
            raise NotYoursError
        answer: T = rule(self._whole, self.person, function, args)
        return answer


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


# Rules -----------------------------------------------------------------------------------------------------------


def _of_everyone(whole: AnswerCache, _: Person, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """It names no person and no run."""
    return whole.ask(function, *args)


def _costs(whole: AnswerCache, _: Person, function: Callable[..., Any], args: tuple[Any, ...]) -> pl.DataFrame:
    """Costs by what is no person."""
    if args[1] not in OF_NO_PERSON:
        raise NotYoursError
    rows: pl.DataFrame = whole.ask(function, *args)
    return rows


def _choices(whole: AnswerCache, person: Person, _: Callable[..., Any], args: tuple[Any, ...]) -> dict[str, list[str]]:
    """What filters offer: oneself, one's accounts, any partition."""
    offered = whole.ask(row_filters.choices, *args)
    return _own_choices(offered, person)


def _own_choices(offered: Mapping[str, Iterable[str]], person: Person) -> dict[str, list[str]]:
    mine = {"user": {person.name}, "account": set(person.accounts)}
    return {name: sorted(set(values) & mine.get(name, set(values))) for name, values in offered.items()}


def _own_resolved_runs(
    whole: AnswerCache, person: Person, function: Callable[..., Any], args: tuple[Any, ...]
) -> list[str]:
    """Own runs of those that an id may mean: another's run is as one that is not there."""
    own = whole.ask(own_runs, args[0], person.name, person.accounts)
    return [each for each in whole.ask(function, *args) if each in own]


def _no_names(_: AnswerCache, __: Person, ___: Callable[..., Any], ____: tuple[Any, ...]) -> list[str]:
    """Names of others' runs are not suggested."""
    return []


def _one_run(whole: AnswerCache, person: Person, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The page of an own run."""
    window, run_id = args
    if run_id not in whole.ask(own_runs, window.cluster, person.name, person.accounts):
        raise NotYoursError
    return whole.ask(function, *args)


def _run_list(
    whole: AnswerCache, person: Person, function: Callable[..., Any], args: tuple[Any, ...]
) -> runs.ListedRuns:
    """The list of runs of oneself or of one own account; without a choice, of oneself."""
    window, run_filter, *order = args
    values = dict(run_filter)
    if values["account"] not in person.accounts and values["user"] != person.name:
        if values["account"] or values["user"]:
            raise NotYoursError
        values["user"] = person.name
    own_filter = tuple((name, values[name]) for name, _ in run_filter)
    found: runs.ListedRuns = whole.ask(function, window, own_filter, *order)
    choices = {name: frozenset(each) for name, each in _own_choices(found.choices, person).items()}
    return replace(found, total=found.matching, choices=choices)


def _answer(whole: AnswerCache, person: Person, _: Callable[..., Any], args: tuple[Any, ...]) -> questions.Shown:
    """The rows of a question that are about own runs, or about no user."""
    window, name, question, chosen = args[:4]  # its runs are the viewer's
    return whole.ask(own_answer, window, name, question, chosen, viewer=person)


def own_runs(source: Reader, cluster: str, user: str, accounts: tuple[str, ...]) -> frozenset[str]:
    """Ids of the runs of a user and of some accounts, whenever they were."""
    no_filter = dict.fromkeys(row_filters.OF_RUNS, "")
    ever = {"cluster": cluster, "since": datetime(1970, 1, 1, tzinfo=UTC), "until": datetime(9999, 1, 1, tzinfo=UTC)}
    filters = [{"user": user}, *({"account": each} for each in accounts)]
    found = (source.query("run_ids_of", **ever, **(no_filter | each)) for each in filters if all(each.values()))
    return frozenset(run_id for rows in found for run_id in rows["run_id"])


def own_answer(
    source: Reader, window: Window, name: str, question: Question, chosen: Narrowed, *, viewer: Person
) -> questions.Shown:
    """The answer of a question with the rows that a viewer may see, without sentences that name others.

    Raises:
        NotYoursError: its rows are about other people, or about one run that is not the viewer's.
    """
    own = own_runs(source, window.cluster, viewer.name, viewer.accounts)
    if question.run is not None and not own.issuperset(resolve_run(source, window.cluster, question.run) or [""]):
        raise NotYoursError
    entry = question_of(name)
    by = question.by or (entry.default if question.run is None else entry.default_of_run)
    some = question.run is None and by in entry.of_some_runs
    answer = entry(of_runs(source, window, sorted(own) or [""]) if some else source, window, replace(question, by=by))
    of_run = question.run is not None
    rows = rows_of(answer.rows, by, viewer, own, of_run=of_run)
    ranked = answer.brief if answer.brief is not None and answer.brief.on_pages else None
    others = _others(source, window, viewer, own)
    if ranked is not None:
        of_viewer = rows_of(ranked.rows, by, viewer, own, of_run=of_run)
        ranked = replace(ranked, rows=of_viewer, notes=_without(others, ranked.notes))
    notes = _without(others, answer.notes) or ()
    answer = replace(answer, rows=rows, headline="", notes=notes, brief=ranked)
    splits = entry.by if question.run is None else entry.by_of_run or entry.by
    offered = tuple(each for each in splits if question.run or each in {*OF_NO_PERSON, *OF_PEOPLE})
    return questions.shown_of(source, window, answer, by=by, splits=offered, filters=chosen)


def _without(others: Set[str], notes: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The notes that name none of the others."""
    return notes and tuple(each for each in notes if others.isdisjoint(_WORD.findall(each)))


def rows_of(rows: pl.DataFrame, by: str, viewer: Person, own: Set[str], *, of_run: bool = False) -> pl.DataFrame:
    """Rows of own runs, of oneself, of own accounts; all rows where they are about no person.

    Args:
        rows: of an answer.
        by: what it is split by.
        viewer: the person of the request.
        own: ids of the runs that they may see.
        of_run: the answer is about one own run.

    Raises:
        NotYoursError: the owner of the rows is unknown.
    """
    columns = {name: name for name in OF_PEOPLE.values() if name in rows.columns}
    if by in OF_PEOPLE and "subject" in rows.columns:
        columns[OF_PEOPLE[by]] = "subject"
    mine = {"run_id": own, "user": {viewer.name}, "account": set(viewer.accounts)}
    decisive = next((name for name in mine if name in columns), None)
    if decisive is not None:
        return rows.filter(
            pl.col(columns[decisive]).is_in(pl.Series(sorted(mine[decisive]), dtype=pl.String).implode())
        )
    if of_run or (by in OF_NO_PERSON and PERSONAL.isdisjoint(rows.columns)):
        return rows
    raise NotYoursError


def _others(source: Reader, window: Window, viewer: Person, own: Set[str]) -> frozenset[str]:
    """Users, accounts and runs of the window that a viewer is not to read of."""
    offered = row_filters.choices(source, window)
    every = source.query("run_ids_of", **window.parameters, **dict.fromkeys(row_filters.OF_RUNS, ""))["run_id"]
    return frozenset({*offered["user"], *offered["account"], *every} - {viewer.name, *viewer.accounts} - own)


_WORD: Final = re.compile(r"[\w.@:+/-]*\w")
"""What may be a name in a sentence."""

OF_PEOPLE: Final[dict[str, str]] = {"run": "run_id", "user": "user", "account": "account"}
"""Splits whose rows are each about a run, a person or an account."""

OF_NO_PERSON: Final = frozenset(
    {"bucket", "category", "cause", "class", "cluster", "day", "gpu_model", "hazard", "law", "node", "node_class",
     "partition", "reference", "size", "stage"}
)  # fmt: skip
"""Splits whose rows are sums over everybody's runs."""

PERSONAL: Final = frozenset({"name", "job_id", "display_id", "attempt", "submit_line", "actor", "author"})
"""Columns that may name the owner of a row; with one of them, rows of other owners are not shown."""

RULES: Final[dict[str, Callable[..., Any]]] = {
    _name(filters.situation): _of_everyone,
    _name(computed_constants): _of_everyone,
    _name(overview.gather): _of_everyone,
    _name(overview.account): _of_everyone,
    _name(overview.interruption_counts): _of_everyone,
    _name(costliest.costs): _costs,
    _name(row_filters.choices): _choices,
    _name(resolve_run): _own_resolved_runs,
    _name(similar_runs): _no_names,
    _name(run.head): _one_run,
    _name(run.gather): _one_run,
    _name(runs.gather): _run_list,
    _name(questions.answered): _answer,
}
"""Rules by the name of the function that reads."""
