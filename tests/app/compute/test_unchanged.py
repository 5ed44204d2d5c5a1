"""A computation is left out if it would repeat the last one, and only then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from app.cli.main import main
from app.compute import pipeline as computing
from app.compute.outcome import Computed, Days
from app.compute.unchanged import inputs_digest, last_outcome
from app.config.settings import Config, parse
from ingest.slurm import load_files as ingesting
from queries.warehouse import open_reader, open_writer
from tests.support.slurm.dumps import tiny

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 2, 3, 4, 5, tzinfo=UTC)


def digest(settings: Config, since: datetime | None = None) -> str:
    return inputs_digest(settings, since=since, until=None)


def test_the_digest_changes_with_rules_claims_and_period_only(tmp_path: Path) -> None:
    claims = tmp_path / "claims.toml"
    claims.write_text("")
    with_claims = Config(claims=claims)
    first = digest(with_claims)
    assert digest(Config(claims=claims, cluster="other")) == first
    claims.write_text("# other text\n")
    assert len({first, digest(with_claims), digest(Config()), digest(Config(), since=NOW)}) == 4
    assert digest(parse({"rules": {"run_gap_hours": 3}}, origin="test")) != digest(Config())


@pytest.mark.slow
def test_unchanged_only_with_the_latest_version_and_same_inputs(tmp_path: Path) -> None:
    files = tiny(6).write(tmp_path)
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:

        def ingest() -> None:
            ingesting.ingest_files(writer, Config(), files, ingesting.Options(), now=NOW, progress=lambda *_: None)

        ingest()
        assert last_outcome(writer, "a") is None
        done = computing.compute(writer, Config(), now=NOW, inputs="a")
        assert done.days[0].changed
        repeated = last_outcome(writer, "a")
        assert repeated is not None
        known = [Days(0, each.known) for each in done.days]
        assert repeated == Computed(done.clusters, done.empty, repeated.warnings, known)
        assert [(each.check, each.count) for each in repeated.warnings] == [
            (each.check, each.count) for each in done.warnings
        ]
        assert last_outcome(writer, "b") is None
        with writer.transaction():  # whatever it changed
            pass
        assert last_outcome(writer, "a") is None
        computing.compute(writer, Config(), now=NOW)  # by what inputs is not stored
        assert last_outcome(writer, "a") is None


@pytest.mark.slow
def test_the_verb_publishes_nothing_new_unless_full_is_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "w"
    monkeypatch.setenv("TRACKSIDE_WAREHOUSE", str(root))
    assert main(["ingest", "slurm", "--quiet", *tiny(6).write(tmp_path)]) == 0

    def compute(*more: str) -> tuple[int, datetime, str]:
        capsys.readouterr()
        assert main(["compute", *more]) == 0
        printed = capsys.readouterr().err
        with open_reader(root) as reader:
            return reader.data_version, reader.query("computed", cluster="tiny")["computed_at"].item(), printed

    version, at, first = compute()
    same, same_at, again = compute()
    assert (same, same_at) == (version, at)
    known = first.partition(" of the ledger")[0].rpartition("; of ")[2]
    days = known.partition(" day")[0]
    assert f"of {known} of the ledger {days} changed" in first
    assert f"of {known} of the ledger 0 changed" in again
    assert again.replace("ledger 0 changed", f"ledger {days} changed").splitlines()[-2:] == first.splitlines()[-2:]
    later, later_at, _ = compute("--full")
    assert later > version
    assert later_at > at
    since = (at - timedelta(days=3650)).strftime("%Y-%m-%d")
    assert compute("--since", since)[0] > later
