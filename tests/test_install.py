"""The wheel holds what runs: SQL, claims, and a command that works from anywhere."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from app.cli.doctor import PACKAGES, strangers

ROOT = Path(__file__).parents[1]


def test_the_wheel_has_every_sql_file_and_the_claims(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for folder in PACKAGES:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".sql", ".toml"}:
                assert str(path.relative_to(ROOT)) in names
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    found_there = f"import sys; sys.path.insert(0, {str(unpacked)!r})"
    code = f"{found_there}; from app.cli.main import main; sys.exit(main(sys.argv[1:]))"
    sacct = tmp_path / "sacct.txt"
    sacct.write_text(
        "JobIDRaw|Cluster|Submit|Start|End|State|NodeList|AllocTRES\n1|c|1790812800|1790812801|1790816401|FAILED|n1|gres/gpu=8\n"
    )
    for arguments in (["ingest", "slurm", str(sacct)], ["compute"], ["show", "lost"], ["verify"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode in {0, 3, 4}, done.stderr


def test_nobody_else_owns_our_names() -> None:
    assert strangers() == {}
