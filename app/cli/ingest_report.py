"""Results of the inputs of `trackside ingest`, and the next command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app import console
from app.cli import load_report
from ingest.errors import UnrecognisedInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.store.report import LoadReport
    from queries.warehouse import Writer

SHOWN: Final = 20
"""Inputs that could not be loaded of which each is printed, besides the first."""


def accounting_is_loaded(writer: Writer) -> bool:
    """Whether accounting has been loaded: telemetry and run logs are about its jobs."""
    return "slurm.accounting" in writer.query("status_sources")["source"]


def accounting_is_loaded_of(writer: Writer, reports: Sequence[LoadReport]) -> bool:
    """Whether the accounting of every cluster that the inputs name is loaded."""
    named = {cluster for report in reports if report.parsed is not None for cluster in report.parsed.clusters}
    return named <= set(writer.query("accounted_clusters")["cluster"])


def finish(
    reports: Sequence[LoadReport],
    *,
    files: bool,
    quiet: bool,
    jobs_known: bool = True,
    without_jobs: str = "",
    source: str = "",
) -> int:
    """Print the results of the inputs, and the next command.

    Args:
        reports: of the inputs.
        files: whether they were named.
        quiet: print errors only.
        jobs_known: whether the accounting of these jobs is loaded.
        without_jobs: the command that shows something without it.
        source: the folder of sources that was named, as which the files were read.

    Raises:
        Exception: the error of the first input that failed.
    """
    if not quiet:
        load_report.print_report(reports, files=files)
    errors = [report.error for report in reports if report.error is not None]
    for error in errors[1 : SHOWN + 1]:  # the first is raised, and printed last
        console.echo(f"trackside: {error}", error=True)
    if len(errors) > SHOWN + 1:
        console.echo(f"trackside: {len(errors) - SHOWN - 1:,} more could not be loaded: {_kinds(errors)}", error=True)
    if errors:
        first = next(report for report in reports if report.error is not None)
        raise _with_hint(first.origin, errors[0], source)
    if quiet or not any(report.parsed is not None and report.parsed.rows_read for report in reports):
        return 0
    if jobs_known:
        console.echo("Next: trackside compute", error=True)
    elif without_jobs:
        console.echo(f"Next: {without_jobs}", error=True)
    else:
        console.echo("Next: trackside ingest slurm (the accounting of these jobs), then trackside compute", error=True)
    return 0


def _with_hint(origin: str, error: Exception, source: str) -> Exception:
    """The error of a file, with the command that loads it if the file belongs to another source."""
    if not source or not isinstance(error, UnrecognisedInputError) or "trackside ingest" in str(error):
        return error
    from app.cli.file_kinds import command_for

    command = command_for(origin)
    if command is None or command.startswith(f"trackside ingest {source} "):
        return error
    return UnrecognisedInputError(f"{error}\nIt looks like another source's: {command}")


def _kinds(errors: Sequence[Exception]) -> str:
    """Number of errors that are not shown, by kind, and the last of each kind."""
    kinds: dict[str, list[Exception]] = {}
    for error in errors[SHOWN + 1 :]:
        kinds.setdefault(type(error).__name__, []).append(error)
    return "; ".join(f"{len(some):,} such as {str(some[-1]).splitlines()[0]}" for some in kinds.values())
