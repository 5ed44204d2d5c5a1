"""CPU seconds are those of a test with its fixtures and children."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
import subprocess, sys
import pytest

@pytest.fixture
def child():
    subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.8: pass"], check=True)

def test_with_a_child(child):
    pass

@pytest.mark.parametrize("number", [1, 2])
def test_of_nothing(number):
    pass
"""


@pytest.mark.slow
def test_child_of_a_fixture_counts_for_its_test(tmp_path: Path) -> None:
    module = tmp_path / "test_burning.py"
    module.write_text(TESTS, encoding="utf-8")
    options = [
        "-p",
        "tests.cpu_seconds",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
        "-n",
        "1",
        "--rootdir",
        str(tmp_path),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, str(module)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = {name: float(used) for used, name in re.findall(r"^ *([\d.]+)  .*::(\w+)$", done.stdout, re.MULTILINE)}
    assert seconds["test_with_a_child"] >= 0.7
    assert seconds["test_of_nothing"] < 0.3
