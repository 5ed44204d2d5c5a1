"""The README and the dictionary say what is there: generated parts are current, commands exist, files are counted."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from app import docgen, manual
from app.claims.file import read_claims
from app.cli import main as cli
from app.cli.sources.slurm import DUMP_COMMANDS
from app.config import settings as config
from app.errors import EXIT_STATUS
from metrics.catalog import METRICS
from queries import sql_files

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_generated_pages_are_current() -> None:
    for path, text in (docgen.pages() | docgen.index_page()).items():
        assert path.read_text() == text, f"{path.name}: run make fix"


def commands() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    told = [
        line.removeprefix("$ ").split("   #")[0].split(" > ")[0] for line in lines if line.startswith("$ trackside")
    ]
    inline = [each.removesuffix(" --help") for each in re.findall(r"`(trackside [^`]+)`", README)]
    return sorted({re.sub(r"\s+", " ", each) for each in (*told, *inline)})


@pytest.mark.parametrize("command", commands())
def test_every_command_in_the_readme_parses(command: str) -> None:
    cli.build_parser().parse_args(shlex.split(command.replace("TABLE", "attempts"))[1:])


def test_the_readmes_configuration_is_accepted() -> None:
    block = toml_under("Configuration")
    config.parse(tomllib.loads(block), origin="README.md")
    sections = {name: field.default for name, field in config.Config.model_fields.items()}
    for section in ("slurm", "prometheus", "telemetry", "retention", "serve", "rules", "sql"):
        model = type(sections[section])
        assert set(tomllib.loads(block)[section]) == set(model.model_fields)


def toml_under(heading: str) -> str:
    """The first TOML block beneath a heading of the README."""
    return README.partition(f"\n## {heading}\n")[2].partition("```toml\n")[2].partition("```")[0]


def test_the_readmes_claims_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(toml_under("Claims"))
    (claim,) = read_claims(path)
    assert len(claim.exclusions) == 2


def test_every_metric_and_status_is_in_the_readme() -> None:
    for metric in METRICS:
        assert f"| `{metric.name}` |" in README
    for status, meaning in EXIT_STATUS.values():
        assert f"| {status} | {meaning} |" in README


def test_every_table_is_in_the_dictionary() -> None:
    dictionary = (manual.FOLDER / "reference" / "dictionary.md").read_text()
    for table in sql_files.all_tables():
        assert f"\n## {table.shown}\n" in dictionary


def test_every_file_that_the_readme_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_make_verbs_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for verb in set(re.findall(r"(?:`|\$ )make (\w+)", README)):
        assert re.search(rf"^{verb}:", makefile, re.MULTILINE), verb


def test_the_readme_and_the_help_dump_with_the_same_commands() -> None:
    told = (ROOT / "README.md").read_text().replace("\n$ ", "\n").replace("\n      ", "\n    ")
    assert DUMP_COMMANDS in told
