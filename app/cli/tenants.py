"""Rows of a table that belong to some accounts: those that a tenant may receive.

A row belongs to the accounts only if its attempt does, or all attempts of its job, or all attempts of its run. A row
in doubt belongs to no account.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.errors import UsageError
from metrics.frames import ATTEMPT_KEY
from queries.near_names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from queries.warehouse import Reader

JOB: Final = ("cluster", "scheduler", "job_id")
RUN: Final = ("cluster", "run_id")

OF_OTHERS: Final = ("made_room_for", "made_room_for_attempt", "preemptor", "preemptor_uid")
"""Columns that name another's run or pod: null in the rows of a tenant."""

_NUMBER: Final = "#"
"""Number of a row: no table has such a column."""


def rows_of_accounts(reader: Reader, name: str, accounts: Collection[str]) -> pl.DataFrame:
    """The rows of a table or view that are of these accounts, in its order.

    Args:
        reader: the warehouse.
        name: of the table.
        accounts: as Slurm's accounting names them.

    Raises:
        UsageError: no attempt is of one of the accounts, or no column of the table shows whose its rows are.
    """
    attempts = reader.table("attempts").select(*ATTEMPT_KEY, "account")
    _check(accounts, attempts["account"].drop_nulls().unique().sort().to_list())
    attempts = attempts.with_columns(theirs=pl.col("account").is_in(list(accounts)).fill_null(value=False))
    rows = reader.table(name).with_row_index(_NUMBER)
    columns = set(rows.columns)
    # A log's own run id may be that of another tenant's run: its job decides.
    if columns >= {"run_id", "job_id"} or columns >= set(JOB):
        owned = _by_job(rows, attempts)
    elif set(RUN) <= columns and "job_id" not in columns:
        runs = reader.table("run_attempts").join(attempts, on=ATTEMPT_KEY)
        owned = rows.join(_owned_entirely(runs, RUN), on=RUN, how="semi")
    elif "account" in columns:
        owned = rows.filter(pl.col("account").is_in(list(accounts)))
    else:
        raise UsageError(f"--account: rows of {name} name no account, attempt or run, so their owner is unknown")
    blank = [pl.lit(None, owned.schema[each]).alias(each) for each in OF_OTHERS if each in columns]
    return owned.sort(_NUMBER).drop(_NUMBER).with_columns(blank)


def _by_job(rows: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """Rows whose attempt is theirs, and of those that name a job without an attempt the jobs with no other attempt."""
    if "submitted_at" not in rows.columns:
        job = [name for name in JOB if name in rows.columns]
        return rows.join(_owned_entirely(attempts, job), on=job, how="semi")
    without = pl.col("submitted_at").is_null()
    return pl.concat(
        [
            rows.filter(~without).join(attempts.filter("theirs"), on=ATTEMPT_KEY, how="semi"),
            rows.filter(without).join(_owned_entirely(attempts, JOB), on=JOB, how="semi"),
        ]
    )


def _owned_entirely(attempts: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Jobs or runs all of whose attempts are theirs."""
    return attempts.group_by(key).agg(pl.col("theirs").all()).filter("theirs").select(key)


def _check(accounts: Collection[str], known: Collection[str]) -> None:
    for account in accounts:
        if account not in known:
            hint = did_you_mean(account, known)
            raise UsageError(f"--account {account}: no attempt is of this account{hint}")
