"""`trackside demo`: a simulated cluster, read through the real ingesters, with its truth next to what was found.

    DIR/.trackside-demo   marks the folder as the demo's, and has the steps that are done
    DIR/sources, DIR/truth.json, DIR/truth   what `trackside simulate` writes
    DIR/warehouse         what was read and computed; every other verb works on it with --warehouse
    DIR/sla-....html, DIR/grafana            the report and the boards

A step that is done is not done again: after an interruption the demo goes on where it was.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import itertools
import json
import shutil
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from app import clock, formatting
from app import console as output
from app.claims import verify as verifying
from app.claims.file import read_claims
from app.claims.printed import verdict_lines
from app.claims.stored import StoredClaims
from app.compute import pipeline as computing
from app.demo import apart
from app.demo.planted import compared_agreement, compared_anomalies, compared_stragglers, compared_work
from app.demo.prices import EXAMPLE_PRICES, PRICES
from app.demo.simulate import (
    KUBERNETES_FILES,
    MANIFEST,
    SLURM_FILES,
    SNAPSHOT_FILES,
    STAGES,
    TELEMETRY_FILES,
    Settings,
    simulate,
)
from app.demo.simulate.plan import CLUSTER
from app.errors import UsageError
from app.json_text import as_json
from app.output_file import write_file
from app.progress import progress
from app.results.headlines import headlines
from app.results.steps.stragglers import rank_times
from app.results.telemetry.anomalies import anomalies
from app.terminal.terminal import Terminal
from app.times import iso, parse_period
from app.window import Window
from ingest.kubernetes import store as kubernetes
from ingest.prometheus.load_files import ingest_files
from ingest.prometheus.target import TelemetryRequest
from ingest.ranks import store as ranks
from ingest.runlog import store as runlogs
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from metrics.stragglers.sessions import session_stragglers
from queries.warehouse import open_reader, open_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from app.config import settings as config
    from app.results.headlines import Headline
    from ingest.store.report import LoadReport
    from metrics.claims.verdict import Judged
    from queries.warehouse import Reader

    ReportProgress = Callable[[str, int, int], None]

DEFAULT_FOLDER = Path("trackside-demo")
MARKER = ".trackside-demo"
OURS = ("sources", "truth", "truth.json", MANIFEST, "warehouse", "grafana", PRICES)
"""Files that a demo writes into its folder, and may delete there."""

NEEDS = "The demo needs about two minutes on two free cores, 2.5 GB of memory and 0.5 GB of disk."
"""Needs of a demo of the usual size."""

LARGE_GPU_DAYS = 10_000
"""Steps of a larger demo run in processes of their own: libraries keep much of the memory that they have freed."""

PERIOD = "2026-10"
"""The period of the report."""

STRAGGLING = "pretrain-70b"
"""A run that every simulation has; of the usual size it has a slow node among its own for five days."""


def serve(folder: Path, settings: config.Config, address: tuple[str, int]) -> None:
    """Serve the explorer of a demo until it is stopped.

    Args:
        folder: of the demo.
        settings: claims, and what the explorer needs.
        address: host and port to listen on.
    """
    from app.service.server import serve_explorer  # noqa: PLC0415 - heavy, and only where it is served

    output.echo()
    with contextlib.suppress(KeyboardInterrupt):
        serve_explorer(folder / "warehouse", settings, host=address[0], port=address[1])


def show(folder: Path, settings: config.Config, *, simulated: Settings | None = None, quiet: bool = False) -> None:
    """Make what is not there yet, then print the numbers next to the truth, the verdicts, and where everything is."""
    made = DemoFolder.open(folder, simulated or Settings())
    steps = _steps(made, settings)
    needs = _needs(made, steps)
    if needs and not quiet:
        output.echo(needs)
    for step in steps:
        _do(step, made, settings, quiet=quiet)
    truth = json.loads((folder / "truth.json").read_text("utf-8"))
    with open_reader(folder / "warehouse") as reader:
        computed = reader.query("computed", cluster=CLUSTER).row(0, named=True)
        window = Window(CLUSTER, computed["since"], computed["until"])
        claims = read_claims(settings.claims)
        numbers, judged = headlines(reader, window), verifying.verify(reader, window, claims)
        deviating = anomalies(reader, window).rows
        disagreeing = reader.query("sync_intervals_in", **window.parameters)
        straggling = session_stragglers(rank_times(reader, window))
        attempts, evictions, outlived = map(reader.table, ("attempts", "evictions", "outlived_jobs"))
    where = f"{CLUSTER} {iso(window.since)} to {iso(window.until)}"
    output.echo()
    output.table(f"{made.simulated.gpus:,} simulated GPUs: {where}", *_numbers(numbers, truth["headlines"]))
    output.echo("truth: recorded by the simulator; Trackside read only its files. bounds: unobserved time both ways.")
    output.echo()
    output.lines_as_made(verdict_lines(judged, where, Terminal.of()))
    output.echo()
    for line in (
        *_closing(judged),
        *compared_anomalies(deviating, truth["anomalies"]),
        compared_stragglers(straggling, truth["stragglers_of_runs"]),
        compared_agreement(disagreeing, truth["disagreements"]),
        *compared_work(attempts, evictions, outlived, truth["kubernetes"]),
    ):
        output.echo(line)
    output.echo()
    for line in _places(folder):
        output.echo(line)


# --- the folder --------------------------------------------------------------------------------------------


@dataclass
class DemoFolder:
    """The demo's folder, and what is done in it."""

    path: Path
    simulated: Settings
    done: list[str]

    @classmethod
    def open(cls, path: Path, simulated: Settings) -> DemoFolder:
        """Take the folder up where it was left, or begin it.

        Raises:
            UsageError: the folder holds something that no demo put there, or cannot be written.
        """
        marker = path / MARKER
        try:
            if path.exists() and not marker.exists() and (not path.is_dir() or any(path.iterdir())):
                raise UsageError(f"{path} is not empty and was not made by a demo; name another with --dir")
            path.mkdir(parents=True, exist_ok=True)
            folder = cls(path, simulated, _done(marker, simulated))
            if not folder.done:
                folder.clear()
            folder.save()
        except OSError as error:
            raise UsageError(f"{path} cannot be used for the demo: {error.strerror}") from None
        return folder

    def clear(self) -> None:
        """Remove what an earlier demo left half done, or made in another way."""
        for target in [*(self.path / name for name in OURS), *self.path.glob("sla-*.html")]:
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            else:
                target.unlink(missing_ok=True)

    def save(self) -> None:
        """Write down what is done, in one move."""
        text = as_json({"made_by": _made_by(self.simulated), "done": self.done}) + "\n"
        write_file(self.path / MARKER, text.encode())


def _made_by(simulated: Settings) -> dict[str, Any]:
    return {
        "trackside": importlib.metadata.version("trackside"),
        "simulated": simulated.__dict__,
        "sources": [*SLURM_FILES, *SNAPSHOT_FILES, *KUBERNETES_FILES, *TELEMETRY_FILES],
    }


def _done(marker: Path, simulated: Settings) -> list[str]:
    """Steps done by a demo just like this one; none if it was another, or its marker cannot be read."""
    try:
        content = json.loads(marker.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return []
    if not isinstance(content, dict) or content.get("made_by") != _made_by(simulated):
        return []
    done = content.get("done")
    return [str(name) for name in done] if isinstance(done, list) else []


# --- the steps ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _DemoStep:
    """Something to do once; `work` gets a function that reports progress, and returns the result."""

    name: str
    title: str
    work: Callable[[ReportProgress], str]


def _now(made: DemoFolder) -> datetime:
    """The time of the demo: a machine whose clock is behind the simulation must not take its data for the future."""
    return max(clock.now(), datetime.fromtimestamp(made.simulated.end, UTC))


def _steps(made: DemoFolder, settings: config.Config) -> list[_DemoStep]:
    sources = made.path / "sources"

    def slurm(report_progress: ReportProgress) -> str:
        files = [str(sources / name) for name in SLURM_FILES]
        options = ingesting.Options(cluster=CLUSTER)
        with _writer(made.path) as writer:
            return _read(
                ingesting.ingest_files(writer, settings, files, options, now=_now(made), progress=report_progress)
            )

    def around(report_progress: ReportProgress) -> str:
        files = [str(sources / name) for name in SNAPSHOT_FILES]
        objects = [str(sources / name) for name in KUBERNETES_FILES]
        options = ingesting.Options(cluster=CLUSTER, until=datetime.fromtimestamp(made.simulated.end, UTC))
        with _writer(made.path) as writer:
            return _read(
                [
                    *ingesting.ingest_files(writer, settings, files, options, now=_now(made), progress=report_progress),
                    *kubernetes.ingest_files(
                        writer, objects, cluster=CLUSTER, now=_now(made), progress=report_progress
                    ),
                ]
            )

    def hours(report_progress: ReportProgress) -> str:
        files = [str(sources / name) for name in TELEMETRY_FILES]
        options = TelemetryRequest(cluster=CLUSTER)
        with _writer(made.path) as writer:
            return _read(ingest_files(writer, settings, files, options, now=_now(made), progress=report_progress))

    def logs(report_progress: ReportProgress) -> str:
        runs, times = (sorted(str(file) for file in (sources / of).glob("*.jsonl")) for of in ("runs", "ranks"))
        with _writer(made.path) as writer:
            read = runlogs.ingest_files(writer, runs, cluster=CLUSTER, now=_now(made), progress=report_progress)
            more = ranks.ingest_files(writer, times, cluster=CLUSTER, now=_now(made), progress=report_progress)
            return _read([*read, *more])

    def compute(report_progress: ReportProgress) -> str:
        with _writer(made.path) as writer:
            stored = StoredClaims.read(settings.claims)
            computing.compute(
                writer,
                settings,
                now=_now(made),
                verdicts=stored.verdicts,
                progress=report_progress,
            )
        return "every GPU-second in one category"

    return [
        _DemoStep("simulate", "simulate the cluster", lambda report_progress: _simulate(made, report_progress)),
        _DemoStep("slurm", "read Slurm", slurm),
        _DemoStep("around", "read what is around its jobs", around),
        _DemoStep("telemetry", "read telemetry", hours),
        _DemoStep("runlogs", "read run logs", logs),
        _DemoStep("compute", "build the ledger and the numbers", compute),
        _DemoStep("report", "write the report", lambda _: _report(made.path, settings)),
        _DemoStep("boards", "write the Grafana boards", lambda _: _boards(made.path)),
    ]


def _needs(made: DemoFolder, steps: Sequence[_DemoStep]) -> str:
    """Needs of the demo on this machine; empty for one that is done, and for a simulation of another size."""
    if made.simulated != Settings() or all(step.name in made.done for step in steps):
        return ""
    return f"{NEEDS} Steps that are done are kept when you stop it."


def _simulate(made: DemoFolder, report_progress: ReportProgress) -> str:
    done = itertools.count()
    world = simulate(made.simulated, made.path, report=lambda what: report_progress(what, next(done), STAGES))
    return f"{made.simulated.gpus:,} GPUs, {made.simulated.days} days, {len(world.attempts):,} attempts"


def _report(folder: Path, settings: config.Config) -> str:
    from app.reports.sla.write import write_sla  # noqa: PLC0415 - heavy, and needed only once

    target = folder / f"sla-{CLUSTER}-{PERIOD}.html"
    with open_reader(folder / "warehouse") as reader:
        write_sla(reader, _covered(reader), PERIOD, settings.claims, target, "html")
    return target.name


def _covered(reader: Reader) -> Window:
    """The report's period, or all there is where a small demo does not reach it."""
    since, until = parse_period(PERIOD)
    computed = reader.query("computed", cluster=CLUSTER).row(0, named=True)
    if computed["until"] <= since:
        return Window(CLUSTER, computed["since"], computed["until"])
    return Window(CLUSTER, since, until)


def _boards(folder: Path) -> str:
    from dashboards.build import build  # noqa: PLC0415 - heavy, and needed only once

    write_file(folder / PRICES, EXAMPLE_PRICES.encode())
    return f"{len(build(folder / 'grafana'))} files"


@contextlib.contextmanager
def _writer(folder: Path) -> Iterator[Any]:
    with open_writer(folder / "warehouse", verb="trackside demo", now=clock.now()) as writer:
        yield writer


def _read(reports: Sequence[LoadReport]) -> str:
    """How many rows were read and rejected.

    Raises:
        Exception: a file could not be read at all.
    """
    error = first_error(reports)
    if error is not None:
        raise error
    parsed = [report.parsed for report in reports if report.parsed is not None]
    rejected = sum(each.rows_rejected for each in parsed)
    count = f"{len(parsed)} files, {sum(each.rows_read for each in parsed):,} rows"
    return f"{count}, {rejected:,} rejected" if rejected else count


def _do(step: _DemoStep, made: DemoFolder, settings: config.Config, *, quiet: bool) -> None:
    """Do a step, if it is not done, and write down that it is."""
    if step.name in made.done:
        if not quiet:
            output.echo(f"{step.title}: done before, kept")
        return
    began = clock.now()
    large = made.simulated.gpus * made.simulated.days > LARGE_GPU_DAYS
    if large:
        result = apart.called(run_step, made, settings, step.name, quiet=quiet)
    else:
        result = run_step(made, settings, step.name, quiet=quiet)
    made.done.append(step.name)
    made.save()
    if not quiet:
        output.echo(f"{step.title}: {result} ({(clock.now() - began).total_seconds():.1f} s)")


def run_step(made: DemoFolder, settings: config.Config, name: str, *, quiet: bool) -> str:
    """The result of a step."""
    step = next(each for each in _steps(made, settings) if each.name == name)
    with progress(step.title, quiet=quiet) as report_progress:
        return step.work(report_progress)


# --- what is printed ---------------------------------------------------------------------------------------


def _numbers(
    numbers: Sequence[Headline], truth: dict[str, float | None]
) -> tuple[pl.DataFrame, dict[str, tuple[str, str]]]:
    """The headline numbers as rows of text, and their headings."""
    rows = [
        {
            "number": each.title,
            "value": formatting.measured(each.value, each.unit),
            "bounds": _range(each.bound_low, each.bound_high, each.unit),
            "interval": _range(each.ci_low, each.ci_high, each.unit),
            "evidence": ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in each.evidence if share >= 0.005)
            or "-",
            "truth": compared_to_truth(each, truth.get(each.metric)),
        }
        for each in numbers
    ]
    titles = {"number": "", "value": "value", "bounds": "bounds", "interval": "95 % interval", "evidence": "evidence",
              "truth": "truth"}  # fmt: skip
    schema = dict.fromkeys(titles, pl.String())
    return pl.DataFrame(rows, schema=schema), {name: (title, "text") for name, title in titles.items()}


def _range(low: float | None, high: float | None, unit: str) -> str:
    if low is None and high is None:
        return "-"
    if low is not None and high is not None and abs(high - low) < 1e-9:
        return "exact"
    ends = (
        "-" if low is None else formatting.measured(low, unit),
        "no limit" if high is None else formatting.measured(high, unit),
    )
    return " to ".join(ends)


def compared_to_truth(headline: Headline, truth: float | None) -> str:
    """The true value, and how what was found lies to it."""
    if truth is None:
        return "-"
    text = formatting.measured(truth, headline.unit)
    for low, high, name in (
        (headline.bound_low, headline.bound_high, "bounds"),
        (headline.ci_low, headline.ci_high, "interval"),
    ):
        if low is None and high is None:
            continue
        if low is not None and high is not None and abs(high - low) < 1e-9:
            continue
        inside = (low is None or low <= truth) and (high is None or truth <= high)
        return f"{text}, {'inside' if inside else 'OUTSIDE'} the {name}"
    if headline.value is None:
        return text
    off = abs(headline.value - truth) / max(abs(truth), 1e-12)
    return f"{text}, {'the same' if off < 1e-4 else f'off by {100 * off:.2f} % of it'}"


_WHY = {
    "supported": "every value that the data allow meets the target",
    "refuted": "no value that the data allow meets the target",
    "undetermined": "the data allow values on both sides of the target",
}


def _closing(judged: Sequence[Judged]) -> Iterator[str]:
    """The verdicts in a few lines: which came out how, and why."""
    for verdict, why in _WHY.items():
        claims = [each for each in judged if each.verdict == verdict]
        if not claims:
            continue
        yield f"{verdict.capitalize()}, because {why}:"
        for each in claims:
            claim, measured = each.claim, each.measured
            side = "at least" if claim.direction == "at_least" else "at most"
            span = _range(measured.low, _finite(measured.high), claim.unit)
            if span == "exact" and measured.value is not None:
                span = formatting.measured(measured.value, claim.unit)
            yield f"  {claim.id}: {side} {formatting.measured(claim.target, claim.unit)} claimed, {span} found"


def _finite(value: float | None) -> float | None:
    return None if value == float("inf") else value


def _places(folder: Path) -> Iterator[str]:
    """Paths of all results, and commands to try."""
    warehouse = folder / "warehouse"
    yield f"The report:  {folder / f'sla-{CLUSTER}-{PERIOD}.html'}"
    yield f"The boards:  {folder / 'grafana'}   (import them into Grafana)"
    yield f"The sources: {folder / 'sources'}   and the truth behind them: {folder / 'truth.json'}"
    yield f"More to try: {_command()} show lost --warehouse {warehouse}"
    yield f"             {_command()} show health --by kind --warehouse {warehouse}"
    yield f"             {_command()} show anomalies --warehouse {warehouse}"
    yield f"             {_command()} show lifecycle --warehouse {warehouse}"
    yield f"             {_command()} show agreement --warehouse {warehouse}"
    yield f"             {_command()} show evictions --warehouse {warehouse}"
    yield f"             {_command()} show cost --config {folder / PRICES} --warehouse {warehouse}"
    yield f"             {_command()} run {STRAGGLING} --warehouse {warehouse}"


def _command() -> str:
    """The command to start this program from here: its name if it is in the PATH, else its path."""
    if shutil.which("trackside"):
        return "trackside"
    mine = Path(sys.executable).with_name("trackside")
    return str(mine.relative_to(Path.cwd())) if mine.is_relative_to(Path.cwd()) else str(mine)
