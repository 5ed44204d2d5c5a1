"""`trackside run [ID]`: one page about one run or job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_verb, path_of
from ingest.counted import counted

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from app.cli.options import Subparsers
    from app.config.settings import Rules
    from app.run_page.contents import RunContents
    from queries.warehouse import Reader

EPILOG = """\
  trackside run                    inside a job: that job; else your last run; else the newest
  trackside run 12345              a Slurm job; also 12345_7 (array task), 12345+1 (het component)
  trackside run llama-8b           a run by its id, or by the name of its job
  trackside run llama-8b --explain the arithmetic of its ETTR
  trackside run --format json      all its numbers, unrounded, in base units
  trackside run --events run.py    a program that adds its interruptions to its charts in Weights & Biases

It needs accounting (trackside ingest slurm && trackside compute), or a run log alone (trackside ingest runlog
run.jsonl). With both, and with telemetry, it shows more. Undecided parts are listed with the reason. csv and
parquet hold where the time went, a row for each category and cause."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    add_options(subparsers, "run")


def add_options(subparsers: Subparsers, verb: str) -> None:
    """Add the verb under a name."""
    help_ = "one page about one run or job: where its time went, what it lost, what to do"
    parser = add_verb(
        subparsers,
        verb,
        help_ if verb == "run" else "the same as `trackside run`",
        epilog=EPILOG.replace("trackside run", f"trackside {verb}"),
        manual="how-to/run",
    )
    parser.add_argument("id", nargs="?", metavar="ID", help="a run id, a Slurm job id, or a name (default: see below)")
    parser.add_argument("--cluster", metavar="NAME", help="only of this cluster")
    parser.add_argument("--explain", action="store_true", help="also print the arithmetic of the ETTR")
    parser.add_argument(
        "--format",
        choices=("text", "json", "csv", "parquet"),
        default="text",
        help="default: text, a page of 80 columns",
    )
    parser.add_argument(
        "--events",
        type=path_of,
        metavar="FILE",
        help="instead, write its interruptions, incidents, drains and lost steps, each with its step: JSON lines; "
        "FILE.py: a program for W&B",
    )
    parser.add_argument("--output", "-o", type=path_of, metavar="FILE", help="file to write")


def run(options: argparse.Namespace) -> int:
    """Print the page."""
    import os

    from app.cli.run_context import settings_and_root
    from app.run_page.arithmetic import arithmetic
    from app.run_page.contents import gather
    from app.run_page.request import caller, choose
    from queries.warehouse import open_reader

    settings, root = settings_and_root(options)
    with open_reader(root) as reader:
        choice = choose(reader, options.id, options.cluster, environment=os.environ, user=caller())
        contents = gather(reader, choice, settings.rules)
        if options.events is not None:
            return _write_events(options.events, reader, contents, settings.rules)
        explained = arithmetic(reader, contents) if options.explain else ()
    _write(options, contents, explained)
    return 0


def _write_events(target: Path, reader: Reader, contents: RunContents, rules: Rules) -> int:
    """Write the events of the run into a file."""
    from app import console
    from app.output_file import write_file
    from app.run_page.events import events_of, written

    events = events_of(reader, contents, rules)
    write_file(target, written(str(target), contents.choice.run_id, events))
    console.echo(f"{target}: {counted(len(events), 'event')} of run {contents.choice.run_id}")
    return 0


def _write(options: argparse.Namespace, contents: RunContents, explained: tuple[str, ...]) -> None:
    """The page in the requested format."""
    from app import console
    from app.json_text import as_json
    from app.output_file import write_file
    from app.run_page.document import categories, document
    from app.run_page.page import page_of
    from app.terminal.pager import page
    from app.terminal.terminal import PIPE, Terminal

    if options.format in {"csv", "parquet"}:
        console.write(categories(contents), options.format, options.output)
        return
    needed = _options(options)
    if options.format == "json":
        content = document(contents, options=needed, explained=explained)
        if options.output is None:
            console.document(content)
        else:
            write_file(options.output, (as_json(content, indent=2) + "\n").encode())
        return
    terminal = Terminal.of() if options.output is None else PIPE
    text = page_of(contents, terminal, options=needed, explained=explained)
    if options.output is None:
        page(text, terminal)
    else:
        write_file(options.output, text.encode())


def _options(options: argparse.Namespace) -> str:
    """Options of this command line that the commands of the page need, too."""
    import shlex

    named = (("--warehouse", options.warehouse), ("--config", options.config))
    return "".join(f" {name} {shlex.quote(str(value))}" for name, value in named if value is not None)
