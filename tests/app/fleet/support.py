"""A fleet of small clusters, whose Slurm is a script that every process finds on its PATH."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support.slurm.dumps import HEADER, tiny

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from tests.support.slurm.dumps import Dump

COMMANDS: Final = ("sacct", "sacctmgr", "scontrol")

SLURM: Final = r"""#!/bin/sh
# Slurm's commands on the clusters of a folder: -M names one of them.
all="$(basename "$0") $*"
while [ $# -gt 0 ]; do
    case "$1" in -M) cluster=$2; shift ;; -M*) cluster=${1#-M} ;; [Cc]lusters=*) cluster=${1#*=} ;; esac
    shift
done
at="FOLDER/slurm/$cluster"
echo "$PPID $all" >> "FOLDER/asked.txt"
while [ -e "$at/wait" ]; do sleep 0.05; done
case "$all" in
    "sacct -e"*|"sacct "*" -e"*) tr '|' ' ' < "FOLDER/header.txt" ;;
    "sacct "*) cat "$at/sacct.txt" ;;
    *"show event"*) cat "$at/events.txt" ;;
    *"show config"*) cat "$at/config.txt" ;;
    *"show node"*) cat "$at/nodes.txt" ;;
    *) echo "Access/permission denied" >&2; exit 1 ;;
esac
"""

CLUSTER: Final = """\
warehouse = "../{name}"
cluster = "{name}"
[slurm]
clusters = ["{name}"]
lookback_days = {days}
window_days = {days}
retries = 0
"""


class SmallFleet:
    """Clusters in a folder: their Slurm, their configurations, and that of the fleet.

    Attributes:
        folder: where all is.
        config: the fleet's configuration.
        lake: address of the lake of it.
    """

    def __init__(
        self,
        folder: Path,
        names: Iterable[str],
        *,
        jobs: int = 20,
        nodes: int = 8,
        days: int = 14,
        lake: bool = True,
    ) -> None:
        self.folder = folder
        self.names = tuple(names)
        self.config = folder / "trackside.toml"
        self.lake = Path(f"ducklake:sqlite:{folder}/lake.sqlite")
        (folder / "clusters").mkdir(parents=True)
        (folder / "header.txt").write_text(HEADER)
        for name in self.names:
            self._add(name, tiny(jobs, nodes=nodes, days=days), days)
        into = f'lake = "{self.lake}"\nlake_files = "files"\n' if lake else ""
        self.config.write_text(f'[fleet]\nclusters = ["clusters/*.toml"]\n{into}')

    def _add(self, name: str, dump: Dump, days: int) -> None:
        at = self.slurm(name)
        at.mkdir(parents=True)
        for file in dump.write(at):
            at.joinpath(file).write_text(at.joinpath(file).read_text().replace("tiny", name))
        self.cluster(name).write_text(CLUSTER.format(name=name, days=days + 106))

    def slurm(self, name: str) -> Path:
        """Where a cluster's Slurm is: a file `wait` in it makes it wait."""
        return self.folder / "slurm" / name

    def cluster(self, name: str) -> Path:
        """A cluster's configuration."""
        return self.folder / "clusters" / f"{name}.toml"

    def root(self, name: str) -> Path:
        """A cluster's warehouse."""
        return self.folder / name

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have this process, and those that it starts, find the clusters' Slurm."""
        commands = self.folder / "bin"
        commands.mkdir()
        for command in COMMANDS:
            file = commands / command
            file.write_text(SLURM.replace("FOLDER", str(self.folder)))
            file.chmod(file.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.folder / "cache"))
        for name in ("TRACKSIDE_WAREHOUSE", "TRACKSIDE_CONFIG"):
            monkeypatch.delenv(name, raising=False)

    def asked(self) -> str:
        """Which commands were run, a line for each, with the process that ran it."""
        file = self.folder / "asked.txt"
        return file.read_text() if file.exists() else ""
