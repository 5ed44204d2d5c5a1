"""Runs a question over every cluster: the command line and Python (`app.api`) get the same answer from here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import UsageError
from app.results.nodes.unknown_gpus import unknown_gpus_notes
from app.show.answer import Answer, noted, together
from app.show.selection import windows_with_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.show.answer import Question
    from app.window import Window
    from queries.warehouse import Reader

    QuestionFunction = Callable[[Reader, Window, Question], Answer]


def run_question(
    reader: Reader,
    windows: list[Window],
    function: QuestionFunction,
    question: Question,
    *,
    report: Callable[[str], object],
) -> tuple[Answer, list[Window]]:
    """One answer of all clusters, and the windows that it is of.

    Args:
        reader: the published copy.
        windows: the requested window of each cluster.
        function: the question's function.
        question: its options.
        report: takes the reason why one of several clusters has no answer.

    Raises:
        UsageError: no cluster has an answer.
    """
    if question.run is not None:
        windows = windows_with_run(reader, windows, question.run)
    answers: dict[Window, Answer] = {}
    refused: list[UsageError] = []
    for window in windows:
        try:
            answers[window] = function(reader, window, question)
        except UsageError as error:
            refused.append(error)
    if refused and not answers:
        raise refused[0]
    for each in refused:
        report(str(each))
    shown = [*answers]
    return together([noted(answers[window], unknown_gpus_notes(reader, window)) for window in shown], shown), shown
