"""`trackside doctor`: is everything in place that Trackside needs, and which numbers does it allow?"""

from __future__ import annotations

import importlib.util
import platform
import re
import shutil
from datetime import timedelta
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app import console
from app.access.exposure import exposed
from app.access.oidc import read_secret, secret_of
from app.cli import future_rows
from app.cli.telemetry_budget import budget_lines
from app.config.log_formats import marked_formats
from app.errors import EXIT_STATUS, ConfigError, exit_status
from app.formatting import display
from app.service import integrity
from ingest import registry
from ingest.counted import counted
from ingest.errors import OptionError, SourceError, SourceMissingError
from ingest.load_warnings import LoadWarning
from ingest.prometheus.connect import connect
from ingest.prometheus.gpu.server import READER, no_metrics
from ingest.prometheus.load_live import READERS, names_of, scrape_spec
from ingest.prometheus.series.labels import COLUMNS, XID_COUNTS, XID_GAUGES
from ingest.registry import SOURCES
from ingest.slurm.commands.runner import subprocess_runner
from ingest.slurm.live import rest, transport
from ingest.slurm.live.preflight import probe
from ingest.slurm.nodes.inventory import fetch_settings
from queries.errors import CorruptWarehouseError, NoWarehouseError, WarehouseError
from queries.sandbox import confinement
from queries.warehouse import open_reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
    from datetime import datetime

    from app.config.settings import Config
    from app.service.integrity import State
    from ingest.tables import SourceName

PACKAGES = ("app", "dashboards", "ingest", "metrics", "queries")
"""Our packages. They are imported from one folder, whoever else installs a package of such a name."""

ADDS = {
    ("slurm.nodes",): "node inventory: configured capacity in place of the GPUs seen in use (trackside ingest slurm)",
    ("slurm.events",): "node events: idle time separate from downtime, MTTF by fault (trackside ingest slurm)",
    ("prometheus.gpu", "prometheus.gpu_hours"): "telemetry: narrower goodput, from how long GPUs were active; XIDs "
    "behind failures (trackside ingest prometheus)",
    ("runlog",): "run logs: goodput and ETTR from steps that were kept, lost steps, MFU (trackside recorder writes "
    "them, trackside ingest runlog reads them)",
}
"""Contribution of each source to the numbers of accounting, by names of sources."""


def versions() -> dict[str, str]:
    """Versions of Trackside, Python and the engines."""
    own = {"trackside": metadata.version("trackside"), "python": platform.python_version()}
    return own | {name: metadata.version(name) for name in ("polars", "duckdb", "numpy", "scipy")}


_OURS: Final = re.compile(r"^trackside(/|\.py\b|$)", re.MULTILINE)
"""Our import name, in a distribution's list of files or of names."""


def other_owners() -> list[str]:
    """Other distributions that install a package `trackside`: they overwrite this one."""
    lists = ((each, each.read_text("RECORD") or each.read_text("top_level.txt")) for each in metadata.distributions())
    owners = {str(each.metadata["Name"]) for each, listed in lists if _OURS.search(listed or "")}
    return sorted(owners - {"trackside"})


def foreign_packages() -> dict[str, str]:
    """Packages with Trackside's names that this process would import from another folder, and that folder."""
    ours = Path(__file__).resolve().parents[2]
    specs = {name: importlib.util.find_spec(name) for name in PACKAGES}
    origins = {name: Path(str(spec.origin)).resolve() for name, spec in specs.items() if spec is not None}
    return {name: str(origin) for name, origin in origins.items() if origin.parents[1] != ours}


def examine(root: Path, settings: Config, *, now: datetime) -> int:
    """Print the findings; the exit status is 0 unless something that is configured does not work."""
    worst = 0
    console.echo("installation")
    _line("ok", ", ".join(f"{name} {number}" for name, number in versions().items()))
    for fault in _installation_faults():
        _line("fail", fault)
        worst = 1
    _sandbox(confinement.measures())
    console.echo("\nwarehouse")
    broken, loaded = _warehouse(root, now)
    worst = max(worst, broken, *(_integrity(root) if root.is_dir() else [0]))
    console.echo("\nSlurm by slurmrestd" if transport.by_rest(settings) else "\nSlurm on this machine")
    worst = max(worst, _slurm(settings))
    console.echo("\nPrometheus")
    worst = max(worst, _prometheus(settings, now))
    worst = max(worst, _log_formats(settings))
    console.echo("\nexplorer")
    worst = max(worst, _access(settings))
    console.echo("\nwhat each source gives (ok: loaded)")
    for source in SOURCES:
        _line("ok" if source.name in loaded else "-", f"{source.title}: {source.purpose}")
    console.echo(
        "\nAccounting gives occupancy, availability, MTTF, interruptions and restarts.\n"
        "It does not record what allocated GPUs did, so goodput and ETTR are bounds.\n"
        "The other sources add (-: not loaded yet):"
    )
    for names, adds in ADDS.items():
        _line("ok" if loaded & set(names) else "-", adds)
    return worst


def _installation_faults() -> Iterator[str]:
    for owner in other_owners():
        yield f"{owner} also installs a package called 'trackside': give Trackside its own environment"
    for name, origin in foreign_packages().items():
        yield f"the package {name!r} comes from {origin}: start Trackside with its command, or with python -m trackside"


def _sandbox(measures: confinement.Measures) -> None:
    """Measures that keep `trackside sql` from files and network, in addition to DuckDB's own settings."""
    lacking = (
        "; without them only the check of the SQL and DuckDB's settings keep a query from other files and the network: "
        "do not run `sql` here as a user with more rights (Landlock needs Linux 5.13, CONFIG_SECURITY_LANDLOCK)"
    )
    _line("ok" if measures.complete else "warn", f"sandbox of `sql`: {measures}{'' if measures.complete else lacking}")


def _line(state: State, text: str) -> None:
    console.paragraph(text, first=f"  {state:<5}", indent=" " * 7)


def _lines(lines: Iterable[tuple[State, str]]) -> None:
    for state, text in lines:
        _line(state, text)


def _warehouse(root: Path, now: datetime) -> tuple[int, set[str]]:
    """Exit status, and the loaded sources."""
    loaded: set[str] = set()
    try:
        with open_reader(root) as reader:
            _line("ok", f"{reader.place}: data version {reader.data_version}")
            for row in reader.query("status_sources").iter_rows(named=True):
                loaded.add(row["source"])
                age_s = None if row["covers_until"] is None else (now - row["covers_until"]).total_seconds()
                state: State = "warn" if row["rows_rejected"] else "ok"
                _line(
                    state,
                    f"{row['cluster']} {row['source']}: {counted(row['rows_loaded'], 'row')}, "
                    f"{row['rows_rejected']:,} rejected, "
                    + ("no time of its own" if age_s is None else f"ends {display(age_s, 'seconds')} ago"),
                )
            for line in future_rows.lines(reader, now=now):
                _line("warn", line)
            for result in reader.failed_checks():
                _line(
                    "fail" if result.check.severity == "stop" else "warn",
                    f"{result.check.description} ({result.count})",
                )
    except NoWarehouseError as error:
        _line("-", str(error).splitlines()[0] + " (make one with: trackside ingest slurm)")
    except WarehouseError as error:
        _line("fail", str(error))
        return exit_status(error) or 1, loaded
    return 0, loaded


def _integrity(root: Path) -> Iterator[int]:
    """Compare files with their recorded digests; yields an exit status for each finding."""
    for finding in integrity.examine(root):
        _line(finding.state, finding.text)
        yield EXIT_STATUS[CorruptWarehouseError][0] if finding.state == "fail" else 0


PATIENCE_S = 30.0
"""Longest wait for one response of Slurm, even where more is configured: `doctor` is interactive."""


def _slurm(settings: Config) -> int:
    if transport.by_rest(settings):
        return _slurmrestd(settings)
    missing = [name for name in ("sacct", "sacctmgr", "scontrol") if shutil.which(name) is None]
    if missing and "slurm" in settings.model_fields_set:
        lacking = f"the configuration has a section [slurm], but {', '.join(missing)} not found"
        _line("fail", f'{lacking}: `serve` and `fleet` fail at it. Use transport = "rest", or take the section out')
        return EXIT_STATUS[SourceMissingError][0]
    if missing:
        _line("-", f"{', '.join(missing)} not found: load files instead (trackside ingest slurm FILE ...)")
        return 0
    runner = partial(subprocess_runner, timeout_s=min(settings.slurm.timeout_s, PATIENCE_S))
    try:
        probe(runner, settings, strict=True)
        fetch_settings(runner)
    except SourceError as error:
        reason = " ".join(line.strip().rstrip(".") + "." for line in str(error).splitlines()[:2])
        _line("warn", f"{reason} Live ingest will not work; files can be loaded.")
        return 0
    _line("ok", "scontrol responds, and sacct has accounting")
    return 0


def _slurmrestd(settings: Config) -> int:
    """Whether slurmrestd responds, and slurmdbd and slurmctld behind it: a live ingest queries both."""
    limited = settings.slurm.model_copy(update={"timeout_s": min(settings.slurm.timeout_s, PATIENCE_S)})
    settings = settings.model_copy(update={"slurm": limited})
    try:
        probe(subprocess_runner, settings)
        client = rest.connect(settings)
        client.settings()
        client.nodes()
    except SourceError as error:
        for line in str(error).splitlines():
            _line("fail", line)
        return exit_status(error) or 1
    _line("ok", f"slurmrestd {client.client.shown} responds for slurmdbd and slurmctld")
    _line("-", LoadWarning("no_events_by_rest").message)
    return 0


RECENT_S = 600
"""The last seconds in which metrics are searched; an older scrape is stale."""


def _prometheus(settings: Config, now: datetime) -> int:
    """Check of the configured server: its response, its metrics of each source, and the age of its GPU readings."""
    if settings.prometheus.url is None:
        _line(
            "-", "no server is configured (url in [prometheus]): load files instead (trackside ingest prometheus FILE)"
        )
        return 0
    try:
        server = connect(settings)
    except OptionError as error:
        _line("fail", str(error).splitlines()[0])
        return exit_status(error) or 1
    scrape = scrape_spec(settings, settings.prometheus.cluster or "")
    try:
        since = now - timedelta(seconds=RECENT_S)
        exported = names_of(server, scrape, since=since, until=now)
        names = exported.get(READER.source, [])
        budgets = list(budget_lines(server, scrape, exported, budget=settings.prometheus.daily_samples, now=now))
        if not names:
            _line("warn", no_metrics(server.url, scrape, server.names(since=since, until=now)).message)
            _lines(budgets)
            _print_other_sources(exported)
            return 0
        transport_name = server.describe_transport()
        newest = max(filter(None, (server.latest(scrape.series(name), at=now) for name in names)), default=None)
    except SourceError as error:
        for line in str(error).splitlines():
            _line("fail", line)
        return exit_status(error) or 1
    finally:
        server.close()
    _line("ok", f"{server.url} responds, and has {', '.join(names)}")
    age_s = None if newest is None else now.timestamp() - newest
    fresh = age_s is not None and age_s <= RECENT_S
    age = "none for minutes" if age_s is None else f"{display(age_s, 'seconds')} old"
    _line("ok" if fresh else "warn", f"newest reading: {age}")
    _line("-", f"read by {transport_name}")
    _lines(budgets)
    _lacking({scrape.mapping.of_gpus[name].column for name in names if name in scrape.mapping.of_gpus}, names)
    _print_other_sources(exported)
    return 0


def _log_formats(settings: Config) -> int:
    """Report the log formats of the configuration; 0 if each reads its own examples as stated."""
    formats = marked_formats(settings.runlog)
    if not formats:
        return 0
    console.echo("\nlog formats of the configuration")
    for form in formats:
        wrong = form.mistake.splitlines()
        for each in wrong:
            _line("fail", f"{each}; ingest runlog refuses it, serve and fleet read no logs of this format")
        if not wrong:
            _line("ok", f"{form.name}: {counted(len(form.examples), 'example')} read as stated")
    return EXIT_STATUS[ConfigError][0] if any(form.mistake for form in formats) else 0


def _access(settings: Config) -> int:
    """Report who can see the explorer as it is configured, and whether the secrets of the login can be read."""
    access, host = settings.access, settings.serve.host
    if reason := exposed(settings, host):
        _line("fail", f"{reason} `explore` and `serve` refuse it without --without-login")
        return 2
    if not access.needs_login:
        _line("ok", f"{host}: this machine only, without a login")
        if settings.serve.names:
            _line("warn", "a proxy passes requests on (serve.names): everyone whom it lets through sees all runs; "
                  'login = "header" under [access] distinguishes people')  # fmt: skip
        return 0
    try:
        secret = secret_of(access) if access.login == "oidc" else ""
        read_secret(access.metrics_token_file, "metrics_token_file")
    except ConfigError as error:
        _line("fail", str(error))
        return exit_status(error) or 1
    if access.login == "header":
        _line("ok", f"login by {access.user_header} from {', '.join(access.proxies)}")
    else:
        _line("ok" if secret else "warn", f"login by {access.issuer}" + ("" if secret else ": no client secret is set"))
    for role, named in (("admins", access.admins), ("operators", access.operators)):
        _line("-", f"{role}: {', '.join(named) or 'none'}")
    return 0


def _print_other_sources(exported: Mapping[SourceName, Sequence[str]]) -> None:
    """Print the server's metrics of the other sources; for a source without metrics, what it would give."""
    for reader in READERS:
        about = registry.source(reader.source)
        if reader.source == READER.source:
            continue
        if reader.source in exported:
            number = len(exported[reader.source])
            _line("ok", f"{about.title}: {number:,} metric{'s' if number > 1 else ''}")
        else:
            _line("-", f"not exported: {about.title}. {about.purpose}")


def _lacking(exported: Set[str], names: Sequence[str]) -> None:
    """Print which quantities (columns of GPUs) no exporter exports, and the consequence."""
    lacking = [column for column in COLUMNS if column not in exported]
    if not {"tensor_active", "gr_engine_active", "gpu_util"} & exported:
        _line(
            "warn", "no metric shows whether GPUs are active; enable DCGM_FI_PROF_PIPE_TENSOR_ACTIVE in dcgm-exporter"
        )
    elif lacking:
        _line("-", f"not exported: {', '.join(lacking)}")
    if not {*XID_GAUGES, *XID_COUNTS} & set(names):
        _line("warn", f"no XIDs: enable {XID_GAUGES[0]} in dcgm-exporter")
