"""Completions of a command line, from the parsers, and from the warehouse for names of runs, jobs, nodes, clusters.

The warehouse is read by named queries without polars. Names that cannot be read are not offered: this never fails.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

SAFE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@%+=/,-]*")
"""Names that are offered: one word in every shell, without quotes, expansion or history. Others have to be typed."""

QUERIES: Final = {
    "cluster": ("completed_clusters",),
    "node": ("completed_nodes",),
    "job": ("completed_jobs",),
    "run_id": ("completed_runs",),
    "to_run": ("completed_runs",),
    "run": ("completed_runs", "completed_jobs"),
}
"""Queries that give the values of an argument, by its `dest`."""


class Candidates(NamedTuple):
    """Candidates for the last word of a command line.

    Attributes:
        kind: `words`, or `files` or `directories`, which the shell completes itself.
        words: values that begin with what is typed, each with a description (maybe empty).
    """

    kind: str = "words"
    words: Sequence[tuple[str, str]] = ()


class CommandLine(NamedTuple):
    """A command line up to the last word: the parser in effect, and what was given to it.

    Attributes:
        parser: of the verb, and of its source or action.
        values: by `dest`, values of options and positional arguments.
        waiting: the option whose value is next; None where there is none.
        positional: the positional argument that is next; None where there is none.
    """

    parser: argparse.ArgumentParser
    values: dict[str, str]
    waiting: argparse.Action | None
    positional: argparse.Action | None


def candidates(words: Sequence[str], build_parser: Callable[[str | None], argparse.ArgumentParser]) -> Candidates:
    """Candidates for the last word of a command line.

    Args:
        words: what follows the program's name; the last one is being typed and may be empty.
        build_parser: the parser with one verb, or with all if None.
    """
    *before, current = words or [""]
    line = parse(before, build_parser(before[0] if before else None))
    option, equals, part = current.partition("=")
    if line.waiting is not None:
        return _matching(_values(line.waiting, line, current), current)
    if equals and (action := _option(line.parser, option)) is not None:
        values = _values(action, line, part)
        return _matching(values._replace(words=[(f"{option}={word}", text) for word, text in values.words]), current)
    if current.startswith("-"):
        return _matching(Candidates(words=list(_options(line))), current)
    if line.positional is not None and (values := _values(line.positional, line, current)) != Candidates():
        return _matching(values, current)
    return _matching(Candidates(words=list(_options(line))), current)


def parse(words: Sequence[str], parser: argparse.ArgumentParser) -> CommandLine:
    """Follow the words before the last one."""
    line = _start(parser, {})
    for word in words:
        line = _next(line, word)
    return line


def _start(parser: argparse.ArgumentParser, values: dict[str, str]) -> CommandLine:
    positional = [action for action in parser._actions if not action.option_strings]
    return CommandLine(parser, values, None, positional[0] if positional else None)


def _next(line: CommandLine, word: str) -> CommandLine:
    """The line after one more word."""
    if line.waiting is not None:
        return line._replace(values=line.values | {line.waiting.dest: word}, waiting=None)
    if word.startswith("-") and word != "-":
        name, equals, value = word.partition("=")
        action = _option(line.parser, name)
        if action is None or action.nargs == 0:
            return line
        if equals:
            return line._replace(values=line.values | {action.dest: value})
        return line._replace(waiting=action)
    return _after_positional(line, word)


def _after_positional(line: CommandLine, word: str) -> CommandLine:
    action = line.positional
    if isinstance(action, argparse._SubParsersAction):
        child = action.choices.get(word)
        return line._replace(positional=None) if child is None else _start(child, line.values)
    if action is None or action.nargs in {"*", "+"}:
        return line
    positional = [each for each in line.parser._actions if not each.option_strings]
    following = positional[positional.index(action) + 1 :]
    return line._replace(values=line.values | {action.dest: word}, positional=following[0] if following else None)


def _option(parser: argparse.ArgumentParser, name: str) -> argparse.Action | None:
    return next((action for action in parser._actions if name in action.option_strings), None)


def _options(line: CommandLine) -> Iterator[tuple[str, str]]:
    """The options of the parser that were not given yet, by their long names."""
    for action in line.parser._actions:
        if action.option_strings and action.help != argparse.SUPPRESS and action.dest not in line.values:
            name = next((name for name in action.option_strings if name.startswith("--")), action.option_strings[0])
            yield name, _summary(action.help or "")


def _values(action: argparse.Action, line: CommandLine, typed: str) -> Candidates:
    """The values of an argument."""
    if isinstance(action, argparse._SubParsersAction):
        helps = {each.dest: each.help or "" for each in action._get_subactions()}
        return Candidates(words=[(name, _summary(helps.get(name, ""))) for name in action.choices])
    if action.dest == "what" and line.parser.prog.endswith(" show"):
        from app.show.declared import declared

        return Candidates(words=[(name, each.summary) for name, each in declared().items()])
    if action.choices is not None:
        return Candidates(words=[(str(each), "") for each in action.choices])
    if action.metavar in {"DIR", "D"}:
        return Candidates("directories")
    if action.metavar == "FILE":
        return Candidates("files")
    return Candidates(words=[(name, "") for name in _names(action, line, typed)])


def _names(action: argparse.Action, line: CommandLine, typed: str) -> Iterable[str]:
    """Names that no parser lists."""
    if action.dest == "by":
        return _splits(line.values.get("what", ""))
    if action.dest == "topic":
        return _topics()
    if action.dest == "timezone":
        from zoneinfo import available_timezones

        return sorted(available_timezones())
    if action.dest == "table":
        from queries import sql_files

        return sorted([*sql_files.tables(), *(view.name for view in sql_files.views())])
    return _of_warehouse(QUERIES.get(action.dest, ()), line, typed)


def _splits(question: str) -> Sequence[str]:
    from app.show.declared import declared

    entry = declared().get(question)
    return () if entry is None else entry.splits


def _topics() -> list[str]:
    from app.cli.help.topics import topics

    return [topic for topic in topics() if " " not in topic]


def _of_warehouse(queries: Sequence[str], line: CommandLine, typed: str) -> Iterable[str]:
    """Names in the warehouse that the options, or else the environment and the configuration, name."""
    root = _root(line.values) if queries else None
    if root is None:
        return ()
    from queries.warehouse import open_reader

    with open_reader(root) as reader:
        return [str(row[0]) for query in queries for row in reader.rows(query, prefix=typed)]


def _root(values: dict[str, str]) -> Path | None:
    from pathlib import Path

    from app.config.place import warehouse_directory

    if "warehouse" in values:
        return Path(values["warehouse"]).expanduser()
    named = values.get("config")
    return warehouse_directory(None if named is None else Path(named).expanduser())


def _matching(values: Candidates, typed: str) -> Candidates:
    """The values that begin with what is typed, and that are safe in a shell."""
    kept = {word: text for word, text in values.words if word.startswith(typed) and _is_safe(word)}
    return values._replace(words=list(kept.items()))


def _is_safe(word: str) -> bool:
    option, equals, value = word.partition("=")
    if word.startswith("--"):
        return bool(SAFE.fullmatch(option[2:])) and (not equals or bool(SAFE.fullmatch(value)))
    return bool(SAFE.fullmatch(word.removeprefix("-")))


def _summary(text: str) -> str:
    """A description in one line."""
    return " ".join(text.replace("%%", "%").split())[:70]
