"""The examples of `make test` are the same everywhere; `make fuzz` explores, stops, and keeps what it finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.fuzz.targets import TARGETS, targets_of_modules

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[1]
PROPERTIES = """\
from hypothesis import given, settings, strategies as st

@settings(max_examples=5)
@given(st.integers(), st.text())
def test_a_law(number, text):
    assert {law}
"""
RECORDING = """\
from tests.fuzz import profiles
profiles.load()
import {module}
from hypothesis import given, strategies as st

examples = []

@given(st.integers(), st.text(), st.lists(st.floats(allow_nan=False)))
def test_a_law(number, text, floats):
    examples.append(repr((number, text, floats)))

def test_record():
    with open({file!r}, "w") as file:
        file.write("\\n".join(examples))
"""


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False)


def examples(folder: Path, module: str, hash_seed: str) -> list[str]:
    file = folder / f"{module}-{hash_seed}.txt"
    test = folder / "test_recording.py"
    test.write_text(RECORDING.format(module=module, file=str(file)))
    done = python("pytest", "-q", "-p", "no:randomly", str(test), PYTHONHASHSEED=hash_seed)
    assert done.returncode == 0, done.stdout
    return file.read_text().split("\n")


@pytest.mark.slow
def test_the_examples_do_not_depend_on_imports_or_the_process(tmp_path: Path) -> None:
    first = examples(tmp_path, "json", "1")
    assert len(first) == settings.get_profile("same").max_examples
    assert examples(tmp_path, "metrics.statistics", "2") == first


def test_the_profile_of_make_test_has_no_chance_and_no_deadline() -> None:
    profile = settings.get_profile("same")
    assert (profile.derandomize, profile.database, profile.deadline) == (True, None, None)


def fuzz(folder: Path, law: str, seed: int, minutes: float = 0.05) -> subprocess.CompletedProcess[str]:
    (folder / "test_laws.py").write_text(PROPERTIES.format(law=law))
    call = f"explore([{str(folder)!r}], {minutes}, [{seed}])"
    code = f"import sys; from tests.fuzz.__main__ import explore; sys.exit({call})"
    environment: Mapping[str, str] = {"TRACKSIDE_FUZZ_FINDINGS": str(folder / "findings")}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_law_that_holds_is_explored_until_the_time_is_over(tmp_path: Path) -> None:
    done = fuzz(tmp_path, "open(__file__ + '.count', 'a').write('x')", seed=1)
    assert done.returncode == 0, done.stdout
    assert done.stdout == "seed 1: nothing found\n"
    assert len((tmp_path / "test_laws.py.count").read_text()) > 5  # more than in `make test`


@pytest.mark.slow
def test_broken_property_is_kept_and_tried_first_next_run(tmp_path: Path) -> None:
    done = fuzz(tmp_path, "number < 1000", seed=1)
    assert done.returncode == 1
    assert "seed 1: FAILED" in done.stdout
    assert "number=1000," in done.stdout
    assert "reproduce_failure" in done.stdout
    assert "number=1000," in (tmp_path / "findings" / "seed-1.txt").read_text()
    again = fuzz(tmp_path, "number < 1000", seed=2, minutes=0)  # no time for anything but what is kept
    assert again.returncode == 1
    assert "number=1000," in again.stdout


def test_every_target_has_properties_and_every_property_a_target() -> None:
    assert {path for path in ROOT.glob("tests/**/test_*.py") if "from hypothesis" in path.read_text()} == set(
        targets_of_modules()
    )
    assert {target.name for target in targets_of_modules().values()} == {target.name for target in TARGETS}
