"""A name that does not exist is refused in one line that suggests the one that was probably meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.command import trackside
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_accounting(tmp_path_factory.mktemp("suggestions"))


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (("shwo", "goodput"), "trackside: there is no verb 'shwo'; did you mean show?"),
        (("ingest", "slrum"), "trackside ingest: there is no source 'slrum'; did you mean slurm?"),
        (("show", "godput"), "trackside show: there is no question 'godput'; did you mean goodput?"),
        (("show", "goodput_alocated"), "trackside show: there is no question 'goodput_alocated'; did you mean"
                                       " goodput_allocated?"),
        (("show", "time_to_job_restart"), "trackside show: there is no question 'time_to_job_restart', but a metric of"
         " that name: trackside help time_to_job_restart explains it, and trackside show restarts has it"),
        (("show", "survival"), "trackside show: there is no question 'survival', but a metric of that name: trackside"
                               " help survival explains it"),
        (("show", "lost", "--formt", "json"), "trackside show: unrecognized arguments: --formt json; did you mean"
                                              " --format?"),
        (("ingest", "slurm", "--timezon=UTC", "x", "--clustr=y"),
         "trackside ingest slurm: unrecognized arguments: --clustr=y; did you mean --cluster?"),
        (("show", "lost", "--format", "jsn"), "trackside show: --format cannot be 'jsn'; did you mean json?"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_refusal_of_the_parser_is_one_line_with_a_suggestion(command: tuple[str, ...], refusal: str) -> None:
    done = trackside(*command)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", refusal + "\n")


def test_a_name_like_no_other_gets_the_list() -> None:
    done = trackside("zzz")
    assert done.returncode == 2
    assert "there is no verb 'zzz'; there are: adjudicate, backfill, com" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "options follow the verb: trackside status --warehouse w" in trackside("--warehouse", "w", "status").stderr
    assert "there are: goodput, ettr, mttf" in trackside("show", "zzz").stderr
    assert "unrecognized arguments: --zzz; its options: trackside show --help" in trackside("show", "--zzz").stderr


def test_what_is_missing_is_named_with_how_it_is_written() -> None:
    assert trackside("report").stderr.splitlines()[0] == (
        "trackside report: missing: REPORT; there are: sla, digest, schema, bundle, check"
    )
    done = trackside("report", "sla")
    assert done.returncode == 2
    assert done.stderr.startswith("trackside report sla: missing: --period\n  --period PERIOD: 2026-10 (a month), ")


def test_a_refusal_prints_no_control_characters() -> None:
    assert "'sh\\x1bow'; did you mean show?" in trackside("sh\x1bow").stderr
    assert "\x1b" not in trackside("show", "lost", "--fo\x1b[31m").stderr


@pytest.mark.parametrize(
    ("options", "suggestion"),
    [
        (("--by", "usr"), "run, cause, category; did you mean user?"),
        (("--cluster", "tnyi"), "there is no cluster 'tnyi'; did you mean tiny?"),
        (("--cluster", "TINY"), "there is no cluster 'TINY'; did you mean tiny?"),
        (("--cluster", "zzz"), "there is no cluster 'zzz'; there are: tiny"),
    ],
)
def test_refusal_by_the_data_suggests_too(options: tuple[str, ...], suggestion: str, warehouse: Path) -> None:
    done = trackside("show", "lost", *options, "--warehouse", str(warehouse))
    assert done.returncode == 2
    assert done.stderr.rstrip("\n").endswith(suggestion)


def test_show_alone_lists_the_questions_with_a_line_each() -> None:
    done = trackside("show")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[1:3] == [
        "  goodput        goodput in each published meaning, side by side",
        "  ettr           productive share of queued and scheduled time over runs",
    ]
    assert max(map(len, lines)) <= 110


@pytest.mark.parametrize("options", [("--by", "user"), ("--format", "json"), ("-o", "x.csv"), ("--explain",)])
def test_options_of_a_question_need_one(options: tuple[str, ...]) -> None:
    done = trackside("show", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no question is named" in done.stderr
