"""What a viewer may see: the one place through which every page, section, drawer and callback gets its data.

For operators it is the cache of answers itself. For a viewer a question passes only if there is a rule for it here;
what has none, such as that of a new page, is refused. Rules let pass what names no person, or keep what is their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from app.access import people
from app.errors import UsageError
from app.explorer import filters
from app.results.constants import computed_constants
from app.results.serving.cache import AnswerCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.access.people import Person
    from queries.warehouse import Reader

NOT_YOURS: Final = (
    "This is not yours, or not there. You see your own runs, those of your accounts, and sums of the cluster."
)

P = ParamSpec("P")
T = TypeVar("T")


class NotYoursError(UsageError):
    """A viewer asked for what is not theirs; it does not say whether it exists."""

    def __init__(self) -> None:
        super().__init__(NOT_YOURS)


def answers_for(whole: AnswerCache) -> AnswerCache:
    """The answers that whoever asks now may see."""
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


def _of_everyone(whole: AnswerCache, _: Person, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:  # noqa: ANN401 - as the function
    """It names no person and no run."""
    return whole.ask(function, *args)


RULES: Final = {
    _name(filters.situation): _of_everyone,
    _name(computed_constants): _of_everyone,
}
"""Rules by the name of the function that reads."""
