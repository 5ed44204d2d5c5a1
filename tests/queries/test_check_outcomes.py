"""The outcome of the data checks that is stored: what it is of, and when the checks are run again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest

from queries import check_outcomes, sql_files, upgrade
from queries.check_outcomes import as_text, from_text
from queries.reader import Reader
from queries.warehouse import open_reader, open_writer

if TYPE_CHECKING:
    from pathlib import Path

    from queries.warehouse import Writer

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def attempt() -> pl.DataFrame:
    row = {"cluster": "c", "scheduler": "slurm", "job_id": "1", "submitted_at": NOW, "state": "PENDING"}
    return pl.DataFrame([row | {"n_nodes": 0, "n_gpus": 0}])


def session(job: str) -> pl.DataFrame:
    """A session of a run log without an attempt, which a check warns of."""
    row = {"cluster": "c", "scheduler": "slurm", "job_id": job, "run_id": job, "rank": 0, "started_at": NOW}
    return pl.DataFrame([row | {"ended_at": NOW, "origin": "x"}])


def put(root: Path, name: str, *, checked: bool) -> None:
    with open_writer(root, verb="t", now=NOW) as writer, writer.transaction():
        writer.append_new("stored.attempts", attempt(), keys=["cluster", "job_id"])
        writer.append("run_sessions", session(name))
        if checked:
            writer.stop_on_failed_checks()


def outcome(root: Path) -> list[tuple[str, str, int]]:
    with open_reader(root) as reader:
        return triples(reader.failed_checks())


def triples(results: object) -> list[tuple[str, str, int]]:
    assert isinstance(results, list)
    return [(each.check.name, each.check.description, each.count) for each in results]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Reader]:
    """The readers that have run the checks."""
    done: list[Reader] = []
    run = Reader.checks

    def counted(self: Reader) -> object:
        done.append(self)
        return run(self)

    monkeypatch.setattr(Reader, "checks", counted)
    return done


def test_stored_outcome_is_read_and_equals_running_the_checks(tmp_path: Path, runs: list[Reader]) -> None:
    put(tmp_path / "w", "a", checked=True)
    stored = outcome(tmp_path / "w")
    assert runs == []
    with open_reader(tmp_path / "w") as reader:
        assert stored == triples(reader.checks())
    assert stored


def test_checks_run_again_after_a_change(tmp_path: Path, runs: list[Reader]) -> None:
    put(tmp_path / "w", "a", checked=True)
    before = outcome(tmp_path / "w")
    put(tmp_path / "w", "b", checked=False)
    after = outcome(tmp_path / "w")
    assert len(runs) == 1
    assert after != before


def ledger_row(day: datetime) -> pl.DataFrame:
    """A row of the ledger that is ill formed: it is of no GPUs."""
    row = {"cluster": "c", "node": "n", "started_at": day, "ended_at": day + timedelta(hours=1), "state": "idle"}
    return pl.DataFrame([row | {"category": "no_demand", "evidence": "assumed", "gpus": 0, "gpu_seconds": 0}])


def ill_formed(writer: Writer, passed: set[str], since: datetime) -> int:
    """How many rows of the ledger the check of its rows finds."""
    found = {each.check.name: each.count for each in writer.checks(passed=passed, since=since)}
    return found.get("ledger_rows_well_formed", 0)


def test_a_check_that_passed_looks_at_what_changed_since(tmp_path: Path) -> None:
    passed, later = {"ledger_rows_well_formed"}, NOW + timedelta(days=1)
    with open_writer(tmp_path / "w", verb="t", now=NOW) as writer:
        with writer.transaction():
            writer.append("gpu_time", ledger_row(NOW))
        assert ill_formed(writer, set(), later) == 1, "it did not pass before"
        assert ill_formed(writer, passed, later) == 0
        with writer.transaction():
            writer.append("gpu_time", ledger_row(later))
        assert ill_formed(writer, passed, later) == 2, "what it finds makes it look at everything"


def test_an_outcome_that_is_not_known_counts_as_no_pass(tmp_path: Path) -> None:
    assert from_text("") is None
    put(tmp_path / "w", "a", checked=True)
    with open_writer(tmp_path / "w", verb="t", now=NOW) as writer:
        assert "ledger_rows_well_formed" in writer._passed_checks()  # noqa: SLF001 - what the next run may skip
        with writer.transaction():
            writer.put_fact_of_version(check_outcomes.FACT, "")
        assert writer._passed_checks() == frozenset()  # noqa: SLF001 - as above


def test_outcome_of_other_checks_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    check = sql_files.checks()[0]
    text = as_text([check_outcomes.CheckOutcome(check, 3)])
    assert from_text(text) == [check_outcomes.CheckOutcome(check, 3)]
    monkeypatch.setattr(check_outcomes, "_digest", lambda: "other")
    assert from_text(text) is None


def test_facts_of_the_version_survive_a_moved_directory(tmp_path: Path, runs: list[Reader]) -> None:
    put(tmp_path / "w", "a", checked=True)
    before = outcome(tmp_path / "w")
    (tmp_path / "w").rename(tmp_path / "moved")
    with open_writer(tmp_path / "moved", verb="t", now=NOW):
        pass  # its views name files, so it makes them anew
    assert outcome(tmp_path / "moved") == before
    assert runs == []


def test_facts_of_the_version_do_not_survive_other_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "w", "a", checked=True)
    monkeypatch.setattr(upgrade, "views_digest", lambda _: "other")
    with open_writer(tmp_path / "w", verb="t", now=NOW) as writer:
        assert writer.fact_of_version(check_outcomes.FACT) is None
