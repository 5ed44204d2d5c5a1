"""`trackside export TABLE --account NAME` gives a tenant its own rows, and none of another's."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.cli.tenants import JOB, OF_OTHERS, RUN, rows_of_accounts
from app.errors import UsageError
from metrics.frames import ATTEMPT_KEY
from queries.warehouse import Reader, open_reader
from tests.support.command import trackside
from tests.support.warehouses import from_accounting, from_everything

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OWNED = [
    *("attempts", "attempt_nodes", "gpu_time", "interruptions", "restarts", "run_attempts"),  # by the attempt
    *("steps", "run_events", "run_sessions"),  # by the job
    *("runs", "run_results", "run_metrics", "mfu", "checkpoint_advice"),  # by the run
]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with open_reader(from_everything(tmp_path_factory.mktemp("tenants"))) as opened:
        yield opened


class Owners:
    """Whose rows are, in plain Python: the accounts of all attempts that a row names."""

    def __init__(self, reader: Reader) -> None:
        self.of: dict[tuple[object, ...], set[object]] = defaultdict(set)
        accounts = {}
        for row in reader.table("attempts").iter_rows(named=True):
            attempt = accounts[tuple(row[name] for name in ATTEMPT_KEY)] = row["account"]
            self.of[tuple(row[name] for name in ATTEMPT_KEY)].add(attempt)
            self.of[tuple(row[name] for name in JOB)].add(attempt)
        for row in reader.table("run_attempts").iter_rows(named=True):
            self.of[tuple(row[name] for name in RUN)].add(accounts[tuple(row[name] for name in ATTEMPT_KEY)])

    def of_row(self, row: dict[str, Any]) -> set[object]:
        if "job_id" not in row:
            return self.of[tuple(row[name] for name in RUN)]
        key = JOB if row.get("submitted_at") is None else ATTEMPT_KEY
        return self.of[tuple(row[name] for name in key)]


@pytest.mark.slow
@pytest.mark.parametrize("table", OWNED)
def test_rows_of_an_account_are_all_of_its_own_and_no_other(reader: Reader, table: str) -> None:
    owners, whole = Owners(reader), reader.table(table)
    accounts = sorted(reader.table("attempts")["account"].drop_nulls().unique())
    expected = [owners.of_row(row) for row in whole.iter_rows(named=True)]
    parts = {account: rows_of_accounts(reader, table, [account]) for account in accounts}
    assert sum(part.height for part in parts.values()) > 0
    blank = [pl.lit(None, whole.schema[name]).alias(name) for name in OF_OTHERS if name in whole.columns]
    for account, part in parts.items():
        theirs = pl.Series([each == {account} for each in expected], dtype=pl.Boolean)
        assert part.equals(whole.filter(theirs).with_columns(blank))


def test_a_run_of_two_accounts_is_of_both_alone(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Reader.table
    runs = reader.table("run_attempts").group_by(RUN).agg(n=pl.len()).filter(pl.col("n") > 1)
    shared = reader.table("run_attempts").join(runs.head(1), on=RUN, how="semi")
    first = shared.head(1).select(*ATTEMPT_KEY, other=pl.lit("other"))

    def changed(self: Reader, name: str) -> pl.DataFrame:
        rows = whole(self, name)
        if name != "attempts":
            return rows
        rows = rows.join(first, on=ATTEMPT_KEY, how="left", maintain_order="left")
        return rows.with_columns(account=pl.coalesce("other", "account")).drop("other")

    (before,) = reader.table("attempts").join(shared, on=ATTEMPT_KEY, how="semi")["account"].unique()
    monkeypatch.setattr(Reader, "table", changed)
    run_id = shared["run_id"][0]
    for accounts, is_there in ((["other"], False), ([before], False), ([before, "other"], True)):
        assert (run_id in rows_of_accounts(reader, "runs", accounts)["run_id"]) is is_there


def test_a_log_that_takes_the_name_of_anothers_run_is_its_jobs(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Reader.table
    sessions = reader.table("run_sessions")
    own = sessions.filter(pl.col("job_id").is_not_null())
    taken, name = own.head(1), own["run_id"].unique().sort()[-1]
    attempts = reader.table("attempts").filter(pl.col("job_id") == taken["job_id"][0])
    monkeypatch.setattr(
        Reader,
        "table",
        lambda self, table: taken.with_columns(run_id=pl.lit(name)) if table == "run_sessions" else whole(self, table),
    )
    assert rows_of_accounts(reader, "run_sessions", [attempts["account"][0]]).height == 1
    others = set(whole(reader, "attempts")["account"].drop_nulls()) - {attempts["account"][0]}
    assert rows_of_accounts(reader, "run_sessions", sorted(others)).is_empty()


def test_reports_of_ranks_are_their_jobs(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Reader.table
    jobs = reader.table("attempts").unique("account", keep="first", maintain_order=True).drop_nulls("account").head(2)
    reports = jobs.select(
        "cluster", run_id=pl.lit("r"), session=pl.lit(""), job_id="job_id", place=pl.lit("lowest"), rank=pl.lit(0)
    )
    monkeypatch.setattr(Reader, "table", lambda self, table: reports if table == "rank_reports" else whole(self, table))
    for account, job in jobs.select("account", "job_id").rows():
        theirs = rows_of_accounts(reader, "rank_reports", [account])
        assert theirs.equals(reports.filter(pl.col("job_id") == job))


def test_rows_without_an_owner_are_refused(tmp_path: Path) -> None:
    root = from_accounting(tmp_path)
    with open_reader(root) as opened:
        account = opened.table("attempts")["account"].drop_nulls()[0]
    refused = trackside("export", "nodes", "--account", account, "--warehouse", str(root))
    assert refused.returncode == 2
    assert "their owner is unknown" in refused.stderr


def test_an_account_that_no_attempt_has_is_refused(reader: Reader) -> None:
    account = str(reader.table("attempts")["account"].drop_nulls()[0])
    with pytest.raises(UsageError, match=f"no attempt is of this account; did you mean {account}"):
        rows_of_accounts(reader, "attempts", [account + "x"])
