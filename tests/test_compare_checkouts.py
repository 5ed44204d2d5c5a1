"""The comparison of two checkouts finds what differs, and only that."""

from __future__ import annotations

import re
import sys
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from tests.compare_checkouts.__main__ import Expectation, main, table
from tests.compare_checkouts.collect import Checkout, Collector
from tests.compare_checkouts.differences import Difference, compare_folders
from tests.compare_checkouts.jobs import BEGIN, QUESTIONS, Job
from tests.support.command import trackside

CLOCK = "def now():\n    raise AssertionError('the clock of the machine was read')\n"
COMMAND = """
import sys
from toy import clock

def main(argv):
    print("{greeting}", clock.now().isoformat(), *argv)
    print("a message", file=sys.stderr)
    return 3
"""


def checkout(folder: Path, greeting: str) -> Checkout:
    """A checkout of a toy command that prints a greeting and the time."""
    (folder / "toy").mkdir(parents=True)
    (folder / "toy" / "clock.py").write_text(CLOCK)
    (folder / "toy" / "cli.py").write_text(COMMAND.format(greeting=greeting))
    (folder / "pyproject.toml").write_text('[project]\nscripts.trackside = "toy.cli:main"\n')
    return Checkout(folder, Path(sys.executable))


def outputs(one: Checkout, folder: Path) -> Path:
    """What the toy command writes."""
    (folder / "work").mkdir(parents=True)
    collector = Collector(one, folder)
    collector.run([Job("say/first.txt", ("x",)), Job("say/second.txt", ("y",))], BEGIN, apart=timedelta(minutes=1))
    return collector.outputs


def test_collector_keeps_output_messages_and_status(tmp_path: Path) -> None:
    kept = outputs(checkout(tmp_path / "toy", "hello"), tmp_path / "run")
    assert (kept / "say/first.txt").read_text() == "hello 2026-09-01T00:00:00+00:00 x\n"
    assert (kept / "say/second.txt").read_text() == "hello 2026-09-01T00:01:00+00:00 y\n"
    assert (kept / "messages/say/first.txt").read_text() == "a message\n"
    assert (kept / "status/say/first.txt.txt").read_text() == "3\n"


def test_main_finds_a_changed_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = outputs(checkout(tmp_path / "a", "hello"), tmp_path / "old")
    same = outputs(checkout(tmp_path / "b", "hello"), tmp_path / "same")
    changed = outputs(checkout(tmp_path / "c", "good day"), tmp_path / "new")
    assert main([str(old), str(same)]) == 0
    assert "6 outputs: 6 the same, 0 differences" in capsys.readouterr().out
    assert main([str(old), str(changed)]) == 1
    printed = capsys.readouterr().out
    assert "say/first.txt | differs | line 1: 'hello 2026" in printed
    assert "6 outputs: 4 the same, 2 differences, 2 of them not expected" in printed


def test_main_accepts_expected_differences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = outputs(checkout(tmp_path / "a", "hello"), tmp_path / "old")
    changed = outputs(checkout(tmp_path / "c", "good day"), tmp_path / "new")
    (tmp_path / "expected").write_text("say/*.txt: line 1  # another greeting\nshow/*: line 9 # nothing\n")
    assert main([str(old), str(changed), "--expect", str(tmp_path / "expected")]) == 0
    printed = capsys.readouterr().out
    assert "differs as expected (another greeting)" in printed
    assert "show/*: line 9 | not met" in printed


@pytest.mark.parametrize(
    ("name", "old", "new", "where"),
    [
        ("a.json", '[{"b": 1, "c": 2}, {"b": 1, "c": 3}]', '[{"b": 1, "c": 2}, {"b": 1, "c": 4}]', ["$[].c"]),
        ("a.json", '{"b": 1}', '{"b": 1.0}', ["$.b"]),
        ("a.json", '{"b": 1}', '{"b":1}', ["line 1"]),
        ("a.json", '{"b": [1]}', '{"b": [1, 2], "c": 0}', ["$.b[]", "$.c"]),
        ("a.prom", "# HELP m a\nm 1\nn 1\n", "# HELP m b\nm 1\nn 2\n", ["m", "n"]),
        ("a.prom", "m 1\nn 1\n", "n 1\nm 1\n", ["line 1"]),
        ("a.html", "<p>\n<b>1</b>\n", "<p>\n<b>2</b>\n", ["line 2"]),
        ("a.txt", "same\n", "same", ["white space"]),
    ],
)
def test_compare_folders_names_the_place(tmp_path: Path, name: str, old: str, new: str, where: list[str]) -> None:
    for folder, text in (("old", old), ("new", new)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
    result = compare_folders(tmp_path / "old", tmp_path / "new")
    assert [each.where for each in result[name]] == where


def test_compare_folders_names_files_of_one_side(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a.txt").write_text("new")
    result = compare_folders(tmp_path / "old", tmp_path / "new")
    assert result == {"a.txt": [Difference("a.txt", "file", "missing", "present")]}


TABLE = {"job": ["1", "2"], "nodes": [["a"], ["b", "c"]], "gpus": [8.0, None]}


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"job": ["2", "1"], "nodes": [["b", "c"], ["a"]], "gpus": [None, 8.0]}, []),
        ({**TABLE, "gpus": [8.0, 0.0]}, ["gpus"]),
        ({**TABLE, "gpus": [8.000000000000002, None]}, ["gpus"]),
        ({**TABLE, "nodes": [["a"], ["c", "b"]]}, ["nodes"]),
        ({**TABLE, "job": ["2", "1"]}, ["combination of columns"]),
        ({"job": ["1"], "nodes": [["a"]], "gpus": [8.0]}, ["number of rows"]),
        ({**TABLE, "gpus": [8, None]}, ["gpus"]),
        ({**TABLE, "user": ["x", "y"]}, ["column user"]),
    ],
)
def test_compare_folders_names_columns(tmp_path: Path, changed: dict[str, list[object]], where: list[str]) -> None:
    for folder, columns in (("old", TABLE), ("new", changed)):
        (tmp_path / folder).mkdir()
        pl.DataFrame(columns).write_parquet(tmp_path / folder / "t.parquet")
    result = compare_folders(tmp_path / "old", tmp_path / "new")
    assert [each.where for each in result["t.parquet"]] == where


def test_expectation_takes_brackets_as_they_are() -> None:
    difference = Difference("a.json", "$.panels[].title", "old", "new")
    assert Expectation("*: $.panels[].title", "").covers(difference)
    assert not Expectation("*: $.panels[].type", "").covers(difference)
    assert table({"a.json": [difference]}, [])[1] == [difference]


def test_questions_are_those_of_show() -> None:
    listed = trackside("show", "--help").stdout.partition("what to show")[2]
    assert set(re.findall(r"^  (\w+)  +\w", listed, re.MULTILINE)) == set(QUESTIONS)
