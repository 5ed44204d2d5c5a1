"""One function per verb of the command line: arguments in, exit status out."""

from __future__ import annotations

import contextlib
import difflib
import re
import sys
from typing import TYPE_CHECKING, Any

from app import clock, console
from app.cli import windows as periods
from app.config import settings as config
from app.errors import NothingToComputeError, UsageError
from app.results.windows import CLAIMED_GPUS
from app.times import iso
from queries.errors import QueryError
from queries.sandbox.run import Limits, user_sql
from queries.warehouse import open_reader, open_writer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    import polars as pl

    from app.show.answer import Answer, Question
    from app.window import Window
    from ingest.slurm.commands.runner import Runner
    from ingest.store.report import Report
    from queries.warehouse import CheckResult, Reader, Writer


def demo(options: argparse.Namespace) -> int:
    """Simulate a cluster and show everything on it."""
    from app.demo.demo import run

    return run(options)


def simulate(options: argparse.Namespace) -> int:
    """Write a simulated cluster's files."""
    from app.demo.simulate import run

    return run(options)


def report(options: argparse.Namespace) -> int:
    """Write a report for a period."""
    from app.reports.sla.write import run

    return run(options)


def explore(options: argparse.Namespace) -> int:
    """Serve the explorer."""
    from app.service.server import explore as run

    return run(options)


def serve(options: argparse.Namespace) -> int:
    """Ingest and compute on a schedule; serve explorer, exporter and health."""
    from app.service.server import serve as run

    return run(options)


def _future(root: Path, now: datetime, options: argparse.Namespace, group: str | None) -> int:
    from app.cli import future_rows

    if options.dry_run:
        with open_reader(root) as reader:
            found = future_rows.stored(reader, now=now)
    else:
        with open_writer(root, verb="trackside retention", now=now, group=group) as writer:
            found = future_rows.take_out(writer, now=now)
    if not options.quiet:
        future_rows.say(found, done=not options.dry_run)
    return 0


def retention(options: argparse.Namespace) -> int:
    """Take out what is older than it is to be kept."""
    from app.cli.retention_report import say
    from ingest.prometheus.store import retention as retaining

    settings, root = _settings(options)
    _must_exist(root)
    now = clock.now()
    if options.future:
        return _future(root, now, options, settings.warehouse_group)
    if options.dry_run:
        with open_reader(root) as reader:
            found = retaining.due(reader, settings.retention, now=now)
    else:
        with open_writer(root, verb="trackside retention", now=now, group=settings.warehouse_group) as writer:
            found = retaining.retain(writer, settings, now=now)
    if not options.quiet:
        say(found, settings.retention, done=not options.dry_run)
    return 0


def dashboards(options: argparse.Namespace) -> int:
    """Write or check the Grafana boards."""
    from app.boards import run

    return run(options)


def recorder(options: argparse.Namespace) -> int:
    """Print the run-log recorder."""
    from ingest.runlog.store import recorder_text

    if options.output is None:
        console.say(recorder_text().removesuffix("\n"))
        return 0
    try:
        options.output.write_text(recorder_text(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{options.output} cannot be written: {error.strerror}") from None
    return 0


def version(_: argparse.Namespace) -> int:
    """Print our version and the engines'."""
    from app.cli.doctor import versions

    for name, number in versions().items():
        console.say(f"{name} {number}")
    return 0


def ingest(options: argparse.Namespace) -> int:
    """Read one source."""
    return {"slurm": _ingest_slurm, "prometheus": _ingest_prometheus, "runlog": _ingest_runlog}[options.source](options)


def _ingest_prometheus(options: argparse.Namespace) -> int:
    """Read telemetry from a server or from files."""
    from ingest.prometheus.load_files import ingest_files
    from ingest.prometheus.load_live import ingest_live
    from ingest.prometheus.target import TelemetryRequest
    from ingest.slurm.load_files import once_only

    once_only(options.files)
    settings, root = _settings(options)
    now = clock.now()
    asked = TelemetryRequest(
        url=options.url,
        cluster=options.cluster,
        since=periods.moment(options.since, end=now),
        until=periods.moment(options.until, end=now),
    )
    with (
        _progress(quiet=options.quiet) as tell,
        open_writer(root, verb="trackside ingest prometheus", now=now, group=settings.warehouse_group) as writer,
    ):
        if options.files:
            reports = ingest_files(writer, settings, options.files, asked, now=now, progress=tell)
        else:
            reports = ingest_live(writer, settings, asked, now=now, progress=tell)
        known = _knows_jobs(writer)
    return _done(reports, files=bool(options.files), quiet=options.quiet, known=known)


def _knows_jobs(writer: Writer) -> bool:
    """Whether accounting has been loaded: telemetry and run logs speak of its jobs."""
    return "slurm.accounting" in writer.query("status_sources")["source"]


def _ingest_runlog(options: argparse.Namespace) -> int:
    """Read run logs."""
    from ingest.runlog import store as runlogs
    from ingest.slurm.load_files import once_only

    once_only(options.files)
    settings, root = _settings(options)
    now = clock.now()
    cluster = options.cluster or settings.cluster
    with (
        _progress(quiet=options.quiet) as tell,
        open_writer(root, verb="trackside ingest runlog", now=now, group=settings.warehouse_group) as writer,
    ):
        reports = runlogs.ingest_files(writer, options.files, cluster=cluster, now=now, progress=tell)
        known = _knows_jobs(writer)
    return _done(reports, files=bool(options.files), quiet=options.quiet, known=known)


def _done(reports: Sequence[Report], *, files: bool, quiet: bool, known: bool = True) -> int:
    """Say what came of the inputs.

    Raises:
        Exception: the first one that an input failed of.
    """
    from app.cli.load_report import say

    if not quiet:
        say(reports, files=files)
    errors = [report.error for report in reports if report.error is not None]
    for error in errors[1:]:  # the first is raised, and said last
        console.say(f"trackside: {error}", error=True)
    if errors:
        raise errors[0]
    if quiet or not any(report.parsed is not None and report.parsed.rows_read for report in reports):
        return 0
    if known:
        console.say("Next: trackside compute", error=True)
    else:
        console.say("Next: trackside ingest slurm (the accounting of these jobs), then trackside compute", error=True)
    return 0


def _ingest_slurm(options: argparse.Namespace) -> int:
    """Read Slurm, live or from files."""
    from ingest.slurm import load_files as ingesting
    from ingest.slurm.live import ingest as live_ingest

    _refuse_mixed(options)
    settings, root = _settings(options)
    now = clock.now()
    end = None if options.files else now
    asked = ingesting.Options(
        cluster=options.cluster,
        timezone=options.timezone,
        delimiter=None if options.delimiter is None else delimiter(options.delimiter),
        accept_truncated=options.accept_truncated,
        since=periods.moment(options.since, end=end),
        until=periods.moment(options.until, end=end),
    )
    with (
        _progress(quiet=options.quiet) as tell,
        open_writer(root, verb="trackside ingest slurm", now=now, group=settings.warehouse_group) as writer,
    ):
        if options.files:
            reports = ingesting.ingest_files(writer, settings, options.files, asked, now=now, progress=tell)
        else:
            runner = _runner(settings.slurm.timeout_s)
            reports = live_ingest.ingest_live(
                writer, settings, asked, now=now, runner=runner, progress=tell, tell=_note(options), again=options.again
            )
    loaded = [report.parsed for report in reports if report.parsed is not None]
    if options.files and loaded and (asked.since or asked.until):
        since, until = (iso(moment) if moment else "what they tell" for moment in (asked.since, asked.until))
        whole = len(loaded) == len(reports) and not any(parsed.rows_rejected for parsed in loaded)
        said = f"taken as what the files were asked for: {since} to {until}"
        _note(options)(said + ("; no row was left out" if whole else ""))
    return _done(reports, files=bool(options.files), quiet=options.quiet)


def _refuse_mixed(options: argparse.Namespace) -> None:
    """What is about files is nothing for live reading, and the other way round."""
    if options.files and options.again:
        raise UsageError("--again asks Slurm for what was read before; leave it out with files: loading twice is safe")
    if not options.files and (options.timezone or options.delimiter or options.accept_truncated):
        raise UsageError("--timezone, --delimiter and --accept-truncated are about files, and none is named")


def _note(options: argparse.Namespace) -> Callable[[str], None]:
    """Says on stderr what a person should know beside the reports."""
    return lambda text: None if options.quiet else console.say(text, error=True)


def _runner(timeout_s: float) -> Runner:
    from ingest.slurm.commands.runner import subprocess_runner

    return lambda command, environment: subprocess_runner(command, environment, timeout_s=timeout_s)


_ESCAPES = {r"\t": "\t", r"\0": "\0", r"\\": "\\"}
"""What is hard to type, and what it stands for; beside `\\xNN`."""


def delimiter(typed: str) -> str:
    r"""A delimiter as typed in a shell: `\t`, `\0`, `\xNN` and `\\` mean the characters, all else is as it stands.

    Raises:
        UsageError: it is empty, has an escape that is none of these, or is no text at all.

    >>> delimiter(r"\t"), delimiter(r"\x1f"), delimiter("¦"), delimiter(r"\\")
    ('\t', '\x1f', '¦', '\\')
    """

    def meant(found: re.Match[str]) -> str:
        escape = found[0]
        if escape not in _ESCAPES and len(escape) < len(r"\xNN"):
            raise UsageError(
                f"--delimiter {typed}: {escape} means nothing here; write \\t (a tab), \\x1f (a character by its "
                "number), or \\\\ (a backslash)"
            )
        return _ESCAPES.get(escape) or chr(int(escape[2:], 16))

    if not typed:
        raise UsageError("--delimiter is empty; leave it out, and it is found by itself")
    if any("\ud800" <= each <= "\udfff" for each in typed):  # bytes that are no UTF-8
        raise UsageError("--delimiter is not UTF-8; write the character itself")
    return re.sub(r"\\(x[0-9A-Fa-f]{2}|.?)", meant, typed, flags=re.DOTALL)


def compute(options: argparse.Namespace) -> int:
    """Rebuild the derived tables."""
    from app.compute import pipeline as computing

    settings, root = _settings(options)
    _must_exist(root)
    now = clock.now()
    with (
        _progress(quiet=options.quiet) as tell,
        open_writer(root, verb="trackside compute", now=now, group=settings.warehouse_group) as writer,
    ):
        done = computing.compute(
            writer,
            settings,
            now=now,
            since=periods.moment(options.since, end=None),
            until=periods.moment(options.until, end=None),
            full=options.full,
            progress=lambda what: tell(what, 0, 1),
        )
    if not options.quiet:
        for window, days in zip(done.clusters, done.days, strict=True):
            console.say(
                f"{window.cluster}: {iso(window.since)} to {iso(window.until)}; of {days.known:,} days of the ledger "
                f"{days.changed:,} changed",
                error=True,
            )
        for cluster in done.empty:
            console.say(
                f"{cluster}: no accounting is loaded, or none of this period, so there is nothing to compute",
                error=True,
            )
        _warn(done.warnings)
    if done.claims_error is not None:
        console.say(f"warning: the numbers are computed, but no verdict is stored: {done.claims_error}", error=True)
    if not done.clusters:
        raise NothingToComputeError("nothing was computed: no accounting is loaded. First: trackside ingest slurm")
    if not options.quiet:
        console.say("Next: trackside show goodput", error=True)
    return 0


def _must_exist(root: Path) -> None:
    """A verb that only recomputes makes no new warehouse out of a mistyped name."""
    if not (root / "warehouse.duckdb").exists():
        with open_reader(root):  # raises, and says what to do
            pass


def _warn(found: Sequence[CheckResult]) -> None:
    for result in found:
        console.say(f"warning: {result.check.description} ({result.count}; {result.check.name})", error=True)


def status(options: argparse.Namespace) -> int:
    """Show what was read and what was refused."""
    from app.cli import status as health

    _, root = _settings(options)
    with open_reader(root) as reader:
        if options.format == "json":
            console.document(health.document(reader, now=clock.now()))
        else:
            health.status(reader, now=clock.now())
    return 0


def doctor(options: argparse.Namespace) -> int:
    """Check installation, warehouse and sources."""
    from app.cli.doctor import examine

    settings, root = _settings(options)
    if options.repair:
        from app.service import integrity

        integrity.say(integrity.repair(root, group=settings.warehouse_group, now=clock.now()))
    return examine(root, settings, now=clock.now())


def show(options: argparse.Namespace) -> int:
    """Answer a question."""
    from app.results.unknown_gpus import unknown_gpus_notes
    from app.show import QUESTIONS
    from app.show import answer as showing
    from app.show.selection import windows_with_run

    _, root = _settings(options)
    of_runs = ("runs", "ettr", "mfu", "checkpoints", "restarts", "interruptions")
    if options.run_id is not None and options.what not in of_runs:
        raise UsageError(f"--run is for `show {', '.join(of_runs)}`; `show {options.what}` can be split with --by")
    if options.at is not None and options.what != "mttf":
        raise UsageError("--at is for `show mttf`")
    if options.convention is not None and options.what != "mfu":
        raise UsageError("--convention is for `show mfu`")
    question = showing.Question(
        by=options.by, run=options.run_id, at_gpus=options.at or CLAIMED_GPUS, convention=options.convention
    )
    with open_reader(root) as reader:
        windows = periods.windows(reader, options)
        if options.run_id is not None:
            windows = windows_with_run(reader, windows, options.run_id)
        answered = _answers(QUESTIONS[options.what], reader, windows, question)
        windows = [*answered]
        answers = [showing.noted(answered[window], unknown_gpus_notes(reader, window)) for window in windows]
        found = showing.together(answers, windows)
        explained = showing.explain(reader, found, windows) if options.explain else None
    if _form(options) != "table":
        _write(found.rows, options, extra=explained and {"explain": explained})
        return 0
    if found.shown.is_empty():
        console.say(found.when_empty)
    else:
        spans = ", ".join(f"{w.cluster} {iso(w.since)} to {iso(w.until)}" for w in windows)
        console.table(f"{found.title}: {spans}", found.shown, found.columns)
    for note in found.notes:
        console.say(note)
    if explained is not None:
        for details in found.details:
            console.table(details.title, details.rows, details.columns)
        console.explanation(explained)
    return 0


def _answers(
    ask: Callable[[Reader, Window, Question], Answer], reader: Reader, windows: list[Window], question: Question
) -> dict[Window, Answer]:
    """The answer of each cluster; one that cannot be given is reported, and the others are.

    Raises:
        UsageError: none can be given.
    """
    found: dict[Window, Answer] = {}
    refused: list[UsageError] = []
    for window in windows:
        try:
            found[window] = ask(reader, window, question)
        except UsageError as error:
            refused.append(error)
    if refused and not found:
        raise refused[0]
    for each in refused:
        console.say(str(each), error=True)
    return found


def verify(options: argparse.Namespace) -> int:
    """Judge claims."""
    import polars as pl

    from app.claims import verify as verifying

    settings, root = _settings(options)
    claims = verifying.read_claims(options.claims or settings.claims)
    with open_reader(root) as reader:
        judged = [
            (window, verifying.verify(reader, asked, claims))
            for window, asked in periods.computed_and_asked(reader, options, every=True)
        ]
    if _form(options) == "table":
        for window, verdicts in judged:
            console.verdicts(verdicts, f"{window.cluster} {iso(window.since)} to {iso(window.until)}")
    else:
        rows = pl.concat([verifying.as_rows(verdicts, window) for window, verdicts in judged], how="diagonal_relaxed")
        _write(rows, options)
    return verifying.exit_status([each for _, verdicts in judged for each in verdicts])


def adjudicate(options: argparse.Namespace) -> int:
    """Write a person's correction, or list them."""
    from app.corrections import make as adjudicating

    settings, root = _settings(options)
    _must_exist(root)
    if options.action == "list":
        return _list_adjudications(options, root)
    now = clock.now()
    with (
        _progress(quiet=options.quiet) as tell,
        open_writer(root, verb="trackside adjudicate", now=now, group=settings.warehouse_group) as writer,
    ):
        done = adjudicating.adjudicate(writer, settings, options, now=now, progress=lambda what: tell(what, 0, 1))
    adjudicating.say(done, quiet=options.quiet)
    return 0


def _list_adjudications(options: argparse.Namespace, root: Path) -> int:
    from app.corrections import describe as adjudication_words
    from app.corrections import records as adjudications

    with open_reader(root) as reader:
        known = adjudications.known(reader, options.cluster)
    rows = adjudication_words.as_rows([each for each in known if options.all or each.counts])
    if _form(options) != "table":
        _write(rows, options)
    elif rows.is_empty():
        console.say("Nobody has corrected anything. trackside adjudicate --help says how.")
    else:
        console.table("", rows, adjudication_words.SHOWN | (adjudication_words.SHOWN_WITHDRAWN if options.all else {}))
    return 0


def docs(options: argparse.Namespace) -> int:
    """Print a page of the manual."""
    from app.cli import docs as pages

    pages.show(options.topic)
    return 0


def sql(options: argparse.Namespace) -> int:
    """Run one SELECT."""
    settings, root = _settings(options)
    limits = Limits(settings.sql.rows, settings.sql.seconds, settings.sql.memory_mb, settings.sql.result_mb)
    rows, more = user_sql(root, options.sql, limits)
    _put(rows, options)
    if more:
        console.say(f"only the first {rows.height:,} rows are shown (config: sql.rows, sql.result_mb)", error=True)
    return 0


def export(options: argparse.Namespace) -> int:
    """Write a whole table."""
    _, root = _settings(options)
    with open_reader(root) as reader:
        if options.table == "tables":
            for name in sorted(reader.relations()):
                console.say(name)
            return 0
        rows = reader.table(_known(options.table, reader.relations()))
    _put(rows, options, title=options.table)
    return 0


def _known(name: str, names: Collection[str]) -> str:
    """The name of a table.

    Raises:
        QueryError: there is none of that name.
    """
    if name in names:
        return name
    close = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    raise QueryError(f"there is no table {name!r}{hint}\nAll of them: trackside export tables")


def _put(rows: pl.DataFrame, options: argparse.Namespace, *, title: str = "") -> None:
    """Rows of any columns, in the format asked for."""
    if _form(options) == "table":
        console.table(title, rows, {name: (name, "text") for name in rows.columns})
    else:
        _write(rows, options)


def _write(rows: pl.DataFrame, options: argparse.Namespace, *, extra: dict[str, Any] | None = None) -> None:
    """Rows for machines, in the format asked for.

    Raises:
        UsageError: they cannot be written so.
    """
    form = _form(options)
    if options.spreadsheet_safe and form != "csv":
        raise UsageError("--spreadsheet-safe is for CSV: say --format csv, or -o FILE.csv")
    console.write(rows, form, options.output, extra=extra, spreadsheet_safe=options.spreadsheet_safe)


def _form(options: argparse.Namespace) -> str:
    """The format asked for; a file's ending says it too."""
    form = str(options.format or ("csv" if options.output is None else "table"))
    if form != "table" or options.output is None:
        return form
    ending = str(options.output.suffix).removeprefix(".")
    if ending not in console.FORMATS[1:]:
        raise UsageError(f"{options.output}: say --format json, csv or parquet, or end the file's name so")
    return ending


def _settings(options: argparse.Namespace) -> tuple[config.Config, Path]:
    settings = config.load(options.config)
    return settings, options.warehouse or settings.warehouse


@contextlib.contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal, nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield lambda _what, _done, _total: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console.console(error=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def tell(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total if total > 1 else None)

        yield tell
