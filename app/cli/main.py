"""The command line: it parses arguments, hands them to one file per verb, and turns errors into exit statuses.

Nothing heavy is imported here: `trackside --help` must be instant. The verbs are the files below `app.cli.verbs`; each
has `add_parser(subparsers)` and `run(options)`, and imports within `run` what it needs.
"""

from __future__ import annotations

import argparse
import errno
import os
import shlex
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app import garbage
from app.cli import verbs
from app.cli.help.formatting import HelpFormatter
from app.cli.options import modules_of
from app.cli.parser import Parser
from queries.pandas_block import block_pandas

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DESCRIPTION = """\
Does GPU time become training progress? Trackside accounts for every GPU-second of a cluster exactly once, and derives
goodput, ETTR, MTTF and time to restart from that one account, each with its definition and evidence."""

EPILOG = """\
See it all on a simulated cluster:  trackside demo

Your own cluster, on a machine where sacct works:
  trackside ingest slurm          read Slurm (the last 30 days; later only what is new)
  trackside compute               build the ledger and the numbers
  trackside show goodput          ... ettr mttf restarts lost interruptions runs nodes
  trackside ingest prometheus     add telemetry of GPUs and nodes: show utilisation, filesystems, network, health
  trackside ingest runlog         add run logs of training loops: show mfu
  trackside explore               show all of it in a browser
  trackside verify                judge a vendor's headline claims against your data

Without Slurm on this machine, load files:
  trackside ingest slurm sacct.txt events.txt nodes.txt
Help of a verb: trackside VERB --help. Of a topic: trackside help ettr"""


_MEMORY = "dirty_decay_ms:10000,muzzy_decay_ms:-1"
"""polars gives memory back to the system after ten seconds, not after half a second: large inputs need it again."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status."""
    os.environ.setdefault("_RJEM_MALLOC_CONF", _MEMORY)  # read when polars is imported
    if arguments is None:  # the process is ours
        block_pandas()
        _open_streams()
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # else it reads the metadata of all packages for them
        garbage.search_seldom()
    arguments_ = list(sys.argv[1:] if arguments is None else arguments)
    if arguments_[:1] == ["_complete"]:
        from app.cli.completion.answer import answer

        return answer(arguments_[1:], build_parser)
    if arguments_ == ["help"]:
        arguments_ = ["--help"]
    options = argparse.Namespace()
    return _guarded(arguments_, options)


def _run(arguments: Sequence[str], options: argparse.Namespace) -> int:
    """Parse a command line into the options, and do what it requests."""
    parser = build_parser(arguments[0] if arguments else None)
    if ordered := _verb_first(arguments):
        parser.refuse(f"options follow the verb: {shlex.join(['trackside', *ordered])}")
    _, unknown = parser.parse_known_args(arguments, options)
    if unknown:
        parser.refuse_unknown(unknown, options)
    run = _version if options.version else _overview if options.verb is None else options.run
    status = int(run(options))
    sys.stdout.flush()  # a fault of the output counts here: of what Python writes when it ends, it is "ignored"
    return status


def _verb_first(arguments: Sequence[str]) -> list[str]:
    """The arguments in the order that is accepted, where an option of a verb comes before it; else none.

    >>> _verb_first(["--warehouse", "w", "status"]), _verb_first(["--version"]), _verb_first(["show", "--all"])
    (['status', '--warehouse', 'w'], [], [])
    """
    if not arguments or not arguments[0].startswith("-") or arguments[0] in {"-h", "--help", "--version"}:
        return []
    verb = next((each for each in arguments if each in modules_of(verbs)), None)
    return [] if verb is None else [verb, *(each for each in arguments if each != verb)]


def _open_streams() -> None:
    """Let standard output and error take any text, closed (`>&-`) or in an encoding that lacks letters of names."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the process's end
        elif stream.errors == "strict" or (stream.errors == "surrogateescape" and stream.encoding.lower() != "utf-8"):
            stream.reconfigure(errors="backslashreplace")


def _version(_: argparse.Namespace) -> int:
    """Print our version and the engines'."""
    from app import console
    from app.cli.doctor import versions

    for name, number in versions().items():
        console.echo(f"{name} {number}")
    return 0


def _overview(_: argparse.Namespace) -> int:
    """Print what the warehouse holds and what to do next."""
    from app import clock
    from app.cli import overview
    from app.config.place import warehouse_directory
    from app.terminal_text import echo

    root = warehouse_directory()
    if root is None:
        from app.config import settings

        root = settings.load().warehouse
    echo(overview.text(root, now=clock.now().timestamp()))
    return 0


def _guarded(arguments: Sequence[str], options: argparse.Namespace) -> int:
    """Run a command line; an error becomes its message and exit status."""
    try:
        return _run(arguments, options)
    except KeyboardInterrupt:
        return _interrupted(options)
    except BrokenPipeError:  # the reader of our output (head, less) has gone: not an error
        _drop_output()
        return 0
    except Exception as error:  # noqa: BLE001 - the last line: no traceback for what a person can mend
        return _failed(error, options)
    except BaseException as error:
        from app.panics import is_panic

        if not is_panic(error):
            raise
        return _panicked(error)


_UNWRITTEN: Final = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "the output cannot be written"),
    errno.EIO: "a file or the output cannot be read or written",
}
"""Meaning of the failure of a stream or of a file without a name, by the number of the error."""


def _drop_output() -> None:
    """Send what is left in the buffer of standard output nowhere, so that closing it raises nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _panicked(error: BaseException) -> int:
    """Report that a library panicked. It has printed the place itself; our traceback would add nothing."""
    from app.errors import INTERNAL
    from app.panics import message

    if os.environ.get("TRACKSIDE_DEBUG"):
        import traceback

        traceback.print_exception(error)
    _complain(f"{message(error)}: this is a fault of Trackside; please report it, with the command and its input")
    return INTERNAL


def _failed(error: Exception, options: argparse.Namespace) -> int:
    """Print the message of an error, and return its exit status."""
    from app.errors import INTERNAL, exit_status, was_interrupted

    if was_interrupted(error):
        return _interrupted(options)
    if isinstance(error, OSError) and error.errno in _UNWRITTEN and error.filename is None:
        from queries.errors import WriteError

        _drop_output()
        error = WriteError(f"{_UNWRITTEN[error.errno]}: {error.strerror}")
    if isinstance(error, ModuleNotFoundError) and not os.environ.get("TRACKSIDE_DEBUG"):
        _complain(
            f"{sys.executable} has no module {error.name!r}: Trackside is not installed in this Python, "
            "or the installation is incomplete.\nRun .venv/bin/trackside of the checkout (made by: make setup), or "
            "install the wheel again."
        )
        return INTERNAL
    status = exit_status(error)
    if status is None or os.environ.get("TRACKSIDE_DEBUG"):
        import traceback

        traceback.print_exception(error)
    if status is None:
        _complain(f"this is a fault of Trackside ({type(error).__name__}); please report it with the lines above")
        return INTERNAL
    _complain(str(error))
    return status


def _interrupted(options: argparse.Namespace) -> int:
    """Print what an interrupted verb keeps: its parser has that as the default `kept`."""
    from app.errors import INTERRUPTED

    kept = getattr(options, "kept", "")
    _complain(f"interrupted; {kept and kept + '; '}run the command again to finish")
    return INTERRUPTED


def _complain(message: str) -> None:
    """Print a message without control characters: it may quote names of files and rows."""
    plain = "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in message)
    sys.stderr.write(f"trackside: {plain}\n")


def build_parser(verb: str | None = None) -> Parser:
    """The parser with this verb if it is one, so that no other is imported; else with all of them.

    `tests` walk the whole one to see that everything has help.
    """
    modules = modules_of(verbs)
    parser = Parser(prog="trackside", description=DESCRIPTION, epilog=EPILOG, formatter_class=HelpFormatter)
    parser.add_argument("--version", action="store_true", help="print version and the versions of the engines")
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for name in [verb] if verb in modules else modules:
        module = import_module(modules[name])
        module.add_parser(subparsers)
        subparsers.choices[name].set_defaults(run=module.run)
    return parser


def commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every verb with its parser, and every source or action of one: `ingest`, `ingest slurm`, ..."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for made in action.choices.values():
                yield made.prog.partition(" ")[2], made
                yield from commands(made)


if __name__ == "__main__":
    sys.exit(main())
