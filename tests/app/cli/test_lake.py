"""A lake as a person uses it: the same bytes as from the directory that it was copied from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.claims.watched import WatchedClaims
from app.cli import main as cli
from app.explorer.application import Explorer, page
from app.results.serving.cache import AnswerCache
from tests.support.warehouses import NOW, from_accounting

if TYPE_CHECKING:
    from pathlib import Path

QUESTIONS = [
    ["show", "goodput"],
    ["show", "lost", "--format", "json"],
    ["show", "runs", "--format", "csv"],
    ["show", "mttf"],
    ["verify"],
    ["sql", "SELECT category, SUM(gpu_seconds) FROM gpu_time GROUP BY ALL ORDER BY ALL"],
    ["export", "attempts", "--format", "csv"],
]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A warehouse directory, and a lake that it was copied into."""
    folder = tmp_path_factory.mktemp("lake")
    source = from_accounting(folder / "made", jobs=40)
    lake = folder / f"ducklake:{folder}/lake.ducklake"
    assert cli.main(["warehouse", "copy", str(source), str(lake), "--data-path", str(folder / "files"), "-q"]) == 0
    return source, lake


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache-of-lakes"))


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: " ".join(question[:2]))
def test_lake_gives_the_same_bytes(
    question: list[str], places: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    answers = []
    for place in places:
        status = cli.main([*question, "--warehouse", str(place)])
        answers.append((status, capsys.readouterr().out))
    assert answers[0] == answers[1]
    assert len(answers[0][1]) > 50


def test_status_names_the_lake_and_says_the_same(
    places: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.clock.now", lambda: NOW)
    told = []
    for place in places:
        assert cli.main(["status", "--warehouse", str(place)]) == 0
        first, _, rest = capsys.readouterr().out.partition("\n\n")
        told.append(rest)
    assert "ducklake:" in first
    assert told[0] == told[1]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "html"])
def test_report_has_the_same_bytes(form: str, places: tuple[Path, Path], tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.{form}" for number in range(len(places))]
    for place, file in zip(places, files, strict=True):
        command = ["report", "sla", "--period", "2026-10", "--warehouse", str(place), "-o", str(file), "-q"]
        assert cli.main(command) in {0, 3, 4}
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.slow
def test_explorer_shows_the_same_page(places: tuple[Path, Path]) -> None:
    shown = [str(page(Explorer(AnswerCache(place), WatchedClaims(None)), "/reliability", "")[2]) for place in places]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("verb", [["compute"], ["ingest", "slurm"]])
def test_verb_that_writes_names_the_way(
    verb: list[str], places: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*verb, "--warehouse", str(places[1])]) == 40
    assert "trackside warehouse copy DIR" in capsys.readouterr().err


def test_vacuum_says_what_it_removed(places: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    for option, words in (("--dry-run", "would be removed"), ("--keep-days=7", "removed")):
        assert cli.main(["warehouse", "vacuum", str(places[1]), option]) == 0
        assert f"0 files replaced and 0 never committed, 0 B, {words}." in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["copy", "a"], ["vacuum", "a", "b"]])
def test_warehouse_verb_takes_the_right_places(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["warehouse", *arguments]) == 2
    assert "warehouse vacuum LAKE" in capsys.readouterr().err
