"""The built wheel, installed as a file in an empty environment, beside packages of other people with our names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from app.cli import doctor
from tests.support.slurm.dumps import tiny

ROOT = Path(__file__).parents[1]
STRANGER = "raise ImportError('a package of somebody else was imported')\n"
SHIPPED = {".py", ".sql", ".toml", ".json", ".html", ".css", ".js", ".md"}
"""Kinds of files that the packages are made of."""


class Installed:
    """An environment with the wheel, and a folder of somebody else's modules with our names to work in."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.prefix, self.elsewhere = folder / "environment", folder / "elsewhere"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.prefix)], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(self.prefix / "bin" / "python"), "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", "--no-index", "--no-compile", str(wheel)], check=True, capture_output=True)
        (self.packages,) = self.prefix.glob("lib/python*/site-packages")
        self.names = {path.name for path in self.packages.iterdir()}
        (self.packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"])  # without the network
        for place in (self.elsewhere, self.packages):
            strange_modules(place)

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in the folder of somebody else's modules."""
        return self.run_in(self.elsewhere, *command, **environment)

    def run_in(self, folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in a folder."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        program = str(self.prefix / "bin" / command[0])
        return subprocess.run(
            [program, *command[1:]],
            cwd=folder,
            env=kept | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def output(self, *command: str, **environment: str) -> str:
        """What a program prints; it must succeed."""
        done = self.run(*command, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout


def in_the_readme(*, before: str) -> list[str]:
    """The lines of the README's listing that begins so."""
    text = (ROOT / "README.md").read_text()
    (listing,) = (block for block in text.split("```")[1::2] if block.lstrip().startswith(before))
    return listing.strip().splitlines()


def strange_modules(folder: Path) -> None:
    """Write modules and packages of somebody else under all of our names."""
    folder.mkdir(exist_ok=True)
    (folder / "app.py").write_text(STRANGER)
    for name in doctor.PACKAGES[1:]:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(STRANGER)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"), wheel)


@pytest.fixture(scope="module")
def computed(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A warehouse that the installed command has read and computed."""
    folder = tmp_path_factory.mktemp("computed")
    dump = tiny(60).write(folder)
    installed.output("trackside", "ingest", "slurm", *dump, "--warehouse", str(folder / "w"))
    installed.output("trackside", "compute", "--warehouse", str(folder / "w"))
    return str(folder / "w")


def test_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for folder in doctor.PACKAGES:
        for path in (ROOT / folder).rglob("*"):
            relative = path.relative_to(ROOT)
            if path.suffix in SHIPPED and not relative.is_relative_to("app/wheel"):
                assert f"trackside/_packages/{relative}" in names


def test_wheel_installs_one_name(installed: Installed) -> None:
    (metadata,) = (name for name in installed.names if name.endswith(".dist-info"))
    assert installed.names == {"trackside", metadata}


@pytest.mark.slow
@pytest.mark.parametrize("command", [("trackside",), ("python", "-m", "trackside")])
def test_command_starts_with_name_clashes_installed(installed: Installed, command: tuple[str, ...]) -> None:
    assert "trackside" in installed.output(*command, "--version", PYTHONPATH=str(installed.elsewhere))


@pytest.mark.slow
def test_numbers_from_the_wheel(installed: Installed, computed: str) -> None:
    shown = installed.output("trackside", "show", "lost", "--format", "json", "--warehouse", computed)
    assert json.loads(shown)
    verified = installed.run("trackside", "verify", "--warehouse", computed)
    assert verified.returncode in {0, 3, 4}, verified.stderr


@pytest.mark.slow
def test_a_stranger_reproduces_a_bundle(installed: Installed, computed: str, tmp_path: Path) -> None:
    """Somebody else's machine: a folder with the bundle and the README alone, no configuration, no warehouse."""
    period = ("--period", "2026-10-01T01:00..2026-10-03")
    made = ("report", "bundle", *period, "--warehouse", computed, "-o", str(tmp_path / "e"))
    installed.output("trackside", *made)
    theirs = tmp_path / "theirs"
    shutil.copytree(tmp_path / "e", theirs / "e")
    shutil.copy(ROOT / "README.md", theirs)
    alone = {"HOME": str(theirs), "XDG_CONFIG_HOME": str(theirs), "TRACKSIDE_CONFIG": ""}
    command = ("trackside", "report", "check", "e", "--format", "json")
    done = installed.run_in(theirs, *command, **alone)
    assert done.returncode == 0, done.stderr
    assert {row["reproduced"] for row in json.loads(done.stdout)} == {"yes"}
    assert sorted(path.name for path in theirs.iterdir()) == ["README.md", "e"]
    changed = theirs / "e" / "inputs" / "attempts.parquet"
    content = bytearray(changed.read_bytes())
    content[len(content) // 2] ^= 1
    changed.write_bytes(content)
    done = installed.run_in(theirs, *command, **alone)
    assert done.returncode == 3
    assert "inputs/attempts.parquet: changed" in done.stderr


@pytest.mark.slow
def test_sandbox_starts_from_the_wheel(installed: Installed, computed: str) -> None:
    select = ("trackside", "sql", "SELECT count(*) AS n FROM attempts", "--format", "json", "--warehouse", computed)
    assert json.loads(installed.output(*select, PYTHONPATH=str(installed.elsewhere)))[0]["n"] >= 60


@pytest.mark.slow
def test_frames_from_the_wheel(installed: Installed, computed: str) -> None:
    program = (
        "import sys, trackside; warehouse = trackside.open(sys.argv[1])\n"
        "print(warehouse.lost(cluster='tiny').height, warehouse.sql('SELECT count(*) AS n FROM attempts').item())"
    )
    rows, attempts = map(int, installed.output("python", "-c", program, computed).split())
    assert rows > 0
    assert attempts >= 60


@pytest.mark.slow
def test_whole_demo_from_the_wheel(installed: Installed, tmp_path: Path) -> None:
    printed = installed.output("trackside", "demo", "--no-serve", "--dir", str(tmp_path / "demo"))
    assert "The report:" in printed
    assert list((tmp_path / "demo").glob("sla-demo-*.html"))
    assert "OUTSIDE" not in printed  # what Trackside reads from the files is the truth, within its bounds and intervals
    assert "off by" not in printed
    assert "False alarms: 0 of 122 nodes" in printed
    for line in in_the_readme(before="verdict "):
        assert line in printed, "the README shows what the demo no longer prints"


def test_import_refuses_another_package_of_our_name(installed: Installed) -> None:
    (installed.elsewhere / "metrics" / "__init__.py").write_text("")
    done = installed.run("python", "-c", "import metrics, trackside")
    (installed.elsewhere / "metrics" / "__init__.py").write_text(STRANGER)
    assert "ImportError: trackside needs the import name 'metrics', and this process has imported" in done.stderr


@pytest.mark.slow
def test_doctor_reports_who_else_installs_trackside(installed: Installed, computed: str) -> None:
    metadata = installed.packages / "rival-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: rival\nVersion: 1.0\n")
    (metadata / "RECORD").write_text("trackside/__init__.py,,\n")
    faulty = installed.run("trackside", "doctor", "--warehouse", computed)
    shutil.rmtree(metadata)
    assert "comes from" not in faulty.stdout
    assert "rival also installs a package called 'trackside'" in faulty.stdout
    assert faulty.returncode != 0


def test_doctor_reports_a_package_from_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert doctor.foreign_packages() == {}
    strange_modules(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "dashboards", raising=False)
    assert doctor.foreign_packages() == {"dashboards": str(tmp_path / "dashboards" / "__init__.py")}


def test_checkout_has_no_foreign_packages() -> None:
    assert doctor.other_owners() == []
    assert doctor.foreign_packages() == {}
