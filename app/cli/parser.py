"""The parser of the command line: a refusal is one line that suggests the name that was probably meant."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, NoReturn

from queries.near_names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from _typeshed import SupportsWrite

USAGE = 2
"""Exit status of a command line that is refused, as of argparse."""

_REQUIRED = "the following arguments are required: "
"""The start of argparse's message that something is missing."""

_PLAIN = {
    r"^argument ": "",
    r"invalid int value: (.*)$": r"\1 is not a whole number",
    r"invalid float value: (.*)$": r"\1 is not a number",
    r"expected one argument$": "needs a value",
}
"""Patterns of argparse's messages, and our wording of each."""


class Parser(argparse.ArgumentParser):
    """argparse's parser, with suggestions. The parsers of verbs and sources are of this class, too."""

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a value that is no choice; argparse calls it for verbs, positional arguments and options."""
        if action.choices is None or value in action.choices:
            return
        similar = getattr(action.choices, "similar", None)
        names = map(str, action.choices if similar is None else similar())
        elsewhere = getattr(action.choices, "elsewhere", None) or getattr(action, "elsewhere", None)
        hint = (elsewhere(str(value)) if elsewhere else "") or did_you_mean(str(value), names) or _list(action)
        self.refuse(f"{_refusal(action, value)}{hint}")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help, now: argparse passes over an output that is full or whose reader has gone.

        Raises:
            OSError: it cannot be written.
        """
        print(self.format_help(), end="", file=file)
        sys.stdout.flush()

    def error(self, message: str) -> NoReturn:
        """Refuse what argparse found wrong: in our words, and with the command that lists the options."""
        if message.startswith(_REQUIRED):
            message = self._missing(message.removeprefix(_REQUIRED).split(", "))
        for pattern, plain in _PLAIN.items():
            message = re.sub(pattern, plain, message)
        self.refuse(f"{message}\nIts options: {self.prog} --help")

    def _missing(self, names: Sequence[str]) -> str:
        """What is missing, and how its value is written: the choices, or the help of the option."""
        written = [f"missing: {', '.join(names)}"]
        for action in self._actions:
            if not set(names) & {"/".join(action.option_strings), str(action.metavar or action.dest)}:
                continue
            if action.choices is not None:
                written[0] += _list(action)
            elif action.option_strings and action.help:
                written.append(f"  {action.option_strings[-1]} {action.metavar}: {action.help % vars(action)}")
        return "\n".join(written)

    def refuse(self, message: str) -> NoReturn:
        """Print one line and end with the status of a wrong command line."""
        self.exit(USAGE, f"{self.prog}: {message}\n")

    def refuse_unknown(self, arguments: Sequence[str], options: argparse.Namespace) -> NoReturn:
        """Refuse arguments that no parser accepted.

        Args:
            arguments: what was left over.
            options: what was parsed; the verb in it is the one whose options are suggested.
        """
        parser = _used(self, options)
        names = [name for action in parser._actions for name in action.option_strings]
        first = next((each for each in arguments if each.startswith("-")), "").partition("=")[0]
        hint = did_you_mean(first, names) if first else ""
        more = hint or f"; its options: {parser.prog} --help"
        parser.refuse(f"unrecognized arguments: {' '.join(map(_shown, arguments))}{more}")


def _refusal(action: argparse.Action, value: object) -> str:
    if action.option_strings:
        return f"{action.option_strings[0]} cannot be {value!r}"
    return f"there is no {str(action.metavar or action.dest).lower()} {value!r}"


def _list(action: argparse.Action) -> str:
    """The end of a refusal without a suggestion: all that is accepted."""
    names: Iterable[object] = action.choices or ()
    return f"; there are: {', '.join(map(str, names))}"


def _shown(argument: str) -> str:
    """An argument as typed, or as a literal where it holds what is not printable."""
    return argument if argument.isprintable() else repr(argument)


def _used(parser: Parser, options: argparse.Namespace) -> Parser:
    """The parser of the verb, and of its source or action, that parsed the options."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            child = action.choices.get(getattr(options, action.dest, None) or "")
            return parser if child is None else _used(child, options)
    return parser
