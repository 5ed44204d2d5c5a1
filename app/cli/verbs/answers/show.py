"""`trackside show QUESTION`: answer a question about the cluster; each question is one file in `app.show.questions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.help.question_names import AcceptedNames
from app.cli.options import add_format, add_late_epilog, add_period, add_table, add_verb

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options.

    The names of the questions are those of their files. Their entries are read only for the help of this verb, and
    for their list.
    """
    parser = add_verb(subparsers, "show", "answer a question about the cluster", manual="how-to/questions")
    parser.add_argument(
        "what",
        nargs="?",
        choices=AcceptedNames(),
        metavar="QUESTION",
        help="one of the questions below, or the name of a metric; without it, the list of questions",
    )
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster")
    add_period(parser)
    parser.add_argument("--by", metavar="DIMENSION", help="split by: what each question below takes")
    parser.add_argument("--run", dest="run_id", metavar="R", help="only this run (a run id or a job id)")
    parser.add_argument("--at", type=_gpus, metavar="GPUS", help="job size for mttf (default: 1024)")
    parser.add_argument("--convention", metavar="NAME", help="FLOP convention for mfu: palm_full, causal_half, ...")
    parser.add_argument("--explain", action="store_true", help="also print definition, SQL, parts and evidence")
    add_format(parser)
    add_table(parser)
    add_late_epilog(parser, _epilog)


def _epilog() -> str:
    from app.show.registry import epilog

    return epilog()


def _gpus(text: str) -> float:
    from argparse import ArgumentTypeError

    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e7:
        raise ArgumentTypeError(f"{text!r} is not a number of GPUs above 0")
    return value


def run(options: argparse.Namespace) -> int:
    """Answer a question, or list them."""
    if options.what is not None:
        return _answer(options)
    from app.cli.help import question_list
    from app.terminal_text import echo

    question_list.refuse_options(options)
    echo(question_list.text())
    return 0


def _answer(options: argparse.Namespace) -> int:
    from functools import partial

    from app import console
    from app.cli.rows import RowFormat, row_options
    from app.cli.run_context import warehouse_root
    from app.errors import UsageError
    from app.periods import Period, windows
    from app.show import registry
    from app.show.answer import Question, explain
    from app.show.page import answer_lines
    from app.show.run_question import run_question
    from app.show.selection import logged_only, needs_accounting
    from app.terminal.pager import page
    from app.terminal.rows import selected
    from app.terminal.terminal import Terminal
    from queries.warehouse import open_reader

    root = warehouse_root(options)
    entry = registry.question_of(options.what)
    question = Question(
        by=options.by,
        run=options.run_id,
        at=options.at,
        convention=options.convention,
        details=options.explain,
        config=options.config,
    )
    registry.refuse_options(entry, question)
    rows_as, row_choice = RowFormat.of(options), row_options(options)
    with open_reader(root) as reader:
        if question.run is not None and not entry.span:
            alone = logged_only(reader, options.cluster, question.run)
            if alone is not None and rows_as.form != "table":
                raise UsageError(needs_accounting(*alone))
            if alone is not None:
                return _page_of_log(options, *alone)
        requested = windows(reader, Period(options.cluster, options.since, options.until), span=entry.span)
        refuse = partial(console.echo, error=True)
        answer, shown = run_question(reader, requested, entry, question, report=refuse)
        explained = explain(reader, answer, shown) if options.explain else None
    if rows_as.form != "table":
        limited = row_choice.limit is not None and not row_choice.sort  # the first ones are those of a table
        rows = answer.rows if answer.order is None or not limited else answer.order.sorted(answer.rows)
        rows = selected(rows, row_choice, answer.columns) if row_choice.changes else rows
        rows_as.write(rows, extra=explained and {"explain": explained})
        return 0
    terminal = Terminal.of()
    lines = answer_lines(answer, shown, terminal, row_choice, explained=explained)
    page("\n".join(lines) + "\n", terminal, wide=row_choice.wide)
    return 0


def _page_of_log(options: argparse.Namespace, cluster: str, run_id: str) -> int:
    """The page of a run that is known from its log alone."""
    import argparse

    from app import console
    from app.cli.verbs.answers import run as run_page

    console.echo(
        f"Only the log of {run_id} is loaded: its page. More with accounting: trackside ingest slurm", error=True
    )
    values = {**vars(options), "id": run_id, "cluster": cluster, "format": "text", "events": None}
    return run_page.run(argparse.Namespace(**values))
