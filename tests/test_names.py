"""Names of tests: short enough to be read in a report, and each once in its module."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
LONGEST: Final = 60


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
        ("def test_a(): pass\ndef test_a(): pass", ["test_a: defined 2 times"]),
        ("class TestA:\n def test_a(self): pass\nclass TestB:\n def test_a(self): pass", []),
        ("class TestA:\n def test_a(self): pass\n def test_a(self): pass", ["TestA.test_a: defined 2 times"]),
    ],
)
def test_faults_are_long_and_repeated_names(source: str, expected: list[str]) -> None:
    assert faults(source) == expected


def faults(source: str) -> list[str]:
    """What is wrong with the names of a module's tests. Of two tests of one name, pytest runs only the last."""
    counts = Counter(_names(ast.parse(source)))
    long = [f"{name}: {len(name)} characters" for name in counts if len(name.rpartition(".")[2]) > LONGEST]
    return long + [f"{name}: defined {count} times" for name, count in counts.items() if count > 1]


def _names(scope: ast.Module | ast.ClassDef) -> list[str]:
    names: list[str] = []
    for each in scope.body:
        if isinstance(each, ast.ClassDef):
            names += [f"{each.name}.{name}" for name in _names(each)]
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_"):
            names.append(each.name)
    return names
