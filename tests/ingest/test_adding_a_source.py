"""The guide `developing/adding-a-source.md` is true: its folder and its schema file make a source, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import ROOT

GUIDE = ROOT / "app" / "docs" / "developing" / "adding-a-source.md"
FILE = re.compile(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
METER = """\
cluster,at,kw
a,2026-10-01T00:00:00Z,812.5
a,2026-10-01T00:01:00Z,broken
a,2026-10-01T00:02:00Z,900
a,2033-10-01T00:02:00Z,900
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of Trackside with what the guide adds."""
    root = tmp_path_factory.mktemp("copy")
    for folder in ("app", "dashboards", "ingest", "metrics", "queries"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FILE.findall(GUIDE.read_text(encoding="utf-8")):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    (root / "meter.csv").write_text(METER)
    return root


def trackside(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the copy's command."""
    command = [sys.executable, "-m", "app.cli.main", *arguments]
    return subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)


def test_a_source_by_the_guide_is_one_folder_and_its_schema_file() -> None:
    names = [name for name, _ in FILE.findall(GUIDE.read_text(encoding="utf-8"))]
    assert {Path(name).parent.as_posix() for name in names} == {"ingest/power", "queries/schema"}
    assert [name for name in names if name.startswith("queries")] == ["queries/schema/0100_power.sql"]


@pytest.mark.slow
def test_a_source_by_the_guide_loads_counts_and_refuses(copy: Path) -> None:
    assert "facility power" in trackside(copy, "ingest", "--help").stdout
    for _ in range(2):  # loading twice equals loading once
        done = trackside(copy, "ingest", "power", "meter.csv", "--warehouse", "w")
        assert done.returncode == 0, done.stderr
    rows = trackside(
        copy, "sql", "SELECT ts, power_w FROM power_readings ORDER BY ts", "--format", "csv", "--warehouse", "w"
    )
    assert [line.split(",")[1] for line in rows.stdout.splitlines()[1:]] == ["812500.0", "900000.0"]
    reasons = trackside(copy, "sql", "SELECT reason FROM rejects ORDER BY 1", "--format", "csv", "--warehouse", "w")
    assert reasons.stdout.splitlines()[1:] == [
        '"no cluster, time or power"',
        "ts lies in the future: 2033-10-01T00:02:00Z",
    ]
    assert "2 power_readings" in trackside(copy, "status", "--warehouse", "w").stdout
