"""The command line: everything has help, every question answers in every format, and one number is one number."""

from __future__ import annotations

import argparse
import io
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.api import QUESTIONS
from app.cli import main as cli
from app.cli.delimiter import delimiter
from app.errors import UsageError, was_interrupted
from queries.warehouse import open_reader
from tests.support.command import trackside
from tests.support.slurm.dumps import tiny
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_accounting(tmp_path_factory.mktemp("cli"))


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:  # noqa: SLF001 - argparse offers no other way to walk
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for child in action.choices.values():
                yield from parsers(child)


def test_every_verb_and_option_has_help() -> None:
    for parser in parsers(cli.build_parser()):
        assert parser.description
        for action in parser._actions:  # noqa: SLF001 - as above
            if not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
                assert action.help, f"{parser.prog} {action.option_strings or action.dest}"


def test_what_can_be_shown_is_what_the_help_lists() -> None:
    (parser,) = (parser for command, parser in cli.commands(cli.build_parser()) if command == "show")
    text = parser.format_help()
    for what in QUESTIONS:
        assert f"\n  {what}" in text


NOT_BY_ACCOUNTING = {
    "mfu": "No run",
    "scaling": "No run",
    "stragglers": "No rank times",
    "anomalies": "No telemetry of GPUs",
    "stalls": "No run log with steps is loaded",
    "agreement": "No nodes of Kubernetes",
    "evictions": "No eviction was observed",
    "utilisation": "No telemetry of GPUs",
    "filesystems": "No telemetry of nodes",
    "network": "No telemetry of nodes",
    "health": "No health events",
}
"""Questions that accounting alone does not answer, and what is said then."""


@pytest.mark.slow
@pytest.mark.parametrize("what", QUESTIONS)
def test_every_question_answers_in_every_format(what: str, warehouse: Path, tmp_path: Path) -> None:
    def show(*options: str) -> str:
        done = trackside("show", what, "--warehouse", str(warehouse), *options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    if what in NOT_BY_ACCOUNTING:
        assert NOT_BY_ACCOUNTING[what] in show()
        return
    assert ("logged no checkpoint" if what == "checkpoints" else "tiny") in show()
    rows: list[dict[str, Any]] = json.loads(show("--format", "json"))
    assert rows
    assert pl.read_csv(io.StringIO(show("--format", "csv")), infer_schema_length=None).height == len(rows)
    show("--format", "parquet", "-o", str(tmp_path / "rows.parquet"))
    assert pl.read_parquet(tmp_path / "rows.parquet").height == len(rows)


@pytest.mark.slow
@pytest.mark.parametrize(("what", "by"), [("goodput", "user"), ("goodput", "day"), ("lost", "node"), ("lost", "run"),
                                          ("ettr", "run"), ("restarts", "event"), ("lost", "partition")])  # fmt: skip
def test_answers_can_be_split(what: str, by: str, warehouse: Path) -> None:
    done = trackside("show", what, "--by", by, "--format", "json", "--warehouse", str(warehouse))
    assert len(json.loads(done.stdout)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("what", ["goodput", "ettr", "mttf", "restarts", "lost", "runs", "nodes"])
def test_every_number_explains_itself(what: str, warehouse: Path) -> None:
    output = trackside("show", what, "--explain", "--warehouse", str(warehouse)).stdout
    for part in ("definition", "interval", "source", "window", "queries/named/", "constants"):
        assert part in output
    done = trackside("show", what, "--explain", "--format", "json", "--warehouse", str(warehouse))
    explained = json.loads(done.stdout)["explain"]
    assert explained["metrics"]
    assert explained["sql"]
    assert explained["constants"]["tiny"]["run_gap_hours"] == 24


@pytest.mark.slow
def test_one_number_is_the_same_in_every_output(warehouse: Path) -> None:
    shown = json.loads(trackside("show", "goodput", "--format", "json", "--warehouse", str(warehouse)).stdout)
    with open_reader(warehouse) as reader:
        stored = reader.table("cluster_metrics")
    verified = json.loads(trackside("verify", "--format", "json", "--warehouse", str(warehouse)).stdout)
    first = "ORDER BY window_from, window_until DESC"
    sql = f"SELECT bound_high FROM cluster_metrics WHERE metric = 'goodput_allocated' {first}"
    requested = json.loads(trackside("sql", sql, "--format", "json", "--warehouse", str(warehouse)).stdout)
    (row,) = (row for row in shown if row["metric"] == "goodput_allocated")
    window = (pl.col("window_from") == stored["window_from"].min()) & (
        pl.col("window_until") == stored["window_until"].max()
    )
    (kept,) = stored.filter(window & (pl.col("metric") == "goodput_allocated"))["bound_high"]
    (claim,) = (claim for claim in verified if claim["claim"] == "goodput")
    assert row["bound_high"] == kept == claim["high"] == requested[0]["bound_high"]
    assert 0 < kept < 1


def test_windows_add_up(warehouse: Path) -> None:
    def gpu_seconds(*window: str) -> float:
        done = trackside("show", "lost", "--format", "json", "--warehouse", str(warehouse), *window)
        return float(sum(row["gpu_seconds"] for row in json.loads(done.stdout)))

    cut = "2026-10-04T05:06:07.5"
    assert gpu_seconds("--until", cut) + gpu_seconds("--since", cut) == pytest.approx(gpu_seconds(), rel=1e-12)


def test_verify_exits_with_the_worst_verdict(warehouse: Path, tmp_path: Path) -> None:
    def status(target: float, direction: str = "at_least") -> int:
        claims = tmp_path / "claims.toml"
        claims.write_text(
            f'[[claim]]\nid = "o"\nmetric = "occupancy"\nquoted = "busy"\nread_as = "busy"\nkind = "delivered"\n'
            f'target = {target}\ndirection = "{direction}"\n'
        )
        return trackside("verify", "--claims", str(claims), "--warehouse", str(warehouse)).returncode

    assert status(0.01) == 0
    assert status(0.999) == 3
    assert trackside("verify", "--warehouse", str(warehouse)).returncode == 3
    (tmp_path / "open.toml").write_text(
        '[[claim]]\nid = "m"\nmetric = "mfu"\nquoted = "q"\nread_as = "r"\nkind = "capability"\n'
        'target = 0.5\ndirection = "at_least"\n'
    )
    done = trackside("verify", "--claims", str(tmp_path / "open.toml"), "--warehouse", str(warehouse))
    assert done.returncode == 4
    assert "run log" in done.stdout


@pytest.mark.slow
def test_export_and_sql(warehouse: Path) -> None:
    done = trackside("export", "tables", "--warehouse", str(warehouse))
    assert {"attempts", "gpu_time", "capacity"} <= set(done.stdout.split())
    rows = pl.read_csv(
        io.StringIO(trackside("export", "attempts", "--warehouse", str(warehouse)).stdout), infer_schema_length=None
    )
    assert rows.height > 120
    assert trackside("export", "secrets", "--warehouse", str(warehouse)).returncode == 50
    refused = trackside("sql", "DELETE FROM attempts", "--warehouse", str(warehouse))
    assert refused.returncode == 50
    assert "reading" in refused.stderr


def test_help_and_version_need_nothing(tmp_path: Path) -> None:
    assert "trackside ingest slurm" in trackside("--help", cwd=tmp_path).stdout
    assert "duckdb" in trackside("--version", cwd=tmp_path).stdout
    assert trackside(cwd=tmp_path).returncode == 0
    assert trackside("dance", cwd=tmp_path).returncode == 2


def test_help_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from app.cli import main; main.build_parser().format_help(); "
        "print(sorted({'polars', 'duckdb', 'numpy', 'pydantic', 'rich', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_configuration_paths_are_relative_to_its_file(warehouse: Path, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    config = tmp_path / "etc" / "trackside.toml"
    config.write_text(f'warehouse = "../{warehouse.name}"\n')
    (tmp_path / warehouse.name).symlink_to(warehouse)
    assert trackside("show", "runs", "--config", str(config), cwd=tmp_path).returncode == 0
    assert trackside("show", "runs", env={"TRACKSIDE_CONFIG": str(config)}, cwd=tmp_path).returncode == 0
    assert trackside("show", "runs", env={"TRACKSIDE_WAREHOUSE": str(warehouse)}, cwd=tmp_path).returncode == 0
    elsewhere = {"TRACKSIDE_WAREHOUSE": str(tmp_path / "nowhere")}
    assert trackside("show", "runs", "--config", str(config), env=elsewhere).returncode == 40
    assert trackside("show", "runs", "--warehouse", str(warehouse), env=elsewhere).returncode == 0


@pytest.mark.slow
def test_file_ending_selects_the_format(warehouse: Path, tmp_path: Path) -> None:
    for verb in (["show", "runs"], ["export", "runs"], ["sql", "SELECT * FROM runs"]):
        for ending, read in ((".json", pl.read_json), (".csv", pl.read_csv), (".parquet", pl.read_parquet)):
            file = tmp_path / f"runs{ending}"
            assert trackside(*verb, "-o", str(file), "--warehouse", str(warehouse)).returncode == 0
            assert read(file).height > 100
    refused = trackside("show", "runs", "-o", str(tmp_path / "runs.xls"), "--warehouse", str(warehouse))
    assert refused.returncode == 2
    assert "--format json, csv or parquet" in refused.stderr
    nowhere = trackside("show", "runs", "-o", str(tmp_path / "no" / "runs.csv"), "--warehouse", str(warehouse))
    assert nowhere.returncode == 2
    assert "cannot be written" in nowhere.stderr


@pytest.fixture(scope="module")
def two_clusters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    for name in ("tiny", "other"):
        files = []
        for file in tiny(40).write(folder):
            text = (folder / file).read_text().replace("tiny", name)
            (folder / file).write_text(text)
            files.append(file)
        done = trackside("ingest", "slurm", *files, "--cluster", name, "--warehouse", str(folder / "w"))
        assert done.returncode == 0, done.stderr
    assert trackside("compute", "--warehouse", str(folder / "w")).returncode == 0
    return folder / "w"


@pytest.mark.slow
@pytest.mark.parametrize("what", sorted(set(QUESTIONS) - set(NOT_BY_ACCOUNTING)))
def test_several_clusters_are_shown_side_by_side_by_name(what: str, two_clusters: Path) -> None:
    done = trackside("show", what, "--warehouse", str(two_clusters))
    assert done.returncode == 0, done.stderr
    rows = json.loads(trackside("show", what, "--format", "json", "--warehouse", str(two_clusters)).stdout)
    assert {row["cluster"] for row in rows} == {"tiny", "other"}
    one = trackside("show", what, "--format", "json", "--cluster", "other", "--warehouse", str(two_clusters))
    assert len(json.loads(one.stdout)) * 2 == len(rows)


def test_a_period_that_is_not_covered_is_not_judged(warehouse: Path, tmp_path: Path) -> None:
    claims = tmp_path / "claims.toml"
    claims.write_text(
        '[[claim]]\nid = "o"\nmetric = "occupancy"\nquoted = "busy"\nread_as = "busy"\nkind = "delivered"\n'
        'target = 0.01\ndirection = "at_least"\n'
    )
    where = ("--claims", str(claims), "--warehouse", str(warehouse))
    assert trackside("verify", *where).returncode == 0
    done = trackside("verify", *where, "--since", "2026-10-01", "--until", "2026-11-01")
    assert done.returncode == 4
    assert "data for the whole period" in done.stdout
    assert "the data cover" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["mttf", "--at", "0"], ["mttf", "--at", "-5"], ["lost", "--run", "2"], ["goodput", "--at", "8"],
     ["goodput", "--since", "99999999999d"], ["goodput", "--since", "2026-10-05", "--until", "2026-10-04"]],
)  # fmt: skip
def test_options_that_mean_nothing_here_are_refused(arguments: list[str], warehouse: Path) -> None:
    done = trackside("show", *arguments, "--warehouse", str(warehouse))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("verb", "option"),
    [
        (("demo", "--no-serve"), "--warehouse"),
        (("simulate", "--dir", "d"), "--warehouse"),
        (("simulate", "--dir", "d"), "--config"),
        (("recorder",), "--warehouse"),
        (("recorder",), "--config"),
    ],
)
def test_an_option_that_a_verb_would_not_obey_is_not_offered(
    verb: tuple[str, ...], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.build_parser().parse_args([*verb, option, "x"])
    assert left.value.code == 2
    assert f"unrecognized arguments: {option}" in capsys.readouterr().err
    assert cli.build_parser().parse_args([*verb, "--quiet"]).quiet


def test_unwritable_recorder_is_reported(tmp_path: Path) -> None:
    done = trackside("recorder", "-o", str(tmp_path / "no" / "x.py"))
    assert done.returncode == 2
    folder = tmp_path / "no"
    why = f"{folder / 'x.py'} cannot be written: there is no folder {folder}; to make it: mkdir -p {folder}"
    assert done.stderr.strip() == f"trackside: {why}"


@pytest.mark.parametrize(
    ("typed", "meant"), [("|", "|"), (r"\t", "\t"), (r"\x1f", "\x1f"), (r"\xA6", "¦"), (r"\0", "\0"), ("¦", "¦"),
                         (r"\\", "\\"), (r"\\t", r"\t"), ("||", "||"), (r"\x1fab", "\x1fab")],
)  # fmt: skip
def test_a_delimiter_means_what_was_typed(typed: str, meant: str) -> None:
    assert delimiter(typed) == meant


@pytest.mark.parametrize("typed", ["", r"\x", r"\xg0", r"\x1", r"\n", r"\u00a6", "\\", "\\\n", "\udca6"])
def test_a_delimiter_that_means_nothing_is_refused(typed: str) -> None:
    with pytest.raises(UsageError, match="--delimiter"):
        delimiter(typed)


def test_a_delimiter_beyond_ascii_is_read(tmp_path: Path) -> None:
    for file in tiny(20).write(tmp_path)[:1]:
        (tmp_path / "bars.txt").write_text((tmp_path / file).read_text().replace("|", "¦"))
    where = (str(tmp_path / "bars.txt"), "--warehouse", str(tmp_path / "w"))
    for typed in ("¦", r"\xa6"):
        done = trackside("ingest", "slurm", "--delimiter", typed, *where)
        assert done.returncode == 0, done.stderr
        assert "rejected" not in done.stderr
    refused = trackside("ingest", "slurm", "--delimiter", r"\x", *where)
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr


@pytest.mark.slow
def test_names_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    sacct = tmp_path / "sacct.txt"
    sacct.write_text(
        "JobIDRaw|Cluster|Submit|Start|End|State|NodeList|AllocTRES|JobName\n"
        "1|c|1790812800|1790812801|1790812901|FAILED|n1|gres/gpu=8|evil\x1b[31mred\n"
    )
    where = ("--warehouse", str(tmp_path / "w"))
    assert trackside("ingest", "slurm", str(sacct), *where).returncode == 0
    assert trackside("compute", *where).returncode == 0
    shown = trackside("show", "runs", *where).stdout
    assert "evil" in shown
    assert "\x1b" not in shown


def test_an_interrupt_is_one_whatever_it_is_wrapped_in() -> None:
    wrapped = RuntimeError("Query interrupted")
    wrapped.__cause__ = KeyboardInterrupt()
    assert was_interrupted(wrapped)
    assert not was_interrupted(ValueError("no"))


def test_nothing_to_compute_names_the_first_step(tmp_path: Path) -> None:
    sacct = tmp_path / "sacct.txt"
    sacct.write_text("JobIDRaw|Cluster|Submit|Start|End|State|NodeList|AllocTRES\n")
    where = ("--warehouse", str(tmp_path / "w"))
    assert trackside("ingest", "slurm", str(sacct), "--cluster", "c", *where).returncode == 0
    assert "First: trackside ingest slurm" in trackside("compute", *where).stderr
    refused = trackside("show", "goodput", *where)
    assert refused.returncode == 2
    assert "trackside ingest slurm" in refused.stderr


def test_a_relative_beginning_counts_from_the_end_of_the_data(warehouse: Path, tmp_path: Path) -> None:
    """`--since 2d --until X` before the data's end: both ends are taken from the data, so all of it is covered."""
    claims = tmp_path / "claims.toml"
    claims.write_text(
        '[[claim]]\nid = "o"\nmetric = "occupancy"\nquoted = "busy"\nread_as = "busy"\nkind = "delivered"\n'
        'target = 0.01\ndirection = "at_least"\n'
    )
    where = ("--claims", str(claims), "--warehouse", str(warehouse))
    assert trackside("verify", *where, "--since", "2d", "--until", "1d").returncode == 0
