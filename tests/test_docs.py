"""The README and the manual are true: generated parts are current, commands parse, links lead somewhere."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from app import docgen, manual
from app.api import QUESTIONS
from app.claims.file import read_claims
from app.cli import main as cli
from app.cli.sources.slurm import DUMP_COMMANDS
from app.config import settings as config
from app.errors import EXIT_STATUS, UsageError
from app.explorer.pages import manual as manual_page
from metrics.catalog import METRICS
from queries import sql_files

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
WRITTEN = {"README": README} | {
    topic: page.text
    for topic, page in manual.pages().items()
    if topic not in {"changelog", "reference/cli"} and not topic.startswith("developing/adding-")
}
"""Pages with commands to type; the guides to adding things have toys of their own, which their tests run."""


def test_generated_pages_are_current() -> None:
    for path, text in (docgen.pages() | docgen.index_page()).items():
        assert path.read_text() == text, f"{path.name}: run make fix"


def commands() -> list[str]:
    reported = set()
    for text in WRITTEN.values():
        blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
        lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
        reported |= {
            line.removeprefix("$ ").split("   #")[0].split(" > ")[0] for line in lines if line.startswith("$ trackside")
        }
        inline = re.findall(r"`(trackside [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        reported |= {each.removesuffix(" --help").split(" > ")[0] for each in inline}
    return sorted({re.sub(r"\s+", " ", each).strip() for each in reported})


@pytest.mark.parametrize("command", commands())
def test_manual_commands_parse(command: str) -> None:
    parser = cli.build_parser()
    if command in {parser.prog, *(each.prog for _, each in cli.commands(parser))}:
        return  # the name of a verb, which may need arguments
    parser.parse_args(shlex.split(command.replace("TABLE", "attempts").replace("QUESTION", "goodput"))[1:])


def test_readme_size_fits_one_screenful() -> None:
    assert len(README.encode()) <= 6_000


def test_configuration_example_is_accepted() -> None:
    block = first_toml(manual.find("configuration").text)
    config.parse(tomllib.loads(block), origin="configuration.md")
    sections = {name: field.default for name, field in config.Config.model_fields.items()}
    for section in ("slurm", "prometheus", "telemetry", "retention", "serve", "rules", "sql"):
        model = type(sections[section])
        assert set(tomllib.loads(block)[section]) == set(model.model_fields)


def test_every_setting_is_in_the_reference() -> None:
    text = manual.find("configuration").text
    for name, field in config.Config.model_fields.items():
        section = type(field.default) if hasattr(type(field.default), "model_fields") else None
        for setting in [name] if section is None else section.model_fields:
            assert f"| `{setting}` |" in text, setting


def test_retention_example_is_accepted() -> None:
    config.parse(tomllib.loads(first_toml(manual.find("retention").text)), origin="retention.md")


def first_toml(text: str) -> str:
    """The first TOML block of a page."""
    return text.partition("```toml\n")[2].partition("```")[0]


def test_claims_example_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(first_toml(manual.find("claims").text))
    (claim,) = read_claims(path)
    assert len(claim.exclusions) == 2


def test_every_metric_and_status_has_its_entry() -> None:
    metrics, statuses = manual.find("metrics"), manual.find("exit-codes").text
    for metric in METRICS:
        section = metrics.part(metric.name)
        assert section is not None
        assert metric.formula in section
    for status, meaning in EXIT_STATUS.values():
        assert f"| {status} | {meaning} |" in statuses


def test_every_table_is_in_the_dictionary() -> None:
    dictionary = manual.find("dictionary").text
    for table in sql_files.all_tables():
        assert f"\n## {table.shown}\n" in dictionary


@pytest.mark.parametrize("topic", manual.pages())
def test_page_links_lead_somewhere(topic: str) -> None:
    page = manual.pages()[topic]
    outside_code = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.text)
    for target in re.findall(r"\]\(([^()\s]+)\)", outside_code):
        linked, section = manual.target_of(page, target)
        if linked in manual.pages():
            assert not section or manual.pages()[linked].part(section) is not None, target
        elif not target.startswith("https://"):
            assert (manual.FOLDER / topic).parent.joinpath(target.partition("#")[0]).exists(), target


def test_readme_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^):]+)\)", README):
        path, _, section = target.partition("#")
        assert (ROOT / path).exists(), target
        topic = path.removeprefix("app/docs/").removesuffix(".md")
        assert not section or manual.pages()[topic].part(section) is not None, target


def test_every_page_is_in_the_index_with_a_summary() -> None:
    index = (manual.FOLDER / "README.md").read_text()
    for topic, page in manual.pages().items():
        assert f"]({topic}.md): {page.summary}" in index
        assert page.summary.endswith("."), topic
        assert page.title != topic, "a page begins with a heading"


def test_make_verbs_of_the_manual_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for text in WRITTEN.values():
        for verb in set(re.findall(r"(?:`|\$ )make ([a-z]+)", text)):
            assert re.search(rf"^{verb}:", makefile, re.MULTILINE), verb


def test_manual_and_help_dump_with_the_same_commands() -> None:
    text = manual.find("slurm").text.replace("\n$ ", "\n").replace("\n      ", "\n    ")
    assert DUMP_COMMANDS in text


def test_every_verb_ends_its_help_with_a_page() -> None:
    for command, parser in cli.commands(cli.build_parser()):
        line = (parser.epilog or "").splitlines()[-1]
        assert line.startswith("Manual: trackside docs "), command
        page, text = manual.read(line.removeprefix("Manual: trackside docs "))
        assert page.topic in line, "a whole name, which stays unique"
        assert text


def test_help_texts_fit_the_tables_of_the_reference() -> None:
    for command, parser in cli.commands(cli.build_parser()):
        assert not re.search(r"[?!.]\.$", parser.description or ""), command
    for line in docgen.command_page().splitlines():
        assert not line.startswith("| ") or line.endswith(" |"), line


def test_every_question_has_its_section() -> None:
    page = manual.find("questions")
    for what in QUESTIONS:
        assert page.part(what) is not None, what


@pytest.mark.parametrize("path", manual_page.ABOUT)
def test_every_explorer_page_links_to_a_page(path: str) -> None:
    assert manual_page.ABOUT[path] in manual.pages()


@pytest.mark.parametrize("topic", ["clams", "../../pyproject", "/etc/passwd", "how-to", "README", "claims\0", ""])
def test_find_unknown_topic_is_refused(topic: str) -> None:
    with pytest.raises(UsageError, match="the manual has no page"):
        manual.find(topic)


def test_find_lists_near_names() -> None:
    with pytest.raises(UsageError, match="did you mean how-to/claims"):
        manual.find("clams")
    with pytest.raises(UsageError, match="did you mean mfu"):
        manual.read("metrics#mfuu")


def test_read_section_has_its_subsections_and_no_more() -> None:
    page, text = manual.read("questions#what-show-shows")
    assert page.topic == "how-to/questions"
    assert "### goodput" in text
    assert "## In a browser" not in text


def test_sections_ignore_headings_in_code() -> None:
    page = manual.ManualPage("x", "# A\n\n```sh\n# not a heading\n```\n\n## B\n\ntext\n\n## B\n")
    assert [(each.level, each.slug) for each in page.sections] == [(1, "a"), (2, "b"), (2, "b-1")]
    assert "# not a heading" in page.sections[0].text


def test_linked_reaches_pages_and_nothing_else() -> None:
    page = manual.find("claims")
    text = "[a](reports.md) [b](../reference/metrics.md#ettr) [c](../../claims/x.toml) ![d](x.png)<!-- e -->`[f](g)`"
    shown = manual.linked(page, text, lambda topic, section: f"/docs/{topic}#{section}")
    assert shown.startswith("[a](/docs/how-to/reports#) [b](/docs/reference/metrics#ettr) c ")
    assert "x.png" not in shown
    assert "e -->" not in shown


def test_docs_prints_pages_sections_and_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["docs"]) == 0
    listed = capsys.readouterr().out
    assert all(topic in listed for topic in manual.pages())
    assert cli.main(["docs", "claims"]) == 0
    assert capsys.readouterr().out == manual.find("claims").text
    assert cli.main(["docs", "metrics#ettr"]) == 0
    assert capsys.readouterr().out.startswith("## `ettr`\n")
    assert cli.main(["docs", "clams"]) == 2
    assert "did you mean how-to/claims" in capsys.readouterr().err
