"""The clusters of a fleet: a configuration file for each, with a warehouse directory that no other has."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING

from app.compute.unchanged import code_digest
from app.config import settings as config
from app.config.place import warehouse_of_environment
from app.errors import ConfigError, UsageError
from app.fleet.task import ClusterTask, TaskOutcome, digest_of, failed
from queries import directory
from queries.errors import WarehouseError
from queries.lake.address import address_of
from queries.near_names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from app.config.settings import Config


def tasks_of(settings: Config, names: Collection[str] = ()) -> tuple[list[ClusterTask], list[TaskOutcome]]:
    """The tasks of a fleet, the largest directory first; and the clusters whose configuration cannot be used.

    Args:
        settings: with the patterns of the clusters' configuration files.
        names: only these clusters; all if empty.

    Raises:
        UsageError: there is no such cluster, or there are none at all.
        ConfigError: two clusters would be in one directory, or have one name; or the fleet's lake is no lake.
    """
    _refuse_one_directory_for_all()
    lake = _lake(settings.fleet.lake, "[fleet] lake")
    tasks: list[ClusterTask] = []
    broken: list[TaskOutcome] = []
    for file in _files(settings):
        try:
            tasks.append(_task(file, lake, settings.fleet.lake_files))
        except (ConfigError, OSError) as error:
            broken.append(failed(file.stem, str(file), _readable(file, error), step="configuration"))
    _refuse_twice(tasks)
    if names:
        known = [*(task.cluster for task in tasks), *(outcome.cluster for outcome in broken)]
        _refuse_unknown(names, known)
        tasks = [task for task in tasks if task.cluster in names]
        broken = [outcome for outcome in broken if outcome.cluster in names]
    return sorted(tasks, key=_bytes, reverse=True), broken


def _files(settings: Config) -> list[Path]:
    patterns = settings.fleet.clusters
    names = {name for pattern in patterns for name in glob.glob(pattern, recursive=True)}  # noqa: PTH207 - Path.glob refuses absolute patterns
    if not names:
        what = f"no file matches {', '.join(patterns)}" if patterns else "the configuration names no clusters"
        raise UsageError(
            f"{what}: list the configuration file of each cluster, for example\n"
            '  [fleet]\n  clusters = ["clusters/*.toml"]\n(trackside docs how-to/past-one-machine#a-fleet)'
        )
    return sorted(Path(name).absolute() for name in names)


def _readable(file: Path, error: ConfigError | OSError) -> ConfigError:
    if isinstance(error, ConfigError):
        return error
    return ConfigError(f"{file} cannot be read: {error.strerror or error}")


def _lake(place: Path | None, named: str) -> str:
    """The address of a lake as every worker takes it, whatever its working directory; empty: there is none.

    Raises:
        ConfigError: it holds a password, which would go to the workers and into Dask's logs; or it is no lake.
    """
    if place is None:
        return ""
    try:
        address = address_of(place)
    except WarehouseError as error:
        raise ConfigError(f"{named}: {error}") from None
    if address is None:
        raise ConfigError(f"{named}: {place} is no lake: write it like ducklake:postgres:dbname=lake host=db")
    return str(address)


def _task(file: Path, lake: str, lake_files: str | None) -> ClusterTask:
    """The task of a cluster, which is committed to this lake unless its own configuration names another.

    Raises:
        ConfigError: its configuration has mistakes, or is not one of a fleet's cluster.
    """
    settings = config.of_file(file)
    if settings.fleet.clusters:
        raise ConfigError(f"{file} is the configuration of a fleet, not of one of its clusters: name others")
    if settings.cluster is None:
        raise ConfigError(f'{file} does not name its cluster: write cluster = "NAME" into it')
    if address_of(settings.warehouse) is not None:
        raise ConfigError(
            f"{file}: warehouse is a lake, and lakes are not written to directly: name a directory, and the "
            "lake as [serve] lake"
        )
    own = _lake(settings.serve.lake, f"{file}: [serve] lake")
    return ClusterTask(
        cluster=settings.cluster,
        config=str(file),
        config_sha256=digest_of(file),
        directory=os.path.normpath(settings.warehouse.absolute()),
        lake=own or lake,
        lake_files=(settings.serve.lake_files if own else lake_files) or "",
        code=code_digest().hex(),
    )


def _refuse_one_directory_for_all() -> None:
    if warehouse_of_environment() is not None:
        raise UsageError(
            "$TRACKSIDE_WAREHOUSE would have all clusters in one directory: unset it. Each cluster's configuration "
            "names its own (warehouse = ...)."
        )


def _refuse_twice(tasks: Iterable[ClusterTask]) -> None:
    """Refuse two clusters of one name, or in one directory.

    Raises:
        ConfigError: there are.
    """
    seen: dict[str, ClusterTask] = {}
    for task in tasks:
        for what, value in (("cluster", task.cluster), ("warehouse", str(Path(task.directory).resolve()))):
            other = seen.setdefault(f"{what} {value}", task)
            if other is not task:
                raise ConfigError(f"{other.config} and {task.config} both have {what} {value}: each needs its own")


def _refuse_unknown(names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"; there are: {', '.join(sorted(known))}"
            raise UsageError(f"the fleet has no cluster {name!r}{hint}")


def _bytes(task: ClusterTask) -> int:
    """Size of its published copy: the largest is begun first, so that no worker is alone at the end.

    0 where it cannot be read here: a worker that cannot read it either reports that.
    """
    try:
        copy = directory.current_copy(Path(task.directory))
        return 0 if copy is None else copy.stat().st_size
    except OSError:
        return 0
