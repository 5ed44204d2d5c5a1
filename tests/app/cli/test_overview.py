"""`trackside` alone: what the warehouse holds, and the commands that make sense next."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from app.cli import overview
from app.cli.main import build_parser
from app.cli.overview import ClusterOverview, next_commands
from ingest.registry import FOLDERS
from queries.errors import CorruptWarehouseError
from tests.support.command import trackside
from tests.support.warehouses import NOW, from_accounting, from_everything

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400.0


def cluster(*sources: str, computed: bool = True, newer: int = 0, until: float | None = 10 * DAY) -> ClusterOverview:
    return ClusterOverview("c", 0.0, until, sources, 0.0 if computed else None, DAY if computed else None, newer)


def commands(*clusters: ClusterOverview) -> list[str]:
    return [command for command, _ in next_commands(clusters)]


def test_an_empty_directory_shows_how_to_start(tmp_path: Path) -> None:
    done = trackside(env={"TRACKSIDE_WAREHOUSE": str(tmp_path / "none")})
    assert done.returncode == 0
    assert f"There is no warehouse in {tmp_path / 'none'} yet" in done.stdout
    assert [line.split("  ")[1] for line in done.stdout.splitlines() if line.startswith("  ")] == [
        "trackside demo",
        "trackside ingest slurm",
        "trackside ingest kubernetes FILE",
        "trackside ingest runlog FILE",
    ]
    assert not (tmp_path / "none").exists()


def test_overview_names_clusters_interval_age_and_sources(tmp_path: Path) -> None:
    root = from_everything(tmp_path)
    text = overview.text(root, now=(NOW + timedelta(days=2)).timestamp())
    assert "demo: 2026-09-01 to 2026-10-03 (32 days), newest data 32 days old" in text
    assert "loaded: Slurm (accounting, config, events, nodes); telemetry (" in text
    assert "run logs" in text
    assert "not loaded: rank times, Kubernetes, Determined\n" in text


@pytest.mark.slow
def test_overview_of_accounting_names_missing_sources(tmp_path: Path) -> None:
    text = overview.text(from_accounting(tmp_path, compute=False), now=NOW.timestamp())
    assert "not loaded: telemetry, run logs" in text
    assert "Next:\n  trackside compute " in text


def test_a_damaged_warehouse_is_an_error_and_not_a_welcome(tmp_path: Path) -> None:
    root = from_accounting(tmp_path)
    for copy in (root / "published").iterdir():
        copy.unlink()
        copy.write_bytes(b"nonsense" * 4096)
    with pytest.raises(CorruptWarehouseError):
        overview.text(root, now=0.0)
    assert trackside(env={"TRACKSIDE_WAREHOUSE": str(root)}).returncode == 41


def test_next_commands_follow_the_state_of_the_warehouse() -> None:
    assert commands(cluster("slurm.accounting"))[:2] == ["trackside show goodput", "trackside run"]
    assert commands(cluster("slurm.accounting", computed=False))[0] == "trackside compute"
    assert commands(cluster("slurm.accounting", newer=2))[0] == "trackside compute"
    assert next_commands([cluster("slurm.accounting", newer=1)])[0][1].endswith("in 1 load")
    assert commands(cluster("runlog"))[:2] == ["trackside run", "trackside ingest slurm"]
    assert commands(cluster("kubernetes.objects"))[:2] == ["trackside show goodput", "trackside run"]
    assert commands(cluster("determined.allocations", computed=False))[0] == "trackside compute"
    assert commands(cluster("prometheus"))[0] == "trackside ingest slurm"
    assert commands(cluster("runlog"), cluster("slurm.accounting"))[0] == "trackside show goodput"


@pytest.mark.parametrize(
    "clusters", [[cluster("slurm.accounting")], [cluster("runlog")], [cluster("slurm.accounting", computed=False)]]
)
def test_all_three_next_commands_exist(clusters: list[ClusterOverview]) -> None:
    for command in (*commands(*clusters), *(command for command, _ in overview.START)):
        words = command.removesuffix(" FILE").split()[1:]
        build_parser(words[0]).parse_args([*words, "file"] if command.endswith("FILE") else words)
    assert len(commands(*clusters)) == 3


def test_every_source_folder_has_a_name_in_the_overview() -> None:
    assert all(folder.called for folder in FOLDERS)


def test_a_source_without_a_folder_is_listed_last_by_name() -> None:
    text = overview.describe([cluster("solar power", "slurm.accounting")], 0.0)
    assert "loaded: Slurm (accounting); solar power\n" in text


def test_lines_fit_eighty_columns(tmp_path: Path) -> None:
    empty = overview.text(tmp_path, now=0.0)
    assert max(map(len, empty.replace(str(tmp_path), "").splitlines())) <= 80
    root = from_everything(tmp_path)
    lines = overview.text(root, now=NOW.timestamp()).replace(str(root), "").splitlines()
    assert max(map(len, lines)) <= 80


def test_many_clusters_are_counted() -> None:
    lines = overview.describe([cluster("runlog", until=None)] * (overview.SHOWN + 2), 0.0).splitlines()
    assert sum("c: no time is covered yet" in line for line in lines) == overview.SHOWN
    assert lines[-1] == "  and 2 more clusters: trackside status"
