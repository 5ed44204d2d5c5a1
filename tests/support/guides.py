"""Copies of the packages in which the files of a guide are written, and programs run in them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ROOT / "app" / "docs" / "developing"
PACKAGES = ("app", "dashboards", "ingest", "metrics", "queries")

_FILE = re.compile(r"^`([\w/]+\.py)`\n\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def copied_packages(root: Path) -> Path:
    """The packages, copied into a directory."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def written_files(root: Path, guide: str) -> list[Path]:
    """The files that a guide (`adding-a-GUIDE.md`) lists, written into a copy that has none of them yet."""
    written = []
    for path, text in _FILE.findall((GUIDES / f"adding-a-{guide}.md").read_text("utf-8")):
        target = root / path
        assert not target.exists()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        written.append(target)
    return written


def run_python(checkout: Path, *arguments: str) -> str:
    """What Python prints that runs in a copy."""
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
