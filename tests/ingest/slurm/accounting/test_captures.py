"""Every sample in tests/data/slurm through the command line: what was read, what was refused and why.

The `kinds*` samples are of one scenario (`python -m tests.lab.scenario.capture`): the same accounting in four forms
and what was known of every attempt from outside.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from app.cli import main as cli
from ingest.tables import ATTEMPTS
from queries.warehouse import open_reader
from tests.lab.scenario.capture import TRUTH
from tests.lab.scenario.compare import assert_as_known, assert_first_submissions, steady, without_texts
from tests.lab.scenario.dumps import AMBIGUOUS, OPTIONS, UNCLEAR, UNTOLD
from tests.lab.scenario.known import Known
from tests.support.command import ROOT
from tests.support.slurm.parsing import DATA

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

NO_INPUTS: Final = frozenset({"columns.sacct-e.txt", TRUTH})
"""A list of column names, and what was known from outside."""


@dataclass(frozen=True)
class Sample:
    """What must come of a sample: its source, and rows read, new, known, skipped and rejected."""

    source: str
    counts: tuple[int, int, int, int, int]
    options: tuple[str, ...] = ()
    reasons: Mapping[str, int] = field(default_factory=dict)


BENCH: Final = ("--cluster", "bench")
UTC: Final = ("--timezone", "UTC")
BERLIN: Final = ("--timezone", "Europe/Berlin")
UNTIL: Final = ("--until", "2026-11-21T12:00:00Z")
"""When it was asked, of texts that do not tell."""

SAMPLES: Final[Mapping[str, Sample]] = {
    "accounts.sacctmgr.txt": Sample("slurm.associations", (13, 7, 0, 6, 0), UNTIL),
    "assoc.sacctmgr.txt": Sample("slurm.associations", (13, 13, 0, 0, 0), UNTIL),
    "config.scontrol.txt": Sample("slurm.config", (16, 12, 0, 4, 0)),
    "events-utc.sacctmgr.txt": Sample("slurm.events", (5, 4, 0, 1, 0), (*BENCH, *UTC)),
    "events.sacctmgr.txt": Sample("slurm.events", (5, 4, 0, 1, 0), BENCH),
    "federation.sacct.txt": Sample("slurm.accounting", (10, 10, 0, 0, 0)),
    "het.sacct.txt": Sample("slurm.accounting", (14, 4, 0, 10, 0), BENCH),
    "jobs-as-text.sacct.txt": Sample("slurm.accounting", (23, 23, 0, 0, 0)),
    "jobs.sacct.json": Sample("slurm.accounting", (23, 23, 0, 0, 0)),
    "kill-requeue.sacct.txt": Sample("slurm.accounting", (6, 2, 0, 4, 0), BENCH),
    "kinds-26.sacct.txt": Sample("slurm.accounting", (43, 43, 0, 0, 0)),
    "kinds-all.sacct.txt": Sample("slurm.accounting", (111, 43, 0, 68, 0), UTC),
    "kinds-local.sacct.txt": Sample("slurm.accounting", (43, 43, 0, 0, 0), BERLIN),
    "kinds.events.txt": Sample("slurm.events", (3, 2, 0, 1, 0), BENCH),
    "kinds.nodes.txt": Sample("slurm.nodes", (6, 6, 0, 0, 0), BENCH),
    "kinds.sacct.txt": Sample("slurm.accounting", (43, 43, 0, 0, 0)),
    "nodes-as-text.scontrol.txt": Sample("slurm.nodes", (3, 3, 0, 0, 0), BENCH),
    "nodes-o.scontrol.txt": Sample("slurm.nodes", (1, 1, 0, 0, 0), BENCH),
    "nodes.scontrol.txt": Sample("slurm.nodes", (3, 3, 0, 0, 0), (*BENCH, *UTC)),
    "nodes.slurmrestd.json": Sample("slurm.nodes", (3, 3, 0, 0, 0), BENCH),
    "qos.sacctmgr.txt": Sample("slurm.qos", (3, 3, 0, 0, 0), (*BENCH, *UNTIL)),
    "reservations-first-o.scontrol.txt": Sample("slurm.reservations", (5, 5, 0, 0, 0), (*BENCH, *UNTIL)),
    "reservations-first.sacctmgr.txt": Sample("slurm.reservations", (5, 5, 0, 0, 0), (*BENCH, *UNTIL)),
    "reservations-first.scontrol.txt": Sample("slurm.reservations", (5, 5, 0, 0, 0), (*BENCH, *UNTIL)),
    "reservations-second.sacctmgr.txt": Sample("slurm.reservations", (5, 5, 0, 0, 0), (*BENCH, *UNTIL)),
    "reservations-second.scontrol.txt": Sample("slurm.reservations", (3, 3, 0, 0, 0), (*BENCH, *UNTIL)),
    "runaway.sacctmgr.txt": Sample("slurm.runaway", (2, 2, 0, 0, 0), UNTIL),
    "sdiag.txt": Sample("slurm.diag", (59, 56, 0, 3, 0), BENCH),
    "states.sacct.txt": Sample("slurm.accounting", (33, 33, 0, 0, 0), BENCH),
    "topology.scontrol.txt": Sample("slurm.topology", (4, 4, 0, 0, 0), (*BENCH, *UNTIL)),
    "torn.sacct-all.txt": Sample("slurm.accounting", (7, 2, 0, 5, 0)),
    "transactions-epoch.sacctmgr.txt": Sample("slurm.transactions", (42, 42, 0, 0, 0), BENCH),
    "transactions.sacctmgr.txt": Sample("slurm.transactions", (42, 42, 0, 0, 0), (*BENCH, *UTC)),
    "usage.sacct.json": Sample("slurm.accounting", (9, 9, 0, 0, 0)),
    "usage.sacct.txt": Sample("slurm.accounting", (29, 9, 0, 20, 0), UTC),
    "users-plain.sacctmgr.txt": Sample("slurm.associations", (7, 7, 0, 0, 0), (*BENCH, *UNTIL)),
    "users.sacctmgr.txt": Sample("slurm.associations", (7, 7, 0, 0, 0), UNTIL),
}

_REFUSED = re.compile(r"^ *(\d+) {2}(\S+) +(\S.*?) {2,}\S+:\d+$", re.MULTILINE)


def ingest(capsys: pytest.CaptureFixture[str], name: str, warehouse: Path, *options: str) -> str:
    """Load a sample as a user does; what `trackside status` then says."""
    assert cli.main(["ingest", "slurm", str(DATA / name), *options, "--warehouse", str(warehouse)]) == 0
    capsys.readouterr()
    assert cli.main(["status", "--warehouse", str(warehouse)]) == 0
    return capsys.readouterr().out


def test_every_file_is_a_sample_with_an_expectation() -> None:
    assert {path.name for path in DATA.iterdir()} - NO_INPUTS == SAMPLES.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_status_shows_what_was_read_and_refused_of(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sample = SAMPLES[name]
    status = ingest(capsys, name, tmp_path / "w", *sample.options)
    rows = [line for line in status.splitlines() if f"  {sample.source} " in line and not _REFUSED.match(line)]
    # A row for each cluster; the rows of an input of two clusters are counted with the first.
    counts = [[int(count) for count in row.split()[-5:] if count != "-"] for row in rows]
    counts = [each or [0] * 5 for each in counts]
    assert tuple(map(sum, zip(*counts, strict=True))) == sample.counts
    assert sum(sample.counts[1:]) == sample.counts[0]
    refused = {reason: int(rows) for rows, source, reason in _REFUSED.findall(status) if source == sample.source}
    assert refused == sample.reasons
    assert sum(refused.values()) == sample.counts[-1]


@pytest.fixture(scope="module")
def truth() -> dict[str, list[Known]]:
    result: dict[str, list[Known]] = {}
    for each in map(Known.from_json, json.loads((DATA / TRUTH).read_text())):
        result.setdefault(each.kind, []).append(each)
    return result


def read(capsys: pytest.CaptureFixture[str], form: str, warehouse: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Attempts and their nodes of one of the four forms."""
    ingest(capsys, form, warehouse, *OPTIONS[form])
    with open_reader(warehouse) as reader:
        return reader.table("attempts"), reader.table("attempt_nodes")


@pytest.mark.slow
@pytest.mark.parametrize("form", OPTIONS)
def test_every_column_agrees_with_outside_knowledge_of(
    form: str, truth: dict[str, list[Known]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    attempts, nodes = read(capsys, form, tmp_path / "w")
    assert attempts.height == sum(map(len, truth.values()))
    for kind, facts in truth.items():
        left_out = AMBIGUOUS.get(form, frozenset()) if kind == UNCLEAR else frozenset()
        assert_as_known(attempts, nodes, facts, untold=UNTOLD[form] | left_out)
        assert set(attempts.filter(job_id=facts[0].facts["job_id"]).select(left_out).rows()) <= {
            (None,) * len(left_out)
        }


def test_every_captured_attempt_has_its_jobs_first_submission(
    truth: dict[str, list[Known]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    attempts, _ = read(capsys, "kinds.sacct.txt", tmp_path / "w")
    for facts in truth.values():
        assert_first_submissions(attempts, facts)


@pytest.mark.slow
@pytest.mark.parametrize("form", [form for form in OPTIONS if form != "kinds.sacct.txt"])
def test_the_same_attempts_come_of(
    form: str, truth: dict[str, list[Known]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    unclear, texts = str(truth[UNCLEAR][0].facts["job_id"]), AMBIGUOUS.get(form, frozenset())
    one, other = (
        without_texts(steady(read(capsys, name, tmp_path / name)[0]), unclear, texts)
        for name in ("kinds.sacct.txt", form)
    )
    missing = [name for name in ATTEMPTS if name in UNTOLD[form]]
    assert other.select(missing).null_count().row(0) == (other.height,) * len(missing)
    assert other.drop(missing).to_dicts() == one.drop(missing).to_dicts()


def test_the_samples_hold_every_kind_of_ending(truth: dict[str, list[Known]]) -> None:
    states = {str(each.facts["state"]) for facts in truth.values() for each in facts}
    assert states >= {
        *("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "PREEMPTED", "REQUEUED", "RESIZING", "DEADLINE"),
        *("PENDING", "RUNNING"),
    }


FOLDERS = {"dev", "home", "lab", "run", "tmp"}
"""Folders at the root of a machine that samples may name: those of every one, and the lab's own."""


def test_no_sample_names_a_path_of_the_machine_it_was_made_on() -> None:
    own = {f"/{place.parts[1]}/" for place in (ROOT, Path.home()) if place.parts[1] not in FOLDERS}
    for path in DATA.iterdir():
        text = path.read_text()
        assert not re.search(r"trackside-lab-|/home/(?!alice|bob)", text), path.name
        assert not [folder for folder in own if folder in text], path.name
        assert set(re.findall(r"(?<![\w./-])/([a-z][\w-]*)/", text)) <= FOLDERS, path.name
