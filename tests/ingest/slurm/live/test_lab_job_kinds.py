"""Every kind of job on a real Slurm, each column of each attempt held against what was known from outside.

The jobs are those of `tests.lab.scenario.kinds`, and the facts those of `known` beside it: what we asked for and did,
by our clock, and what job scripts, prologs and a poller of squeue saw. Accounting is read live, from text in four
forms, and again after a slurmctld restart, which rewrites the ends of all jobs that it remembers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from ingest.tables import ATTEMPTS
from queries.warehouse import open_reader
from tests.lab.processes import now
from tests.lab.scenario.compare import assert_as_known, assert_first_submissions, steady, without_texts
from tests.lab.scenario.dumps import AMBIGUOUS, OPTIONS, UNCLEAR, UNTOLD, accounting_dumps
from tests.lab.scenario.kinds import NEVER_ELIGIBLE, Kinds, run_kinds
from tests.lab.scenario.known import UNKNOWABLE, Known, known
from tests.lab.scenario.played import played
from tests.support.command import trackside_on

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab")]

KINDS = (
    *("refused", "timeout", "node_fail", "node_fail_final", "preempted", "preempting", "prolog_fails", "running"),
    *("failed_step", "failed", "signalled", "unwritable", "cancelled_by_owner", "cancelled_by_operator", "requeued"),
    *("out_of_memory", "suspended", "exit_42", "exit_43", "completed", "resized", "typed_on_two_nodes", "oddly_named"),
    *("awkward", "without_gpus", "cancelled_while_pending", "past_deadline", "het", "het 1"),
    *("array 0", "array 1", "array 2", "array 3", *NEVER_ELIGIBLE),
)


@dataclass(frozen=True)
class Seen:
    """A warehouse at one moment, and what was known of it from outside then."""

    attempts: pl.DataFrame
    attempt_nodes: pl.DataFrame
    known: Mapping[str, list[Known]]
    ids: Mapping[str, str]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The rows of one job, oldest first; the array's id is shared by the remainder and, later, its last task."""
        return self.attempts.filter(pl.col("job_id") == self.ids[kind]).sort("submitted_at").to_dicts()


def look(kinds: Kinds, warehouse: Path, requested: tuple[float, float]) -> Seen:
    with open_reader(warehouse) as reader:
        attempts, nodes = reader.table("attempts"), reader.table("attempt_nodes")
    facts: dict[str, list[Known]] = {}
    for each in known(kinds, requested):
        facts.setdefault(each.kind, []).append(each)
    return Seen(attempts, nodes, facts, {key: str(job.job_id) for key, job in kinds.jobs.items()})


@pytest.fixture(scope="module")
def kinds() -> Iterator[Kinds]:
    with played(run_kinds) as scenario:
        yield scenario


@pytest.fixture(scope="module")
def dumps(kinds: Kinds, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """The same accounting as text, each form in a warehouse of its own."""
    folder = tmp_path_factory.mktemp("dumps")
    began = now()
    texts = accounting_dumps(kinds.lab, kinds.ids)
    requested = (began, now())
    result = {}
    for name, text in texts.items():
        (folder / name).write_text(text)
        trackside_on(kinds.lab, folder / f"{name}.warehouse", "ingest", "slurm", str(folder / name), *OPTIONS[name])
        result[name] = look(kinds, folder / f"{name}.warehouse", requested)
    return result


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kinds") / "warehouse"


def ingest_live(kinds: Kinds, warehouse: Path) -> Seen:
    began = now()
    trackside_on(kinds.lab, warehouse, "ingest", "slurm")
    return look(kinds, warehouse, (began, now()))


@pytest.fixture(scope="module")
def live(kinds: Kinds, dumps: dict[str, Seen], warehouse: Path) -> Seen:
    """Read from the running Slurm, as a user does (after the dumps only because of what comes then)."""
    assert dumps
    return ingest_live(kinds, warehouse)


@pytest.fixture(scope="module")
def again(kinds: Kinds, live: Seen, warehouse: Path) -> Seen:
    """Read a second time, and nothing has happened."""
    assert live.attempts.height
    return ingest_live(kinds, warehouse)


@pytest.fixture(scope="module")
def after_restart(kinds: Kinds, again: Seen, warehouse: Path) -> Seen:
    """Read once more when slurmctld was restarted and has sent the ends of its jobs again."""
    assert again.attempts.height
    kinds.lab.restart_slurmctld()
    cancelled = kinds.id_of("cancelled_by_operator")

    def rewritten() -> bool:
        return kinds.lab.sacct("-n", "-P", "-X", "-j", cancelled, "-o", "State").strip() == "CANCELLED"

    kinds.lab.wait_until(rewritten, 20, "slurmctld to send the ends of its jobs again, without who cancelled")
    time.sleep(1)
    return ingest_live(kinds, warehouse)


def assert_kind(seen: Seen, kind: str, *, untold: frozenset[str] = frozenset()) -> None:
    assert_as_known(seen.attempts, seen.attempt_nodes, seen.known[kind], untold=untold)


def test_the_scenario_has_the_kinds_that_are_tested(kinds: Kinds) -> None:
    assert sorted(kinds.jobs) == sorted(KINDS)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in NEVER_ELIGIBLE])
def test_live_every_column_of_every_attempt_is_as_recorded(live: Seen, kind: str) -> None:
    assert_kind(live, kind)


def test_live_every_attempt_has_its_jobs_first_submission(live: Seen) -> None:
    for kind, facts in live.known.items():
        if kind not in NEVER_ELIGIBLE:
            assert_first_submissions(live.attempts, facts)


def test_live_no_attempt_is_invented(live: Seen) -> None:
    made = {identity for kind, identity in live.ids.items() if kind not in NEVER_ELIGIBLE}
    assert set(live.attempts["job_id"]) == made
    assert live.attempts["db_index"].is_unique().all()


def test_every_column_is_asserted_unless_unknowable(live: Seen) -> None:
    for facts in live.known.values():
        for each in facts:
            unasserted = ATTEMPTS.keys() - each.facts.keys() - UNKNOWABLE - {"reason"}
            assert unasserted == ({"alloc_tres", "gpu_model"} if (each.kind, each.attempt) == ("resized", 1) else set())


@pytest.mark.parametrize("form", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_text_every_existing_column_is_as_recorded(dumps: dict[str, Seen], form: str, kind: str) -> None:
    left_out = AMBIGUOUS.get(form, frozenset()) if kind == UNCLEAR else frozenset()
    assert_kind(dumps[form], kind, untold=UNTOLD[form] | left_out)


@pytest.mark.parametrize("form", OPTIONS)
def test_text_in_any_form_gives_the_same_attempts(dumps: dict[str, Seen], form: str) -> None:
    unclear, texts = dumps[form].ids[UNCLEAR], AMBIGUOUS.get(form, frozenset())
    one, other = (without_texts(steady(dumps[name].attempts), unclear, texts) for name in ("kinds.sacct.txt", form))
    missing = [name for name in ATTEMPTS if name in UNTOLD[form]]
    assert other.select(missing).null_count().row(0) == (other.height,) * len(missing)
    assert other.drop(missing).to_dicts() == one.drop(missing).to_dicts()


def test_ingesting_again_changes_nothing_that_has_ended(live: Seen, again: Seen) -> None:
    assert steady(again.attempts).to_dicts() == steady(live.attempts).to_dicts()
    assert again.attempt_nodes.height == live.attempt_nodes.height


REWRITTEN = ("CANCELLED", "TIMEOUT")
"""States whose exit of 0:0 becomes the signal that ended the batch script."""


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in NEVER_ELIGIBLE])
def test_attempts_after_a_controller_restart_are_one_row_each(after_restart: Seen, kind: str) -> None:
    """Above all: who cancelled it, which the repeated record leaves out."""
    rewritten = after_restart.known[kind][0].facts["state"] in REWRITTEN
    exits = frozenset({"exit_code", "exit_signal"})
    assert_kind(after_restart, kind, untold=exits if rewritten else frozenset())
    if rewritten:
        (row,) = after_restart.of(kind)
        assert (row["exit_code"], row["exit_signal"]) in {(0, 0), (0, 15), (15, 0)}
