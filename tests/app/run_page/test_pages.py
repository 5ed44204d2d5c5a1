"""The page about a run: each kind of run as expected, never wider than the terminal, with totals that add up."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from app.run_page.bar import bars
from app.run_page.contents import TimeShare
from app.run_page.document import categories
from app.run_page.next_steps import next_steps
from app.run_page.page import page_of
from app.terminal.cells import width
from app.terminal.terminal import Terminal
from tests.app.run_page.jobs import HOSTILE, KINDS, PAGES, contents_of, loaded, page
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

    from app.run_page.contents import RunContents

BAR = re.compile(r"^.{13}.{23} +(?:< )?(?P<share>[0-9.]+) % +(?P<hours>[0-9.,]+) (?:GPU-)?h", re.MULTILINE)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return loaded(tmp_path_factory.mktemp("run_page"))


@pytest.fixture(scope="module")
def known(root: Path) -> dict[str, RunContents]:
    """The numbers of each kind of run."""
    return {kind: contents_of(root, text) for kind, text in KINDS.items()}


SCREEN = Terminal(width=80, height=24)


@pytest.mark.parametrize("kind", KINDS)
def test_page_is_as_expected(known: dict[str, RunContents], kind: str) -> None:
    """A page that should differ: `python -m tests.app.run_page.jobs` renews them all."""
    assert page_of(known[kind], SCREEN) == (PAGES / f"{kind}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("columns", [40, 57, 80, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_no_line_is_wider_than_the_terminal_and_80_columns(
    known: dict[str, RunContents], kind: str, columns: int
) -> None:
    text = page_of(known[kind], Terminal(width=columns, height=24, colours=True))
    assert max(map(width, text.splitlines())) <= min(columns, 80)


@pytest.mark.parametrize("kind", KINDS)
def test_hours_add_up_and_shares_do_but_for_rounding(known: dict[str, RunContents], kind: str) -> None:
    contents = known[kind]
    rows = BAR.findall(page_of(contents, SCREEN))
    if contents.ettr is None or not contents.ettr["wall_gpu_s"]:
        assert (rows, contents.parts) == ([], ())
        return
    whole = sum(part.gpu_s for part in contents.parts)
    assert whole == pytest.approx(contents.ettr["wall_gpu_s"], rel=1e-9)
    assert sum(float(share) for share, _ in rows) == pytest.approx(100.0, abs=0.05 * len(rows) + 1e-9)
    printed = sum(float(hours.replace(",", "")) for _, hours in rows)
    assert printed == pytest.approx(whole / 3600, abs=0.051)
    assert categories(contents)["share"].sum() == pytest.approx(1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_colours_change_nothing_but_colour(known: dict[str, RunContents], kind: str) -> None:
    plain = page_of(known[kind], SCREEN)
    coloured = page_of(known[kind], Terminal(width=80, height=24, colours=True))
    assert "\x1b" not in plain
    stripped = re.sub(r"\x1b\[\d+m", "", coloured)
    assert [line.rstrip() for line in stripped.splitlines()] == plain.splitlines()


@pytest.mark.parametrize("kind", KINDS)
def test_terminal_without_unicode_gets_ascii_bars(known: dict[str, RunContents], kind: str) -> None:
    text = page_of(known[kind], Terminal(width=80, height=24, unicode=False))
    drawn = [line for line in text.splitlines() if " % " in line or set(line) == {"-"}]
    assert all(each.isascii() for each in drawn)


@pytest.mark.slow
def test_commands_of_the_pages_work(root: Path, known: dict[str, RunContents]) -> None:
    commands: set[str] = set()
    for contents in known.values():
        steps = next_steps(contents, f" --warehouse {root}")
        assert 2 <= len(steps) <= 3
        commands |= {step.command for step in steps}
    unlike = {_without_run(command): command for command in sorted(commands)}
    for command in unlike.values():
        done = trackside(*command.split()[1:])
        assert done.returncode == 0, (command, done.stderr)


def _without_run(command: str) -> str:
    """What a command has in common with those about other runs of its kind."""
    return re.sub(r"--run \S+|run \S+", "", command)


@pytest.mark.slow
def test_hostile_name_reaches_the_terminal_as_visible_text(root: Path) -> None:
    text = page(root, KINDS["hostile"])
    assert not {"\x1b", "\u202e", "\u200b"} & set(text)
    assert "\\u202e" in text
    document = json.loads(trackside("run", KINDS["hostile"], "--format", "json", "--warehouse", str(root)).stdout)
    assert document["run"]["name"] == HOSTILE  # programs get it as it is


def document_of(root: Path, text: str) -> dict[str, Any]:
    done = trackside("run", text, "--format", "json", "--explain", "--warehouse", str(root))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_json_holds_what_the_page_shows(root: Path) -> None:
    document = document_of(root, "llama-8b")
    assert document["described_by"] == "accounting"
    assert document["steps"]["lost"] == 51
    assert [each["node"] for each in document["interruptions"]] == ["n2"]
    assert sum(each["share"] for each in document["categories"]) == pytest.approx(1.0)
    assert any("ETTR of run llama-8b" in line for line in document["explain"])
    assert document_of(root, "laptop")["described_by"] == "log"


@pytest.mark.slow
def test_csv_has_a_row_for_each_category_and_cause(root: Path) -> None:
    done = trackside("run", "llama-8b", "--format", "csv", "--warehouse", str(root))
    lines = done.stdout.splitlines()
    assert lines[0] == "cluster,run_id,category,cause,gpu_seconds,share"
    assert any(line.startswith("c,llama-8b,lost,node_fail,") for line in lines)


def test_small_categories_are_one_row_whose_hours_count(root: Path) -> None:
    """Two categories of less than a thousandth each are folded; the sum stays."""
    rows = bars([TimeShare("productive", 3_600_000.0), TimeShare("teardown", 900.0), TimeShare("startup", 1_800.0)])
    assert [row.label for row in rows] == ["productive", "other"]
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert sum(row.hours for row in rows) == pytest.approx(1000.75, abs=0.5)


@pytest.mark.slow
def test_job_is_another_name_of_run(root: Path) -> None:
    one, other = (trackside(verb, "101", "--warehouse", str(root)).stdout for verb in ("run", "job"))
    assert one == other
    assert "healthy" in one


@pytest.mark.slow
def test_explain_prints_the_arithmetic_of_show_ettr(root: Path) -> None:
    shown = trackside("show", "ettr", "--run", "llama-8b", "--warehouse", str(root)).stdout
    explained = " ".join(trackside("run", "llama-8b", "--explain", "--warehouse", str(root)).stdout.split())
    fractions = re.findall(r"at least [0-9,]+ / [0-9,]+ = [0-9.]+", shown)
    assert fractions
    assert all(fraction in explained for fraction in fractions)
