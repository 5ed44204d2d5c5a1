"""What may follow on a command line, from the parsers and from the warehouse."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from app.api import QUESTIONS
from app.cli.completion import answer
from app.cli.completion.candidates import SAFE, Candidates, candidates
from app.cli.main import build_parser, commands, main
from queries.warehouse import open_reader
from tests.support.command import trackside
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from pathlib import Path

BREAKS = " \t\n\"'@><=;|&(:"
"""COMP_WORDBREAKS of bash as it comes."""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_accounting(tmp_path_factory.mktemp("completion"))


@pytest.fixture
def here(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRACKSIDE_WAREHOUSE", str(warehouse))
    return warehouse


def words(line: str) -> list[str]:
    return [word for word, _ in of(line).words]


def of(line: str) -> Candidates:
    return candidates(line.split(" "), build_parser)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sho", ["show"]),
        ("ex", ["explore", "export"]),
        ("ingest ", ["slurm", "prometheus", "runlog", "ranks", "kubernetes", "determined"]),
        ("show g", ["goodput"]),
        ("show goodput --f", ["--format"]),
        ("show goodput --format ", ["table", "json", "csv", "parquet"]),
        ("show goodput --format c", ["csv"]),
        ("show goodput --format=c", ["--format=csv"]),
        ("show goodput --format json --by b", ["bucket"]),
        ("show --by cluster lemons --by ", ["node"]),
        ("show -o file lemons --by ", ["node"]),
        ("show ettr --by str", ["stretch"]),
        ("adjudicate cause --class pl", ["planned"]),
        ("status --format ", ["table", "json"]),
        ("export gpu_sa", ["gpu_samples"]),
        ("help lem", ["lemon", "lemons", "lemon_q"]),
        ("docs tut", ["tutorial"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("ingest slurm --timezone Europe/Berl", ["Europe/Berlin"]),
        ("nonsense ", ["--help", "--version"]),
        ("show goodput --nonsense --form", ["--format"]),
    ],
)  # fmt: skip
def test_what_follows_is_from_the_parsers(line: str, expected: list[str]) -> None:
    assert words(line) == expected


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("ingest runlog ", "files"),
        ("ingest slurm a.txt b", "files"),
        ("show lost -o ", "files"),
        ("status --warehouse ", "directories"),
        ("demo --dir x", "directories"),
    ],
)
def test_files_are_left_to_the_shell(line: str, kind: str) -> None:
    assert of(line) == Candidates(kind, [])


def test_every_verb_and_question_is_offered_with_a_description() -> None:
    verbs = [name for name, _ in commands(build_parser()) if " " not in name]
    assert words("")[: len(verbs)] == verbs
    assert words("show ") == list(QUESTIONS)
    assert all(text for line in ("", "show ", "show goodput -") for _, text in of(line).words)


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_split_of_a_question_is_offered(question: str) -> None:
    assert words(f"show {question} --by ") == list(QUESTIONS[question].splits)


def test_an_option_is_offered_once() -> None:
    assert "--by" in words("show lost -")
    assert "--by" not in words("show lost --by user -")


@pytest.mark.slow
def test_names_come_from_the_warehouse(here: Path) -> None:
    with open_reader(here) as reader:
        runs = reader.table("runs")["run_id"].to_list()
        nodes = sorted(set(reader.table("nodes")["node"]) | set(reader.table("node_states")["node"]))
        jobs = set(reader.table("run_attempts")["job_id"])
    assert words("show lost --cluster ") == ["tiny"]
    assert sorted(words("show ettr --run ")) == sorted(runs)
    assert words(f"show ettr --run {runs[0][:3]}") == [
        each for each in words("show ettr --run ") if each[:3] == runs[0][:3]
    ]
    assert words("adjudicate node-state --node ") == nodes
    assert set(words("adjudicate cause --job ")) == jobs


def test_names_come_from_the_warehouse_of_the_line(warehouse: Path, tmp_path: Path) -> None:
    assert words(f"show lost --warehouse {warehouse} --cluster ") == ["tiny"]
    config = tmp_path / "t.toml"
    config.write_text(f'warehouse = "{warehouse}"\n', encoding="utf-8")
    assert words(f"show lost --config {config} --cluster ") == ["tiny"]


@pytest.mark.parametrize(
    "name", ["", "-rf", "$(id)", "`id`", "a b", "a;b", "a&b", "a|b", "~root", "!!", "{a,b}", "a\nb", "*", "a'b", 'a"b',
             "a\\b", "a<b", "#a", "a?b", "a[b]", "=ls", "ä\u202e", "a\tb", "\x1b[31m", "%1", "a^b"]
)  # fmt: skip
def test_a_name_that_a_shell_would_interpret_is_unsafe(name: str) -> None:
    assert not SAFE.fullmatch(name)


@pytest.mark.parametrize(
    "name", ["29-20261121T073100Z", "gpu-001", "llama@3", "a:b", "12_7", "user.name", "A+B=c,d/e%"]
)
def test_usual_names_are_safe(name: str) -> None:
    assert SAFE.fullmatch(name)


def test_bash_gets_what_follows_its_last_break() -> None:
    assert answer.split("trackside show lost --format=c")[1:] == ["show", "lost", "--format=c"]
    result = of("show lost --format=c")
    assert answer.after_break(result, "--format=c", BREAKS) == ["csv"]
    assert answer.after_break(result, "--format=c", " \t\n") == ["--format=csv"]
    done = trackside("_complete", "bash", "trackside show lost --format=c", BREAKS)
    assert done.stdout == "words\ncsv\n"


@pytest.mark.parametrize(
    "arguments",
    [(), ("bash",), ("bash", "trackside show 'a", BREAKS), ("bash", "", ""), ("fish",), ("zsh", "show", "--run"),
     ("tcsh", "show", ""), ("fish", "show", "lost", "--cluster", "")],
)  # fmt: skip
@pytest.mark.parametrize("warehouse_is", ["nowhere", "a file", "damaged"])
def test_completion_never_fails_and_prints_no_error(
    arguments: tuple[str, ...], warehouse_is: str, tmp_path: Path
) -> None:
    root = tmp_path / "w"
    if warehouse_is == "a file":
        root.write_text("x")
    if warehouse_is == "damaged":
        (root / "published").mkdir(parents=True)
        (root / "published" / "00000001.duckdb").write_bytes(b"x" * 9000)
        (root / "published" / "current").symlink_to("00000001.duckdb")
    done = trackside("_complete", *arguments, env={"TRACKSIDE_WAREHOUSE": str(root)})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout in {"", "words\n"} or done.stdout.startswith(("words\n", "files\n"))


def test_a_broken_configuration_offers_no_names(tmp_path: Path) -> None:
    (tmp_path / "trackside.toml").write_text("warehouse = ", encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith("TRACKSIDE_")}
    done = trackside("_complete", "fish", "show", "lost", "--cluster", "", cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "words\n", "")


def test_the_hidden_verb_is_not_listed() -> None:
    assert "_complete" not in trackside("--help").stdout
    assert "_complete" not in words("")
    assert main(["_complete", "zsh", "show"]) == 0
