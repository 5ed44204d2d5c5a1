"""`trackside help TOPIC` answers from the manual, whatever the topic is."""

from __future__ import annotations

import pytest

from app import manual
from app.api import QUESTIONS
from app.cli.help import topics
from app.cli.main import build_parser, commands
from app.errors import EXIT_STATUS, UsageError
from metrics.catalog import METRICS
from tests.support.command import trackside


def texts(topic: str) -> str:
    return "\n".join(each.text for each in topics.answers(topic))


def test_help_alone_is_the_list_of_verbs() -> None:
    assert trackside("help").stdout == trackside("--help").stdout != ""


@pytest.mark.parametrize("command", [name for name, _ in commands(build_parser())])
def test_every_verb_and_source_is_a_topic(command: str) -> None:
    assert f"## trackside {command}\n" in texts(command)
    assert f"## trackside {command}\n" in texts(f"trackside {command}")


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_is_a_topic(question: str) -> None:
    assert f"### {question}\n" in texts(question)


@pytest.mark.parametrize("metric", [each.name for each in METRICS])
def test_every_metric_is_a_topic(metric: str) -> None:
    assert f"## `{metric}`\n" in texts(metric)


@pytest.mark.parametrize(("status", "meaning"), sorted(set(EXIT_STATUS.values())))
def test_every_exit_status_is_a_topic(status: int, meaning: str) -> None:
    assert texts(str(status)) == f"**Exit status {status}**: {meaning}"


@pytest.mark.parametrize(
    ("topic", "begins"),
    [
        ("lemon", "**lemon**: a node with at least 3 failures"),
        ("MTTF", "**MTTF**: mean time to failure"),
        ("gpu", "**node, GPU**: as the scheduler names"),
        ("unattributed", "**unattributed**: category of the ledger, of allocated GPU-time: "),
        ("other work", "**other work**: category of the ledger"),
        ("idle", "**idle**: state of the ledger, with the categories pending demand, no demand"),
        ("provisional", "**provisional**: "),
        ("0", "**Exit status 0**: done"),
        ("claims", "# Claims"),
        ("exit", "# Exit statuses"),
        ("show ettr", "**ETTR**"),
        ("concepts/ledger", "# The ledger"),
        ("In a browser", "## In a browser"),
    ],
)
def test_terms_pages_and_sections_are_topics(topic: str, begins: str) -> None:
    assert topics.answers(topic)[0].text.startswith(begins)


def test_a_term_with_several_meanings_gets_all_of_them() -> None:
    pages = [each.page.topic for each in topics.answers("ettr")]
    assert pages == ["concepts/glossary", "how-to/questions", "reference/metrics"]


def test_an_unknown_topic_suggests_one() -> None:
    with pytest.raises(UsageError, match=r"nothing on 'gooodput'; did you mean goodput\?"):
        topics.answers("gooodput")
    done = trackside("help", "zzzzzz")
    assert (done.returncode, done.stdout) == (2, "")
    assert "trackside docs" in done.stderr


def test_the_command_prints_the_answer_and_further_pages() -> None:
    done = trackside("help", "ingest", "runlog")
    assert done.stdout.startswith("## trackside ingest runlog\n")
    assert done.stdout.endswith("More: trackside docs reference/cli\n")
    assert "More:" not in trackside("help", "claims").stdout


def test_every_topic_is_answered() -> None:
    assert {"ettr", "34", "lemon", "ingest slurm", "goodput_allocated", "tutorial"} <= set(topics.topics())
    assert len(topics.topics()) > len(manual.pages()) + len(METRICS)
    for topic in topics.topics():
        assert topics.answers(topic)
