"""`trackside doctor`: is everything here that is needed, and which numbers does it allow?"""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
from typing import TYPE_CHECKING, Literal

from app import output
from app.errors import exit_status
from ingest.catalog import SOURCES
from ingest.errors import SourceError
from ingest.live import subprocess_runner
from ingest.slurm_nodes import fetch_settings
from queries.errors import NoWarehouseError, WarehouseError
from queries.warehouse import open_reader

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from app.config import Config

PACKAGES = ("app", "dashboards", "ingest", "metrics", "queries")
"""Our import names. They are short, so Trackside wants an environment of its own; see `strangers`."""

State = Literal["ok", "warn", "fail", "-"]


def versions() -> dict[str, str]:
    """Ours, Python's and the engines'."""
    found = {"trackside": importlib.metadata.version("trackside"), "python": platform.python_version()}
    return found | {name: importlib.metadata.version(name) for name in ("polars", "duckdb", "numpy", "scipy")}


def strangers() -> dict[str, list[str]]:
    """Other distributions that install a package under one of our names."""
    owners = importlib.metadata.packages_distributions()
    found = {name: [owner for owner in owners.get(name, []) if owner != "trackside"] for name in PACKAGES}
    return {name: others for name, others in found.items() if others}


def examine(root: Path, settings: Config, *, now: datetime) -> int:
    """Print findings, and return 0 unless something is broken that was set up."""
    worst = 0
    output.say("installation")
    _line("ok", ", ".join(f"{name} {number}" for name, number in versions().items()))
    for name, others in strangers().items():
        _line(
            "fail", f"{', '.join(others)} also installs a package called {name!r}: give Trackside its own environment"
        )
        worst = 1
    output.say("\nwarehouse")
    broken, loaded = _warehouse(root, now)
    worst = max(worst, broken)
    output.say("\nSlurm on this machine")
    worst = max(worst, _slurm(settings))
    output.say("\nwhat each source gives (ok: it has been read)")
    for source in SOURCES:
        _line("ok" if source.name in loaded else "-", f"{source.title}: {source.gives}")
    output.say(
        "\nWith accounting alone: occupancy, availability, MTTF, interruptions and restarts exactly; goodput and ETTR\n"
        "as bounds, since accounting does not see what allocated GPUs did. Telemetry and run logs narrow the bounds;\n"
        "MFU needs a run log (both come with later steps)."
    )
    return worst


def _line(state: State, text: str) -> None:
    output.say(f"  {state:<5}{text}")


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
                    + ("no time of its own" if age_s is None else f"ends {output.display(age_s, 'seconds')} ago"),
                )
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


def _slurm(settings: Config) -> int:
    missing = [name for name in ("sacct", "sacctmgr", "scontrol") if shutil.which(name) is None]
    if missing:
        _line(
            "-",
            f"{', '.join(missing)} not found: load files instead (trackside ingest slurm FILE ...)",
        )
        return 0
    try:
        fetch_settings(
            lambda command, more: subprocess_runner(command, more, timeout_s=min(settings.slurm.timeout_s, 30))
        )
    except SourceError as error:
        _line("warn", str(error).splitlines()[0] + " Live ingest will not work; files can be loaded.")
        return 0
    _line("ok", "scontrol answers")
    return 0
