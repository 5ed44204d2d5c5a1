"""The verbs and sources that are there, options that several share, and how each adds its parser.

Nothing heavy is imported here: `trackside --help` reads the parsers of all verbs.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from app.cli.help.formatting import HelpFormatter
from app.package_files import files_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType
    from typing import TypeAlias

    Subparsers: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]


def modules_of(package: ModuleType) -> dict[str, str]:
    """The public modules of a package and of the folders in it: full names by own names, which are sorted.

    >>> from app.cli import verbs
    >>> list(modules_of(verbs).items())[:2]
    [('adjudicate', 'app.cli.verbs.data.adjudicate'), ('backfill', 'app.cli.verbs.serving.backfill')]
    """
    return dict(sorted((name.rpartition(".")[2], f"{package.__name__}.{name}") for name in files_of(package)))


def path_of(text: str) -> Path:
    """A path as typed. `pathlib` is imported when one is: it would be a tenth of the time of `trackside --help`."""
    from pathlib import Path

    return Path(text)


def add_verb(
    subparsers: Subparsers,
    name: str,
    help_: str,
    *,
    warehouse: bool = True,
    config: bool = True,
    writes: bool = False,
    epilog: str = "",
    manual: str = "",
) -> argparse.ArgumentParser:
    """The parser of a verb, or of an action below one, with the common options.

    Args:
        subparsers: the argument of the verb's `add_parser(subparsers)`, or the actions of a verb.
        name: of the verb.
        help_: one line; `trackside --help` shows it, and the verb's own help begins with it.
        warehouse: whether it works on a warehouse; otherwise it has no --warehouse.
        config: whether it reads the configuration; as above.
        writes: whether it writes into the warehouse, which a lake does not take.
        epilog: text of its own help below the options.
        manual: page of the manual that its help ends with; empty means its section of `reference/cli`.
    """
    description = help_[0].upper() + help_[1:] + "."
    common = common_options(warehouse=warehouse, config=config, writes=writes)
    return _add_parser(subparsers, name, help_, description=description, common=common, epilog=epilog, manual=manual)


def _add_parser(
    subparsers: Subparsers,
    name: str,
    help_: str,
    *,
    description: str,
    common: argparse.ArgumentParser,
    epilog: str = "",
    manual: str = "",
) -> argparse.ArgumentParser:
    """The parser of a verb, or of a source or an action below one, whose texts keep their line breaks."""
    parser = subparsers.add_parser(
        name,
        help=help_,
        description=description,
        parents=[common],
        formatter_class=HelpFormatter,
    )
    topic = manual or f"reference/cli#{parser.prog.replace(' ', '-')}"
    line = f"Manual: trackside docs {topic}"
    parser.epilog = f"{epilog}\n\n{line}" if epilog else line
    return parser


def add_late_epilog(parser: argparse.ArgumentParser, text: Callable[[], str]) -> None:
    """Put a text, made only when the help is printed, before the parser's last line, the page of the manual."""
    manual, format_help = parser.epilog, parser.format_help

    def with_epilog() -> str:
        parser.epilog = f"{text()}\n\n{manual}"
        return format_help()

    parser.format_help = with_epilog  # type: ignore[method-assign]  # argparse has no other hook


def common_options(*, warehouse: bool = True, config: bool = True, writes: bool = False) -> argparse.ArgumentParser:
    """Options of all verbs, except those that a verb does not use."""
    place = "warehouse directory" if writes else "warehouse directory, or a lake"
    common = argparse.ArgumentParser(add_help=False)
    group = common.add_argument_group("common options")
    if warehouse:
        group.add_argument(
            "--warehouse",
            type=path_of,
            metavar="DIR",
            help=f"{place} (else $TRACKSIDE_WAREHOUSE, else the config)",
        )
    if config:
        group.add_argument(
            "--config",
            type=path_of,
            metavar="FILE",
            help="configuration (else $TRACKSIDE_CONFIG, else ./trackside.toml)",
        )
    group.add_argument("--quiet", "-q", action="store_true", help="no progress, only results and errors")
    return common


def add_period(parser: argparse.ArgumentParser) -> None:
    """--since and --until."""
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="start, UTC: 2026-10-01, 2026-10-01T12:00, or 7d: seven days before the end of the data",
    )
    parser.add_argument("--until", metavar="TIME", help="end, UTC, not included (default: the end of the data)")


def add_format(parser: argparse.ArgumentParser, *, usual: str = "table") -> None:
    """--format, --output and --spreadsheet-safe."""
    parser.add_argument(
        "--format", choices=("table", "json", "csv", "parquet"), default="table", help=f"default: {usual}"
    )
    parser.add_argument(
        "--output",
        "-o",
        type=path_of,
        metavar="FILE",
        help="file to write; its ending .json, .csv or .parquet sets the format",
    )
    parser.add_argument(
        "--spreadsheet-safe",
        action="store_true",
        help="for CSV: put an apostrophe before texts that a spreadsheet would run as a formula",
    )


def add_table(parser: argparse.ArgumentParser) -> None:
    """--limit, --all, --columns, --sort and --wide: what of a table is shown; see `app.cli.rows.row_options`."""
    group = parser.add_argument_group("rows and columns")
    rows = number_of("rows", least=1)
    group.add_argument("--limit", type=rows, metavar="N", help="only the first N rows (a terminal: 20; else all)")
    group.add_argument("--all", action="store_true", help="all rows, in a terminal too")
    group.add_argument("--columns", metavar="NAME,...", help="these columns, by their names in CSV or their headings")
    group.add_argument(
        "--sort",
        metavar="NAME[:asc|desc]",
        help="sort by a column; numbers from the largest, or with :asc from the smallest",
    )
    group.add_argument("--wide", action="store_true", help="all columns, in lines longer than the terminal is wide")


def number_of(what: str, *, least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of an option that is a number of something, within bounds.

    >>> number_of("rows", least=1)("20")
    20
    """
    bounds = f"at least {least}" if most is None else f"{least} to {most}"

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of {what}, {bounds}")
        return int(text)

    return number


def add_address(parser: argparse.ArgumentParser) -> None:
    """--host, --port and --without-login."""
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        help="address to listen on (default: 127.0.0.1, this machine only); any other needs a login ([access] in the "
        "configuration), or --without-login",
    )
    parser.add_argument(
        "--without-login", action="store_true", help="serve other machines without a login: everyone sees everything"
    )
    parser.add_argument("--port", type=int, metavar="PORT", help="port (default: 8050; 0: any free one)")


def add_claims(parser: argparse.ArgumentParser) -> None:
    """--claims."""
    parser.add_argument(
        "--claims", type=path_of, metavar="FILE", help="TOML file of claims (default: the vendor's headlines)"
    )


def add_source(
    subparsers: Subparsers, name: str, help_: str, *, description: str, epilog: str, manual: str = ""
) -> argparse.ArgumentParser:
    """The parser of a source of `trackside ingest`, with the common options."""
    common = common_options(writes=True)
    parser = _add_parser(subparsers, name, help_, description=description, common=common, epilog=epilog, manual=manual)
    parser.set_defaults(kept="inputs that were loaded completely are kept, and loading them again changes nothing")
    return parser
