"""`trackside verify`: judge claims against the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_claims, add_format, add_period, add_verb

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


EPILOG = """\
A claims file is TOML with one [[claim]] each: id, metric, quoted (the words used), read_as (what is tested), kind
(delivered: judged by bounds; capability: judged by its 95 % interval), target, direction (at_least or at_most), and
where they apply gpus, min_run_hours, flop_convention, failure_class (infrastructure or unplanned) and population
(pooled or bucket). A file to start from: trackside verify --print-claims > claims.toml

A claim may also have:
  window = "2026-10"                          its own period (a month, a day, FROM..UNTIL), or "28d" before the end
  scope = { partition = "train", gpus_min = 512 }     or account, user, nodes, gpu_model, gpus_max
  exclusions = [
   { from = "2026-10-05T08:00", until = "2026-10-05T12:00", reason = "agreed" },
   { category = "maintenance", nodes = "gpu[01-08]", reason = "agreed" },
  ]                     time in neither part of the fraction; always printed
A key that a metric cannot honour is refused. An undetermined verdict states what would
decide it, and one-sided results.

A claim of "up to" cannot be refuted by its words: it is "refuted as read" (--explain shows the reading).

exit status: 3 if any claim is refuted, else 4 if any is undetermined, else 0 (errors use neither)"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "verify",
        "judge claims against the data: supported, refuted or undetermined",
        epilog=EPILOG,
        manual="how-to/claims",
    )
    add_claims(parser)
    parser.add_argument(
        "--explain", action="store_true", help="also print how each claim is read, the evidence and the arithmetic"
    )
    parser.add_argument(
        "--print-claims", action="store_true", help="print the claims file that is used, to copy and change"
    )
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster")
    add_period(parser)
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Judge claims; the exit status is that of the worst verdict."""
    import polars as pl

    from app import console
    from app.claims import verify
    from app.claims.file import claims_text, read_claims
    from app.claims.printed import verdict_lines
    from app.cli.rows import RowFormat
    from app.cli.run_context import settings_and_root
    from app.periods import Period, computed_and_requested
    from app.terminal.pager import page
    from app.terminal.terminal import Terminal
    from app.times import iso
    from queries.warehouse import open_reader

    settings, root = settings_and_root(options)
    if options.print_claims:
        console.echo(claims_text(options.claims or settings.claims).rstrip("\n"))
        return 0
    claims = read_claims(options.claims or settings.claims)
    period = Period(options.cluster, options.since, options.until)
    with open_reader(root) as reader:
        judged = [
            (window, verify.verify(reader, requested, claims))
            for window, requested in computed_and_requested(reader, period, every=True)
        ]
    rows_as = RowFormat.of(options)
    if rows_as.form == "table":
        terminal = Terminal.of()
        lines: list[str] = []
        for window, verdicts in judged:
            where = f"{window.cluster} {iso(window.since)} to {iso(window.until)}"
            lines += ["", *verdict_lines(verdicts, where, terminal, explain=options.explain)]
        page("\n".join(lines[1:]) + "\n", terminal)
    else:
        rows = pl.concat([verify.as_rows(verdicts, window) for window, verdicts in judged], how="diagonal_relaxed")
        rows_as.write(rows)
    return verify.exit_status([each for _, verdicts in judged for each in verdicts])
