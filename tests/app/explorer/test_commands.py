"""Commands that pages offer name the warehouse and the configuration, as a shell in any folder needs them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from app import formatting
from app.access.people import Person, Role
from app.claims.watched import WatchedClaims
from app.cli.main import build_parser, commands
from app.config import settings
from app.config.settings import Config
from app.explorer.application import Explorer, page
from app.explorer.commands import OF_NO_WAREHOUSE, completed, options_of
from app.results.serving.cache import AnswerCache
from tests.app.explorer.test_gate import seen_by
from tests.app.explorer.test_pages import components, words
from tests.support.command import trackside

OPTIONS = "--warehouse '/a b' --config /c.toml"


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("trackside show nodes --by node", f"trackside show nodes --by node {OPTIONS}"),
        ("trackside run 'a & b#1' --cluster c", f"trackside run 'a & b#1' --cluster c {OPTIONS}"),
        ("trackside ingest slurm\ntrackside compute", f"trackside ingest slurm {OPTIONS}\ntrackside compute {OPTIONS}"),
        ("trackside compute   # once", f"trackside compute {OPTIONS}   # once"),
        ("trackside recorder > log.py  # a file", "trackside recorder > log.py  # a file"),
        ("trackside adjudicate --help", "trackside adjudicate --help"),
        ("scontrol show node n1", "scontrol show node n1"),
    ],
)
def test_a_command_is_completed_before_what_ends_it(text: str, whole: str) -> None:
    assert completed(text, OPTIONS) == whole
    assert completed(text, "") == text


def test_verbs_without_a_warehouse_are_those_of_the_parser() -> None:
    parsers = list(commands(build_parser()))
    takes = {name.split(" ")[0] for name, parser in parsers if "\n  --warehouse" in parser.format_help()}
    assert {name.split(" ")[0] for name, _ in parsers} - takes == OF_NO_WAREHOUSE


@pytest.fixture
def explorer(warehouse: Path, tmp_path: Path) -> Explorer:
    """An explorer of the tiny cluster in a folder whose name a shell would take apart, with a configuration."""
    root = tmp_path / "my data"
    root.symlink_to(warehouse)
    file = tmp_path / "trackside.toml"
    file.write_text("[rules]\nrun_gap_hours = 24\n", encoding="utf-8")
    options = options_of(root, settings.load(file))
    return Explorer(AnswerCache(root), WatchedClaims(None), sql=True, options=options)


def typed(contents: object) -> list[str]:
    """The commands of a page or drawer."""
    return [str(each) for each in components(contents) if str(each).startswith("trackside ")]


def test_a_copied_command_prints_the_number_of_its_page(
    explorer: Explorer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, contents = explorer.about("occupancy", explorer.view("?since=7d"))
    (command,) = typed(contents)
    monkeypatch.chdir(tmp_path)
    arguments = [each for each in shlex.split(command)[1:] if each != "--explain"]
    rows = json.loads(trackside(*arguments, "--format", "json").stdout)
    (value,) = (row["value"] for row in rows if row["metric"] == "occupancy")
    assert formatting.measured(value, "ratio") in words(contents)
    assert arguments[-4:] == ["--warehouse", str(tmp_path / "my data"), "--config", str(tmp_path / "trackside.toml")]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "search"), [("/today", ""), ("/run", "?id=1")])
def test_commands_of_pages_name_the_warehouse(explorer: Explorer, path: str, search: str) -> None:
    offered = [each for each in typed(page(explorer, path, search)[2]) if "trackside docs" not in each]
    assert offered
    assert all("/my data' --config " in each for each in offered if "recorder" not in each), offered


def test_viewers_see_no_paths_of_the_server(explorer: Explorer) -> None:
    assert explorer.options
    with seen_by(Person("ada", Role.VIEWER, ("research",))):
        assert not explorer.view("").options


def test_a_lake_is_named_by_its_address(tmp_path: Path) -> None:
    assert options_of(Path("ducklake:postgres:dbname=lake host=db"), Config()) == (
        "--warehouse 'ducklake:postgres:dbname=lake host=db'"
    )
    assert options_of(Path("data"), Config()) == f"--warehouse {Path.cwd()}/data"
