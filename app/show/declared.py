"""What each question of `trackside show` declares in its `@question(...)`, read without the imports of its file.

Lists of questions and completion need names, summaries and splits at once; the imports take most of a second.
"""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

from app.package_files import files_of
from app.show import questions as package

LAST: Final = 100
"""The position of a question that declares none: after the others."""


DEFINITION: Final = "\ndef "
"""What follows the decorator."""


class Declared(NamedTuple):
    """A question as its file declares it; the fields are those of `app.show.registry.QuestionEntry`."""

    name: str
    summary: str
    help: str
    by: tuple[str, ...]
    takes: tuple[str, ...] = ()
    by_of_run: tuple[str, ...] = ()
    position: int = LAST

    @property
    def splits(self) -> tuple[str, ...]:
        """All that it can be split by, with --run or without."""
        return tuple(dict.fromkeys((*self.by, *self.by_of_run)))


@functools.cache
def declared() -> dict[str, Declared]:
    """Every question by its name, in the order of all lists: by position, then by name.

    Raises:
        ValueError: a file of `app.show.questions` declares no question, or not by literals.
    """
    entries = [_read(path) for path in _files().values()]
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: (entry.position, entry.name))}


def is_question(name: object) -> bool:
    """Whether a question has that name; no file is read."""
    return any(module.rpartition(".")[2] == name for module in _files())


def module_of(question: str) -> str:
    """The module of a question below `app.show.questions`: `nodes.lemons`."""
    return next(module for module in _files() if module.rpartition(".")[2] == question)


@functools.cache
def _files() -> dict[str, str]:
    """The questions' files in the folder and in its rooms, by module."""
    return files_of(package)


def _read(path: str) -> Declared:
    """The arguments of `@question(...)`: only they are parsed, which takes a tenth of the time of the file."""
    import ast  # noqa: PLC0415 - only lists of questions need it

    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - `pathlib` takes longer to import than this takes
        _, decorator, rest = file.read().partition("\n@question(")
    if not decorator:
        raise ValueError(f"{path} declares no question of `trackside show`")
    call = ast.parse(f"question({rest.partition(DEFINITION)[0]}", mode="eval").body
    assert isinstance(call, ast.Call)  # noqa: S101 - what was parsed begins as a call
    name, summary = map(ast.literal_eval, call.args)
    named: dict[str, Any] = {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}
    return Declared(name, summary, **{key: value for key, value in named.items() if key in Declared._fields})
