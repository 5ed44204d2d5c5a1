"""`trackside reproduce`: published measurements, read as they are, and the published numbers beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_format, add_verb, path_of

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    import polars as pl

    from app.cli.options import Subparsers
    from app.cli.rows import RowFormat
    from app.reproduce.publication import Comparison, Publication, Published, Sources

EPILOG = """\
Publications (without NAME they are listed):

  mlperf-v5.0   MLPerf Training 5.0, Llama 3.1 405B: time to train, scaling and MFU from the submitters' own logs, and
                the claims on them judged, that of more than 50 % MFU over both peaks that people use; other rounds:
                mlperf-v5.1, mlperf-v4.1; other benchmarks: --benchmark llama2_70b_lora
  elasticflow   GPU-hours of ten clusters of Microsoft, from 69,351 jobs
  straggler-artifact
                traces of slow jobs at ByteDance, operation by operation: how slow they were, and whether a node or the
                shape of the job is to blame

Nothing is downloaded. PATH is what you have downloaded yourself, unchanged: a checkout or a folder of it. Jobs and runs
become a warehouse like any other: every verb works on it with --warehouse."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "reproduce",
        "compute published measurements again, and compare the published numbers",
        epilog=EPILOG,
        manual="proof",
        warehouse=False,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="one of the publications below; without it, their list")
    parser.add_argument("path", nargs="?", type=path_of, metavar="PATH", help="file or folder of the published files")
    parser.add_argument(
        "--dir", type=path_of, metavar="D", help="folder for warehouse and report (default: trackside-NAME)"
    )
    parser.add_argument(
        "--dtype",
        type=_dtype,
        metavar="TYPE",
        help="data type of the matrix products of an MLPerf round, which its logs do not record: fp8 (built in for "
        "mlperf-v5.0)",
    )
    parser.add_argument(
        "--benchmark",
        action="append",
        default=[],
        metavar="NAME",
        help="a benchmark of an MLPerf round, by the name of its folder: llama2_70b_lora; may be repeated; or all "
        "(default: llama31_405b, or all where it is missing)",
    )
    add_format(parser)


def _dtype(text: str) -> str:
    """Data types of which a GPU's peak is known."""
    import argparse

    from metrics.mfu.peaks import columns_of

    if not columns_of(text):
        message = f"{text} is no data type whose peak is known; write fp8, bf16, or several: fp8+bf16"
        raise argparse.ArgumentTypeError(message)
    return text


def run(options: argparse.Namespace) -> int:
    """Read the publication, compute, and compare; list the publications where none is named.

    Raises:
        UsageError: there is no such publication, or nothing of it below the path.
    """
    from app import console
    from app.cli.rows import RowFormat
    from app.errors import UsageError
    from app.reproduce.publication import TracePublication
    from app.reproduce.registry import publication, publications

    if options.name is None:
        for each in publications().values():
            console.echo(f"{each.name:<19} {each.title}\n{'':<19} files: {each.origin}")
        return 0
    chosen = publication(options.name, options.dtype, options.benchmark)
    if options.path is None:
        raise UsageError(
            f"name the published files: trackside reproduce {chosen.name} PATH\nThey are at {chosen.origin}"
        )
    if not options.path.exists():
        raise UsageError(f"there is no {options.path}\nThe published files are at {chosen.origin}")
    if isinstance(chosen, TracePublication):
        rows, left_out = chosen.compare(options.path)
        _note_left_out(left_out, quiet=options.quiet)
        _put_rows(RowFormat.of(options), chosen, rows)
    else:
        _build_and_put(options, chosen)
    return 0


def _build_and_put(options: argparse.Namespace, chosen: Publication) -> None:
    from pathlib import Path

    from app import clock
    from app.cli.run_context import progress
    from app.config.settings import load
    from app.reproduce.build import build

    folder: Path = options.dir or Path(f"trackside-{chosen.name}")
    settings = load(options.config)
    sources = chosen.read(options.path)
    _note_left_out(sources.left_out, quiet=options.quiet)
    with progress(quiet=options.quiet) as report:
        build(sources, folder, settings, now=clock.now(), progress=report)
    _put(options, chosen, sources, folder)


def _put(options: argparse.Namespace, chosen: Publication, sources: Sources, folder: Path) -> None:
    """Print the comparison, and the verdicts on the publication's claims; write the reports."""
    from app import console
    from app.claims.printed import verdict_lines
    from app.cli.rows import RowFormat
    from app.reproduce.reports import judged_claims, write_figures, write_reports
    from app.terminal.terminal import Terminal
    from queries.warehouse import open_reader

    form = RowFormat.of(options)
    with open_reader(folder / "warehouse") as reader:
        _put_rows(form, chosen, chosen.compare(reader, sources))
        written = write_reports(reader, chosen, sources, folder)
        figures = write_figures(reader, chosen, folder)
        if form.form != "table":
            return
        for where, judged in judged_claims(reader, chosen, sources, folder):
            console.echo()
            console.lines_as_made(verdict_lines(judged, where, Terminal.of()))
    console.echo()
    question = "mfu --by run" if sources.run_logs else "goodput"
    console.echo(f"The warehouse: trackside show {question} --warehouse {folder / 'warehouse'}")
    for path in written:
        console.echo(f"The report: {path}")
    for path in figures:
        console.echo(f"The figure: {path}")


def _note_left_out(lines: list[str], *, quiet: bool) -> None:
    from app.cli.run_context import note

    for line in lines:
        note(f"not read: {line}", quiet=quiet)


def _put_rows(form: RowFormat, chosen: Published, rows: list[Comparison]) -> None:
    import textwrap

    from app import console
    from app.terminal.terminal import Terminal

    if form.form != "table":
        form.write(_frame(rows))
        return
    form.put(_shown([row for row in rows if row.unit]), title=chosen.title)
    for row in rows:
        if not row.unit:
            console.echo(textwrap.fill(f"{row.quantity}: {row.explanation}", Terminal.of().width or 120))


def _frame(rows: list[Comparison]) -> pl.DataFrame:
    import polars as pl

    schema = {
        **dict.fromkeys(("quantity", "unit"), pl.String()),
        **dict.fromkeys(("published", "computed", "difference"), pl.Float64()),
        "explanation": pl.String(),
    }
    cells = [(*row[:4], row.difference, row.explanation) for row in rows]
    return pl.DataFrame(cells, schema=schema, orient="row")


def _shown(rows: list[Comparison]) -> pl.DataFrame:
    import polars as pl

    from app.formatting import CANNOT_TELL

    return pl.DataFrame(
        {
            "quantity": [row.quantity for row in rows],
            "unit": ["%" if row.unit == "ratio" else row.unit for row in rows],
            "published": [_cell(row.published, row.unit, row.decimals) for row in rows],
            "computed": [CANNOT_TELL if row.computed is None else _cell(row.computed, row.unit) for row in rows],
            "difference": [_cell(row.difference, row.unit, row.decimals) for row in rows],
            "how": [row.explanation for row in rows],
        }
    )


def _cell(value: float | None, unit: str, decimals: int | None = None) -> str:
    if value is None:
        return ""
    decimals = decimals if decimals is not None else 3 if unit == "x" else 2
    rounded = round(value * 100 if unit == "ratio" else value, decimals) + 0.0  # no -0.00
    return f"{rounded:,.{decimals}f}"
