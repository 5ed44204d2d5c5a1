"""Several workers share out tests, and never split what belongs together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from execnet import XSpec

from tests.scheduling import pytest_xdist_auto_num_workers, pytest_xdist_setupnodes, unit_of

ROOT = Path(__file__).parents[1]
TESTS = """\
import os, pathlib, time, pytest
pytestmark = [{marks}]

@pytest.fixture{scope}
def made():
    return None

@pytest.mark.parametrize("number", range(3))
def test_one_of_many(number, made):
    time.sleep(0.02)
    with open(pathlib.Path(__file__).with_name("said"), "a") as file:
        file.write("{unit} " + os.environ["PYTEST_XDIST_WORKER"] + "\\n")

test_another = test_one_of_many
"""


def test_modules_and_groups_stay_together_and_labs_come_first(tmp_path: Path) -> None:
    group, lab = 'pytest.mark.xdist_group("shared")', "pytest.mark.lab"
    alone = {"a": ("a", ""), "d": ("d", ""), "e": ("e", lab)}
    scopes = {"a": '(scope="module")', "d": "()", "e": '(scope="module")'}
    modules = alone | dict.fromkeys("bcfg", ("shared", group))  # so many are not together on one worker by chance
    for name, (unit, marks) in modules.items():
        (tmp_path / f"test_{name}.py").write_text(TESTS.format(marks=marks, unit=unit, scope=scopes.get(name, "")))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = lab\n")
    options = ("-n2", "--dist=loadfile", "--no-loadscope-reorder", "-p", "tests.scheduling", "-p", "no:dash")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.split() for line in (tmp_path / "said").read_text().splitlines()]
    assert len(said) == 6 * len(modules)
    workers = {unit: {worker for who, worker in said if who == unit} for unit, _ in said}
    assert {unit: len(those) for unit, those in workers.items() if unit != "d"} == {"a": 1, "shared": 1, "e": 1}
    assert len(set.union(*workers.values())) == 2
    (its_worker,) = workers["e"]
    assert [who for who, worker in said if worker == its_worker][:6] == ["e"] * 6


def test_requested_number_of_workers_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_AUTO_NUM_WORKERS", raising=False)
    assert pytest_xdist_auto_num_workers() is not None
    monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", "3")
    assert pytest_xdist_auto_num_workers() is None


def test_labs_get_a_worker_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_AUTO_NUM_WORKERS", raising=False)
    counts = []
    for tier in ("fast", "real"):
        monkeypatch.setenv("TRACKSIDE_TEST_TIER", tier)
        counts.append(pytest_xdist_auto_num_workers())
    assert counts == [counts[0], (counts[0] or 0) + 1]


@pytest.mark.parametrize(
    ("module", "unit"),
    [
        ("tests/ingest/slurm/live/test_lab_slurm.py", "lab"),
        ("tests/lab_tests/test_lab.py", "lab"),
        ("tests/dashboards/boards/test_fleet.py", "prometheus"),
        ("tests/lab_tests/test_truth.py", None),
        ("tests/app/claims/test_verify.py", "tests/app/claims/test_verify.py"),  # has a warehouse for all its tests
        ("tests/app/explorer/test_parts.py", "tests/app/explorer/test_parts.py"),  # its conftest has a browser
        ("tests/ingest/prometheus/files/test_openmetrics.py", None),
        ("README.md", None),
    ],
)
def test_unit_of_a_module_is_its_group_or_itself_or_each_test(module: str, unit: str | None) -> None:
    assert unit_of(ROOT, module) == unit


def test_with_real_components_two_workers_have_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKSIDE_TEST_TIER", "real")
    specs = [XSpec("popen") for _ in range(4)]
    pytest_xdist_setupnodes(specs)
    assert [spec.env for spec in specs] == [{}, {}, *[{"POLARS_MAX_THREADS": "1"}] * 2]
