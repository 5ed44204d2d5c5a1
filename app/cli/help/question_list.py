"""`trackside show` alone: the questions with one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import UsageError
from app.show.declared import declared

if TYPE_CHECKING:
    import argparse

OF_QUESTIONS = {"cluster": None, "since": None, "until": None, "by": None, "run_id": None, "at": None,
                "convention": None, "explain": False, "format": "table", "output": None, "limit": None, "all": False,
                "columns": None, "sort": None, "wide": False}  # fmt: skip
"""Options that only a question can use, and their values where they are not given."""


def text() -> str:
    """Each question with what it answers, in the order of all lists, and how to go on."""
    questions = declared()
    width = max(map(len, questions))
    lines = [f"  {name:<{width}}  {each.summary}" for name, each in questions.items()]
    return "\n".join(
        [
            "trackside show QUESTION, where QUESTION is one of:",
            *lines,
            "",
            "or the name of a metric. Options and splits: trackside show --help. One question: trackside help QUESTION",
        ]
    )


def refuse_options(options: argparse.Namespace) -> None:
    """Refuse options of a question where no question is named.

    Raises:
        UsageError: there is one.
    """
    if any(getattr(options, name) != default for name, default in OF_QUESTIONS.items()):
        raise UsageError("no question is named: trackside show QUESTION. The list of questions: trackside show")
