"""Grafana's own dashboard-linter on the boards, in its strictest setting; without it the tests are skipped."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from dashboards.build import boards, build

LINTER = Path("/opt/trackside-lab/linter/dashboard-linter")
"""Where tests/lab/linter/build.sh puts it."""

NO_SCRAPE_LABELS = (
    "Series are recorded or exported by cluster, node and job of Slurm: whatever scraped them makes no difference."
)
EXCLUDED = dict.fromkeys(
    ("template-job-rule", "template-instance-rule", "target-job-rule", "target-instance-rule"), NO_SCRAPE_LABELS
)
"""Rules that are left out, with the reason."""


def _need_linter() -> None:
    if not LINTER.exists():
        pytest.skip("no dashboard-linter of Grafana; get it with: make linter")


def _lint(board: Path) -> subprocess.CompletedProcess[str]:
    config = board.with_suffix(".lint.yaml")
    config.write_text(yaml.safe_dump({"exclusions": {rule: {"reason": why} for rule, why in EXCLUDED.items()}}))
    command = [str(LINTER), "lint", "--strict", "--config", str(config), str(board)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_grafana_linter_finds_nothing(tmp_path: Path) -> None:
    _need_linter()
    build(tmp_path)
    for name in boards():
        done = _lint(tmp_path / "boards" / f"{name}.json")
        assert done.returncode == 0, done.stdout + done.stderr


def test_grafana_linter_finds_a_planted_mistake(tmp_path: Path) -> None:
    _need_linter()
    build(tmp_path)
    board = tmp_path / "boards" / "fleet.json"
    board.write_text(board.read_text().replace('"editable": false', '"editable": true'))
    done = _lint(board)
    assert done.returncode != 0
    assert "editable" in done.stdout + done.stderr
