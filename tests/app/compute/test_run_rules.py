"""Run rules of the configuration, from a dump to `show runs`: which jobs are one run, and how that is shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.compute import pipeline as computing
from app.config import settings as config
from app.config.settings import Config
from app.errors import ConfigError, UsageError
from app.results.runs.joins import JOINED_BY
from app.show.answer import Question
from app.show.questions.runs.ettr import ettr
from app.show.questions.runs.runs import runs
from app.window import Window
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from metrics.runs.naming import BY_RULE
from metrics.runs.runs import ACROSS_JOBS
from queries.warehouse import Reader, open_reader, open_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from app.show.answer import Answer

NOW = datetime(2026, 12, 1, tzinfo=UTC)
G8 = "cpu=1,gres/gpu=8,node=1"
DUMP = f"""\
JobIDRaw|DBIndex|Cluster|Submit|Eligible|Start|End|State|NodeList|AllocTRES|User|Account|JobName|WorkDir|WCKey|AdminComment|SubmitLine|Comment
1|1|c|1795248000|1795248000|1795248000|1795251600|NODE_FAIL|n1|{G8}|alice|llm|a|/home/a|*|||run=paper
1|2|c|1795251600|1795251606|1795251610|1795255200|TIMEOUT|n1|{G8}|alice|llm|a|/home/a|*|||run=paper
2|3|c|1795248000|1795255200|1795255201|1795258800|COMPLETED|n1|{G8}|alice|llm|b|/home/b|*|{{"run": "paper"}}|sbatch b.sh|checked
3|4|c|1795248000|1795248000|1795248000|1795251600|TIMEOUT|n2|{G8}|bob|llm|c|/home/c|*||sbatch --export=ALL,TRACKSIDE_RUN_ID=moe c.sh|
4|5|c|1795248000|1795251600|1795251601|1795255200|COMPLETED|n2|{G8}|bob|llm|d|/home/d|*||sbatch --export=TRACKSIDE_RUN_ID=moe d.sh|run=ignored
5|6|c|1795248000|1795248000|1795248000|1795251600|TIMEOUT|n3|{G8}|carol|llm|llama-part1|/home/e|*|||
6|7|c|1795248000|1795251600|1795251601|1795255200|COMPLETED|n3|{G8}|carol|llm|llama-part2|/home/e|*|||
7|8|c|1795248000|1795248000|1795248000|1795251600|TIMEOUT|n4|{G8}|dave|llm|same|/home/f|key|||
8|9|c|1795251700|1795251700|1795251800|1795255200|COMPLETED|n4|{G8}|dave|llm|same|/home/f|key|||
103|20|c|1795248000|1795248000|1795248000|1795249000|NODE_FAIL|n5|{G8}|erin|llm|m-7b-part1|/home/g|*|||
103|21|c|1795249000|1795249000|1795249100|1795250000|TIMEOUT|n5|{G8}|erin|llm|m-7b-part1|/home/g|*|||
105|22|c|1795248000|1795250000|1795250100|1795251000|TIMEOUT|n5|{G8}|erin|llm|m-7b-part2|/home/g|*|||
106|23|c|1795248000|1795251000|1795251060|1795252020|TIMEOUT|n5|{G8}|erin|llm|m-7b-part3|/home/g|*|||
107|24|c|1795248000|1795251000|1795251180|1795252980|COMPLETED|n6|{G8}|erin|llm|m-7b-part4|/home/g|*|||
110|30|c|1795248000|1795248000|1795248000|1795251600|COMPLETED|n7|{G8}|frank|llm|x|/home/h|*|||run=foo
111|31|c|1795248000|1795248000|1795248100|1795251600|COMPLETED|n8|{G8}|grace|llm|x|/home/i|*|||run=foo
"""  # noqa: E501 - as sacct prints it


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rules")
    (folder / "dump.txt").write_text(DUMP)
    root = folder / "warehouse"
    with open_writer(root, verb="test", now=NOW) as writer:
        reports = ingesting.ingest_files(
            writer, Config(), [str(folder / "dump.txt")], ingesting.Options(), now=NOW, progress=lambda *_: None
        )
        assert first_error(reports) is None
    return root


_latest: dict[Path, dict[str, Any]] = {}
"""By warehouse, the rules of its last computation."""


def computed(root: Path, **rules: Any) -> Iterator[Reader]:
    """A reader of what these rules make of the warehouse, computed anew where others made what is there."""
    if _latest.get(root) != rules:
        with open_writer(root, verb="test", now=NOW) as writer:
            computing.compute(writer, config.parse({"rules": rules}, origin="test"), now=NOW)
        _latest[root] = rules
    with open_reader(root) as reader:
        yield reader


def joined(root: Path, **rules: Any) -> dict[str, list[tuple[str, int, str]]]:
    """(run, number, rule) of each attempt, by job."""
    (result,) = (reader.table("run_attempts").sort("submitted_at") for reader in computed(root, **rules))
    rows = result.group_by("job_id", maintain_order=True).agg(pl.struct("run_id", "attempt_no", "joined_by"))
    return {job: [tuple(row.values()) for row in each] for job, each in rows.iter_rows()}


ALONE = "single"


@pytest.mark.slow
def test_what_holds_without_a_configuration(loaded: Path) -> None:
    result = joined(loaded)
    assert result["1"] == [("paper", 1, "comment"), ("paper", 2, "requeue_chain")]
    assert result["2"] == [("paper", 3, "comment")]
    assert (result["3"], result["4"]) == ([("moe", 1, "environment")], [("moe", 2, "environment")])
    assert [result[job][0][2] for job in "5678"] == [ALONE] * 4


@pytest.mark.slow
def test_rules_can_be_turned_off_and_on(loaded: Path) -> None:
    result = joined(loaded, run_env="", run_comment_key="", run_wckey=True, run_names=[r"^(?P<run>.*)-part\d+$"])
    assert [result[job][0][2] for job in "1234"] == [ALONE] * 4
    assert (result["5"], result["6"]) == ([("llama", 1, "name_pattern")], [("llama", 2, "name_pattern")])
    assert (result["7"], result["8"]) == ([("key", 1, "wckey")], [("key", 2, "wckey")])


@pytest.mark.slow
def test_similar_jobs_are_joined_when_configured(loaded: Path) -> None:
    result = joined(loaded, join_by_name=True)
    (run, number, rule), (first, _, alone) = result["8"][0], result["7"][0]
    assert (run, number, rule, alone) == (first, 2, "heuristic", ALONE)
    assert result["2"] == [("paper", 3, "comment")]
    assert joined(loaded, join_by_name=True, run_gap_hours=0.01)["8"][0][2] == ALONE  # 100 s are longer than that


def shown(
    root: Path,
    run: str,
    question: Callable[[Reader, Window, Question], Answer] = runs,
    **rules: Any,
) -> Answer:
    window = Window(
        "c", datetime.fromtimestamp(1795248000, UTC), datetime.fromtimestamp(1795258800, UTC) + timedelta(days=1)
    )
    (answer,) = (question(reader, window, Question(run=run)) for reader in computed(root, **rules))
    return answer


@pytest.mark.slow
def test_how_each_attempt_was_joined_is_shown(loaded: Path) -> None:
    answer = shown(loaded, "paper")
    assert answer.rows.select("run_id", "n_attempts", "joined_by", "state").rows() == [
        ("paper", 3, "comment", "COMPLETED")
    ]
    assert answer.notes[-1] == (
        "its attempts and how each was joined: 1: job 1, by the job's comment; "
        "2: job 1, by the scheduler's requeue; 3: job 2, by the job's comment."
    )
    assert shown(loaded, "4").rows["run_id"].to_list() == ["moe"]  # by the id of a job of it


PARTS: dict[str, Any] = {"run_names": [r"^(?P<run>m-.*)-part\d+$"]}
PIECES = ["m-7b@107-20261121T080000Z", "m-7b@106-20261121T080000Z", "m-7b@103-20261121T080000Z"]


@pytest.mark.slow
def test_overlapping_jobs_of_one_name_are_split_with_a_reason(loaded: Path) -> None:
    result = joined(loaded, **PARTS)
    assert result["103"] == [(PIECES[2], 1, "name_pattern"), (PIECES[2], 2, "requeue_chain")]
    assert result["105"] == [(PIECES[2], 3, "name_pattern")]
    assert (result["106"], result["107"]) == ([(PIECES[1], 1, ALONE)], [(PIECES[0], 1, ALONE)])
    why = "106 and 107 ran at the same time, so the name m-7b does not join them."
    for requested in ("m-7b", PIECES[0], PIECES[1], PIECES[2], "105"):
        assert shown(loaded, requested, **PARTS).notes.count(why) == 1
    assert not [note for note in shown(loaded, "6", **PARTS).notes if "same time" in note]


@pytest.mark.slow
@pytest.mark.parametrize("question", [runs, ettr])
def test_a_name_that_several_runs_have_lists_them(
    loaded: Path, question: Callable[[Reader, Window, Question], Answer]
) -> None:
    answer = shown(loaded, "foo", question)
    assert sorted(answer.rows["run_id"]) == ["foo@frank", "foo@grace"]
    assert "foo is the name of 2 runs, the newest first: foo@frank, foo@grace." in answer.notes
    pieces = shown(loaded, "m-7b", question, **PARTS)
    assert sorted(pieces.rows["run_id"]) == sorted(PIECES)
    assert any(note.startswith("m-7b is the name of 3 runs") for note in pieces.notes)
    with pytest.raises(UsageError, match="no run and no job is called 'fo'"):
        shown(loaded, "fo", question)


@pytest.mark.slow
def test_the_first_attempt_of_a_chain_is_called_first(loaded: Path) -> None:
    answer = shown(loaded, "103")
    assert answer.notes[-1] == (
        "its attempts and how each was joined: 1: job 103, first; 2: job 103, by the scheduler's requeue."
    )


@pytest.mark.slow
def test_the_rules_are_kept_with_the_computation(loaded: Path) -> None:
    (constants,) = (
        reader.query("computed", cluster="c")["constants"].item()
        for reader in computed(loaded, run_names=["^a"], join_by_name=True)
    )
    assert '"run_names": ["^a"]' in constants
    assert '"join_by_name": true' in constants
    assert '"run_env": "TRACKSIDE_RUN_ID"' in constants


@pytest.mark.parametrize(
    ("rules", "output"),
    [
        ({"run_names": ["("]}, "rules.run_names.0"),
        ({"run_names": [r"(?=x)"]}, "not a regular expression (in Rust's syntax)"),
        ({"run_names": [r"^(?P<name>x)-(\d+)(?P<part>y)"]}, "none of its groups (name, part) is called run"),
        ({"run_env": "A-B"}, "rules.run_env"),
        ({"run_env": "$RUN"}, "rules.run_env"),
        ({"run_comment_key": "a b"}, "rules.run_comment_key"),
        ({"join_gpu_factor": 0.5}, "rules.join_gpu_factor"),
        ({"run_name": ["a"]}, "did you mean run_names?"),
    ],
)
def test_mistakes_in_the_rules_are_reported(rules: dict[str, object], output: str) -> None:
    with pytest.raises(ConfigError, match="1 mistake") as reported:
        config.parse({"rules": rules}, origin="trackside.toml")
    assert output in str(reported.value)


def test_every_rule_has_words() -> None:
    assert {*ACROSS_JOBS, *BY_RULE, "single", "requeue_chain", "resize", "het"} <= set(JOINED_BY)
