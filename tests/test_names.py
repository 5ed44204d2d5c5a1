"""Names of tests: short enough to be read in a report, in the words of the manual, and each once in its module."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
LONGEST: Final = 60

DIALECT: Final = re.compile(
    r"_(told|tells?|asked|asks?|asking|spells?|roads?|nobody|somebody|speaks?|spoken|heard|hears|believed|believes|"
    r"sightings?|stretches)(?=_|$)"
)
"""Words for which the field has others: reported, requested, interval, transport, unknown, covers, observation."""


@pytest.mark.slow
def test_repository_follows_the_rules() -> None:
    files = sorted(TESTS.rglob("test_*.py"))
    assert len(files) > 100
    result = {str(file.relative_to(TESTS)): faults(file.read_text(encoding="utf-8")) for file in files}
    assert {file: of_file for file, of_file in result.items() if of_file} == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (f"def test_{'a' * 55}(): pass", []),
        (f"def test_{'a' * 56}(): pass", [f"test_{'a' * 56}: 61 characters"]),
        ("def test_a(): pass\ndef test_b(): pass", []),
        ("def test_what_is_told(): pass\ndef test_what_is_untold(): pass", ["test_what_is_told: say told otherwise"]),
        ("def test_a(): pass\ndef test_a(): pass", ["test_a: defined 2 times"]),
        ("class TestA:\n def test_a(self): pass\nclass TestB:\n def test_a(self): pass", []),
        ("class TestA:\n def test_a(self): pass\n def test_a(self): pass", ["TestA.test_a: defined 2 times"]),
    ],
)
def test_faults_are_long_repeated_and_odd_names(source: str, expected: list[str]) -> None:
    assert faults(source) == expected


def faults(source: str) -> list[str]:
    """What is wrong with the names of a module's tests. Of two tests of one name, pytest runs only the last."""
    counts = Counter(_names(ast.parse(source)))
    long = [f"{name}: {len(name)} characters" for name in counts if len(name.rpartition(".")[2]) > LONGEST]
    words = [f"{name}: say {word[1]} otherwise" for name in counts for word in DIALECT.finditer(name)]
    return long + words + [f"{name}: defined {count} times" for name, count in counts.items() if count > 1]


def _names(scope: ast.Module | ast.ClassDef) -> list[str]:
    names: list[str] = []
    for each in scope.body:
        if isinstance(each, ast.ClassDef):
            names += [f"{each.name}.{name}" for name in _names(each)]
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_"):
            names.append(each.name)
    return names
