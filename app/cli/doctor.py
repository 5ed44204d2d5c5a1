"""`trackside doctor`: is everything here that is needed, and which numbers does it allow?"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shutil
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from app import console
from app.cli import future_rows
from app.errors import EXIT_STATUS, UsageError, exit_status
from app.formatting import display
from app.service import integrity
from ingest import registry
from ingest.errors import SourceError
from ingest.load_warnings import LoadWarning
from ingest.prometheus.connect import connect
from ingest.prometheus.gpu.server import READER, nothing_there
from ingest.prometheus.load_live import READERS, names_of, wanted_of
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
    from collections.abc import Iterator, Mapping, Sequence, Set
    from datetime import datetime

    from app.config.settings import Config
    from app.service.integrity import State
    from ingest.tables import SourceName

PACKAGES = ("app", "dashboards", "ingest", "metrics", "queries")
"""Our packages. They are imported from one folder, whoever else installs a package of such a name."""

ADDS = {
    ("slurm.nodes",): "node inventory: capacity as configured, not as seen in use (trackside ingest slurm)",
    ("slurm.events",): "node events: idle time apart from broken time, MTTF by fault (trackside ingest slurm)",
    ("prometheus.gpu", "prometheus.gpu_hours"): "telemetry: narrower goodput, from how long GPUs were active; XIDs "
    "behind failures (trackside ingest prometheus)",
    ("runlog",): "run logs: goodput and ETTR from steps that were kept, lost steps, MFU (trackside recorder writes "
    "them, trackside ingest runlog reads them)",
}
"""What sources add to accounting's numbers, by their names."""


def versions() -> dict[str, str]:
    """Ours, Python's and the engines'."""
    found = {"trackside": importlib.metadata.version("trackside"), "python": platform.python_version()}
    return found | {name: importlib.metadata.version(name) for name in ("polars", "duckdb", "numpy", "scipy")}


def other_owners() -> list[str]:
    """Other distributions that install a package `trackside`: they overwrite ours."""
    owners = importlib.metadata.packages_distributions().get("trackside", [])
    return sorted({owner for owner in owners if owner != "trackside"})


def foreign_packages() -> dict[str, str]:
    """Packages of our names that this process would import from another folder than ours, and that folder."""
    ours = Path(__file__).resolve().parents[2]
    specs = {name: importlib.util.find_spec(name) for name in PACKAGES}
    origins = {name: Path(str(spec.origin)).resolve() for name, spec in specs.items() if spec is not None}
    return {name: str(origin) for name, origin in origins.items() if origin.parents[1] != ours}


def examine(root: Path, settings: Config, *, now: datetime) -> int:
    """Print findings, and return 0 unless something is broken that was set up."""
    worst = 0
    console.say("installation")
    _line("ok", ", ".join(f"{name} {number}" for name, number in versions().items()))
    for fault in _installation_faults():
        _line("fail", fault)
        worst = 1
    _sandbox(confinement.measures())
    console.say("\nwarehouse")
    broken, loaded = _warehouse(root, now)
    worst = max(worst, broken, *(_integrity(root) if root.is_dir() else [0]))
    console.say("\nSlurm by slurmrestd" if transport.by_rest(settings) else "\nSlurm on this machine")
    worst = max(worst, _slurm(settings))
    console.say("\nPrometheus")
    worst = max(worst, _prometheus(settings, now))
    console.say("\nwhat each source gives (ok: it has been read)")
    for source in SOURCES:
        _line("ok" if source.name in loaded else "-", f"{source.title}: {source.gives}")
    console.say(
        "\nAccounting gives occupancy, availability, MTTF, interruptions and restarts; of goodput and ETTR bounds:\n"
        "it does not see what allocated GPUs did. The other sources add (-: not read here yet):"
    )
    for names, adds in ADDS.items():
        _line("ok" if loaded & set(names) else "-", adds)
    return worst


def _installation_faults() -> Iterator[str]:
    for owner in other_owners():
        yield f"{owner} also installs a package called 'trackside': give Trackside its own environment"
    for name, origin in foreign_packages().items():
        yield f"the package {name!r} comes from {origin}: start Trackside by its command, or by python -m trackside"


def _sandbox(measures: confinement.Measures) -> None:
    """What keeps `trackside sql` from files and network, beside DuckDB's own settings."""
    lacking = (
        "; without them only the check of the SQL and DuckDB's settings keep people's SQL from other files and the "
        "network: let nobody run `sql` here as a user with more rights (Landlock: Linux 5.13, CONFIG_SECURITY_LANDLOCK)"
    )
    _line("ok" if measures.complete else "warn", f"sandbox of `sql`: {measures}{'' if measures.complete else lacking}")


def _line(state: State, text: str) -> None:
    console.say(f"  {state:<5}{text}")


def _warehouse(root: Path, now: datetime) -> tuple[int, set[str]]:
    """Exit status, and the sources that have been read."""
    loaded: set[str] = set()
    try:
        with open_reader(root) as reader:
            _line("ok", f"{root}: data version {reader.data_version}")
            for row in reader.query("status_sources").iter_rows(named=True):
                loaded.add(row["source"])
                age_s = None if row["covers_until"] is None else (now - row["covers_until"]).total_seconds()
                state: State = "warn" if row["rows_rejected"] else "ok"
                _line(
                    state,
                    f"{row['cluster']} {row['source']}: {row['rows_loaded']:,} rows, {row['rows_rejected']:,} refused, "
                    + ("no time of its own" if age_s is None else f"ends {display(age_s, 'seconds')} ago"),
                )
            for line in future_rows.lines(reader, now=now):
                _line("warn", line)
            for result in reader.checks():
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
    """Whether files are as they were written; an exit status for each that is not."""
    for found in integrity.examine(root):
        _line(found.state, found.text)
        yield EXIT_STATUS[CorruptWarehouseError][0] if found.state == "fail" else 0


PATIENCE_S = 30.0
"""Longest wait for one answer of Slurm, even where more is configured: somebody is looking."""


def _slurm(settings: Config) -> int:
    if transport.by_rest(settings):
        return _slurmrestd(settings)
    missing = [name for name in ("sacct", "sacctmgr", "scontrol") if shutil.which(name) is None]
    if missing:
        _line(
            "-",
            f"{', '.join(missing)} not found: load files instead (trackside ingest slurm FILE ...)",
        )
        return 0
    runner = partial(subprocess_runner, timeout_s=min(settings.slurm.timeout_s, PATIENCE_S))
    try:
        probe(runner, settings, strict=True)
        fetch_settings(runner)
    except SourceError as error:
        said = " ".join(line.strip().rstrip(".") + "." for line in str(error).splitlines()[:2])
        _line("warn", f"{said} Live ingest will not work; files can be loaded.")
        return 0
    _line("ok", "scontrol answers, and there is accounting to ask sacct for")
    return 0


def _slurmrestd(settings: Config) -> int:
    """Whether slurmrestd answers, and slurmdbd and slurmctld behind it: a live ingest asks both."""
    patient = settings.slurm.model_copy(update={"timeout_s": min(settings.slurm.timeout_s, PATIENCE_S)})
    settings = settings.model_copy(update={"slurm": patient})
    try:
        probe(subprocess_runner, settings)
        road = rest.road(settings)
        road.settings()
        road.nodes()
    except SourceError as error:
        for line in str(error).splitlines():
            _line("fail", line)
        return exit_status(error) or 1
    _line("ok", f"slurmrestd {road.client.shown} answers for slurmdbd and slurmctld")
    _line("-", LoadWarning("no_events_by_rest"))
    return 0


RECENT_S = 600
"""Metrics are looked for in so many last seconds; a scrape older than this is stale."""


def _prometheus(settings: Config, now: datetime) -> int:
    """Whether the server that is configured answers, what it has of each source, and how fresh GPUs' readings are."""
    if settings.prometheus.url is None:
        _line(
            "-", "no server is configured (url in [prometheus]): load files instead (trackside ingest prometheus FILE)"
        )
        return 0
    try:
        server = connect(settings)
    except UsageError as error:
        _line("fail", str(error).splitlines()[0])
        return exit_status(error) or 1
    wanted = wanted_of(settings, settings.prometheus.cluster or "")
    try:
        since = now - timedelta(seconds=RECENT_S)
        found = names_of(server, wanted, since=since, until=now)
        names = found.get(READER.source, [])
        if not names:
            _line("warn", nothing_there(server.url, wanted, server.names(since=since, until=now)))
            _others(found)
            return 0
        road = server.road()
        newest = max(filter(None, (server.latest(wanted.series(name), at=now) for name in names)), default=None)
    except SourceError as error:
        for line in str(error).splitlines():
            _line("fail", line)
        return exit_status(error) or 1
    finally:
        server.close()
    _line("ok", f"{server.url} answers, and has {', '.join(names)}")
    age_s = None if newest is None else now.timestamp() - newest
    fresh = age_s is not None and age_s <= RECENT_S
    said = "none for minutes" if age_s is None else f"{display(age_s, 'seconds')} old"
    _line("ok" if fresh else "warn", f"newest reading: {said}")
    _line("-", f"read by {road}")
    _lacking({wanted.mapping.of_gpus[name].column for name in names if name in wanted.mapping.of_gpus}, names)
    _others(found)
    return 0


def _others(found: Mapping[SourceName, Sequence[str]]) -> None:
    """What the server has of the sources beside GPUs; of those that nobody exports, what they would give."""
    for reader in READERS:
        about = registry.source(reader.source)
        if reader.source == READER.source:
            continue
        if reader.source in found:
            number = len(found[reader.source])
            _line("ok", f"{about.title}: {number:,} metric{'s' if number > 1 else ''}")
        else:
            _line("-", f"not exported: {about.title}. {about.gives}")


def _lacking(there: Set[str], names: Sequence[str]) -> None:
    """Say which quantities (columns of GPUs) nobody exports, and what cannot be told without them."""
    lacking = [column for column in COLUMNS if column not in there]
    if not {"tensor_active", "gr_engine_active", "gpu_util"} & there:
        _line("warn", "nothing tells whether GPUs are active; enable DCGM_FI_PROF_PIPE_TENSOR_ACTIVE in dcgm-exporter")
    elif lacking:
        _line("-", f"not exported: {', '.join(lacking)}")
    if not {*XID_GAUGES, *XID_COUNTS} & set(names):
        _line("warn", f"no XIDs: enable {XID_GAUGES[0]} in dcgm-exporter")
